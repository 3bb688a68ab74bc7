"""One apiserver as the monitor knows it: how to ask it, what its wall clock says, and what it did."""

import time
from collections import Counter

from watchslo.clock.offset import ClockOffset
from watchslo.kube.access import Connection
from watchslo.kube.client import Client
from watchslo.kube.limiter import Limiter
from watchslo.model import Interval
from watchslo.monitor.counters import Durations
from watchslo.snapshot import ApiserverReading
from watchslo.watch.audit import Verdict
from watchslo.watch.closes import Closes
from watchslo.watch.strategy import StreamedLists


class Apiserver:
    """`name` is the label `apiserver`; `unproven` says why its revisions need not be etcd's, or is None.

    `peers` is how many apiservers the address stands for, where that is known. `closes` finds out why watches
    were closed; `open_streams` are the numbers of the streams whose watch is open.
    """

    def __init__(self, name: str, connection: Connection, limiter: Limiter) -> None:
        self.name = name
        self.client = Client(connection, limiter, self._observe_date)
        self.durations = Durations()
        self.version: str | None = None
        self.unproven: str | None = None
        self.peers: int | None = None
        self.time_travel = 0
        self.audits: Counter[str] = Counter(dict.fromkeys(Verdict, 0))
        self.streamed_lists = StreamedLists()
        self.closes = Closes()
        self.open_streams: set[int] = set()
        self._offset = ClockOffset()

    def _observe_date(self, date: float, sent: float, answered: float) -> None:
        self._offset.observe(date, sent, answered, answered)

    @property
    def offset(self) -> Interval | None:
        """By how much its wall clock is ahead of ours; unknown where several answer, each by a clock of its own."""
        now = time.monotonic()
        bounds = self._offset.bounds(now) if self.peers in (1, None) else None
        ours = time.time() - now
        return Interval(bounds.lower - ours, bounds.upper - ours) if bounds else None

    @property
    def creator_offset(self) -> Interval | None:
        """By how much the wall clock of whoever stamps creations is ahead of our monotonic one, which nobody sets.

        Unknown if others may stamp too.
        """
        return self._offset.bounds(time.monotonic()) if self.peers == 1 else None

    def reading(self) -> ApiserverReading:
        return ApiserverReading(
            name=self.name,
            version=self.version,
            unproven=self.unproven,
            offset=self.offset,
            offset_steps=self._offset.steps,
            time_travel=self.time_travel,
            requests=dict(self.client.requests),
            audits=dict(self.audits),
            list_duration={name: lists.reading() for name, lists in self.durations.lists.items()},
            watch_open=self.durations.opens.reading(),
            watch_duration=self.durations.lives.reading(),
        )
