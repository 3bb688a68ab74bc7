"""The ticks of one revision clock through one apiserver: consistent reads of nothing. `TickLoop` says when."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from watchslo.clock.tick_schedule import SLOW_SECONDS
from watchslo.latency.histogram import DurationHistogram
from watchslo.model import Reading, Resource
from watchslo.monitor.tasks.failure_log import FailureLog
from watchslo.watch.failure import Failure

ROUND_TRIP_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Ticker:
    """Reads nothing through one apiserver.

    `resources` are those it ticks on in turn; without any, no tick is sent. `answered` is when a tick was last answered
    (monotonic seconds), `failures` what is wrong while ticks fail.
    """

    def __init__(self, read: Callable[[Resource], Awaitable[Reading | Failure]], failures: FailureLog) -> None:
        self.resources: tuple[Resource, ...] = ()
        self.answered: float | None = None
        self.failures = failures
        self.results = Counter(ok=0, slow=0, failed=0)
        self.round_trips = DurationHistogram(ROUND_TRIP_EDGES)
        self._read = read
        self._turn = 0

    def tick_on(self, resources: Sequence[Resource]) -> None:
        """Tick on these in turn from the next tick on."""
        self.resources = tuple(resources)

    async def tick(self) -> Reading | Failure:
        """Make one tick on the next resource."""
        resource = self.resources[self._turn % len(self.resources)]
        self._turn += 1
        answer = await self._read(resource)
        match answer:
            case Reading() as reading:
                self.answered = reading.answered
                self.results["ok" if reading.round_trip < SLOW_SECONDS else "slow"] += 1
                self.round_trips.observe(reading.round_trip)
                self.failures.resolve()
            case failure:
                self.results["failed"] += 1
                self.failures.record("tick_failed", failure, on=resource.key)
        return answer
