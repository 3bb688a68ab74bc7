"""One latency of one watch as time moves on: rolling windows of it, and a histogram of all there ever was."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.estimate import RollingEstimate
from watchslo.latency.histogram import MassHistogram
from watchslo.latency.window import Periods, Tally, merge
from watchslo.model import IntArray

BLOCK_SECONDS = 5.0  # the grain of rolling windows: as often as they are evaluated


class Distribution:
    """Rolling windows over what was sealed, and a histogram of all of it, divided as the first of them says."""

    def __init__(self, bins: Bins, start: float, windows: Iterable[tuple[str, float]]) -> None:
        self.blocks = Periods(bins, start, BLOCK_SECONDS)
        self.rolling = tuple(RollingEstimate(bins, name, length) for name, length in windows)
        self.histogram = MassHistogram(bins)
        self._bins = bins
        self._longest = max(rolling.length for rolling in self.rolling)

    def evaluate(
        self, now: float, slots: Sequence[tuple[float, Tally]], withheld: tuple[Tally, ...], round_trip: float
    ) -> None:
        """Takes in the tallies of what was sealed since the last time, with `withheld` for the windows of now alone."""
        self.blocks.add(slots)
        self.blocks.forget(now - self._longest)
        for rolling in self.rolling:
            rolling.evaluate((*self.blocks.since(now - rolling.length), *withheld), round_trip)
        if slots:
            self.histogram.add(merge(self._bins, (part for _, part in slots)), self.rolling[0].p)


def runs(*numbers: IntArray) -> Iterable[slice]:
    """Divides arrays of one length so that within a slice none of them changes."""
    stacked = np.stack(numbers)
    starts = np.flatnonzero(np.diff(stacked, prepend=stacked[:, :1] - 1).any(axis=0)).tolist()
    return (slice(*ends) for ends in pairwise((*starts, stacked.shape[1])))
