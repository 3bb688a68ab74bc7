"""A simulated cluster: etcd, one apiserver, and the faults between them.

`Cluster` owns all simulated state; the HTTP server, the control API and the workload act through it.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from random import Random

import msgspec

from watchslo.errors import ConfigError
from watchslo.sim import status
from watchslo.sim.delay_law import NO_DELAY, DelayLaw
from watchslo.sim.delays import DelayTable
from watchslo.sim.encoding import ObjectEncoder, ObjectForm
from watchslo.sim.event_edits import EditLog
from watchslo.sim.faults import ALL_RESOURCES, ActiveFault, Fault, Faults, SimHop, WatchDisruption, known_fault
from watchslo.sim.kinds import BUILT_IN, Object, ResourceKind
from watchslo.sim.metrics_page import CachedRevisions
from watchslo.sim.query import ListOptions, ObjectSelector
from watchslo.sim.registry import new_object, next_version
from watchslo.sim.resource_server import CachedServer, ResourceServer
from watchslo.sim.store import Etcd, RevisionLog, StorageClock, StoredChange
from watchslo.sim.watch_connection import WatchConnection, WatchEnvironment, WatchParameters, WatchStart

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


_KEPT_COMMITS = 100_000
"""Commits that etcd keeps when it compacts itself."""
_KEPT_RECORDS = 200_000
"""Commits and sends in the ground truth of each resource, and edits by faults in that of the cluster."""


class CommitTimes(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A storage whose revisions are commit times in nanoseconds, as on GKE."""

    offset: float = 0.0
    """How many seconds its clock is ahead of the host's."""
    drift: float = 0.0
    """By how much its clock is too fast, in seconds a second."""
    reads: bool = True
    """Whether a consistent read has the revision of its own time, and not that of the last commit."""
    uncertainty: float = 0.0
    """For up to how many seconds a commit waits after its time until it is visible, as on Spanner."""

    def clock(self, random: Random) -> StorageClock:
        """Return the clock of such a storage; it drifts from now on."""
        unix = time.time() - time.monotonic() * (1 + self.drift) + self.offset
        wait = partial(random.uniform, 0.0, self.uncertainty)
        return StorageClock(unix, self.drift, dates_reads=self.reads, wait=wait)


class ClusterSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The settings of a cluster. Durations are seconds."""

    token: str = ""
    """The bearer token that requests must carry; empty for no authentication."""
    clock_offset: float = 0.0
    """How far the apiserver's wall clock is ahead of the host's."""
    commit_times: CommitTimes | None = None
    """The storage numbers its commits by time, instead of counting them."""
    window: int = 10_000
    """Maximum number of changes in the watch cache of each resource."""


class Cluster:
    """Owns all simulated state. It runs on one event loop, so every reader sees a commit from the same instant on.

    `started` is its Unix time. `commits` and `sends` are the times of the revisions of each resource; a send is to one
    watch.
    """

    def __init__(self, settings: ClusterSettings, random: Random) -> None:
        self.settings = settings
        self.started = time.time()
        self.commits: defaultdict[str, RevisionLog] = defaultdict(partial(RevisionLog, _KEPT_RECORDS))
        self.sends: defaultdict[str, RevisionLog] = defaultdict(partial(RevisionLog, _KEPT_RECORDS))
        self.edits = EditLog(_KEPT_RECORDS)
        self.faults = Faults(random)
        clock = settings.commit_times.clock(random) if settings.commit_times else None
        self.etcd = Etcd(_KEPT_COMMITS, clock)
        self._random = random
        self._delays = DelayTable(self.faults)
        self._repeat_timers: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self._last_watch = 0
        self._kept_informers: dict[str, int] = {}  # their revisions, while a fault keeps them
        self._servers: dict[str, ResourceServer] = {}
        for name in _NAMESPACES:
            namespace = {"metadata": {"name": name}, "spec": {}, "status": {"phase": "Active"}}
            self.create(BUILT_IN["namespaces"], None, namespace)
        self._servers.update((kind.key, self._new_server(kind)) for kind in BUILT_IN.values() if not kind.storage)

    def wall(self) -> float:
        """Return the Unix time of the apiserver's wall clock."""
        return time.time() + self.settings.clock_offset + self.faults.clock

    def resource_server(self, kind: ResourceKind) -> ResourceServer:
        return self._servers[kind.stored]

    def cached_revisions(self) -> Iterator[CachedRevisions]:
        """Yield what the watch caches and the informers have reached."""
        for name, server in self._servers.items():
            if isinstance(server, CachedServer):
                informer = self._kept_informers.get(name, self.etcd.revision)
                yield CachedRevisions(BUILT_IN[name], server.cache.revision, informer)

    # Reading and writing single objects

    def get(self, kind: ResourceKind, namespace: str | None, name: str) -> Object:
        """Return one object.

        Raises:
            StatusError: 404 if it does not exist.
        """
        obj = self.etcd.table(kind.stored).get(kind.object_key(namespace, name))
        if obj is None:
            raise status.not_found(kind, name)
        return obj

    def create(self, kind: ResourceKind, namespace: str | None, body: Object) -> Object:
        """Store a new object.

        Raises:
            StatusError: 404 for an unknown namespace, 409 if the object exists.
        """
        if kind.namespaced:
            self.get(BUILT_IN["namespaces"], None, namespace or "")
        obj = new_object(self._random, namespace, body, self.wall())
        name = obj["metadata"]["name"]
        key = kind.object_key(namespace, name)
        if self.etcd.table(kind.stored).get(key):
            raise status.already_exists(kind, name)
        return self._put(kind, key, obj)

    def update(
        self, kind: ResourceKind, namespace: str | None, name: str, change: Callable[[Object], Object]
    ) -> Object:
        """Store the new version that `change` makes of an object; do nothing if both are equal.

        Raises:
            StatusError: 404 if it does not exist.
        """
        old = self.get(kind, namespace, name)
        new = next_version(old, change(old))
        return old if new is old else self._put(kind, kind.object_key(namespace, name), new)

    def delete(self, kind: ResourceKind, namespace: str | None, name: str) -> Object:
        """Delete an object at once.

        Raises:
            StatusError: 404 if it does not exist.
        """
        self.get(kind, namespace, name)
        change = self.etcd.delete(kind.stored, kind.object_key(namespace, name), time.monotonic())
        self._committed(change)
        return change.object

    def _put(self, kind: ResourceKind, key: str, obj: Object) -> Object:
        change = self.etcd.put(kind.stored, key, obj, time.monotonic())
        self._committed(change)
        return change.object

    def _committed(self, change: StoredChange) -> None:
        self.commits[change.resource].append(change.committed, change.revision)
        if server := self._servers.get(change.resource):
            server.committed(change)

    # Watches

    @asynccontextmanager
    async def watch(
        self, options: ListOptions, selector: ObjectSelector, encoder: ObjectEncoder, deadline: float
    ) -> AsyncIterator[WatchConnection]:
        """Open a watch, which receives every new change until the context ends."""
        kind = encoder.kind
        server = self.resource_server(kind)
        start = await server.start_watch(options, selector)
        if start.refusal and self.faults.closes_silently(kind.stored):
            start = WatchStart(0, over=True)
        self._last_watch += 1
        hops = (SimHop.ENCODING, SimHop.CLIENT) if encoder.form is ObjectForm.OBJECT else (SimHop.CLIENT,)
        delays = [self._delays.hop_delay(hop, kind.stored) for hop in hops]
        watch = WatchConnection(
            self._last_watch,
            WatchParameters(kind.stored, selector, encoder, options.bookmarks and kind.cached, deadline),
            start,
            WatchEnvironment(
                server.bookmark,
                lambda: next((delay.law for delay in delays if delay.law is not NO_DELAY), NO_DELAY),
                self._random,
                self.sends[kind.stored],
                self.edits,
            ),
            self.faults.resume_edits(kind.stored) if start.resumes else {},
        )
        if not (start.over or start.refusal):  # a watch that ends at once receives no changes
            server.watches.add(watch)
        try:
            yield watch
        finally:
            watch.close()
            server.watches.discard(watch)

    def stop(self) -> None:
        """End all watches and timers."""
        for timer in self._repeat_timers.values():
            timer.cancel()
        for server in self._servers.values():
            server.stop()

    def _new_server(self, kind: ResourceKind) -> ResourceServer:
        if not kind.cached:
            return ResourceServer(kind.stored, self.etcd)
        delay = self._delays.hop_delay(SimHop.STORAGE, kind.stored)
        return CachedServer(kind.stored, self.etcd, lambda: delay.law, self._random, self.settings.window)

    # Delays and faults

    def set_law(self, hop: SimHop, resource: str, law: DelayLaw) -> None:
        """Set the delay law of a hop for one resource, or for all.

        Raises:
            ConfigError: for an unknown resource, or for a resource without this hop.
        """
        self._check_resource(resource)
        if hop is SimHop.STORAGE and resource != ALL_RESOURCES and not BUILT_IN[resource].cached:
            raise ConfigError(f"{resource} has no watch cache and so no hop `storage`. Set the hop `client`.")
        self._delays.set(hop, resource, law)

    def switch_on(self, name: str, resource: str = ALL_RESOURCES, law: str = "") -> ActiveFault:
        """Switch on a fault of `watchslo.sim.faults`.

        Raises:
            ConfigError: for an unknown fault or resource, or an invalid delay law.
        """
        self._check_resource(resource)
        active = self.faults.switch_on(name, resource, law)
        self._delays.apply()
        self._apply_windows(resource)
        self._apply_hold(active.fault, resource, held=True)
        if active.fault.keeps_informers:
            kept = {server.resource: self.etcd.revision for server in self._servers_of(resource)}
            self._kept_informers = kept | self._kept_informers
        if active.fault.disruption:
            self._disrupt(active.fault.disruption, active)
        return active

    def switch_off(self, name: str, resource: str = ALL_RESOURCES) -> None:
        """Switch off a fault.

        Raises:
            ConfigError: for an unknown fault.
        """
        self.faults.switch_off(name, resource)
        self._delays.apply()
        self._apply_windows(resource)
        self._apply_hold(known_fault(name), resource, held=False)
        if known_fault(name).keeps_informers:
            for server in self._servers_of(resource):
                self._kept_informers.pop(server.resource, None)
        self._cancel_repeat(name, resource)
        self._end_edits(known_fault(name), resource)

    def _check_resource(self, resource: str) -> None:
        if resource not in (ALL_RESOURCES, *self._servers):
            raise ConfigError(f"{resource!r} is not simulated. The resources are {', '.join(self._servers)}.")

    def _servers_of(self, resource: str) -> list[ResourceServer]:
        return [server for name, server in self._servers.items() if resource in (ALL_RESOURCES, name)]

    def _window(self, resource: str) -> int:
        return min(self.faults.window(resource) or self.settings.window, self.settings.window)

    def _apply_windows(self, resource: str) -> None:
        for name, server in self._servers.items():
            if resource in (ALL_RESOURCES, name):
                server.set_capacity(self._window(name))

    def _apply_hold(self, fault: Fault, resource: str, *, held: bool) -> None:
        """Hold or release the hop of a fault. The client hop is held only for open watches, not for later ones."""
        if not fault.held:
            return
        for server in self._servers_of(resource):
            if fault.hop is SimHop.STORAGE:
                server.hold(held=held)
                continue
            for watch in tuple(server.watches):
                watch.hold(held=held)

    def _end_edits(self, fault: Fault, resource: str) -> None:
        for server in self._servers_of(resource) if fault.edit else ():
            for watch in tuple(server.watches):
                watch.end_edit(fault.name)

    def _disrupt(self, disruption: WatchDisruption, active: ActiveFault) -> None:
        """Disrupt open watches now, and schedule the next time."""
        self._cancel_repeat(active.fault.name, active.resource)
        for server in self._servers_of(active.resource):
            _DISRUPTIONS[disruption](server, active.fault)
        timer = asyncio.get_running_loop().call_later(active.fault.every, self._disrupt, disruption, active)
        self._repeat_timers[active.fault.name, active.resource] = timer

    def _cancel_repeat(self, name: str, resource: str) -> None:
        timer = self._repeat_timers.pop((name, resource), None)
        if timer:
            timer.cancel()


def _edit(server: ResourceServer, fault: Fault) -> None:
    """Edit the next events of the oldest watch, or of the oldest one with bookmarks if the edit needs them."""
    assert fault.edit is not None  # every fault with this disruption has an edit
    watches = [watch for watch in server.watches if watch.has_bookmarks or not fault.edit.needs_bookmarks]
    if watches:
        min(watches, key=lambda watch: watch.number).edit(fault.name, fault.edit)


def _inject(server: ResourceServer, fault: Fault) -> None:
    for watch in tuple(server.watches):
        watch.inject(fault.line)


def _cut(server: ResourceServer, _fault: Fault) -> None:
    for watch in tuple(server.watches):
        watch.cut()


_DISRUPTIONS: dict[WatchDisruption, Callable[[ResourceServer, Fault], None]] = {
    WatchDisruption.EXPIRE: lambda server, _fault: server.expire(),
    WatchDisruption.FORGET: lambda server, _fault: server.drop_revisions(),
    WatchDisruption.EDIT: _edit,
    WatchDisruption.INJECT: _inject,
    WatchDisruption.CUT: _cut,
}
