"""A cluster under test, real or simulated: how to reach it, to write to it, and to make it forget."""

import asyncio
import contextlib
import itertools
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.contract.backend import Backend
from tests.support.control_plane import END_SECONDS, ControlPlane
from tests.support.daemon import Proxy, Simulator
from tests.support.writer import StatusError, Write, Writer, configmap
from watchslo.kube.access import Access, Connection, Credentials, tls_context
from watchslo.kube.client import Client, ObserveDate
from watchslo.kube.limiter import Limiter
from watchslo.model import Resource

CONFIGMAPS = Resource("", "v1", "configmaps", namespaced=True)
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
EVENTS = Resource("", "v1", "events", namespaced=True)
JOBS = Resource("batch", "v1", "jobs", namespaced=True)
LEASES = Resource("coordination.k8s.io", "v1", "leases", namespaced=True)
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)
NODES = Resource("", "v1", "nodes", namespaced=False)
PODS = Resource("", "v1", "pods", namespaced=True)
SECRETS = Resource("", "v1", "secrets", namespaced=True)

SIMULATED_TOKEN = "simulated-administrator"


class Cluster(Protocol):
    """What the tests need of a cluster."""

    backend: Backend

    def access(self) -> Access:
        """An administrator's access."""

    def writer(self) -> Writer:
        """A new client that writes as an administrator."""

    async def compact(self) -> None:
        """Makes etcd forget everything but the newest revision."""

    async def restart(self) -> None:
        """Ends the apiserver cleanly, and starts it again at the same address, without waiting for it."""

    async def until_ready(self) -> None:
        """Waits until it is as ready as it says."""

    def late(self, seconds: float) -> contextlib.AbstractAsyncContextManager[None]:
        """Lets what etcd says come later, at least of config maps, and not of leases. Only for split clusters."""

    def without_rights(self, resource: Resource) -> contextlib.AbstractAsyncContextManager[Access]:
        """The access of somebody who may not read `resource`."""


def connection(*accesses: Access) -> Connection:
    """The way to a cluster; each renewal of the credentials brings the next access, the last one for ever."""
    left = list(accesses)
    hours = itertools.count(0.0, 3600.0)  # as if nobody ever asked twice within the time between two renewals

    async def load() -> Credentials:
        return Credentials(left.pop(0) if left[1:] else left[0], {})

    return Connection(load, clock=lambda: next(hours))


class RealCluster:
    """A kube-apiserver and its etcd; `link` is what lies between them, if anything does."""

    def __init__(self, backend: Backend, plane: ControlPlane, link: Proxy | None = None) -> None:
        self.backend = backend
        self._plane = plane
        self._link = link

    def access(self) -> Access:
        return self._as_bearer(self._plane.token)

    def writer(self) -> Writer:
        return self._plane.writer()

    async def compact(self) -> None:
        etcd = self._plane.etcd
        await asyncio.to_thread(lambda: etcd.compact(etcd.revision()))

    async def restart(self) -> None:
        apiserver = self._plane.apiservers[0]
        await asyncio.to_thread(apiserver.process.stop, END_SECONDS)
        apiserver.start()

    async def until_ready(self) -> None:
        await asyncio.to_thread(self._plane.apiservers[0].wait_ready)

    @contextlib.asynccontextmanager
    async def late(self, seconds: float) -> AsyncIterator[None]:
        assert self._link is not None
        await asyncio.to_thread(self._link.control, {"law": f"constant {seconds}s"})
        try:
            yield
        finally:
            await asyncio.to_thread(self._link.control, {"law": "none"})

    @contextlib.asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """Lets nothing come of what etcd says, but of leases; all of it comes afterwards."""
        assert self._link is not None
        await asyncio.to_thread(self._link.switch_on, "hole-to-client")
        try:
            yield
        finally:
            await asyncio.to_thread(self._link.switch_off, "hole-to-client")

    @contextlib.asynccontextmanager
    async def without_rights(self, resource: Resource) -> AsyncIterator[Access]:
        assert resource != NODES
        rights = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}
        name = f"confined-{secrets.token_hex(4)}"
        yield self._as_bearer(await asyncio.to_thread(self._plane.service_account, name, rights))

    def _as_bearer(self, token: str) -> Access:
        return Access(self._plane.url, (("Authorization", f"Bearer {token}"),), tls_context(str(self._plane.ca)))


