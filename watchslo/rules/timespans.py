"""The histogram of latencies in rules: classic buckets, each of which is a series, or one native histogram."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from watchslo.rules.promql import by, select

METRIC = "watchslo_apiserver_timespan_seconds"
ALL_EVENTS = 'le="+Inf"'


class Histograms(StrEnum):
    """In which form Prometheus stores the histogram of latencies."""

    CLASSIC = "classic"
    NATIVE = "native"


@dataclass(frozen=True, slots=True)
class TimespanForm:
    """Expressions about one form; a `histogram` is the name of a recorded one.

    `metric` is what watchslo exposes, and what the names of recorded histograms contain. `buckets` is the label that
    distinguishes the series of one histogram, if there are several.
    """

    metric: str
    buckets: tuple[str, ...] = ()

    def summed(self, labels: Iterable[str], vector: str) -> str:
        """Return the sum of histograms that keeps these labels."""
        return by("sum", (*labels, *self.buckets), vector)

    def events(self, histogram: str, over: str = "") -> str:
        """Return the rate of events in a histogram; with `over`, the sum of the rates recorded in that time."""
        if self.buckets:
            return f"sum without (le) ({summed_over(select(histogram, ALL_EVENTS), over)})"
        return f"histogram_count({summed_over(histogram, over)})"


CLASSIC, NATIVE = TimespanForm(f"{METRIC}_bucket", ("le",)), TimespanForm(METRIC)


def summed_over(series: str, over: str) -> str:
    """Return the sum of what was recorded over a time; the series itself without one."""
    return f"sum_over_time({series}[{over}])" if over else series
