"""The command `watchslo rehearse`."""

import sys
from pathlib import Path
from typing import Any, Literal

import click

from watchslo.cli.command import Command
from watchslo.cli.options import context_option, kubeconfig_option, output_option

STRATEGIES = ("tail", "paged", "parallel", "stream", "cache")
REHEARSED = (*STRATEGIES, "relist", "relist-paged", "watch-zero")
LARGEST_SIZE = 2**50


def _to_bytes(context: click.Context, parameter: click.Parameter, value: str) -> int:
    """Return the bytes of `256Mi` or `2Gi`."""
    from watchslo.config.values import parse_size

    try:
        return parse_size(value, 1, LARGEST_SIZE)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None


@click.command(cls=Command, epilog="Example:  watchslo rehearse pods deployments.apps --repeat 3")
@click.argument("resources", metavar="[RESOURCE]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Rehearse all resources but secrets; start no run after 15 minutes.")
@kubeconfig_option
@context_option
@click.option("-n", "--namespace", help="List only objects of this namespace; default: all namespaces.")
@click.option(
    "--strategy",
    "strategies",
    type=click.Choice(["all", *REHEARSED]),
    multiple=True,
    default=STRATEGIES,
    show_default=True,
    help="List strategy; can be repeated.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1, max=100),
    default=1,
    show_default=True,
    help="Runs of each strategy, in turns.",
)
@click.option(
    "--max-bytes",
    metavar="SIZE",
    callback=_to_bytes,
    default="256Mi",
    show_default=True,
    help="Refuse a resource whose list is larger, as estimated from its first objects.",
)
@click.option("--dry-run", is_flag=True, help="Only count the objects, and print which runs there would be.")
@output_option
def rehearse(
    resources: tuple[str, ...],
    kubeconfig: Path | None,
    context: str | None,
    output: Literal["table", "json"],
    **options: Any,
) -> None:
    """Find out how your informers should list.

    Starts an informer in different ways, one after the other: it lists, opens a watch, keeps it open for a second, and
    stops. It receives whole objects as JSON. By default it rehearses the first five strategies:

    \b
    tail          lists nothing and watches: for clients that keep no objects
    paged         lists in pages of 500, then watches from the list's revision
    parallel      opens the watch with the first page, and lists the other pages at the same time
    stream        receives the objects in the watch (WatchList)
    cache         lists all objects at once from the apiserver's cache (resourceVersion=0)
    relist        lists again as client-go does after a disconnect (resourceVersion=n, without a limit)
    relist-paged  lists again in pages (resourceVersion=n, resourceVersionMatch=NotOlderThan)
    watch-zero    lists nothing: a watch from resourceVersion=0 brings the cached objects

    It only reads. A run of any strategy except tail costs the apiserver what the start of one controller costs: it
    lists every object, as fast as the apiserver answers.

    Exits with 0 if all runs were done, whatever their results, 2 if one was impossible, 130 if interrupted.
    """  # noqa: D301 - click keeps the lines after this character
    from watchslo.app.rehearse import rehearse
    from watchslo.rehearse.options import RehearseOptions

    sys.exit(rehearse(kubeconfig, context, RehearseOptions(resources, **options), output))
