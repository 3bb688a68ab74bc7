"""One revision clock with its tickers and the watches whose events it dates.

Theory of operation
===================

Wall clocks are not trusted. A *tick* is a consistent read that returns no object: its answer names the newest revision
R of the storage. If it was sent at s and answered at e (monotonic seconds), then every revision up to R was committed
before e, and every later revision was committed after s. Ticks about twice a second therefore bound the commit time of
each event to an interval about half a second wide, and the latency is the arrival minus that interval.

A *domain* is the set of sources (a resource at an apiserver) whose revisions form one sequence. A `DomainClock` joins

- a `Domain`: the ticks, and what is known of each source: pending, member or foreign;
- one `Ticker` for each apiserver, and a `TickLoop` that sends the ticks of all of them as one train;
- a `Sealer`: the watches that the domain dates, and their events.

The life of a tick:

1. The loop makes a ticker read through its apiserver, and passes the reading to `_arrived`.
2. If the source of the tick is not known to be of this domain, the reading is only a *probe*: the domain compares it
   with the ticks around it. Three consistent probes make the source a member.
3. Otherwise the tick extends the clock, unless it went backwards: an older read had a newer revision. Then the storage
   was restored, or the resource that was read has moved to another one. `on_backwards` decides which, and calls `reset`
   or expels the source.
4. Then the `Sealer` measures the events received in whole seconds before the tick was sent. If one of them is newer
   than the revision of the tick, its source is foreign: that second is dropped, the source is expelled and `on_foreign`
   is called.

Invariants:

- Only ticks of one storage extend the clock. The *anchor* is the apiserver whose ticks define that storage: the first
  to tick, and later the one whose tick reset the domain. If no ticker of the anchor or of a member remains, the next
  tick makes its apiserver the anchor. If such tickers exist but are silent, the next tick of a source not known to be
  foreign makes its apiserver the anchor.
- A *witness*, which has no watches, is never the anchor. If its tick goes backwards, the witness leaves the domain, and
  the domain is not reset: a restored storage shows in the ticks of the apiservers that are watched.
- A watch is never measured by ticks on its own cached resource: such a tick waits for that cache and hides its lag.
  A *blind* clock has no other choice and says so.
- A failed, slow or late tick makes an interval wider, never wrong.
- Other consistent reads of member sources (`observe`) narrow the intervals as ticks do, once a later tick agrees.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import structlog

from watchslo.clock.domain import Domain, Membership
from watchslo.clock.storage_kind import StorageSetting
from watchslo.clock.tick_schedule import TickSchedule
from watchslo.latency.queue_waits import QueueWaits
from watchslo.latency.tally import Slot
from watchslo.latency.track import Track
from watchslo.model import Reading, Resource, Source
from watchslo.monitor.clocks.sealer import Sealer
from watchslo.monitor.clocks.tick_loop import TickLoop
from watchslo.monitor.clocks.ticker import Ticker
from watchslo.monitor.protocol.watch_identity import WatchIdentity
from watchslo.monitor.tasks.failure_log import FailureLog
from watchslo.snapshot import BurstWish, ReadUse, StorageKind
from watchslo.watch.failure import Failure

FOREIGN_SECONDS = 5.0  # between two ticks of another storage: they show when the apiserver is back on this one
ABANDONED_SECONDS = 30.0  # without a tick that proves anything: enough for an apiserver to restart
ABANDONED_TICKS = 4  # of each apiserver, if ticks are rare
SILENT_SECONDS = 10.0  # one lost tick widens an interval, and must not make the daemon unready
SILENT_TICKS = 5  # if ticks are rare


class DomainClock:
    """Dates the events of the watches of one domain; see the theory of operation above.

    A tick through an apiserver that is not known to have this domain's storage is only a probe. A `blind` clock ticks
    on one cached resource only: through a single apiserver it cannot see the lag of that cache. `gap` returns the mean
    seconds between two of its ticks through one apiserver. Its ticks are sent by `schedule` while `ticks.run` runs.

    `new_sealer` returns the sealer of a new domain. `refused` is called with this clock and the name of an apiserver
    that does not permit its ticks, `on_foreign` with the number of a watch whose revisions prove not to belong here,
    and `on_backwards` with each tick that went backwards. `storage` is as configured.
    """

    def __init__(
        self,
        name: str,
        gap: Callable[[], float],
        schedule: TickSchedule,
        new_sealer: Callable[[Domain], Sealer],
        refused: Callable[["DomainClock", str], None],
        on_foreign: Callable[["DomainClock", int], None],
        on_backwards: Callable[["DomainClock", Reading], Awaitable[None]],
        storage: StorageSetting = "auto",
    ) -> None:
        self.domain = Domain(name, storage)
        self.sealer = new_sealer(self.domain)
        self.tickers: dict[str, Ticker] = {}
        self.reads = Counter[str]()
        self.ticks = TickLoop(schedule, self.tickers, self.gap, self._proves, self._arrived, partial(refused, self))
        self._gap = gap
        self._began = time.monotonic()
        self._blind = False
        self._sources: dict[int, Source] = {}
        self._witnesses: set[str] = set()
        self._log = structlog.get_logger().bind(domain=name)
        self._anchor: str | None = None  # the apiserver whose ticks define what belongs here
        self._on_foreign = on_foreign
        self._on_backwards = on_backwards
        self._bursts = False  # whether a burst was active when `sharpen` was called last

    @property
    def name(self) -> str:
        return self.domain.name

    @property
    def kind(self) -> StorageKind:
        """What the revisions of the domain are."""
        kind = self.domain.kind
        return StorageKind.KINE if kind is StorageKind.SEQUENCE and self.sealer.is_kine else kind

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the watches that this clock dates."""
        return tuple(self._sources)

    @property
    def ticking(self) -> bool:
        """Whether there is a tick to compare with."""
        return self.domain.clock.latest is not None

    @property
    def ticked(self) -> set[Source]:
        """The sources of its ticks."""
        return {(name, resource.key) for name, ticker in self.tickers.items() for resource in ticker.resources}

    @property
    def interval(self) -> float:
        """The mean seconds between two ticks, through any apiserver."""
        return min(self._gap(), self.ticks.schedule.mean_gap)

    def burst_gap(self, now: float) -> float:
        """Return the mean seconds between two ticks in a burst."""
        return 1.0 / self.ticks.schedule.burst.rate(now)

    def is_silent(self, now: float) -> bool:
        """Return True if no tick was answered for so long that this clock cannot be waited for."""
        latest = self.domain.clock.latest
        since = latest.answered if latest else self._began
        return now - since >= self._silent_after

    @property
    def _silent_after(self) -> float:
        return max(SILENT_SECONDS, SILENT_TICKS * self.interval)

    def set_blind(self, blind: bool) -> None:  # noqa: FBT001 - the value is the only argument
        """Note whether this clock has to tick on one cached resource only."""
        self._blind = blind

    # Tickers

    def join(
        self, apiserver: str, read: Callable[[Resource], Awaitable[Reading | Failure]], *, witness: bool = False
    ) -> Ticker:
        """Return a new ticker through one more apiserver; it ticks once it has resources."""
        if witness:
            self._witnesses.add(apiserver)
        ticker = self.tickers[apiserver] = Ticker(read, FailureLog(self._log.bind(apiserver=apiserver)))
        return ticker

    def leave(self, apiserver: str) -> Awaitable[object]:
        """Forget the ticker of an apiserver; return what waits for the end of its ticks in flight."""
        del self.tickers[apiserver]
        self._witnesses.discard(apiserver)
        self.sealer.forget_apiserver(apiserver)
        self.domain.clock.leave(apiserver)
        return self.ticks.leave(apiserver)

    def tick_on(self, resources: Sequence[Resource], apiserver: str) -> None:
        """Tick on these resources in turn through an apiserver; without any, send no tick through it."""
        self.tickers[apiserver].tick_on(resources)
        self.ticks.wake()

    def gap(self, apiserver: str) -> float:
        """Return the mean seconds between two ticks through an apiserver."""
        return self._gap() if self._proves(apiserver) else max(self._gap(), FOREIGN_SECONDS)

    def is_useful(self, apiserver: str) -> bool:
        """Return True if the ticks through an apiserver are answered, and not known to be of another storage."""
        return self._proves(apiserver) and self.tickers[apiserver].failures.now is None

    def _proves(self, apiserver: str) -> bool:
        """Return False if the ticks through an apiserver are known to be of another storage."""
        of = self.tickers[apiserver].resources
        return all(self.domain.membership((apiserver, resource.key)) is not Membership.FOREIGN for resource in of)

    def is_proven(self, apiserver: str) -> bool:
        """Return True if the ticks through an apiserver are answered, and known to be of this domain's storage."""
        ticker = self.tickers.get(apiserver)
        if ticker is None or ticker.failures.now is not None or not ticker.resources:
            return False
        return all(self.trusts((apiserver, resource.key)) for resource in ticker.resources)

    def trusts(self, source: Source) -> bool:
        """Return True if ticks of this source are known to be of this domain's storage."""
        return source[0] == self._anchor or self.domain.membership(source) is Membership.MEMBER

    # Watches

    def attach(self, identity: WatchIdentity, track: Track, queue_waits: QueueWaits) -> None:
        """Date a watch from now on; if it is attached already, `track` replaces its track."""
        self._sources[identity.number] = identity.source
        self.domain.attach(identity.number, identity.source)
        self.sealer.attach(identity, track, queue_waits)

    def detach(self, number: int) -> list[Slot]:
        """Stop dating a watch; return its samples since the last evaluation."""
        del self._sources[number]
        self.domain.detach(number)
        return self.sealer.detach(number)

    # Readings

    def sharpen(self, wish: BurstWish | None, now: float) -> None:
        """Tick more often for a while if that is wished and the budget covers it; log which bursts begin and end."""
        burst = self.ticks.schedule.burst
        if self._bursts and not burst.is_active(now):
            self._log.info("burst_ended", ticks=burst.ticks)
        if wish and burst.begin(wish, now):
            self._log.info("burst_began", reason=wish.reason.value, seconds=wish.seconds)
            self.ticks.wake()
        self._bursts = burst.is_active(now)

    def follow(self, received: float) -> None:
        """Let a tick follow events that were just received, if the clock has a reserve for that."""
        if self.ticks.schedule.follow(received):
            self.ticks.wake()

    def observe(self, reading: Reading, use: ReadUse) -> None:
        """Take in a consistent read that is no tick; ignored unless its source is a member.

        It never seals or resets anything, and never makes its apiserver the anchor.
        """
        if self.domain.observe(reading):
            self.reads[use] += 1
            self.ticks.schedule.read(reading.sent)
            self.ticks.wake()

    async def _arrived(self, tick: Reading) -> None:
        """Take in a tick and seal what the watches received before it was sent, with time for arrivals in between."""
        if tick.apiserver not in self.tickers:
            return  # it has just left
        is_witness = tick.apiserver in self._witnesses
        if not is_witness and (not self.ticking or self._is_abandoned(tick)):
            self._anchor = tick.apiserver
        if not self.trusts(tick.source):
            self.domain.probe(tick)
            return
        if self.domain.goes_backwards(tick):
            if is_witness:
                self.domain.expel(tick.source)
            else:
                await self._on_backwards(self, tick)
            return
        self.domain.tick(tick)
        self._announce_foreign()
        await asyncio.sleep(0)
        for violators in self.sealer.seal(tick, several=self._has_several(tick.answered), blind=self._blind):
            if violators:
                self._announce_foreign()
            await asyncio.sleep(0)

    def reset(self, tick: Reading) -> None:
        """Begin again with a tick that went backwards, because the storage was restored."""
        self.domain.tick(tick)
        self._anchor = tick.apiserver

    def _has_several(self, now: float) -> bool:
        """Return True if the clock ticks through several apiservers that answer."""
        recent = now - self._silent_after
        answering = (
            any(self.trusts((name, resource.key)) for resource in ticker.resources)
            for name, ticker in self.tickers.items()
            if ticker.answered is not None and ticker.answered > recent
        )
        return sum(answering) > 1

    def _announce_foreign(self) -> None:
        """Announce the watches whose sources are known to be foreign."""
        if foreign := self.domain.foreign:
            for number in [number for number, source in self._sources.items() if source in foreign]:
                self._on_foreign(self, number)

    def _is_abandoned(self, tick: Reading) -> bool:
        """Return True if no trusted ticker remains; the tick then becomes the new anchor.

        Either all trusted apiservers have left, or they are silent and this source is not known to be foreign.
        """
        if self.trusts(tick.source):
            return False
        if not any(self.trusts(source) for source in self.ticked):
            return True
        latest, standing = self.domain.clock.latest, self.domain.membership(tick.source)
        is_silent = latest is not None and tick.sent - latest.answered > self._abandoned_after
        return is_silent and standing is not Membership.FOREIGN

    @property
    def _abandoned_after(self) -> float:
        return max(ABANDONED_SECONDS, ABANDONED_TICKS * self._gap())
