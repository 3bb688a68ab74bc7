"""The ticks of one revision clock: consistent reads of nothing, about twice a second, at irregular times.

Writers are periodic too, so the gaps are random; a slow answer does not hold up the next tick, and a server in distress
is asked less often.
"""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from watchslo.latency.histogram import DurationHistogram
from watchslo.model import Reading, Resource
from watchslo.monitor.trouble import Trouble
from watchslo.watch.failure import Action, Failure

SLOW_SECONDS = 1.0  # after this long without an answer the next tick goes out, by another connection
SLOWEST_SECONDS = 10.0
LEAST_SLOWDOWN = 4.0  # also of ticks that are slow already: then there are many who tick
AT_ONCE = 6  # more have no answer only where credentials or our own queue hold them up
ROUND_TRIP_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Pace:
    """How long until the next tick: a random gap around `interval()`, doubling while ticks fail."""

    def __init__(self, interval: Callable[[], float], random: Callable[[], float]) -> None:
        self._interval = interval
        self._random = random
        self._slowdown = 1.0
        self._not_before = 0.0

    @property
    def is_slowed(self) -> bool:
        return self._slowdown > 1.0

    def answered(self) -> None:
        self._slowdown = 1.0

    def failed(self, retry_after: float | None, now: float) -> None:
        self._slowdown = min(2.0 * self._slowdown, max(LEAST_SLOWDOWN, SLOWEST_SECONDS / self._interval()))
        self._not_before = now + (retry_after or 0.0)

    def gap(self, now: float) -> float:
        """Seconds until the next tick, jittered by half of the interval to either side."""
        return max(self._interval() * self._slowdown * (0.5 + self._random()), self._not_before - now)


class Ticker:
    """Reads nothing again and again through one apiserver, and hands each reading to `arrived` on the loop.

    `resources` are those it ticks on, `answered` is when a tick was last answered, in monotonic seconds, and `trouble`
    what is wrong while ticks fail.
    """

    def __init__(
        self,
        read: Callable[[Resource], Awaitable[Reading | Failure]],
        arrived: Callable[[Reading], None],
        pace: Pace,
        trouble: Trouble,
    ) -> None:
        self.resources: tuple[Resource, ...] = ()
        self.answered: float | None = None
        self.trouble = trouble
        self.results = Counter(ok=0, slow=0, failed=0)
        self.round_trips = DurationHistogram(ROUND_TRIP_EDGES)
        self._read = read
        self._arrived = arrived
        self._pace = pace
        self._stopped = False

    def stop(self) -> None:
        """Ends with the tick that is under way."""
        self._stopped = True

    async def run(self, resources: Sequence[Resource]) -> None:
        """Ticks on these in turn until told to stop, or until one of them can be read no more."""
        self.resources = tuple(resources)
        self._stopped = False
        room = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as ticks:
            for resource in itertools.cycle(self.resources):
                await room.acquire()
                sent = time.monotonic()
                tick = ticks.create_task(self._tick(resource))
                tick.add_done_callback(lambda _: room.release())
                await asyncio.wait({tick}, timeout=SLOW_SECONDS)
                if self._stopped:
                    return
                await asyncio.sleep(sent + self._pace.gap(sent) - time.monotonic())

    async def _tick(self, resource: Resource) -> None:
        match await self._read(resource):
            case Reading() as reading:
                self.answered = reading.answered
                self.results["ok" if reading.round_trip < SLOW_SECONDS else "slow"] += 1
                self.round_trips.observe(reading.round_trip)
                self.trouble.over()
                self._pace.answered()
                self._arrived(reading)
            case failure:
                self.results["failed"] += 1
                self.trouble.happened("tick_failed", failure, on=resource.key)
                self._pace.failed(failure.retry_after, time.monotonic())
                self._stopped = self._stopped or failure.action is Action.WAIT
