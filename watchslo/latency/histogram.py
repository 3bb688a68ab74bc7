"""Histograms for Prometheus: cumulative and never decreasing; all parts of one are published together."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from watchslo.latency.bins import NATIVE_FIRST, NATIVE_SCHEMA, NATIVE_ZERO_THRESHOLD, Bins
from watchslo.latency.cuts import cumulative
from watchslo.latency.estimate import closed_cuts
from watchslo.latency.tally import Tally
from watchslo.model import FloatArray, IntArray
from watchslo.snapshot import HistogramReading, NativeBuckets

UNIT_BITS = 20  # masses are counted in units of 2^-20 events, because sums of integers do not drift
ROUNDING_UNITS = 2**10  # units, a thousandth of an event: so three rounded thirds show as one event
UNIFORM_SHARE = 1e-9  # share of the mass that is uniform, so that p covers every interval, also of events sealed late


class MassHistogram:
    """Histogram of interval-censored latencies: each event's mass of 1 is divided among the bins of its interval.

    Mass is kept cumulative at each `le`, where an event that is certainly below counts exactly 1, and at the end of
    each native bucket. The reading has whole events. Classic counts are each cumulative mass rounded down, and the
    exact total. So no count ever decreases or exceeds the total. Neither does a native bucket: see `_placed`.
    """

    def __init__(self, bins: Bins) -> None:
        self._bins = bins
        # At each `le`, at the end of each native bucket, and of all events.
        self._units: IntArray = np.zeros(len(bins.les) + len(bins.native_bins) + 1, dtype=np.int64)
        self._native: IntArray = np.zeros(len(bins.native_bins) + 1, dtype=np.int64)
        self._sum = 0.0
        self._reading: HistogramReading | None = None

    def add(self, tally: Tally, p: FloatArray) -> None:
        """Add the events of a tally (at least one), divided among bins in the proportions of p.

        In the sum, a bin's mass counts with its midpoint, and that of the open bin with its lower edge.
        """
        bins = self._bins
        masses = _divided(tally, p + UNIFORM_SHARE / len(p))
        below = cumulative(masses)
        in_native = below[bins.native_bins] + bins.native_shares * masses[bins.native_bins]
        kept = np.concatenate((below[bins.le_cuts], in_native, below[-1:]))
        self._units += np.rint(kept * 2**UNIT_BITS).astype(np.int64)
        self._native += _placed(self._units[len(bins.les) :] / 2**UNIT_BITS - self._native, tally.n)
        self._sum += float(masses @ bins.midpoints)
        self._reading = None

    def reading(self) -> HistogramReading:
        """Return the reading; it is the same object until events are added."""
        if self._reading is None:
            les = self._bins.les
            at_le, total = self._units[: len(les)] + ROUNDING_UNITS, self._units[-1:]
            counts = np.concatenate((at_le, total)) >> UNIT_BITS
            self._reading = HistogramReading(les, tuple(counts.tolist()), self._sum, self._native_buckets())
        return self._reading

    def _native_buckets(self) -> NativeBuckets:
        """Return the events between the ends of native buckets; the bucket after the last end has all longer ones."""
        counts = np.diff(self._native)
        populated = np.flatnonzero(counts)
        first, end = (int(populated[0]), int(populated[-1]) + 1) if len(populated) else (0, 0)
        return NativeBuckets(
            NATIVE_SCHEMA,
            NATIVE_ZERO_THRESHOLD,
            zero=int(self._native[0]),
            first=NATIVE_FIRST + first,
            counts=tuple(counts[first:end].tolist()),
        )


def _placed(missing: FloatArray, n: int) -> IntArray:
    """Return how many of n new events are below each end, so that no bucket loses events.

    `missing` is the mass below each end minus the events that are there already. Rounded alone, these numbers may
    decrease from one end to the next, and the bucket between would lose an event, which Prometheus takes for a restart.
    So each is replaced by the middle of the highest one up to it and the lowest one from it on: these ascend. What is
    left out or added so is part of `missing` of the next events, and the error stays at an event or two.
    """
    highest = np.maximum.accumulate(missing)
    lowest = np.minimum.accumulate(missing[::-1])[::-1]
    placed = np.clip(np.rint((highest + lowest) / 2), 0, n).astype(np.int64)
    placed[-1] = n
    return placed


def _divided(tally: Tally, p: FloatArray) -> FloatArray:
    """Return the mass of the events in each bin; sums of positive numbers keep it exact, as differences would not."""
    i, j, counts = closed_cuts(tally)
    mass = np.add.reduceat(np.append(p, 0.0), np.column_stack((i, j)).ravel())[::2]
    widths = j - i
    before = widths.cumsum() - widths
    covered = np.arange(widths.sum()) + np.repeat(i - before, widths)  # the bins of each cut, one cut after the other
    return p * np.bincount(covered, np.repeat(counts / mass, widths), len(p))


class DurationHistogram:
    """Histogram of exactly known durations, in seconds, with ascending edges."""

    def __init__(self, edges: Sequence[float]) -> None:
        self._edges = tuple(edges)
        self._counts = [0] * (len(self._edges) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._edges, seconds)] += 1
        self._sum += seconds

    def reading(self) -> HistogramReading:
        return HistogramReading(self._edges, tuple(accumulate(self._counts)), self._sum)
