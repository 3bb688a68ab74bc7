"""Assigns each watch to the revision clock that can date it: the main one, or one of its own resource.

Theory of operation
===================

Almost always all resources of a cluster are kept in one etcd, and all apiservers read that etcd. Then there is one
revision sequence, and the *main* `DomainClock` dates every watch. Two things can differ, and neither can be configured
reliably: single resources may be kept in another etcd, and an address may lead to an apiserver of another cluster. So
membership is never assumed. It is proven by probes, and lost by one contradiction.

The life of a watch:

1. `admit`: the watch is attached to the main clock as *pending*. Its events are counted, but not measured.
2. When its watch opens, it is *probed*: a consistent read of its resource is compared with the ticks before and after.
   While a membership is pending, the probe is repeated about twice a second. Three consistent probes make its source a
   *member*; from then on its events are measured.
3. If a probe or an event contradicts the ticks, the source is *foreign* and the watch moves to a clock that ticks on
   its own resource, through every apiserver that has such a watch. Watches of one resource share that clock.
4. The main clock keeps probing a watch that moved, at each opening. Once its source is a member again, the watch moves
   back.
5. `release`: the watch is detached. A clock without watches stops, and so do tickers that no watch needs.

A domain is *reset* when a tick goes backwards: the storage was restored. Then nothing received before is measured, its
watches start over, and the main domain chooses again what to tick on, because resources may now be kept apart.

Invariants:

- A watch is attached to exactly one clock at a time; moving drops what the old clock has not sealed.
- The main clock exists as long as this object; a clock of a resource exists while a watch needs it.
- The main clock ticks through every apiserver that has joined; what it ticks on is chosen by `TickPlanner`.
- This object owns the clocks, their tickers' tasks and the probe tasks. It changes the clock of a watch only through
  `WatchStatistics.date_by`.
"""

import asyncio
import time
from collections.abc import Callable, Hashable
from functools import partial

import structlog

from watchslo.clock.domain import PROBE_SPACING_SECONDS, Domain, Membership, TickPlan
from watchslo.config.model import ClockConfig
from watchslo.model import Reading, Resource
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.domain_clock import DomainClock
from watchslo.monitor.monitored_watch import MonitoredWatch
from watchslo.monitor.sealer import Sealer
from watchslo.monitor.task_supervisor import TaskSupervisor
from watchslo.monitor.tick_planner import TickPlanner
from watchslo.monitor.ticker import Ticker
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import Failure

MAIN = "main"
SILENT_SECONDS = 10.0  # one lost tick widens an interval, and must not make the daemon unready
SILENT_TICKS = 5  # if ticks are rare


