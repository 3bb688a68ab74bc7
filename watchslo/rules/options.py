"""What the configuration cannot know: how Prometheus labels what it scrapes, and how the rules are to be found."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from watchslo.config import format_duration
from watchslo.errors import ConfigError

OURS = frozenset({"watch", "group", "resource", "apiserver", "job", "instance", "severity", "slo"})
SHORTEST_RANGE_SECONDS = 10.0  # a rate needs two scrapes, and nobody scrapes more often than every second or two
SHORTEST_INTERVAL_SECONDS = 1.0

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_MATCHER = r"\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*\"(?:[^\"\\\n`]|\\.)+\"\s*"
_SELECTOR = re.compile(rf"{_MATCHER}(?:,{_MATCHER})*")
_KUBERNETES_KEY = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
)
_KUBERNETES_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


@dataclass(frozen=True, slots=True)
class Options:
    """How the rules are to be written.

    `cluster_label` is a label that tells clusters apart, if one Prometheus scrapes several, `job_selector` what selects
    the targets, and `runbooks` where the runbooks are. All windows, waits and intervals are divided by `shrink`.
    """

    cluster_label: str | None = None
    job_selector: str = 'job="watchslo"'
    runbooks: str = "docs/runbooks"
    shrink: int = 1

    def __post_init__(self) -> None:
        """Raises ConfigError, naming the option of the command line."""
        label = self.cluster_label
        if label is not None and not _LABEL.fullmatch(label):
            raise ConfigError(f"--cluster-label: {label} is no name of a label; write for example cluster")
        if label in OURS:
            raise ConfigError(f"--cluster-label: {label} means something else here; write for example cluster")
        if not _SELECTOR.fullmatch(self.job_selector):
            raise ConfigError(f'--job-selector: {self.job_selector} selects nothing; write for example job="watchslo"')

    @property
    def cluster(self) -> tuple[str, ...]:
        """The labels that a cluster is known by: one, or none."""
        return () if self.cluster_label is None else (self.cluster_label,)

    def span(self, seconds: float) -> str:
        """A range to look back over, as PromQL writes it."""
        return format_duration(max(round(seconds / self.shrink), SHORTEST_RANGE_SECONDS))

    def interval(self, seconds: float) -> float:
        """The seconds between two evaluations."""
        return float(max(round(seconds / self.shrink), SHORTEST_INTERVAL_SECONDS))

    def wait(self, seconds: float) -> str:
        """How long an alert is pending, as PromQL writes it."""
        return format_duration(max(round(seconds / self.shrink), SHORTEST_INTERVAL_SECONDS))


def parse_labels(told: Iterable[str]) -> dict[str, str]:
    """The labels of a Kubernetes object, each told as `key=value`; raises ConfigError."""
    labels: dict[str, str] = {}
    for text in told:
        key, equals, value = text.partition("=")
        if not equals or not _KUBERNETES_KEY.fullmatch(key) or not _KUBERNETES_VALUE.fullmatch(value):
            raise ConfigError(f"--rule-labels: {text} is no label; write for example release=prometheus")
        if labels.setdefault(key, value) != value:
            raise ConfigError(f"--rule-labels: {key} has two values, {labels[key]} and {value}; keep one of them")
    return labels
