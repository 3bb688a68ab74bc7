"""The command `watchslo view`."""

import sys
from pathlib import Path
from typing import Literal

import click

from watchslo.cli.command import Command
from watchslo.cli.options import PATH, cert_dir_option, context_option, kubeconfig_option


@click.command(cls=Command, epilog="Example:  watchslo view -o table --service watchslo-sharded.watchslo.svc:9477")
@click.argument("urls", metavar="[URL]...", nargs=-1)
@click.option(
    "--service",
    "services",
    metavar="URL",
    multiple=True,
    help="URL whose host has the addresses of all instances, such as a headless Service; can be repeated.",
)
@click.option("--token-file", type=PATH, help="File with a token for the instances.")
@click.option("--ca-file", type=PATH, help="CA of the instances' certificates; default: the system's CAs.")
@click.option("--insecure", is_flag=True, help="Do not verify the certificates of the instances.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    help="Print one table, or one JSON object as /api/v1/overview has it, and exit; default: serve the page.",
)
@click.option("--listen", metavar="HOST:PORT", help="Address to serve at; default: 127.0.0.1:9478.")
@click.option(
    "--authorization",
    type=click.Choice(["none", "kubernetes"]),
    default="none",
    show_default=True,
    help="Whether readers of the page need a token that the cluster authorizes.",
)
@cert_dir_option
@kubeconfig_option
@context_option
def view(
    urls: tuple[str, ...],
    services: tuple[str, ...],
    token_file: Path | None,
    ca_file: Path | None,
    insecure: bool,  # noqa: FBT001 - a flag of the command line
    output: Literal["table", "json"] | None,
    listen: str | None,
    authorization: Literal["none", "kubernetes"],
    cert_dir: Path | None,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Show all instances of a cluster on one page.

    Asks each instance for its status and serves the verdict on all of them: the worst of theirs, and never a good one
    if an instance does not answer. It also shows what does not fit together, such as a missing shard, or a watch that
    is late for one instance and in time for another one. The cluster is only asked with --authorization kubernetes.

    With --output, it prints one result and exits with 0 if no watch is late, 1 if one is, 3 if neither is
    certain.
    """
    from watchslo.app.http_endpoint import DaemonCredentials
    from watchslo.app.view import Protection, ViewOptions, view

    protection = Protection(authorization, cert_dir, kubeconfig, context)
    credentials = DaemonCredentials(token_file, ca_file, insecure)
    sys.exit(view(ViewOptions(urls, services, credentials, listen, output or "page"), protection))
