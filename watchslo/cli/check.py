"""The command `watchslo check`."""

import sys
from pathlib import Path
from typing import Literal

import click

from watchslo.cli.command import Command
from watchslo.cli.options import config_option, kubeconfig_option, namespace_option, output_option


@click.command(cls=Command, epilog="Example:  watchslo check pods leases.coordination.k8s.io --context 'prod-.*'")
@click.argument("resources", metavar="[RESOURCE]...", nargs=-1)
@config_option
@kubeconfig_option
@click.option(
    "--context",
    help="Context of the kubeconfig, or a regular expression: all contexts whose whole name matches it are measured.",
)
@click.option("--duration", default="60s", show_default=True, help="How long to measure, 5s to 5m.")
@click.option("--threshold", help="Threshold of the objective; default: that of the configuration (1s).")
@namespace_option
@output_option
def check(
    resources: tuple[str, ...],
    config: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    duration: str,
    threshold: str | None,
    namespace: str | None,
    output: Literal["table", "json"],
) -> None:
    """Measure a cluster once and print the result.

    Measures the resources of the configuration, or only those that are named. Exits with 0 if the verdict is good, 1 if
    it is bad, 3 if it is unknown. If --context matches several contexts, their clusters are measured at the same time,
    and the exit code is that of the worst one: bad is worse than unknown.
    """
    from watchslo.app.check import CheckOptions, check

    options = CheckOptions(duration=duration, threshold=threshold, resources=resources, namespace=namespace)
    sys.exit(check(config, kubeconfig, context, options, output))
