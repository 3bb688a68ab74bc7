"""The command `watchslo verify`."""

import sys
from pathlib import Path
from typing import Literal

import click

from watchslo.cli.command import Command
from watchslo.cli.options import (
    config_option,
    context_option,
    kubeconfig_option,
    namespace_option,
    output_option,
    to_seconds,
)


@click.command(cls=Command, epilog="Example:  watchslo verify --duration 10m --each --resource pods -o json")
@config_option
@kubeconfig_option
@context_option
@click.option("--duration", default="5m", show_default=True, help="How long to verify, 5s to 24h.")
@click.option("--each", is_flag=True, help="Watch every apiserver behind the service, and compare them.")
@click.option(
    "--compare",
    metavar="NAME",
    multiple=True,
    help="Context, or URL of an apiserver of the same storage: compare them; name two or more.",
)
@click.option(
    "--tolerance",
    callback=to_seconds,
    default="50ms",
    show_default=True,
    help="With --compare: how much slower than the fastest an apiserver may be.",
)
@click.option("--replay", is_flag=True, help="Begin at the oldest revision in reach: verify the past as well.")
@click.option("--inventory", is_flag=True, help="List all objects first, so that the types of events are verified too.")
@click.option("--resource", "resources", multiple=True, help="Watch only this resource; can be repeated.")
@namespace_option
@output_option
def verify(
    config: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    duration: str,
    each: bool,  # noqa: FBT001 - a flag of the command line
    compare: tuple[str, ...],
    tolerance: float,
    replay: bool,  # noqa: FBT001 - a flag of the command line
    inventory: bool,  # noqa: FBT001 - a flag of the command line
    resources: tuple[str, ...],
    namespace: str | None,
    output: Literal["table", "json"],
) -> None:
    """Verify that watches lose, repeat and reorder no event.

    Every event is read a second time, and compared. Exits with 0 if no guarantee was violated, 1 if one was or an
    apiserver of --compare is slower, 3 if no event arrived.
    """
    from watchslo.app.verify import VerifyOptions, verify

    options = VerifyOptions(duration, resources, each, replay, inventory, compare, tolerance, namespace)
    sys.exit(verify(config, kubeconfig, context, options, output))
