"""One watch at work: drives its machine against the apiserver, counts its facts, and hands live events to be dated."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice

import numpy as np
import structlog

from watchslo.clock.cache import CacheClock
from watchslo.clock.domain import Membership
from watchslo.clock.offset import Dating
from watchslo.config import WatchConfig
from watchslo.kube.client import Selectors
from watchslo.kube.representation import Representation
from watchslo.latency.track import DOMAIN, TAINTED, UNPARSABLE, Track
from watchslo.model import Interval, Resource, Source
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.counters import Counters, Durations
from watchslo.monitor.driver import Driver, Question
from watchslo.monitor.lag import Lag
from watchslo.monitor.timekeeper import Timekeeper
from watchslo.monitor.trouble import Trouble
from watchslo.snapshot import HistoryReading, StreamReading
from watchslo.watch.audit import Health
from watchslo.watch.closes import Close
from watchslo.watch.failure import Reason, because
from watchslo.watch.inventory import Inventory
from watchslo.watch.machine import HEALTHY_SECONDS, Machine, State
from watchslo.watch.messages import (
    Batch,
    BookmarkSeen,
    Fact,
    FellBack,
    Gap,
    Garbage,
    ListDone,
    ListFailed,
    OutOfOrder,
    Relisted,
    RelistReason,
    Reopen,
    Reset,
    TimeTravel,
    Unparsable,
    Unseen,
    WatchClosed,
    WatchOpened,
)
from watchslo.watch.strategy import STRATEGIES, TAIL

BEHIND_SECONDS = 1.0  # an event later than this came from a backlog
NEEDED_SHARE = 0.2  # of its threshold: a watch as late as this is worth asking where the time goes
RECENT_SECONDS = 60.0  # for which it is known what was delivered when, for others to be compared with
RECENT_SPACING_SECONDS = 0.05
LIST_SECONDS = 600.0  # how long a list that was measured tells how long the next one takes


class Stream:
    """One watch of one resource: its protocol and its counters; `home` dates what it receives, `track` tells how late.

    `number` is unique among streams; `renewed` is set whenever the watch opens; `health` is what audits found,
    `history` how far back a watch may begin, and `cache_clock` when revisions reached the apiserver's cache, while
    somebody looks; `asks_for_hops` whether somebody is to. In the namespace `nudged_in` the resource can be read.
    `creators` tells what the clocks that stamp creations are on our monotonic one.
    """

    def __init__(
        self,
        number: int,
        label: str,
        watch: WatchConfig,
        resource: Resource,
        apiserver: Apiserver,
        creators: Callable[[], Dating | None],
        track: Track,
        home: Timekeeper,
        lag: Lag,
        random: Callable[[], float],
        longest_line: int,
        nudged_in: str,
    ) -> None:
        self.number = number
        self.label = label
        self.watch = watch
        self.resource = resource
        self.track = track
        self.home = home
        self.renewed = asyncio.Event()
        self.nudged_in = nudged_in
        self.health = Health(random)
        self._random = random
        self._strategy = STRATEGIES[watch.strategy]
        self._counters = Counters(self._strategy)
        self._durations = Durations(made.name for made in (self._strategy, self._strategy.instead) if made)
        self.apiserver = apiserver
        self._creators = creators
        self.selectors = Selectors(watch.field_selector, watch.label_selector)
        self._question = Question(resource, watch.namespace, self.selectors, longest_line)
        self._measures_creation = watch.measures_creation(resource)
        self._lag = lag
        self._driver = self._new_driver(Representation(watch.representation_of(resource)))
        self._halted = False
        self._opened: float | None = None
        self._received: float | None = None
        self._bookmark_seen: float | None = None
        self._newest: tuple[float, int] | None = None  # when the newest event was received, and its revision
        self._listed: tuple[float, float] | None = None  # when the last list was done, and how long it took
        self.recent: deque[tuple[float, int]] = deque(maxlen=round(RECENT_SECONDS / RECENT_SPACING_SECONDS))
        self.behind_peers: float | None = None
        self._cache_behind: Interval | None = None
        self.asks_for_hops = watch.hops
        self.cache_clock: CacheClock | None = None
        self.history: HistoryReading | None = None
        self._log = structlog.get_logger().bind(watch=label, resource=resource.key, apiserver=apiserver.name)
        self._trouble = Trouble(self._log)

    @property
    def state(self) -> State:
        return self._driver.machine.state

    @property
    def started(self) -> bool:
        """Whether the watch was open once, or cannot be opened now and is looked for from time to time."""
        return self._opened is not None or self.state is State.AWAY

    @property
    def measured(self) -> bool:
        """Whether the clock of its home can date what arrives."""
        return self.home.domain.membership(self.source) is Membership.MEMBER

    @property
    def up(self) -> bool:
        return self.state is State.WATCHING

    @property
    def source(self) -> Source:
        return self.apiserver.name, self.resource.key

    @property
    def namespace(self) -> str | None:
        return self.watch.namespace

    @property
    def threshold(self) -> float:
        return self.track.reading().objective.threshold

    @property
    def revision(self) -> int | None:
        """The newest that is known."""
        return self._driver.machine.revision

    @property
    def newest_event(self) -> int | None:
        """The revision of the newest event that was received."""
        return self._newest[1] if self._newest else None

    @property
    def last_heard(self) -> float:
        """When anything was received or the watch opened, in monotonic seconds."""
        return max(self._opened or 0.0, self._received or 0.0)

    def needs_hops(self, now: float) -> bool:
        """Whether it is late, or may be without our seeing it, so that it is worth asking where the time goes."""
        ticker = self.home.tickers.get(self.apiserver.name)
        if ticker is not None and ticker.trouble.now:
            return True
        if self.health.stalled_for(now, self.revision) is not None:
            return True
        late = NEEDED_SHARE * self.threshold
        return (self.behind_peers or 0.0) > late or self._slowest > late

    @property
    def _slowest(self) -> float:
        """The highest quantile that is estimated of the last seconds, in seconds; 0 without events."""
        shortest = min(self.track.reading().windows, key=lambda window: window.length)
        return max((quantile.estimate for quantile in shortest.quantiles), default=0.0)

    @property
    def event_rate(self) -> float:
        """Measured events a second in the last minutes."""
        longest = max(self.track.reading().windows, key=lambda window: window.length)
        return longest.events / longest.length

    @property
    def list_seconds(self) -> float | None:
        """How long a full list took of late; unknown where none was needed."""
        if self._listed is None or time.monotonic() - self._listed[0] > LIST_SECONDS:
            return None
        return self._listed[1]

    @property
    def trouble(self) -> str | None:
        """What is wrong, in a sentence."""
        return self._trouble.now.message if self._trouble.now else None

    async def run(self) -> None:
        """Watches until halted. Run again after a crash it starts over, what was counted stays, and there is a gap."""
        if self._halted:
            return
        try:
            await self._driver.run()
        except Exception:
            # At once: what crashed is not to be seen as open, nor to be told anything.
            crashed = self._driver
            self._driver = self._new_driver(crashed.representation)
            if crashed.machine.revision is not None:
                self._driver.machine.inherit(crashed.machine.revision, time.monotonic())
            raise
        finally:
            self.apiserver.open_streams.discard(self.number)

    def _new_driver(self, representation: Representation) -> Driver:
        return Driver(
            Machine(
                self._strategy,
                self.watch.page_size,
                self._random,
                streaming=self.apiserver.streamed_lists,
                inventory=Inventory() if self.watch.inventory else None,
            ),
            self.apiserver.client,
            self._question,
            representation,
            emit=self._emit,
            note=self._note,
            heard=self._hear,
        )

    def halt(self, reason: Reason) -> None:
        """Closes the watch; `run` returns."""
        self._halted = True
        self._driver.halt(reason)

    def start_over(self) -> None:
        """Forgets every revision: the storage went back in time."""
        self.health.forget()
        self.recent.clear()
        self._driver.feed(Reset())

    def reopen(self, reason: Reason) -> None:
        """Closes the watch, if there is one, and resumes it from its newest revision."""
        self._driver.feed(Reopen(reason))

    def ages(self, revisions: Sequence[int], now: float) -> Sequence[float]:
        """How long ago, at least, these were committed; 0 where that is not known."""
        if not self.measured:
            return [0.0] * len(revisions)
        bounds = self.home.domain.clock.measure(np.array(revisions), np.full(len(revisions), now), without=None)
        return [float(age) for age in np.where(bounds.measurable, bounds.proven, 0.0)]

    def commit_bounds(self, revision: int, now: float) -> Interval | None:
        """How long ago a revision was committed, in seconds; `upper` is infinite where our clock began later."""
        if not self.measured:
            return None
        bounds = self.home.domain.clock.measure(np.array([revision]), np.array([now]), without=None)
        upper = float(bounds.upper[0]) if bounds.measurable[0] else float("inf")
        return Interval(float(bounds.lower[0]), upper)

    def compare(self, peers: Sequence["Stream"], now: float) -> None:
        """Notes for how long one of these watches of the same resource has had an event that this one has not."""
        revision = self.revision
        if revision is None or not peers:
            self.behind_peers = None
            return
        ages = [now - received for peer in peers for received, newest in islice(peer.newer_than(revision), 1)]
        self.behind_peers = max(ages, default=0.0)

    def look_behind(self, known: Iterable[int], now: float) -> None:
        """Notes how old the apiserver's cache was of late, by changes of its resource that are known from anywhere.

        Nothing is noted while nobody looks.
        """
        self._cache_behind = None
        if self.cache_clock is not None:
            revisions = np.array(sorted(known), dtype=np.int64)
            measure = partial(self.home.domain.clock.measure, without=None)
            self._cache_behind = self.cache_clock.behind(revisions, measure, now)

    def newer_than(self, revision: int) -> Iterator[tuple[float, int]]:
        """What was delivered of late beyond a revision, and when: the oldest first."""
        return ((received, newest) for received, newest in self.recent if newest > revision)

    # What becomes of it

    def _hear(self, size: int) -> None:
        self._counters.bytes += size
        self._received = time.monotonic()

    def _emit(self, batch: Batch) -> None:
        for type_ in batch.types:
            self._counters.events[type_] += 1
        self._newest = batch.received, batch.revisions[-1]
        if not self.recent or batch.received - self.recent[-1][0] >= RECENT_SPACING_SECONDS:
            self.recent.append(self._newest)
        self.health.delivered.extend(batch.revisions)
        is_member = self.home.domain.sight(batch.received, batch.revisions[-1], self.number)
        if self._lag.tainted(batch.received):
            self.track.unmeasured(TAINTED, len(batch.revisions))
            return
        if self._measures_creation:
            self._note_creations(batch)
        if is_member:
            self.track.record(batch.received, batch.revisions)
        else:
            self.track.unmeasured(DOMAIN, len(batch.revisions))

    def _note_creations(self, batch: Batch) -> None:
        stamped = (
            (revision, _parse_time(created))
            for type_, revision, created in zip(batch.types, batch.revisions, batch.created, strict=True)
            if type_ == "ADDED" and created
        )
        known = [(revision, stamp) for revision, stamp in stamped if stamp is not None]
        self.track.note_creations(batch.received, [revision for revision, _ in known], [stamp for _, stamp in known])

    def _note(self, fact: Fact) -> None:
        """Takes in a fact; why a watch was closed early and cleanly is only known a moment later."""
        match fact:
            case WatchClosed(failure, lived) if failure.reason is Reason.FORCED:
                self.apiserver.closes.closed(self._unexplained(lived))
            case WatchClosed(failure) | ListFailed(failure):
                self.apiserver.closes.ended(time.monotonic(), self.number, failure.reason)
                self._tell(fact)
            case _:
                self._tell(fact)
        if isinstance(fact, WatchClosed):
            self.apiserver.open_streams.discard(self.number)

    def _unexplained(self, lived: float | None) -> Close:
        return Close(
            stream=self.number,
            closed=time.monotonic(),
            open_streams=len(self.apiserver.open_streams),
            behind=self._behind(),
            custom=self.resource.custom,
            tell=lambda reason: self._tell(WatchClosed(because(reason), lived)),
        )

    def _behind(self) -> bool:
        """Whether the newest event was surely late."""
        if self._newest is None:
            return False
        received, revision = self._newest
        return self.ages([revision], received)[0] >= BEHIND_SECONDS

    def _tell(self, fact: Fact) -> None:
        self._counters.add(fact)
        self._durations.add(fact)
        self.apiserver.durations.add(fact)
        match fact:
            case WatchOpened():
                self._opened = time.monotonic()
                self.apiserver.open_streams.add(self.number)
                self.health.delivered.begin(self.revision or 0)
                self.renewed.set()
            case ListDone(revision=revision, took=took):
                if fact.strategy != TAIL.name:  # which lists nothing
                    self._listed = time.monotonic(), took
                self.health.delivered.begin(max(revision, self.revision or 0))
            case BookmarkSeen(revision):
                self._bookmark_seen = time.monotonic()
                self.home.domain.sight(self._bookmark_seen, revision, self.number)
            case Unparsable(count):
                self.track.unmeasured(UNPARSABLE, count)
                self._vouch_anew()
            case TimeTravel(back):
                self._travelled(back)
            case OutOfOrder() | Garbage():
                self._vouch_anew()
                self._say(fact)
            case _:
                self._say(fact)

    def _travelled(self, back: int) -> None:
        age = self.ages([self.revision - back], time.monotonic())[0] if self.revision is not None else 0.0
        self.apiserver.travelled(back, age)
        self._log.warning("time_travel", revisions=back, seconds=round(age, 3))

    def _vouch_anew(self) -> None:
        """Something came that was not emitted: no audit may call it lost."""
        self.health.delivered.begin(self.revision or 0)

    def _say(self, fact: Fact) -> None:
        """Puts a fact into the log, where it belongs there."""
        match fact:
            case WatchClosed(failure, lived):
                self._trouble.happened("watch_closed", failure, after_s=lived and round(lived, 3))
            case ListFailed(failure):
                self._trouble.happened("list_failed", failure)
            case Relisted(reason) if reason is not RelistReason.START:
                self._log.info("relist", reason=reason.value)
            case Gap(after, until, seconds):
                self._log.warning("gap", after=after, until=until, seconds=round(seconds, 3))
            case Unseen(changed, created, deleted):
                self._log.warning("unseen_changes", changed=changed, created=created, deleted=deleted)
            case FellBack():
                self._log.info("no_streamed_lists")
            case OutOfOrder(count) if self._counters.order_violations == count:
                self._log.warning("out_of_order", events=count)  # the first; others are counted

    def evaluate(self, now: float, *, overloaded: bool) -> None:
        """Makes a new reading of the statistics. Trouble is over once the watch stays open and no list is missing.

        While the cache is frozen nobody knows what is withheld: then no window is judged by what did come.
        """
        withheld = self.health.withheld(now, self.revision)
        is_frozen = not withheld and self.health.stalled_for(now, self.revision) is not None
        creators = self._creators() if self._measures_creation else None
        self.track.evaluate(now, withheld, overloaded=overloaded or is_frozen, creators=creators)
        is_whole = self.up and not self._driver.machine.lists
        if is_whole and self._opened is not None and now - self._opened >= HEALTHY_SECONDS:
            self._trouble.over()

    def reading(self) -> StreamReading:
        """Everything that is shown of this stream."""
        counters, durations, now = self._counters, self._durations, time.monotonic()
        inventory = self._driver.machine.inventory
        return StreamReading(
            watch=self.label,
            group=self.resource.group,
            resource=self.resource.plural,
            apiserver=self.apiserver.name,
            state=self.state,
            strategy=self._strategy.name,
            representation=self._driver.representation,
            domain=self.home.domain.name,
            membership=self._membership(),
            up=self.up,
            revision=self.revision,
            last_received_wall=None if self._received is None else time.time() - (now - self._received),
            events=dict(counters.events),
            bytes=counters.bytes,
            bookmarks=counters.bookmarks,
            bookmark_age=None if self._bookmark_seen is None else now - self._bookmark_seen,
            order_violations=counters.order_violations,
            closed=dict(counters.closed),
            relists=dict(counters.relists),
            expired=dict(counters.expired),
            list_items=counters.list_items,
            list_bytes=counters.list_bytes,
            list_pages=counters.list_pages,
            list_fallbacks=counters.list_fallbacks,
            initial_events=counters.initial_events,
            gap_revisions=counters.gap_revisions,
            gap_seconds=counters.gap_seconds,
            unseen=dict(counters.unseen) if self.watch.inventory else None,
            objects=None if inventory is None else len(inventory),
            audit=self.health.verdict,
            stalls=self.health.stalls,
            stalled_for=self.health.stalled_for(now, self.revision),
            lost=self.health.lost,
            probed=self.cache_clock is not None,
            cache_behind=self._cache_behind,
            behind_peers=self.behind_peers,
            history=self.history,
            transport=self._driver.transport(),
            list_duration={name: lists.reading() for name, lists in durations.lists.items()},
            watch_open=durations.opens.reading(),
            watch_duration=durations.lives.reading(),
            last_failure=self._trouble.latest,
            track=self.track.reading(),
            cache_round_trip=self.cache_clock.median_round_trip if self.cache_clock else None,
        )

    def _membership(self) -> str:
        failure = self._driver.machine.failure
        if failure and failure.reason is Reason.UNPARSABLE:
            return "unparsable"
        return self.home.domain.membership(self.source)


def _parse_time(text: str) -> float | None:
    """Unix seconds of a metav1.Time, which is in UTC; None where it is no such thing."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
