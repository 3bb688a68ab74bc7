"""One direction of a proxied connection: it reads bytes, delays, holds, throttles or filters them, and writes them."""

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Protocol

from watchslo.sim.delay_law import DelayLaw

_READ_BYTES = 64 << 10
_MAX_WAITING_BYTES = 256 << 10
"""Limit of waiting bytes while a pipe is held or throttled. The sender's TCP window then fills, as on a real link."""
_THROTTLE_INTERVAL_SECONDS = 0.05
_TIMER_RESOLUTION_SECONDS = 1e-3
"""The event loop rounds timers to whole milliseconds."""


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The bytes that a filter passes on; `over` ends the pipe after them."""

    data: bytes
    over: bool = False


class ByteFilter(Protocol):
    """Changes the bytes of a pipe. A pipe calls a new filter once with no data, and then for all data."""

    def __call__(self, data: bytes, before: bytes, /) -> FilterResult:
        """Return the replacement of `data`; `before` is the last four bytes already passed on."""


class Pipe:
    """Reads bytes from one side, queues them in order, and writes them to the other side.

    The pipe delays bytes by a law, for which it calls `law` whenever bytes arrive. It can be held, for several
    reasons at once, and throttled to a rate in bytes per second. `edit` maps all bytes to those that reach the
    filters. After each write the pipe calls `written` with the number of bytes and the time of their arrival
    (monotonic seconds).
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        law: Callable[[], DelayLaw],
        random: Random,
        edit: Callable[[bytes], bytes],
        written: Callable[[int, float], None],
    ) -> None:
        self.read_at = time.monotonic()
        self._reader = reader
        self._writer = writer
        self._law = law
        self._random = random
        self._edit = edit
        self._written = written
        self._rate = math.inf
        self._holds: set[str] = set()
        self._filters: dict[str, ByteFilter] = {}
        self._queue: asyncio.Queue[tuple[float, float, bytes | None]] = asyncio.Queue()
        self._waiting = 0
        self._last_due = 0.0
        self._before = b""
        self._changed = asyncio.Event()

    async def read(self) -> None:
        """Read and queue bytes until the end, which is queued and delayed too."""
        with suppress(OSError):
            while data := await self._reader.read(_READ_BYTES):
                self.push(data)
                while self._waiting > _MAX_WAITING_BYTES and self._constrained:
                    await self._wait_for_change()
        self.push(None)

    async def write(self) -> None:
        """Write queued bytes until the end has passed."""
        while True:
            due, received, data = await self._queue.get()
            await self._sleep_until(due)
            await self._wait_for_release()
            if data is None:
                return
            result = self._filtered(data)
            await self._pass(result.data, received)
            self._waiting -= len(data)
            self._changed.set()
            if result.over:
                return

    def push(self, data: bytes | None) -> None:
        """Queue bytes behind those that wait already; None is the end."""
        self.read_at = now = time.monotonic()
        self._last_due = max(self._last_due, now + self._law().draw(now, self._random))
        self._waiting += len(data or b"")
        self._queue.put_nowait((self._last_due, now, data))

    def hold(self, reason: str, *, held: bool) -> None:
        """Add or remove a reason to hold the pipe. Bytes pass only if no reason is left."""
        if held:
            self._holds.add(reason)
        else:
            self._holds.discard(reason)
        self._changed.set()

    def throttle(self, rate: float) -> None:
        """Limit the pipe to a rate in bytes per second; infinite removes the limit."""
        self._rate = rate
        self._changed.set()

    def add_filter(self, name: str, byte_filter: ByteFilter) -> None:
        self._filters[name] = byte_filter
        self.call_filters()

    def call_filters(self) -> None:
        """Edit and filter no data, behind the bytes that wait already."""
        self.push(b"")

    def remove_filter(self, name: str) -> None:
        self._filters.pop(name, None)

    @property
    def _constrained(self) -> bool:
        return bool(self._holds) or self._rate < math.inf

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def _wait_for_release(self) -> None:
        while self._holds:
            await self._wait_for_change()

    @staticmethod
    async def _sleep_until(due: float) -> None:
        wait = due - time.monotonic()
        if wait > 0:
            await asyncio.sleep(math.ceil(wait / _TIMER_RESOLUTION_SECONDS) * _TIMER_RESOLUTION_SECONDS)

    def _filtered(self, data: bytes) -> FilterResult:
        data = self._edit(data)
        for byte_filter in tuple(self._filters.values()):
            result = byte_filter(data, self._before)
            if result.over:
                return result
            data = result.data
        return FilterResult(data)

    async def _pass(self, data: bytes, received: float) -> None:
        while data:
            await self._wait_for_release()
            size = len(data) if self._rate == math.inf else math.ceil(self._rate * _THROTTLE_INTERVAL_SECONDS)
            portion, data = data[:size], data[size:]
            with suppress(OSError):  # the reading side detects a closed connection
                self._writer.write(portion)
                await self._writer.drain()
            self._before = (self._before + portion[-4:])[-4:]
            self._written(len(portion), received)
            if self._rate < math.inf:
                await asyncio.sleep(_THROTTLE_INTERVAL_SECONDS)
