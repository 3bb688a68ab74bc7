"""A way from one part of the cluster to the next that takes its time: etcd to a watch cache, a cache to a client."""

import asyncio
import math
import time
from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar

from watchslo.sim.delay import Law, Line

T = TypeVar("T")

_TICK = 1e-3
"""Timers of the loop have whole milliseconds (seconds)."""


class Link(Generic[T]):
    """Delivers items in their order, each late by a law, on the running loop.

    The law is asked for at every item, so it may change while items are on their way. A link can be held, for several
    reasons at once: nothing is delivered until all of them are gone, then all that is due comes at once.
    """

    def __init__(self, law: Callable[[], Law], random: Random, deliver: Callable[[list[T]], None]) -> None:
        self._law = law
        self._random = random
        self._deliver = deliver
        self._line: Line[T] = Line()
        self._holds: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._line)

    def push(self, item: T) -> None:
        now = time.monotonic()
        self._line.push(now + self._law().draw(now, self._random), item)
        self._run(now)

    def set_hold(self, reason: str, *, held: bool) -> None:
        if held:
            self._holds.add(reason)
            return
        self._holds.discard(reason)
        self._run(time.monotonic())

    def close(self) -> None:
        """Forget what is on its way."""
        self._line.clear()
        self._disarm()

    def _run(self, now: float) -> None:
        if self._holds:
            return
        items = self._line.pop(now)
        if items:
            self._disarm()
            self._deliver(items)
        if self._line and self._timer is None:
            wait = math.ceil((self._line.due - now) / _TICK) * _TICK
            self._timer = asyncio.get_running_loop().call_later(max(wait, 0.0), self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._run(time.monotonic())

    def _disarm(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
