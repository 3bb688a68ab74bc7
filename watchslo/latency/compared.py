"""The same events measured twice: by all ticks, and by those of their own apiserver alone.

Ticks that share a slow way with the events hide its delay. How much they hide is the difference.
"""

import numpy as np
from numpy.typing import NDArray

from watchslo.latency.bins import Bins
from watchslo.latency.distribution import BLOCK_SECONDS
from watchslo.latency.estimate import RollingEstimate
from watchslo.latency.window import Periods, tally
from watchslo.model import Bounds, FloatArray
from watchslo.snapshot import WindowReading

WINDOW = ("1m", 60.0)


class Comparison:
    """Two rolling windows of the same events, from `start` (monotonic seconds) on."""

    def __init__(self, bins: Bins, start: float) -> None:
        self._combined = _Half(bins, start)
        self._alone = _Half(bins, start)

    def add(self, received: FloatArray, combined: Bounds, alone: Bounds) -> None:
        """Takes n events (arrays of length n), all received in about the same second; those that both can measure."""
        known = combined.measurable & alone.measurable
        if known.any():
            self._combined.add(received[known], combined, known)
            self._alone.add(received[known], alone, known)

    def evaluate(self, now: float) -> None:
        """Makes new readings."""
        self._combined.evaluate(now)
        self._alone.evaluate(now)

    @property
    def combined(self) -> WindowReading:
        return self._combined.rolling.reading

    @property
    def alone(self) -> WindowReading:
        return self._alone.rolling.reading


class _Half:
    def __init__(self, bins: Bins, start: float) -> None:
        self.rolling = RollingEstimate(bins, *WINDOW)
        self._bins = bins
        self._blocks = Periods(bins, start, BLOCK_SECONDS)

    def add(self, received: FloatArray, bounds: Bounds, known: NDArray[np.bool_]) -> None:
        counted = tally(self._bins, bounds.lower[known], bounds.upper[known], bounds.proven[known])
        self._blocks.add([(float(received[0]), counted)])

    def evaluate(self, now: float) -> None:
        self._blocks.forget(now - self.rolling.length)
        self.rolling.evaluate(self._blocks.since(now - self.rolling.length), 0.0)
