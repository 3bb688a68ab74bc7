"""Differences of counters and histograms between two snapshots, also if they were reset in between."""

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from watchslo.snapshot import HistogramReading

Key = TypeVar("Key", bound=Hashable)


def increase(before: int, after: int) -> int:
    """Return the increase of a counter; a counter that is lower than before was reset to 0."""
    return after - before if after >= before else after


def increases(before: Mapping[Key, int], after: Mapping[Key, int]) -> dict[Key, int]:
    """Return the increase of each counter; a counter that is new began at 0."""
    return {key: increase(before.get(key, 0), count) for key, count in after.items()}


class CountedIncreases(Generic[Key]):
    """Adds up what many counters increased by since the first look at them; a counter may go, and come back from 0."""

    def __init__(self) -> None:
        self._before: Mapping[Key, int] | None = None
        self._total = 0

    def observe(self, counters: Mapping[Key, int]) -> int:
        """Take in the counters as they are now; return the total since the first look."""
        if self._before is not None:
            self._total += sum(increases(self._before, counters).values())
        self._before = dict(counters)
        return self._total


def observations_since(before: HistogramReading | None, after: HistogramReading) -> HistogramReading:
    """Return the observations since `before`, or all of them if the histogram is new or was reset."""
    if before is None or before.total > after.total:
        return after
    counts = tuple(new - old for old, new in zip(before.counts, after.counts, strict=True))
    return HistogramReading(after.edges, counts, after.sum - before.sum)


def middle(histogram: HistogramReading) -> float:
    """Return the mean of at least one observation, limited to the bucket of the median.

    It is exact if all observations are alike, and a few that are far off hardly change it.
    """
    rank, lower, mean = 0.5 * histogram.total, 0.0, histogram.sum / histogram.total
    for edge, count in zip(histogram.edges, histogram.counts, strict=False):
        if count >= rank:
            return min(max(mean, lower), edge)
        lower = edge
    return max(mean, lower)


def quantile(histogram: HistogramReading, q: float) -> float:
    """Return the q-quantile of at least one observation, interpolated between edges; at most the last edge."""
    rank, lower, below = q * histogram.total, 0.0, 0
    for edge, count in zip(histogram.edges, histogram.counts, strict=False):
        if count >= rank:
            return lower + (edge - lower) * (rank - below) / (count - below)
        lower, below = edge, count
    return lower
