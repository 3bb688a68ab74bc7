"""Assigns each watch to the revision clock of its storage: the main one, or one that all its resources share.

Theory of operation
===================

Almost always all resources of a cluster are kept in one etcd, and all apiservers read that etcd. Then there is one
revision sequence, and the *main* `DomainClock` dates every watch. Two things can differ, and neither can be configured
reliably: single resources may be kept in another etcd, and an address may lead to an apiserver of another cluster. So
membership is never assumed. It is proven by probes, and lost by one contradiction.

One rule decides: a watch is dated by the first clock whose domain its source is a *member* of. The main clock is first,
then come the *foreign* clocks in the order of their start.

The life of a watch:

1. `admit`: the watch is attached to the main clock as *pending*. Its events are held, within limits.
2. When its watch opens, it is *probed*: a consistent read of its resource is compared with the ticks before and after.
   While a membership is pending, the probe is repeated about twice a second. Three consistent probes make its source a
   member; then its events are measured, also those that were held.
3. If a probe or an event contradicts the ticks, the source is foreign to that clock. Then the same probes are compared
   with the ticks of all other clocks, and the watch moves to the first of which its source becomes a member. Until
   then it stays where it is, unmeasured.
4. If its source is foreign to all clocks, a new clock starts, which ticks on resources of its own watches.
5. At each opening, a watch is also probed against the clocks before its own. So it returns to the main clock after its
   resource has, and two clocks of one storage become one. They can begin when a clock was *silent*: such a clock is not
   waited for.
6. `release`: the watch is detached. A clock without watches stops, and so do tickers that no watch needs.

A tick that goes backwards has one of two reasons. Reads of other members of the domain tell which:

- The storage was restored: the others go backwards too. The domain is *reset*: nothing received before is measured, and
  its watches start over.
- The resource that was ticked on has moved to another storage: the others do not. It becomes foreign, and nothing else
  changes.

In both cases what to tick on is chosen again. A watch that is foreign to its clock or still pending, and whose probe
has an older revision than the watch itself, starts over as well: its resource has moved, or its list had a revision
that the storage does not have, and from that revision it would receive nothing.

Invariants:

- A watch is attached to exactly one clock at a time; moving drops what the old clock has not sealed.
- The main clock exists as long as this object; a foreign clock exists while a watch needs it.
- The main clock ticks through every apiserver that has joined; what it ticks on is chosen by `TickPlanner`. What the
  foreign clocks tick on, and how often, is decided by `ForeignClocks`: together they tick as often as the main clock.
- This object owns the main clock with the task of its ticks, and the probe tasks. It changes the clock of a watch
  only through `WatchStatistics.date_by`.
- A domain knows only sources that have a watch or that it ticks on; others are forgotten.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import structlog

from watchslo.clock.burst import Burst, BurstBudget
from watchslo.clock.domain import PROBE_SPACING_SECONDS, Domain, Membership, TickPlan
from watchslo.clock.reserve import TickReserve
from watchslo.clock.tick_schedule import TickSchedule
from watchslo.clock.tick_share import sharing_instances
from watchslo.config.sections.clock import ClockConfig
from watchslo.model import Reading, Resource
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.assignment.cache_detector import look_for_cache
from watchslo.monitor.assignment.foreign_clocks import ForeignClocks
from watchslo.monitor.assignment.tick_planner import TickPlanner
from watchslo.monitor.clocks.domain_clock import DomainClock
from watchslo.monitor.clocks.sealer import Sealer
from watchslo.monitor.tasks.task_supervisor import TaskSupervisor
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.snapshot import ReadUse
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import Failure, Reason

MAIN = "main"
NO_NUMBERS = "This server's revisions are no numbers, so it cannot be measured."
OTHERS_READ = 4  # when a tick goes backwards; several resources may have moved at once, though hardly all


class ClockAssignment:
    """Keeps all clocks ticking and every watch on the clock of its domain; see the theory of operation above.

    `witnesses` are the apiservers, by name, through which the main clock ticks although they have no watches. `shards`
    returns the number of instances that share the watches. `new_sealer` returns the sealer of a new domain, and
    `new_reserve` the reserve of a new clock, if any. `on_reset` is called for each watch whose storage was
    restored, or whose resource moved to another storage, before it starts over.
    """

    def __init__(
        self,
        tasks: TaskSupervisor,
        config: ClockConfig,
        shards: Callable[[], int],
        random: Callable[[], float],
        new_sealer: Callable[[Domain], Sealer],
        new_reserve: Callable[[], TickReserve | None],
        on_reset: Callable[[MonitoredWatch], None],
    ) -> None:
        self._tasks = tasks
        self._config = config
        self._shards = shards
        self._random = random
        self._new_sealer = new_sealer
        self._new_reserve = new_reserve
        self._on_reset = on_reset
        self._burst_budget = BurstBudget(config.burst.rate, config.burst.ticks_per_hour)
        self.witnesses: dict[str, Apiserver] = {}
        self._log = structlog.get_logger()
        self._apiservers: dict[str, Apiserver] = {}
        self._watches: dict[int, MonitoredWatch] = {}
        self._probe_due: dict[int, asyncio.Event] = {}
        self._logged: TickPlan | None = None
        self._examined: set[DomainClock] = set()  # those for which it is being found out why a tick went backwards
        self.main = self._new_clock(MAIN, self._gap, self._on_refused)
        self._foreign = ForeignClocks(tasks, config, self._new_clock, self._watches)
        self._planner = TickPlanner(self._apiservers, self.main.tickers, self._members_first, config.namespace, random)
        tasks.start(("plan", MAIN), partial(self._planner.run, self._on_plan))
        tasks.start(("ticks", MAIN), self.main.ticks.run)

    @property
    def clocks(self) -> tuple[DomainClock, ...]:
        return (self.main, *self._foreign.all)

    @property
    def not_ticking(self) -> str | None:
        """Why the main clock has not ticked recently, in a sentence; None if it has."""
        if self.main.ticking and not self.main.is_silent(time.monotonic()):
            return None
        for name in self._apiservers:
            if failure := self.main.tickers[name].failures.now:
                is_server = self._watches and all(watch.session.is_unparsable for watch in self._watches.values())
                return NO_NUMBERS if is_server and failure.reason == Reason.UNPARSABLE else failure.message
        return (
            "No answered tick is known to come from this storage."
            if self.main.ticking
            else "What to tick on is being chosen."
        )

    def limit_bursts(self, rate: float) -> None:
        """Send at most so many ticks a second in the bursts of each clock from now on."""
        self._burst_budget.limit(rate)

    def namespace_of(self, resource: Resource) -> str:
        """Return the namespace in which the main clock reads a resource."""
        return self._planner.namespace_of(resource)

    # Apiservers and watches

    def join(self, apiserver: Apiserver) -> None:
        """Tick through one more apiserver that is watched."""
        self._apiservers[apiserver.name] = apiserver
        self._start_ticking(apiserver)

    async def leave(self, apiserver: Apiserver) -> None:
        """Stop ticking through an apiserver whose watches are all released."""
        del self._apiservers[apiserver.name]
        await self._stop_ticking(apiserver)

    async def set_witnesses(self, witnesses: Mapping[str, Apiserver]) -> None:
        """Tick through exactly these witnesses, by name, in addition to the apiservers that are watched."""
        for name, witness in [*self.witnesses.items()]:
            if witnesses.get(name) is not witness:
                del self.witnesses[name]
                await self._stop_ticking(witness)
        for name, witness in witnesses.items():
            if name not in self.witnesses:
                self.witnesses[name] = witness
                self._start_ticking(witness, witness=True)

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
        number, apiserver = watch.identity.number, watch.identity.apiserver
        del self._watches[number]
        identities = [monitored.identity for monitored in self._watches.values()]
        apiserver.caches.retain(identity.resource for identity in identities if identity.apiserver is apiserver)
        watch.statistics.detach()
        await self._tasks.stop(("probes", number))
        del self._probe_due[number]
        await self._foreign.match()
        self._forget_unused()

    async def close(self) -> None:
        """Stop the main clock, once all watches are released and all apiservers have left."""
        assert not self._watches
        await self._tasks.stop(("plan", MAIN), ("ticks", MAIN))

    def _forget_unused(self) -> None:
        """Make each domain forget the sources that have no watch and are not ticked on."""
        watched = {watch.identity.source for watch in self._watches.values()}
        for clock in self.clocks:
            clock.domain.retain(watched | clock.ticked)

    # Ticks

    def _members_first(self) -> list[MonitoredWatch]:
        """Return all watches; the best candidates for ticks are those that are known to belong to the main domain."""
        member_of = self.main.domain.membership
        return sorted(
            self._watches.values(), key=lambda watch: member_of(watch.identity.source) is not Membership.MEMBER
        )

    def _gap(self) -> float:
        """Return the mean seconds between two ticks through one apiserver; all instances together keep the interval."""
        ticked = sum(self.main.is_useful(name) for name in self.main.tickers)
        return self._config.interval * sharing_instances(ticked, max(1, len(self._apiservers)), self._shards())

    def _start_ticking(self, apiserver: Apiserver, *, witness: bool = False) -> None:
        self.main.join(apiserver.name, partial(self._tick, apiserver), witness=witness)
        if plan := self._planner.plan:
            self.main.tick_on(plan.resources, apiserver.name)

    async def _stop_ticking(self, apiserver: Apiserver) -> None:
        await self.main.leave(apiserver.name)
        self._forget_unused()

    def _new_clock(
        self, name: str, gap: Callable[[], float], refused: Callable[[DomainClock, str], None]
    ) -> DomainClock:
        schedule = TickSchedule(self._random, Burst(self._burst_budget), self._new_reserve())
        return DomainClock(
            name,
            gap,
            schedule,
            self._new_sealer,
            refused,
            self._on_foreign,
            self._on_backwards,
            self._config.storage,
        )

    def _on_plan(self, plan: TickPlan) -> None:
        self.main.set_blind(plan.blind)
        self._tick_on(plan.resources)
        self._forget_unused()

    def _plan_again(self) -> None:
        """Request a new plan, and send no tick until it is made."""
        self._planner.plan_again()
        self._tick_on(())

    def _tick_on(self, resources: Sequence[Resource]) -> None:
        for name in self.main.tickers:
            self.main.tick_on(resources, name)

    async def _tick(self, apiserver: Apiserver, resource: Resource) -> Reading | Failure:
        """Make one tick of the main clock; log a new plan once a tick of it is answered."""
        answer = await apiserver.client.read_nothing(resource, self._planner.namespace_of(resource), "tick")
        plan = self._planner.plan
        if isinstance(answer, Reading) and plan and self._logged != plan and resource in plan.resources:
            self._logged = plan
            keys = [resource.key for resource in plan.resources]
            self._log.info("ticking", domain=MAIN, on=keys, blind=plan.blind)
        return answer

    def _on_refused(self, _: DomainClock, __: str) -> None:
        """Request a new plan if the resources of the present one can be read through no watched apiserver."""
        if all(self.main.tickers[name].failures.now for name in self._apiservers):
            self._plan_again()

    async def _on_backwards(self, clock: DomainClock, tick: Reading) -> None:
        """Find out why a tick went backwards; ticks that do so in the meantime add nothing."""
        if clock in self._examined:
            return
        self._examined.add(clock)
        try:
            has_moved = await self._has_moved(clock, tick)
        finally:
            self._examined.discard(clock)
        if tick.apiserver not in clock.tickers or has_moved is None:
            return  # it has just left, or answers nothing else: then another tick will tell
        if has_moved:
            clock.domain.expel(tick.source)
        else:
            self._reset(clock, tick)
        if clock is self.main:
            self._plan_again()
        else:
            self._foreign.plan(clock)

    async def _has_moved(self, clock: DomainClock, tick: Reading) -> bool | None:
        """Return whether the resource of a tick has left the domain: another member of it has not gone backwards.

        None if there are other members and no read of them is answered, as while an apiserver starts.
        """
        watches = [self._watches[number] for number in clock.numbers]
        others = {
            watch.identity.source: watch
            for watch in watches
            if watch.identity.apiserver.name == tick.apiserver
            and watch.identity.resource.key != tick.resource
            and clock.domain.membership(watch.identity.source) is Membership.MEMBER
        }
        answers = [await self._read(watch) for watch in [*others.values()][:OTHERS_READ]]
        readings = [answer for answer in answers if isinstance(answer, Reading)]
        if answers and not readings:
            return None
        return any(not clock.domain.goes_backwards(reading) for reading in readings)

    def _reset(self, clock: DomainClock, tick: Reading) -> None:
        """Start over with a tick: earlier revisions mean nothing after the storage was restored."""
        self._log.warning("domain_reset", domain=clock.name, watches=len(clock.numbers))
        clock.reset(tick)
        for number in clock.numbers:
            self._start_over(self._watches[number])

    def _start_over(self, watch: MonitoredWatch) -> None:
        """Make a watch list again, because its storage has other revisions now."""
        self._on_reset(watch)
        watch.start_over()

    # Membership

    async def _keep_probing(self, watch: MonitoredWatch) -> None:
        """Probe a watch whenever it opens or proves to be foreign, and until it is settled which clock dates it."""
        backoff, due = Backoff(self._random), self._probe_due[watch.identity.number]
        while True:
            await due.wait()
            due.clear()
            if is_at_risk := not watch.identity.cached:  # if it has a cache now, ticks on it would hide the lag
                await self._look_for_cache(watch)
            await self._probe(watch, self._candidates(watch), backoff)
            while undecided := await self._settle(watch):
                await asyncio.sleep(PROBE_SPACING_SECONDS * (1 + 0.5 * self._random()))
                if any(clock.ticking and not clock.domain.is_judging(watch.identity.source) for clock in undecided):
                    await self._probe(watch, undecided, backoff)
            if not is_at_risk:
                await self._look_for_cache(watch)

    async def _look_for_cache(self, watch: MonitoredWatch) -> None:
        """Find out whether the resource of a watch has a cache; if that changes what is best to tick on, plan again."""
        if not await look_for_cache(watch):
            return
        planner, resource = self._planner, watch.identity.resource
        ticked = planner.plan.resources if planner.plan else (resource,)
        if resource in ticked or all(map(planner.is_cached, ticked)):
            planner.plan_again()  # ticks continue by the present plan: they prove less, but nothing wrong
        await self._foreign.match()

    async def _probe(self, watch: MonitoredWatch, clocks: Sequence[DomainClock], backoff: Backoff) -> None:
        """Read the revision of a watch's resource, if there are ticks to compare it with."""
        if not any(clock.ticking for clock in clocks):
            return
        known = watch.session.revision
        match await self._read(watch):
            case Reading() as reading:
                for clock in clocks:
                    clock.domain.probe(reading)
                watch.statistics.observe(reading, ReadUse.PROBE)
                is_member = watch.statistics.membership is Membership.MEMBER
                if not is_member and known is not None and reading.revision < known:
                    self._start_over(watch)
            case failure:
                await asyncio.sleep(backoff.next(time.monotonic(), failure.retry_after))

    async def _read(self, watch: MonitoredWatch) -> Reading | Failure:
        identity = watch.identity
        return await identity.apiserver.client.read_nothing(identity.resource, identity.probed_in, "probe")

    async def _settle(self, watch: MonitoredWatch) -> list[DomainClock]:
        """Move a watch to the first clock that can date it; return the clocks for which that is not known yet.

        If its source is foreign to all clocks, a new clock starts.
        """
        standings = self._standings(watch)
        chosen = next((clock for clock, standing in standings.items() if standing is Membership.MEMBER), None)
        if chosen is None and Membership.PENDING not in standings.values():
            chosen = self._foreign.start(watch.identity.resource)
        if chosen is not None and chosen is not watch.statistics.clock:
            self._move(watch, chosen)
        await self._foreign.match()
        return [clock for clock, standing in self._standings(watch).items() if standing is Membership.PENDING]

    def _standings(self, watch: MonitoredWatch) -> dict[DomainClock, Membership]:
        return {clock: clock.domain.membership(watch.identity.source) for clock in self._candidates(watch)}

    def _candidates(self, watch: MonitoredWatch) -> list[DomainClock]:
        """Return the clocks that may date a watch: those up to its own, or all if it is foreign to its own."""
        own, now = watch.statistics.clock, time.monotonic()
        clocks = [clock for clock in self.clocks if clock in (self.main, own) or not clock.is_silent(now)]
        is_foreign = watch.statistics.membership is Membership.FOREIGN
        return clocks if is_foreign else clocks[: clocks.index(own) + 1]

    def _move(self, watch: MonitoredWatch, clock: DomainClock) -> None:
        identity = watch.identity
        self._log.warning("domain_changed", watch=identity.label, apiserver=identity.apiserver.name, domain=clock.name)
        watch.statistics.date_by(clock)

    def _on_foreign(self, _: DomainClock, number: int) -> None:
        self._probe_due[number].set()
