"""What is remembered of latencies: not events but counts of the intervals they lie in, by the time of their arrival."""

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
    """Three histograms of n events in one sparse array: of their cut intervals, and of both ends of the proven ones.

    With S edges, key i * S + j (i < j < S) stands for the cut interval [edges[i], edges[j]], key S * S + i for a proven
    lower end at edges[i], and key S * S + S + j for a proven upper end at edges[j]. `keys` are distinct and ascending,
    `counts` how many events each has. Both are kept in the smallest integers that hold them: a window has thousands.
    """

    bins: Bins
    keys: NDArray[np.unsignedinteger]
    counts: NDArray[np.unsignedinteger]
    n: int

    def cuts(self) -> tuple[IntArray, IntArray, FloatArray]:
        """The distinct cut intervals, as edges i and j, and how many events have each."""
        size = len(self.bins.edges)
        keys, counts = self._between(0, size * size)
        i, j = np.divmod(keys, size)
        return i, j, counts

    def bounds(self, q: float) -> Interval:
        """The ends between which the q-quantile of the n true latencies lies, without any doubt.

        That quantile is the ceil(q * n)-th smallest (0 < q < 1 <= n): no less than that of the lower ends, no more than
        that of the upper ones.
        """
        size = len(self.bins.edges)
        rank = ceil(round(q * self.n, 6))  # 0.07 * 100 is 7.000000000000001, and not to be the eighth
        lower, upper = (
            self.bins.edges[keys[np.searchsorted(np.cumsum(counts), rank)]]
            for keys, counts in (
                self._between(size * size, size * size + size),
                self._between(size * size + size, size * size + 2 * size),
            )
        )
        return Interval(float(lower), float(upper))

    def _between(self, first: int, last: int) -> tuple[IntArray, FloatArray]:
        """The keys from `first` up to `last`, less `first`, and their counts."""
        span = slice(*np.searchsorted(self.keys, (first, last)))
        return self.keys[span].astype(np.int64) - first, self.counts[span].astype(np.float64)


def tally(bins: Bins, lower: FloatArray, upper: FloatArray, proven: FloatArray) -> Tally:
    """Counts events by the ends of their cut intervals and the lower ends of their proven ones."""
    size = len(bins.edges)
    i, j = bins.cover(lower, upper)
    proven_i, proven_j = bins.cover(proven, upper)
    keys = np.concatenate((i * size + j, size * size + proven_i, size * size + size + proven_j))
    return _counted(bins, np.bincount(keys), len(i))


def later_than(bins: Bins, seconds: Iterable[float]) -> Tally:
    """Counts right-censored values: of each is known only that it is more than so many seconds."""
    lower = np.array([*seconds])
    return tally(bins, lower, np.full(len(lower), np.inf), lower)


def merge(bins: Bins, tallies: Iterable[Tally]) -> Tally:
    """The tally of all their events; of none, an empty one."""
    parts = tuple(tallies)
    nothing = np.empty(0, np.uint8)  # of no arrays at all there is no concatenation
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
        """The periods that the times fall into."""
        return np.floor((times - self._start) / self._length).astype(np.int64)

    def number(self, time: float) -> int:
        """The period that the time falls into."""
        return floor((time - self._start) / self._length)

    def end(self, number: int) -> float:
        """When a period ends."""
        return self._start + self._length * (number + 1)

    def add(self, slots: Iterable[tuple[float, Tally]]) -> None:
        """Adds tallies, each of events of one period, with the time of one of them."""
        for number, group in groupby(slots, lambda slot: self.number(slot[0])):
            self._tallies[number] = merge(self._bins, (self.tally(number), *(part for _, part in group)))

    def tally(self, number: int) -> Tally:
        """The tally of a period, empty if nothing came in it."""
        return self._tallies.get(number) or merge(self._bins, ())

    def since(self, time: float) -> tuple[Tally, ...]:
        """The tallies of the periods that begin then or later."""
        return tuple(part for number, part in self._tallies.items() if self.end(number - 1) >= time)

    def forget(self, before: float) -> None:
        """Drops the periods that began before."""
        self._tallies = {number: part for number, part in self._tallies.items() if self.end(number - 1) >= before}
