"""Histograms for Prometheus: cumulative and never decreasing; all parts of one are published together."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.cuts import cumulative
from watchslo.latency.estimate import closed_cuts
from watchslo.latency.tally import Tally
from watchslo.model import FloatArray, IntArray
from watchslo.snapshot import HistogramReading

UNIT_BITS = 20  # masses are counted in units of 2^-20 events, because sums of integers do not drift
ROUNDING_UNITS = 2**10  # units, a thousandth of an event: so three rounded thirds show as one event
UNIFORM_SHARE = 1e-9  # share of the mass that is uniform, so that p covers every interval, also of events sealed late


class MassHistogram:
    """Histogram of interval-censored latencies: each event's mass of 1 is divided among the bins of its interval.

    Mass is kept cumulative at each `le`, where an event that is certainly below counts exactly 1. The reading has whole
    events: each cumulative mass rounded down, and the exact total. So no count ever decreases or exceeds the total.
    """

    def __init__(self, bins: Bins) -> None:
        self._bins = bins
        self._units: IntArray = np.zeros(len(bins.les), dtype=np.int64)
        self._n = 0
        self._sum = 0.0

    def add(self, tally: Tally, p: FloatArray) -> None:
        """Add the events of a tally (at least one), divided among bins in the proportions of p.

        In the sum, a bin's mass counts with its midpoint, and that of the open bin with its lower edge.
        """
        i, j, counts = closed_cuts(tally)
        p = p + UNIFORM_SHARE / len(p)
        below = cumulative(p)
        seconds = cumulative(p * self._bins.midpoints)
        mass = below[j] - below[i]
        shares = np.clip((below[self._bins.le_cuts, None] - below[i]) / mass, 0.0, 1.0)
        self._units += np.rint((shares * counts).sum(axis=1) * 2**UNIT_BITS).astype(np.int64)
        self._sum += float((seconds[j] - seconds[i]) / mass @ counts)
        self._n += tally.n

    def reading(self) -> HistogramReading:
        counts = (self._units + ROUNDING_UNITS >> UNIT_BITS).tolist()
        return HistogramReading(self._bins.les, (*counts, self._n), self._sum)


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
