"""The lag of this process: events that arrive while it is late say nothing about the apiserver.

A heartbeat notes when the event loop last ran. After a late heartbeat the sockets hold a backlog, whose events get
timestamps that are too late. So arrivals stay tainted until the loop is on time *and* has idle time again.
"""

import asyncio
import time

from watchslo.latency.histogram import DurationHistogram
from watchslo.snapshot import HistogramReading

BEAT_SECONDS = 0.05
LATE_SECONDS = 0.15
SATURATED_SHARE = 0.9  # of one core, between two heartbeats: the loop has no idle time left
SATURATED_BEATS = 10  # so many in a row are more than a burst: arrivals then wait in the sockets
LAG_EDGES = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.5, 1.0, 5.0)


class Lag:
    """Decides which arrivals are tainted; times are monotonic, `cpu` is the CPU time of the thread, all in seconds."""

    def __init__(self, now: float, cpu: float) -> None:
        self._last = now
        self._cpu = cpu
        self._behind = False
        self._saturated_beats = 0
        self._lags = DurationHistogram(LAG_EDGES)
        self.tainted_seconds = 0.0

    @property
    def last_beat(self) -> float:
        return self._last

    def resume(self, now: float, cpu: float) -> None:
        """Start the heartbeat; the time before it is not judged."""
        self._last, self._cpu = now, cpu

    def beat(self, now: float, cpu: float) -> None:
        """Take in one heartbeat, due `BEAT_SECONDS` after the previous one."""
        gap = now - self._last
        saturated = cpu - self._cpu > SATURATED_SHARE * gap
        self._saturated_beats = self._saturated_beats + 1 if saturated else 0
        late = gap > LATE_SECONDS or self._saturated_beats >= SATURATED_BEATS
        self._behind = late or (self._behind and saturated)
        if self._behind:
            self.tainted_seconds += gap
        self._lags.observe(max(0.0, gap - BEAT_SECONDS))
        self._last, self._cpu = now, cpu

    def tainted(self, received: float) -> bool:
        """Return True if an arrival at `received` may have waited for this process."""
        return self._behind or received - self._last > LATE_SECONDS

    def reading(self) -> HistogramReading:
        return self._lags.reading()


async def keep_beating(lag: Lag) -> None:
    """Send heartbeats until cancelled."""
    lag.resume(time.monotonic(), time.thread_time())
    while True:
        await asyncio.sleep(BEAT_SECONDS)
        lag.beat(time.monotonic(), time.thread_time())
