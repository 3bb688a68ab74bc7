"""The command `watchslo rules`."""

from pathlib import Path
from typing import Any

import click

from watchslo import RUNBOOKS
from watchslo.cli.command import Command
from watchslo.cli.options import config_option, histograms_option, job_selector_option


@click.command(
    cls=Command,
    epilog="Example:  watchslo rules --config watchslo.yaml --rule-labels release=prometheus | kubectl apply -f -",
)
@config_option
@click.option(
    "-o",
    "--output",
    "format",
    type=click.Choice(
        ["prometheusrule", "plain", "thanos", "mimir", "inhibitions", "pyrra", "sloth", "openslo", "grafana"]
    ),
    default="prometheusrule",
    show_default=True,
    help="For the Prometheus operator, for rule_files of Prometheus, for the ruler of Thanos, for `mimirtool rules "
    "load`, or for the configuration of Alertmanager; or the objectives alone, for Pyrra, Sloth, or a tool that reads "
    "OpenSLO; or the alerts alone, for Grafana to evaluate.",
)
@click.option(
    "--fleet",
    type=click.Choice(["cluster", "global"]),
    help="The rules of a fleet instead: those by which each cluster sums itself up in at most 20 series, or those of "
    "the global level that reads the series of all clusters.",
)
@click.option(
    "--alerts",
    type=click.Choice(["none", "essential", "all"]),
    help="Which alerts to write: none, those that page, or also those that are tickets; default: essential.",
)
@click.option(
    "--alert-labels",
    metavar="K=V",
    multiple=True,
    help="Label of each alert, for example team=platform; can be repeated.",
)
@click.option("--cluster-label", metavar="L", help="Label that names the cluster, if Prometheus scrapes several.")
@click.option(
    "--replica-label",
    metavar="L",
    help="With --fleet global: the label that distinguishes the Prometheus replicas of a cluster; default: replica.",
)
@job_selector_option
@click.option(
    "--rule-labels",
    metavar="K=V",
    multiple=True,
    help="Label of the PrometheusRule, or of the objects of Pyrra or Sloth; can be repeated.",
)
@click.option("--datasource-uid", metavar="UID", help="With -o grafana: the data source to query; default: prometheus.")
@click.option("--runbooks", metavar="URL", help=f"Base URL of the runbooks; default: {RUNBOOKS}.")
@click.option("--grafana", metavar="URL", help="Base URL of Grafana, by which alerts link to their dashboards.")
@click.option(
    "--shrink",
    type=click.IntRange(min=1),
    default=1,
    help="Divide all windows, waits and intervals by this number, to see alerts fire in a trial.",
)
@histograms_option
def rules(config: Path | None, **options: Any) -> None:
    """Print the recording rules and alerts for a configuration."""
    from watchslo.app.rules import RulesOptions, rules

    rules(config, RulesOptions(**options))
