import asyncio
import time
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest
import structlog

from tests.unit.monitor.cluster import CONFIGMAPS, EVENTS, PODS, Log
from watchslo.clock.burst import Burst, BurstBudget
from watchslo.clock.tick_schedule import AT_ONCE, SLOWEST_SECONDS, TickSchedule
from watchslo.model import Reading, Resource
from watchslo.monitor.failure_log import FailureLog
from watchslo.monitor.tick_loop import TickLoop
from watchslo.monitor.ticker import Ticker
from watchslo.snapshot import BurstReason, BurstWish
from watchslo.watch.failure import Failure, Phase, Reason, because


class Server:
    """Answers each read after `seconds`, with `failure` if it is set."""

    def __init__(self, seconds: float = 0.002) -> None:
        self.seconds = seconds
        self.failure: Failure | None = None
        self.sent: list[tuple[float, str]] = []
        self.out = 0
        self.most_out = 0
        self.ticker = Ticker(self.read, FailureLog(structlog.get_logger()))
        self.ticker.tick_on([EVENTS])

    async def read(self, resource: Resource) -> Reading | Failure:
        sent, failure = time.monotonic(), self.failure
        self.sent.append((sent, resource.key))
        self.out += 1
        self.most_out = max(self.most_out, self.out)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.out -= 1
        return failure or Reading(resource.key, sent, time.monotonic(), 1)

    def fail(self, reason: Reason, retry_after: float | None = None) -> None:
        self.failure = because(reason, phase=Phase.LIST, retry_after=retry_after)

    @property
    def gaps(self) -> list[float]:
        return gaps(self)


def gaps(*servers: Server) -> list[float]:
    """Return the seconds between the ticks that these servers got together."""
    times = sorted(sent for server in servers for sent, _ in server.sent)
    return [round(after - before, 3) for before, after in pairwise(times)]


