"""The delays that this process adds to arrivals, so that none of them is measured as the apiserver's.

The event loop reports when it read, and since when the data that it read may have waited. What was read in such a
*span* at time t may have arrived as early as the span says. Outside of all spans, data is read as soon as it arrives.
Times are monotonic seconds.
"""

from array import array
from collections import deque

import numpy as np

from watchslo.model import BoolArray, FloatArray

NOTED_SECONDS = 0.001  # shorter delays are not noted: the finest bin is as wide
LATE_SECONDS = 0.15  # a longer own delay is not taken from the bounds: the event is no sample
SPANS = 65_536  # kept; 65 s of a loop that is always busy, hours of a usual one
STOPS = 64  # kept


class _Spans:
    """Spans [start, end] with a value each, in ascending order; the newest `SPANS`."""

    def __init__(self) -> None:
        self.forgotten = -np.inf  # the end of the newest span that is not kept any more
        self._starts = array("d")
        self._ends = array("d")
        self._values = array("d")

    def add(self, start: float, end: float, value: float) -> None:
        if len(self._starts) == SPANS:
            self.forgotten = self._ends[SPANS // 2 - 1]
            for column in (self._starts, self._ends, self._values):
                del column[: SPANS // 2]
        self._starts.append(start)
        self._ends.append(end)
        self._values.append(value)

    def at(self, times: FloatArray, otherwise: FloatArray) -> FloatArray:
        """Return the value of the span of each time, or that of `otherwise` outside of all spans."""
        if not self._starts:
            return otherwise
        span = np.frombuffer(self._starts).searchsorted(times, side="right") - 1
        covered = (span >= 0) & (times <= np.frombuffer(self._ends)[span])
        return np.where(covered, np.frombuffer(self._values)[span], otherwise)


class OwnDelays:
    """How long arrivals may have waited for this process: the newest 65,536 spans and 64 stops.

    A *stop* is a suspend of the machine, or a time in which this process did not run.

    Everything that happened before `known_until` is noted.
    """

    def __init__(self) -> None:
        self.known_until = np.inf
        self._late = _Spans()
        self._waits = _Spans()
        self._stops: deque[tuple[float, float]] = deque(maxlen=STOPS)

    def add_late_reads(self, start: float, end: float, since: float) -> None:
        """Note that data read from `start` to `end` may have arrived as early as `since`; call it in order of time."""
        if end - since >= NOTED_SECONDS:
            self._late.add(start, end, since)

    def add_cpu_wait(self, start: float, end: float, seconds: float) -> None:
        """Note that this process waited so long for a CPU between `start` and `end`; call it in order of time."""
        if seconds >= NOTED_SECONDS:
            self._waits.add(start, end, seconds)

    def add_stop(self, before: float, after: float) -> None:
        """Note a stop between two moments; in a suspend of the machine the monotonic clock stops as well."""
        self._stops.append((before, after))

    def of(self, received: FloatArray) -> FloatArray:
        """Return for n arrivals by how many seconds each may have been read late; infinite if that is not known."""
        delays = received - self._late.at(received, received) + self._waits.at(received, np.zeros(len(received)))
        return np.where(received <= max(self._late.forgotten, self._waits.forgotten), np.inf, delays)

    def span_stop(self, since: FloatArray, received: FloatArray) -> BoolArray:
        """Return for each of n intervals from `since` to `received` whether this process may have stood still."""
        spans = np.zeros(len(received), dtype=bool)
        for before, after in self._stops:
            spans |= (since <= after) & (received >= before)
        return spans
