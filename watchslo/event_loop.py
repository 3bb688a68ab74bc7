"""An event loop that knows since when the data that it reads may have waited for it.

The loop asks the kernel which sockets have data (`select`), runs the callbacks that read them, and asks again. If
`select` had to wait, everything that it then reports has just arrived. If it returns at once, the data may have arrived
at any time since the previous `select` returned, while callbacks ran. So the loop knows exactly how late each read may
be, whatever the reason: one slow callback, or many short ones before a read.
"""

import asyncio
import selectors
import time
from collections.abc import Callable

IMMEDIATE_SECONDS = 0.0005  # a select that took no longer may not have waited
BACKLOG_SECONDS = 0.05  # after a read that left data in the kernel, or filled its buffer, data may wait at the sender

NoteReads = Callable[[float, float, float], object]
"""Takes that data read from `start` to `end` may have arrived as early as `since`, in monotonic seconds."""


class TimedSelector(selectors.DefaultSelector):
    """A selector that reports to `note_reads` what the callbacks after each `select` may have read late."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.note_reads: NoteReads | None = None
        self._clock = clock
        self._returned = self._since = clock()
        self._backlog_until = 0.0

    def note_backlog(self) -> None:
        """Note that a read left data behind, or that the sender may wait for room in the kernel's buffer."""
        self._backlog_until = self._clock() + BACKLOG_SECONDS

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        entered = self._clock()
        if self.note_reads is not None:
            self.note_reads(self._returned, entered, self._since)
        ready = super().select(timeout)
        returned = self._clock()
        if returned < self._backlog_until:
            pass  # what is read now may be as old as what was read before
        elif returned - entered > IMMEDIATE_SECONDS:
            self._since = returned
        else:
            self._since = self._returned
        self._returned = returned
        return ready


class TimedEventLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop on a `TimedSelector`."""

    def __init__(self) -> None:
        self.selector = TimedSelector()
        super().__init__(self.selector)
