"""When ticks were sent and answered: how long a commit had to wait until a tick showed it, whatever its revision."""

import numpy as np

from watchslo.model import AnsweredTicks, FloatArray, Reading


class TickTimes:
    """The times of the ticks since the last `prune`, of all sources, ascending in the time of sending."""

    def __init__(self) -> None:
        self._sent: FloatArray = np.empty(0)
        self._answered: FloatArray = np.empty(0)

    def add(self, reading: Reading) -> None:
        place = int(self._sent.searchsorted(reading.sent))
        self._sent = np.insert(self._sent, place, reading.sent)
        self._answered = np.insert(self._answered, place, reading.answered)

    def prune(self, before: float) -> None:
        """Drop the ticks that were sent before that time."""
        first = int(self._sent.searchsorted(before))
        self._sent, self._answered = self._sent[first:], self._answered[first:]

    def between(self, start: float, end: float) -> AnsweredTicks:
        """Return the ticks sent between two times, and what was sent later up to the first answer after `end`."""
        first = int(self._sent.searchsorted(start))
        sent, answered = self._sent[first:], self._answered[first:]
        known = np.minimum.accumulate(answered[::-1])[::-1]
        last = int(sent.searchsorted(end)) + 1
        return AnsweredTicks(start, end, sent[:last], known[:last])
