"""The command `watchslo validate`."""

from pathlib import Path

import click

from watchslo.cli.command import Command
from watchslo.cli.options import PATH


@click.command(cls=Command, epilog="Example:  watchslo validate watchslo.yaml")
@click.argument("file", type=PATH)
def validate(file: Path) -> None:
    """Check a configuration file."""
    from watchslo.config.loading import load

    load(file)
    click.echo(f"{file}: valid")
