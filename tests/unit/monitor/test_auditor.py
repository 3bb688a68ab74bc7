"""The auditor against a cluster in memory: withheld events are found in time, and idle watches raise no alarm."""

import asyncio
import contextlib
import itertools
import json
import math
import random
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Self, cast

import pytest
import structlog

from tests.unit.monitor.cluster import EVENTS, NODES, PODS, START_REVISION, Cluster, Log, Watch, line, nowhere
from watchslo.clock.tick_schedule import SLOWEST_SECONDS
from watchslo.kube.client import OnSent, Selectors, request_class
from watchslo.kube.limiter import Limiter
from watchslo.kube.representation import Representation
from watchslo.model import Interval, Reading, Resource
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.auditor import Auditor
from watchslo.monitor.guarantee_record import GuaranteeRecord
from watchslo.monitor.short_watches import MOST_EVENTS
from watchslo.snapshot import Guarantee, ReadUse
from watchslo.watch.audit import (
    BUSY_INTERVAL_SECONDS,
    DETECTION_SECONDS,
    NUDGE_SECONDS,
    AuditResult,
    Delivered,
    Health,
    detection_seconds,
)
from watchslo.watch.failure import Failure, Reason, because
from watchslo.watch.lines import LineTooLong
from watchslo.watch.messages import WatchRequest
from watchslo.watch.proven_idle import REACH_SECONDS
from watchslo.watch.selection import Selection

HOUR_SECONDS = 3600.0
SEEDS = range(20)
REOPENING_SECONDS = 1.0
GONE = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
UNWELL = (AuditResult.FROZEN, AuditResult.STALLED, AuditResult.LOST)


class FakeWatch:
    """A watch, all parts in one: what is committed arrives at once, unless it is `stuck`.

    Reopening ends that, unless it is `hopeless`.
    """

    def __init__(self, number: int, resource: Resource, revision: int) -> None:
        self.identity = self.session = self.statistics = self.deliveries = self
        self.reads: list[Reading] = []
        self.sighted: list[int] = []
        self.number = number
        self.label = f"watch-{number}"
        self.resource = resource
        self.cached = resource.usually_cached
        self.namespace: str | None = None
        self.probed_in = "default"
        self.replay = False
        self.selectors = Selectors()
        self.selection: Selection | None = None
        self.threshold = 1.0
        self.representation = Representation.TABLE
        self.ticked: Callable[[float], int | None] = lambda _: None
        self.measured = self.counts = True
        self.marked: int | None = None
        self.up = True
        self.complete_until = -math.inf  # when everything was committed that it has for certain
        self.revision: int | None = revision
        self.newest_event: int | None = None
        self.last_heard = time.monotonic()
        self.stuck = False
        self.hopeless = False
        self.backlog: list[int] = []
        self.committed: dict[int, float] = {}
        self.reopened: list[float] = []
        self.delivered = Delivered()
        self.delivered.begin(revision)
        self.auditor: Auditor | None = None
        self.guarantees = GuaranteeRecord(structlog.get_logger(), Guarantee)

    @property
    def violated(self) -> dict[str, int]:
        """The violations by guarantee."""
        return {name: count for name, count in self.guarantees.reading(0).violations.items() if count}

    def observe(self, reading: Reading, _: ReadUse) -> None:
        self.reads.append(reading)

    def oldest_ticked(self, since: float) -> int | None:
        return self.ticked(since)

    def sight(self, _: float, revision: int) -> None:
        self.sighted.append(revision)

    @property
    def health(self) -> Health:
        assert self.auditor is not None
        return self.auditor.health(cast("Any", self))

    def commit(self, revision: int) -> None:
        self.committed[revision] = time.monotonic()
        self.backlog.append(revision)
        if self.up and not self.stuck:
            self.deliver()

    def deliver(self) -> None:
        batch, self.backlog = self.backlog, []
        if batch:
            self.delivered.extend(batch)
            self.revision = self.newest_event = batch[-1]
            self.last_heard = time.monotonic()

    @property
    def bookmark(self) -> int | None:
        """The revision of the newest bookmark, as a session has it."""
        return self.marked

    def mark(self, revision: int) -> None:
        """Bring a bookmark."""
        self.revision = self.marked = revision
        self.last_heard = time.monotonic()

    def ages(self, revisions: Sequence[int], now: float) -> Sequence[float]:
        return [now - self.committed[revision] for revision in revisions]

    def ask_for_metadata(self) -> None:
        """Begin again in another form, from the present."""
        self.representation = Representation.METADATA
        self.stuck = False
        self.revision = max([self.revision or 0, *self.backlog])
        self.backlog.clear()
        self.delivered.begin(self.revision)

    def commit_bounds(self, revision: int, now: float) -> Interval:
        assert revision == (self.revision or 0) + 1
        return Interval(0.0, now - self.complete_until)

    def reopen(self, reason: Reason) -> None:
        assert reason is Reason.STALLED
        self.reopened.append(time.monotonic())
        self.close()
        asyncio.get_running_loop().call_later(REOPENING_SECONDS, self.open)

    def close(self) -> None:
        self.up = False

    def open(self) -> None:
        self.up, self.stuck = True, self.hopeless
        self.last_heard = time.monotonic()
        self.delivered.begin(self.revision or 0)
        if not self.stuck:
            self.deliver()

    @property
    def stalled(self) -> bool:
        return self.health.stalled_for(time.monotonic(), self.revision) is not None


