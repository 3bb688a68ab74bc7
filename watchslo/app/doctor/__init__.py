"""`watchslo doctor`: checks whether a deployment is right, and says how to fix what is not."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from watchslo import __version__
from watchslo.app import logs
from watchslo.app.doctor.addresses import Reach, tcp_reach, unreached
from watchslo.app.doctor.alertmanager import UNSEEN, check_inhibitions
from watchslo.app.doctor.cluster import ClusterChecks, limited
from watchslo.app.doctor.findings import (
    DeploymentFinding,
    FindingLevel,
    document,
    exit_code,
    problem,
    summary,
    unchecked,
    warning,
    worst_first,
)
from watchslo.app.doctor.instance import check_instance
from watchslo.app.doctor.loaded_rules import check_rules
from watchslo.app.doctor.monitors import NAMESPACE
from watchslo.app.doctor.panels import CHECKOUT, PanelQuery, catalogue_queries, check_panels, dashboard_queries
from watchslo.app.doctor.prometheus import check_alertmanagers, check_scrapes
from watchslo.app.http_endpoint import NO_CREDENTIALS, DaemonCredentials, HttpEndpoint
from watchslo.app.prometheus_client import Prometheus
from watchslo.app.session import run_on_loop
from watchslo.app.table import plain_console
from watchslo.config.loading import load
from watchslo.config.model import Config
from watchslo.errors import ConfigError
from watchslo.kube.connect import connect
from watchslo.rules.inhibitions import inhibitions
from watchslo.rules.pack import rule_groups
from watchslo.rules.settings import RuleSettings
from watchslo.rules.timespans import Histograms
from watchslo.serve.metrics import Detail
from watchslo.timeline.format import printable

PANELS_SECONDS = 30.0  # for all queries of the dashboards
STYLES = {
    FindingLevel.PROBLEM: "bold red",
    FindingLevel.WARNING: "yellow",
    FindingLevel.UNCHECKED: "dim",
    FindingLevel.GOOD: "green",
}
DeploymentCheck = Callable[[], Coroutine[Any, Any, list[DeploymentFinding]]]
"""Made after all options have proven to be usable."""


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """Options of the command line; servers without a URL are not asked.

    `credentials` are for the instance. Prometheus and Alertmanager get a token of their own, and the same CA.
    """

    namespace: str = "watchslo"
    instance: str | None = None
    prometheus: str | None = None
    alertmanager: str | None = None
    job_selector: str | None = None
    cluster_label: str | None = None
    histograms: Literal["classic", "native"] = "classic"
    dashboards: Path | None = None
    credentials: DaemonCredentials = NO_CREDENTIALS
    prometheus_token_file: Path | None = None

    @property
    def rule_settings(self) -> RuleSettings:
        """The settings of the rules that should be loaded; raises ConfigError."""
        settings = RuleSettings(cluster_label=self.cluster_label, histograms=Histograms(self.histograms))
        return settings if self.job_selector is None else replace(settings, job_selector=self.job_selector)

    @property
    def monitoring_credentials(self) -> DaemonCredentials:
        """The credentials for Prometheus and Alertmanager."""
        return DaemonCredentials(
            self.prometheus_token_file, self.credentials.ca_file, insecure=self.credentials.insecure
        )


def doctor(
    file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    options: DoctorOptions,
    output: Literal["table", "json"],
) -> int:
    """Check, print the findings, and return the exit code; raise WatchsloError if the options cannot be used."""
    logs.set_up("console", "error")
    if not NAMESPACE.fullmatch(options.namespace):
        raise ConfigError(f"--namespace: {options.namespace} is not the name of a namespace")
    config = load(file)[0]
    connection = connect(
        str(kubeconfig) if kubeconfig else config.kubernetes.kubeconfig, context or config.kubernetes.context
    )
    checks = (
        ClusterChecks(config, connection, options.namespace).findings,
        _instance_check(options),
        _prometheus_check(config, options),
        _alertmanager_check(options),
    )
    findings = worst_first(run_on_loop(_examine(checks)))
    if output == "json":
        print(json.dumps(document(findings), indent=2))  # noqa: T201 - the output of the command
    else:
        _print(findings)
    return exit_code(findings)


async def _examine(checks: Sequence[DeploymentCheck]) -> list[DeploymentFinding]:
    """Make all checks at the same time; those of the cluster are one check."""
    return [finding for findings in await asyncio.gather(*(check() for check in checks)) for finding in findings]


def _leave_out(finding: DeploymentFinding) -> DeploymentCheck:
    async def check() -> list[DeploymentFinding]:
        return [finding]

    return check


def _instance_check(options: DoctorOptions) -> DeploymentCheck:
    if options.instance is None:
        return _leave_out(unchecked("instance", "No running instance was asked; pass --instance URL."))
    server = _endpoint("--instance", options.instance, options.credentials, "a daemon")

    async def check() -> list[DeploymentFinding]:
        async with server as endpoint:
            return await limited("instance", check_instance(endpoint, __version__))

    return check


def _prometheus_check(config: Config, options: DoctorOptions) -> DeploymentCheck:
    if options.prometheus is None:
        why = "Scrapes, loaded rules and dashboards were not checked; pass --prometheus URL."
        return _leave_out(unchecked("Prometheus", why))
    server = _endpoint("--prometheus", options.prometheus, options.monitoring_credentials, "a Prometheus")
    settings = options.rule_settings
    queries = _queries(options.dashboards, settings)

    async def check(endpoint: HttpEndpoint) -> list[DeploymentFinding]:
        prometheus, detail = Prometheus(endpoint), Detail(config.detail)
        found = [
            *await limited("scrapes", check_scrapes(prometheus, settings.job_selector, __version__)),
            *await limited("rules", check_rules(prometheus, rule_groups(config, settings))),
            *await limited("alerts", check_alertmanagers(prometheus)),
            *await limited("dashboards", check_panels(prometheus, queries, detail), PANELS_SECONDS),
        ]
        remedy = "Look at what it stores and queries: metrics may be missing in the findings about it."
        return [*found, *(warning("Prometheus", doubt, remedy) for doubt in prometheus.doubts)]

    return partial(_ask, "Prometheus", server, check)


def _alertmanager_check(options: DoctorOptions) -> DeploymentCheck:
    if options.alertmanager is None:
        return _leave_out(unchecked("inhibitions", UNSEEN))
    server = _endpoint("--alertmanager", options.alertmanager, options.monitoring_credentials, "an Alertmanager")
    ours = inhibitions(options.rule_settings)

    async def check(endpoint: HttpEndpoint) -> list[DeploymentFinding]:
        return await limited("inhibitions", check_inhibitions(endpoint, ours))

    return partial(_ask, "inhibitions", server, check)


async def _ask(
    subject: str, server: HttpEndpoint, check: Callable[[HttpEndpoint], Awaitable[list[DeploymentFinding]]]
) -> list[DeploymentFinding]:
    """Return the findings of a check, or one that says why its server cannot be reached."""
    reach = await tcp_reach(server.place)
    if reach is not Reach.OPEN:
        why = f"{server.place}: {unreached(server.place, reach)}"
        return [problem(subject, why, "Correct its URL, or run this where it can be reached (port-forward).")]
    async with server as endpoint:
        return await check(endpoint)


def _queries(folder: Path | None, settings: RuleSettings) -> list[PanelQuery]:
    """Return the queries of the dashboards in a folder or a checkout; else those of the metrics that panels need."""
    if folder is not None or CHECKOUT.is_dir():
        return dashboard_queries(folder or CHECKOUT)
    return catalogue_queries(settings.job_selector)


def _endpoint(option: str, url: str, credentials: DaemonCredentials, kind: str) -> HttpEndpoint:
    try:
        return HttpEndpoint(url, credentials, kind)
    except ConfigError as error:
        raise ConfigError(f"{option}: {error}") from None


def _print(findings: list[DeploymentFinding]) -> None:
    console = plain_console()
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        text = printable(f"{finding.text} {finding.remedy}".rstrip())
        table.add_row(finding.level.value, finding.subject, text, style=STYLES[finding.level])
    console.print(table)
    console.print(summary(findings), style=STYLES[findings[0].level])
