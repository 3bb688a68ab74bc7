"""A simulated cluster: etcd, one apiserver before it, and what goes wrong between them."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

import msgspec

from watchslo.errors import ConfigError
from watchslo.sim import status
from watchslo.sim.delay import Law
from watchslo.sim.faults import EVERYTHING, Active, Blow, Fault, Faults, Hop, known_fault
from watchslo.sim.kinds import BUILT_IN, CRDS, Kind, Object, custom_kind, timestamp
from watchslo.sim.query import Options, Scope
from watchslo.sim.registry import Registry
from watchslo.sim.served import PROFILES, Cached, Served, Uncached
from watchslo.sim.store import Change, Etcd, Truth
from watchslo.sim.stream import Beginning, Request, Stream
from watchslo.sim.ways import Ways
from watchslo.sim.wire import Representation

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_ESTABLISHED_AFTER = 0.01
"""Seconds until the resource of a new CustomResourceDefinition is there (seen on kube-apiserver 1.36)."""
_BACK = 50
"""Revisions between a backup and the storage that is restored from it."""
_REPLACED_LIVES_ON = 1.0
"""Seconds that watches of a changed CustomResourceDefinition live on (seen there too)."""


class Settings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a cluster is like. Durations are seconds."""

    version: str = "1.36"
    watch_list: bool | None = None
    """The feature gate WatchList, where it is not as in the version."""
    token: str = ""
    """The bearer token that requests need; none is needed without."""
    identity: bool = False
    """Whether the apiserver keeps a lease that says that it is there, renewed every ten seconds."""
    clock_offset: float = 0.0
    """How far the apiserver's wall clock is ahead of this machine's."""
    second_etcd: tuple[str, ...] = ()
    """Resources in another etcd, with revisions of its own: `["events"]`."""
    initialization: float = 0.05
    """How long watch caches are not ready after a restart or a new CustomResourceDefinition."""
    window: int = 10_000
    """Changes that a watch cache remembers, for each resource."""
    retain: int = 100_000
    """Revisions that etcd keeps uncompacted by itself."""
    backlog: int = 4 << 20
    """Bytes that may wait for a slow client before its watch is closed."""
    truth: int = 200_000
    """Commits and sends that are remembered, for each resource."""


