"""The clocks of all storages except the main one, within one budget of ticks.

Each of them ticks on resources of its own watches, through every apiserver at which it has watches. All of them
together send as many ticks as the main clock: with n foreign clocks, each ticks n times slower.
"""

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from functools import partial

from watchslo.clock.domain import Membership, plan_ticks
from watchslo.config.model import ClockConfig
from watchslo.model import Reading, Resource
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.domain_clock import DomainClock
from watchslo.monitor.monitored_watch import MonitoredWatch
from watchslo.monitor.task_supervisor import TaskSupervisor
from watchslo.monitor.tick_planner import by_readability
from watchslo.monitor.ticker import Ticker
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import Failure


class ForeignClocks:
    """Starts and stops foreign clocks and their tickers; it owns the tasks of these tickers.

    `new_clock` returns a clock by its name and the mean seconds between its ticks. `watches` are the running watches by
    number. A clock exists while it has watches, and has one ticker for each apiserver of its watches.
    """

    def __init__(
        self,
        tasks: TaskSupervisor,
        config: ClockConfig,
        random: Callable[[], float],
        new_clock: Callable[[str, Callable[[], float]], DomainClock],
        watches: Mapping[int, MonitoredWatch],
    ) -> None:
        self._tasks = tasks
        self._config = config
        self._random = random
        self._new_clock = new_clock
        self._watches = watches
        self._clocks: dict[str, DomainClock] = {}

    @property
    def all(self) -> tuple[DomainClock, ...]:
        """The clocks, the oldest first."""
        return tuple(self._clocks.values())

    def start(self, resource: Resource) -> DomainClock:
        """Return a new clock for a watch of this resource; `match` makes it tick once the watch is attached."""
        names = itertools.chain([resource.key], (f"{resource.key}-{number}" for number in itertools.count(2)))
        name = next(name for name in names if name not in self._clocks)
        clock = self._clocks[name] = self._new_clock(name, self._interval)
        return clock

    async def match(self) -> None:
        """Make all clocks tick as their watches need it, and stop the clocks and tickers without watches."""
        idle: list[Hashable] = []
        for clock in self.all:
            served = self._served(clock)
            for name in clock.tickers.keys() - served.keys():
                clock.leave(name)
                idle.append(("ticks", clock.name, name))
            for name in served.keys() - clock.tickers.keys():
                self._join(clock, served[name][0].identity.apiserver)
            self.plan(clock)
            if not served:
                del self._clocks[clock.name]
        await self._tasks.stop(*idle)  # last: while it waits, other tasks call this too

    def plan(self, clock: DomainClock) -> None:
        """Decide what a clock ticks on: resources that are proven to belong to it, of open watches if possible.

        Until one is proven, it ticks on a single resource, because others might be of another storage.
        """
        blind = False
        for name, watches in self._served(clock).items():
            ranked = sorted(watches, key=by_readability)
            members = [watch for watch in ranked if _is_member(clock, watch)]
            plan = plan_ticks([*dict.fromkeys(watch.identity.resource for watch in members or ranked[:1])])
            clock.tickers[name].tick_on(plan.resources)
            blind |= plan.blind
        clock.set_blind(blind)

    def _interval(self) -> float:
        """Return the mean seconds between two ticks of one clock."""
        return self._config.interval * max(1, len(self._clocks))

    def _served(self, clock: DomainClock) -> dict[str, list[MonitoredWatch]]:
        """Return the watches of a clock by apiserver."""
        served: defaultdict[str, list[MonitoredWatch]] = defaultdict(list)
        for number in clock.numbers:
            watch = self._watches[number]
            served[watch.identity.apiserver.name].append(watch)
        return served

    def _join(self, clock: DomainClock, apiserver: Apiserver) -> None:
        ticker = clock.join(apiserver.name, partial(self._read, clock, apiserver))
        self._tasks.start(("ticks", clock.name, apiserver.name), partial(self._tick, clock, ticker))

    async def _tick(self, clock: DomainClock, ticker: Ticker) -> None:
        backoff = Backoff(self._random)
        while True:
            await ticker.run(ticker.resources)
            await asyncio.sleep(backoff.next(time.monotonic()))
            self.plan(clock)

    async def _read(self, clock: DomainClock, apiserver: Apiserver, resource: Resource) -> Reading | Failure:
        """Make one tick, in a namespace that a watch of the resource may read."""
        watches = self._served(clock)[apiserver.name]
        namespaces = (watch.identity.probed_in for watch in watches if watch.identity.resource == resource)
        return await apiserver.client.read_nothing(resource, next(namespaces, self._config.namespace), "tick")


def _is_member(clock: DomainClock, watch: MonitoredWatch) -> bool:
    return clock.domain.membership(watch.identity.source) is Membership.MEMBER
