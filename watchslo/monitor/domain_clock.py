"""One revision clock with its tickers and the watches whose events it dates.

Theory of operation
===================

Wall clocks are not trusted. A *tick* is a consistent read that returns no object: its answer names the newest revision
R of the storage. If it was sent at s and answered at e (monotonic seconds), then every revision up to R was committed
before e, and every later revision was committed after s. Ticks about twice a second therefore bound the commit time of
each event to an interval about half a second wide, and the latency is the arrival minus that interval.

A *domain* is the set of sources (a resource at an apiserver) whose revisions form one sequence. A `DomainClock` joins

- a `Domain`: the ticks, and what is known of each source: pending, member or foreign;
- one `Ticker` for each apiserver; together they keep the configured rate;
- the watches that the domain dates, each with its track.

The life of a tick:

1. A ticker reads through its apiserver and passes the reading to `_arrived`.
2. If the source of the tick is not known to be of this domain, the reading is only a *probe*: the domain compares it
   with the ticks around it. Three consistent probes make the source a member.
3. Otherwise the tick extends the clock. If it went backwards (an older read had a newer revision), the storage was
   restored: the domain is reset and `on_reset` is called.
4. Then each watch is *sealed*: the events received in whole seconds before the tick was sent are measured and become
   samples. If one of them is newer than the revision of the tick, its source is foreign: that second is dropped, the
   source is expelled and `on_foreign` is called.

Invariants:

- Only ticks of one storage extend the clock. The *anchor* is the apiserver whose ticks define that storage: the first
  to tick, and later the one whose tick reset the domain. If no ticker of the anchor or of a member remains, the next
  tick makes its apiserver the anchor. If such tickers exist but are silent, the next tick of a source not known to be
  foreign makes its apiserver the anchor.
- A watch is never measured by ticks on its own cached resource: such a tick waits for that cache and hides its lag.
  A *blind* clock has no other choice and says so.
- A failed, slow or late tick makes an interval wider, never wrong.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import structlog

from watchslo.clock.cache import CacheClock
from watchslo.clock.domain import Domain, Membership
from watchslo.latency.bins import Bins
from watchslo.latency.compared import Comparison
from watchslo.latency.track import Track
from watchslo.model import Bounds, FloatArray, IntArray, Reading, Resource, Source
from watchslo.monitor.failure_log import FailureLog
from watchslo.monitor.ticker import Pace, Ticker
from watchslo.monitor.watch_identity import WatchIdentity
from watchslo.watch.failure import Failure

FOREIGN_SECONDS = 5.0  # between two ticks of another storage: they show when the apiserver is back on this one
ABANDONED_SECONDS = 30.0  # without a tick that proves anything: enough for an apiserver to restart
ABANDONED_TICKS = 4  # of each apiserver, if ticks are rare


@dataclass(frozen=True, slots=True)
class _DatedWatch:
    """A watch and the track that takes its samples."""

    identity: WatchIdentity
    track: Track


class DomainClock:
    """Dates the events of the watches of one domain; see the theory of operation above.

    A tick through an apiserver that is not known to have this domain's storage is only a probe. A `blind` clock ticks
    only on resources that its watches watch: through a single apiserver it cannot see the lag of that cache.

    `cache_clock` returns the clock of a source's watch cache while that cache is probed. `on_foreign` is called with
    the number of a watch whose revisions prove not to belong here, `on_reset` when the storage was restored.
    """

    def __init__(
        self,
        name: str,
        bins: Bins,
        interval: float,
        random: Callable[[], float],
        cache_clock: Callable[[Source], CacheClock | None],
        on_foreign: Callable[["DomainClock", int], None],
        on_reset: Callable[["DomainClock"], None],
    ) -> None:
        self.domain = Domain(name)
        self.tickers: dict[str, Ticker] = {}
        self._blind = False
        self._watches: dict[int, _DatedWatch] = {}
        self._bins = bins
        self._comparisons: dict[str, Comparison] = {}
        self._interval = interval
        self._random = random
        self._log = structlog.get_logger().bind(domain=name)
        self._anchor: str | None = None  # the apiserver whose ticks define what belongs here
        self._cache_clock = cache_clock
        self._on_foreign = on_foreign
        self._on_reset = on_reset

    @property
    def name(self) -> str:
        return self.domain.name

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the watches that this clock dates."""
        return tuple(self._watches)

    @property
    def ticking(self) -> bool:
        """Whether there is a tick to compare with."""
        return self.domain.clock.latest is not None

    def set_blind(self, blind: bool) -> None:  # noqa: FBT001 - the value is the only argument
        """Note whether this clock has to tick on resources that its own watches watch."""
        self._blind = blind

    # Tickers

    def join(self, apiserver: str, read: Callable[[Resource], Awaitable[Reading | Failure]]) -> Ticker:
        """Return a new ticker through one more apiserver, for the caller to run."""
        failures = FailureLog(self._log.bind(apiserver=apiserver))
        ticker = self.tickers[apiserver] = Ticker(
            read, self._arrived, Pace(partial(self.tick_spacing, apiserver), self._random), failures
        )
        return ticker

    def leave(self, apiserver: str) -> None:
        """Forget the ticker of an apiserver."""
        del self.tickers[apiserver]
        self._comparisons.pop(apiserver, None)
        self.domain.clock.leave(apiserver)

    def tick_spacing(self, apiserver: str) -> float:
        """Return the mean seconds between two ticks of one apiserver; useful tickers take over the share of others."""
        useful = [name for name, ticker in self.tickers.items() if ticker.failures.now is None]
        useful = [name for name in useful if not self._is_foreign(name)]
        share = self._interval * max(1, len(useful))
        return max(share, FOREIGN_SECONDS) if self._is_foreign(apiserver) else share

    def _is_foreign(self, apiserver: str) -> bool:
        of = self.tickers[apiserver].resources
        return any(self.domain.membership((apiserver, resource.key)) is Membership.FOREIGN for resource in of)

    def trusts(self, source: Source) -> bool:
        """Return True if ticks of this source are known to be of this domain's storage."""
        return source[0] == self._anchor or self.domain.membership(source) is Membership.MEMBER

    # Watches

    def attach(self, identity: WatchIdentity, track: Track) -> None:
        """Date a watch from now on; if it is attached already, `track` replaces its track."""
        self._watches[identity.number] = _DatedWatch(identity, track)
        self.domain.attach(identity.number, identity.source)

    def detach(self, number: int) -> None:
        """Stop dating a watch."""
        del self._watches[number]
        self.domain.detach(number)

    def _arrived(self, tick: Reading) -> None:
        """Take in a tick and seal what the watches received before it was sent."""
        if not self.ticking or self._is_abandoned(tick):
            self._anchor = tick.apiserver
        if not self.trusts(tick.source):
            self.domain.probe(tick)
            return
        if not self.domain.tick(tick):
            self._anchor = tick.apiserver
            self._on_reset(self)
            return
        for watch in list(self._watches.values()):
            self._seal(watch, tick)

    def _is_abandoned(self, tick: Reading) -> bool:
        """Return True if no trusted ticker remains; the tick then becomes the new anchor.

        Either all trusted apiservers have left, or they are silent and this source is not known to be foreign.
        """
        if self.trusts(tick.source):
            return False
        if not any(self.trusts((name, one.key)) for name, of in self.tickers.items() for one in of.resources):
            return True
        latest, standing = self.domain.clock.latest, self.domain.membership(tick.source)
        is_silent = latest is not None and tick.sent - latest.answered > self._abandoned_after
        return is_silent and standing is not Membership.FOREIGN

    @property
    def _abandoned_after(self) -> float:
        return max(ABANDONED_SECONDS, ABANDONED_TICKS * self._interval * len(self.tickers))

    def _seal(self, watch: _DatedWatch, tick: Reading) -> None:
        """Measure what a watch received, unless its source is known to be foreign."""
        source = watch.identity.source
        if self.domain.membership(source) is not Membership.FOREIGN:

            def measure(revisions: IntArray, received: FloatArray) -> Bounds:
                return self._measure(watch.identity, revisions, received)

            round_trip = self.domain.clock.median_round_trip or 0.0
            if watch.track.seal(tick.sent, tick.revision, measure, round_trip, self._cache_clock(source)):
                return
            self.domain.expel(source)
        self._on_foreign(self, watch.identity.number)

    def _measure(self, identity: WatchIdentity, revisions: IntArray, received: FloatArray) -> Bounds:
        """Measure by all ticks except those on the watched cache; compare that with the ticks of its apiserver."""
        clock, apiserver = self.domain.clock, identity.apiserver.name
        several = len(self.tickers) > 1
        own_cache = identity.source if identity.resource.cached and (several or not self._blind) else None
        bounds = clock.measure(revisions, received, without=own_cache)
        if several and len(received):
            comparison = self._comparisons.setdefault(apiserver, Comparison(self._bins, float(received[0])))
            hiding = None if self._blind else own_cache
            comparison.add(received, bounds, clock.measure(revisions, received, without=hiding, only=apiserver))
        return bounds

    # Figures

    def evaluate(self, now: float) -> None:
        """Evaluate the comparisons of all ticks with those of one apiserver."""
        for comparison in self._comparisons.values():
            comparison.evaluate(now)

    def comparison(self, apiserver: str) -> Comparison | None:
        """Return all events of this apiserver by all ticks and by its own; None unless several apiservers tick."""
        return self._comparisons.get(apiserver)
