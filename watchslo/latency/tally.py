"""Tallies: counts of latency intervals instead of single events, by periods of arrival."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from watchslo.latency.bins import Bins
from watchslo.model import FloatArray, IntArray, Interval


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Three histograms of n events in one sparse array: cut intervals, and lower and upper ends of proven intervals.

    With S edges, key i * S + j (i < j < S) is the cut interval [edges[i], edges[j]], key S * S + i a proven lower end
    at edges[i], and key S * S + S + j a proven upper end at edges[j]. `keys` are distinct and ascending; `counts` has
    the events of each key. Both have the smallest integer type that fits, because a window has thousands of keys.
    """

    bins: Bins
    keys: NDArray[np.unsignedinteger]
    counts: NDArray[np.unsignedinteger]
    n: int

    def cuts(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the distinct cut intervals as edges i and j, and the number of events of each."""
        size = len(self.bins.edges)
        keys, counts = self._between(0, size * size)
        i, j = np.divmod(keys, size)
        return i, j, counts

    def bounds(self, q: float) -> Interval:
        """Return the certain bounds of the q-quantile of the n true latencies.

        The quantile is the ceil(q * n)-th smallest latency (0 < q < 1 <= n). It is at least the same rank of the lower
        ends, and at most that of the upper ends.
        """
        size = len(self.bins.edges)
        rank = ceil(round(q * self.n, 6))  # 0.07 * 100 is 7.000000000000001, but rank 7 is meant and not 8
        lower, upper = (
            self.bins.edges[keys[np.searchsorted(np.cumsum(counts), rank)]]
            for keys, counts in (
                self._between(size * size, size * size + size),
                self._between(size * size + size, size * size + 2 * size),
            )
        )
        return Interval(float(lower), float(upper))

    def _between(self, first: int, last: int) -> tuple[IntArray, FloatArray]:
        """Return the keys from `first` to before `last`, minus `first`, and their counts."""
        span = slice(*np.searchsorted(self.keys, (first, last)))
        return self.keys[span].astype(np.int64) - first, self.counts[span].astype(np.float64)


def tally(bins: Bins, lower: FloatArray, upper: FloatArray, proven: FloatArray) -> Tally:
    """Count events by their cut intervals [lower, upper] and their proven intervals [proven, upper]."""
    size = len(bins.edges)
    i, j = bins.cover(lower, upper)
    proven_i, proven_j = bins.cover(proven, upper)
    keys = np.concatenate((i * size + j, size * size + proven_i, size * size + size + proven_j))
    return _counted(bins, np.bincount(keys), len(i))


def later_than(bins: Bins, seconds: Iterable[float]) -> Tally:
    """Count right-censored latencies: each is only known to be longer than so many seconds."""
    lower = np.array([*seconds])
    return tally(bins, lower, np.full(len(lower), np.inf), lower)


def merge(bins: Bins, tallies: Iterable[Tally]) -> Tally:
    """Return the tally of all events of these tallies, empty without any tally."""
    parts = tuple(tallies)
    nothing = np.empty(0, np.uint8)  # numpy cannot concatenate an empty sequence of arrays
    keys = np.concatenate([nothing, *(part.keys for part in parts)])
    counts = np.concatenate([nothing, *(part.counts for part in parts)])
    return _counted(bins, np.bincount(keys, counts), sum(part.n for part in parts))


def _counted(bins: Bins, by_key: FloatArray | IntArray, n: int) -> Tally:
    size = len(bins.edges)
    keys = np.flatnonzero(by_key)
    counts = by_key[keys]
    key_type = np.min_scalar_type(size * size + 2 * size)
    count_type = np.min_scalar_type(int(counts.max(initial=0)))
    return Tally(bins, keys.astype(key_type), counts.astype(count_type), n)


class Periods:
    """Tallies by successive periods of `length` seconds, the first of which, number 0, begins at `start`."""

    def __init__(self, bins: Bins, start: float, length: float) -> None:
        self._bins = bins
        self._start = start
        self._length = length
        self._tallies: dict[int, Tally] = {}

    def numbers(self, times: FloatArray) -> IntArray:
        """Return the numbers of the periods of these times."""
        return np.floor((times - self._start) / self._length).astype(np.int64)

    def number(self, time: float) -> int:
        """Return the number of the period of this time."""
        return floor((time - self._start) / self._length)

    def end(self, number: int) -> float:
        """Return the end of a period."""
        return self._start + self._length * (number + 1)

    def add(self, slots: Iterable[tuple[float, Tally]]) -> None:
        """Add tallies, each with the time of one of its events; all its events are of one period."""
        for number, group in groupby(slots, lambda slot: self.number(slot[0])):
            self._tallies[number] = merge(self._bins, (self.tally(number), *(part for _, part in group)))

    def tally(self, number: int) -> Tally:
        """Return the tally of a period, which may be empty."""
        return self._tallies.get(number) or merge(self._bins, ())

    def since(self, time: float) -> tuple[Tally, ...]:
        """Return the tallies of the periods that begin at this time or later."""
        return tuple(part for number, part in self._tallies.items() if self.end(number - 1) >= time)

    def forget(self, before: float) -> None:
        """Drop the periods that began before this time."""
        self._tallies = {number: part for number, part in self._tallies.items() if self.end(number - 1) >= before}
