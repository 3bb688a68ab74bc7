"""One watch from its arrivals to its readings: a real sealer and a real track, with a given measure of latencies."""

from collections import deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

from watchslo.clock.answered import TickTimes
from watchslo.clock.domain import Membership
from watchslo.clock.storage_kind import ApiserverStorage
from watchslo.latency.bins import Bins
from watchslo.latency.estimate import TickSpacing, solve
from watchslo.latency.hops import CacheAges
from watchslo.latency.objective import Objective
from watchslo.latency.own_delay import OwnDelays
from watchslo.latency.queue_waits import QueueWaits
from watchslo.latency.track import Track
from watchslo.model import Bounds, FloatArray, IntArray, Reading
from watchslo.monitor.clocks.sealer import Sealer
from watchslo.snapshot import StorageKind, TrackReading

NUMBER = 7
GAP = 0.5
Measure = Callable[[IntArray, FloatArray], Bounds]


ETCD = ApiserverStorage(StorageKind.SEQUENCE, may_poll=False)


class GivenDomain:
    """A domain whose clock measures by a given function."""

    offset = None

    def __init__(self) -> None:
        self.clock = self
        self.counts = True
        self.measure_by: Measure

    def learn(self, revisions: IntArray, received: FloatArray) -> None:
        """Learn nothing: these revisions are counts."""

    def measure(self, revisions: IntArray, received: FloatArray, *_: object, **__: object) -> Bounds:
        return self.measure_by(revisions, received)

    def membership(self, _: object) -> Membership:
        return Membership.MEMBER

    def expel(self, source: object) -> None:
        """Expel nothing: all events are of this domain."""


class OneWatch:
    """The track of a watch, with the sealer that measures its events."""

    def __init__(
        self, bins: Bins, objective: Objective, start: float, *, creation: bool = False, quantiles: bool = True
    ) -> None:
        self.domain: Any = GivenDomain()
        self.own_delays = OwnDelays()
        self.track = Track(bins, objective, start, self.own_delays, creation=creation, quantiles=quantiles)
        self._cache: Any = None
        self._round_trip = 0.0
        self._times = TickTimes()
        self.sealer = Sealer(cast("Any", self.domain), bins, self.own_delays, lambda _: self._cache, lambda _: ETCD)
        self.queue_waits = QueueWaits()
        self.sealer.attach(identity(), self.track, self.queue_waits)

    def record(self, received: float, revisions: Sequence[int]) -> None:
        self.sealer.record(NUMBER, received, list(revisions))

    def seal(
        self, sent: float, revision: int, measure: Measure, round_trip: float, cache: CacheAges | None = None
    ) -> bool:
        """Seal by a tick; return False if an event proves to be of another sequence."""
        self.domain.measure_by, self._cache, self._round_trip = measure, cache, round_trip
        tick = Reading("events", sent, sent + round_trip, revision)
        self._times.add(tick)
        return not any([*self.sealer.seal(tick, several=False, blind=False)])

    def drop(self) -> None:
        self.sealer.drop(NUMBER)

    def evaluate(self, now: float, withheld: Sequence[float] = (), **named: Any) -> None:
        deque(self.sealer.collect(), maxlen=0)
        solve(self.sealer.update(now, GAP))
        slots = self.sealer.take(NUMBER)
        sealed, ticks = self.sealer.sealed(NUMBER), TickSpacing(self._round_trip, GAP)
        solve(self.track.update(now, slots, sealed, ticks, self._times.between, withheld, **named))
        self.track.publish()

    def reading(self) -> TrackReading:
        return self.track.reading()

    @property
    def pending(self) -> int:
        """The number of events that are not sealed."""
        return len(self.sealer._pending)


def identity(number: int = NUMBER, apiserver: str = "one", resource: str = "pods", *, cached: bool = True) -> Any:
    """Return what a sealer needs of the identity of a watch."""
    return SimpleNamespace(
        number=number,
        source=(apiserver, resource),
        cached=cached,
        resource=SimpleNamespace(key=resource),
        apiserver=SimpleNamespace(name=apiserver),
    )
