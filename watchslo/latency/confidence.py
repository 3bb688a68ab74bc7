"""How many events of a window are late: bounds, with a stated confidence.

Theory of operation
===================

The proven ends of the events decide most windows. What is left are windows in which the threshold T lies between the
ends of too many events. No test that counts these events as independent is valid: one stall delays hundreds of them
together. The times of the ticks are our own random choice, so the test uses nothing else:

1. Every commit shows in the next tick that is sent after it. Let r be the time that is long enough for all but a share
   b of the instants of the window: had an event been committed at a random instant, its commit would show later than r
   with probability b only. r follows from the times of the ticks alone.
2. If an event was later than T, and its commit showed within r, its latency is proven to be longer than L = T - r. The
   other late events are *hidden*. Whatever the events have to do with each other, a late event is hidden with
   probability b, so the expected share of hidden events among the late ones is b.
3. Markov's inequality: the share of hidden ones exceeds 1/2 with probability 2b at most. So with confidence 1 - 2b, at
   most 2m events are late, if m events are proven to be later than L.

This assumes that commits do not depend on the times of our ticks. A stall that delays or refuses the ticks as well
breaks it, in that an event waits for the same moment as the tick that shows it. An event can only be late and hidden in
this way if no tick showed its commit within T. Then its cut interval is wider than T: it ends with the answer to such a
tick, or when the event arrived, if that was earlier. So up to as many events are late as have such an interval.

In bursts, ticks are more frequent in a part of the window, and late events may lie in the other part, because they
start the burst. So r follows from the parts of the window with few ticks.
"""

from bisect import bisect_right
from collections.abc import Sequence
from math import ceil

import numpy as np

from watchslo.latency.tally import KeyCounts
from watchslo.model import AnsweredTicks, FloatArray, Interval

CONFIDENCE = 0.95
PART_SECONDS = 5.0  # a burst begins in one part, so that hardly any time without it is in a part with it
DENSER = 1.5  # a part with so many times the ticks of another one was ticked in a burst


def late_events(window: Sequence[KeyCounts], threshold: float) -> Interval:
    """Return the proven bounds of the number of events that are later than a threshold, which is an edge."""
    edge = window[0].bins.edge(threshold)
    return Interval(_beyond(window, edge), sum(part.n - part.within(edge) for part in window))


def _beyond(window: Sequence[KeyCounts], edge: int) -> int:
    return sum(part.beyond(edge) for part in window)


def most_late(window: Sequence[KeyCounts], threshold: float, ticks: AnsweredTicks) -> float:
    """Return how many events are later than a threshold at most, with `CONFIDENCE`; see above."""
    bins, n, parts = window[0].bins, sum(part.n for part in window), _Parts(ticks)
    waits = threshold - bins.edges[: bins.edge(threshold)]
    usable = bisect_right(waits.tolist(), (1 - CONFIDENCE) / 2, key=parts.sparse)
    shown = _beyond(window, usable - 1) if usable else n
    return min(shown + max(shown, _unshown(window, threshold)), n)


def _unshown(window: Sequence[KeyCounts], threshold: float) -> int:
    """Return how many events no tick can tell from late ones: their cut intervals are wider than the threshold."""
    undecided = late_events(window, threshold)
    return min(sum(part.wider(threshold) for part in window), int(undecided.upper - undecided.lower))


class _Parts:
    """The parts of a window, all of the same length, and the instants in them whose commits no tick shows in time."""

    def __init__(self, ticks: AnsweredTicks) -> None:
        limits = np.linspace(ticks.start, ticks.end, ceil((ticks.end - ticks.start) / PART_SECONDS) + 1)
        counts = np.diff(ticks.sent.searchsorted(limits))
        sent = np.append(ticks.sent, ticks.end)
        self._sparse = counts <= DENSER * counts.min()
        self._seconds = limits[1] - limits[0]
        self._starts = np.maximum(np.append(-np.inf, sent[:-1]), limits[:-1, None])
        self._ends = np.minimum(sent, limits[1:, None])
        self._answered = np.append(ticks.answered, np.inf)

    def sparse(self, wait: float) -> float:
        """Return the share of instants, in the parts with few ticks, whose commits no tick shows within `wait`."""
        return float(self._hidden(wait)[self._sparse].mean())

    def _hidden(self, wait: float) -> FloatArray:
        lost = np.minimum(self._ends, self._answered - wait) - self._starts
        shares: FloatArray = np.maximum(lost, 0.0).sum(axis=1) / self._seconds
        return shares
