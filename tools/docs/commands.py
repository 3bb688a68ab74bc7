"""The reference of the command line: the help of each command."""

import click

from watchslo.cli import commands

INTRODUCTION = """\
# The command line

The output of `watchslo COMMAND --help`; generated from the code by `make docs`. With
[the kubectl plugin](../howto/terminal.md#as-a-plugin-of-kubectl), `kubectl watchslo` does the same.

Every command has `-h, --help`; `-o, --output` is the format of what is printed. If a command fails, it exits with 2
and prints the reason in one sentence to the standard error. Commands that judge exit with 0 if the
verdict is good, 1 if it is bad, and 3 if it is unknown. Terminals get colours, unless the environment has `NO_COLOR`.
"""
HELP = "Show this message and exit."
WIDTH = 100


def page() -> str:
    """Return the page as Markdown."""
    whole = click.Context(commands, info_name="watchslo", terminal_width=WIDTH, help_option_names=["-h", "--help"])
    sections = [f"## watchslo\n\n{_help(commands, whole)}"]
    for name in commands.list_commands(whole):
        command = commands.commands[name]
        context = click.Context(command, info_name=name, parent=whole, terminal_width=WIDTH)
        sections.append(f"## watchslo {name}\n\n{_help(command, context)}")
    return "\n".join([INTRODUCTION, *sections])


def _help(command: click.Command, context: click.Context) -> str:
    shown = (line.rstrip() for line in command.get_help(context).splitlines() if not line.endswith(HELP))
    return "```\n" + "\n".join(shown).replace("\nOptions:\n\n", "\n") + "\n```\n"
