"""Audits the watches of one apiserver: decides whether a silent watch is idle, stalled or frozen."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

import structlog

from watchslo.clock.tick_schedule import Slowdown
from watchslo.kube.client import WatchResponse
from watchslo.kube.representation import Representation
from watchslo.model import Reading, Resource
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.monitored_watch import MonitoredWatch
from watchslo.monitor.selector_checker import SelectorChecker
from watchslo.monitor.watch_identity import WatchIdentity
from watchslo.snapshot import Guarantee, ReadUse
from watchslo.watch.audit import (
    BUSY_INTERVAL_SECONDS,
    CONFIRM_SECONDS,
    LOOK_BACK,
    OTHERS_SECONDS,
    QUIET_INTERVAL_SECONDS,
    QUIET_SECONDS,
    REPLAY_INTERVAL_SECONDS,
    REPLAYED,
    AuditEvidence,
    AuditResult,
    Findings,
    Freshness,
    Health,
    Nudged,
    Schedule,
    compare,
    judge,
    judge_nudge,
    lists_prove_cache,
    others_answer,
    slot_seconds,
)
from watchslo.watch.decode import FRAME, Bookmark, Error, Frames, parse_revision
from watchslo.watch.failure import ENDED, Action, Failure, Reason, because, classify_stream_error
from watchslo.watch.headroom import parse_oldest, replay_start
from watchslo.watch.messages import Violated, WatchRequest
from watchslo.watch.selection import SELECTABLE, SelectedEvents

AUDIT_SECONDS = 2  # whole seconds, because the apiserver takes no fractions; existing events come at once
OVERTIME_SECONDS = 5.0  # an audit that has not ended by then has failed
MOST_EVENTS = 5_000  # more would cost more than they show
MOST_CONFIRMED = 2 * MOST_EVENTS  # of the read that confirms a difference, which may span `MOST_COMPARED` events
TRIES = 3  # of a read of the oldest events, which may expire before it begins
GRACE_SECONDS = 1.0  # beyond the threshold: a late event is not a stall
STEP_SECONDS = 0.1  # of the grace, between two looks at what the watch delivered
PATIENCE = 10.0  # times the grace: if this process is late for so long, the audit has no result
WELL = (AuditResult.IDLE, AuditResult.ALIVE, AuditResult.UNPROVEN)
ANSWERS = (Action.WAIT, Action.START_OVER, Action.FALL_BACK)  # about the request, not about a distressed apiserver


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
        self._ticks = ticks
        self._late = late
        self._replays = replays
        self._random = random
        self._schedule = Schedule(random)
        self._slowdown = Slowdown()
        self._not_before = float("-inf")
        self._health: dict[int, Health] = {}
        self._audited: set[int] = set()  # numbers of watches whose audit is running
        self._stalled: dict[int, float] = {}  # watches that were logged as stalled, and since when
        self._forms: dict[int, Representation] = {}  # of watches whose audits need a simpler one than a Table
        self._selectors = SelectorChecker(watches, self.replay, self.lose)
        self._log = structlog.get_logger()

    def add(self, watch: MonitoredWatch) -> None:
        """Begin to keep what is found of a watch."""
        self._health[watch.identity.number] = Health(self._random, watch.session.deliveries.delivered)

    def remove(self, watch: MonitoredWatch) -> None:
        """Forget what was found of a watch."""
        del self._health[watch.identity.number]
        self._forms.pop(watch.identity.number, None)
        self._selectors.remove(watch)

    def health(self, watch: MonitoredWatch) -> Health:
        """Return what audits found of a watch."""
        return self._health[watch.identity.number]

    def forget_revisions(self, watch: MonitoredWatch) -> None:
        """Forget the revisions found of a watch: its storage was restored."""
        self.health(watch).forget()

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
                    audits.create_task(self._audit(watch))
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
        self.quiet = sum(interval == QUIET_INTERVAL_SECONDS for interval in intervals.values())
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
            return QUIET_INTERVAL_SECONDS
        busy = REPLAY_INTERVAL_SECONDS if self._replays() else BUSY_INTERVAL_SECONDS
        return busy if self._search_from(watch) < revision else None

    def _is_quiet(self, watch: MonitoredWatch, now: float) -> bool:
        """Return True also for a stalled watch: it is audited as often as a quiet one until the stall is over."""
        is_stalled = self.stalled_for(watch, now) is not None
        return is_stalled or now - watch.session.last_heard >= QUIET_SECONDS

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
        began, audit = time.monotonic(), _Audit(watch, self.health(watch))
        freshness = await self._nudge(audit)
        await self._check_bookmark(audit)
        if freshness in (Freshness.FRESH, Freshness.UNPROVEN):
            await self._look(audit, audit.newest, enough=1)
        return self._conclude(audit, freshness, began, await self._confirm(audit) or ())

    async def _check_bookmark(self, audit: "_Audit") -> None:
        """Count a bookmark that is newer than two consistent reads sent after it: it promised what was not there."""
        watch, known = audit.watch, audit.newest_before
        is_sure = watch.statistics.counts and not self._apiserver.unproven and watch.session.bookmark == known
        if not (is_sure and audit.is_ahead_of(audit.read)):
            return
        await asyncio.sleep(CONFIRM_SECONDS)
        again = await self._read(watch)
        if isinstance(again, Reading) and audit.is_ahead_of(again) and audit.health.runs_ahead(known):
            watch.session.guarantees.violate(Violated(Guarantee.BOOKMARKABLE, 1, known, known))

    async def _search(self, watch: MonitoredWatch) -> AuditResult:
        """Find out whether a busy watch has lost any of its recent events."""
        selected = self._selectors.wanted(watch) if self._replays() else None
        began, audit = time.monotonic(), _Audit(watch, self.health(watch), selected)
        since = self._search_from(watch)
        await self._look_from(audit, since)
        lost = await self._confirm(audit)
        if audit.complete and lost is not None:
            reached = max(audit.seen, default=since)  # a busy apiserver may not have sent all before the watch ended
            shows_no_more = audit.whole and bool(audit.seen) and reached <= since
            audit.health.searched(audit.event_before if shows_no_more else reached)
        elif audit.expired:
            audit.health.searched(audit.health.delivered.before(MOST_EVENTS))  # nothing older can be read again
        result = self._conclude(audit, Freshness.UNPROVEN, began, lost or ())
        if audit.complete and selected is not None:
            await self._selectors.check(watch, selected)
        return result

    def _is_replay_due(self, watch: MonitoredWatch) -> bool:
        """Return True if a watch that is quiet now delivered events that were not read a second time, but are to be."""
        is_running = watch.identity.number in self._health
        return is_running and self._replays() and self._search_from(watch) < (watch.session.newest_event or 0)

    def _search_from(self, watch: MonitoredWatch) -> int:
        if watch.identity.replay:
            return self.health(watch).search_from(REPLAYED)
        return self.health(watch).search_from(MOST_EVENTS if self._replays() else LOOK_BACK)

    async def _confirm(self, audit: "_Audit") -> Sequence[int] | None:
        """Return the lost events that another short watch shows as well: only these are proven; None if it failed."""
        lost = audit.findings.lost if audit.complete else ()
        return await self.replay(audit.watch, lost) if lost else ()

    async def replay(self, watch: MonitoredWatch, revisions: Sequence[int]) -> Sequence[int] | None:
        """Return which of these revisions, in ascending order, another short watch shows; None if it failed."""
        if watch.identity.number not in self._health or not self._budget() or time.monotonic() < self._not_before:
            return None
        audit = _Audit(watch, self.health(watch))
        await self._look_from(audit, revisions[0] - 1, MOST_CONFIRMED)
        self._slow_down(audit.refusal)
        is_whole = audit.whole or max(audit.seen, default=0) >= revisions[-1]
        return [one for one in revisions if one in audit.seen] if audit.complete and is_whole else None

    async def _look_from(self, audit: "_Audit", revision: int, enough: int = MOST_EVENTS) -> None:
        """Look at the events after a revision, and at a known one before them if the apiserver still has it.

        If it does not even have the revision, look at the oldest events that it has.
        """
        since = audit.health.delivered.start_before(revision)
        await self._look(audit, since, enough=enough)
        if audit.expired and since < revision:
            await self._look(audit, revision, enough=enough)
        for expired in range(TRIES):
            if audit.expired and audit.oldest is not None and audit.oldest > revision:
                await self._look(audit, replay_start(audit.oldest, audit.newest, expired), enough=enough)

    async def _nudge(self, audit: "_Audit") -> Freshness:
        """Request that the cache of the resource is fresh; only two slow answers prove that it is frozen."""
        nudged = await self._nudge_once(audit)
        if nudged is Nudged.SLOW:
            await asyncio.sleep(CONFIRM_SECONDS)
            nudged = await self._nudge_once(audit)
        match nudged:
            case Nudged.PROMPT:
                proven = lists_prove_cache(self._apiserver.version) or not audit.identity.cached
                return Freshness.FRESH if proven and not self._apiserver.unproven else Freshness.UNPROVEN
            case Nudged.SLOW:
                return Freshness.FROZEN
            case _:
                return Freshness.UNKNOWN

    async def _nudge_once(self, audit: "_Audit") -> Nudged:
        """Send one nudge; if all reads are slow at that time, it has failed: it proves nothing about this cache."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            nudge = group.create_task(self._read(audit.watch))
            await asyncio.wait({nudge}, timeout=OTHERS_SECONDS)
            all_is_well = not nudge.done() and await self._others_answer(audit.identity.resource, began)
        audit.read = nudge.result()
        nudged = judge_nudge(nudge.result())
        if nudged is Nudged.SLOW and all_is_well:
            return nudged
        audit.answered(nudge.result())
        return Nudged.FAILED if nudged is Nudged.SLOW else nudged

    async def _others_answer(self, resource: Resource, since: float) -> bool:
        """Return True if reads of other resources are answered at once, by recent ticks or by a read made now."""
        if others_answer(self._ticks(), resource.key, since):
            return True
        others = [watch for watch in self._watches() if watch.session.up and watch.identity.resource != resource]
        if not others:
            return False
        answer = await self._read(others[int(self._random() * len(others))])
        return isinstance(answer, Reading) and others_answer([answer], resource.key, since)

    async def _read(self, watch: MonitoredWatch) -> Reading | Failure:
        identity = watch.identity
        answer = await self._apiserver.client.read_nothing(identity.resource, identity.probed_in, "nudge")
        if isinstance(answer, Reading):
            watch.statistics.observe(answer, ReadUse.NUDGE)
        return answer

    async def _look(self, audit: "_Audit", after: int, enough: int) -> None:
        """Open a short watch until it has shown `enough` events; then give the audited watch time to deliver them."""
        ended: Failure | None = because(Reason.TIMEOUT)
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as limit:
                ended = await self._watch(audit, after, enough, limit)
        audit.ended(ended)
        audit.finish(in_time=await self._give_time(audit))

    async def _watch(self, audit: "_Audit", after: int, enough: int, limit: asyncio.Timeout) -> Failure | None:
        """Return why the short watch ended, or None if it has shown enough; `limit` starts when it is sent."""
        time_of = asyncio.get_running_loop().time
        identity, request = audit.identity, WatchRequest(after, AUDIT_SECONDS, bookmarks=False)
        smallest = Representation.METADATA if audit.selected else Representation.TABLE  # a Table has no labels
        form = self._forms.get(identity.number, smallest)
        async with self._apiserver.client.watch(
            identity.resource,
            identity.namespace,
            identity.selectors,
            request,
            form,
            kind="audit",
            on_sent=lambda: limit.reschedule(time_of() + AUDIT_SECONDS + OVERTIME_SECONDS),
        ) as opened:
            if not isinstance(opened, Failure):
                return await audit.follow(opened, enough)
        if opened.action is not Action.FALL_BACK or form.simpler is form or not audit.same:
            return opened
        self._forms[identity.number] = form.simpler
        return await self._watch(audit, after, enough, limit)

    async def _give_time(self, audit: "_Audit") -> bool:
        """Wait for the audited watch to deliver what the audit saw; count only time in which this process was prompt.

        Return False if there was too little of such time for a result.
        """
        left = audit.watch.statistics.threshold + GRACE_SECONDS
        until = time.monotonic() + PATIENCE * left
        while audit.same and audit.findings.withheld and left > 0.0:
            if time.monotonic() > until:
                return False
            await asyncio.sleep(STEP_SECONDS)
            if not self._late(time.monotonic()):
                left -= STEP_SECONDS
        return True

    def _conclude(self, audit: "_Audit", freshness: Freshness, began: float, lost: Sequence[int]) -> AuditResult:
        """Note what was found and reopen a stalled watch. Events that are proven to be `lost` count in any case."""
        self._slow_down(audit.refusal)
        health, now, findings = audit.health, time.monotonic(), replace(audit.findings, lost=tuple(lost))
        evidence = AuditEvidence(freshness, audit.complete, audit.moved, audit.delivered, findings)
        result = judge(evidence) if audit.same else AuditResult.FAILED
        if audit.complete:
            known = [one for one in audit.seen if one <= audit.newest and health.delivered.has(one) is not None]
            audit.watch.session.guarantees.check(Guarantee.RELIABLE, health.compare(known))
            self.lose(audit.watch, lost, health.delivered.first)
        match result:
            case AuditResult.FROZEN:
                health.froze(began, audit.newest)
                self._log_stall(audit.identity, result, began)
            case AuditResult.STALLED:
                self._log_stall(audit.identity, result, now)
                self._on_stalled(audit, findings.withheld, now)
            case _:
                health.found(result)
                if audit.expired and health.withheld(now, audit.newest) and health.may_reopen(now):
                    audit.watch.session.reopen(Reason.STALLED)  # nothing else will show what it withholds
        return result

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

    def _on_stalled(self, audit: "_Audit", withheld: Sequence[int], now: float) -> None:
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


