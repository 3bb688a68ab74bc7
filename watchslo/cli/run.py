"""The command `watchslo run`."""

from pathlib import Path
from typing import Literal

import click

from watchslo.cli.command import Command
from watchslo.cli.options import cert_dir_option, config_option, context_option, kubeconfig_option


@click.command(cls=Command, epilog="Example:  watchslo run --context prod --listen 127.0.0.1:9477")
@config_option
@kubeconfig_option
@context_option
@click.option("--listen", metavar="HOST:PORT", help="Address to serve at; port 0 takes a free port.")
@click.option("--log-format", type=click.Choice(["json", "console"]), help="Default: json.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="Default: info.")
@click.option(
    "--authorization",
    type=click.Choice(["none", "kubernetes"]),
    help="Whether HTTP clients need a token that the cluster authorizes; default: none.",
)
@cert_dir_option
def run(
    config: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    listen: str | None,
    log_format: Literal["json", "console"] | None,
    log_level: str | None,
    authorization: Literal["none", "kubernetes"] | None,
    cert_dir: Path | None,
) -> None:
    """Run the daemon: measure a cluster and serve the figures."""
    from watchslo.app.imports import hidden

    with hidden("rich"):  # structlog would import it for tracebacks in colour, which we never log: 3 MiB
        from watchslo.app.run import Overrides, run

    run(
        config,
        Overrides(
            kubeconfig=kubeconfig,
            context=context,
            listen=listen,
            log_format=log_format,
            log_level=log_level,
            authorization=authorization,
            cert_dir=cert_dir,
        ),
    )