class SimulatedCluster:
    """A process of `watchslo.sim`."""

    def __init__(self, backend: Backend, simulator: Simulator) -> None:
        self.backend = backend
        self._simulator = simulator

    def access(self) -> Access:
        return Access(self._simulator.url, (("Authorization", f"Bearer {SIMULATED_TOKEN}"),))

    def writer(self) -> Writer:
        return Writer(self._simulator.url, token=SIMULATED_TOKEN)

    async def compact(self) -> None:
        await self._control("compact", {})

    async def restart(self) -> None:
        await self._control("restart", {})

    async def until_ready(self) -> None:
        """It says so from the first moment on."""

    @contextlib.asynccontextmanager
    async def late(self, seconds: float) -> AsyncIterator[None]:
        await self._control("latency", {"resource": CONFIGMAPS.key, "storage": f"constant {seconds}s"})
        try:
            yield
        finally:
            await self._control("latency", {"resource": CONFIGMAPS.key, "storage": "none"})

    @contextlib.asynccontextmanager
    async def without_rights(self, resource: Resource) -> AsyncIterator[Access]:
        async with self.fault("forbidden", resource):
            yield self.access()

    @contextlib.asynccontextmanager
    async def fault(self, name: str, resource: Resource) -> AsyncIterator[None]:
        """Lets something go wrong with a resource."""
        switch = {"name": name, "resource": resource.key}
        await self._control("faults", switch)
        try:
            yield
        finally:
            await self._control("faults", switch | {"on": False})

    async def _control(self, what: str, body: dict[str, Any]) -> None:
        await asyncio.to_thread(self._simulator.control, body, f"/{what}")


def client_of(*accesses: Access, observe: ObserveDate = lambda *_: None) -> Client:
    """A client with this access, or with these one after the other, and no limit to its requests."""
    return Client(connection(*accesses), Limiter(1e6), observe)


def simulator(folder: Path, backend: Backend, **settings: Any) -> Simulator:
    """A simulator that does as `backend` does, yet to be started."""
    own = {"version": backend.version.removeprefix("v").rstrip("."), "token": SIMULATED_TOKEN}
    return Simulator(folder, "--config", json.dumps({"cluster": own | settings}))


@dataclass(slots=True)
class Author:
    """Writes objects of one resource into one namespace, without holding up the loop."""

    writer: Writer
    resource: Resource
    namespace: str
    body: dict[str, Any] = field(default_factory=lambda: configmap(""))
    _versions: Iterator[int] = field(default_factory=itertools.count)

    async def create(self, name: str, **labels: str) -> int:
        """Creates an object and returns its revision."""
        metadata = {"name": name, "labels": labels}
        return _revision(await self._write("create", self._collection, self.body | {"metadata": metadata}))

    async def change(self, name: str, **labels: str | None) -> int:
        """Changes an object, and the labels that are named, and returns its revision."""
        metadata = {"labels": labels, "annotations": {"version": str(next(self._versions))}}
        return _revision(await self._write("patch", f"{self._collection}/{name}", {"metadata": metadata}))

    async def delete(self, name: str) -> None:
        await self._write("delete", f"{self._collection}/{name}")

    async def until_cached(self, revision: int) -> None:
        """Waits until the apiserver's own cache, where it has one, is as new as that."""
        while True:
            try:
                await asyncio.to_thread(lambda: self.writer.get(self._collection, resourceVersion=str(revision)))
            except StatusError as error:
                if error.code != 504:  # it has waited for three seconds: not yet
                    raise
            else:
                return

    @property
    def _collection(self) -> str:
        return self.resource.path(self.namespace)

    async def _write(self, verb: str, *arguments: Any) -> Write:
        write: Write = await asyncio.to_thread(getattr(self.writer, verb), *arguments)
        return write


def new_namespace(writer: Writer, name: str) -> str:
    writer.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


def event(namespace: str) -> dict[str, Any]:
    """An event about a pod that is not there."""
    pod = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": "absent"}
    return {"apiVersion": "v1", "kind": "Event", "involvedObject": pod, "reason": "Tested", "type": "Normal"}


def _revision(write: Write) -> int:
    assert write.revision is not None
    return write.revision
