"""When ticks were sent and answered: how long a commit had to wait until a tick showed it, whatever its revision.

A stall that holds ticks and events alike cannot be seen: an event that waits with a tick arrives when that tick shows
its commit. So latencies are *hidden* by ticks in flight. A median of the round trips says little about that, because a
quantile of latencies is hidden by the slowest ticks. For each instant of a window, the hidden time is the time until
the tick then in flight was answered, or 0 without one. The q-quantile of latencies is not resolved below the q-quantile
of that over all instants of the window. A way that is held is held before the next tick finds it so. Therefore a flight
that was longer than the median one counts as if it had begun as much earlier, but not before the previous answer.
"""

from zlib import crc32

import numpy as np

from watchslo.model import AnsweredTicks, FloatArray, IntArray, Reading

EXTRA = -1  # in place of the apiserver of a tick that does not cut


class TickTimes:
    """The times of the ticks since the last `prune`, of all sources, ascending in the time of sending."""

    def __init__(self) -> None:
        self._sent: FloatArray = np.empty(0)
        self._answered: FloatArray = np.empty(0)
        self._apiservers: IntArray = np.empty(0, np.int64)  # a number for each, or `EXTRA`
        self._hidden: dict[float, HiddenTimes] = {}  # by the length of the window, until the next tick

    def add(self, reading: Reading) -> None:
        place = int(self._sent.searchsorted(reading.sent))
        apiserver = crc32(reading.apiserver.encode()) if reading.cuts else EXTRA
        self._sent = np.insert(self._sent, place, reading.sent)
        self._answered = np.insert(self._answered, place, reading.answered)
        self._apiservers = np.insert(self._apiservers, place, apiserver)
        self._hidden.clear()

    def prune(self, before: float) -> None:
        """Drop the ticks that were sent before that time."""
        first = int(self._sent.searchsorted(before))
        self._sent, self._answered = self._sent[first:], self._answered[first:]
        self._apiservers = self._apiservers[first:]

    def between(self, start: float, end: float) -> AnsweredTicks:
        """Return the ticks sent between two times, and what was sent later up to the first answer after `end`."""
        first = int(self._sent.searchsorted(start))
        sent, known = self._sent[first:], _known(self._answered[first:])
        last = int(sent.searchsorted(end)) + 1
        return AnsweredTicks(start, end, sent[:last], known[:last])

    def hidden(self, seconds: float) -> "HiddenTimes":
        """Return for how long ticks hid latencies of what arrived in the last so many seconds before the last tick.

        Only the flights through the fastest apiserver count: what passes there is shown first.
        """
        if seconds not in self._hidden:
            self._hidden[seconds] = self._hidden_in(seconds)
        return self._hidden[seconds]

    def _hidden_in(self, seconds: float) -> "HiddenTimes":
        cuts = self._apiservers != EXTRA
        sent, answered, apiservers = self._sent[cuts], _known(self._answered[cuts]), self._apiservers[cuts]
        first = int(answered.searchsorted(sent[-1] - seconds)) if len(sent) else 0
        sent, answered, apiservers = sent[first:], answered[first:], apiservers[first:]
        medians = {name: float(np.median((answered - sent)[apiservers == name])) for name in np.unique(apiservers)}
        fastest = apiservers == min(medians, key=lambda name: medians[name], default=-1)
        return HiddenTimes(sent[fastest], answered[fastest])


class HiddenTimes:
    """For how long latencies are hidden, over all instants from the first tick to the last answer.

    The ticks were sent at `sent`, ascending, and answered at `answered`, which ascends too; all in monotonic seconds.
    """

    def __init__(self, sent: FloatArray, answered: FloatArray) -> None:
        flights = answered - sent
        longer = np.maximum(flights - np.median(flights), 0.0) if len(flights) else flights
        before = np.append(sent[:1], np.minimum(answered[:-1], sent[1:]))
        self._begins = np.maximum(sent - longer, before)
        self._ends = np.minimum(answered, np.append(self._begins[1:], answered[-1:]))
        self._answered = answered
        self._seconds = float(answered[-1] - self._begins[0]) if len(sent) else 0.0
        self._known: dict[float, float] = {}

    def quantile(self, q: float) -> float:
        """Return the q-quantile in seconds; 0 if fewer of the instants are hidden at all."""
        if q not in self._known:
            self._known[q] = self._quantile(q)
        return self._known[q]

    def _quantile(self, q: float) -> float:
        longer = (1.0 - q) * self._seconds  # for so many seconds, latencies are hidden by more than the quantile
        if self._more_than(0.0) <= longer:
            return 0.0
        times = np.unique(np.concatenate(([0.0], self._answered - self._ends, self._answered - self._begins)))
        low, high = 0, len(times) - 1  # more instants are hidden by more than times[low], and not by times[high]
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._more_than(times[middle]) > longer else (low, middle)
        most, least = self._more_than(times[low]), self._more_than(times[high])
        return float(times[low] + (times[high] - times[low]) * (most - longer) / (most - least))  # it falls linearly

    def _more_than(self, hidden: float) -> float:
        """Return for how many seconds latencies are hidden by more than this."""
        return float(np.maximum(np.minimum(self._ends, self._answered - hidden) - self._begins, 0.0).sum())


def _known(answered: FloatArray) -> FloatArray:
    """Return for each tick when it, or one that was sent later, was answered first."""
    known: FloatArray = np.minimum.accumulate(answered[::-1])[::-1]
    return known
