"""An event loop whose time jumps to the next timer instead of passing: hours take milliseconds, to the microsecond."""

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

START_SECONDS = 1000.0
THREADS_SECONDS = 60.0  # of real time, for threads to answer
LOOPBACK_SECONDS = 0.002  # of real time, for the kernel to pass on what one socket of this process sent to another


class _Selector(selectors.DefaultSelector):
    now = START_SECONDS
    turn_seconds = 0.0
    threads = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        self.now += self.turn_seconds
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self.threads or timeout is None:
            ready = super().select(THREADS_SECONDS)
            assert ready, "nothing will ever happen again"
            return ready
        has_sockets = len(self.get_map()) > 1  # besides that by which threads wake the loop
        ready = super().select(LOOPBACK_SECONDS) if has_sockets else []
        if not ready:
            self.now += max(timeout, 0.0)
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time starts at `START_SECONDS` and stands still while a thread works for it.

    Its sockets may be connected to each other: time also stands still while bytes are on their way. Each turn of the
    loop takes `turn_seconds`: if that is not 0, events of different turns have different times.
    """

    def __init__(self, turn_seconds: float = 0.0) -> None:
        self._clock = _Selector()
        self._clock.turn_seconds = turn_seconds
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Arguments], T], *args: *Arguments
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._clock.threads += 1
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _: object) -> None:
        self._clock.threads -= 1
