"""The watches that run, and everything that runs for them: clocks, audits, headroom probes and cache probes."""

import itertools
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import structlog

from watchslo.clock.domain import Domain
from watchslo.clock.reserve import TickReserve
from watchslo.clock.storage_kind import ApiserverStorage, storage_of
from watchslo.config.model import Config
from watchslo.latency.bins import Bins
from watchslo.latency.track import Track
from watchslo.model import Reading, Resource
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.apiservers.apiserver_set import ApiserverSet
from watchslo.monitor.assignment.clock_assignment import ClockAssignment
from watchslo.monitor.assignment.storage_prober import StorageProber
from watchslo.monitor.assignment.tick_planner import EVENTS
from watchslo.monitor.checks.auditor import Auditor
from watchslo.monitor.checks.cache_prober import CacheProber
from watchslo.monitor.checks.delivery_checker import DeliveryChecker
from watchslo.monitor.checks.headroom_prober import HeadroomProber
from watchslo.monitor.checks.metrics_reader import MetricsReader
from watchslo.monitor.checks.peers import PeerComparison
from watchslo.monitor.checks.witness_reader import WitnessReader
from watchslo.monitor.clocks.domain_clock import DomainClock
from watchslo.monitor.clocks.sealer import Sealer
from watchslo.monitor.informers.informer_set import InformerSet
from watchslo.monitor.protocol.desired import DesiredWatch
from watchslo.monitor.protocol.watch_identity import WatchIdentity
from watchslo.monitor.reactions.reaction_set import ReactionSet
from watchslo.monitor.tasks.lag import Lag
from watchslo.monitor.tasks.slices import WorkSlices
from watchslo.monitor.tasks.task_supervisor import TaskSupervisor
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.monitor.watches.reference_watch import ReferenceWatch
from watchslo.monitor.watches.watch_session import WatchSession
from watchslo.monitor.watches.watch_statistics import WatchStatistics
from watchslo.snapshot import HeadroomReading, StorageKind
from watchslo.watch.audit import Health
from watchslo.watch.failure import Reason

HEADROOM_SHARE = 0.1  # of all probes: a headroom changes slowly
NEEDED_SHARE = 0.2  # of its threshold: for a watch as late as this, the hops are worth separating
PROBING = ("audits", "headroom", "storage")  # tasks of each apiserver that send requests of their own
SLOW_TICK_SECONDS = 0.075  # more than through the fastest apiserver: reads of the cache show on which side that is lost


@dataclass(frozen=True, slots=True)
class _ServedApiserver:
    """An apiserver, its watches by label, and the objects that probe it; no headroom is probed without quantiles."""

    apiserver: Apiserver
    watches: dict[str, MonitoredWatch]
    auditor: Auditor
    headroom: HeadroomProber | None


