"""The command `watchslo completion`."""

import click
from click.shell_completion import get_completion_class

from watchslo.cli.command import Command


@click.command(
    cls=Command, epilog="Example:  watchslo completion bash > ~/.local/share/bash-completion/completions/watchslo"
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for your shell.

    For zsh, save it as _watchslo in a folder of $fpath; for fish, as ~/.config/fish/completions/watchslo.fish. Or
    source it in the startup file of your shell.
    """
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(context.find_root().command, {}, "watchslo", "_WATCHSLO_COMPLETE").source())
