"""How long the reactions in one step of one resource took: rolling quantiles with bounds, and a histogram of all."""

import math
from bisect import bisect_left
from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import accumulate

from watchslo.latency.histogram import DurationHistogram
from watchslo.model import Interval
from watchslo.reaction.steps import Reaction, Unmeasured
from watchslo.snapshot import HistogramReading, QuantileReading

EDGES = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""The `le` edges of the histogram, in seconds."""

WINDOW_SECONDS = 300.0
QUANTILES = (0.5, 0.99)
_SLOT_SECONDS = 10.0
_BINS = tuple(0.001 * 2 ** (step / 8) for step in range(8 * 22))  # up to an hour; each edge is 9% above the one before


@dataclass(slots=True)
class _Slot:
    """The reactions of some seconds: estimates, and the ends of their bounds, counted by bin."""

    begin: float
    estimates: Counter[int] = field(default_factory=Counter)
    lowers: Counter[int] = field(default_factory=Counter)
    uppers: Counter[int] = field(default_factory=Counter)


class ReactionRecord:
    """The measured reactions of one step of one resource."""

    def __init__(self) -> None:
        self.unmeasured: Counter[Unmeasured] = Counter()
        self._histogram = DurationHistogram(EDGES)
        self._slots: deque[_Slot] = deque()

    def add(self, reaction: Reaction, now: float) -> None:
        """Add a reaction whose changes are dated.

        Its estimate is the time between the arrivals of both events, as what delays the watch delays both. The bounds
        are those of both commits.
        """
        asked, acted = reaction.asked.commit, reaction.acted.commit
        assert asked is not None
        assert acted is not None
        bounds = Interval(max(0.0, acted.lower - asked.upper), max(0.0, acted.upper - asked.lower))
        seconds = reaction.acted.received - reaction.asked.received
        estimate = min(max(seconds, bounds.lower), bounds.upper)
        self._histogram.observe(estimate)
        if not self._slots or now - self._slots[-1].begin >= _SLOT_SECONDS:
            self._slots.append(_Slot(now))
        slot = self._slots[-1]
        slot.estimates[bisect_left(_BINS, estimate)] += 1
        slot.lowers[bisect_left(_BINS, bounds.lower)] += 1
        slot.uppers[bisect_left(_BINS, bounds.upper)] += 1

    def histogram(self) -> HistogramReading:
        return self._histogram.reading()

    def window(self, now: float) -> tuple[int, tuple[QuantileReading, ...]]:
        """Return the number of reactions in the rolling window, and their quantiles with proven bounds."""
        while self._slots and now - self._slots[0].begin > WINDOW_SECONDS:
            self._slots.popleft()
        estimates, lowers, uppers = Counter[int](), Counter[int](), Counter[int]()
        for slot in self._slots:
            estimates.update(slot.estimates)
            lowers.update(slot.lowers)
            uppers.update(slot.uppers)
        if not estimates:
            return 0, ()
        quantiles = (
            QuantileReading(q, _edge(_bin(lowers, q) - 1), _middle(_bin(estimates, q)), _edge(_bin(uppers, q)))
            for q in QUANTILES
        )
        return estimates.total(), tuple(quantiles)


def _bin(counts: Counter[int], q: float) -> int:
    """Return the bin of the sample quantile: of the smallest value that at least this share does not exceed."""
    bins = sorted(counts)
    below = [*accumulate(counts[index] for index in bins)]
    return bins[bisect_left(below, math.ceil(q * below[-1]))]


def _edge(index: int) -> float:
    """Return the upper edge of a bin, in seconds: 0 before the first one, infinite for the open one."""
    if index < 0:
        return 0.0
    return _BINS[index] if index < len(_BINS) else math.inf


def _middle(index: int) -> float:
    """Return a value that is at most 5% off any in a bin; the open bin has its lower edge only."""
    lower, upper = _edge(index - 1), _edge(index)
    return lower if math.isinf(upper) else (lower + upper) / 2
