"""The command `watchslo check`."""

import sys
from pathlib import Path
from typing import Literal

import click

from watchslo.cli.command import Command
from watchslo.cli.options import config_option, context_option, kubeconfig_option, namespace_option, output_option


@click.command(
    cls=Command, epilog="Example:  watchslo check --duration 60s --resource pods --resource leases.coordination.k8s.io"
)
@config_option
@kubeconfig_option
@context_option
@click.option("--duration", default="60s", show_default=True, help="How long to measure, 5s to 5m.")
@click.option("--threshold", help="Threshold of the objective; default: that of the configuration (1s).")
@click.option("--resource", "resources", multiple=True, help="Measure only this resource; can be repeated.")
@namespace_option
@output_option
def check(
    config: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    duration: str,
    threshold: str | None,
    resources: tuple[str, ...],
    namespace: str | None,
    output: Literal["table", "json"],
) -> None:
    """Measure a cluster once and print the result.

    Exits with 0 if the verdict is good, 1 if it is bad, 2 if it is unknown.
    """
    from watchslo.app.check import CheckOptions, check

    options = CheckOptions(duration=duration, threshold=threshold, resources=resources, namespace=namespace)
    sys.exit(check(config, kubeconfig, context, options, output))
