"""Tallies: counts of latency intervals instead of single events, by periods of arrival."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import floor

import numpy as np
from numpy.typing import NDArray

from watchslo.latency.bins import Bins
from watchslo.latency.tail import Tail
from watchslo.model import FloatArray, IntArray

BLOCK_SECONDS = 5.0
"""Events are counted by blocks of this length, which begin at multiples of it: the step of all windows."""

MOST_PARTS = 6  # of a period, until they are added up: more take memory, fewer take time

Slot = tuple[float, "Tally"]
"""The tally of the events of one block, and when the block began, in monotonic seconds."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyCounts:
    """Three histograms of n events in one sparse array: cut intervals, and both ends of proven intervals.

    With S edges, key i * S + j (i < j < S) is the cut interval [edges[i], edges[j]], key S * S + i is a proven lower
    end at edges[i], and key S * S + S + j a proven upper end at edges[j]. `counts` has the events of each of the
    `keys`, which may repeat. Both have the smallest integer type that fits, because a window has thousands of keys.
    `tail` has the longest latencies of the n events if they are known one by one.
    """

    bins: Bins
    keys: NDArray[np.unsignedinteger]
    counts: NDArray[np.unsignedinteger]
    n: int
    tail: Tail | None = None

    def within(self, edge: int) -> int:
        """Return the number of events that are proven to be at most as late as an edge, given by its index."""
        first = _first_upper(self.bins)
        return int(self.counts[(self.keys >= first) & (self.keys <= first + edge)].sum())

    def beyond(self, edge: int) -> int:
        """Return the number of events that are proven to be no earlier than an edge, given by its index."""
        first, last = len(self.bins.edges) ** 2 + edge, _first_upper(self.bins)
        return int(self.counts[(self.keys >= first) & (self.keys < last)].sum())

    def wider(self, threshold: float) -> int:
        """Return the number of events whose cut interval contains a threshold, which is an edge, and is wider."""
        size, edges = len(self.bins.edges), self.bins.edges
        cuts = self.keys < size * size
        i, j = np.divmod(self.keys[cuts].astype(np.int64), size)
        contains = (edges[i] < threshold) & (edges[j] > threshold)
        return int(self.counts[cuts][contains & (edges[j] - edges[i] > threshold)].sum())


