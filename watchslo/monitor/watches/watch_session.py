"""The protocol of one watch: runs its machine against the apiserver, counts its facts and logs its failures."""

import math
import time
from collections.abc import Callable

import structlog

from watchslo.kube.representation import Representation
from watchslo.latency.track import UNPARSABLE
from watchslo.monitor.apiservers.counters import Counters, Outcomes
from watchslo.monitor.protocol.deliveries import Deliveries
from watchslo.monitor.protocol.driver import Driver
from watchslo.monitor.protocol.guarantee_record import GuaranteeRecord
from watchslo.monitor.protocol.replay import Replay
from watchslo.monitor.protocol.watch_identity import WatchIdentity
from watchslo.monitor.tasks.failure_log import FailureLog
from watchslo.monitor.watches.watch_statistics import WatchStatistics
from watchslo.snapshot import FailureReading, Guarantee, GuaranteeReading, TransportReading
from watchslo.watch.closes import Close
from watchslo.watch.failure import Reason, because
from watchslo.watch.inventory import Inventory
from watchslo.watch.machine import Machine
from watchslo.watch.messages import (
    Batch,
    BookmarkSeen,
    Fact,
    FellBack,
    Gap,
    Garbage,
    Hasten,
    ListDone,
    ListFailed,
    Relisted,
    RelistReason,
    Reopen,
    Reset,
    TimeTravel,
    TypesChecked,
    Unparsable,
    Unseen,
    Violated,
    WatchClosed,
    WatchOpened,
    WatchQueued,
)
from watchslo.watch.strategy import REPLAY, TAIL
from watchslo.watch.transitions import State
from watchslo.watch.watch_attempt import HEALTHY_SECONDS

BEHIND_SECONDS = 1.0  # an event later than this came from a backlog
SLOW_OPENING_SECONDS = 5.0  # from the request for a watch to its headers, which come at once unless it is queued
UNANSWERED = "Lists are answered, but not the watch: a proxy on the way may hold it back; turn off its buffering."
LISTING_NOTHING = (TAIL.name, REPLAY.name)
LIST_SECONDS = 600.0  # for so long the duration of the last list predicts that of the next one
IN_RECORD = (Guarantee.UNIQUE, Guarantee.TYPED)  # their events are in the record of deliveries

_LACKING = (Reason.UNAUTHORIZED, Reason.FORBIDDEN, Reason.CREDENTIALS)


