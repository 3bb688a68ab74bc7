"""The command `watchslo version`."""

import click

from watchslo import __version__
from watchslo.cli.command import Command


@click.command(cls=Command, hidden=True, epilog="Example:  watchslo version")
def version() -> None:
    """Print the version, as --version does."""
    click.echo(f"watchslo, version {__version__}")
