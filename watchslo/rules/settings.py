"""The settings of rules that are not in the configuration: Prometheus labels, runbook addresses, and a time scale."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from watchslo import RUNBOOKS
from watchslo.config.values import format_duration
from watchslo.errors import ConfigError
from watchslo.rules.rule import DISTINGUISHING
from watchslo.rules.timespans import CLASSIC, NATIVE, Histograms, TimespanForm

RESERVED_LABELS = frozenset(
    {"watch", "group", "resource", "apiserver", "job", "instance", "severity", "slo", "version"}
)
SHORTEST_RANGE_SECONDS = 10.0  # a rate needs two scrapes, and scrapes are seldom less than 1 or 2 s apart
SHORTEST_INTERVAL_SECONDS = 1.0

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_MATCHER = r"\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*\"(?:[^\"\\\n`]|\\.)+\"\s*"
_SELECTOR = re.compile(rf"{_MATCHER}(?:,{_MATCHER})*")
_KUBERNETES_KEY = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
)
_KUBERNETES_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """How rules are written.

    `cluster_label` is the label that distinguishes clusters if one Prometheus scrapes several. `job_selector` selects
    the targets, `runbooks` is the address of the runbooks, `grafana` that of a Grafana with the dashboards.
    All windows, waits and intervals are divided by `shrink`.
    `replica_label` distinguishes the Prometheus replicas of a cluster at the global level of a fleet.
    `histograms` says in which form Prometheus stores the histogram of latencies.
    """

    cluster_label: str | None = None
    job_selector: str = 'job="watchslo"'
    runbooks: str = RUNBOOKS
    grafana: str = ""
    shrink: int = 1
    replica_label: str = "replica"
    histograms: Histograms = Histograms.CLASSIC

    def __post_init__(self) -> None:
        """Check the values; raises ConfigError, naming the option of the command line."""
        if self.cluster_label is not None:
            _check_label("--cluster-label", self.cluster_label, "cluster", RESERVED_LABELS)
        _check_label("--replica-label", self.replica_label, "replica", RESERVED_LABELS - {"instance"})
        if self.replica_label == self.cluster_label:
            raise ConfigError(f"--replica-label: {self.replica_label} is the cluster label; write for example replica")
        if not _SELECTOR.fullmatch(self.job_selector):
            raise ConfigError(
                f'--job-selector: {self.job_selector} is not a selector; write for example job="watchslo"'
            )

    @property
    def timespans(self) -> TimespanForm:
        """The expressions about the histogram of latencies."""
        return NATIVE if self.histograms is Histograms.NATIVE else CLASSIC

    @property
    def cluster(self) -> tuple[str, ...]:
        """The cluster label as a tuple; empty without one."""
        return () if self.cluster_label is None else (self.cluster_label,)

    def runbook(self, alert: str) -> str:
        """Return the address of the runbook of an alert."""
        return f"{self.runbooks.rstrip('/')}/{alert}.md"

    def dashboard(self, uid: str) -> Mapping[str, str]:
        """Return the annotation with the address of a dashboard; empty if no Grafana is named."""
        return {"dashboard_url": f"{self.grafana.rstrip('/')}/d/{uid}"} if self.grafana else {}

    def span(self, seconds: float) -> str:
        """Return the range of a query, as a PromQL duration."""
        return format_duration(max(round(seconds / self.shrink), SHORTEST_RANGE_SECONDS))

    def interval(self, seconds: float) -> float:
        """Return the seconds between two evaluations."""
        return float(max(round(seconds / self.shrink), SHORTEST_INTERVAL_SECONDS))

    def wait(self, seconds: float) -> str:
        """Return how long an alert is pending, as a PromQL duration."""
        return format_duration(max(round(seconds / self.shrink), SHORTEST_INTERVAL_SECONDS))


def _check_label(option: str, label: str, example: str, reserved: Collection[str]) -> None:
    if not _LABEL.fullmatch(label):
        raise ConfigError(f"{option}: {label} is not a valid label name; write for example {example}")
    if label in reserved:
        raise ConfigError(f"{option}: {label} has another meaning here; write for example {example}")


def parse_alert_labels(texts: Iterable[str]) -> dict[str, str]:
    """Parse labels of alerts, each given as `name=value`; raises ConfigError."""
    labels = dict(text.partition("=")[::2] for text in texts)
    for label, value in labels.items():
        if not value:
            raise ConfigError(f"--alert-labels: {label} has no value; write for example team=platform")
        _check_label("--alert-labels", label, "team", RESERVED_LABELS | {"alertname", "short", *DISTINGUISHING})
    return labels


def parse_labels(texts: Iterable[str]) -> dict[str, str]:
    """Parse labels of a Kubernetes object, each given as `key=value`; raises ConfigError."""
    labels: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not _KUBERNETES_KEY.fullmatch(key) or not _KUBERNETES_VALUE.fullmatch(value):
            raise ConfigError(f"--rule-labels: {text} is not a valid label; write for example release=prometheus")
        if labels.setdefault(key, value) != value:
            raise ConfigError(f"--rule-labels: {key} has two values, {labels[key]} and {value}; keep one of them")
    return labels
