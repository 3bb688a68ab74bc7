"""The reference of the command line: what each command says of itself."""

import click

from watchslo.cli import commands

INTRODUCTION = """\
# The command line

What `watchslo COMMAND --help` says; generated from the code by `make docs`. With
[the plugin of kubectl](../howto/terminal.md#as-a-plugin-of-kubectl), `kubectl watchslo` is the same.

Every command exits with 2 where it cannot do what it should, and says why in one sentence on the standard error.
"""
WIDTH = 100


def page() -> str:
    """The page, in Markdown."""
    whole = click.Context(commands, info_name="watchslo", terminal_width=WIDTH, help_option_names=["-h", "--help"])
    sections = [f"## watchslo\n\n{_help(commands, whole)}"]
    for name in commands.list_commands(whole):
        command = commands.commands[name]
        context = click.Context(command, info_name=name, parent=whole, terminal_width=WIDTH)
        sections.append(f"## watchslo {name}\n\n{_help(command, context)}")
    return "\n".join([INTRODUCTION, *sections])


def _help(command: click.Command, context: click.Context) -> str:
    lines = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    return f"```\n{lines}\n```\n"
