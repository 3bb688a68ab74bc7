"""When requests to open a watch waited in this process, so that this is not measured as the apiserver's lateness.

What is committed while such a request waits arrives after it was sent, and no earlier for any apiserver: after a long
wait, that is no sample. What was committed before, and arrives after, may have been delayed by the whole wait: it is
taken from the lower bounds of the latency, and so is a short wait in any case. Times are monotonic seconds.
"""

from collections.abc import Sequence

import numpy as np

from watchslo.latency.own_delay import LATE_SECONDS, NOTED_SECONDS
from watchslo.model import BoolArray, Bounds, FloatArray, IntArray

WAITS = 32  # kept; with its backoff, a watch sends fewer requests in the ten minutes for which the clock dates events


class QueueWaits:
    """The newest 32 waits of the requests to open one watch."""

    def __init__(self) -> None:
        self._waits: tuple[tuple[float, float], ...] = ()  # an empty deque takes 0.7 KiB

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, since: float, until: float) -> None:
        """Note that a request waited from `since` until it was sent, or given up."""
        if until - since >= NOTED_SECONDS:
            self._waits = (*self._waits, (since, until))[-WAITS:]

    def wait(self, number: int) -> tuple[float, float]:
        """Return one of the waits, the newest of which is number 0, or an empty one if there are not so many."""
        return self._waits[-1 - number] if number < len(self._waits) else (np.inf, -np.inf)


def queue_delays(
    waits: Sequence[QueueWaits], index: IntArray, received: FloatArray, latency: Bounds
) -> tuple[BoolArray, FloatArray]:
    """Return which of n events may be committed during a long wait, and by how much waits delayed the others.

    `index` is the position of the watch of each event in `waits`.
    """
    earliest, latest = received - latency.upper, received - latency.proven
    during, delays = np.zeros(len(received), dtype=bool), np.zeros(len(received))
    for number in range(max(map(len, waits), default=0)):
        since, until = np.array([of.wait(number) for of in waits])[index].T
        if not (until > earliest).any():  # all events are newer than these waits, and all others are older
            break
        spans = (earliest < until) & (received >= until)
        during |= spans & (latest > since) & (until - since > LATE_SECONDS)
        delays[spans] += (until - since)[spans]
    return during, delays
