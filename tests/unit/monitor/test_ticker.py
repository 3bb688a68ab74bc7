import asyncio
import time
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest
import structlog

from tests.unit.monitor.cluster import EVENTS, RESOURCES
from tests.unit.monitor.scene import CallScene, Play, shown
from watchslo.clock.burst import Burst, BurstBudget
from watchslo.clock.tick_schedule import AT_ONCE, TickSchedule
from watchslo.model import Reading, Resource
from watchslo.monitor.clocks.tick_loop import TickLoop
from watchslo.monitor.clocks.ticker import Ticker
from watchslo.monitor.tasks.failure_log import FailureLog
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


class TickScene(CallScene):
    """Apiservers that get ticks; a transcript begins with the seconds until each answers, and random numbers."""

    def __init__(self, beginning: str) -> None:
        super().__init__()
        seconds, _, random = beginning.partition(", random ")
        self._servers = self.now(lambda: [Server(float(one)) for one in seconds.split()])
        self._arrived = 0
        self._ticking = Ticking(*self._servers, arrived=self._count, random=lambda: float(random or 0.5))

    async def _run(self) -> None:
        await self._ticking.loop.run()

    def _count(self, _: Reading) -> None:
        self._arrived += 1

    def on(self, *keys: str) -> None:
        """Let the first apiserver get ticks on other resources."""
        self._servers[0].ticker.tick_on([RESOURCES[key] for key in keys])
        self._ticking.loop.wake()

    def fail(self, number: int, reason: str, retry_after: float | None = None) -> None:
        self._servers[number - 1].fail(Reason(reason), retry_after)

    def allow(self, number: int) -> None:
        self._servers[number - 1].failure = None

    def burst(self) -> bool:
        """Begin a burst of a minute; return whether it is permitted."""
        begun = self._ticking.schedule.burst.begin(BurstWish(BurstReason.LATE, 60.0), time.monotonic())
        self._ticking.loop.wake()
        return begun

    def sent(self) -> str:
        """Return the ticks since the last look, and how far apart they were."""
        said = []
        for number, server in enumerate(self._servers, 1):
            found, server.sent = server.sent, []
            apart = [round(after - before, 3) for (before, _), (after, _) in pairwise(found)]
            first = " ".join(f"{gap:g}" for gap in apart[:5])
            how = (
                f": {first} s apart, then {min(apart[5:]):g} to {max(apart[5:]):g} s"
                if apart[5:]
                else f": {first} s apart"
            )
            said.append(f"{number}: {len(found)}{how if apart else ''}")
        return "\n".join(said)

    def keys(self) -> str:
        """Return the resources of the ticks since the last look, in order."""
        return " ".join(key for _, key in self._servers[0].sent)

    def _state(self) -> dict[str, str]:
        found = {"arrived": str(self._arrived), "refused": "yes" if self._ticking.refused else "no"}
        for number, server in enumerate(self._servers, 1):
            trips = server.ticker.round_trips.reading().total
            found[f"{number}"] = (
                f"{shown(server.ticker.results)}, {trips} round trips, at most {server.most_out} at once"
            )
        return found


def test_ticks_are_what_the_transcripts_say(play: Play) -> None:
    play("ticks.txt", TickScene)


async def test_three_apiservers_get_six_evenly_spaced_ticks() -> None:
    servers = Server(), Server(), Server()
    await Ticking(*servers, random=Random(1).random).run(600)
    spacings = sorted(gaps(*servers))
    assert len(spacings) == pytest.approx(3600, rel=0.03)
    assert spacings[-1] <= 0.21, "tickers that do not know of each other leave gaps of up to 0.6 s"
    for server in servers:
        assert len(server.sent) == pytest.approx(1200, rel=0.03)


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