class Past(Cluster):
    """A cluster that remembers its commits; its caches can be stopped."""

    def __init__(self, *resources: Resource) -> None:
        super().__init__()
        self.streams = [FakeWatch(number, resource, self.revision) for number, resource in enumerate(resources, 1)]
        self.stopped: dict[str, int] = {}  # caches, and the last revision that they received
        self.changes: dict[str, list[int]] = {}
        self.forms: set[Representation] = set(Representation)
        self.asked_forms: list[Representation] = []
        self.withheld_forms: set[Representation] = set()  # those whose events a proxy withholds from second watches
        self.since: list[int] = []  # how many revisions in the past each audit began
        self.past_seconds: list[float] = []  # and how many seconds, by the oldest change that it shows
        self.times: list[float] = []  # of all changes
        self.said: bytes | None = None  # the answer to audits, instead of the events
        self.silent = False  # audits are never answered
        self.compacted = 0  # an audit from an older revision gets a 410, which does not say from where to watch
        self.slow = 0  # the number of nudges that will be slow
        self.ticking = True
        self.apiserver = Apiserver("service", nowhere(), Limiter(1000))
        self.apiserver.client = cast("Any", self)
        self.apiserver.version = self.git_version

    def commit(self, resource: Resource = PODS) -> int:
        self.revision += 1
        self.times.append(time.monotonic())
        self.changes.setdefault(resource.key, []).append(self.revision)
        if resource.key not in self.stopped:
            self.tell(resource, self.revision)
        return self.revision

    def _note_start(self, after: int) -> None:
        self.since.append(self.revision - after)
        later = self.times[after - START_REVISION :]
        self.past_seconds.append(time.monotonic() - later[0] if later else 0.0)

    def ticked(self, since: float) -> int | None:
        """Return the oldest revision of the ticks sent since then, if there were two every second."""
        return START_REVISION + bisect_left(self.times, since)

    def lose(self) -> int:
        """Make a change that the first watch never delivers, and return its revision."""
        self.commit()
        return self.streams[0].delivered._revisions.pop()

    def shown(self, resource: Resource, after: int) -> Sequence[int]:
        """Return the changes after a revision that an audit sees."""
        return [revision for revision in self.changes.get(resource.key, ()) if revision > after]

    def lines(self, revisions: Sequence[int], _selectors: Selectors) -> bytes:
        """Return the events of these revisions, as a watch with these selectors sends them."""
        return b"".join(line("MODIFIED", revision) for revision in revisions)

    def tell(self, resource: Resource, revision: int) -> None:
        for stream in self.streams:
            if stream.resource == resource:
                stream.commit(revision)
        self.send(resource, line("MODIFIED", revision))

    def freeze(self, resource: Resource) -> None:
        self.stopped[resource.key] = self.revision

    def thaw(self, resource: Resource) -> None:
        since = self.stopped.pop(resource.key)
        for revision in self.changes.get(resource.key, ()):
            if revision > since:
                self.tell(resource, revision)

    def ticks(self) -> list[Reading]:
        now = time.monotonic()
        return [Reading("events", now - 0.3, now - 0.29, self.revision)] if self.ticking else []

    async def read_nothing(
        self, resource: Resource, namespace: str, kind: str, at: int | None = None
    ) -> Reading | Failure:
        assert (kind, namespace, at) == ("nudge", "default", None)
        if resource.key in self.stopped:
            self.asked.append((time.monotonic(), kind, resource.key))
            await asyncio.sleep(NUDGE_SECONDS)
            return because(Reason.TIMEOUT)
        sent = time.monotonic()
        if self.slow:
            self.slow -= 1
            await asyncio.sleep(3.5)
        answer = await super().read_nothing(resource, namespace, kind)
        return (
            Reading(answer.resource, sent, answer.answered, answer.revision) if isinstance(answer, Reading) else answer
        )

    @contextlib.asynccontextmanager
    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        selectors: Selectors,
        request: WatchRequest,
        representation: Representation,
        *,
        kind: str = "watch",
        resumes: bool = False,
        on_sent: OnSent = lambda: None,
    ) -> AsyncIterator[Watch | Failure]:
        assert not resumes
        await self.wait_for_turn(request_class(kind), on_sent)
        assert (kind, request.bookmarks, request.timeout) == ("audit", False, 2)
        assert request.revision is not None
        self.asked_forms.append(representation)
        self._note_start(request.revision)
        failure = await self._answer("audit", resource.key, namespace)
        if representation not in self.forms:
            failure = because(Reason.NOT_ACCEPTABLE)
        if failure:
            yield failure
            return
        opened = Watch(resource, request.revision, representation)
        if representation not in self.withheld_forms:
            self.watches.append(opened)
        if not self.silent:
            asyncio.get_running_loop().call_later(request.timeout, opened.send)
            past = () if representation in self.withheld_forms else self.shown(resource, request.revision)
            if request.revision < self.compacted:
                opened.send(GONE)
            elif self.said is not None:
                opened.send(self.said)
            elif past and resource.key not in self.stopped:
                opened.send(self.lines(past, selectors))
        try:
            yield opened
        finally:
            opened.open = False


def cluster_of(*resources: Resource) -> tuple[Past, FakeWatch]:
    """Return a cluster and the watch of the last of these resources."""
    past = Past(*resources)
    return past, past.streams[-1]


class Audits:
    """An auditor that runs."""

    def __init__(self, past: Past, seed: int = 1, budget: float = 2.0, *, replays: bool = False) -> None:
        self.past = past
        self.budget = budget
        self.is_late = False
        self.replays = replays
        self.auditor = Auditor(
            lambda: cast("Any", past.streams),
            past.apiserver,
            lambda: self.budget,
            past.ticks,
            lambda _: self.is_late,
            lambda: self.replays,
            random.Random(seed).random,
        )
        for stream in past.streams:
            stream.auditor = self.auditor
            self.auditor.add(cast("Any", stream))

    @property
    def verdicts(self) -> Counter[str]:
        return self.past.apiserver.audits

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.auditor.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert not self._task.done()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        assert not self.past.open_watches()

    @property
    def found(self) -> set[str]:
        """The results so far."""
        return {verdict for verdict, count in self.verdicts.items() if count}

    async def until(self, *verdicts: AuditResult) -> None:
        """Wait for an audit with one of these results."""
        before = self._count(verdicts)
        await when(lambda: self._count(verdicts) > before)

    def _count(self, verdicts: Sequence[AuditResult]) -> int:
        return sum(self.verdicts[verdict] for verdict in verdicts)


def many(count: int) -> list[Resource]:
    return [Resource("tests.invalid", "v1", f"things{number}", namespaced=True) for number in range(count)]


async def when(holds: Callable[[], bool]) -> float:
    """Wait until a condition holds, and return the time."""
    async with asyncio.timeout(HOUR_SECONDS):
        while not holds():  # noqa: ASYNC110 - no event announces this condition
            await asyncio.sleep(0.05)
    return time.monotonic()


async def stalled(stream: FakeWatch) -> float:
    return await when(lambda: stream.stalled)


async def seconds_until_stalled(past: Past, stream: FakeWatch) -> float:
    """Commit a change, and return after how many seconds its watch is known to be stalled."""
    committed = time.monotonic()
    past.commit(stream.resource)
    return await stalled(stream) - committed


async def over(stream: FakeWatch) -> float:
    return await when(lambda: not stream.stalled)


# No false alarm


