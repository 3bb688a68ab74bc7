"""One direction of a connection that a proxy forwards: where bytes wait, and where they are tampered with."""

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Protocol

from watchslo.sim.delay import Law

_READ_AT_ONCE = 64 << 10
_READ_AHEAD = 256 << 10
"""Bytes that wait at most while a way is held or throttled: then the sender's window fills, as on a real link."""
_PORTION = 0.05
"""Seconds between two portions of a throttled way."""
_TICK = 1e-3
"""Timers of the loop have whole milliseconds (seconds)."""


@dataclass(frozen=True, slots=True)
class Passed:
    """What passes instead of some bytes, and whether it is the last that does."""

    data: bytes
    over: bool = False


class Tamper(Protocol):
    """Changes what passes. It is asked once when it begins, without data, and then for whatever comes."""

    def __call__(self, data: bytes, before: bytes, /) -> Passed:
        """What passes instead of `data`; `before` are the last bytes that have passed."""


class Way:
    """Reads, lets the bytes wait in their order, and writes them on.

    They wait by a law of delay, which is asked for whenever some come; while the way is held, for as many reasons as
    there are; and for their turn at `rate` bytes a second. `passed` is told the size of what was written and when it
    had come (monotonic seconds).
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        law: Callable[[], Law],
        random: Random,
        passed: Callable[[int, float], None],
    ) -> None:
        self.read_at = time.monotonic()
        self._reader = reader
        self._writer = writer
        self._law = law
        self._random = random
        self._passed = passed
        self._rate = math.inf
        self._holds: set[str] = set()
        self._tampers: dict[str, Tamper] = {}
        self._line: asyncio.Queue[tuple[float, float, bytes | None]] = asyncio.Queue()
        self._waiting = 0
        self._last_due = 0.0
        self._before = b""
        self._turned = asyncio.Event()

    async def read(self) -> None:
        """Take what comes, until the end, which waits like all else."""
        with suppress(OSError):
            while data := await self._reader.read(_READ_AT_ONCE):
                self.push(data)
                while self._waiting > _READ_AHEAD and self._narrow:
                    await self._turn()
        self.push(None)

    async def write(self) -> None:
        """Pass on what has waited, until the end has passed."""
        while True:
            due, received, data = await self._line.get()
            await self._until(due)
            await self._free()
            if data is None:
                return
            passed = self._tampered(data)
            await self._pass(passed.data, received)
            self._waiting -= len(data)
            self._turned.set()
            if passed.over:
                return

    def push(self, data: bytes | None) -> None:
        """Let this pass after what waits already; None is the end."""
        self.read_at = now = time.monotonic()
        self._last_due = max(self._last_due, now + self._law().draw(now, self._random))
        self._waiting += len(data or b"")
        self._line.put_nowait((self._last_due, now, data))

    def hold(self, reason: str, *, held: bool) -> None:
        """Let nothing pass, or, when no reason is left, let it pass again."""
        if held:
            self._holds.add(reason)
        else:
            self._holds.discard(reason)
        self._turned.set()

    def throttle(self, rate: float) -> None:
        """Bytes a second from now on; infinite for no bound."""
        self._rate = rate
        self._turned.set()

    def tamper(self, name: str, tamper: Tamper) -> None:
        self._tampers[name] = tamper
        self.push(b"")

    def leave(self, name: str) -> None:
        """Tamper no more in this way."""
        self._tampers.pop(name, None)

    @property
    def _narrow(self) -> bool:
        return bool(self._holds) or self._rate < math.inf

    async def _turn(self) -> None:
        self._turned.clear()
        await self._turned.wait()

    async def _free(self) -> None:
        while self._holds:
            await self._turn()

    @staticmethod
    async def _until(due: float) -> None:
        wait = due - time.monotonic()
        if wait > 0:
            await asyncio.sleep(math.ceil(wait / _TICK) * _TICK)

    def _tampered(self, data: bytes) -> Passed:
        for tamper in tuple(self._tampers.values()):
            passed = tamper(data, self._before)
            if passed.over:
                return passed
            data = passed.data
        return Passed(data)

    async def _pass(self, data: bytes, received: float) -> None:
        while data:
            await self._free()
            size = len(data) if self._rate == math.inf else math.ceil(self._rate * _PORTION)
            portion, data = data[:size], data[size:]
            with suppress(OSError):  # whoever is gone is noticed where it is read
                self._writer.write(portion)
                await self._writer.drain()
            self._before = (self._before + portion[-4:])[-4:]
            self._passed(len(portion), received)
            if self._rate < math.inf:
                await asyncio.sleep(_PORTION)
