"""An event loop whose time jumps to the next timer instead of passing: hours take milliseconds, to the microsecond."""

import asyncio
import selectors
from typing import Any

START_SECONDS = 1000.0
THREADS_SECONDS = 10.0  # real ones, for threads to answer


class _Selector(selectors.DefaultSelector):
    now = START_SECONDS

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready and timeout is None:  # then only a thread can have something to say
            ready = super().select(THREADS_SECONDS)
            assert ready, "nothing will ever happen again"
        if not ready and timeout:
            self.now += timeout
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """Its time begins at `START_SECONDS`."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now