@dataclass(frozen=True, slots=True, eq=False)
class Tally(KeyCounts):
    """Counts with distinct and ascending `keys`."""

    def cuts(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the distinct cut intervals as edges i and j, and the number of events of each."""
        size = len(self.bins.edges)
        last = int(self.keys.searchsorted(size * size))
        i, j = np.divmod(self.keys[:last].astype(np.int64), size)
        return i, j, self.counts[:last].astype(np.float64)


def _first_upper(bins: Bins) -> int:
    """Return the key of a proven upper end at the first edge."""
    return len(bins.edges) * (len(bins.edges) + 1)


def tally_keys(
    bins: Bins, lower: FloatArray, upper: FloatArray, proven: FloatArray, proven_upper: FloatArray
) -> IntArray:
    """Return the 3n keys of n events: of their cut intervals, proven lower ends and proven upper ends.

    The cut intervals are [lower, upper], the proven ones [proven, proven_upper]. An instant is a bin.
    """
    size = len(bins.edges)
    i, j = bins.cover(lower, upper)
    first, last = bins.cover(proven, proven_upper)
    last = np.where(upper < proven_upper, last, np.minimum(last, j))  # rounding must not make it wider
    return np.concatenate((i * size + j, size * size + first, _first_upper(bins) + last))


def tally(bins: Bins, lower: FloatArray, upper: FloatArray, proven: FloatArray, proven_upper: FloatArray) -> Tally:
    """Count events by their cut intervals [lower, upper] and their proven intervals [proven, proven_upper]."""
    keys, counts = np.unique(tally_keys(bins, lower, upper, proven, proven_upper), return_counts=True)
    return compact(bins, keys, counts)


def later_than(bins: Bins, seconds: Iterable[float]) -> Tally:
    """Count right-censored latencies: each is only known to be longer than so many seconds."""
    lower = np.array([*seconds])
    never = np.full(len(lower), np.inf)
    return replace(tally(bins, lower, never, lower, never), tail=Tail.of(lower, never))


def merge(bins: Bins, tallies: Sequence[Tally]) -> Tally:
    """Return the tally of all events of these tallies, empty without any tally."""
    if len(tallies) == 1:
        return tallies[0]
    nothing = np.empty(0, np.uint8)  # numpy cannot concatenate an empty sequence of arrays
    keys = np.concatenate([nothing, *(part.keys for part in tallies)])
    counts = np.concatenate([nothing, *(part.counts for part in tallies)])
    return compact(bins, *sum_by_key(keys, counts))


def sum_by_key(
    keys: NDArray[np.integer], counts: NDArray[np.integer]
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return the distinct keys in ascending order, and the sum of the counts of each."""
    if not len(keys):
        return keys, counts
    order = keys.argsort(kind="stable")  # the fastest kind for what was sorted in parts
    keys = keys[order]
    firsts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[firsts], np.add.reduceat(counts[order], firsts, dtype=np.int64)


def compact(bins: Bins, keys: NDArray[np.integer], counts: NDArray[np.integer]) -> Tally:
    """Return the tally with these distinct ascending keys; each event has one cut interval."""
    n = int(counts[: keys.searchsorted(len(bins.edges) ** 2)].sum())
    return Tally(bins, *small(bins, keys, counts), n)


def small(
    bins: Bins, keys: NDArray[np.integer], counts: NDArray[np.integer]
) -> tuple[NDArray[np.unsignedinteger], NDArray[np.unsignedinteger]]:
    """Return keys and counts in the smallest types that fit."""
    key_type = np.min_scalar_type(_first_upper(bins) + len(bins.edges))
    count_type = np.min_scalar_type(int(counts.max(initial=0)))
    return keys.astype(key_type), counts.astype(count_type)


class Blocks:
    """The events of recent blocks, in the order of the blocks; the caller forgets old ones.

    They are in two arrays, because those of single tallies would take ten times the memory.
    """

    def __init__(self, bins: Bins) -> None:
        self._bins = bins
        self._numbers: list[int] = []  # of the blocks with events, ascending
        self._lengths: list[int] = []  # of the keys of each
        self._n: list[int] = []
        self._keys: NDArray[np.unsignedinteger] = np.empty(0, np.uint8)
        self._counts: NDArray[np.unsignedinteger] = np.empty(0, np.uint8)
        self._tails: dict[int, Tail] = {}  # by block, for the blocks of which all samples are known one by one
        self._windows: dict[float, tuple[int, tuple[KeyCounts, ...]]] = {}  # by length, with their first block

    def add(self, slots: Iterable[Slot]) -> None:
        """Add the tallies of blocks."""
        for time, part in slots:
            number = _block(time)
            place = bisect_left(self._numbers, number)
            is_new = self._numbers[place : place + 1] != [number]
            self._add_tail(number, part.tail, is_new=is_new)
            if is_new:
                for column, value in ((self._numbers, number), (self._lengths, 0), (self._n, 0)):
                    column.insert(place, value)
            self._lengths[place] += len(part.keys)
            self._n[place] += part.n
            end = sum(self._lengths[: place + 1]) - len(part.keys)
            self._keys = np.concatenate((self._keys[:end], part.keys, self._keys[end:]))
            self._counts = np.concatenate((self._counts[:end], part.counts, self._counts[end:]))
            self._windows.clear()

    def window(self, now: float, length: float) -> tuple[KeyCounts, ...]:
        """Return the events of the last so many seconds, in whole blocks; nothing without any.

        The result is the same object until there are other events.
        """
        place = bisect_left(self._numbers, _block(now - length))
        if place == len(self._numbers):
            return ()
        first, known = self._numbers[place], self._windows.get(length)
        if known is None or known[0] != first:
            at = sum(self._lengths[:place])
            n, tail = sum(self._n[place:]), self._tail(place)
            counts = KeyCounts(self._bins, self._keys[at:], self._counts[at:], n, tail)
            known = self._windows[length] = first, (counts,)
        return known[1]

    def forget(self, before: float) -> None:
        """Drop the blocks that ended by this time."""
        place = bisect_left(self._numbers, _block(before))
        if place:
            at = sum(self._lengths[:place])
            self._keys, self._counts = self._keys[at:].copy(), self._counts[at:].copy()
            for number in self._numbers[:place]:
                self._tails.pop(number, None)
            for column in (self._numbers, self._lengths, self._n):
                del column[:place]

    def _add_tail(self, number: int, tail: Tail | None, *, is_new: bool) -> None:
        known = self._tails.pop(number, None)
        if tail and (known or is_new):
            self._tails[number] = Tail.joined((known, tail)).cut() if known else tail

    def _tail(self, place: int) -> Tail | None:
        """Return the longest latencies from this block on; None if those of a block are unknown."""
        tails = [self._tails[number] for number in self._numbers[place:] if number in self._tails]
        return Tail.joined(tails) if len(tails) == len(self._numbers) - place else None


def _block(time: float) -> int:
    return floor(time / BLOCK_SECONDS)


class Periods:
    """Tallies by successive periods of `length` seconds, the first of which, number 0, begins at `start`.

    The caller forgets old periods.
    """

    def __init__(self, bins: Bins, start: float, length: float) -> None:
        self._bins = bins
        self._start = start
        self._length = length
        self._tallies: dict[int, list[Tally]] = {}

    def number(self, time: float) -> int:
        """Return the number of the period of this time."""
        return floor((time - self._start) / self._length)

    def end(self, number: int) -> float:
        """Return the end of a period."""
        return self._start + self._length * (number + 1)

    def add(self, slots: Iterable[Slot]) -> None:
        """Add the tallies of blocks; each block lies in one period."""
        for time, part in slots:
            parts = self._tallies.setdefault(self.number(time), [])
            parts.append(part)
            if len(parts) > MOST_PARTS:
                parts[:] = [merge(self._bins, parts)]

    def tally(self, number: int) -> Tally:
        """Return the tally of a period, which may be empty."""
        return merge(self._bins, self._tallies.get(number, ()))

    def forget(self, before: float) -> None:
        """Drop the periods that ended by this time."""
        first = self.number(before)
        self._tallies = {number: parts for number, parts in self._tallies.items() if number >= first}