class WatchSet:
    """Starts and ends watches; `settle` makes the running watches match the desired ones.

    It owns which watches run, their tasks, and one auditor and headroom prober for each apiserver that has watches.
    The clocks exist while there are apiservers. It decides nothing: the `Reconciler` says what should run. With
    `replay`, watches begin at the oldest revision in reach.
    """

    def __init__(
        self,
        config: Config,
        tasks: TaskSupervisor,
        apiservers: ApiserverSet,
        bins: Bins,
        lag: Lag,
        random: Callable[[], float],
        *,
        replay: bool = False,
    ) -> None:
        self.cache_prober = CacheProber(
            lambda: self.all,
            lambda: self._probes_per_second(1.0 - HEADROOM_SHARE),
            self._needs_hops,
            self._asks_for_hops,
            random,
        )
        self.peers = PeerComparison(self.cache_prober.clock_of)
        self.delivery_checker = DeliveryChecker(
            self.runs, lambda watch: self._served[watch.identity.apiserver.name].auditor
        )
        self.witness_reader = WitnessReader(self._reread, apiservers, self._auditor_of, lag.tainted, random)
        self.informers = InformerSet(tasks, apiservers.credentials, self.is_current, random)
        self.metrics_reader = MetricsReader(
            lambda: [*apiservers.members.values()], lambda: self.all, self.informers.take_of_apiserver, random
        )
        self.assignment: ClockAssignment | None = None
        self.reactions = ReactionSet(tasks, lag, random)
        self.ended = 0  # watches, so far
        self._config = config
        self._tasks = tasks
        self._apiservers = apiservers
        self._bins = bins
        self._lag = lag
        self._random = random
        self._replay = replay
        self._served: dict[str, _ServedApiserver] = {}
        self._numbers = itertools.count(1)
        self._log = structlog.get_logger()

    def configure(self, config: Config) -> None:
        """Use other limits from now on."""
        self._config = config
        if self.assignment:
            self.assignment.limit_bursts(config.clock_in_force.burst.rate)

    @property
    def all(self) -> list[MonitoredWatch]:
        return [watch for served in self._served.values() for watch in served.watches.values()]

    @property
    def clocks(self) -> tuple[DomainClock, ...]:
        return self.assignment.clocks if self.assignment else ()

    @property
    def apiservers(self) -> set[Apiserver]:
        """The apiservers that have watches or are ticked on."""
        witnesses = self.assignment.witnesses.values() if self.assignment else ()
        return {*(served.apiserver for served in self._served.values()), *witnesses}

    @property
    def auditors(self) -> list[Auditor]:
        """One for each apiserver that has watches."""
        return [served.auditor for served in self._served.values()]

    @property
    def probing_tasks(self) -> list[Hashable]:
        """The names of the tasks that send requests of their own, except watches, ticks and membership probes."""
        return [
            "hops",
            "guarantees",
            "witness_reads",
            "metrics_page",
            *self.informers.tasks,
            *((work, name) for name in self._served for work in PROBING),
        ]

    def runs(self, watch: MonitoredWatch) -> bool:
        """Return True if a watch has not ended."""
        served = self._served.get(watch.identity.apiserver.name)
        running = served and served.watches.get(watch.identity.label)
        return bool(running and running.identity is watch.identity)

    def watched(self) -> dict[Resource, bool]:
        """Return whether a watch is open, for each resource that is watched."""
        watched: dict[Resource, bool] = {}
        for watch in self.all:
            resource = watch.identity.resource
            watched[resource] = watched.get(resource, False) or watch.session.up
        return watched

    def health(self, watch: MonitoredWatch) -> Health:
        """Return what audits found of a watch that runs."""
        return self._served[watch.identity.apiserver.name].auditor.health(watch)

    def is_current(self, watch: MonitoredWatch) -> bool:
        """Return True if a watch runs and is not known to withhold events."""
        if not self.runs(watch):
            return False
        now = time.monotonic()
        is_stalled = self.health(watch).stalled_for(now, watch.session.revision) is not None
        return watch.session.up and not is_stalled and watch.identity.apiserver.unresponsive_for(now) is None

    def headroom(self, watch: MonitoredWatch) -> HeadroomReading | None:
        """Return the headroom of the resource of a watch that runs; None if it is not known."""
        prober = self._served[watch.identity.apiserver.name].headroom
        return prober.headroom(watch.identity.resource) if prober else None

    async def compare_peers(self, slices: WorkSlices) -> None:
        """Compare the watches of each resource with each other."""
        await self.peers.compare(self.all, time.monotonic(), slices)
        if self._config.guarantees.compares:
            await self.delivery_checker.compare(self.all, slices)

    # Which watches run

    async def settle(
        self,
        desired: Mapping[str, DesiredWatch],
        members: Mapping[str, Apiserver],
        witnesses: Mapping[str, Apiserver],
        reason: Reason,
    ) -> None:
        """Run exactly the desired watches, by label, at each of the `members`; `reason` closes the others.

        The `witnesses` are only ticked on.
        """
        await self._end_others(desired, members, reason)
        if members and self.assignment is None:
            self.assignment = ClockAssignment(
                self._tasks,
                self._config.clock_in_force,
                lambda: self._config.shard.count,
                self._random,
                self._new_sealer,
                self._new_reserve,
                self._forget_revisions,
            )
        await self._serve(members)
        if self.assignment:
            await self.assignment.set_witnesses(witnesses)
        if self.assignment and not members:
            await self.assignment.close()
            self.assignment = None
        for label in desired:
            for name, apiserver in members.items():
                if label not in self._served[name].watches:
                    self._start(apiserver, label, desired[label])
        await self.reactions.settle(self._config, self.all)
        await self.informers.settle(self._config, self.all)

    async def _end_others(
        self, desired: Mapping[str, DesiredWatch], members: Mapping[str, Apiserver], reason: Reason
    ) -> None:
        """End the watches that are no longer desired; a watch with only another objective continues."""
        slices = WorkSlices()
        for watch in self.all:
            await slices.pause()
            name, label = watch.identity.apiserver.name, watch.identity.label
            same = name in members and label in desired and desired[label].same_request(watch.desired)
            if not same or watch.identity.apiserver is not members[name]:
                await self._end(watch, reason)
                continue
            if desired[label].objective != watch.desired.objective:
                self._log.info("objective_changed", watch=label, apiserver=name)
                watch.statistics.replace_track(self._new_track(desired[label]))
            self._served[name].watches[label] = replace(watch, desired=desired[label])

    async def _serve(self, members: Mapping[str, Apiserver]) -> None:
        """Leave the apiservers that are no longer members, and join those that are new."""
        for name, served in list(self._served.items()):
            if members.get(name) is not served.apiserver:
                await self._leave(served.apiserver)
        for name, apiserver in members.items():
            if name not in self._served:
                self._join(apiserver)

    def _join(self, apiserver: Apiserver) -> None:
        """Begin to tick through an apiserver, and to audit and probe its watches."""
        assert self.assignment is not None
        self.assignment.join(apiserver)
        watches: dict[str, MonitoredWatch] = {}
        auditor = Auditor(
            watches=watches.values,
            apiserver=apiserver,
            budget=lambda: self._config.limits.audits_per_second / len(self._served),
            ticks=partial(self._latest_ticks, apiserver.name),
            late=self._lag.tainted,
            replays=lambda: self._config.guarantees.replays,
            random=self._random,
        )
        self._tasks.start(("audits", apiserver.name), auditor.run)
        if self._config.clock.storage == "auto":
            namespace = partial(self.assignment.namespace_of, EVENTS)
            prober = StorageProber(apiserver, namespace, lambda: self._config.probes_storage, self._random)
            self._tasks.start(("storage", apiserver.name), prober.run)
        headroom = None
        if self._config.mode == "cluster":
            headroom = HeadroomProber(watches.values, apiserver, self._headroom_probes_per_second, self._random)
            self._tasks.start(("headroom", apiserver.name), headroom.run)
        self._served[apiserver.name] = _ServedApiserver(apiserver, watches, auditor, headroom)

    async def _leave(self, apiserver: Apiserver) -> None:
        """Send no more requests to an apiserver whose watches have ended."""
        assert self.assignment is not None
        await self._tasks.stop(*((work, apiserver.name) for work in PROBING))
        await self.assignment.leave(apiserver)
        del self._served[apiserver.name]

    def _start(self, apiserver: Apiserver, label: str, desired: DesiredWatch) -> None:
        assert self.assignment is not None
        identity = WatchIdentity(
            number=next(self._numbers),
            label=label,
            config=desired.watch,
            resource=desired.resource,
            apiserver=apiserver,
            longest_line=desired.longest_line,
            probed_in=desired.watch.namespace or self._config.tick_namespaces[0],
            replay=self._replay,
            of_many=self._config.mode == "node",
        )
        statistics = WatchStatistics(
            identity, self._new_track(desired), self.assignment.main, self._lag, lambda: self._apiservers.creators
        )
        opened = partial(self.assignment.watch_opened, identity.number)
        session = WatchSession(identity, statistics, self._random, opened)
        reference = ReferenceWatch(identity, statistics, self._random) if identity.has_reference_watch else None
        watch = MonitoredWatch(identity, desired, session, statistics, reference)
        served = self._served[apiserver.name]
        served.watches[label] = watch
        served.auditor.add(watch)
        self.assignment.admit(watch)
        self._tasks.start(("stream", identity.number), session.run)
        if reference is not None:
            self._tasks.start(("reference", identity.number), reference.run)

    async def _end(self, watch: MonitoredWatch, reason: Reason) -> None:
        assert self.assignment is not None
        served = self._served[watch.identity.apiserver.name]
        self.ended += 1
        await self.reactions.release(watch)
        watch.halt(reason)
        served.apiserver.checked.update(watch.session.read_guarantees().checked)
        del served.watches[watch.identity.label]
        served.auditor.remove(watch)
        await self.assignment.release(watch)
        await self._tasks.stop(*((work, watch.identity.number) for work in ("stream", "reference")))

    # What the parts ask for

    def _reread(self) -> list[MonitoredWatch]:
        """Return the watches whose events may be read again elsewhere."""
        is_wanted = self._config.guarantees.compares and self._config.limits.audits_per_second > 0
        return self.all if is_wanted else []

    def _auditor_of(self, watch: MonitoredWatch) -> Auditor | None:
        """Return the auditor of a watch; None if the watch has ended."""
        return self._served[watch.identity.apiserver.name].auditor if self.runs(watch) else None

    def _probes_per_second(self, share: float) -> float:
        return share * self._config.limits.probes_per_second

    def _headroom_probes_per_second(self) -> float:
        """Return the budget of one apiserver."""
        return self._probes_per_second(HEADROOM_SHARE) / len(self._served)

    def _new_sealer(self, domain: Domain) -> Sealer:
        return Sealer(domain, self._bins, self._lag.own_delays, self.cache_prober.clock_of, self._storage_of)

    def _storage_of(self, name: str) -> ApiserverStorage:
        served = self._served.get(name)
        found = served.apiserver.storage if served else StorageKind.UNKNOWN
        return storage_of(self._config.clock.storage, found, self._apiservers.servers)

    def _new_reserve(self) -> TickReserve | None:
        """Return the reserve of a new clock; None if estimates need ticks at times that no event decides."""
        return None if self._config.mode == "cluster" else TickReserve(self._config.shortest_threshold)

    def _new_track(self, desired: DesiredWatch) -> Track:
        creation = desired.watch.measures_creation(desired.resource)
        return Track(
            self._bins,
            desired.objective,
            time.monotonic(),
            self._lag.own_delays,
            creation=creation,
            quantiles=self._config.mode == "cluster",
        )

    def _latest_ticks(self, apiserver: str) -> list[Reading]:
        ticks = (clock.domain.clock.latest_of(apiserver) for clock in self.clocks)
        return [tick for tick in ticks if tick]

    def _forget_revisions(self, watch: MonitoredWatch) -> None:
        watch.identity.apiserver.forget_storage()
        self._served[watch.identity.apiserver.name].auditor.forget_revisions(watch)

    def _needs_hops(self, watch: MonitoredWatch, now: float) -> bool:
        """Return True if a watch is late, or may be late unnoticed, so that its hops are worth separating."""
        if not self.runs(watch):
            return False
        statistics = watch.statistics
        ticker = statistics.clock.tickers.get(watch.identity.apiserver.name)
        if ticker is not None and ticker.failures.now:
            return True
        if self.health(watch).stalled_for(now, watch.session.revision) is not None:
            return True
        late = NEEDED_SHARE * statistics.threshold
        return (self.peers.behind_peers(watch.identity.number) or 0.0) > late or statistics.slowest > late

    def _asks_for_hops(self, watch: MonitoredWatch) -> bool:
        """Return True if the hops of a watch are wanted although it is not late.

        The configuration may ask for them, or the last ticks of its apiserver were slow: by themselves, or against the
        fastest apiserver. Reads of caches then show on which side the time is lost.
        """
        statistics = watch.statistics
        revisions = statistics.clock.domain.clock
        own = revisions.recent_round_trip_of(watch.identity.apiserver.name) or 0.0
        is_behind = own - (revisions.median_round_trip or 0.0) > SLOW_TICK_SECONDS
        is_slow = own > max(NEEDED_SHARE * statistics.threshold, SLOW_TICK_SECONDS)
        return watch.desired.watch.hops or is_behind or is_slow