class WatchSession:
    """Runs the protocol of one watch.

    It owns the machine, the counters, the deliveries, the guarantees and the failure log of the watch. It passes live
    events to `statistics`, and the opening and closing of its watch to the apiserver. `on_open` is called at each
    opening. `replay` is the past that the watch reads again, if it does.
    """

    def __init__(
        self,
        identity: WatchIdentity,
        statistics: WatchStatistics,
        random: Callable[[], float],
        on_open: Callable[[], object],
    ) -> None:
        self.replay = Replay(identity) if identity.replay else None
        self.counters = Counters(identity.strategy)
        self.outcomes = Outcomes()
        for outcomes in (self.outcomes, identity.apiserver.outcomes):
            outcomes.expect(identity.strategy)
        self.deliveries = Deliveries(replay=identity.replay)
        self.received: float | None = None
        self.bookmark: int | None = None  # revision of the newest one since the watch opened
        self.bookmark_seen: float | None = None
        self._identity = identity
        self._statistics = statistics
        self._random = random
        self._on_open = on_open
        self._driver = self._new_driver(Representation(identity.config.representation_of(identity.resource)))
        self._halted = False
        self._opened: float | None = None
        self._shut = math.inf  # since when this client alone receives nothing: it was suspended, or lacks a right
        self._listed: tuple[float, float] | None = None  # when the last list was complete, and how long it took
        self._log = structlog.get_logger().bind(
            watch=identity.label, resource=identity.resource.key, apiserver=identity.apiserver.name
        )
        self._failures = FailureLog(self._log)
        self.guarantees = GuaranteeRecord(self._log, identity.checkable)

    @property
    def label(self) -> str:
        return self._identity.label

    @property
    def state(self) -> State:
        return self._driver.machine.state

    @property
    def up(self) -> bool:
        return self.state is State.WATCHING

    @property
    def started(self) -> bool:
        """Whether the watch was open once, or cannot be opened now and is retried from time to time."""
        return self._opened is not None or self.state is State.AWAY

    def down_for(self, now: float) -> float | None:
        """Return for how many seconds other clients cannot have this watch open either; None if they can."""
        return self._driver.machine.down.seconds(now)

    @property
    def revision(self) -> int | None:
        """The newest revision that is known, from an event, a bookmark or a list."""
        return self._driver.machine.revision

    @property
    def newest_event(self) -> int | None:
        """The revision of the newest event that was received."""
        newest = self.deliveries.newest
        return newest[1] if newest else None

    @property
    def last_heard(self) -> float:
        """When anything was received or the watch opened, in monotonic seconds."""
        return max(self._opened or 0.0, self.received or 0.0)

    @property
    def list_seconds(self) -> float | None:
        """How long the last full list took, in seconds; None if there was none in the last ten minutes."""
        if self._listed is None or time.monotonic() - self._listed[0] > LIST_SECONDS:
            return None
        return self._listed[1]

    @property
    def failure(self) -> str | None:
        """What is wrong now, in a sentence; None while nothing is."""
        return self._failures.now.message if self._failures.now else None

    def obstacle(self, now: float) -> str:
        """Return why the watch is not open, in a sentence; or its state, if nothing is wrong yet."""
        if (self._driver.machine.opening_for(now) or 0.0) >= SLOW_OPENING_SECONDS:
            return UNANSWERED
        return self.failure or self.state

    @property
    def last_failure(self) -> FailureReading | None:
        return self._failures.latest

    @property
    def representation(self) -> Representation:
        return self._driver.representation

    @property
    def inventory(self) -> Inventory | None:
        return self._driver.machine.inventory

    @property
    def is_unparsable(self) -> bool:
        """Whether the revisions of the resource are not numbers."""
        failure = self._driver.machine.failure
        return failure is not None and failure.reason is Reason.UNPARSABLE

    def transport(self) -> TransportReading | None:
        """Return what the kernel knows of the connection of the open watch; None if none is open."""
        return self._driver.transport()

    def read_guarantees(self) -> GuaranteeReading:
        """Return how often each guarantee was checked and violated since the watch was configured."""
        return self.guarantees.reading(self.counters.changes)

    async def run(self) -> None:
        """Watch until halted. After a crash it may be run again: the counters stay, and the missed time is a gap."""
        if self._halted:
            return
        try:
            await self._driver.run()
        except Exception:
            # Replace the driver at once: the crashed one must not look open, nor receive more inputs.
            crashed = self._driver
            self._driver = self._new_driver(crashed.representation)
            if crashed.machine.revision is not None:
                self._driver.machine.inherit(crashed.machine.revision, time.monotonic())
            raise
        finally:
            self._identity.apiserver.watch_ended(self._identity.number)

    def _new_driver(self, representation: Representation) -> Driver:
        config, apiserver = self._identity.config, self._identity.apiserver
        machine = Machine(
            self._identity.strategy,
            config.page_size,
            self._random,
            streaming=apiserver.streamed_lists,
            inventory=Inventory() if config.inventory and not self.replay else None,
        )
        return Driver(
            machine,
            apiserver.client,
            self._identity.target,
            representation,
            emit=self._emit,
            note=self._note,
            heard=self._hear,
            listed=self._statistics.observe_list,
            find_oldest=self.replay.find if self.replay else None,
        )

    def halt(self, reason: Reason) -> None:
        """Close the watch; `run` returns."""
        self._halted = True
        self._driver.halt(reason)

    def start_over(self) -> None:
        """Forget every revision: the storage was restored to an earlier state."""
        self.bookmark = None
        self.deliveries.forget()
        self._driver.feed(Reset())

    def ask_for_metadata(self) -> None:
        """Begin again at the present revision with metadata: the present representation brings no events.

        What it withheld is no sample: other clients, which watch whole objects, got it in time.
        """
        self._driver.begin_again(Representation.METADATA)

    def reopen(self, reason: Reason) -> None:
        """Close the watch, if it is open, and resume it from its newest revision."""
        if reason is Reason.SUSPENDED:
            self._shut = min(self._shut, time.monotonic())
        self._driver.feed(Reopen(reason))

    def hasten(self) -> None:
        """Try soon what waits because the apiserver did not answer: it answers again."""
        self._driver.feed(Hasten())

    def resolve_failures(self, now: float) -> None:
        """End the series of failures once the watch stays open and no list is missing."""
        is_whole = self.up and not self._driver.machine.is_listing
        if is_whole and self._opened is not None and now - self._opened >= HEALTHY_SECONDS:
            self._failures.resolve()

    def judge_past(self) -> None:
        """Count what the past violated, once the revisions are known to be of one sequence."""
        if self._statistics.measured:
            self.guarantees.release()

    # What the driver reports

    def _hear(self, size: int) -> None:
        self.counters.bytes += size
        self.received = time.monotonic()

    def _emit(self, batch: Batch) -> None:
        for type_ in batch.types:
            self.counters.events[type_] += 1
        burst = self.deliveries.add(batch)
        if burst is not None and self._statistics.has_caught_up(burst):
            self.counters.catch_ups += 1
        if self.replay is None:
            self._statistics.record(batch)
        else:  # the past is old, and what comes after it may have waited behind it: neither is a sample
            self._statistics.sight(batch.received, batch.revisions[-1])
            self.replay.count(batch.revisions)

    def _note(self, fact: Fact) -> None:
        """Take in a fact; the reason of an early clean close is only known a moment later."""
        apiserver, number = self._identity.apiserver, self._identity.number
        match fact:
            case WatchClosed(failure, lived) if failure.reason is Reason.FORCED:
                apiserver.closes.closed(self._unexplained(lived))
            case WatchClosed(failure) | ListFailed(failure):
                apiserver.closes.ended(time.monotonic(), number, failure.reason)
                if failure.reason in _LACKING:
                    self._shut = min(self._shut, time.monotonic())
                self._count(fact)
            case _:
                self._count(fact)
        if isinstance(fact, WatchClosed):
            apiserver.watch_ended(number)

    def _unexplained(self, lived: float | None) -> Close:
        return Close(
            stream=self._identity.number,
            closed=time.monotonic(),
            open_streams=self._identity.apiserver.open_watches,
            behind=self._is_behind(),
            custom=self._identity.resource.custom,
            tell=lambda reason: self._count(WatchClosed(because(reason), lived)),
        )

    def _is_behind(self) -> bool:
        """Whether the newest event is proven to be late."""
        if self.deliveries.newest is None:
            return False
        received, revision = self.deliveries.newest
        return self._statistics.ages([revision], received)[0] >= BEHIND_SECONDS

    def _count(self, fact: Fact) -> None:
        self.counters.add(fact)
        self.outcomes.add(fact)
        self._identity.apiserver.outcomes.add(fact)
        match fact:
            case WatchQueued(since, until):
                self._statistics.queue_waits.add(since, until)
            case WatchOpened():
                self._opened = time.monotonic()
                self.deliveries.opened(self._opened)
                self._statistics.note_opened(self._opened)
                self._statistics.queue_waits.add(self._shut, self._opened)
                self._shut = math.inf
                self._identity.apiserver.watch_opened(self._identity.number)
                self.guarantees.check(Guarantee.RESUMABLE)
                self.bookmark = None
                self._begin_deliveries()
                self._begin_at(self.revision)
                self._on_open()
            case ListDone(revision=revision, took=took):
                if fact.strategy not in LISTING_NOTHING:
                    self._listed = time.monotonic(), took
                self.deliveries.listed(max(revision, self.revision or 0))
                self.bookmark = None
                self._begin_at(revision)
            case BookmarkSeen(revision):
                self.bookmark, self.bookmark_seen = revision, time.monotonic()
                self.deliveries.mark(revision)
                self.guarantees.check(Guarantee.BOOKMARKABLE)
                self._statistics.mark(self.bookmark_seen, revision)
            case Unparsable() | Garbage():
                self._statistics.track.unmeasured(UNPARSABLE, fact.count if isinstance(fact, Unparsable) else 0)
                self.deliveries.lost_line()
            case TimeTravel(back):
                self._travelled(back)
            case TypesChecked(count):
                self.guarantees.check(Guarantee.TYPED, count)
            case Violated():
                self._violated(fact)
            case _:
                self._log_fact(fact)

    def _violated(self, violated: Violated) -> None:
        if self._statistics.measured:  # else its revisions may not be ordered at all
            self.guarantees.violate(violated)
        elif self.replay:  # the past comes before that is known
            self.guarantees.hold(violated)
        if violated.guarantee not in IN_RECORD:
            self._begin_deliveries()

    def _begin_at(self, revision: int | None) -> None:
        """Let the next tick judge the revision from which the watch begins: a list may have one that does not exist."""
        if revision is not None:
            self._statistics.mark(time.monotonic(), revision)

    def _begin_deliveries(self) -> None:
        """Restart the record of deliveries: an event not in it may have come, and no audit may call that one lost."""
        self.deliveries.delivered.begin(self.revision or 0)

    def _travelled(self, back: int) -> None:
        age = self._statistics.ages([self.revision - back], time.monotonic())[0] if self.revision is not None else 0.0
        self._identity.apiserver.travelled(back, age)
        self._log.warning("time_travel", revisions=back, seconds=round(age, 3))

    def _log_fact(self, fact: Fact) -> None:
        match fact:
            case WatchClosed(failure, lived):
                self._failures.record("watch_closed", failure, after_s=lived and round(lived, 3))
            case ListFailed(failure, strategy):
                self._failures.record("list_failed", failure, strategy=strategy)
            case Relisted(reason) if reason is not RelistReason.START:
                self._log.info("relist", reason=reason.value)
            case Gap(after, until, seconds):
                self._log.warning("gap", after=after, until=until, seconds=round(seconds, 3))
            case Unseen(changed, created, deleted):
                self._log.warning("unseen_changes", changed=changed, created=created, deleted=deleted)
            case FellBack():
                self._log.info("list_fell_back")
