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


class _Selector(selectors.DefaultSelector):
    now = START_SECONDS
    threads = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self.threads or timeout is None:
            ready = super().select(THREADS_SECONDS)
            assert ready, "nothing will ever happen again"
        else:
            self.now += max(timeout, 0.0)
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time starts at `START_SECONDS` and stands still while a thread works for it."""

    def __init__(self) -> None:
        self._clock = _Selector()
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
