"""One watch against a cluster in memory, with a clock that the test ticks."""

import asyncio
import json
import math
import time
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from tests.unit.monitor.cluster import GONE, PODS, Cluster, Log, Watch, line, nowhere
from tests.unit.monitor.inside import serve
from tests.unit.monitor.scene import CallScene, Play, shown
from tests.unit.monitor.transcript import figure_at
from watchslo.clock.burst import Burst, BurstBudget
from watchslo.clock.domain import Domain
from watchslo.clock.storage_kind import ApiserverStorage
from watchslo.clock.tick_schedule import TickSchedule
from watchslo.config.sections.watch import WatchConfig
from watchslo.kube.call import Page
from watchslo.kube.limiter import Limiter, RequestClass
from watchslo.latency.bins import Bins
from watchslo.latency.estimate import solve
from watchslo.latency.objective import Objective
from watchslo.latency.track import Track
from watchslo.model import Interval, Reading
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.checks.peers import PeerComparison
from watchslo.monitor.clocks.domain_clock import DomainClock
from watchslo.monitor.clocks.sealer import Sealer
from watchslo.monitor.evaluator import update_watch
from watchslo.monitor.protocol.desired import DesiredWatch
from watchslo.monitor.protocol.watch_identity import WatchIdentity
from watchslo.monitor.readings import read_apiserver, read_watch
from watchslo.monitor.tasks.lag import Lag
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.monitor.watches.reference_watch import ReferenceWatch
from watchslo.monitor.watches.watch_session import WatchSession
from watchslo.monitor.watches.watch_statistics import WatchStatistics
from watchslo.snapshot import ApiserverRole, WatchReading
from watchslo.watch.audit import Health
from watchslo.watch.closes import SETTLE_SECONDS
from watchslo.watch.failure import ENDED, Failure, Reason, because
from watchslo.watch.messages import Batch
from watchslo.watch.transitions import State