async def test_crash_of_one_audit_ends_no_other(log: Log) -> None:
    past = Past(PODS, NODES)
    past.streams[0].observe = None  # type: ignore[assignment, method-assign]
    async with Audits(past) as audits:
        await audits.until(AuditResult.IDLE)
        await audits.until(AuditResult.IDLE)
        assert past.streams[1].reads
    assert {crash["task"] for crash in log.of("task_crashed")} == {"('audits', 1)"}


async def test_idle_resources_for_an_hour_raise_no_alarm(log: Log) -> None:
    past = Past(*many(12))
    async with Audits(past) as audits:
        await asyncio.sleep(HOUR_SECONDS)
        assert audits.found == {AuditResult.IDLE}
        assert audits.auditor.quiet == 12
        assert 0.95 < audits.verdicts[AuditResult.IDLE] / HOUR_SECONDS < 1.05  # each every twelve seconds
    assert all(stream.health.verdict is AuditResult.IDLE for stream in past.streams)
    assert set(log.events) == {"audited"}


@pytest.mark.parametrize("seed", range(2))
async def test_timely_events_for_an_hour_raise_no_alarm(seed: int) -> None:
    """Rare or frequent events, up to 1.5 s late: no stall, and nothing lost."""
    chance, past = random.Random(seed), Past(*many(6))
    loop = asyncio.get_running_loop()

    def deliver(stream: FakeWatch, revision: int) -> None:
        stream.backlog.append(revision)
        stream.deliver()

    for stream in past.streams:  # each late by a time of its own, in order
        late = chance.uniform(0.0, 1.5)
        stream.commit = lambda revision, stream=stream, late=late: loop.call_later(late, deliver, stream, revision)  # type: ignore[method-assign,misc,assignment]
    async with Audits(past, seed) as audits:
        until = time.monotonic() + HOUR_SECONDS
        while time.monotonic() < until:
            await asyncio.sleep(chance.expovariate(chance.choice((0.05, 0.5, 5.0))))
            past.commit(chance.choice(past.streams).resource)
        assert not audits.found & set(UNWELL)
        assert audits.verdicts[AuditResult.ALIVE]
        assert not audits.verdicts[AuditResult.FAILED]
    assert not any(stream.health.stalls or stream.violated for stream in past.streams)


async def test_single_slow_nudge_raises_no_alarm() -> None:
    past = Past(PODS)
    past.slow = 1
    async with Audits(past) as audits:
        await audits.until(*AuditResult)
        assert audits.found == {AuditResult.IDLE}
    assert past.count("nudge") == 2


@pytest.mark.parametrize("resources", [(PODS,), (PODS, NODES)])
async def test_nudge_is_not_frozen_if_all_reads_are_slow(resources: tuple[Resource, ...]) -> None:
    past = Past(*resources)
    past.ticking = False
    for resource in resources:
        past.freeze(resource)
    async with Audits(past) as audits:
        await asyncio.sleep(120.0)
        assert audits.found == {AuditResult.FAILED}
    assert past.streams[0].health.stalls == 0
    assert not past.count("audit")


async def test_nudge_is_not_frozen_if_all_reads_become_slow() -> None:
    """Like a paused etcd: reads that are slow and then prompt prove nothing about one cache."""
    past = Past(PODS, NODES)
    past.ticking = False
    async with Audits(past) as audits:
        for _ in range(30):
            for resource in (PODS, NODES):
                past.freeze(resource)
            await asyncio.sleep(10.0)
            for resource in (PODS, NODES):
                past.thaw(resource)
            await asyncio.sleep(3.0)
        assert audits.found == {AuditResult.FAILED, AuditResult.IDLE}


async def test_rare_ticks_make_the_auditor_read_other_resources() -> None:
    past = Past(PODS, NODES)
    past.ticking = False
    past.freeze(PODS)
    committed = time.monotonic()
    async with Audits(past):
        assert await stalled(past.streams[0]) - committed <= DETECTION_SECONDS
    assert not past.streams[1].stalled


async def test_late_process_makes_audits_fail() -> None:
    past = Past(PODS)
    past.streams[0].stuck = True
    past.commit()
    async with Audits(past) as audits:
        audits.is_late = True
        await audits.until(*AuditResult)
        assert audits.found == {AuditResult.FAILED}
        assert not past.streams[0].reopened
        audits.is_late = False
        await audits.until(AuditResult.STALLED)


# Stalls


async def write(past: Past, chance: random.Random) -> None:
    while True:
        await asyncio.sleep(chance.uniform(0.5, 8.0))
        past.commit()


@pytest.mark.parametrize("seed", SEEDS)
async def test_dead_watch_is_reopened_and_delivers_everything(seed: int, log: Log) -> None:
    chance = random.Random(seed)
    past, stream = cluster_of(*many(7), PODS)
    async with Audits(past, seed) as audits:
        await asyncio.sleep(chance.uniform(0.0, 60.0))
        past.commit()
        await asyncio.sleep(chance.uniform(0.0, 20.0))
        stream.stuck = True
        writing = asyncio.create_task(write(past, chance))
        assert await seconds_until_stalled(past, stream) <= DETECTION_SECONDS
        assert await over(stream) - stream.reopened[0] <= REOPENING_SECONDS + 0.1
        writing.cancel()
        assert stream.revision == past.revision
        await asyncio.sleep(60.0)
        assert audits.verdicts[AuditResult.STALLED] == 1
        assert stream.health.verdict is AuditResult.IDLE
    assert (stream.health.stalls, stream.violated, len(stream.reopened)) == (1, {}, 1)
    assert log.of("watch_stalled") == [{"event": "watch_stalled", "watch": stream.label, "verdict": "stalled"}]
    assert [entry["watch"] for entry in log.of("stall_over")] == [stream.label]


async def test_withheld_event_is_as_old_as_the_clock_proves() -> None:
    past, stream = cluster_of(PODS)
    stream.stuck = stream.hopeless = True
    committed = time.monotonic()
    past.commit()
    async with Audits(past) as audits:
        await audits.until(AuditResult.STALLED)
        now = time.monotonic()
        assert stream.health.withheld(now, stream.revision) == [pytest.approx(now - committed)]
        await asyncio.sleep(10.0)
        stream.stuck = False
        stream.deliver()
        assert stream.health.withheld(time.monotonic(), stream.revision) == []


