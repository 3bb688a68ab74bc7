"""One apiserver as the monitor knows it: how to ask it, what its wall clock says, and what it did."""

import time
from collections import Counter

import structlog

from watchslo.clock.offset import ClockOffset, Dating
from watchslo.kube.access import Address, Connection
from watchslo.kube.client import Client
from watchslo.kube.discovery import unproven_storage
from watchslo.kube.limiter import Limiter
from watchslo.latency.compared import Comparison
from watchslo.model import Interval
from watchslo.monitor.counters import Durations
from watchslo.snapshot import ApiserverReading
from watchslo.watch.audit import Verdict
from watchslo.watch.closes import Closes
from watchslo.watch.strategy import StreamedLists


class Apiserver:
    """`name` is the label `apiserver`; without an `address` it is whoever answers at that of the credentials.

    `unproven` says why its revisions need not be etcd's, or is None. `peers` is how many apiservers the address stands
    for, where that is known; `mixed` that it may be several, by what is known of all addresses. `closes` finds out why
    watches were closed; `open_streams` are the numbers of the streams whose watch is open.
    """

    def __init__(self, name: str, connection: Connection, limiter: Limiter, address: Address | None = None) -> None:
        self.name = name
        self.client = Client(connection, limiter, self._observe_date, name=name, address=address)
        self.durations = Durations()
        self.version: str | None = None
        self.unproven: str | None = None
        self.peers: int | None = None
        self.mixed = False
        self.time_travel = 0
        self.time_travel_revisions = 0
        self.time_travel_seconds = 0.0
        self.audits: Counter[str] = Counter(dict.fromkeys(Verdict, 0))
        self.streamed_lists = StreamedLists()
        self.closes = Closes()
        self.open_streams: set[int] = set()
        self._offset = ClockOffset()
        self._log = structlog.get_logger()

    async def open(self) -> None:
        """To be awaited on the loop, before it is asked anything."""
        await self.client.__aenter__()

    async def close(self) -> None:
        """Closes all connections."""
        await self.client.__aexit__(None, None, None)

    def recognise(self, version: str, storage: str) -> None:
        """Takes in its version, and draws conclusions; `storage` is what the configuration says of it."""
        unproven = unproven_storage(version, storage)
        if unproven != self.unproven:
            self._log.warning("storage_unproven", apiserver=self.name, why=unproven)
        self.version, self.unproven = version, unproven
        self.streamed_lists.observe_version(version)

    def _observe_date(self, date: float, sent: float, answered: float) -> None:
        self._offset.observe(date, sent, answered, answered)

    @property
    def offset(self) -> Interval | None:
        """By how much its wall clock is ahead of ours; unknown where several answer, each by a clock of its own."""
        now = time.monotonic()
        bounds = self._offset.bounds(now) if self.peers in (1, None) and not self.mixed else None
        ours = time.time() - now
        return Interval(bounds.lower - ours, bounds.upper - ours) if bounds else None

    @property
    def dating(self) -> Dating | None:
        """What its wall clock's instants are on our monotonic one, which nobody sets; unknown where several answer."""
        return self._offset.dating(time.monotonic()) if self.peers == 1 else None

    def travelled(self, back: int, age: float) -> None:
        """An answer was from the past: so many revisions before what had been seen, and at least so old, in seconds."""
        self.time_travel += 1
        self.time_travel_revisions += back
        self.time_travel_seconds += age

    def reading(self, comparison: Comparison | None, *, watched: bool) -> ApiserverReading:
        return ApiserverReading(
            name=self.name,
            version=self.version,
            watched=watched,
            peers=self.peers,
            unproven=self.unproven,
            offset=self.offset,
            offset_steps=self._offset.steps,
            time_travel=self.time_travel,
            time_travel_revisions=self.time_travel_revisions,
            time_travel_seconds=self.time_travel_seconds,
            combined=comparison.combined if comparison else None,
            alone=comparison.alone if comparison else None,
            requests=dict(self.client.requests),
            audits=dict(self.audits),
            list_duration={name: lists.reading() for name, lists in self.durations.lists.items()},
            watch_open=self.durations.opens.reading(),
            watch_duration=self.durations.lives.reading(),
        )
