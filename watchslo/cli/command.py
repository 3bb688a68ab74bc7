"""The classes of all commands, and of the program: how lists and help show them."""

from collections.abc import Mapping, Sequence
from typing import Any

import click


class CommandGroup(click.Group):
    """The program: its help lists the commands under `headings`, which have the names of those that are listed."""

    def __init__(self, *, headings: Mapping[str, Sequence[str]], **options: Any) -> None:
        super().__init__(**options)
        self._headings = headings

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        del context
        width = max(len(name) for names in self._headings.values() for name in names)
        for heading, names in self._headings.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), self.commands[name].get_short_help_str()) for name in names])


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