async def test_undated_withheld_event_is_as_old_as_its_audit() -> None:
    past, stream = cluster_of(PODS)
    stream.stuck = stream.hopeless = True
    stream.ages = lambda revisions, _: [0.0] * len(revisions)  # type: ignore[method-assign,assignment]
    past.commit()
    async with Audits(past) as audits:
        await audits.until(AuditResult.STALLED)
        (age,) = stream.health.withheld(time.monotonic(), stream.revision)
        assert 2.0 <= age <= 2.3


async def test_lasting_stall_counts_once_and_reopens_ever_more_rarely() -> None:
    past, stream = cluster_of(PODS)
    stream.stuck = stream.hopeless = True
    past.commit()
    async with Audits(past):
        await asyncio.sleep(1800.0)
    assert stream.health.stalls == 1
    assert 5 <= len(stream.reopened) <= 10


async def test_stalled_busy_watch_is_found_as_soon_as_a_quiet_one() -> None:
    past, stream = cluster_of(PODS)
    async with Audits(past):
        for _ in range(200):
            past.commit()
            await asyncio.sleep(0.1)
        stream.stuck = True
        committed = time.monotonic()
        for _ in range(100):
            past.commit()
        assert await stalled(stream) - committed <= DETECTION_SECONDS


async def test_watch_that_closes_during_an_audit_is_not_stalled() -> None:
    past, stream = cluster_of(PODS)
    stream.stuck = True
    past.commit()
    async with Audits(past) as audits:
        await when(lambda: past.count("audit") == 1)
        stream.close()
        await audits.until(*AuditResult)
        stream.open()
        await audits.until(*AuditResult)
        assert audits.found == {AuditResult.FAILED, AuditResult.IDLE}
    assert stream.health.stalls == 0


async def test_closed_watches_are_not_audited() -> None:
    past = Past(PODS, EVENTS)
    past.streams[0].close()
    past.streams[1].revision = None
    async with Audits(past) as audits:
        await asyncio.sleep(120.0)
        assert not audits.found
        assert audits.auditor.quiet == 0


async def test_stall_of_an_ended_watch_is_forgotten(log: Log) -> None:
    past = Past(PODS)
    past.streams[0].stuck = past.streams[0].hopeless = True
    past.commit()
    async with Audits(past) as audits:
        await audits.until(AuditResult.STALLED)
        past.streams.clear()
        await asyncio.sleep(60.0)
    assert not log.of("stall_over")


# Frozen caches


@pytest.mark.parametrize("seed", SEEDS)
async def test_frozen_cache_is_found_and_its_end_too(seed: int, log: Log) -> None:
    chance = random.Random(seed)
    past, stream = cluster_of(*many(7), PODS)
    async with Audits(past, seed) as audits:
        await asyncio.sleep(chance.uniform(0.0, 60.0))
        past.freeze(PODS)
        await asyncio.sleep(chance.uniform(0.0, 3.0))
        assert await seconds_until_stalled(past, stream) <= DETECTION_SECONDS
        assert stream.health.stalled_for(time.monotonic(), stream.revision) == pytest.approx(11.0, abs=0.2)
        await asyncio.sleep(40.0)
        past.thaw(PODS)
        thawed = time.monotonic()
        assert await over(stream) - thawed <= DETECTION_SECONDS
        assert not audits.found & {AuditResult.STALLED, AuditResult.FAILED}
    assert stream.health.stalls == 1
    assert not stream.reopened
    assert not any(other.health.stalls for other in past.streams[:-1])
    assert [entry["verdict"] for entry in log.of("watch_stalled")] == ["frozen"]
    await asyncio.sleep(0.0)


async def test_late_cache_that_delivers_is_not_frozen() -> None:
    past, stream = cluster_of(*many(3), PODS)
    past.freeze(PODS)
    async with Audits(past) as audits:
        for _ in range(40):
            past.commit()
            await asyncio.sleep(8.0)
            past.thaw(PODS)
            past.freeze(PODS)
        assert audits.found <= {AuditResult.ALIVE, AuditResult.IDLE, AuditResult.FAILED}
    assert not stream.health.stalls


async def test_many_quiet_watches_are_audited_within_the_stated_time() -> None:
    past = Past(*many(80), PODS)
    promised = detection_seconds(len(past.streams), 1.0)
    assert promised
    async with Audits(past, budget=1.0):
        await asyncio.sleep(100.0)
        past.freeze(PODS)
        assert await seconds_until_stalled(past, past.streams[-1]) <= promised


async def keep_marking(past: Past, stream: FakeWatch) -> None:
    """Bring a bookmark every minute, of a revision that a tick dated half a minute before, until the watch is stuck."""
    while not stream.stuck:
        past.revision += 50  # of other resources
        stream.mark(past.revision)
        stream.complete_until = time.monotonic() - 30.0
        await asyncio.sleep(60.0)


@pytest.mark.parametrize(
    ("budget", "unproven", "least", "most"), [(0.01, None, 5, 8), (0.01, "kine", 25, 37), (0.5, None, 240, 330)]
)
async def test_bookmarks_replace_audits_only_where_audits_are_rare(
    budget: float, unproven: str | None, least: int, most: int
) -> None:
    past = Past(PODS)
    past.apiserver.unproven = unproven
    async with Audits(past, budget=budget) as audits:
        marking = asyncio.create_task(keep_marking(past, past.streams[0]))
        await asyncio.sleep(HOUR_SECONDS)
        marking.cancel()
        assert least <= audits.verdicts.total() <= most
        assert audits.auditor.quiet <= 1


@pytest.mark.parametrize("seed", range(5))
async def test_stall_is_found_within_the_stated_time_though_bookmarks_came(seed: int) -> None:
    past = Past(PODS)
    (stream,) = past.streams
    promised = detection_seconds(1, 0.01)
    assert promised
    async with Audits(past, seed, budget=0.01):
        marking = asyncio.create_task(keep_marking(past, stream))
        await asyncio.sleep(1000.0 + 17.0 * seed)
        stream.stuck = True
        assert await seconds_until_stalled(past, stream) <= promised
        marking.cancel()


# Unproven caches


@pytest.mark.parametrize(("version", "unproven"), [("v1.30.14", None), (None, None), ("v1.33.0", "kine")])
async def test_unproven_cache_is_never_idle_but_can_stall(version: str | None, unproven: str | None) -> None:
    past = Past(PODS)
    past.apiserver.version, past.apiserver.unproven = version, unproven
    async with Audits(past) as audits:
        await asyncio.sleep(60.0)
        assert audits.found == {AuditResult.UNPROVEN}
        past.streams[0].stuck = True
        assert await seconds_until_stalled(past, past.streams[0]) <= DETECTION_SECONDS


