"""Audits the watches of one apiserver: decides whether a silent watch is idle, stalled or frozen."""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import structlog

from watchslo.clock.tick_schedule import Slowdown
from watchslo.kube.representation import Representation
from watchslo.model import Reading
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.checks.nudger import Nudger
from watchslo.monitor.checks.selector_checker import SelectorChecker
from watchslo.monitor.checks.short_watches import MOST_EVENTS, ShortWatches
from watchslo.monitor.checks.watch_audit import WatchAudit
from watchslo.monitor.protocol.watch_identity import WatchIdentity
from watchslo.monitor.tasks.task_supervisor import contain
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.snapshot import Guarantee
from watchslo.watch.audit import (
    BOOKMARKED_INTERVAL_SECONDS,
    BUSY_INTERVAL_SECONDS,
    CONFIRM_SECONDS,
    LOOK_BACK,
    QUIET_INTERVAL_SECONDS,
    QUIET_SECONDS,
    REPLAY_INTERVAL_SECONDS,
    REPLAYED,
    AuditEvidence,
    AuditResult,
    Freshness,
    Health,
    Schedule,
    judge,
    slot_seconds,
)
from watchslo.watch.failure import Failure, Reason
from watchslo.watch.messages import Violated
from watchslo.watch.proven_idle import CONFIRMED_SECONDS, REACH_SECONDS

QUIET_INTERVALS = (QUIET_INTERVAL_SECONDS, BOOKMARKED_INTERVAL_SECONDS)
WELL = (AuditResult.IDLE, AuditResult.ALIVE, AuditResult.UNPROVEN)