class ClockAssignment:
    """Keeps all clocks ticking and every watch on the clock of its domain; see the theory of operation above.

    `new_sealer` returns the sealer of a new domain. `on_reset` is called for each watch whose storage was restored,
    before the watch starts over.
    """

    def __init__(
        self,
        tasks: TaskSupervisor,
        config: ClockConfig,
        random: Callable[[], float],
        new_sealer: Callable[[Domain], Sealer],
        on_reset: Callable[[MonitoredWatch], None],
    ) -> None:
        self._tasks = tasks
        self._config = config
        self._random = random
        self._new_sealer = new_sealer
        self._on_reset = on_reset
        self._log = structlog.get_logger()
        self._apiservers: dict[str, Apiserver] = {}
        self._watches: dict[int, MonitoredWatch] = {}
        self._probe_due: dict[int, asyncio.Event] = {}
        self._own: dict[str, DomainClock] = {}
        self._logged: TickPlan | None = None
        self.main = self._new_clock(MAIN)
        self._planner = TickPlanner(self._apiservers, self.main.tickers, self._watches.values, config.namespace, random)
        tasks.start(("ticks", MAIN), partial(self._planner.run, self._on_plan))

    @property
    def clocks(self) -> tuple[DomainClock, ...]:
        return (self.main, *self._own.values())

    @property
    def not_ticking(self) -> str | None:
        """Why the main clock has not ticked recently, in a sentence; None if it has."""
        latest = self.main.domain.clock.latest
        if latest and time.monotonic() - latest.answered < max(SILENT_SECONDS, SILENT_TICKS * self._config.interval):
            return None
        for ticker in self.main.tickers.values():
            if ticker.failures.now:
                return ticker.failures.now.message
        return (
            "No answered tick is known to come from this storage."
            if self.main.ticking
            else "What to tick on is being chosen."
        )

    # Apiservers and watches

    def join(self, apiserver: Apiserver) -> None:
        """Tick through one more apiserver."""
        self._apiservers[apiserver.name] = apiserver
        ticker = self.main.join(apiserver.name, partial(self._tick, apiserver))
        self._tasks.start(("ticks", MAIN, apiserver.name), partial(self._tick_main, ticker))

    async def leave(self, apiserver: Apiserver) -> None:
        """Stop ticking through an apiserver whose watches are all released."""
        del self._apiservers[apiserver.name]
        await self._tasks.stop(("ticks", MAIN, apiserver.name))
        self.main.leave(apiserver.name)

    def admit(self, watch: MonitoredWatch) -> None:
        """Take in a watch that is attached to the main clock; it is probed whenever it opens."""
        number = watch.identity.number
        self._watches[number] = watch
        self._probe_due[number] = asyncio.Event()
        self._tasks.start(("probes", number), partial(self._keep_probing, watch))

    def watch_opened(self, number: int) -> None:
        """Probe a watch soon: it has just opened."""
        if due := self._probe_due.get(number):
            due.set()

    async def release(self, watch: MonitoredWatch) -> None:
        """Forget a watch and stop what only it needed."""
        number = watch.identity.number
        del self._watches[number]
        watch.statistics.detach()
        await self._tasks.stop(("probes", number))
        del self._probe_due[number]
        await self._close_empty()

    async def close(self) -> None:
        """Stop the main clock, once all watches are released and all apiservers have left."""
        assert not self._watches
        await self._tasks.stop(("ticks", MAIN))

    # Ticks

    def _new_clock(self, name: str) -> DomainClock:
        return DomainClock(
            name, self._config.interval, self._random, self._new_sealer, self._on_foreign, self._on_domain_reset
        )

    def _on_plan(self, plan: TickPlan) -> None:
        self.main.set_blind(plan.blind)

    async def _tick(self, apiserver: Apiserver, resource: Resource) -> Reading | Failure:
        """Make one tick of the main clock; log a new plan once a tick of it is answered."""
        answer = await _read(apiserver, resource, kind="tick", namespace=self._config.namespace)
        plan = self._planner.plan
        if isinstance(answer, Reading) and plan and self._logged != plan and resource in plan.resources:
            self._logged = plan
            keys = [resource.key for resource in plan.resources]
            self._log.info("ticking", domain=MAIN, on=keys, blind=plan.blind)
        return answer

    async def _tick_main(self, ticker: Ticker) -> None:
        """Tick by the plan; request a new one if its resources can be read through no apiserver."""
        backoff = Backoff(self._random)
        while True:
            plan = await self._planner.wait()
            await ticker.run(plan.resources)
            if not any(other.failures.now is None for other in self.main.tickers.values()):
                self._planner.plan_again()
            await asyncio.sleep(backoff.next(time.monotonic()))

    def _on_domain_reset(self, clock: DomainClock) -> None:
        """Start over after the storage was restored: earlier revisions mean nothing, and resources may be separate."""
        self._log.warning("domain_reset", domain=clock.name, streams=len(clock.numbers))
        for number in clock.numbers:
            watch = self._watches[number]
            watch.statistics.drop_unsealed()
            self._on_reset(watch)
            watch.session.start_over()
        if clock is self.main:
            self._planner.plan_again()
            for ticker in clock.tickers.values():
                ticker.stop()

    # Membership

    async def _keep_probing(self, watch: MonitoredWatch) -> None:
        """Probe a watch whenever it opens or moves, and until its membership is decided."""
        backoff, due = Backoff(self._random), self._probe_due[watch.identity.number]
        while True:
            await due.wait()
            due.clear()
            await self._probe(watch, {self.main, watch.statistics.clock}, backoff)
            while pending := self._pending(watch):
                await asyncio.sleep(PROBE_SPACING_SECONDS * (1 + 0.5 * self._random()))
                if not all(clock.domain.is_judging(watch.identity.source) for clock in pending):
                    await self._probe(watch, pending, backoff)

    def _pending(self, watch: MonitoredWatch) -> set[DomainClock]:
        clocks = {self.main, watch.statistics.clock}
        return {clock for clock in clocks if clock.domain.membership(watch.identity.source) is Membership.PENDING}

    async def _probe(self, watch: MonitoredWatch, clocks: set[DomainClock], backoff: Backoff) -> None:
        """Read the revision of a watch's resource, if there are ticks to compare it with."""
        if not any(clock.ticking for clock in clocks):
            return
        identity = watch.identity
        match await _read(identity.apiserver, identity.resource, kind="probe", namespace=identity.probed_in):
            case Reading() as reading:
                for clock in clocks:
                    clock.domain.probe(reading)
            case failure:
                await asyncio.sleep(backoff.next(time.monotonic(), failure.retry_after))
        is_member = self.main.domain.membership(identity.source) is Membership.MEMBER
        if watch.statistics.clock is not self.main and is_member:
            self._move(watch, self.main)
            await self._close_empty()

    def _on_foreign(self, clock: DomainClock, number: int) -> None:
        if clock is self.main:
            watch = self._watches[number]
            self._move(watch, self._own_clock(watch))

    def _move(self, watch: MonitoredWatch, clock: DomainClock) -> None:
        identity = watch.identity
        self._log.warning("domain_changed", watch=identity.label, apiserver=identity.apiserver.name, domain=clock.name)
        watch.statistics.date_by(clock)
        self._probe_due[identity.number].set()

    def _own_clock(self, watch: MonitoredWatch) -> DomainClock:
        """Return a clock that ticks on the watch's own resource, through every apiserver that has such a watch.

        With one apiserver it is blind to the lag of its cache.
        """
        identity = watch.identity
        key, apiserver = identity.resource.key, identity.apiserver
        if key not in self._own:
            self._own[key] = self._new_clock(key)
            self._own[key].set_blind(True)
        clock = self._own[key]
        if apiserver.name not in clock.tickers:
            read = partial(_read, apiserver, kind="tick", namespace=identity.probed_in)
            ticker = clock.join(apiserver.name, read)
            self._tasks.start(("ticks", key, apiserver.name), partial(self._tick_own, ticker, identity.resource))
        return clock

    async def _tick_own(self, ticker: Ticker, resource: Resource) -> None:
        backoff = Backoff(self._random)
        while True:
            await ticker.run([resource])
            await asyncio.sleep(backoff.next(time.monotonic()))

    async def _close_empty(self) -> None:
        """Stop the clocks without watches, and the tickers of apiservers that have no watch there any more."""
        idle: list[Hashable] = []
        for key, clock in list(self._own.items()):
            needed = {self._watches[number].identity.apiserver.name for number in clock.numbers}
            for name in set(clock.tickers) - needed:
                clock.leave(name)
                idle.append(("ticks", key, name))
            if not clock.tickers:
                del self._own[key]
        await self._tasks.stop(*idle)  # last: while it waits, other tasks call this too


async def _read(apiserver: Apiserver, resource: Resource, *, kind: str, namespace: str) -> Reading | Failure:
    return await apiserver.client.read_nothing(resource, namespace, kind)
