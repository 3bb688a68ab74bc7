"""The exit codes of commands, and how a command fails."""

import sys
from typing import NoReturn

import click

EXIT_UNHEALTHY = 1
EXIT_UNUSABLE = 2  # also click's own code for bad arguments
EXIT_SIGNAL = 128  # and the number of the signal, as shells have it


def give_up(message: str, code: int = EXIT_UNUSABLE) -> NoReturn:
    """Print why the program cannot do what it was called for, and exit."""
    click.echo(f"watchslo: {message}", err=True)
    sys.exit(code)
