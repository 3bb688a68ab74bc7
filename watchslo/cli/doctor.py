"""The command `watchslo doctor`."""

import sys
from pathlib import Path
from typing import Any, Literal

import click

from watchslo.cli.command import Command
from watchslo.cli.options import (
    PATH,
    config_option,
    context_option,
    histograms_option,
    job_selector_option,
    kubeconfig_option,
    output_option,
)


@click.command(
    cls=Command,
    epilog="Example:  watchslo doctor --config watchslo.yaml --prometheus http://prometheus.monitoring:9090",
)
@config_option
@kubeconfig_option
@context_option
@click.option("-n", "--namespace", default="watchslo", show_default=True, help="Namespace that watchslo runs in.")
@click.option("--instance", metavar="URL", help="A running instance to ask.")
@click.option("--prometheus", metavar="URL", help="The Prometheus that scrapes watchslo.")
@click.option("--alertmanager", metavar="URL", help="The Alertmanager that gets the alerts.")
@job_selector_option
@click.option("--cluster-label", metavar="L", help="Label that names the cluster, as for `watchslo rules`.")
@histograms_option
@click.option(
    "--dashboards",
    metavar="DIR",
    type=PATH,
    help="Dashboards to try; default: those of the checkout, or else all metrics.",
)
@click.option("--token-file", type=PATH, help="File with a token for the instance.")
@click.option(
    "--prometheus-token-file",
    type=PATH,
    help="File with a token for Prometheus and Alertmanager.",
)
@click.option("--ca-file", type=PATH, help="CA of these servers' certificates; default: the system's CAs.")
@click.option("--insecure", is_flag=True, help="Do not verify these servers' certificates.")
@output_option
def doctor(
    config: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    output: Literal["table", "json"],
    **options: Any,
) -> None:
    """Find out whether a deployment is right, and how to fix it.

    Checks the rights, the addresses of the apiservers, the clocks, and the monitors of the Prometheus operator; with
    their URLs also a running instance, Prometheus (scrapes, rules, data of the dashboards) and Alertmanager. Run it
    with the configuration and the identity of the daemon, such as in its pod. It only reads, and takes up to a minute.

    Exits with 0 if no problem was found, 1 if there is one, 2 if it could not start.
    """
    from watchslo.app.doctor import DoctorOptions, doctor
    from watchslo.app.http_endpoint import DaemonCredentials

    credentials = DaemonCredentials(options.pop("token_file"), options.pop("ca_file"), options.pop("insecure"))
    sys.exit(doctor(config, kubeconfig, context, DoctorOptions(**options, credentials=credentials), output))