class Cluster:
    """Owns all that is simulated. It runs on one event loop, so a commit is seen by all from the same instant on."""

    def __init__(self, settings: Settings, random: Random) -> None:
        if settings.version not in PROFILES:
            raise ConfigError(f"version {settings.version!r} is not simulated. There are {', '.join(PROFILES)}.")
        gate, profile = settings.watch_list, PROFILES[settings.version]
        self.settings = settings
        self.profile = profile if gate is None else replace(profile, watch_list=gate)
        self.kinds: dict[str, Kind] = dict(BUILT_IN)
        self.truth = Truth(settings.truth)
        self.faults = Faults(random)
        self.etcds = [Etcd(settings.retain)]
        if settings.second_etcd:
            self.etcds.append(Etcd(settings.retain))
        self._random = random
        self._registry = Registry(random)
        self._ways = Ways(self.faults)
        self._served: dict[str, Served] = {}
        self._listening: dict[str, list[Served]] = {}
        self._blows: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self._last_stream = 0
        for name in _NAMESPACES:
            namespace = {"metadata": {"name": name}, "spec": {}, "status": {"phase": "Active"}}
            self.create(BUILT_IN["namespaces"], None, namespace)
        self._founded = [etcd.revision for etcd in self.etcds]
        for kind in BUILT_IN.values():
            if not kind.storage:
                self._serve(kind, ready_after=0.0)

    def wall(self) -> float:
        """The apiserver's wall clock: Unix seconds."""
        return time.time() + self.settings.clock_offset + self.faults.clock

    def served(self, kind: Kind) -> Served:
        return self._served[kind.stored]

    def etcd(self, kind: Kind) -> Etcd:
        return self.etcds[-1 if kind.stored in self.settings.second_etcd else 0]

    # Reading and writing single objects

    def get(self, kind: Kind, namespace: str | None, name: str) -> Object:
        """One object.

        Raises:
            StatusError: 404.
        """
        obj = self.etcd(kind).table(kind.stored).get(kind.object_key(namespace, name))
        if obj is None:
            raise status.not_found(kind, name)
        return obj

    def create(self, kind: Kind, namespace: str | None, body: Object) -> Object:
        """Store a new object.

        Raises:
            StatusError: 400, 404 without its namespace, 409 when it exists, 422.
        """
        if kind.namespaced:
            self.get(BUILT_IN["namespaces"], None, namespace or "")
        obj = self._registry.create(kind, namespace, body, self.wall())
        if kind.key == CRDS:
            _check_definition(obj)
        name = obj["metadata"]["name"]
        key = kind.object_key(namespace, name)
        if self.etcd(kind).table(kind.stored).get(key):
            raise status.already_exists(kind, name)
        return self._put(kind, key, obj)

    def update(self, kind: Kind, namespace: str | None, name: str, change: Callable[[Object], Object]) -> Object:
        """Store a new version of an object, made from the old one; nothing happens when they are equal.

        Raises:
            StatusError: 404, 409 when the new version is based on another one than the old.
        """
        old = self.get(kind, namespace, name)
        new = self._registry.replace(kind, old, change(old))
        return old if new is old else self._put(kind, kind.object_key(namespace, name), new)

    def delete(self, kind: Kind, namespace: str | None, name: str) -> Object:
        """Delete an object, at once; custom resources go before their definition.

        Raises:
            StatusError: 404.
        """
        self.get(kind, namespace, name)
        if kind.key == CRDS and name in self.kinds:
            custom = self.kinds[name]
            for key, _ in list(self.etcd(custom).table(custom.stored).items()):
                self._committed(self.etcd(custom).delete(custom.stored, key, time.monotonic()))
        change = self.etcd(kind).delete(kind.stored, kind.object_key(namespace, name), time.monotonic())
        self._committed(change)
        return change.object

    def _put(self, kind: Kind, key: str, obj: Object) -> Object:
        change = self.etcd(kind).put(kind.stored, key, obj, time.monotonic())
        self._committed(change)
        return change.object

    def _committed(self, change: Change) -> None:
        self.truth.commits(change.resource).append(change.committed, change.revision)
        for served in self._listening.get(change.resource, ()):
            served.committed(change)
        if change.resource == CRDS:
            self._defined(change)

    # Watches

    @asynccontextmanager
    async def watch(
        self, options: Options, scope: Scope, representation: Representation, deadline: float
    ) -> AsyncIterator[Stream]:
        """A new stream, which is offered every change from now on, until it is left.

        Raises:
            StatusError: 429 while the watch cache is not ready, 500 for a revision that is no number.
        """
        kind = representation.kind
        served = self.served(kind)
        beginning = await served.begin(options, scope)
        if beginning.refusal and self.faults.mute(kind.stored):
            beginning = Beginning(0, over=True)
        self._last_stream += 1
        way = self._ways.way(Hop.CLIENT, kind.stored)
        stream = Stream(
            self._last_stream,
            Request(scope, representation, options.bookmarks, deadline),
            beginning,
            served.bookmark,
            lambda: way.law,
            self._random,
            self.wall,
            self.truth.sends(kind.stored),
            self.settings.backlog,
        )
        if not (beginning.over or beginning.refusal):  # one that ends at once is offered nothing
            served.streams.add(stream)
        try:
            yield stream
        finally:
            stream.close()
            served.streams.discard(stream)

    # What is served

    def state(self) -> dict[str, dict[str, Any]]:
        """What each resource is like now, by its name."""
        return {
            kind.stored: {
                "objects": len(self.etcd(kind).table(kind.stored)),
                "streams": [stream.number for stream in self.served(kind).streams],
                **{hop.value: self.law(hop, kind.stored).text for hop in Hop},
                **self.served(kind).state(),
            }
            for kind in self._stored_kinds()
        }

    def restart(self) -> None:
        """Restart the apiserver: watches end, caches are filled anew, and know nothing older than that."""
        for kind in self._stored_kinds():
            self._replace(kind, lives_on=0.0)

    def compact(self, revision: int | None = None) -> None:
        """Compact etcd up to a revision, the newest one if none is given."""
        for etcd in self.etcds:
            etcd.compact(etcd.revision if revision is None else revision)

    def restore(self, back: int) -> None:
        """Let every etcd be as it was so many revisions ago, but never before it was set up; restart the apiserver."""
        for etcd, founded in zip(self.etcds, self._founded, strict=True):
            etcd.restore(max(etcd.revision - back, founded))
        self.restart()

    def stop(self) -> None:
        """End all streams and timers."""
        for timer in self._blows.values():
            timer.cancel()
        for listening in self._listening.values():
            for served in listening:
                served.stop()

    def _stored_kinds(self) -> list[Kind]:
        return [kind for kind in self.kinds.values() if not kind.storage]

    def _serve(self, kind: Kind, ready_after: float) -> None:
        resource, etcd = kind.stored, self.etcd(kind)
        served: Served = Uncached(resource, etcd, self.profile)
        if kind.cached:
            way = self._ways.way(Hop.STORAGE, resource)
            cached = Cached(resource, etcd, self.profile, lambda: way.law, self._random, self.settings.window)
            if ready_after:
                asyncio.get_running_loop().call_later(ready_after, cached.fill)
            else:
                cached.fill()
            served = cached
        served.hold(held=self.faults.held(Hop.STORAGE, resource))
        served.remember(self._window(resource))
        self._served[resource] = served
        self._listening.setdefault(resource, []).append(served)

    def _replace(self, kind: Kind, lives_on: float) -> None:
        """Serve a resource anew; what served it ends after some seconds."""
        old = self._served[kind.stored]
        self._serve(kind, self.settings.initialization)
        asyncio.get_running_loop().call_later(lives_on, self._retire, kind.stored, old)

    def _retire(self, resource: str, served: Served) -> None:
        self._listening[resource].remove(served)
        served.stop()

    # Custom resources

    def _defined(self, change: Change) -> None:
        """A CustomResourceDefinition has changed."""
        loop = asyncio.get_running_loop()
        name = change.key
        if change.type == "ADDED":
            loop.call_later(_ESTABLISHED_AFTER, self._establish, name)
        elif change.type == "DELETED" and name in self.kinds:
            kind = self.kinds.pop(name)
            loop.call_later(_REPLACED_LIVES_ON, self._retire, kind.stored, self._served.pop(kind.stored))
        elif name in self.kinds and change.previous and change.object["spec"] != change.previous["spec"]:
            self.kinds[name] = custom_kind(change.object)
            self._replace(self.kinds[name], _REPLACED_LIVES_ON)

    def _establish(self, name: str) -> None:
        definitions = BUILT_IN[CRDS]
        definition = self.etcd(definitions).table(CRDS).get(name)
        if definition is None or name in self.kinds:  # deleted in the meantime, or even made again
            return
        kind = custom_kind(definition)
        self.kinds[name] = kind
        self._serve(kind, self.settings.initialization)
        stamp = timestamp(self.wall())
        conditions = [
            {"type": condition, "status": "True", "lastTransitionTime": stamp}
            for condition in ("NamesAccepted", "Established")
        ]
        established = {"conditions": conditions, "acceptedNames": definition["spec"]["names"]}
        self.update(definitions, None, name, lambda old: {**old, "status": established})

    # What goes wrong

    def set_law(self, hop: Hop, resource: str, law: Law) -> None:
        """Delay a hop of one resource, or of all, by a law.

        Raises:
            ConfigError: for an unknown resource, or one that has no such hop.
        """
        self._check(resource)
        if hop is Hop.STORAGE and resource != EVERYTHING and not self.kinds[resource].cached:
            raise ConfigError(f"{resource} has no watch cache, so nothing lies between etcd and it. Delay `client`.")
        self._ways.set(hop, resource, law)

    def law(self, hop: Hop, resource: str) -> Law:
        """The law in force."""
        return self._ways.way(hop, resource).law

    def switch_on(self, name: str, resource: str = EVERYTHING, law: str = "") -> Active:
        """Let something go wrong, see `watchslo.sim.faults`.

        Raises:
            ConfigError: for an unknown fault, resource or law.
        """
        self._check(resource)
        active = self.faults.switch_on(name, resource, law)
        self._ways.apply()
        self._remember(resource)
        self._hold(active.fault, resource, held=True)
        if active.fault.blow:
            self._blow(active.fault.blow, active)
        return active

    def switch_off(self, name: str, resource: str = EVERYTHING) -> None:
        """Let it be right again.

        Raises:
            ConfigError: for an unknown fault.
        """
        self.faults.switch_off(name, resource)
        self._ways.apply()
        self._remember(resource)
        self._hold(known_fault(name), resource, held=False)
        self._calm(name, resource)

    def _check(self, resource: str) -> None:
        if resource not in (EVERYTHING, *self._served):
            raise ConfigError(f"{resource!r} is not simulated. There are {', '.join(self._served)}.")

    def _about(self, resource: str) -> list[Served]:
        return [served for name, served in self._served.items() if resource in (EVERYTHING, name)]

    def _window(self, resource: str) -> int:
        return min(self.faults.window(resource) or self.settings.window, self.settings.window)

    def _remember(self, resource: str) -> None:
        for name, served in self._served.items():
            if resource in (EVERYTHING, name):
                served.remember(self._window(name))

    def _hold(self, fault: Fault, resource: str, *, held: bool) -> None:
        """Hold or release a hop. Streams that open later flow: only those that are there get stuck."""
        if not fault.held:
            return
        for served in self._about(resource):
            if fault.hop is Hop.STORAGE:
                served.hold(held=held)
                continue
            for stream in tuple(served.streams):
                stream.hold(held=held)

    def _blow(self, blow: Blow, active: Active) -> None:
        """Strike open watches, now and again after a while."""
        self._calm(active.fault.name, active.resource)
        _BLOWS[blow](self, self._about(active.resource), active.fault)
        if active.fault.every < math.inf:
            again = asyncio.get_running_loop().call_later(active.fault.every, self._blow, blow, active)
            self._blows[active.fault.name, active.resource] = again

    def _calm(self, name: str, resource: str) -> None:
        timer = self._blows.pop((name, resource), None)
        if timer:
            timer.cancel()


