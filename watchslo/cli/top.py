"""The command `watchslo top`."""

import sys
from pathlib import Path

import click

from watchslo.cli.command import Command
from watchslo.cli.options import PATH, context_option, kubeconfig_option


@click.command(cls=Command, epilog="Example:  watchslo top http://127.0.0.1:9477")
@click.argument("url", required=False)
@kubeconfig_option
@context_option
@click.option("--token-file", type=PATH, help="File with a token for the daemon.")
@click.option("--ca-file", type=PATH, help="CA of the daemon's certificate; default: the system's CAs.")
@click.option("--insecure", is_flag=True, help="Do not verify the daemon's certificate.")
@click.option("--once", is_flag=True, help="Print one table and exit; without a URL, after measuring for 10 s.")
@click.option("--watch", metavar="NAME", help="With --once: print everything about this watch instead of the table.")
def top(
    url: str | None,
    kubeconfig: Path | None,
    context: str | None,
    token_file: Path | None,
    ca_file: Path | None,
    insecure: bool,  # noqa: FBT001 - a flag of the command line
    once: bool,  # noqa: FBT001 - the same
    watch: str | None,
) -> None:
    """Show live figures of a daemon or a cluster in a terminal.

    With the URL of a daemon (watchslo run or demo), it shows the figures of that daemon. Without a URL, it measures the
    cluster of the current kubeconfig itself until you quit.

    With --once, it exits with 0 if a watch is open, 3 if none is.
    """
    from watchslo.app.http_endpoint import DaemonCredentials
    from watchslo.app.top import TopOptions, top

    sys.exit(top(TopOptions(url, DaemonCredentials(token_file, ca_file, insecure), kubeconfig, context, once, watch)))
