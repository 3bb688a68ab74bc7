"""A channel that delivers items late but in order: from etcd to a watch cache, or from there to a client."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar

from watchslo.sim.delay_law import DelayLaw

T = TypeVar("T")

_TIMER_RESOLUTION_SECONDS = 1e-3
"""The event loop rounds timers to whole milliseconds."""


class DelayQueue(Generic[T]):
    """A first-in, first-out queue of items with due times: a late item delays those behind it, as in a TCP stream."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, T]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def due(self) -> float:
        """The time at which the first item may leave; infinite if the queue is empty."""
        return self._waiting[0][0] if self._waiting else math.inf

    def push(self, due: float, item: T) -> None:
        last = self._waiting[-1][0] if self._waiting else due
        self._waiting.append((max(due, last), item))

    def pop(self, now: float) -> list[T]:
        """Remove and return the items that are due, in order."""
        items = []
        while self._waiting and self._waiting[0][0] <= now:
            items.append(self._waiting.popleft()[1])
        return items

    def clear(self) -> None:
        self._waiting.clear()


class DelayedChannel(Generic[T]):
    """Delivers items in order, each delayed by a law, on the running event loop.

    The channel calls `law` for every item, so the law may change while items are in transit. Several holds can be in
    force at once: the channel delivers nothing until all are released, and then delivers all due items together.
    """

    def __init__(self, law: Callable[[], DelayLaw], random: Random, deliver: Callable[[list[T]], None]) -> None:
        self._law = law
        self._random = random
        self._deliver = deliver
        self._queue: DelayQueue[T] = DelayQueue()
        self._holds: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def push(self, item: T) -> None:
        now = time.monotonic()
        self._queue.push(now + self._law().draw(now, self._random), item)
        self._run(now)

    def set_hold(self, reason: str, *, held: bool) -> None:
        if held:
            self._holds.add(reason)
            return
        self._holds.discard(reason)
        self._run(time.monotonic())

    def close(self) -> None:
        """Discard all items in transit."""
        self._queue.clear()
        self._disarm()

    def _run(self, now: float) -> None:
        if self._holds:
            return
        items = self._queue.pop(now)
        if items:
            self._disarm()
            self._deliver(items)
        if self._queue and self._timer is None:
            wait = math.ceil((self._queue.due - now) / _TIMER_RESOLUTION_SECONDS) * _TIMER_RESOLUTION_SECONDS
            self._timer = asyncio.get_running_loop().call_later(max(wait, 0.0), self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._run(time.monotonic())

    def _disarm(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