MEBIBYTE = 2**20
SAID: dict[str, bytes | Failure] = {
    "410": GONE,
    "end": ENDED,
    "reset": because(Reason.RESET),
    "html": b"<html>\n",
    "endless": b"x" * (MEBIBYTE // 4),
}


class Parts:
    """A watch of pods and its parts; the test ticks its clock."""

    def __init__(self, **watch: Any) -> None:
        made = WatchConfig.model_validate({"resource": "pods", "creation": False, **watch})
        self.apiserver = Apiserver("service", nowhere(), Limiter(1000))
        self.lag = Lag(time.monotonic())
        schedule = TickSchedule(lambda: 0.5, Burst(BurstBudget(10.0, 0.0)))
        self.clock = DomainClock(
            "main",
            lambda: 0.5,
            schedule,
            self._new_sealer,
            lambda *_: None,
            lambda *_: None,
            lambda *_: asyncio.sleep(0),
        )
        self.clock.join("service", lambda resource: self.apiserver.client.read_nothing(resource, "default", "tick"))
        self.track = Track(Bins(), Objective(), time.monotonic(), self.lag.own_delays, creation=bool(made.creation))
        self.opened = asyncio.Event()
        identity = WatchIdentity(1, "mine", made, PODS, self.apiserver, MEBIBYTE, "default")
        self.statistics = WatchStatistics(identity, self.track, self.clock, self.lag, lambda: self.apiserver.dating)
        self.session = WatchSession(identity, self.statistics, lambda: 0.5, self.opened.set)
        self.health = Health(lambda: 0.5, self.session.deliveries.delivered)
        desired = DesiredWatch(made, PODS, Objective(), MEBIBYTE)
        self.watch = MonitoredWatch(identity, desired, self.session, self.statistics)

    def _new_sealer(self, domain: Domain) -> Sealer:
        return Sealer(domain, Bins(), self.lag.own_delays, lambda _: None, lambda _: ApiserverStorage())

    async def tick(self, revision: int) -> None:
        now = time.monotonic()
        await self.clock._arrived(Reading("events", now - 0.002, now, revision))

    async def join(self, cluster: Cluster) -> None:
        """Make the watch a member of the domain."""
        for _ in range(4):
            await self.tick(cluster.revision)
            await asyncio.sleep(0.6)
            now = time.monotonic()
            self.clock.domain.probe(Reading("pods", now - 0.002, now, cluster.revision))
            await asyncio.sleep(0.1)
        assert self.statistics.measured

    def failure(self) -> str | None:
        return self.session.failure

    def reading(self) -> WatchReading:
        watches = SimpleNamespace(
            health=lambda _: self.health,
            headroom=lambda _: None,
            cache_prober=SimpleNamespace(clock_of=lambda _: None),
            peers=PeerComparison(lambda _: None),
            metrics_reader=SimpleNamespace(reading=lambda _: None),
        )
        return read_watch(self.watch, cast("Any", watches))

    def start_over(self) -> None:
        self.health.forget(0.0)
        self.session.start_over()

    def evaluate(self) -> None:
        deque(self.statistics.clock.sealer.collect(), maxlen=0)
        solve(update_watch(self.watch, self.health, time.monotonic(), unjudgeable=False))
        self.statistics.publish()

    def unmeasured(self) -> dict[str, int]:
        self.evaluate()
        return {reason: count for reason, count in self.reading().track.unmeasured.items() if count}


@asynccontextmanager
async def open_watch(cluster: Cluster, **watch: Any) -> AsyncIterator[tuple[Parts, Watch]]:
    """Run a watch; return its parts and the open connection."""
    parts = Parts(**watch)
    task = asyncio.create_task(parts.session.run())
    await asyncio.sleep(0.1)
    try:
        yield parts, cluster.watches[0]
        parts.session.halt(Reason.SHUTDOWN)
        async with asyncio.timeout(0.1):
            await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert not cluster.open_watches()
    assert parts.session.state is State.HALTED


class PartsScene(CallScene):
    """A watch of pods, or several, against a cluster."""

    def __init__(self) -> None:
        super().__init__()
        self._cluster = Cluster()
        serve(self._cluster, self._patches)

    @property
    @abstractmethod
    def _sessions(self) -> tuple[WatchSession | ReferenceWatch, ...]: ...

    async def _run(self) -> None:
        await asyncio.gather(*(one.run() for one in self._sessions))

    async def _shut_down(self) -> None:
        for one in self._sessions:
            one.halt(Reason.SHUTDOWN)
        async with asyncio.timeout(1):
            await asyncio.gather(*self._tasks)
        await super()._shut_down()
        assert not self._cluster.open_watches()

    def refuse(self, kind: str, reason: str) -> None:
        self._cluster.fail(Reason(reason), kind)

    def allow(self) -> None:
        self._cluster.failures.clear()

    def revision(self, revision: int) -> None:
        self._cluster.revision = revision


class SessionScene(PartsScene):
    """A watch of pods; a transcript begins with its options."""

    def __init__(self, beginning: str) -> None:
        super().__init__()
        options = (word.partition("=") for word in beginning.split()[1:])
        self._parts = self.now(lambda: Parts(**{name: yaml.safe_load(value) for name, _, value in options}))

    @property
    def _sessions(self) -> tuple[WatchSession, ...]:
        return (self._parts.session,)

    async def _shut_down(self) -> None:
        await super()._shut_down()
        assert self._parts.session.state is State.HALTED

    async def ticking(self, seconds: int) -> None:
        """Let time pass, with a tick and an evaluation each second."""
        for _ in range(seconds):
            await self._wait(1.0)
            await self._parts.tick(self._cluster.revision)
            self._parts.evaluate()

    def look(self, path: str) -> str:
        """Return a figure of the watch, after an evaluation."""
        self._parts.evaluate()
        return shown(figure_at(self._parts.reading(), path))

    def apiserver(self, path: str) -> str:
        """Return a figure of the apiserver."""
        return shown(figure_at(read_apiserver(self._parts.apiserver, ApiserverRole.MEMBER, None), path))

    def watches(self) -> list[int]:
        """Return from which revisions watches began."""
        return [watch.revision for watch in self._cluster.watches]

    def requests(self) -> int:
        return len(self._cluster.asked)

    async def until_next(self) -> None:
        """Let time pass until the next watch is open."""
        opened = len(self._cluster.watches)
        while len(self._cluster.watches) == opened:
            await self._wait(1.0)

    def delivered(self, revision: int) -> str:
        delivered = self._parts.session.deliveries.delivered
        return f"{delivered.has(revision)}, known since {delivered.floor}"

    def queue_waits(self) -> list[float]:
        """Return how long the waits lasted for which no other client can be blamed."""
        waits = self._parts.statistics.queue_waits
        return [round(until - since, 1) for since, until in map(waits.wait, range(len(waits)))]

    async def tick(self) -> None:
        await self._parts.tick(self._cluster.revision)

    async def join(self) -> None:
        """Make the watch a member of the domain."""
        await self._parts.join(self._cluster)
        self._parts.lag.resume(time.monotonic())

    def send(self, type_: Any, revision: Any = None, cut: int | None = None) -> None:
        """Send a line to the watch, or what is named in `SAID`."""
        said = SAID[str(type_)] if str(type_) in SAID else line(type_, revision)[:cut]
        self._cluster.watches[-1].send(said)

    def row(self, revision: int) -> None:
        """Send the change of an object in a table."""
        found = {"kind": "Table", "metadata": {"resourceVersion": str(revision)}, "rows": [{"cells": ["a"]}]}
        sent = json.dumps({"type": "MODIFIED", "object": found}).encode() + b"\n"
        self._cluster.watches[-1].send(sent)

    def hold(self, revision: int) -> None:
        """Leave an event unread until the next command."""
        self._cluster.watches[0].kept.append(line("MODIFIED", revision))

    def write(self, type_: str) -> None:
        self._cluster.write(PODS, type_)

    def hang(self, kind: str) -> None:
        self._cluster.hanging.add(kind)

    def skew(self, seconds: float) -> None:
        """Set how far the apiserver's clock is ahead."""
        self._cluster.date_skew = seconds

    def peers(self, count: int | None) -> None:
        self._parts.apiserver.peers = count

    def created(self, ago: float, type_: str = "ADDED") -> None:
        """Make a change of an object that was created so many seconds ago by the apiserver's clock."""
        self.stamped(_stamp(self._cluster.wall() - ago), type_)

    def stamped(self, stamp: str, type_: str = "ADDED") -> None:
        self._cluster.write(PODS, type_, stamp)

    async def in_time(self, seconds: float) -> None:
        """Let time pass in which this process is never late, then read the apiserver's clock."""
        await self._wait(seconds)
        self._parts.lag.resume(time.monotonic())
        await self._parts.apiserver.client.read_nothing(PODS, "default", "tick")

    def expel(self) -> None:
        self._parts.clock.domain.expel(("service", "pods"))

    def late(self) -> None:
        """Make a heartbeat late."""
        self._parts.lag.beat(time.monotonic(), 0.0, 0.0)

    def settle(self) -> None:
        self._parts.apiserver.closes.settle(time.monotonic() + SETTLE_SECONDS)

    def give_up(self) -> None:
        self._parts.apiserver.closes.give_up()

    def start_over(self) -> None:
        self._parts.start_over()

    def reopen(self, reason: str) -> None:
        self._parts.session.reopen(Reason(reason))

    def halt(self, reason: str) -> None:
        self._parts.session.halt(Reason(reason))

    def _state(self) -> dict[str, str]:
        reading, closed = self._parts.reading(), self._parts.reading().outcomes.closed
        said = [self._parts.session.state, reading.membership, reading.session.representation]
        facts = {"failing": self._parts.failure(), "closed": closed and shown(closed)}
        return {"watch": ", ".join(map(str, said))} | {name: fact for name, fact in facts.items() if fact}


def test_watch_does_what_its_transcripts_say(play: Play) -> None:
    play("watch-session.txt", SessionScene)


class TestRun:
    async def test_error_while_it_wakes_up_ends_the_run(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cluster.fail(Reason.REFUSED)
        parts = Parts()
        task = asyncio.create_task(parts.session.run())
        await asyncio.sleep(0.1)
        monkeypatch.setattr("watchslo.watch.machine.Machine._wake_up", lambda *_: 1 / 0)
        async with asyncio.timeout(60):
            with pytest.raises(ExceptionGroup):
                await task

    async def crashed(self, cluster: Cluster, parts: Parts, before: int = 0) -> None:
        """Run a watch until an event crashes it, after some that do not."""
        task = asyncio.create_task(parts.session.run())
        await asyncio.sleep(0.1)
        for _ in range(before):
            cluster.write(PODS)
            await asyncio.sleep(0.1)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("watchslo.watch.decode.decode", lambda _: 1 / 0)
            cluster.write(PODS)
            with pytest.raises(ExceptionGroup):
                await task
        assert not cluster.open_watches()
        assert not parts.apiserver.open_watches

    async def test_run_after_a_crash_starts_over(self, cluster: Cluster) -> None:
        parts = Parts()
        await self.crashed(cluster, parts, before=1)
        assert parts.session.state is State.NEW
        parts.start_over()
        parts.session.halt(Reason.RELOAD)
        await parts.session.run()
        assert len(cluster.watches) == 1
        assert parts.reading().received.events["MODIFIED"] == 1

    async def test_crash_is_followed_by_a_gap(self, cluster: Cluster) -> None:
        parts = Parts()
        await self.crashed(cluster, parts)
        await asyncio.sleep(5.0)
        cluster.write(PODS)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(parts.session.run())
            await asyncio.sleep(0.1)
            parts.session.halt(Reason.RELOAD)
        reading = parts.reading()
        assert reading.gaps.revisions == 2
        assert reading.gaps.seconds == pytest.approx(5.0, abs=0.1)
        assert (reading.lists.relists["start"], reading.lists.relists["errors"]) == (1, 1)

    async def test_start_over_forgets_all_revisions(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, _):
            parts.health.searched(500)
            parts.session.deliveries.add(Batch(time.monotonic(), [500], ["ADDED"], [None]))
            parts.start_over()
            assert parts.session.deliveries.since(7) is None, "what was is no reason to call a peer late"
            assert not parts.session.up
            assert parts.health.search_from() == 100
            cluster.revision = 7
            await asyncio.sleep(11)
            assert cluster.watches[1].revision == 7
            assert parts.reading().lists.relists["domain_reset"] == 1


class TestEvents:
    async def test_violations_are_counted_and_logged_at_most_once_a_minute(self, cluster: Cluster, log: Log) -> None:
        async with open_watch(cluster) as (parts, watch):
            await parts.join(cluster)
            for revision in (50, 60, 70):
                watch.send(line("MODIFIED", revision))
                await asyncio.sleep(0.1)
            violated = parts.reading().guarantees.violations
            assert {name: count for name, count in violated.items() if count} == {"resumable": 3}
            await asyncio.sleep(60)
            watch.send(line("MODIFIED", 80))
            await asyncio.sleep(0.1)
        place = {"watch": "mine", "resource": "pods", "apiserver": "service", "guarantee": "resumable"}
        lines = [{**place, **found} for found in ({"count": 1, "oldest": 50}, {"count": 3, "oldest": 80})]
        assert log.of("guarantee_violated") == [
            {"event": "guarantee_violated", **found, "newest": found["oldest"]} for found in lines
        ]

    async def test_wait_of_each_request_is_noted_and_no_duration(self, cluster: Cluster) -> None:
        """Two requests are refused, and the third is given up while it waits."""
        async with open_watch(cluster) as (parts, watch):
            cluster.limiter = Limiter(10, 0.1, asyncio.get_running_loop().time)
            cluster.fail(Reason.THROTTLED, "watch")
            cut = time.monotonic()
            watch.send()
            await cluster.limiter.acquire(RequestClass.RESUME)
            await asyncio.sleep(25)
            parts.session.reopen(Reason.ROTATED)
            cluster.fail(None, "watch")
            await asyncio.sleep(30)
            assert parts.session.up
            noted = parts.statistics.queue_waits
            waits = [noted.wait(number) for number in reversed(range(len(noted)))]
            assert [since - cut for since, _ in waits] == pytest.approx([1.2, 12.4, 24.8, 25.8], abs=0.01)
            assert [until - cut for _, until in waits] == pytest.approx([10.0, 20.0, 25.0, 30.0], abs=0.01)
            assert parts.session.outcomes.opens.reading().sum < 0.01

    async def test_age_of_a_revision_from_before_a_suspend_has_no_upper_bound(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, _):
            await parts.join(cluster)
            revision = cluster.write(PODS)
            await asyncio.sleep(1)
            await parts.tick(cluster.revision)
            now = time.monotonic()
            before = parts.statistics.commit_bounds(revision, now)
            assert before
            assert 1.0 <= before.upper < 2.0
            parts.lag.own_delays.add_stop(now - 0.05, now)
            assert parts.statistics.commit_bounds(revision, now) == Interval(before.lower, math.inf)


class TestFailures:
    async def test_failures_last_while_a_parallel_list_fails(self, cluster: Cluster, log: Log) -> None:
        answer = cluster.list_page

        async def refuse_the_rest(*question: Any, **options: Any) -> Page | Failure:
            page = await answer(*question, **options)
            return because(Reason.SERVER_ERROR) if question[3].continue_token else page

        cluster.list_page = refuse_the_rest  # type: ignore[method-assign]
        async with open_watch(cluster, list="parallel") as (parts, _):
            for _ in range(120):
                await asyncio.sleep(5)
                parts.unmeasured()
            assert parts.session.up
            assert not log.of("recovered")
            assert len(log.of("list_failed")) == 1
            cluster.list_page = answer  # type: ignore[method-assign]
            await asyncio.sleep(90)
            parts.unmeasured()
            assert len(log.of("recovered")) == 1


def _stamp(wall: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(wall))
