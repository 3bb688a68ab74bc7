"""Excess: how much later an event arrived at one apiserver than at the apiserver that delivered it first.

The same revision arrives from every apiserver whose watch has the same resource, and all arrivals are times of this
process. So an excess needs no tick and no estimate: it is exact, up to the delays of this process. It says nothing
about the latency at the fastest apiserver.
"""

from collections.abc import Sequence

import numpy as np

from watchslo.model import FloatArray, IntArray
from watchslo.snapshot import ExcessReading

WINDOW_SECONDS = 60.0
KEPT_SECONDS = 120.0  # a copy that arrives later than a minute after the first has no excess: the watch is stuck
MOST_EVENTS = 8192  # of one watch: of a busier one, a shorter time is compared
FEWEST_EVENTS = 20  # fewer say too little


class RecentArrivals:
    """The revisions that one watch delivered in the last two minutes, ascending, and when each was received.

    At most the newest `MOST_EVENTS` are kept. Times are monotonic seconds. A revision that comes twice is not compared.
    """

    def __init__(self) -> None:
        self.revisions: IntArray = np.empty(0, dtype=np.int64)
        self.received: FloatArray = np.empty(0)

    def add(self, revisions: IntArray, received: FloatArray) -> None:
        """Add n > 0 events in the order of their arrival; revisions that go back show that the storage was restored."""
        if len(self.revisions) and revisions[0] < self.revisions[-1]:
            self.revisions, self.received = self.revisions[:0], self.received[:0]
        times = np.concatenate((self.received, received))
        first = max(int(times.searchsorted(times[-1] - KEPT_SECONDS)), len(times) - MOST_EVENTS)
        self.received = times[first:]
        self.revisions = np.concatenate((self.revisions, revisions))[first:]


def excess_of(peers: Sequence[RecentArrivals], now: float) -> list[ExcessReading | None]:
    """Return the excess of the last minute at each peer; None where too few events were compared.

    A revision is compared if every peer that has passed it has delivered it, and at least two have.
    """
    known = [peer for peer in peers if len(peer.revisions)]
    revisions = np.concatenate([peer.revisions for peer in peers])
    order = np.argsort(revisions, kind="stable")
    distinct, starts, copies = np.unique(revisions[order], return_index=True, return_counts=True)
    if not len(distinct):
        return [None] * len(peers)
    received = np.concatenate([peer.received for peer in peers])[order]
    row = np.repeat(np.arange(len(peers)), [len(peer.revisions) for peer in peers])[order]
    passed = np.sum([(peer.revisions[0] <= distinct) & (distinct <= peer.revisions[-1]) for peer in known], axis=0)
    late = received - np.repeat(np.minimum.reduceat(received, starts), copies)
    compared = np.repeat((copies > 1) & (copies == passed), copies) & (received >= now - WINDOW_SECONDS)
    return [_reading(late[compared & (row == number)]) for number in range(len(peers))]


def _reading(seconds: FloatArray) -> ExcessReading | None:
    if len(seconds) < FEWEST_EVENTS:
        return None
    p50, p99 = np.quantile(seconds, (0.5, 0.99), method="inverted_cdf").tolist()
    return ExcessReading(len(seconds), p50, p99)
