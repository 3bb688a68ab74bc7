"""An event loop that bounds how long data may have waited before each read.

The loop asks the kernel which sockets have data (`select`), runs the callbacks that read them, and asks again. If
`select` had to wait, everything that it then reports has just arrived. If it returns at once, the data may have arrived
at any time since the previous `select` returned, while callbacks ran. So the loop knows exactly how late each read may
be, whatever the reason: one slow callback, or many short ones before a read.

A full read may leave data behind, which may be as old as what was read. So the loop asks the kernel before it waits for
new data. If the kernel's queue was so full that the sender had to wait too, all data may be as old until that sender
was silent (`receive_queue`).

A signal handler, or another thread, can stop this thread after the kernel was asked: then `select` returns long after
its timeout, and does not report what arrived in that time.

The events of a watch are received by the callback that reads them. Only what arrived together with the headers of an
answer is received by the task that waits for these: the read wakes the task, and it runs after the next `select`, which
then returns at once. So what is received in one turn was read in this turn or in the previous one.

Data that is read goes to the `Inbox` with its time, and all data of the last 50 ms is handled together. That saves CPU:
after each wait, code and data must come into the caches of the CPU again, which takes several times as long as the work
itself.

This module uses only documented parts of asyncio. `asyncio_overrides` reads more cheaply.
"""

import asyncio
import selectors
import time
from collections import deque
from collections.abc import Callable
from math import inf

from watchslo.receive_queue import ReceiveQueue, SenderBacklogs

SHORT_SECONDS = 0.00025  # a turn; what arrived in it counts as just arrived
OVERSLEPT_SECONDS = 0.005  # after the timeout of a select; timers are rounded to 1 ms
MOST_READ_BYTES = 64 * 2**10  # at once from one connection: then others have their turn
WAITING_SECONDS = 0.05  # of data in the inbox
MOST_WAITING, MOST_WAITING_BYTES = 32, 64 * 2**10  # reads in the inbox, and their size: handled in about 2 ms

NoteReads = Callable[[float, float, float], object]
"""Takes that data received from `start` to `end` may have arrived as early as `since`, in monotonic seconds."""

TakeData = Callable[[float, bytes], object]
"""Takes when data was received, in monotonic seconds, and the data."""


class TimedSelector(selectors.DefaultSelector):
    """A selector that tells its `listeners` since when the data received after each `select` may have waited.

    Each monitor in this process is a listener: what one of them does delays the reads of all.

    `has_waited` says whether the last `select` had to wait: then only little data has arrived. Such data is read here
    by the `readers`, each under the number of its socket. A reader returns False if asyncio has something to do then.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.listeners: list[NoteReads] = []
        self.has_waited = False
        self.readers: dict[int, Callable[[], bool]] = {}
        self._clock = clock
        self._returned = self._asked = self._read_since = self._since = clock()
        self._ready: list[tuple[selectors.SelectorKey, int]] = []
        self._may_have_left = False
        self._senders = SenderBacklogs()

    def note_full_read(self, number: int, queue: ReceiveQueue | None) -> None:
        """Note that a read of a socket may have left data behind; `queue` is None if the kernel does not say."""
        self._may_have_left = True
        if queue is None or queue.held_up_sender():
            self._senders.note(number, self._since, self._clock(), queue.round_trip if queue else 0.0)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        until = inf if timeout is None else self._clock() + timeout
        ready = self._ask(timeout)
        while self.has_waited and ready:
            if not self._read(ready):
                return self._unchanged(ready)
            ready = self._ask(None if timeout is None else max(0.0, until - self._returned))
        return ready

    def _unchanged(self, ready: list[tuple[selectors.SelectorKey, int]]) -> list[tuple[selectors.SelectorKey, int]]:
        """Return those sockets whose registration no reader has replaced; the kernel reports the others again.

        asyncio would take the callback of a former registration for cancelled, and never read the socket again.
        """
        registered = self.get_map()
        return [(key, events) for key, events in ready if registered.get(key.fileobj) is key]

    def _read(self, ready: list[tuple[selectors.SelectorKey, int]]) -> bool:
        """Run the readers of the sockets; return False if asyncio has something to do."""
        for key, events in ready:
            read = self.readers.get(key.fd)
            if read is None or events != selectors.EVENT_READ or not read():
                return False
        return True

    def _ask(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Ask the kernel which sockets have data, and note since when the data may have waited."""
        entered = self._clock()
        if self._senders:
            self._follow_senders(entered)
        if self.listeners:
            since = min(self._since, self._senders.since)
            for note_reads in self.listeners:
                note_reads(self._returned, entered, since)
        may_have_left, self._may_have_left = self._may_have_left, False
        ready, limit = [], 0.0
        if timeout == 0 or may_have_left or entered - self._returned >= SHORT_SECONDS:
            ready = super().select(0)
        self.has_waited = not ready and timeout != 0
        if self.has_waited:
            ready, limit = super().select(timeout), inf if timeout is None else timeout
        returned = self._clock()
        is_late = returned - entered >= limit + OVERSLEPT_SECONDS
        if self.has_waited and not is_late:
            self._since = self._read_since = returned
        elif not may_have_left:
            self._since, self._read_since = self._read_since, self._asked
        self._asked = entered if is_late else returned
        self._returned, self._ready = returned, ready
        return ready

    def _follow_senders(self, now: float) -> None:
        """Note which of the senders that were held up have sent data in this turn, and which were silent."""
        heard, registered = {key.fd for key, _ in self._ready}, self.get_map()
        keys = (registered.get(number) for number in self._senders)
        watched = {key.fd for key in keys if key and key.events & selectors.EVENT_READ}
        self._senders.follow(heard, watched - heard, self._read_since, self._asked, now)


class Inbox:
    """Keeps what connections receive, and passes it on after at most 50 ms, in the order in which it was received."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[TakeData, float, bytes]] = deque()
        self._bytes = 0
        self._alarm: asyncio.TimerHandle | None = None

    def put(self, take: TakeData, data: bytes) -> bool:
        """Keep data that was received just now; return False if that scheduled a call. This runs for every read."""
        self._waiting.append((take, time.monotonic(), data))
        self._bytes += len(data)
        if len(self._waiting) == MOST_WAITING or self._bytes > MOST_WAITING_BYTES:
            self.empty()
            return False
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(WAITING_SECONDS, self.empty)
            return False
        return True

    def empty(self) -> None:
        """Pass on everything that was received until now."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._bytes = 0
        while self._waiting:
            take, received, data = self._waiting.popleft()
            take(received, data)


class TimedEventLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop on a `TimedSelector`; its `inbox` keeps what its connections receive.

    It uses only what asyncio documents: TLS and reads are asyncio's own.
    """

    def __init__(self) -> None:
        self.selector = TimedSelector()
        self.inbox = Inbox()
        super().__init__(self.selector)
