"""The command `watchslo healthy`."""

from pathlib import Path

import click

from watchslo.cli.command import Command
from watchslo.cli.exits import EXIT_UNHEALTHY, give_up
from watchslo.cli.options import config_option
from watchslo.errors import WatchsloError


@click.command(cls=Command, hidden=True, epilog="Example:  watchslo healthy --url http://127.0.0.1:9477")
@config_option
@click.option("--url", help="URL of the daemon; default: the address in the configuration.")
def healthy(config: Path | None, url: str | None) -> None:
    """Check the health of a local daemon.

    For probes of containers. A liveness probe should pass --url: then an edited configuration that the running daemon
    refuses does not make the probe fail.

    Exits with 0 if the daemon is healthy, 1 if not.
    """
    from watchslo.app.healthy import healthy

    try:
        click.echo(healthy(config, url))
    except WatchsloError as error:
        give_up(str(error), EXIT_UNHEALTHY)
