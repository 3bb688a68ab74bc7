"""The command `watchslo demo`."""

import click

from watchslo.cli.command import Command
from watchslo.cli.options import to_seconds


@click.command(cls=Command, epilog="Example:  watchslo demo --duration 60s")
@click.option("--duration", callback=to_seconds, help="How long to run, such as 60s; default: until Ctrl-C.")
@click.option("--fault", metavar="NAME", help="Inject only this fault, repeatedly; `help` lists all faults.")
@click.option("--listen", metavar="HOST:PORT", help="Address to serve at; default: a free port of 127.0.0.1.")
def demo(duration: float | None, fault: str | None, listen: str | None) -> None:
    """Measure a simulated cluster with changing faults."""
    from watchslo.app.demo import demo, faults

    if fault == "help":
        click.echo(faults())
        return
    demo(duration, listen, fault)
