"""The hard cap on requests per second: every request to an apiserver waits here first.

Because requests take different times to arrive, an apiserver can count more: in any W seconds, at most
1 + rate x (W + D) requests reach it, where D is the longest travel time of a request, including connecting, minus the
shortest.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from enum import IntEnum


class Priority(IntEnum):
    """The order of queued requests, lowest first.

    A late tick widens every interval, a late list delays only its own watch, and a late audit delays no watch.
    """

    TICK = 0
    OTHER = 1
    AUDIT = 2


class TokenBucket:
    """Permits `rate` requests per second, evenly spaced, without bursts. Times are monotonic seconds."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._last = -float("inf")

    def take(self, now: float) -> float:
        """Return 0 and count a request if it may be sent at `now`; otherwise return the seconds until it may."""
        wait = self._last + 1.0 / self.rate - now
        if wait > 0.0:
            return wait
        self._last = now
        return 0.0

    def left(self, now: float) -> None:
        """Record that the permitted request is only sent at `now`; the next one keeps its distance from that."""
        self._last = max(self._last, now)


class Limiter:
    """Queues requests before a `TokenBucket`; use it on one event loop only."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._bucket = TokenBucket(rate)
        self._clock = clock
        self._queue: list[tuple[Priority, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._alarm: asyncio.TimerHandle | None = None

    def limit(self, rate: float) -> None:
        """Permit `rate` requests per second from now on."""
        self._bucket.rate = rate

    async def acquire(self, priority: Priority) -> None:
        """Wait until a request may be sent."""
        if not self._queue and self._bucket.take(self._clock()) == 0.0:
            return
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._queue, (priority, next(self._order), turn))
        if self._alarm is None:
            self._admit()
        await turn
        self._bucket.left(self._clock())  # the loop may have been busy, and two would be sent together

    def _admit(self) -> None:
        """Admit at most one request, and wait before the next one."""
        self._alarm = None
        while self._queue and self._queue[0][2].done():  # its request was cancelled
            heapq.heappop(self._queue)
        if not self._queue:
            return
        wait = self._bucket.take(self._clock())
        if wait == 0.0:
            heapq.heappop(self._queue)[2].set_result(None)
            wait = 1.0 / self._bucket.rate
        self._alarm = asyncio.get_running_loop().call_later(wait, self._admit)
