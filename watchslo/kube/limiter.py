"""The hard cap on requests a second: whoever asks the apiserver anything passes here first.

An apiserver counts the same, but for the way there: in any W seconds at most 1 + rate x (W + D) requests reach it,
where D is the longest that one of them was on its way, connecting included, less the shortest.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from enum import IntEnum


class Priority(IntEnum):
    """Who goes first while requests queue.

    A late tick widens every interval, a late list only its own watch, and an audit has its watch wait for nothing.
    """

    TICK = 0
    OTHER = 1
    AUDIT = 2


class TokenBucket:
    """Permits `rate` requests a second, evenly spaced: unused ones are not saved up. Times are monotonic seconds."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._last = -float("inf")

    def take(self, now: float) -> float:
        """Zero if a request may go at `now`, which then counts; else the seconds until one may, and none counts."""
        wait = self._last + 1.0 / self.rate - now
        if wait > 0.0:
            return wait
        self._last = now
        return 0.0

    def left(self, now: float) -> None:
        """What was taken goes only now: whoever is next keeps the distance from that."""
        self._last = max(self._last, now)


class Limiter:
    """Queues requests before a `TokenBucket`; lives on one event loop."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._bucket = TokenBucket(rate)
        self._clock = clock
        self._queue: list[tuple[Priority, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._alarm: asyncio.TimerHandle | None = None

    def limit(self, rate: float) -> None:
        """Permits `rate` requests a second from now on."""
        self._bucket.rate = rate

    async def acquire(self, priority: Priority) -> None:
        """Returns when the request may be sent."""
        if not self._queue and self._bucket.take(self._clock()) == 0.0:
            return
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._queue, (priority, next(self._order), turn))
        if self._alarm is None:
            self._admit()
        await turn
        self._bucket.left(self._clock())  # the loop may have been busy: else two would go together

    def _admit(self) -> None:
        """Gives one turn at most: the next one is counted from when that has gone."""
        self._alarm = None
        while self._queue and self._queue[0][2].done():  # its owner was cancelled
            heapq.heappop(self._queue)
        if not self._queue:
            return
        wait = self._bucket.take(self._clock())
        if wait == 0.0:
            heapq.heappop(self._queue)[2].set_result(None)
            wait = 1.0 / self._bucket.rate
        self._alarm = asyncio.get_running_loop().call_later(wait, self._admit)
