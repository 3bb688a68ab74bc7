"""Sends the ticks of one clock through all its tickers, at the times of its schedule.

A slow answer delays no tick through another apiserver. A ticker without resources sends none.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from watchslo.clock.tick_schedule import SLOWEST_SECONDS, TickSchedule
from watchslo.model import Reading
from watchslo.monitor.clocks.ticker import Ticker
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import Action, Failure


class TickLoop:
    """Ticks through `tickers` and awaits `arrived` of each reading.

    `gap` returns the mean seconds between two ticks through an apiserver, and `proves` whether they prove anything.
    `refused` is called when the resources of a ticker may not be read; after a pause it ticks again.
    """

    def __init__(
        self,
        schedule: TickSchedule,
        tickers: Mapping[str, Ticker],
        gap: Callable[[str], float],
        proves: Callable[[str], bool],
        arrived: Callable[[Reading], Awaitable[None]],
        refused: Callable[[str], None],
    ) -> None:
        self.schedule = schedule
        self._tickers = tickers
        self._gap = gap
        self._proves = proves
        self._arrived = arrived
        self._refused = refused
        self._backoffs: dict[str, Backoff] = {}
        self._ticks: dict[asyncio.Task[None], str] = {}  # in flight, and their apiservers
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Ask the schedule again: what it depends on has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Tick until cancelled."""
        self.schedule.allow({}, time.monotonic())  # if this ran before, its last ticks have no answer
        async with asyncio.TaskGroup() as ticks:
            while True:
                self._changed.clear()
                now = time.monotonic()
                self._allow(now)
                planned = self.schedule.next()
                if planned is None or planned[0] > now:
                    await self._wait(None if planned is None else planned[0] - now)
                    continue
                apiserver = planned[1]
                cuts = self.schedule.sent(apiserver, now)
                tick = ticks.create_task(self._tick(apiserver, self._tickers[apiserver], now, cuts=cuts))
                self._ticks[tick] = apiserver
                tick.add_done_callback(self._ticks.pop)

    def leave(self, apiserver: str) -> Awaitable[object]:
        """Cancel the ticks in flight through an apiserver whose ticker has left; return what waits for their end."""
        self._backoffs.pop(apiserver, None)
        self.wake()
        ticks = [tick for tick, name in self._ticks.items() if name == apiserver]
        for tick in ticks:
            tick.cancel()
        return asyncio.gather(*ticks, return_exceptions=True)

    def _allow(self, now: float) -> None:
        names = [name for name, ticker in self._tickers.items() if ticker.resources]
        self.schedule.allow(
            {name: self._gap(name) for name in names}, now, aside=[name for name in names if not self._proves(name)]
        )

    async def _wait(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _tick(self, apiserver: str, ticker: Ticker, sent: float, *, cuts: bool) -> None:
        answer = await ticker.tick()
        now = time.monotonic()
        match answer:
            case Reading() as reading:
                self.schedule.answered(apiserver, sent, now)
                self.wake()
                await self._arrived(replace(reading, cuts=cuts))
            case failure:
                self.schedule.failed(apiserver, sent, self._pause(apiserver, failure, now), now)
                self.wake()
                if failure.action is Action.WAIT:
                    self._refused(apiserver)

    def _pause(self, apiserver: str, failure: Failure, now: float) -> float | None:
        """Return for how long an apiserver gets no tick: without ticks, nothing at all is measured."""
        if failure.action is not Action.WAIT:
            return None if failure.retry_after is None else min(failure.retry_after, SLOWEST_SECONDS)
        backoff = self._backoffs.setdefault(apiserver, Backoff(self.schedule.random))
        return backoff.next(now, failure.retry_after)