class Auditor:
    """Audits quiet watches for stalls, and busy ones from time to time for lost events.

    It owns what audits found of each watch; `health` returns that. `budget` returns how many audits may begin per
    second, each with a nudge and a watch; 0 turns audits off. While the apiserver is overloaded, audits slow down as
    ticks do, and none begins before its Retry-After is over. `ticks` returns the latest tick of each clock, `late`
    whether an arrival at that time may have waited for this process, and `replays` whether all events are to be read a
    second time. `quiet` is how many watches were quiet at the last look.
    """

    def __init__(
        self,
        watches: Callable[[], Iterable[MonitoredWatch]],
        apiserver: Apiserver,
        budget: Callable[[], float],
        ticks: Callable[[], Iterable[Reading]],
        late: Callable[[float], bool],
        replays: Callable[[], bool],
        random: Callable[[], float],
    ) -> None:
        self.quiet = 0
        self._watches = watches
        self._apiserver = apiserver
        self._budget = budget
        self._replays = replays
        self._random = random
        self._schedule = Schedule(random)
        self._slowdown = Slowdown()
        self._not_before = float("-inf")
        self._health: dict[int, Health] = {}
        self._audited: set[int] = set()  # numbers of watches whose audit is running
        self._stalled: dict[int, float] = {}  # watches that were logged as stalled, and since when
        self._nudger = Nudger(watches, apiserver, ticks, random)
        self._short_watches = ShortWatches(apiserver, late)
        self._selectors = SelectorChecker(watches, self.replay, self.lose)
        self._log = structlog.get_logger()

    def add(self, watch: MonitoredWatch) -> None:
        """Begin to keep what is found of a watch."""
        began = -math.inf if watch.identity.replay else time.monotonic()  # a replay begins at an old revision
        self._health[watch.identity.number] = Health(self._random, watch.session.deliveries.delivered, began)

    def remove(self, watch: MonitoredWatch) -> None:
        """Forget what was found of a watch."""
        del self._health[watch.identity.number]
        self._short_watches.remove(watch)
        self._selectors.remove(watch)

    def health(self, watch: MonitoredWatch) -> Health:
        """Return what audits found of a watch."""
        return self._health[watch.identity.number]

    def forget_revisions(self, watch: MonitoredWatch) -> None:
        """Forget the revisions found of a watch: its storage was restored."""
        self.health(watch).forget(time.monotonic())

    def stalled_for(self, watch: MonitoredWatch, now: float) -> float | None:
        """Return for how many seconds a watch has been stalled, or its cache frozen; None if it is not."""
        return self.health(watch).stalled_for(now, watch.session.revision)

    async def run(self) -> None:
        """Audit until cancelled."""
        async with asyncio.TaskGroup() as audits:
            while True:
                slot = self._slot
                began, wait = time.monotonic(), slot * self._random()
                await asyncio.sleep(wait)
                if not self._budget():
                    self._rest()
                elif watch := self._next():
                    audits.create_task(contain(("audits", watch.identity.number), partial(self._audit, watch)))
                await asyncio.sleep(began + slot - time.monotonic())

    @property
    def _slot(self) -> float:
        """The mean seconds between two audits."""
        return slot_seconds(self._budget() or 1.0)

    def _rest(self) -> None:
        """Clear the frozen caches while audits are off: their recovery could not be noticed."""
        watches = list(self._watches())
        for watch in watches:
            self.health(watch).suspend()
        self._log_ends(watches, time.monotonic())

    def _next(self) -> MonitoredWatch | None:
        """Return the watch to audit now, if one is due."""
        now, watches = time.monotonic(), self._watches()
        self._log_ends(watches, now)
        by_number = {watch.identity.number: watch for watch in watches}
        found = ((number, self._interval(watch, now)) for number, watch in by_number.items())
        intervals = {number: interval for number, interval in found if interval is not None}
        self.quiet = sum(interval in QUIET_INTERVALS for interval in intervals.values())
        if now < self._not_before:
            return None
        chosen = self._schedule.choose(intervals, self._audited, now)
        if chosen is None:
            return None
        if self._slowdown.factor > 1.0:  # an audit that hangs is known to have failed only after seconds
            self._hold_back(now)
        return by_number[chosen]

    def _interval(self, watch: MonitoredWatch, now: float) -> float | None:
        """Return the seconds between two audits; None if the watch is not open, or busy with nothing to search."""
        revision = watch.session.revision
        if not watch.session.up or revision is None:
            return None
        if self._is_quiet(watch, now):
            return BOOKMARKED_INTERVAL_SECONDS if self._lacks_nothing_old(watch, now) else QUIET_INTERVAL_SECONDS
        busy = REPLAY_INTERVAL_SECONDS if self._replays() else BUSY_INTERVAL_SECONDS
        return busy if self._search_from(watch) < revision else None

    def _is_quiet(self, watch: MonitoredWatch, now: float) -> bool:
        """Return True also for a stalled watch: it is audited as often as a quiet one until the stall is over."""
        is_stalled = self.stalled_for(watch, now) is not None
        return is_stalled or now - watch.session.last_heard >= QUIET_SECONDS

    def _lacks_nothing_old(self, watch: MonitoredWatch, now: float) -> bool:
        """Return True if an audited watch can lack no event older than a slot; only looked at if audits are rare.

        A bookmark says that the apiserver has sent everything up to its revision, and a tick shows how old the rest is.
        """
        slot, revision = self._slot, watch.session.revision
        is_audited = self.health(watch).verdict is not None
        if slot <= QUIET_SECONDS or revision is None or not is_audited or self._apiserver.unproven:
            return False
        age = watch.statistics.commit_bounds(revision + 1, now)
        return age is not None and age.upper < slot and self.stalled_for(watch, now) is None

    def _log_ends(self, watches: Iterable[MonitoredWatch], now: float) -> None:
        """Log which stalls are over; forget those of watches that have ended."""
        if not self._stalled:
            return
        lasting: dict[int, float] = {}
        for watch in watches:
            identity = watch.identity
            began = self._stalled.get(identity.number)
            if began is not None and self.stalled_for(watch, now) is None:
                self._log.info("stall_over", watch=identity.label, after_s=round(now - began, 3))
            elif began is not None:
                lasting[identity.number] = began
        self._stalled = lasting

    # One audit

    async def _audit(self, watch: MonitoredWatch) -> None:
        identity = watch.identity
        if identity.number not in self._health:  # it has ended since it was chosen
            return
        self._audited.add(identity.number)
        try:
            if self._is_quiet(watch, time.monotonic()):
                result = await self._audit_quiet(watch)
                if result in WELL and self._is_replay_due(watch):
                    self._apiserver.count_audit(result)
                    result = await self._search(watch)
            else:
                result = await self._search(watch)
        finally:
            self._audited.discard(identity.number)
        self._apiserver.count_audit(result)
        self._log.debug("audited", watch=identity.label, verdict=result.value)

    async def _audit_quiet(self, watch: MonitoredWatch) -> AuditResult:
        """Find out whether a quiet watch is idle, or what is wrong."""
        began, audit = time.monotonic(), WatchAudit(watch, self.health(watch))
        freshness = await self._nudger.nudge(audit)
        await self._check_bookmark(audit)
        if freshness in (Freshness.FRESH, Freshness.UNPROVEN) and isinstance(audit.read, Reading):
            freshness = await self._look(audit, audit.read, freshness)
            if await self._falls_back(audit):
                return AuditResult.FAILED
        return self._conclude(audit, freshness, began, await self._confirm(audit) or ())

    async def _look(self, audit: WatchAudit, read: Reading, freshness: Freshness) -> Freshness:
        """Look for events that a quiet watch lacks; return how fresh they prove the whole past of the watch to be."""
        proven, reach = audit.health.proven, self._reach(audit.watch)
        start = proven.start(audit.newest, read.revision if reach is None else reach, read)
        await self._short_watches.look(audit, start, enough=1)
        is_same_apiserver = not audit.identity.cached or (self._apiserver.peers == 1 and not self._apiserver.mixed)
        if audit.shows_nothing and freshness is Freshness.FRESH and is_same_apiserver:
            proven.note(read)
        return Freshness.UNPROVEN if proven.has_skipped(audit.newest) else freshness

    async def _falls_back(self, audit: WatchAudit) -> bool:
        """Let the watch ask for metadata if these show an event, and a second watch like its own shows none."""
        watch = audit.watch
        if not (audit.complete and audit.findings.withheld and self._short_watches.doubts_tables(watch)):
            return False
        again = WatchAudit(watch, audit.health)
        if not await self._short_watches.is_empty(again, audit.after, watch.session.representation):
            return False
        self._short_watches.ask_for_metadata(watch)
        self._log.warning("tables_without_events", watch=watch.identity.label, requested=Representation.METADATA.value)
        watch.session.ask_for_metadata()
        return True

    def _reach(self, watch: MonitoredWatch, seconds: float = REACH_SECONDS) -> int | None:
        """Return the oldest revision from which a second watch may begin; None if none is known."""
        if watch.identity.cached:
            return 0
        now = time.monotonic()
        return self.health(watch).proven.reach(now, watch.statistics.oldest_ticked(now - seconds), seconds)

    async def _check_bookmark(self, audit: WatchAudit) -> None:
        """Count a bookmark that is newer than two consistent reads sent after it: it promised what was not there."""
        watch, known = audit.watch, audit.newest_before
        is_sure = watch.statistics.counts and not self._apiserver.unproven and watch.session.bookmark == known
        if not (is_sure and audit.is_ahead_of(audit.read)):
            return
        await asyncio.sleep(CONFIRM_SECONDS)
        again = await self._nudger.read(watch)
        if isinstance(again, Reading) and audit.is_ahead_of(again) and audit.health.runs_ahead(known):
            watch.session.guarantees.violate(Violated(Guarantee.BOOKMARKABLE, 1, known, known))

    async def _search(self, watch: MonitoredWatch) -> AuditResult:
        """Find out whether a busy watch has lost any of its recent events."""
        selected = self._selectors.wanted(watch) if self._replays() else None
        began, audit = time.monotonic(), WatchAudit(watch, self.health(watch), selected)
        since = self._search_from(watch)
        await self._short_watches.look_from(audit, since, MOST_EVENTS, self._reach(watch) or 0)
        lost = await self._confirm(audit)
        if audit.complete and lost is not None:
            reached = max(audit.seen, default=since)  # a busy apiserver may not have sent all before the watch ended
            shows_no_more = audit.whole and bool(audit.seen) and reached <= since
            audit.health.searched(audit.event_before if shows_no_more else reached)
        elif audit.expired:  # nothing older can be read again
            kept = audit.health.delivered.before(MOST_EVENTS)
            audit.health.searched(kept if kept > since else audit.event_before)
        result = self._conclude(audit, Freshness.UNPROVEN, began, lost or ())
        if audit.complete and selected is not None:
            await self._selectors.check(watch, selected)
        return result

    def _is_replay_due(self, watch: MonitoredWatch) -> bool:
        """Return True if a watch that is quiet now delivered events that were not read a second time, but are to be."""
        is_running = watch.identity.number in self._health
        return is_running and self._replays() and self._search_from(watch) < (watch.session.newest_event or 0)

    def _search_from(self, watch: MonitoredWatch) -> int:
        reach = self._reach(watch)
        if reach is None:
            return watch.session.revision or 0
        back = REPLAYED if watch.identity.replay else MOST_EVENTS if self._replays() else LOOK_BACK
        return max(reach, self.health(watch).search_from(back))

    async def _confirm(self, audit: WatchAudit) -> Sequence[int] | None:
        """Return the lost events that another short watch shows as well: only these are proven; None if it failed."""
        lost = audit.findings.lost if audit.complete else ()
        return await self.replay(audit.watch, lost) if lost else ()

    async def replay(self, watch: MonitoredWatch, revisions: Sequence[int]) -> Sequence[int] | None:
        """Return which of these revisions, in ascending order, another short watch shows; None if it failed."""
        if watch.identity.number not in self._health or not self._budget() or time.monotonic() < self._not_before:
            return None
        reach = self._reach(watch, CONFIRMED_SECONDS)
        if reach is None or reach >= revisions[0]:
            return None
        audit = WatchAudit(watch, self.health(watch))
        found = await self._short_watches.replay(audit, revisions, reach)
        self._slow_down(audit.refusal)
        return found

    def _conclude(self, audit: WatchAudit, freshness: Freshness, began: float, lost: Sequence[int]) -> AuditResult:
        """Note what was found and reopen a stalled watch. Events that are proven to be `lost` count in any case."""
        self._slow_down(audit.refusal)
        health, now, findings = audit.health, time.monotonic(), replace(audit.findings, lost=tuple(lost))
        evidence = AuditEvidence(freshness, audit.complete, audit.moved, audit.delivered, findings)
        result = judge(evidence) if audit.same else AuditResult.FAILED
        if result is AuditResult.FAILED and audit.forbidden:
            result = AuditResult.FORBIDDEN
        if audit.complete:
            self.count_compared(audit, lost)
        match result:
            case AuditResult.FROZEN:
                health.froze(began, audit.newest)
                self._log_stall(audit.identity, result, began)
            case AuditResult.STALLED:
                self._log_stall(audit.identity, result, now)
                self._on_stalled(audit, findings.withheld, now)
            case _:
                health.found(result)
                is_blind = audit.expired or health.proven.has_skipped(audit.newest)
                if is_blind and health.withheld(now, audit.newest) and health.may_reopen(now):
                    audit.watch.session.reopen(Reason.STALLED)  # nothing else will show what it withholds
        return result

    def count_compared(self, audit: WatchAudit, lost: Sequence[int]) -> None:
        """Count what a second watch showed of the past of a watch, and the events that are proven to be `lost`."""
        delivered = audit.health.delivered
        known = [
            revision for revision in audit.seen if revision <= audit.newest and delivered.has(revision) is not None
        ]
        audit.watch.session.guarantees.check(Guarantee.RELIABLE, audit.health.compare(known))
        self.lose(audit.watch, lost, delivered.first)

    def lose(self, watch: MonitoredWatch, revisions: Sequence[int], first: int | None) -> None:
        """Count events that a watch is proven to have lost, those before the `first` that it delivered apart."""
        for violated in self.health(watch).lose(revisions, first):
            watch.session.guarantees.violate(violated)

    def _slow_down(self, refusal: Failure | None) -> None:
        """Audit more slowly after a refusal: more requests would add to the load of an overloaded apiserver."""
        if refusal is None:
            self._slowdown.answered()
            return
        now = time.monotonic()
        self._slowdown.failed(self._slot, refusal.retry_after, now)
        self._hold_back(now)

    def _hold_back(self, now: float) -> None:
        spacing = self._slot * self._slowdown.factor * (0.5 + self._random())
        self._not_before = max(self._not_before, now + spacing, self._slowdown.not_before)

    def _on_stalled(self, audit: WatchAudit, withheld: Sequence[int], now: float) -> None:
        watch = audit.watch
        proven = watch.statistics.ages(withheld, now)
        ages = zip(proven, (now - audit.seen[revision] for revision in withheld), strict=True)
        committed = [now - max(age) for age in ages]
        if audit.health.stalled(zip(withheld, committed, strict=True), audit.newest, now):
            watch.session.reopen(Reason.STALLED)

    def _log_stall(self, identity: WatchIdentity, result: AuditResult, since: float) -> None:
        if identity.number not in self._stalled:
            self._stalled[identity.number] = since
            self._log.warning("watch_stalled", watch=identity.label, verdict=result.value)
