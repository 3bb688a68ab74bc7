"""Builds the parts of alerts: PromQL expressions, and the phrases of summaries and descriptions."""

from collections.abc import Iterable
from dataclasses import dataclass

from watchslo.config.values import format_duration
from watchslo.model import SERVICE
from watchslo.rules import names
from watchslo.rules.names import LabelLevels
from watchslo.rules.promql import by, select
from watchslo.rules.settings import RuleSettings
from watchslo.rules.watch_groups import WatchGroup

APISERVER = (
    f'{{{{ if eq $labels.apiserver "{SERVICE}" }}}}the apiserver{{{{ else }}}}{{{{ $labels.apiserver }}}}{{{{ end }}}}'
)
"""The template of an apiserver in a sentence; see `apiserver_text`."""


@dataclass(frozen=True, slots=True)
class AlertBuilder:
    """Builds expressions and phrases for one set of settings; `kept` are the labels of each aggregation level."""

    settings: RuleSettings
    kept: LabelLevels

    # Expressions

    def exposed(self, metric: str, *matchers: str) -> str:
        """Select a metric that watchslo exposes, of the selected targets."""
        return select(metric, self.settings.job_selector, *matchers)

    def over(self, function: str, series: str, seconds: float) -> str:
        """Apply a function to a range of seconds."""
        return f"{function}({series}[{self.settings.span(seconds)}])"

    def increase(self, metric: str, seconds: float, *matchers: str) -> str:
        return self.over("increase", self.exposed(metric, *matchers), seconds)

    def windows(self, group: WatchGroup, verdict: str, count: int) -> str:
        """Count how many of the last `count` windows had a verdict, by instance; `shrink` does not shorten windows."""
        series = self.exposed("watchslo_slo_windows_total", verdict, group.matcher)
        span = format_duration(count * group.objective.minutes.window)
        return by("sum", self.kept.instance_resource, f"increase({series}[{span}])")

    def majority(self, condition: str, matcher: str = "") -> str:
        """Return the watches for which the condition holds at more than half of their instances."""
        instances = select(names.INSTANCES, matcher)
        return f"{by('count', self.kept.resource, condition)} > 0.5 * {instances}"

    def watches_by_apiserver(self, watches: str) -> str:
        """Count these watches by apiserver."""
        return by("count", self.kept.apiserver, watches)

    # Phrases

    @property
    def apiserver(self) -> str:
        """The apiserver of the alert, with its cluster if there is a cluster label."""
        *clusters, _ = self.kept.apiserver
        return " of ".join([APISERVER, *(f"{{{{ $labels.{label} }}}}" for label in clusters)])

    @property
    def in_cluster(self) -> str:
        """` in CLUSTER`, or nothing if there is no cluster label."""
        return "".join(f" in {{{{ $labels.{label} }}}}" for label in self.kept.cluster)

    def worst_watch(self, vector: str) -> str:
        """Name the watch with the highest value; `PLACE` in the vector stands for matchers of the alert's labels."""
        return _worst("watch", vector, self.kept.apiserver)

    def duration_at_worst(self, seconds: str, vector: str) -> str:
        """Return the value of one vector, in seconds, where another one of the same labels is highest."""
        value = "value | humanizeDuration"
        return _queried(f"{seconds} and topk(1, {vector})", value, self.kept.apiserver)

    def worst_watch_of_cluster(self, vector: str) -> str:
        return _worst("watch", vector, self.kept.cluster)

    def worst_apiserver(self, vector: str) -> str:
        return _worst("apiserver", vector, self.kept.cluster)

    def worst_instance(self, vector: str) -> str:
        return _worst("instance", vector, self.kept.cluster)


def _worst(shown: str, vector: str, labels: Iterable[str]) -> str:
    return _queried(f"topk(1, {vector})", f'label "{shown}"', labels)


def _queried(expression: str, shown: str, labels: Iterable[str]) -> str:
    """Return the template of what is shown of the first element that an expression gives."""
    matched = tuple(labels)
    place = ",".join(f"{label}=%[{index}]q" for index, label in enumerate(matched, start=1))
    values = "".join(f" $labels.{label}" for label in matched)
    query = f"printf `{expression.replace('%', '%%').replace('PLACE', place)}`{values} | query"
    return f"{{{{ with {query} }}}}{{{{ . | first | {shown} }}}}{{{{ else }}}}unknown{{{{ end }}}}"
