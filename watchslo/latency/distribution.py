"""The distribution of one latency of one watch: rolling windows, and a histogram of all events."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.estimate import RollingEstimate
from watchslo.latency.histogram import MassHistogram
from watchslo.latency.tally import Periods, Tally, merge
from watchslo.model import IntArray

BLOCK_SECONDS = 5.0  # the step of rolling windows: as often as they are evaluated


class Distribution:
    """Rolling windows of sealed events, and a histogram of all of them.

    The histogram divides each event's interval among bins in the proportions of the first window's estimate.
    """

    def __init__(self, bins: Bins, start: float, windows: Iterable[tuple[str, float]]) -> None:
        self.blocks = Periods(bins, start, BLOCK_SECONDS)
        self.rolling = tuple(RollingEstimate(bins, name, length) for name, length in windows)
        self.histogram = MassHistogram(bins)
        self._bins = bins
        self._longest = max(rolling.length for rolling in self.rolling)

    def evaluate(
        self, now: float, slots: Sequence[tuple[float, Tally]], withheld: tuple[Tally, ...], round_trip: float
    ) -> None:
        """Add the tallies of newly sealed events. `withheld` counts in the present windows only."""
        self.blocks.add(slots)
        self.blocks.forget(now - self._longest)
        for rolling in self.rolling:
            rolling.evaluate((*self.blocks.since(now - rolling.length), *withheld), round_trip)
        if slots:
            self.histogram.add(merge(self._bins, (part for _, part in slots)), self.rolling[0].p)


def runs(*numbers: IntArray) -> Iterable[slice]:
    """Return slices within which none of these arrays of equal length changes."""
    stacked = np.stack(numbers)
    starts = np.flatnonzero(np.diff(stacked, prepend=stacked[:, :1] - 1).any(axis=0)).tolist()
    return (slice(*ends) for ends in pairwise((*starts, stacked.shape[1])))