class Ticking:
    """A loop that ticks twice a second through each server."""

    def __init__(
        self,
        *servers: Server,
        arrived: Callable[[Reading], object] = lambda _: None,
        random: Callable[[], float] = lambda: 0.5,
    ) -> None:
        async def arrive(reading: Reading) -> None:
            arrived(reading)

        self.tickers = {str(number): server.ticker for number, server in enumerate(servers)}
        self.refused: list[str] = []
        self.schedule = TickSchedule(random, Burst(BurstBudget(10.0, 3600.0)))
        self.loop = TickLoop(self.schedule, self.tickers, lambda _: 0.5, lambda _: True, arrive, self.refused.append)

    async def run(self, seconds: float) -> None:
        """Tick for so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self.loop.run()
        except TimeoutError:
            return


@pytest.mark.parametrize(("random", "gap"), [(0.25, 0.4375), (0.5, 0.5), (1.0, 0.625)])
async def test_ticks_about_twice_a_second(random: float, gap: float) -> None:
    server, readings = Server(), list[Reading]()
    await Ticking(server, arrived=readings.append, random=lambda: random).run(2)
    assert server.gaps == [pytest.approx(gap, abs=0.001)] * len(server.gaps)
    assert server.ticker.results["ok"] == len(readings) == server.ticker.round_trips.reading().total


async def test_ticks_alternate_between_resources() -> None:
    server = Server()
    server.ticker.tick_on([PODS, CONFIGMAPS])
    await Ticking(server).run(2)
    assert [key for _, key in server.sent] == ["pods", "configmaps", "pods", "configmaps"]


async def test_three_apiservers_get_six_evenly_spaced_ticks() -> None:
    servers = Server(), Server(), Server()
    await Ticking(*servers, random=Random(1).random).run(600)
    spacings = sorted(gaps(*servers))
    assert len(spacings) == pytest.approx(3600, rel=0.03)
    assert spacings[-1] <= 0.21, "tickers that do not know of each other leave gaps of up to 0.6 s"
    for server in servers:
        assert len(server.sent) == pytest.approx(1200, rel=0.03)


async def test_slow_answer_does_not_delay_the_next_tick() -> None:
    server, readings = Server(2.5), list[Reading]()
    await Ticking(server, arrived=readings.append).run(5.9)
    assert set(server.gaps) == {1.0}
    assert server.ticker.results["slow"] == len(readings) == 4
    assert server.most_out == 3


async def test_slow_apiserver_does_not_delay_the_others() -> None:
    prompt, slow = Server(), Server(2.5)
    await Ticking(prompt, slow, random=Random(1).random).run(600)
    assert len(prompt.sent) == pytest.approx(1200, rel=0.03)
    assert 500 <= len(slow.sent) <= 600


async def test_unanswered_ticks_are_limited() -> None:
    server = Server(3600)
    await Ticking(server).run(600)
    assert server.most_out == AT_ONCE


async def test_failing_server_gets_fewer_ticks(log: Log) -> None:
    server = Server()
    server.fail(Reason.TIMEOUT)
    ticking = Ticking(server)
    task = asyncio.create_task(ticking.run(120))
    await asyncio.sleep(60)
    assert server.gaps[:4] == [1, 2, 4, 8]
    assert set(server.gaps[4:]) == {SLOWEST_SECONDS}
    server.failure = None
    await task
    assert server.gaps[-1] == 0.5
    assert len(log.of("tick_failed")) == len(log.of("recovered")) == 1
    assert log.of("tick_failed")[0]["on"] == "events"


@pytest.mark.parametrize(("retry_after", "pause"), [(8.0, 8.0), (100_000.0, SLOWEST_SECONDS)])
async def test_retry_after_is_obeyed_within_limits(retry_after: float, pause: float) -> None:
    """One answer must not stop the clock: nothing at all would be measured."""
    server, other = Server(), Server()
    server.fail(Reason.THROTTLED, retry_after=retry_after)
    await Ticking(server, other, random=Random(1).random).run(50)
    assert pause <= server.gaps[0] <= pause + 1
    assert len(other.sent) == pytest.approx(100, rel=0.1)


@pytest.mark.parametrize("seconds", [0.002, 2.5])
async def test_refused_ticks_are_reported_and_repeated_seldom(seconds: float) -> None:
    server = Server(seconds)
    server.fail(Reason.FORBIDDEN)
    ticking = Ticking(server)
    await ticking.run(600)
    assert 15 < len(server.sent) < 30
    assert set(ticking.refused) == {"0"}


async def test_ticker_without_resources_waits_for_some() -> None:
    server = Server()
    server.ticker.tick_on([])
    ticking = Ticking(server)
    task = asyncio.create_task(ticking.run(10))
    await asyncio.sleep(5)
    assert not server.sent
    server.ticker.tick_on([EVENTS])
    ticking.loop.wake()
    await asyncio.sleep(0.01)
    assert len(server.sent) == 1
    await task


async def test_apiserver_that_leaves_gets_no_more_ticks() -> None:
    left, stays = Server(3600), Server()
    ticking = Ticking(left, stays)
    task = asyncio.create_task(ticking.run(10))
    await asyncio.sleep(5)
    del ticking.tickers["0"]
    await ticking.loop.leave("0")
    assert left.out == 0
    asked = len(left.sent)
    await task
    assert len(left.sent) == asked
    assert len(stays.sent) >= 19


async def test_error_in_the_consumer_is_raised_and_leaves_no_tick_waiting() -> None:
    def arrived(_: Reading) -> None:
        raise ZeroDivisionError

    server, slow = Server(), Server(3600)
    ticking = Ticking(slow, server, arrived=arrived)
    for _ in range(2 * AT_ONCE):
        with pytest.raises(ExceptionGroup):
            await ticking.run(10)
    assert slow.out == 0
    assert len(slow.sent) > AT_ONCE


async def test_burst_begins_at_once_and_ends() -> None:
    server = Server()
    ticking = Ticking(server)
    task = asyncio.create_task(ticking.run(100))
    await asyncio.sleep(10.1)
    server.sent.clear()
    assert ticking.schedule.burst.begin(BurstWish(BurstReason.LATE, 60.0), time.monotonic())
    ticking.loop.wake()
    await asyncio.sleep(1.0)
    assert len(server.sent) == pytest.approx(10, abs=1), "the loop does not sleep until the next usual tick"
    await asyncio.sleep(61.0)
    server.sent.clear()
    await asyncio.sleep(10.0)
    assert len(server.sent) == pytest.approx(20, abs=1)
    await task


async def test_refused_tick_ends_a_burst() -> None:
    server = Server()
    ticking = Ticking(server)
    task = asyncio.create_task(ticking.run(100))
    await asyncio.sleep(5)
    assert ticking.schedule.burst.begin(BurstWish(BurstReason.LATE, 60.0), time.monotonic())
    ticking.loop.wake()
    server.fail(Reason.THROTTLED, retry_after=5)
    await asyncio.sleep(1)
    server.failure = None
    server.sent.clear()
    await asyncio.sleep(20)
    assert len(server.sent) < 40
    assert not ticking.schedule.burst.begin(BurstWish(BurstReason.LATE, 60.0), time.monotonic())
    await task
