"""The ticks of one revision clock through one apiserver: consistent reads of nothing, about twice a second.

The gaps are random, because writers are periodic too. A slow answer does not delay the next tick; an overloaded server
is asked less often.
"""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from watchslo.latency.histogram import DurationHistogram
from watchslo.model import Reading, Resource
from watchslo.monitor.failure_log import FailureLog
from watchslo.watch.failure import Action, Failure

SLOW_SECONDS = 1.0  # after this long without an answer the next tick is sent, on another connection
SLOWEST_SECONDS = 10.0
LEAST_SLOWDOWN = 4.0  # also if ticks are rare: then thousands of daemons may tick
AT_ONCE = 6  # more are unanswered only if credentials or our own request queue block them
ROUND_TRIP_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Pace:
    """How long until the next tick: a random gap around `interval()`, which doubles while ticks fail."""

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

    def spacing(self, now: float) -> float:
        """Return the seconds until the next tick, jittered by half of the interval to either side."""
        return max(self._interval() * self._slowdown * (0.5 + self._random()), self._not_before - now)


class Ticker:
    """Reads nothing, repeatedly, through one apiserver, and awaits `arrived` of each reading.

    `resources` are those it ticks on, `answered` is when a tick was last answered (monotonic seconds), `failures` what
    is wrong while ticks fail.
    """

    def __init__(
        self,
        read: Callable[[Resource], Awaitable[Reading | Failure]],
        arrived: Callable[[Reading], Awaitable[None]],
        pace: Pace,
        failures: FailureLog,
    ) -> None:
        self.resources: tuple[Resource, ...] = ()
        self.answered: float | None = None
        self.failures = failures
        self.results = Counter(ok=0, slow=0, failed=0)
        self.round_trips = DurationHistogram(ROUND_TRIP_EDGES)
        self._read = read
        self._arrived = arrived
        self._pace = pace
        self._stopped = False

    def stop(self) -> None:
        """Make `run` return after the current tick."""
        self._stopped = True

    def tick_on(self, resources: Sequence[Resource]) -> None:
        """Tick on these in turn from the next tick on."""
        self.resources = tuple(resources)

    async def run(self, resources: Sequence[Resource]) -> None:
        """Tick on these in turn until `stop` is called, or until one of them may not be read."""
        self.tick_on(resources)
        self._stopped = False
        turns = itertools.count()
        room = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as ticks:
            while self.resources:
                await room.acquire()
                resource = self.resources[next(turns) % len(self.resources)]
                sent = time.monotonic()
                tick = ticks.create_task(self._tick(resource))
                tick.add_done_callback(lambda _: room.release())
                await asyncio.wait({tick}, timeout=SLOW_SECONDS)
                if self._stopped:
                    return
                await asyncio.sleep(sent + self._pace.spacing(sent) - time.monotonic())

    async def _tick(self, resource: Resource) -> None:
        match await self._read(resource):
            case Reading() as reading:
                self.answered = reading.answered
                self.results["ok" if reading.round_trip < SLOW_SECONDS else "slow"] += 1
                self.round_trips.observe(reading.round_trip)
                self.failures.resolve()
                self._pace.answered()
                await self._arrived(reading)
            case failure:
                self.results["failed"] += 1
                self.failures.record("tick_failed", failure, on=resource.key)
                self._pace.failed(failure.retry_after, time.monotonic())
                self._stopped = self._stopped or failure.action is Action.WAIT