async def test_uncached_resource_is_proven_idle_on_any_version() -> None:
    past = Past(EVENTS)
    past.apiserver.version = "v1.30.14"
    async with Audits(past) as audits:
        await asyncio.sleep(60.0)
        assert audits.found == {AuditResult.IDLE}


# Where audits begin


@contextlib.asynccontextmanager
async def churn(past: Past, gap: float = 0.2) -> AsyncIterator[None]:
    """Change another resource of the same storage all the time."""

    async def write_others() -> None:
        while True:
            past.commit(NODES)
            await asyncio.sleep(gap)

    writing = asyncio.create_task(write_others())
    try:
        yield
    finally:
        writing.cancel()


def uncached() -> tuple[Past, FakeWatch]:
    """Return a cluster with one watch of a resource without a watch cache, dated by two ticks a second."""
    past = Past(EVENTS)
    past.apiserver.version = "v1.30.14"
    past.streams[0].ticked = past.ticked
    return past, past.streams[0]


async def test_audits_of_a_quiet_uncached_watch_begin_where_the_last_one_ended() -> None:
    """It has no bookmarks: for a watch from its last event, etcd would read all changes since."""
    past, _ = uncached()
    async with churn(past), Audits(past) as audits:
        past.commit(EVENTS)
        await asyncio.sleep(HOUR_SECONDS)
        assert audits.found == {AuditResult.IDLE}
    assert max(past.past_seconds) < 20.0
    assert max(past.since) < 20.0 / 0.2
    assert len(past.since) > 200


async def test_stall_of_an_uncached_watch_is_found_after_a_quiet_hour() -> None:
    past, stream = uncached()
    async with churn(past), Audits(past) as audits:
        await asyncio.sleep(HOUR_SECONDS)
        stream.stuck = stream.hopeless = True
        assert await seconds_until_stalled(past, stream) <= DETECTION_SECONDS
        await asyncio.sleep(1800.0)
        assert stream.stalled
        assert max(past.past_seconds) < REACH_SECONDS + 1.0
        assert len(stream.reopened) >= 5  # also when the withheld event is out of reach of audits
        stream.stuck = False
        stream.deliver()
        await audits.until(AuditResult.UNPROVEN)  # later ones may have been withheld too
        past.commit(EVENTS)
        await audits.until(AuditResult.IDLE)
    assert (stream.health.stalls, stream.violated) == (1, {})


async def test_uncached_watch_that_was_not_audited_for_long_is_unproven_until_its_next_event() -> None:
    past, _ = uncached()
    async with churn(past), Audits(past, budget=0.0) as audits:
        past.commit(EVENTS)
        await asyncio.sleep(1800.0)
        audits.budget = 2.0
        await asyncio.sleep(300.0)
        assert audits.found == {AuditResult.UNPROVEN}
        past.commit(EVENTS)
        await asyncio.sleep(60.0)
        assert audits.found == {AuditResult.UNPROVEN, AuditResult.IDLE}
    assert max(past.past_seconds) < REACH_SECONDS + 1.0


async def test_uncached_watch_without_ticks_is_audited_from_the_present() -> None:
    past, stream = uncached()
    stream.ticked = lambda _: None
    async with churn(past), Audits(past, budget=0.0) as audits:
        await asyncio.sleep(1800.0)
        audits.budget = 2.0
        await asyncio.sleep(300.0)
        assert audits.found == {AuditResult.UNPROVEN}
        stream.stuck = True
        assert await seconds_until_stalled(past, stream) <= DETECTION_SECONDS
    assert max(past.past_seconds) < 20.0


async def test_restored_storage_is_audited_from_its_revision() -> None:
    """A second watch from a revision of the future would show nothing until that is reached."""
    past, stream = uncached()
    async with churn(past), Audits(past) as audits:
        await asyncio.sleep(60.0)
        past.revision -= 200
        stream.revision = past.revision
        del past.times[-200:]
        await asyncio.sleep(15.0)
        audits.auditor.forget_revisions(cast("Any", stream))
        stream.stuck = True
        past.commit(EVENTS)
        await audits.until(AuditResult.STALLED)


@pytest.mark.parametrize(("peers", "begins_late"), [(1, True), (3, False), (None, False)])
async def test_cached_watch_is_proven_idle_only_by_the_apiserver_that_answered_the_read(
    peers: int | None,
    begins_late: bool,  # noqa: FBT001
) -> None:
    """Another apiserver at the same address may be behind."""
    past = Past(PODS)
    past.apiserver.set_peers(peers)
    async with churn(past), Audits(past) as audits:
        await asyncio.sleep(600.0)
        assert audits.found == {AuditResult.IDLE}
    assert (max(past.since) < 100) is begins_late


async def test_search_of_an_uncached_watch_does_not_begin_far_in_the_past() -> None:
    past, stream = uncached()
    async with churn(past), Audits(past) as audits:
        for _ in range(300):
            past.commit(EVENTS)
            await asyncio.sleep(4.0)
        assert audits.verdicts[AuditResult.ALIVE] >= 2
        since = past.changes[EVENTS.key][0]
        asked = len(past.since)
        assert await audits.auditor.replay(cast("Any", stream), [since]) is None
        assert len(past.since) == asked
        stream.ticked = lambda _: None
        await asyncio.sleep(1.0)
        assert audits.auditor._search_from(cast("Any", stream)) == stream.revision
    assert max(past.past_seconds) < REACH_SECONDS + 1.0


# Tables without events


async def test_watch_whose_tables_are_withheld_asks_for_metadata(log: Log) -> None:
    """Some proxies drop the rows of Tables that have no objects."""
    past = Past(PODS, NODES)
    stream = past.streams[0]
    stream.stuck = True
    past.withheld_forms = {Representation.TABLE}
    async with Audits(past) as audits:
        await busy(past, 60.0)
        assert stream.representation is Representation.METADATA
        assert AuditResult.STALLED not in audits.found
        await asyncio.sleep(60.0)
        stream.stuck = stream.hopeless = True
        past.commit()
        assert await stalled(stream)
    assert not stream.violated
    assert [entry["watch"] for entry in log.of("tables_without_events")] == [stream.label]
    assert past.streams[1].representation is Representation.TABLE


