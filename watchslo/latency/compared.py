"""Compare the latencies of the same events by all ticks with those by the ticks of their own apiserver alone.

Ticks that share a slow path with the events hide its delay. The difference shows how much they hide.
"""

import numpy as np
from numpy.typing import NDArray

from watchslo.latency.bins import Bins
from watchslo.latency.distribution import BLOCK_SECONDS
from watchslo.latency.estimate import RollingEstimate
from watchslo.latency.tally import Periods, tally
from watchslo.model import Bounds, FloatArray
from watchslo.snapshot import WindowReading

WINDOW = ("1m", 60.0)


class Comparison:
    """Two rolling windows of the same events, from `start` (monotonic seconds) on.

    `combined` is measured by all ticks, `alone` by the ticks of the events' own apiserver.
    """

    def __init__(self, bins: Bins, start: float) -> None:
        self._combined = _ComparedWindow(bins, start)
        self._alone = _ComparedWindow(bins, start)

    def add(self, received: FloatArray, combined: Bounds, alone: Bounds) -> None:
        """Add n events (arrays of length n) of about the same second; only those that both can measure count."""
        known = combined.measurable & alone.measurable
        if known.any():
            self._combined.add(received[known], combined, known)
            self._alone.add(received[known], alone, known)

    def evaluate(self, now: float) -> None:
        """Update both readings."""
        self._combined.evaluate(now)
        self._alone.evaluate(now)

    @property
    def combined(self) -> WindowReading:
        return self._combined.rolling.reading

    @property
    def alone(self) -> WindowReading:
        return self._alone.rolling.reading


class _ComparedWindow:
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
