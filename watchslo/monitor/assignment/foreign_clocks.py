"""The clocks of all storages except the main one, within one budget of ticks.

Each of them ticks on resources of its own watches, through every apiserver at which it has watches. All of them
together send as many ticks through an apiserver as the main clock: with n foreign clocks, each ticks n times slower.
"""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import partial

from watchslo.clock.domain import Membership, plan_ticks
from watchslo.config.sections.clock import ClockConfig
from watchslo.model import Reading, Resource
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.assignment.tick_planner import by_readability
from watchslo.monitor.clocks.domain_clock import DomainClock
from watchslo.monitor.tasks.task_supervisor import TaskSupervisor
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.watch.failure import Failure


class ForeignClocks:
    """Starts and stops foreign clocks and their tickers; it owns the tasks of their ticks.

    `new_clock` returns a clock by its name, the mean seconds between its ticks through one apiserver, and what to call
    if an apiserver does not permit them. `watches` are the running watches by
    number. A clock exists while it has watches, and has one ticker for each apiserver of its watches.
    """

    def __init__(
        self,
        tasks: TaskSupervisor,
        config: ClockConfig,
        new_clock: Callable[[str, Callable[[], float], Callable[[DomainClock, str], None]], DomainClock],
        watches: Mapping[int, MonitoredWatch],
    ) -> None:
        self._tasks = tasks
        self._config = config
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
        clock = self._clocks[name] = self._new_clock(name, self._gap, lambda clock, _: self.plan(clock))
        self._tasks.start(("ticks", name), clock.ticks.run)
        return clock

    async def match(self) -> None:
        """Make all clocks tick as their watches need it, and stop the clocks and tickers without watches."""
        idle: list[Hashable] = []
        left: list[Awaitable[object]] = []
        for clock in self.all:
            served = self._served(clock)
            left += [clock.leave(name) for name in clock.tickers.keys() - served.keys()]
            for name in served.keys() - clock.tickers.keys():
                self._join(clock, served[name][0].identity.apiserver)
            self.plan(clock)
            if not served:
                del self._clocks[clock.name]
                idle.append(("ticks", clock.name))
        await asyncio.gather(self._tasks.stop(*idle), *left)  # last: while it waits, other tasks call this too

    def plan(self, clock: DomainClock) -> None:
        """Decide what a clock ticks on: resources that are proven to belong to it, of open watches if possible.

        Until one is proven, it ticks on a single resource, because others might be of another storage.
        """
        blind = False
        for name, watches in self._served(clock).items():
            is_cached = watches[0].identity.apiserver.caches.has
            ranked = sorted(watches, key=by_readability)
            members = [watch for watch in ranked if _is_member(clock, watch)]
            plan = plan_ticks([*dict.fromkeys(watch.identity.resource for watch in members or ranked[:1])], is_cached)
            clock.tick_on(plan.resources, name)
            blind |= plan.blind
        clock.set_blind(blind)

    def _gap(self) -> float:
        """Return the mean seconds between two ticks of one clock through one apiserver."""
        return self._config.interval * max(1, len(self._clocks))

    def _served(self, clock: DomainClock) -> dict[str, list[MonitoredWatch]]:
        """Return the watches of a clock by apiserver."""
        served: defaultdict[str, list[MonitoredWatch]] = defaultdict(list)
        for number in clock.numbers:
            watch = self._watches[number]
            served[watch.identity.apiserver.name].append(watch)
        return served

    def _join(self, clock: DomainClock, apiserver: Apiserver) -> None:
        clock.join(apiserver.name, partial(self._read, clock, apiserver))

    async def _read(self, clock: DomainClock, apiserver: Apiserver, resource: Resource) -> Reading | Failure:
        """Make one tick, in a namespace that a watch of the resource may read."""
        watches = self._served(clock)[apiserver.name]
        namespaces = (watch.identity.probed_in for watch in watches if watch.identity.resource == resource)
        return await apiserver.client.read_nothing(resource, next(namespaces, self._config.namespace), "tick")


def _is_member(clock: DomainClock, watch: MonitoredWatch) -> bool:
    return clock.domain.membership(watch.identity.source) is Membership.MEMBER