class _Audit:
    """One audit of one watch: what its second watch saw, compared with what the audited watch delivered.

    `seen` maps each revision to the time it was seen. `newest_before` is the newest revision that the watch knew when
    the audit began, `event_before` its newest event, or 0. `read` is the answer to the last nudge. `refusal` is why the
    apiserver did not answer, if it did not. `whole` says that the second watch ran to its end, `expired` that it got
    a 410, which may name the `oldest` revision to watch from. `selected` collects what selectors select of the events,
    if that is to be checked.
    """

    def __init__(self, watch: MonitoredWatch, health: Health, selected: SelectedEvents | None = None) -> None:
        self.watch = watch
        self.health = health
        self.selected = selected
        self.seen: dict[int, float] = {}
        self._in_time = True
        self.refusal: Failure | None = None
        self.read: Reading | Failure | None = None
        self.whole = self.expired = False
        self.oldest: int | None = None
        self._ended = False
        self.newest_before = self.newest
        self.event_before = watch.session.newest_event or 0
        self._epoch = health.delivered.epoch

    @property
    def identity(self) -> WatchIdentity:
        return self.watch.identity

    @property
    def newest(self) -> int:
        return self.watch.session.revision or 0

    @property
    def same(self) -> bool:
        """Whether the audited watch has stayed open since the audit began."""
        return self.watch.session.up and self.health.delivered.epoch == self._epoch

    def is_ahead_of(self, answer: Reading | Failure | None) -> bool:
        """Return True if the watch knew a newer revision before a consistent read than that read returned."""
        return isinstance(answer, Reading) and self.same and answer.revision < self.newest_before <= self.newest

    @property
    def findings(self) -> Findings:
        return compare(self.seen, self.health.delivered, self.newest)

    @property
    def complete(self) -> bool:
        return (self._ended or bool(self.seen)) and self._in_time and self.same

    @property
    def moved(self) -> bool:
        return self.newest > self.newest_before or self.delivered

    @property
    def delivered(self) -> bool:
        is_newer = (self.watch.session.newest_event or 0) != self.event_before
        return is_newer or any(map(self.health.delivered.has, self.seen))

    def answered(self, answer: Reading | Failure | None) -> None:
        """Note how a request went."""
        if isinstance(answer, Failure) and answer.action not in ANSWERS:
            self.refusal = answer

    def ended(self, ended: Failure | None) -> None:
        """Note why the second watch ended; None if it had shown enough."""
        self._ended = ended in (None, ENDED)
        self.whole = ended == ENDED
        self.expired = ended is not None and ended.reason is Reason.EXPIRED
        if not self._ended:
            self.answered(ended)

    def finish(self, *, in_time: bool) -> None:
        """Note whether this process was prompt enough for a result."""
        self._in_time = in_time

    async def follow(self, response: WatchResponse, enough: int) -> Failure | None:
        """Note what the second watch delivers, until it ends or has delivered enough."""
        arrivals = response.frames(decoder=SELECTABLE if self.selected else FRAME)
        async for received, _, frames in arrivals:
            if frames is not None and (failure := self._note(frames, received)):
                return failure
            if len(self.seen) >= enough:
                return None
        return arrivals.failure

    def _note(self, frames: Frames, received: float) -> Failure | None:
        for event in frames.events:
            if isinstance(event, Error):
                self.oldest = parse_oldest(event.object.message)
                return classify_stream_error(event.object)
            revision = parse_revision(event.object.metadata.resource_version)
            if revision is not None and not isinstance(event, Bookmark):
                self.seen.setdefault(revision, received)
                self.watch.statistics.sight(received, revision)
                if self.selected is not None:
                    self.selected.add(revision, event)
        return None
