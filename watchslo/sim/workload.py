"""Who writes: populations of objects, and writers that change them at random times."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import resources
from itertools import repeat
from random import Random
from typing import Any, Literal

import msgspec

from watchslo.errors import ConfigError
from watchslo.sim.cluster import Cluster
from watchslo.sim.kinds import BUILT_IN, Kind, Object
from watchslo.sim.status import StatusError

_YIELD_EVERY = 100
"""Writes in a row after which others get their turn."""
_DELETED = 0.05
"""Share of the writes that delete an object; as many make a new one in its place."""
_WRITTEN = "watchslo.sim/written"
"""The annotation that changes with each write."""


class Plan(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A writer of one resource: `rate` writes a second, one by one at random times or in bursts, among `objects`."""

    resource: str
    rate: float
    pattern: Literal["poisson", "bursty"] = "poisson"
    burst: int = 20
    objects: int = 50
    size: Literal["small", "full"] = "small"
    namespace: str = "default"


class Objects(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Objects to create at once."""

    resource: str
    count: int
    size: Literal["small", "full"] = "small"
    namespace: str = "default"


def schedule(plan: Plan, random: Random) -> Iterator[tuple[float, int]]:
    """Without end: how many seconds after the last time to write, and how many writes. Both patterns are Poisson."""
    writes = 1 if plan.pattern == "poisson" else plan.burst
    return ((random.expovariate(plan.rate / writes), writes) for _ in repeat(None))


@cache
def _samples() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("samples.json").read_text()
    samples: dict[str, Any] = json.loads(text)
    return samples


def sample(kind: Kind, size: str, name: str) -> Object:
    """A new object's body; `full` pods are as large as in real life, about 3.7 KB as JSON."""
    samples = _samples()
    body = samples.get(f"{kind.key} {size}") or samples.get(kind.key) or {}
    return {**body, "metadata": {**body.get("metadata", {}), "name": name}}


def touch(serial: int) -> Callable[[Object], Object]:
    """Makes a new version of an object that differs in one annotation."""

    def change(old: Object) -> Object:
        metadata = old["metadata"]
        annotations = {**metadata.get("annotations", {}), _WRITTEN: str(serial)}
        return {**old, "metadata": {**metadata, "annotations": annotations}}

    return change


class Writer:
    """Creates a plan's objects, then writes as planned until it is stopped."""

    def __init__(self, plan: Plan, cluster: Cluster, random: Random) -> None:
        self.plan = plan
        self.written = 0
        self._cluster = cluster
        self._random = random
        self._kind, self._namespace = _target(cluster, plan.resource, plan.namespace)
        self._names: list[str] = []
        self.task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        self.task.cancel()

    async def _run(self) -> None:
        for _ in range(self.plan.objects):
            self._create()
            await asyncio.sleep(0)
        due = time.monotonic()
        for gap, writes in schedule(self.plan, self._random):
            due += gap
            await asyncio.sleep(max(due - time.monotonic(), 0.0))
            for _ in range(writes):
                with suppress(StatusError):  # somebody else has deleted the object
                    self._write()

    def _write(self) -> None:
        self.written += 1
        if len(self._names) < self.plan.objects:
            self._create()
        elif self._random.random() < _DELETED:
            self._delete()
        else:
            self._modify()

    def _create(self) -> None:
        name = f"{self._kind.singular}-{self._random.getrandbits(40):010x}"
        self._cluster.create(self._kind, self._namespace, sample(self._kind, self.plan.size, name))
        self._names.append(name)

    def _modify(self) -> None:
        name = self._random.choice(self._names)
        try:
            self._cluster.update(self._kind, self._namespace, name, touch(self.written))
        except StatusError:  # it is not in a storage that was restored, either
            self._names.remove(name)

    def _delete(self) -> None:
        index = self._random.randrange(len(self._names))
        self._names[index], self._names[-1] = self._names[-1], self._names[index]
        self._cluster.delete(self._kind, self._namespace, self._names.pop())


class Workload:
    """The writers, one for each resource."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._writers: dict[str, Writer] = {}

    def set(self, plan: Plan) -> None:
        """Let a resource be written like this from now on; not at all with rate 0.

        Raises:
            ConfigError: for an unknown resource or namespace.
        """
        _target(self._cluster, plan.resource, plan.namespace)
        if plan.resource in self._writers:
            self._writers.pop(plan.resource).stop()
        if plan.rate > 0:
            self._writers[plan.resource] = Writer(plan, self._cluster, self._random)

    async def create(self, objects: Objects) -> None:
        """Create objects as fast as it goes.

        Raises:
            ConfigError: for an unknown resource or namespace.
        """
        kind, namespace = _target(self._cluster, objects.resource, objects.namespace)
        prefix = f"{kind.singular}-{self._random.getrandbits(32):08x}"
        for number in range(objects.count):
            self._cluster.create(kind, namespace, sample(kind, objects.size, f"{prefix}-{number:06d}"))
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def stop(self) -> None:
        for writer in self._writers.values():
            writer.stop()
        await asyncio.gather(*(writer.task for writer in self._writers.values()), return_exceptions=True)

    def state(self) -> dict[str, object]:
        return {name: {"plan": writer.plan, "written": writer.written} for name, writer in self._writers.items()}


def _target(cluster: Cluster, resource: str, namespace: str) -> tuple[Kind, str | None]:
    """The kind of a resource that can be written, and where.

    Raises:
        ConfigError: when there is no such resource or namespace.
    """
    kind = cluster.kinds.get(resource)
    if not kind or "create" not in kind.verbs:
        raise ConfigError(f"{resource!r} cannot be written. There are {', '.join(cluster.kinds)}.")
    if not kind.namespaced:
        return kind, None
    if not cluster.etcd(BUILT_IN["namespaces"]).table("namespaces").get(namespace):
        raise ConfigError(f"There is no namespace {namespace!r}. Create it first.")
    return kind, namespace
