"""Which resources are watched for reactions, and at which apiserver."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from watchslo.config.model import Config
from watchslo.config.sections.reactions import ReactionThresholdsConfig
from watchslo.kube.call import Selectors
from watchslo.monitor.reactions.reaction_watch import ReactionWatch
from watchslo.monitor.tasks.lag import Lag
from watchslo.monitor.tasks.task_supervisor import TaskSupervisor
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.reaction.resource_reactions import CacheProof, ResourceReactions
from watchslo.reaction.resources import SLICES
from watchslo.reaction.steps import Sighted
from watchslo.snapshot import ReactionReading
from watchslo.watch.failure import Reason

MOST_RESOURCES = 32  # each is one more watch, of whole objects


@dataclass(frozen=True, slots=True)
class _Hosted:
    """The reactions of a resource, and the watch next to which its whole objects are watched, or were while it ran."""

    host: MonitoredWatch
    watch: ReactionWatch
    reactions: ResourceReactions

    @property
    def is_running(self) -> bool:
        return self.watch in self.host.others


class ReactionSet:
    """Keeps one watch of whole objects for each resource whose reactions are wanted.

    A reaction happens in the storage, so one apiserver is enough: the watch runs next to one that is measured, whose
    clock dates the changes. It moves to another apiserver only if that watch ends.
    """

    def __init__(self, tasks: TaskSupervisor, lag: Lag, random: Callable[[], float]) -> None:
        self._tasks = tasks
        self._lag = lag
        self._random = random
        self._hosted: dict[str, _Hosted] = {}
        self._thresholds = ReactionThresholdsConfig()

    async def settle(self, config: Config, watches: Iterable[MonitoredWatch]) -> None:
        """Watch exactly the wanted resources, next to one of these watches each; what is known of reactions stays."""
        self._thresholds = config.reactions.thresholds
        hosts = _hosts(config, watches)
        wanted = sorted(hosts)[:MOST_RESOURCES]
        for key in [*self._hosted]:
            if key not in wanted:
                await self._stop(self._hosted.pop(key))
        for key in wanted:
            hosted = self._hosted.get(key)
            if hosted is None or not hosted.is_running:
                host = hosts[key][0]
                self._start(host, hosted.reactions if hosted else self._new_reactions(host))

    async def release(self, watch: MonitoredWatch) -> None:
        """Stop what runs next to a watch that ends; `settle` starts it again next to another one."""
        hosted = self._hosted.get(watch.identity.resource.key)
        if hosted and hosted.host.identity is watch.identity:
            await self._stop(hosted)

    def update(self) -> None:
        """Date what the clocks have passed, and record the reactions."""
        for hosted in self._hosted.values():
            statistics = hosted.host.statistics
            clock = statistics.clock.domain.clock
            newest = clock.newest if statistics.measured else None
            hosted.reactions.settle(time.monotonic(), newest, clock.measure)

    def readings(self, proof_of: Callable[[MonitoredWatch], CacheProof | None]) -> Iterator[ReactionReading]:
        """Yield what is shown of each step; `proof_of` returns None for a watch that may withhold events."""
        now = time.monotonic()
        for hosted in self._hosted.values():
            proof = proof_of(hosted.host) if hosted.watch.is_open else None
            yield from hosted.reactions.readings(now, self._thresholds.of, proof)

    def _new_reactions(self, host: MonitoredWatch) -> ResourceReactions:
        identity, threshold = host.identity, host.statistics.threshold
        return ResourceReactions(identity.resource, threshold, self._lag.own_delays, self._pod_ready)

    def _start(self, host: MonitoredWatch, reactions: ResourceReactions) -> None:
        """Watch whole objects next to a watch."""
        identity = host.identity
        watch = ReactionWatch(identity, reactions, self._lag, self._random)
        self._hosted[identity.resource.key] = _Hosted(host, watch, reactions)
        host.others.append(watch)
        self._tasks.start(("reactions", identity.number), watch.run)

    async def _stop(self, hosted: _Hosted) -> None:
        """Close the watch of whole objects of a resource, if it runs."""
        if hosted.is_running:
            hosted.host.others.remove(hosted.watch)
            hosted.watch.halt(Reason.SHUTDOWN)
            await self._tasks.stop(("reactions", hosted.host.identity.number))

    def _pod_ready(self, uid: str, sighted: Sighted) -> None:
        if SLICES in self._hosted:
            self._hosted[SLICES].reactions.pod_ready(uid, sighted)


def _hosts(config: Config, watches: Iterable[MonitoredWatch]) -> Mapping[str, list[MonitoredWatch]]:
    """Return for each wanted resource the watches of all its objects."""
    hosts: dict[str, list[MonitoredWatch]] = {}
    for watch in watches:
        identity = watch.identity
        if config.wants_reactions(identity.resource) and identity.selectors == Selectors() and not identity.replay:
            hosts.setdefault(identity.resource.key, []).append(watch)
    return hosts
