"""The class of all commands: how lists and help show them."""

import click


class Command(click.Command):
    """A command whose example names the program as it was called."""

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the whole first sentence: lists of commands wrap it, and shells show it next to completions."""
        del limit
        return (self.help or "").partition("\n")[0]

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        program = context.find_root().info_name or "watchslo"
        if self.epilog:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write(f"{' ' * formatter.current_indent}{self.epilog.replace('watchslo', program, 1)}\n")
