"""The histogram of latencies in rules: classic buckets, each of which is a series, or a native histogram, which is one.

Both are summed up and recorded as rates. A rule gets the name of a recorded histogram, and the form writes the rest.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

from watchslo.config.sections.objective import ObjectiveConfig
from watchslo.rules.promql import by, joined, le, number, select

METRIC = "watchslo_apiserver_timespan_seconds"


class Histograms(StrEnum):
    """In which form Prometheus stores the histogram of latencies."""

    CLASSIC = "classic"
    NATIVE = "native"


class TimespanForm(Protocol):
    """Expressions about one form; a `histogram` is the name of a recorded one, or that name with matchers."""

    metric: str
    """What watchslo exposes, and what the names of recorded histograms contain."""

    def summed(self, labels: Iterable[str], vector: str) -> str:
        """Return the sum of histograms that keeps these labels."""

    def events(self, histogram: str, over: str = "") -> str:
        """Return the rate of events in a histogram; with `over`, the sum of the rates recorded in that time."""

    def good(self, histogram: str, objective: ObjectiveConfig) -> str:
        """Return 1 if the quantile of the objective is within the threshold, else 0; absent with too few events."""


class ClassicTimespans:
    """A series for each `le`; each threshold is one of them."""

    metric = f"{METRIC}_bucket"

    def summed(self, labels: Iterable[str], vector: str) -> str:
        return by("sum", (*labels, "le"), vector)

    def events(self, histogram: str, over: str = "") -> str:
        return _below(select(histogram, 'le="+Inf"'), over)

    def good(self, histogram: str, objective: ObjectiveConfig) -> str:
        minutes = objective.minutes
        in_time = f"{_below(select(histogram, le(objective.threshold)))} * {number(minutes.window)}"
        events = f"{self.events(histogram)} * {number(minutes.window)}"
        return f"{in_time}\n>= bool {number(minutes.quantile)} * ({events} >= {minutes.min_events})"


class NativeTimespans:
    """One series. A share is interpolated within one bucket unless a bucket ends at the threshold.

    Shares begin at minus infinity: a histogram that has only the zero bucket would have half of it below 0.
    """

    metric = METRIC

    def summed(self, labels: Iterable[str], vector: str) -> str:
        return by("sum", labels, vector)

    def events(self, histogram: str, over: str = "") -> str:
        return f"histogram_count({summed_over(histogram, over)})"

    def good(self, histogram: str, objective: ObjectiveConfig) -> str:
        minutes = objective.minutes
        share = f"histogram_fraction(-Inf, {number(objective.threshold)}, {histogram})"
        events = f"{self.events(histogram)} * {number(minutes.window)}"
        return joined("and", (f"{share} >= bool {number(minutes.quantile)}", f"{events} >= {minutes.min_events}"))

    def late(self, histogram: str, threshold: float) -> str:
        """Return the rate of late events: 0 without events, of which there is no share."""
        return joined(
            "or", (f"{_late_share(histogram, threshold)} * {self.events(histogram)} >= 0", self.events(histogram))
        )

    def late_ratio(self, histogram: str, threshold: float) -> str:
        """Return the share of late events; absent without events, where it is not a number."""
        return f"{_late_share(histogram, threshold)} >= 0"


CLASSIC, NATIVE = ClassicTimespans(), NativeTimespans()


def summed_over(series: str, over: str) -> str:
    """Return the sum of what was recorded over a time; the series itself without one."""
    return f"sum_over_time({series}[{over}])" if over else series


def _below(bucket: str, over: str = "") -> str:
    return f"sum without (le) ({summed_over(bucket, over)})"


def _late_share(histogram: str, threshold: float) -> str:
    return f"histogram_fraction({number(threshold)}, +Inf, {histogram})"
