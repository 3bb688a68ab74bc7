"""300 watches of one apiserver that are cut at once, and the events that they catch up on."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from tests.unit.monitor.cluster import PODS, Cluster
from tests.unit.monitor.test_watch_session import MEBIBYTE, Parts
from watchslo.config.model import Config
from watchslo.config.sections.limits import LimitsConfig
from watchslo.config.sections.watch import WatchConfig
from watchslo.kube.limiter import Limiter, RequestClass
from watchslo.latency.bins import Bins
from watchslo.latency.estimate import solve
from watchslo.latency.objective import Objective
from watchslo.latency.track import Track
from watchslo.monitor.protocol.watch_identity import WatchIdentity
from watchslo.monitor.tasks.lag import keep_beating
from watchslo.monitor.watches.watch_session import WatchSession
from watchslo.monitor.watches.watch_statistics import WatchStatistics
from watchslo.watch.failure import Reason, because

WATCHES = 300
BACK_SECONDS = 3.0
CHANGE_SECONDS = 0.25  # between two changes
TICK_SECONDS = 0.47  # not a multiple of the time between two requests


class Herd:
    """Many watches of pods with one clock; the first has its own statistics."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.parts = Parts()
        self.members = [self._member(number) for number in range(2, WATCHES + 2)]
        self.tick_waits: list[float] = []
        self._tasks: list[asyncio.Task[None]] = []

    def _member(self, number: int) -> tuple[WatchSession, WatchStatistics]:
        parts, config = self.parts, WatchConfig.model_validate({"resource": "pods", "creation": False})
        identity = WatchIdentity(number, f"pods-{number}", config, PODS, parts.apiserver, MEBIBYTE, "default")
        track = Track(Bins(), Objective(), time.monotonic(), parts.lag.own_delays)
        statistics = WatchStatistics(identity, track, parts.clock, parts.lag, lambda: None)
        return WatchSession(identity, statistics, lambda: number / WATCHES % 1, lambda: None), statistics

    async def open(self) -> None:
        self._tasks = [asyncio.create_task(session.run()) for session, _ in self.members]
        self._tasks.append(asyncio.create_task(keep_beating(self.parts.lag)))
        await asyncio.sleep(1.0)
        await self.parts.join(self.cluster)
        self._tasks += [asyncio.create_task(self._tick()), asyncio.create_task(self._change())]
        await asyncio.sleep(12.0)
        assert self.up == WATCHES

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task

    async def _tick(self) -> None:
        while True:
            began = time.monotonic()
            await self.cluster.wait_for_turn(RequestClass.TICK)
            self.tick_waits.append(time.monotonic() - began)
            await self.parts.tick(self.cluster.revision)
            await asyncio.sleep(TICK_SECONDS)

    async def _change(self) -> None:
        while True:
            self.cluster.write(PODS)
            await asyncio.sleep(CHANGE_SECONDS)

    @property
    def up(self) -> int:
        return sum(session.up for session, _ in self.members)

    def cut(self) -> None:
        for watch in self.cluster.open_watches():
            watch.send(because(Reason.RESET))

    async def until_back(self) -> float:
        """Return the seconds until all watches are open again."""
        began = time.monotonic()
        await asyncio.sleep(0.01)
        while self.up < WATCHES:  # noqa: ASYNC110 - sessions signal only that they opened
            await asyncio.sleep(0.01)
        return time.monotonic() - began

    def verdicts(self) -> tuple[Counter[str], Counter[str]]:
        """Return the verdicts on the events of all watches, and the unmeasured events by reason."""
        verdicts, unmeasured = Counter[str](), Counter[str]()
        for _, statistics in self.members:
            deque(statistics.clock.sealer.collect(), maxlen=0)
            solve(statistics.update(time.monotonic(), [], unjudgeable=False))
            statistics.publish()
            verdicts += Counter(statistics.track.reading().objective.verdicts)
            unmeasured += Counter(statistics.track.reading().unmeasured)
        return verdicts, unmeasured


@pytest.fixture
async def herd(cluster: Cluster) -> AsyncIterator[Herd]:
    cluster.catches_up = True
    made = Herd(cluster)
    await made.open()
    limits: LimitsConfig = Config().limits
    cluster.limiter = Limiter(limits.requests_per_second, limits.resumes_per_second, asyncio.get_running_loop().time)
    yield made
    await made.close()


async def test_watches_that_are_cut_at_once_are_back_within_seconds_and_no_event_or_tick_is_late(herd: Herd) -> None:
    herd.cut()
    assert await herd.until_back() < BACK_SECONDS
    assert max(herd.tick_waits) < 0.01
    await asyncio.sleep(5.0)
    verdicts, unmeasured = herd.verdicts()
    assert set(verdicts) == {"within"}
    assert unmeasured["own_queue"] > WATCHES


async def test_refused_watches_come_back_one_by_one_with_a_backoff(herd: Herd) -> None:
    """The apiserver is restarting: it refuses all watches for four seconds."""
    herd.cluster.fail(Reason.REFUSED, "watch")
    asked, began = len(herd.cluster.asked), time.monotonic()
    herd.cut()
    await asyncio.sleep(4.0)
    herd.cluster.fail(None, "watch")
    await herd.until_back()
    times = sorted(at - began for at, kind, _ in herd.cluster.asked[asked:] if kind == "watch")
    assert len(times) <= 4 * WATCHES
    assert max(sum(at <= later < at + 0.1 for later in times) for at in times) <= 0.15 * 150 + 1