_Strike = Callable[[Cluster, list[Served], Fault], None]


def _each(strike: Callable[[Served, Fault], None]) -> _Strike:
    """Strikes one resource after the other."""

    def strike_all(_cluster: Cluster, about: list[Served], fault: Fault) -> None:
        for served in about:
            strike(served, fault)

    return strike_all


def _lose(served: Served, _fault: Fault) -> None:
    if served.streams:
        min(served.streams, key=lambda stream: stream.number).lose()


def _inject(served: Served, fault: Fault) -> None:
    for stream in tuple(served.streams):
        stream.inject(fault.line)


def _cut(served: Served, _fault: Fault) -> None:
    for stream in tuple(served.streams):
        stream.cut()


_BLOWS: dict[Blow, _Strike] = {
    Blow.EXPIRE: _each(lambda served, _fault: served.expire()),
    Blow.FORGET: _each(lambda served, _fault: served.forget()),
    Blow.COMPACT: lambda cluster, _about, _fault: cluster.compact(),
    Blow.RESTORE: lambda cluster, _about, _fault: cluster.restore(_BACK),
    Blow.LOSE: _each(_lose),
    Blow.INJECT: _each(_inject),
    Blow.CUT: _each(_cut),
}


def _check_definition(definition: Object) -> None:
    try:
        kind = custom_kind(definition)
    except (KeyError, TypeError) as problem:
        raise status.bad_request(f"CustomResourceDefinition: {problem} is missing") from None
    if kind.key != definition["metadata"]["name"]:
        cause = (
            "FieldValueInvalid",
            f'Invalid value: must be spec.names.plural+"."+spec.group, {kind.key}',
            "metadata.name",
        )
        raise status.invalid(
            "CustomResourceDefinition", [cause], "apiextensions.k8s.io", definition["metadata"]["name"]
        )
