"""What alerts are made of: parts of expressions, and parts of the sentences that people are paged with."""

from collections.abc import Iterable
from dataclasses import dataclass

from watchslo.config import format_duration
from watchslo.rules import names
from watchslo.rules.names import Levels
from watchslo.rules.options import Options
from watchslo.rules.promql import by, select
from watchslo.rules.watches import Share


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes for one set of options; `kept` are the labels of each level."""

    options: Options
    kept: Levels

    # Expressions

    def raw(self, metric: str, *matchers: str) -> str:
        """What watchslo exposes, of the selected targets."""
        return select(metric, self.options.job_selector, *matchers)

    def over(self, function: str, series: str, seconds: float) -> str:
        """A function of a range."""
        return f"{function}({series}[{self.options.span(seconds)}])"

    def increase(self, metric: str, seconds: float, *matchers: str) -> str:
        return self.over("increase", self.raw(metric, *matchers), seconds)

    def windows(self, share: Share, verdict: str, count: int) -> str:
        """How many of the last windows had a verdict, for each instance; a trial does not make windows any shorter."""
        series = self.raw("watchslo_slo_windows_total", verdict, share.matcher)
        span = format_duration(count * share.objective.minutes.window)
        return by("sum", self.kept.instance_resource, f"increase({series}[{span}])")

    def most(self, condition: str, matcher: str = "") -> str:
        """The watches for which it holds at more than half of the instances that have them."""
        every = select(names.INSTANCES, matcher)
        return f"{by('count', self.kept.resource, condition)} > 0.5 * {every}"

    def affected(self, watches: str) -> str:
        """How many watches of each apiserver these are."""
        return by("count", self.kept.apiserver, watches)

    # Sentences

    @property
    def at(self) -> str:
        """Which apiserver it is about."""
        return " of ".join(f"{{{{ $labels.{label} }}}}" for label in reversed(self.kept.apiserver))

    @property
    def where(self) -> str:
        """Which cluster it is about, if they are told apart."""
        return "".join(f" in {{{{ $labels.{label} }}}}" for label in self.kept.cluster)

    def worst_watch(self, vector: str) -> str:
        """Names the watch that is highest in a vector, in which `PLACE` stands for matchers of the alert's labels."""
        return _worst("watch", vector, self.kept.apiserver)

    def worst_instance(self, vector: str) -> str:
        return _worst("instance", vector, self.kept.cluster)


def _worst(shown: str, vector: str, labels: Iterable[str]) -> str:
    told = tuple(labels)
    place = ",".join(f"{label}=%[{index}]q" for index, label in enumerate(told, start=1))
    values = "".join(f" $labels.{label}" for label in told)
    asked = vector.replace("%", "%%").replace("PLACE", place)
    question = f"printf `topk(1, {asked})`{values} | query"
    return f'{{{{ with {question} }}}}{{{{ . | first | label "{shown}" }}}}{{{{ else }}}}unknown{{{{ end }}}}'