async def test_watch_that_never_had_an_event_costs_no_more_requests() -> None:
    past = Past(PODS)
    async with Audits(past) as audits:
        await asyncio.sleep(HOUR_SECONDS)
        assert audits.found == {AuditResult.IDLE}
    assert past.count("audit") == past.count("nudge") == audits.verdicts[AuditResult.IDLE]
    assert set(past.asked_forms) == {Representation.METADATA}
    past.asked_forms.clear()
    past.commit()
    async with Audits(past) as audits:
        await audits.until(AuditResult.IDLE)
    assert set(past.asked_forms) == {Representation.TABLE}


async def test_watch_without_events_whose_tables_show_them_is_stalled() -> None:
    past, stream = cluster_of(PODS)
    stream.stuck = stream.hopeless = True
    past.commit()
    async with Audits(past):
        assert await stalled(stream)
    assert stream.representation is Representation.TABLE


# Failed audits


@pytest.mark.parametrize("reason", [Reason.FORBIDDEN, Reason.THROTTLED, Reason.REFUSED, Reason.RESET, Reason.TIMEOUT])
@pytest.mark.parametrize("kind", ["nudge", "audit"])
async def test_failed_audits_prove_nothing(kind: str, reason: Reason) -> None:
    past = Past(PODS)
    past.ticking = False
    past.streams[0].stuck = True
    past.commit()
    past.fail(reason, kind)
    async with Audits(past) as audits:
        await asyncio.sleep(60.0)
        assert audits.found == {AuditResult.FAILED}
        past.fail(None, kind)
        await audits.until(AuditResult.STALLED)


# Overloaded apiservers


@pytest.mark.parametrize("reason", [Reason.THROTTLED, Reason.SERVER_ERROR, Reason.REFUSED])
@pytest.mark.parametrize("kind", ["nudge", "audit"])
async def test_overloaded_apiserver_is_audited_less_often(kind: str, reason: Reason) -> None:
    """At 2 audits a second it would get 240 requests in two minutes, as many as a healthy apiserver."""
    past = Past(*many(40))
    past.fail(reason, kind)
    async with Audits(past) as audits:
        await asyncio.sleep(60.0)
        before = past.count("nudge")
        await asyncio.sleep(120.0)
        assert (
            120.0 / (1.5 * SLOWEST_SECONDS) - 1 <= past.count("nudge") - before <= 120.0 / (0.5 * SLOWEST_SECONDS) + 1
        )
        past.fail(None, kind)
        await asyncio.sleep(2 * 1.5 * SLOWEST_SECONDS)
        assert AuditResult.IDLE in audits.found
        before = past.count("nudge")
        await asyncio.sleep(60.0)
        assert past.count("nudge") - before >= 110


async def test_audits_obey_retry_after() -> None:
    past = Past(*many(40))
    past.fail(Reason.THROTTLED, retry_after=60.0)
    async with Audits(past):
        await when(lambda: past.count("nudge") > 0)
        await asyncio.sleep(59.0)
        assert past.count("nudge") == 1
        await asyncio.sleep(10.0)
        assert past.count("nudge") == 2


async def test_hanging_apiserver_is_audited_less_often() -> None:
    """Even if it accepts connections: no other read is answered at once, so no cache is frozen."""
    past = Past(*many(40))
    past.ticking = False
    for resource in many(40):
        past.freeze(resource)
    async with Audits(past) as audits:
        await asyncio.sleep(60.0)
        before = past.count("nudge")
        await asyncio.sleep(120.0)
        assert past.count("nudge") - before <= 2 * (
            120.0 / (0.5 * SLOWEST_SECONDS) + 1
        )  # each reads a second resource too
        assert audits.found == {AuditResult.FAILED}


@pytest.mark.parametrize("reason", [Reason.FORBIDDEN, Reason.NOT_FOUND, Reason.EXPIRED])
async def test_unavailable_resource_does_not_delay_other_audits(reason: Reason) -> None:
    past = Past(*many(39), PODS)
    past.fail(reason, "*", PODS.key)
    past.freeze(past.streams[0].resource)
    async with Audits(past):
        await asyncio.sleep(120.0)
        assert past.count("nudge") >= 220


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"said": GONE}, AuditResult.FAILED),
        ({"silent": True}, AuditResult.FAILED),
        ({"said": b""}, AuditResult.IDLE),
        ({"said": b"garbage\n"}, AuditResult.IDLE),
        ({"said": json.dumps({"type": "BOOKMARK"}).encode()}, AuditResult.IDLE),
        ({"said": line("BOOKMARK", 900) + line("MODIFIED", "unparsable")}, AuditResult.IDLE),
    ],
    ids=["expired", "no answer", "nothing", "garbage", "empty bookmark", "bookmark and unparsable event"],
)
async def test_audit_with_an_answer_without_events_is_idle_or_failed(
    changed: dict[str, object], found: AuditResult
) -> None:
    past = Past(PODS)
    for name, value in changed.items():
        setattr(past, name, value)
    async with Audits(past) as audits:
        await asyncio.sleep(120.0)
        assert audits.found == {found}
        assert audits.verdicts[found] >= 6


async def test_bookmark_during_an_audit_leaves_the_watch_idle() -> None:
    """An apiserver sends one every minute: an idle watch would not be known to be idle for some seconds after it."""
    past = Past(PODS)
    async with Audits(past) as audits:
        for revision in range(1_000, 1_010):
            await when(lambda: any(past.open_watches()))
            past.streams[0].mark(revision)
            await audits.until(*AuditResult)
        assert audits.found == {AuditResult.IDLE}


async def test_audit_with_an_endless_line_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def overflow(*_: object) -> bytes:
        raise LineTooLong(1)

    monkeypatch.setattr("watchslo.watch.lines.LineSplitter.feed", overflow)
    past = Past(PODS)
    past.said = b"x"
    async with Audits(past) as audits:
        await audits.until(*AuditResult)
        assert audits.found == {AuditResult.FAILED}


async def test_resource_without_tables_is_audited_by_metadata() -> None:
    past = Past(PODS)
    past.commit()
    past.forms = {Representation.METADATA}
    async with Audits(past) as audits:
        await asyncio.sleep(60.0)
        assert audits.found == {AuditResult.IDLE}
    assert past.asked_forms[:2] == [Representation.TABLE, Representation.METADATA]
    assert set(past.asked_forms[2:]) == {Representation.METADATA}


async def test_resource_without_any_representation_fails_audits() -> None:
    past = Past(PODS)
    past.commit()
    past.forms = set()
    async with Audits(past) as audits:
        await audits.until(*AuditResult)
        assert audits.found == {AuditResult.FAILED}
    assert len(past.asked_forms) == 3


