import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
import structlog

from tests.unit.monitor.cluster import CONFIGMAPS, EVENTS, PODS, Log
from watchslo.model import Reading, Resource
from watchslo.monitor.failure_log import FailureLog
from watchslo.monitor.ticker import AT_ONCE, SLOWEST_SECONDS, Pace, Ticker
from watchslo.watch.failure import Failure, Phase, Reason, because

Read = Callable[[Resource], Awaitable[Reading | Failure]]


class Server:
    """Answers each read after `seconds`, with `failure` if it is set."""

    def __init__(self, seconds: float = 0.002) -> None:
        self.seconds = seconds
        self.failure: Failure | None = None
        self.sent: list[tuple[float, str]] = []
        self.out = 0
        self.most_out = 0

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
        times = [sent for sent, _ in self.sent]
        return [round(after - before, 3) for before, after in pairwise(times)]


def ticker(server: Server, arrived: Callable[[Reading], object] = lambda _: None, random: float = 0.5) -> Ticker:
    async def arrive(reading: Reading) -> None:
        arrived(reading)

    return Ticker(server.read, arrive, Pace(lambda: 0.5, lambda: random), FailureLog(structlog.get_logger()))


async def tick(made: Ticker, seconds: float, *resources: Resource) -> None:
    """Tick for this many seconds, unless something stops it."""
    try:
        async with asyncio.timeout(seconds):
            await made.run(resources)
    except TimeoutError:
        return


@pytest.mark.parametrize(("random", "gap"), [(0.0, 0.25), (0.5, 0.5), (1.0, 0.75)])
async def test_ticks_about_twice_a_second(random: float, gap: float) -> None:
    server, readings = Server(), list[Reading]()
    made = ticker(server, readings.append, random)
    await tick(made, 10, EVENTS)
    assert set(server.gaps) == {gap}
    assert made.results["ok"] == len(readings) == made.round_trips.reading().total
    assert made.resources == (EVENTS,)


async def test_ticks_alternate_between_resources() -> None:
    server = Server()
    await tick(ticker(server), 2, PODS, CONFIGMAPS)
    assert [key for _, key in server.sent] == ["pods", "configmaps", "pods", "configmaps"]


async def test_slow_answer_does_not_delay_the_next_tick() -> None:
    server, readings = Server(2.5), list[Reading]()
    made = ticker(server, readings.append)
    await tick(made, 5.9, EVENTS)
    assert set(server.gaps) == {1.0}
    assert made.results["slow"] == len(readings) == 4
    assert server.most_out == 3


async def test_unanswered_ticks_are_limited() -> None:
    server = Server(3600)
    await tick(ticker(server), 600, EVENTS)
    assert server.most_out == AT_ONCE


async def test_failing_server_gets_fewer_ticks(log: Log) -> None:
    server = Server()
    server.fail(Reason.TIMEOUT)
    made = ticker(server)
    await tick(made, 60, EVENTS)
    assert server.gaps[:4] == [1, 2, 4, 8]
    assert set(server.gaps[4:]) == {SLOWEST_SECONDS}
    server.failure = None
    await tick(made, 60, EVENTS)
    assert server.gaps[-1] == 0.5
    assert len(log.of("tick_failed")) == len(log.of("recovered")) == 1
    assert log.of("tick_failed")[0]["on"] == "events"


async def test_retry_after_is_obeyed() -> None:
    server = Server()
    server.fail(Reason.THROTTLED, retry_after=30)
    await tick(ticker(server), 50, EVENTS)
    assert server.gaps == [pytest.approx(30.002)]


@pytest.mark.parametrize("seconds", [0.002, 2.5])
async def test_ticker_ends_if_nothing_can_be_read(seconds: float) -> None:
    server = Server(seconds)
    server.fail(Reason.FORBIDDEN)
    made = ticker(server)
    await tick(made, 60, EVENTS)
    assert time.monotonic() < 1010
    assert server.out == 0


async def test_ticker_ends_after_stop() -> None:
    server = Server()
    made = ticker(server, lambda _: made.stop())
    await tick(made, 60, EVENTS)
    assert len(server.sent) == 1


async def test_error_in_the_consumer_is_raised() -> None:
    def arrived(_: Reading) -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):
        await ticker(Server(), arrived).run([EVENTS])


@pytest.mark.parametrize(("interval", "slowest"), [(0.5, 10.0), (4.0, 16.0), (10.0, 40.0)])
def test_rare_ticks_back_off_too(interval: float, slowest: float) -> None:
    """With rare ticks there may be thousands of daemons."""
    pace = Pace(lambda: interval, lambda: 0.5)
    for _ in range(10):
        pace.failed(None, 0.0)
    assert pace.spacing(0.0) == slowest
    pace.answered()
    assert pace.spacing(0.0) == interval
