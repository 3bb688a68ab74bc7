"""Differences between snapshots: what was counted in between, though some counters start anew."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

from watchslo.snapshot import HistogramReading

Key = TypeVar("Key", bound=Hashable)


def counted(before: int, after: int) -> int:
    """What was counted since; a counter that is less than it was has started anew."""
    return after - before if after >= before else after


def counted_each(before: Mapping[Key, int], after: Mapping[Key, int]) -> dict[Key, int]:
    """The same of many counters; one that was not there began with 0."""
    return {key: counted(before.get(key, 0), count) for key, count in after.items()}


def observed(before: HistogramReading | None, after: HistogramReading) -> HistogramReading:
    """The observations since; of a histogram that started anew, or that was not there, all."""
    if before is None or before.total > after.total:
        return after
    counts = tuple(new - old for old, new in zip(before.counts, after.counts, strict=True))
    return HistogramReading(after.edges, counts, after.sum - before.sum)


def quantile(histogram: HistogramReading, q: float) -> float:
    """The q-quantile of at least one observation, in between the edges; beyond the last edge, that edge."""
    rank, lower, below = q * histogram.total, 0.0, 0
    for edge, count in zip(histogram.edges, histogram.counts, strict=False):
        if count >= rank:
            return lower + (edge - lower) * (rank - below) / (count - below)
        lower, below = edge, count
    return lower