# Lost events


async def busy(past: Past, seconds: float, gap: float = 1.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        past.commit()
        await asyncio.sleep(gap)


async def test_lost_event_is_counted_once(log: Log) -> None:
    past, stream = cluster_of(PODS)
    async with Audits(past) as audits:
        await busy(past, 30.0)
        past.lose()
        await busy(past, BUSY_INTERVAL_SECONDS)
        await busy(past, 3 * BUSY_INTERVAL_SECONDS)
        assert audits.found == {AuditResult.ALIVE, AuditResult.LOST}
        assert audits.verdicts[AuditResult.LOST] == 1
        assert audits.verdicts[AuditResult.ALIVE] >= 2
    assert (stream.violated, stream.health.stalls, stream.reopened) == ({"reliable": 1}, 0, [])
    lost = past.changes[PODS.key][30]
    assert log.of("guarantee_violated") == [
        {"event": "guarantee_violated", "guarantee": "reliable", "count": 1, "oldest": lost, "newest": lost}
    ]


async def test_event_before_the_watch_opened_is_not_lost() -> None:
    past, stream = cluster_of(PODS)
    async with Audits(past) as audits:
        await busy(past, 30.0)
        past.lose()
        stream.close()
        stream.open()
        await busy(past, 3 * BUSY_INTERVAL_SECONDS)
        assert audits.found == {AuditResult.ALIVE}
    assert not stream.violated


async def test_event_that_only_one_audit_shows_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    past, stream = cluster_of(PODS)
    async with Audits(past) as audits:
        await busy(past, 30.0)
        past.lose()
        invented = past.changes[PODS.key].pop()
        shown = [invented]

        def changes(_: Resource, after: int) -> list[int]:
            return sorted(one for one in [*past.changes[PODS.key], *(shown and [shown.pop()])] if one > after)

        monkeypatch.setattr(past, "shown", changes)
        await busy(past, 2 * BUSY_INTERVAL_SECONDS)
        assert not shown
        assert audits.found == {AuditResult.ALIVE}
    assert not stream.violated


async def test_lost_event_whose_confirmation_fails_is_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    past, stream = cluster_of(PODS)
    async with Audits(past) as audits:
        await busy(past, 30.0)
        past.lose()
        replay = audits.auditor.replay
        failing = [None]

        async def fail_once(*arguments: Any) -> Sequence[int] | None:
            return failing.pop() if failing else await replay(*arguments)

        monkeypatch.setattr(audits.auditor, "replay", fail_once)
        await busy(past, 3 * BUSY_INTERVAL_SECONDS)
        assert not failing
    assert stream.violated == {"reliable": 1}


@pytest.mark.parametrize("calm", [False, True])
async def test_each_event_is_read_a_second_time_where_that_is_wanted(calm: bool) -> None:  # noqa: FBT001
    """Also of a watch that is quiet most of the time."""
    past, stream = cluster_of(PODS)
    async with Audits(past, replays=True) as audits:
        for number in range(60):
            await busy(past, 5.0)
            if number == 20:
                lost = past.lose()
            await asyncio.sleep(20.0 if calm else 0.0)
        await asyncio.sleep(30.0)
        assert audits.found <= {AuditResult.ALIVE, AuditResult.LOST, AuditResult.IDLE}
    reading = stream.guarantees.reading(0)
    assert stream.violated == {"reliable": 1}
    assert reading.checked["reliable"] == len(past.changes[PODS.key])
    assert stream.health._lost[0] == lost


async def test_events_after_a_compaction_are_read_a_second_time() -> None:
    """Of a resource without a watch cache: the 410 does not say where the storage begins now."""
    past, stream = cluster_of(PODS)
    async with Audits(past, replays=True):
        await busy(past, 30.0)
        before = stream.guarantees.reading(0).checked["reliable"]
        past.revision += 1000
        past.compacted = past.revision
        await busy(past, 30.0)
        await asyncio.sleep(30.0)
    assert stream.guarantees.reading(0).checked["reliable"] >= before + 30
    assert not stream.violated


async def test_second_watch_that_ends_too_early_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    past = Past(PODS)
    stream = cast("Any", past.streams[0])
    async with Audits(past) as audits:
        revisions = [past.commit() for _ in range(50)]
        assert await audits.auditor.replay(stream, revisions[30:32]) == revisions[30:32]
        shown = past.shown
        monkeypatch.setattr(past, "shown", lambda *arguments: [one for one in shown(*arguments) if one < revisions[20]])
        assert await audits.auditor.replay(stream, revisions[30:32]) is None


async def test_event_that_each_watch_skips_at_its_start_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Second watches skip their first event too."""
    past, stream = cluster_of(PODS)
    async with Audits(past, replays=True) as audits:
        await busy(past, 30.0)
        stream.close()
        lost = past.commit()
        stream.backlog.clear()
        stream.open()
        shown = past.shown

        def all_but_the_first(resource: Resource, after: int) -> Sequence[int]:
            return shown(resource, after)[1:]

        monkeypatch.setattr(past, "shown", all_but_the_first)
        await busy(past, 60.0)
        assert audits.found == {AuditResult.ALIVE, AuditResult.LOST}
    assert stream.violated == {"resumable": 1}
    assert stream.health._lost[0] == lost


async def test_frozen_cache_is_found_while_events_are_read_a_second_time() -> None:
    past = Past(PODS, NODES)
    async with Audits(past, replays=True) as audits:
        await busy(past, 10.0)
        past.freeze(PODS)
        past.commit()
        await stalled(past.streams[0])
        assert audits.found & {AuditResult.FROZEN}


async def test_search_is_limited_to_most_events() -> None:
    past = Past(PODS)
    past.commit()
    async with Audits(past) as audits:
        past.said = b"".join(line("MODIFIED", revision) for revision in range(101, 101 + 2 * MOST_EVENTS))
        past.streams[0].health.delivered.extend(range(102, 101 + 2 * MOST_EVENTS))
        past.streams[0].revision = 100 + 2 * MOST_EVENTS
        while not audits.found:
            past.streams[0].last_heard = time.monotonic()
            await asyncio.sleep(1.0)
        assert audits.found == {AuditResult.ALIVE}


# Bookmarks


async def test_bookmark_of_the_future_is_counted_once(log: Log) -> None:
    past, stream = cluster_of(PODS)
    async with Audits(past) as audits:
        stream.mark(past.revision + 7)
        await asyncio.sleep(60.0)
        assert stream.violated == {"bookmarkable": 1}
        assert audits.found == {AuditResult.IDLE}
    (logged,) = log.of("guarantee_violated")
    assert (logged["guarantee"], logged["oldest"]) == ("bookmarkable", past.revision + 7)


async def test_bookmark_that_one_read_contradicts_is_none_of_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member of etcd was behind."""
    past = Past(PODS)
    past.streams[0].mark(past.revision + 7)
    read = past.read_nothing

    async def read_and_catch_up(*arguments: Any) -> Reading | Failure:
        answer = await read(*arguments)
        past.revision = max(past.revision, past.streams[0].revision or 0)
        return answer

    monkeypatch.setattr(past, "read_nothing", read_and_catch_up)
    async with Audits(past):
        await asyncio.sleep(60.0)
    assert not past.streams[0].violated


async def test_revision_from_before_a_restore_is_no_bookmark_of_the_future() -> None:
    """It was known from an event or a list, and no tick has shown the restore yet."""
    past = Past(PODS)
    past.streams[0].revision = past.revision + 7
    async with Audits(past) as audits:
        await asyncio.sleep(120.0)
        assert audits.verdicts[AuditResult.IDLE] >= 8
    assert not past.streams[0].violated


async def test_bookmark_is_not_judged_by_a_storage_whose_reads_prove_nothing() -> None:
    past = Past(PODS)
    past.streams[0].mark(past.revision + 7)
    past.streams[0].counts = False
    async with Audits(past):
        await asyncio.sleep(60.0)
    assert not past.streams[0].violated


# What the storage no longer has


async def test_second_watch_begins_later_if_the_earlier_event_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    past, stream = cluster_of(PODS)
    async with Audits(past, replays=True):
        await busy(past, 20.0)
        stream.close()
        stream.open()
        floor, said = past.revision, past.shown

        def expired(resource: Resource, after: int) -> Sequence[int]:
            past.said = GONE if after < floor else None
            return said(resource, after)

        monkeypatch.setattr(past, "shown", expired)
        past.commit()
        past.commit()
        stream.delivered._revisions.pop()
        await busy(past, 60.0)
    assert stream.violated == {"reliable": 1}


async def test_stalled_watch_is_reopened_if_its_revision_expired() -> None:
    """An apiserver was restarted, and the connection to it is dead: no second watch shows what is withheld."""
    past, stream = cluster_of(PODS)
    stream.stuck = stream.hopeless = True
    async with Audits(past) as audits:
        past.commit()
        await stalled(stream)
        past.said = GONE
        reopened = len(stream.reopened)
        await when(lambda: len(stream.reopened) > reopened)
        assert audits.found >= {AuditResult.STALLED, AuditResult.FAILED}


# The budget


async def test_zero_budget_sends_no_audits_until_it_is_raised() -> None:
    past = Past(PODS)
    async with Audits(past, budget=0.0) as audits:
        await asyncio.sleep(120.0)
        assert not past.asked
        audits.budget = 2.0
        await audits.until(AuditResult.IDLE)


async def test_zero_budget_clears_frozen_caches(log: Log) -> None:
    past, stream = cluster_of(*many(3), PODS)
    past.freeze(PODS)
    past.commit()
    async with Audits(past) as audits:
        await stalled(stream)
        audits.budget = 0.0
        await asyncio.sleep(15.0)  # a running audit may find it once more
        assert not stream.stalled
        assert stream.health.verdict is None
        assert log.of("stall_over")


async def test_budget_covers_all_watches_together() -> None:
    past = Past(*many(40))
    async with Audits(past, budget=1.5):
        await asyncio.sleep(400.0)
    for kind in ("nudge", "audit"):
        assert 0.9 * 600 <= past.count(kind) <= 601


@pytest.mark.parametrize("named", [True, False])
async def test_past_that_the_apiserver_drops_is_searched_from_the_oldest_revision_in_reach(
    named: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a 410 does not name it, the last events of one search are searched."""
    monkeypatch.setattr("watchslo.monitor.auditor.MOST_EVENTS", 200)
    past, stream = cluster_of(PODS)
    stream.replay = True
    for _ in range(300):
        past.commit()
    oldest, shown = past.revision - 250, past.shown
    message = f"too old resource version: 1 ({oldest})" if named else "too old"
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": message}

    def expired(resource: Resource, after: int) -> Sequence[int]:
        past.said = json.dumps({"type": "ERROR", "object": status}).encode() + b"\n" if after < oldest else None
        return shown(resource, after)

    monkeypatch.setattr(past, "shown", expired)
    async with Audits(past, replays=True):
        await busy(past, 60.0)
    assert stream.violated == {}
    compared = stream.guarantees.reading(0).checked["reliable"]
    assert compared >= len(past.changes[PODS.key]) - (50 if named else 110) - 50
    assert compared <= len(past.changes[PODS.key]) - 50


async def test_second_watch_that_ends_before_it_has_shown_all_continues_there(monkeypatch: pytest.MonkeyPatch) -> None:
    past, stream = cluster_of(PODS)
    stream.replay = True
    for _ in range(300):
        past.commit()
    shown = past.shown
    monkeypatch.setattr(past, "shown", lambda resource, after: shown(resource, after)[:100])
    async with Audits(past, replays=True):
        for _ in range(60):
            stream.last_heard = time.monotonic()
            await asyncio.sleep(1.0)
    assert stream.guarantees.reading(0).checked["reliable"] == 300


async def test_oldest_revision_that_expires_before_the_search_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look drops the oldest event, as a busy cache does."""
    past, stream = cluster_of(PODS)
    stream.replay = True
    for _ in range(300):
        past.commit()
    oldest, shown = itertools.count(past.revision - 250), past.shown

    def expired(resource: Resource, after: int) -> Sequence[int]:
        now = next(oldest)
        status = {"code": 410, "reason": "Expired", "message": f"too old resource version: 1 ({now})"}
        past.said = json.dumps({"type": "ERROR", "object": status}).encode() + b"\n" if after < now else None
        return shown(resource, after)

    monkeypatch.setattr(past, "shown", expired)
    async with Audits(past, replays=True):
        for _ in range(30):
            stream.last_heard = time.monotonic()
            await asyncio.sleep(1.0)
    assert stream.guarantees.reading(0).checked["reliable"] >= 240
