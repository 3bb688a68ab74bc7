"""One domain at work: its ticks move its clock, and each seals what the domain's streams received before it."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from watchslo.clock.domain import Domain, Membership
from watchslo.latency.track import Track
from watchslo.model import Reading, Resource
from watchslo.monitor.ticker import Pace, Ticker
from watchslo.monitor.trouble import Trouble
from watchslo.snapshot import DomainReading
from watchslo.watch.failure import Failure


class Dated(Protocol):
    """What a timekeeper knows of a stream: its number, what it watches, and where its statistics go."""

    number: int
    resource: Resource
    track: Track


class Timekeeper:
    """Joins one `Domain`, its `Ticker`, and the streams whose revisions they date.

    A `blind` one ticks on nothing but what its streams watch, and cannot see the lag of that cache. `trouble` is that
    of its ticks. `on_foreign` is called with a stream whose revisions prove not to belong here, `on_reset` when the
    storage went back in time: their owner finds the stream another home, or starts the streams over.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[Resource], Awaitable[Reading | Failure]],
        pace: Pace,
        trouble: Trouble,
        on_foreign: Callable[["Timekeeper", Dated], None],
        on_reset: Callable[["Timekeeper"], None],
    ) -> None:
        self.domain = Domain(name)
        self.trouble = trouble
        self.ticker = Ticker(read, self._arrived, pace, trouble)
        self.blind = False
        self.streams: dict[int, Dated] = {}
        self._on_foreign = on_foreign
        self._on_reset = on_reset

    def attach(self, stream: Dated) -> None:
        self.streams[stream.number] = stream
        self.domain.attach(stream.number, stream.resource.key)

    def detach(self, stream: Dated) -> None:
        del self.streams[stream.number]
        self.domain.detach(stream.number)

    @property
    def ticking(self) -> bool:
        """Whether there is a tick to compare with."""
        return self.domain.clock.latest is not None

    def membership(self, resource: Resource) -> Membership:
        return self.domain.membership(resource.key)

    def _arrived(self, tick: Reading) -> None:
        """Takes in a tick: it confirms or refutes what streams sighted, and seals what they received before it."""
        if not self.domain.tick(tick):
            self._on_reset(self)
            return
        for stream in list(self.streams.values()):
            self._seal(stream, tick)

    def _seal(self, stream: Dated, tick: Reading) -> None:
        """Measures what a stream received, unless it is known by now that it does not belong here."""
        if self.membership(stream.resource) is not Membership.FOREIGN:
            clock = self.domain.clock
            own_cache = stream.resource.key if stream.resource.cached and not self.blind else None
            measure = partial(clock.measure, without=own_cache)
            if stream.track.seal(tick.sent, tick.revision, measure, clock.median_round_trip or 0.0):
                return
            self.domain.expel(stream.resource.key)
        self._on_foreign(self, stream)

    def reading(self, apiserver: str) -> DomainReading:
        clock, ticker = self.domain.clock, self.ticker
        return DomainReading(
            name=self.domain.name,
            apiserver=apiserver,
            ticks_on=tuple(resource.key for resource in ticker.resources),
            revision=clock.newest,
            interval=clock.interval,
            resets=self.domain.resets,
            ticks=dict(ticker.results),
            round_trips=ticker.round_trips.reading(),
            median_round_trip=clock.median_round_trip,
        )
