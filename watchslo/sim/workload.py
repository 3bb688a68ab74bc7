"""The workload of the simulated cluster: writers that create, change and delete objects at random times."""

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
from watchslo.sim.kinds import BUILT_IN, Object, ResourceKind
from watchslo.sim.status import StatusError

_YIELD_EVERY = 100
"""Number of writes in a row before other tasks run."""
_DELETED = 0.05
"""Share of the writes that delete an object; equally many create its replacement."""
_WRITTEN = "watchslo.sim/written"
"""The annotation that changes with each write."""


class WorkloadPlan(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A writer of one resource: `rate` writes per second to `objects` objects, singly or in bursts, at random times.

    With `observed`, a controller sets `status.observedGeneration` of each new object; `observed` is the mean delay, in
    seconds.
    """

    resource: str
    rate: float
    pattern: Literal["poisson", "bursty"] = "poisson"
    burst: int = 20
    objects: int = 50
    size: Literal["small", "full"] = "small"
    namespace: str = "default"
    observed: float = 0.0


class ObjectBatch(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Objects to create in one batch."""

    resource: str
    count: int
    size: Literal["small", "full"] = "small"
    namespace: str = "default"


def schedule(plan: WorkloadPlan, random: Random) -> Iterator[tuple[float, int]]:
    """Yield seconds since the last writes and the number of writes, forever. Both patterns are Poisson processes."""
    writes = 1 if plan.pattern == "poisson" else plan.burst
    return ((random.expovariate(plan.rate / writes), writes) for _ in repeat(None))


@cache
def _samples() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("samples.json").read_text()
    samples: dict[str, Any] = json.loads(text)
    return samples


def sample(kind: ResourceKind, size: str, name: str) -> Object:
    """Return the body of a new object; `full` pods have a realistic size of about 3.7 KB as JSON."""
    samples = _samples()
    body = samples.get(f"{kind.key} {size}") or samples.get(kind.key) or {}
    return {**body, "metadata": {**body.get("metadata", {}), "name": name}}


def observe(old: Object) -> Object:
    """Return a new version of an object, whose controller has observed its generation."""
    return {**old, "status": {**old.get("status", {}), "observedGeneration": old["metadata"]["generation"]}}


def touch(serial: int) -> Callable[[Object], Object]:
    """Return a function that makes a new version of an object, with a different annotation."""

    def change(old: Object) -> Object:
        metadata = old["metadata"]
        annotations = {**metadata.get("annotations", {}), _WRITTEN: str(serial)}
        return {**old, "metadata": {**metadata, "annotations": annotations}}

    return change


class WorkloadWriter:
    """Creates the objects of a plan, then writes to them as planned until it is stopped."""

    def __init__(self, plan: WorkloadPlan, cluster: Cluster, random: Random) -> None:
        self.plan = plan
        self.written = 0
        self._cluster = cluster
        self._random = random
        self._kind, self._namespace = _resolve(cluster, plan.resource, plan.namespace)
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
                with suppress(StatusError):  # a client has deleted the object
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
        if self.plan.observed:
            delay = self._random.expovariate(1 / self.plan.observed)
            asyncio.get_running_loop().call_later(delay, self._observe, name)

    def _observe(self, name: str) -> None:
        with suppress(StatusError):  # the object is deleted
            self._cluster.update(self._kind, self._namespace, name, observe)

    def _modify(self) -> None:
        name = self._random.choice(self._names)
        try:
            self._cluster.update(self._kind, self._namespace, name, touch(self.written))
        except StatusError:  # a client has deleted the object
            self._names.remove(name)

    def _delete(self) -> None:
        index = self._random.randrange(len(self._names))
        self._names[index], self._names[-1] = self._names[-1], self._names[index]
        self._cluster.delete(self._kind, self._namespace, self._names.pop())


class Workload:
    """Owns the writers, at most one for each resource."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._writers: dict[str, WorkloadWriter] = {}

    def set(self, plan: WorkloadPlan) -> None:
        """Start or replace the writer of a resource; rate 0 stops it.

        Raises:
            ConfigError: for an unknown resource or namespace.
        """
        _resolve(self._cluster, plan.resource, plan.namespace)
        if plan.resource in self._writers:
            self._writers.pop(plan.resource).stop()
        if plan.rate > 0:
            self._writers[plan.resource] = WorkloadWriter(plan, self._cluster, self._random)

    async def create(self, objects: ObjectBatch) -> None:
        """Create objects as fast as possible.

        Raises:
            ConfigError: for an unknown resource or namespace.
        """
        kind, namespace = _resolve(self._cluster, objects.resource, objects.namespace)
        prefix = f"{kind.singular}-{self._random.getrandbits(32):08x}"
        for number in range(objects.count):
            self._cluster.create(kind, namespace, sample(kind, objects.size, f"{prefix}-{number:06d}"))
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def stop(self) -> None:
        for writer in self._writers.values():
            writer.stop()
        await asyncio.gather(*(writer.task for writer in self._writers.values()), return_exceptions=True)


def _resolve(cluster: Cluster, resource: str, namespace: str) -> tuple[ResourceKind, str | None]:
    """Return the kind and namespace (None for a cluster-scoped resource) to write to.

    Raises:
        ConfigError: for an unknown resource or namespace.
    """
    kind = BUILT_IN.get(resource)
    if not kind:
        raise ConfigError(f"{resource!r} cannot be written. The resources are {', '.join(BUILT_IN)}.")
    if not kind.namespaced:
        return kind, None
    if not cluster.etcd.table("namespaces").get(namespace):
        raise ConfigError(f"namespace {namespace!r} does not exist. Create it first.")
    return kind, namespace
