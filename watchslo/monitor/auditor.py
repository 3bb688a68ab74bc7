"""Audits the streams of one apiserver, one after the other, so that a dead one is not mistaken for an idle one."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Protocol

import structlog

from watchslo.kube.client import Selectors
from watchslo.kube.client import Stream as Connection
from watchslo.kube.representation import Representation
from watchslo.model import Reading, Resource
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.ticker import Pace
from watchslo.watch.audit import (
    BUSY_INTERVAL_SECONDS,
    CONFIRM_SECONDS,
    QUIET_INTERVAL_SECONDS,
    QUIET_SECONDS,
    WITNESS_SECONDS,
    Evidence,
    Findings,
    Freshness,
    Health,
    Nudged,
    Schedule,
    Verdict,
    compare,
    judge,
    judge_nudge,
    lists_prove_cache,
    others_answer,
    slot_seconds,
)
from watchslo.watch.decode import Bookmark, Error, decode, parse_revision
from watchslo.watch.failure import ENDED, Action, Failure, Reason, because, classify_stream_error
from watchslo.watch.lines import LineSplitter, LineTooLong
from watchslo.watch.messages import WatchRequest

AUDIT_SECONDS = 2  # whole ones, as the apiserver takes them; what is there comes at once
OVERTIME_SECONDS = 5.0  # then an audit that has not ended has failed
MOST_EVENTS = 5_000  # more would cost more than they tell
GRACE_SECONDS = 1.0  # beyond the threshold: an event that is merely late is no stall
STEP_SECONDS = 0.1  # of the grace, while we wait for the stream
PATIENCE = 10.0  # times the grace: if we are late for so long, nothing can be said
ANSWERS = (Action.WAIT, Action.START_OVER, Action.FALL_BACK)  # of what is asked for, and not of who is asked


class Audited(Protocol):
    """What an auditor needs of a stream.

    `revision` is the newest that is known, by an event, a bookmark or a list; `last_heard` when anything came or the
    watch opened, in monotonic seconds; `nudged_in` the namespace in which its resource is to be read. `threshold` is
    that of its objective, in seconds.
    """

    number: int
    label: str
    resource: Resource
    health: Health

    @property
    def namespace(self) -> str | None: ...
    @property
    def nudged_in(self) -> str: ...
    @property
    def selectors(self) -> Selectors: ...
    @property
    def threshold(self) -> float: ...
    @property
    def up(self) -> bool: ...
    @property
    def revision(self) -> int | None: ...
    @property
    def last_heard(self) -> float: ...
    def ages(self, revisions: Sequence[int], now: float) -> Sequence[float]:
        """How long ago, at least, the clock proves these to have been committed, in seconds; 0 where it does not."""
        ...

    def reopen(self, reason: Reason) -> None:
        """Closes the watch and resumes it from its last revision."""
        ...


class Auditor:
    """Looks at the streams of one apiserver by a second way.

    At quiet ones it looks for stalls, at busy ones now and then for lost events.

    `budget` says how many audits a second may begin, each of a nudge and a watch; none at zero. While the apiserver is
    in distress they begin as much more seldom as ticks do, and not before it allows. `ticks` are the latest of all
    clocks. `late` says whether what arrives now may have waited for this process. `apiserver` counts the audits.
    """

    def __init__(
        self,
        streams: Callable[[], Iterable[Audited]],
        apiserver: Apiserver,
        budget: Callable[[], float],
        ticks: Callable[[], Iterable[Reading]],
        late: Callable[[float], bool],
        random: Callable[[], float],
    ) -> None:
        self._streams = streams
        self._apiserver = apiserver
        self._budget = budget
        self._ticks = ticks
        self._late = late
        self._random = random
        self._schedule = Schedule(random)
        self._pace = Pace(lambda: slot_seconds(self._budget() or 1.0), random)
        self._not_before = float("-inf")
        self._audited: set[int] = set()  # by number, those whose audit is under way
        self._stalled: dict[int, float] = {}  # and those said to be stalled, and since when
        self._forms: dict[Resource, Representation] = {}
        self._log = structlog.get_logger()

    @property
    def quiet(self) -> int:
        """How many streams are quiet now."""
        now = time.monotonic()
        return sum(stream.up and self._quiet(stream, now) for stream in self._streams())

    async def run(self) -> None:
        """Audits until cancelled."""
        async with asyncio.TaskGroup() as audits:
            while True:
                slot = slot_seconds(self._budget() or 1.0)
                began, wait = time.monotonic(), slot * self._random()
                await asyncio.sleep(wait)
                if not self._budget():
                    self._rest()
                elif stream := self._next():
                    audits.create_task(self._audit(stream))
                await asyncio.sleep(began + slot - time.monotonic())

    def _rest(self) -> None:
        """Without audits nobody would ever find out that a cache has thawed: none is called frozen."""
        every = list(self._streams())
        for stream in every:
            stream.health.rest()
        self._tell_ends(every, time.monotonic())

    def _next(self) -> Audited | None:
        now, every = time.monotonic(), list(self._streams())
        self._tell_ends(every, now)
        if now < self._not_before:
            return None
        streams = {stream.number: stream for stream in every}
        found = ((number, self._interval(stream, now)) for number, stream in streams.items())
        intervals = {number: interval for number, interval in found if interval is not None}
        chosen = self._schedule.choose(intervals, self._audited, now)
        if chosen is None:
            return None
        if self._pace.is_slowed:  # what hangs is known to have failed only after seconds
            self._hold_back(now)
        return streams[chosen]

    def _interval(self, stream: Audited, now: float) -> float | None:
        """Seconds between two audits; None unless it is open, and quiet or with something to be looked for again."""
        if not stream.up or stream.revision is None:
            return None
        if self._quiet(stream, now):
            return QUIET_INTERVAL_SECONDS
        return BUSY_INTERVAL_SECONDS if stream.health.search_from() < stream.revision else None

    def _quiet(self, stream: Audited, now: float) -> bool:
        """One that is in trouble is looked at as often as if it were quiet, until the trouble is over."""
        troubled = stream.health.stalled_for(now, stream.revision) is not None
        return troubled or now - stream.last_heard >= QUIET_SECONDS

    def _tell_ends(self, streams: Iterable[Audited], now: float) -> None:
        """Says which stalls are over. Those of streams that are gone are forgotten."""
        lasting: dict[int, float] = {}
        for stream in streams:
            began = self._stalled.get(stream.number)
            if began is not None and stream.health.stalled_for(now, stream.revision) is None:
                self._log.info("stall_over", watch=stream.label, after_s=round(now - began, 3))
            elif began is not None:
                lasting[stream.number] = began
        self._stalled = lasting

    # One audit

    async def _audit(self, stream: Audited) -> None:
        self._audited.add(stream.number)
        try:
            if self._quiet(stream, time.monotonic()):
                verdict = await self._audit_quiet(stream)
            else:
                verdict = await self._search(stream)
        finally:
            self._audited.discard(stream.number)
        self._apiserver.audits[verdict] += 1
        self._log.debug("audited", watch=stream.label, verdict=verdict.value)

    async def _audit_quiet(self, stream: Audited) -> Verdict:
        """Is it idle, or what is wrong?"""
        began, look = time.monotonic(), _Look(stream)
        freshness = await self._nudge(look)
        if freshness in (Freshness.FRESH, Freshness.UNPROVEN):
            await self._look(look, look.newest, enough=1)
        return self._conclude(look, freshness, began)

    async def _search(self, stream: Audited) -> Verdict:
        """Has it passed over anything of late?"""
        began, look = time.monotonic(), _Look(stream)
        await self._look(look, stream.health.search_from(), enough=MOST_EVENTS)
        return self._conclude(look, Freshness.UNPROVEN, began)

    async def _nudge(self, look: "_Look") -> Freshness:
        """Asks for the resource's cache to be fresh; a slow answer proves nothing before there is a second one."""
        nudged = await self._nudge_once(look)
        if nudged is Nudged.SLOW:
            await asyncio.sleep(CONFIRM_SECONDS)
            nudged = await self._nudge_once(look)
        match nudged:
            case Nudged.PROMPT:
                proven = lists_prove_cache(self._apiserver.version) or not look.stream.resource.cached
                return Freshness.FRESH if proven and not self._apiserver.unproven else Freshness.UNPROVEN
            case Nudged.SLOW:
                return Freshness.FROZEN
            case _:
                return Freshness.UNKNOWN

    async def _nudge_once(self, look: "_Look") -> Nudged:
        """A nudge that is slow while all else is slow, too, has failed: it says nothing of this one cache."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            nudge = group.create_task(self._read(look.stream))
            await asyncio.wait({nudge}, timeout=WITNESS_SECONDS)
            all_is_well = not nudge.done() and await self._others_answer(look.stream.resource, began)
        nudged = judge_nudge(nudge.result())
        if nudged is Nudged.SLOW and all_is_well:
            return nudged
        look.answered(nudge.result())
        return Nudged.FAILED if nudged is Nudged.SLOW else nudged

    async def _others_answer(self, resource: Resource, since: float) -> bool:
        """Whether reads of another resource are answered at once: by the ticks, or else by asking."""
        if others_answer(self._ticks(), resource.key, since):
            return True
        others = [stream for stream in self._streams() if stream.up and stream.resource != resource]
        if not others:
            return False
        answer = await self._read(others[int(self._random() * len(others))])
        return isinstance(answer, Reading) and others_answer([answer], resource.key, since)

    async def _read(self, stream: Audited) -> Reading | Failure:
        return await self._apiserver.client.read_nothing(stream.resource, stream.nudged_in, "nudge")

    async def _look(self, look: "_Look", after: int, enough: int) -> None:
        """Watches for a moment, until so many events were seen; then gives the stream a while to bring them too."""
        ended: Failure | None = because(Reason.TIMEOUT)
        with suppress(TimeoutError):
            async with asyncio.timeout(AUDIT_SECONDS + OVERTIME_SECONDS):
                ended = await self._watch(look, after, enough)
        look.ended = ended in (None, ENDED)
        if not look.ended:
            look.answered(ended)
        look.in_time = await self._give_time(look)

    async def _watch(self, look: "_Look", after: int, enough: int) -> Failure | None:
        """Returns why the watch ended, or None if enough was seen."""
        stream, request = look.stream, WatchRequest(after, AUDIT_SECONDS, bookmarks=False)
        form = self._forms.setdefault(stream.resource, Representation.TABLE)
        async with self._apiserver.client.watch(
            stream.resource, stream.namespace, stream.selectors, request, form, kind="audit"
        ) as opened:
            if not isinstance(opened, Failure):
                return await look.follow(opened, enough)
        if opened.action is not Action.FALL_BACK or form.simpler is form:
            return opened
        self._forms[stream.resource] = form.simpler
        return await self._watch(look, after, enough)

    async def _give_time(self, look: "_Look") -> bool:
        """Waits for the stream to bring what the audit saw. Only time in which we read promptly counts.

        False if that is so little that nothing can be said.
        """
        left = look.stream.threshold + GRACE_SECONDS
        until = time.monotonic() + PATIENCE * left
        while look.same and look.findings.withheld and left > 0.0:
            if time.monotonic() > until:
                return False
            await asyncio.sleep(STEP_SECONDS)
            if not self._late(time.monotonic()):
                left -= STEP_SECONDS
        return True

    def _conclude(self, look: "_Look", freshness: Freshness, began: float) -> Verdict:
        """Notes what was found, and reopens a watch that is stalled. What is lost is so whatever else is wrong."""
        self._heed(look.refusal)
        health, now, findings = look.stream.health, time.monotonic(), look.findings
        verdict = judge(Evidence(freshness, look.complete, look.moved, findings)) if look.same else Verdict.FAILED
        if look.complete and (lost := health.lose(findings.lost)):
            self._log.warning("events_lost", watch=look.stream.label, events=lost)
        match verdict:
            case Verdict.FROZEN:
                health.froze(began, look.newest)
                self._tell_stall(look.stream, verdict, began)
            case Verdict.STALLED:
                self._tell_stall(look.stream, verdict, now)
                self._on_stalled(look, findings.withheld, now)
            case _:
                health.found(verdict)
        return verdict

    def _heed(self, refusal: Failure | None) -> None:
        """More questions only add to the distress of an apiserver that cannot answer these."""
        if refusal is None:
            self._pace.answered()
            return
        now = time.monotonic()
        self._pace.failed(refusal.retry_after, now)
        self._hold_back(now)

    def _hold_back(self, now: float) -> None:
        self._not_before = max(self._not_before, now + self._pace.gap(now))

    def _on_stalled(self, look: "_Look", withheld: Sequence[int], now: float) -> None:
        stream = look.stream
        ages = zip(stream.ages(withheld, now), (now - look.seen[revision] for revision in withheld), strict=True)
        committed = [now - max(age) for age in ages]
        if stream.health.stalled(zip(withheld, committed, strict=True), look.newest, now):
            stream.reopen(Reason.STALLED)

    def _tell_stall(self, stream: Audited, verdict: Verdict, since: float) -> None:
        if stream.number not in self._stalled:
            self._stalled[stream.number] = since
            self._log.warning("watch_stalled", watch=stream.label, verdict=verdict.value)


class _Look:
    """One audit of one stream: what its second watch saw, held against what the stream delivered.

    `seen` tells when each revision was seen; `ended` that the watch was not cut short, `in_time` that we were not too
    late ourselves to tell. `refusal` is why the apiserver did not answer, if it did not.
    """

    def __init__(self, stream: Audited) -> None:
        self.stream = stream
        self.seen: dict[int, float] = {}
        self.ended = False
        self.in_time = True
        self.refusal: Failure | None = None
        self._began_at = self.newest
        self._epoch = stream.health.delivered.epoch

    @property
    def newest(self) -> int:
        return self.stream.revision or 0

    @property
    def same(self) -> bool:
        """Whether the stream's watch is the one that it was."""
        return self.stream.up and self.stream.health.delivered.epoch == self._epoch

    @property
    def findings(self) -> Findings:
        return compare(self.seen, self.stream.health.delivered, self.newest)

    @property
    def complete(self) -> bool:
        return (self.ended or bool(self.seen)) and self.in_time and self.same

    @property
    def moved(self) -> bool:
        return self.newest > self._began_at or any(map(self.stream.health.delivered.has, self.seen))

    def answered(self, answer: Reading | Failure | None) -> None:
        """Notes how a request went."""
        if isinstance(answer, Failure) and answer.action not in ANSWERS:
            self.refusal = answer

    async def follow(self, connection: Connection, enough: int) -> Failure | None:
        """Notes what the watch brings, until it ends or that is enough."""
        lines = LineSplitter()
        while len(self.seen) < enough:
            arrived = await connection.read()
            if isinstance(arrived, Failure):
                return arrived
            received, chunk = arrived
            try:
                block = lines.feed(chunk)
            except LineTooLong:
                return because(Reason.OVERSIZE)
            if failure := self._note(block, received):
                return failure
        return None

    def _note(self, block: bytes, received: float) -> Failure | None:
        for event in decode(block).events:
            if isinstance(event, Error):
                return classify_stream_error(event.object)
            revision = parse_revision(event.object.metadata.resource_version)
            if revision is not None and not isinstance(event, Bookmark):
                self.seen.setdefault(revision, received)
        return None
