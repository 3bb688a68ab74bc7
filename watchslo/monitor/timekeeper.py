"""One domain at work: its ticks move its clock, and each seals what the domain's streams received before it."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

from watchslo.clock.cache import CacheClock
from watchslo.clock.domain import Domain, Membership
from watchslo.latency.bins import Bins
from watchslo.latency.compared import Comparison
from watchslo.latency.track import Track
from watchslo.model import Bounds, FloatArray, IntArray, Reading, Resource, Source
from watchslo.monitor.ticker import Pace, Ticker
from watchslo.monitor.trouble import Trouble
from watchslo.snapshot import DomainReading, TickerReading
from watchslo.watch.failure import Failure

FOREIGN_SECONDS = 5.0  # between two ticks of one that has another storage: they only tell when that is over
ABANDONED_SECONDS = 30.0  # without a tick that proves anything: long enough for an apiserver to start again
ABANDONED_TICKS = 4  # of each apiserver, where they are seldom


class Dated(Protocol):
    """What a timekeeper knows of a stream: its number, what it watches and where, and where its statistics go.

    `cache_clock` tells when revisions reached that apiserver's cache, while somebody looks.
    """

    number: int
    resource: Resource
    track: Track
    cache_clock: CacheClock | None

    @property
    def source(self) -> Source: ...


class Timekeeper:
    """Joins one `Domain`, a `Ticker` for each apiserver, and the streams whose revisions they date.

    Each apiserver ticks at its share of the rate, so that their number does not matter. One that is not known to have
    this domain's storage is only probed by its ticks. A `blind` timekeeper ticks on nothing but what its streams watch:
    through one apiserver alone it cannot see the lag of that cache.

    `on_foreign` is called with a stream whose revisions prove not to belong here, `on_reset` when the storage went back
    in time: their owner finds the stream another home, or starts the streams over.
    """

    def __init__(
        self,
        name: str,
        bins: Bins,
        interval: float,
        random: Callable[[], float],
        log: Any,
        on_foreign: Callable[["Timekeeper", Dated], None],
        on_reset: Callable[["Timekeeper"], None],
    ) -> None:
        self.domain = Domain(name)
        self.blind = False
        self.streams: dict[int, Dated] = {}
        self.tickers: dict[str, Ticker] = {}
        self._bins = bins
        self._comparisons: dict[str, Comparison] = {}
        self._interval = interval
        self._random = random
        self._log = log.bind(domain=name)
        self._anchor: str | None = None  # the apiserver whose ticks define what belongs here
        self._on_foreign = on_foreign
        self._on_reset = on_reset

    # Who ticks

    def join(self, apiserver: str, read: Callable[[Resource], Awaitable[Reading | Failure]]) -> Ticker:
        """A ticker through one more apiserver, to be run by the caller."""
        trouble = Trouble(self._log.bind(apiserver=apiserver))
        ticker = self.tickers[apiserver] = Ticker(
            read, self._arrived, Pace(partial(self._gap, apiserver), self._random), trouble
        )
        return ticker

    def leave(self, apiserver: str) -> None:
        """This apiserver ticks no more."""
        del self.tickers[apiserver]
        self._comparisons.pop(apiserver, None)
        self.domain.clock.leave(apiserver)

    def _gap(self, apiserver: str) -> float:
        """Seconds between two ticks of one apiserver: those that are of no use leave their share to the others."""
        useful = [name for name, ticker in self.tickers.items() if ticker.trouble.now is None]
        useful = [name for name in useful if not self._is_foreign(name)]
        share = self._interval * max(1, len(useful))
        return max(share, FOREIGN_SECONDS) if self._is_foreign(apiserver) else share

    def _is_foreign(self, apiserver: str) -> bool:
        of = self.tickers[apiserver].resources
        return any(self.domain.membership((apiserver, resource.key)) is Membership.FOREIGN for resource in of)

    @property
    def ticking(self) -> bool:
        """Whether there is a tick to compare with."""
        return self.domain.clock.latest is not None

    def vouches_for(self, source: Source) -> bool:
        """Whether ticks of this source are known to be of this domain's storage."""
        return source[0] == self._anchor or self.domain.membership(source) is Membership.MEMBER

    # Who is dated

    def attach(self, stream: Dated) -> None:
        self.streams[stream.number] = stream
        self.domain.attach(stream.number, stream.source)

    def detach(self, stream: Dated) -> None:
        del self.streams[stream.number]
        self.domain.detach(stream.number)

    def _arrived(self, tick: Reading) -> None:
        """Takes in a tick: it confirms or refutes what streams sighted, and seals what they received before it."""
        if not self.ticking or self._abandoned(tick):
            self._anchor = tick.apiserver
        if not self.vouches_for(tick.source):
            self.domain.probe(tick)
            return
        if not self.domain.tick(tick):
            self._anchor = tick.apiserver
            self._on_reset(self)
            return
        for stream in list(self.streams.values()):
            self._seal(stream, tick)

    def _abandoned(self, tick: Reading) -> bool:
        """Whether nobody is left by whom it could be told if this tick belongs here: then it does.

        Those who could have gone; or they are silent, and it is not known to be of another storage.
        """
        if self.vouches_for(tick.source):
            return False
        if not any(self.vouches_for((name, one.key)) for name, of in self.tickers.items() for one in of.resources):
            return True
        latest, standing = self.domain.clock.latest, self.domain.membership(tick.source)
        is_silent = latest is not None and tick.sent - latest.answered > self._abandoned_after
        return is_silent and standing is not Membership.FOREIGN

    @property
    def _abandoned_after(self) -> float:
        return max(ABANDONED_SECONDS, ABANDONED_TICKS * self._interval * len(self.tickers))

    def _seal(self, stream: Dated, tick: Reading) -> None:
        """Measures what a stream received, unless it is known by now that it does not belong here."""
        if self.domain.membership(stream.source) is not Membership.FOREIGN:

            def measure(revisions: IntArray, received: FloatArray) -> Bounds:
                return self._measure(stream, revisions, received)

            round_trip = self.domain.clock.median_round_trip or 0.0
            if stream.track.seal(tick.sent, tick.revision, measure, round_trip, stream.cache_clock):
                return
            self.domain.expel(stream.source)
        self._on_foreign(self, stream)

    def _measure(self, stream: Dated, revisions: IntArray, received: FloatArray) -> Bounds:
        """By all ticks but those that wait for the very cache; and, to be compared, by those of its apiserver alone."""
        clock, apiserver = self.domain.clock, stream.source[0]
        several = len(self.tickers) > 1
        own_cache = stream.source if stream.resource.cached and (several or not self.blind) else None
        bounds = clock.measure(revisions, received, without=own_cache)
        if several and len(received):
            comparison = self._comparisons.setdefault(apiserver, Comparison(self._bins, float(received[0])))
            hiding = None if self.blind else own_cache
            comparison.add(received, bounds, clock.measure(revisions, received, without=hiding, only=apiserver))
        return bounds

    # What is shown

    def evaluate(self, now: float) -> None:
        """Makes new comparisons."""
        for comparison in self._comparisons.values():
            comparison.evaluate(now)

    def comparison(self, apiserver: str) -> Comparison | None:
        """All events of this apiserver by all ticks, and by its own; absent unless several tick."""
        return self._comparisons.get(apiserver)

    def reading(self) -> DomainReading:
        clock = self.domain.clock
        return DomainReading(
            name=self.domain.name,
            ticks_on=tuple(dict.fromkeys(one.key for ticker in self.tickers.values() for one in ticker.resources)),
            revision=clock.newest,
            interval=clock.interval,
            resets=self.domain.resets,
            median_round_trip=clock.median_round_trip,
            tickers=tuple(self._read(name, ticker) for name, ticker in self.tickers.items()),
        )

    def _read(self, apiserver: str, ticker: Ticker) -> TickerReading:
        return TickerReading(
            apiserver=apiserver,
            ticks=dict(ticker.results),
            round_trips=ticker.round_trips.reading(),
            median_round_trip=self.domain.clock.median_round_trip_of(apiserver),
            answered_ago=None if ticker.answered is None else time.monotonic() - ticker.answered,
            gap=self._gap(apiserver),
            failure=ticker.trouble.now.message if ticker.trouble.now else None,
            vouched=any(self.vouches_for((apiserver, one.key)) for one in ticker.resources),
        )
