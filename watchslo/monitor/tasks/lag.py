"""The lag of this process: events that arrive while it is late say nothing about the apiserver.

A heartbeat notes when the event loop last ran, how long the process waited for a CPU, and whether the machine was
suspended. The event loop itself reports since when the data that it reads may have waited. All of that is noted in
`own_delays`, so that it is not measured as lateness of the apiserver.
"""

import asyncio
import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterator

from watchslo.event_loop import Inbox, TimedEventLoop
from watchslo.latency.histogram import DurationHistogram
from watchslo.latency.own_delay import OwnDelays
from watchslo.snapshot import HistogramReading

BEAT_SECONDS = 0.05
LATE_SECONDS = 0.15
SUSPENDED_SECONDS = 0.1  # shorter suspends are not noticed: clocks are read one after the other
AT_ONCE_SECONDS = 0.01  # between two readings of a clock: this process did not stop in between
BREAKING_SECONDS = 1.0  # after a longer suspend, connections are broken, or TCP waits as long again before it resends
STOPPED_SECONDS = 1.0  # by then an apiserver may close the watch; later commits come with the next one
SCHEDSTAT_BYTES = 128  # three numbers
LAG_EDGES = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.5, 1.0, 5.0)


class Lag:
    """Decides which arrivals are tainted; times are monotonic seconds.

    `tainted_seconds` is for how long this process was late, `suspended_seconds` for how long the machine was suspended,
    both in total. `broken` is set after a suspend that connections may not have survived.
    """

    def __init__(self, now: float) -> None:
        self.own_delays = OwnDelays()
        self.tainted_seconds = 0.0
        self.suspended_seconds = 0.0
        self.broken = asyncio.Event()
        self._last = now
        self._waited: float | None = None
        self._suspended: float | None = None
        self._lags = DurationHistogram(LAG_EDGES)

    @property
    def last_beat(self) -> float:
        return self._last

    def resume(self, now: float) -> None:
        """Start the heartbeat; the time before it is not judged."""
        self._last = now

    def beat(self, now: float, waited: float | None, suspended: float) -> None:
        """Take in one heartbeat, due `BEAT_SECONDS` after the previous one.

        `waited` is for how long the thread has waited for a CPU, and `suspended` for how long the machine has been
        suspended, both in seconds since some start; `waited` is None if the kernel does not say.
        """
        gap = now - self._last
        if self._suspended is not None and suspended - self._suspended > SUSPENDED_SECONDS:
            self._note_suspend(now, suspended - self._suspended)
        if waited is not None and self._waited is not None:
            self.own_delays.add_cpu_wait(self._last, now, waited - self._waited)
        if gap > LATE_SECONDS:
            self.tainted_seconds += gap
        if gap > STOPPED_SECONDS:
            self.own_delays.add_stop(self._last, now)
        self._lags.observe(max(0.0, gap - BEAT_SECONDS))
        self._last, self._waited, self._suspended = now, waited, suspended
        self.own_delays.known_until = now

    def _note_suspend(self, now: float, seconds: float) -> None:
        self.own_delays.add_stop(self._last, now)
        self.suspended_seconds += seconds
        if seconds > BREAKING_SECONDS:
            self.broken.set()

    def tainted(self, received: float) -> bool:
        """Return True if an arrival at `received` may have waited long for this process."""
        return received - self._last > LATE_SECONDS

    def reading(self) -> HistogramReading:
        return self._lags.reading()


async def keep_beating(lag: Lag) -> None:
    """Send heartbeats until cancelled, and let the event loop note its late reads.

    The inbox is emptied before each of them: whatever was received before a heartbeat is known by then.
    """
    with _late_reads_noted(lag) as inbox, cpu_wait_reader() as waited:
        lag.resume(time.monotonic())
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            inbox.empty()
            lag.beat(time.monotonic(), waited(), suspended_seconds())
            gc.collect(0)  # takes 0.1 ms if it is done often


@contextlib.contextmanager
def _late_reads_noted(lag: Lag) -> Iterator[Inbox]:
    """Let the event loop note its late reads in the context; yields its inbox, or an empty one of another loop."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, TimedEventLoop):
        yield Inbox()
        return
    note_reads = lag.own_delays.add_late_reads
    loop.selector.listeners.append(note_reads)
    try:
        yield loop.inbox
    finally:
        loop.selector.listeners.remove(note_reads)


def suspended_seconds() -> float:
    """Return for how long the machine has been suspended since it was started; 0 if the kernel does not say."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    while True:
        before, since_boot, after = time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME), time.monotonic()
        if after - before < AT_ONCE_SECONDS:
            return since_boot - before


@contextlib.contextmanager
def cpu_wait_reader() -> Iterator[Callable[[], float | None]]:
    """Yield a function that returns for how many seconds this thread has waited for a CPU.

    Its result is None if the kernel does not say. The figure is the second one in /proc/thread-self/schedstat, in
    nanoseconds (kernel documentation, scheduler/sched-stats). The file stays open: opening takes ten times as long as
    reading.
    """
    try:
        descriptor = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        yield lambda: None
        return

    def read() -> float | None:
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int(os.pread(descriptor, SCHEDSTAT_BYTES, 0).split()[1]) / 1e9
        return None

    try:
        yield read
    finally:
        os.close(descriptor)
