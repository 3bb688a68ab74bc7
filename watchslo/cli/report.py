"""The command `watchslo report`."""

from pathlib import Path
from typing import Any

import click

from watchslo.cli.command import Command
from watchslo.cli.options import PATH


@click.command(cls=Command, epilog="Example:  watchslo report --since 2h > incident.html")
@click.argument("url", required=False)
@click.option(
    "--since",
    metavar="TIME",
    default="1h",
    show_default=True,
    help="Begin of the period: so long ago, or a time such as 2026-03-01T14:00:00Z.",
)
@click.option("--until", metavar="TIME", help="End of the period, in the same form; default: now.")
@click.option("--prometheus", metavar="URL", help="Ask the Prometheus that scrapes watchslo instead of a daemon.")
@click.option(
    "--job-selector", metavar="S", help='With --prometheus: matchers of the targets; default: job="watchslo".'
)
@click.option("--cluster-label", metavar="L", help="With --prometheus: label that names the cluster.")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["html", "markdown", "brief"]),
    default="html",
    show_default=True,
    help="Print a page, Markdown, or a few lines for one message in a chat.",
)
@click.option("--token-file", type=PATH, help="File with a token for the daemon, or Prometheus.")
@click.option("--ca-file", type=PATH, help="CA of the server's certificate; default: the system's CAs.")
@click.option("--insecure", is_flag=True, help="Do not verify the server's certificate.")
def report(
    url: str | None,
    token_file: Path | None,
    ca_file: Path | None,
    insecure: bool,  # noqa: FBT001 - a flag of the command line
    **options: Any,
) -> None:
    """Print a report on an incident: what was late, and why.

    One document that needs nothing else: the answer first, then the timeline, the charts, the causes, and what was not
    known. It comes from a running daemon (by default, that of this machine), which remembers a day, and curves for an
    hour; or from Prometheus, for any time that it keeps. It has no names, labels or contents of objects.

    Exits with 0 if the report is printed, whatever it says, 2 if not.
    """
    from watchslo.app.http_endpoint import DaemonCredentials
    from watchslo.app.report import ReportOptions, report

    if url is not None and options["prometheus"] is not None:
        raise click.UsageError("Pass the URL of a daemon or --prometheus, not both.")
    if options["prometheus"] is None and (options["job_selector"] or options["cluster_label"]):
        raise click.UsageError("--job-selector and --cluster-label need --prometheus.")
    report(ReportOptions(url, **options, credentials=DaemonCredentials(token_file, ca_file, insecure)))
