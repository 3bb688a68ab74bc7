"""A cluster under test, real or simulated: access, writers, compaction, restarts and faults."""

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.contract.backend import SIMULATOR, Backend
from tests.support.control_plane import ControlPlane
from tests.support.daemon import Proxy, Simulator
from tests.support.writer import Write, Writer, configmap, given_up
from watchslo.kube.client import Client, ObserveDate
from watchslo.kube.credentials import Access, Credentials, CredentialSource, tls_context
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
REPLICASETS = Resource("apps", "v1", "replicasets", namespaced=True)
"""Only one test may use these: it needs a cache that has seen no read and no event."""
SECRETS = Resource("", "v1", "secrets", namespaced=True)

SIMULATED_TOKEN = "simulated-administrator"


class Cluster(Protocol):
    """The operations that the tests need."""

    backend: Backend

    def access(self) -> Access:
        """Return the access of an administrator."""

    def writer(self) -> Writer:
        """Return a new writer with the rights of an administrator."""

    async def compact(self) -> None:
        """Compact etcd to the newest revision."""

    def without_rights(self, resource: Resource) -> contextlib.AbstractAsyncContextManager[Access]:
        """Give the access of a user without the right to read `resource`."""


def connection(*accesses: Access) -> CredentialSource:
    """Return a credential source: each renewal gives the next access, and the last one from then on."""
    left = list(accesses)
    hours = itertools.count(0.0, 3600.0)  # every request comes after the time of a renewal

    async def load() -> Credentials:
        return Credentials(left.pop(0) if left[1:] else left[0], {})

    return CredentialSource(load, clock=lambda: next(hours))


class RealCluster:
    """A kube-apiserver and its etcd; `link` is the proxy between them, if there is one."""

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
        """End the apiserver cleanly and start it again at the same address, without waiting until it is ready."""
        apiserver = self._plane.apiservers[0]
        await asyncio.to_thread(apiserver.process.end)
        apiserver.start()

    async def until_ready(self) -> None:
        """Wait until the apiserver says that it is ready."""
        await asyncio.to_thread(self._plane.apiservers[0].wait_ready)

    @contextlib.asynccontextmanager
    async def late(self, seconds: float) -> AsyncIterator[None]:
        """Delay data from etcd, at least that of config maps and not that of leases; for split clusters only."""
        assert self._link is not None
        await asyncio.to_thread(self._link.control, {"law": f"constant {seconds}s"})
        try:
            yield
        finally:
            await asyncio.to_thread(self._link.control, {"law": "none"})

    @contextlib.asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """Hold back all data from etcd but that of leases, until the context ends."""
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

    backend = SIMULATOR

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator

    def access(self) -> Access:
        return Access(self._simulator.url, (("Authorization", f"Bearer {SIMULATED_TOKEN}"),))

    def writer(self) -> Writer:
        return Writer(self._simulator.url, token=SIMULATED_TOKEN)

    async def compact(self) -> None:
        await self._control("compact", {})

    @contextlib.asynccontextmanager
    async def without_rights(self, resource: Resource) -> AsyncIterator[Access]:
        async with self.fault("forbidden", resource):
            yield self.access()

    @contextlib.asynccontextmanager
    async def fault(self, name: str, resource: Resource) -> AsyncIterator[None]:
        """Switch on a fault of a resource while the context is open."""
        switch = {"name": name, "resource": resource.key}
        await self._control("faults", switch)
        try:
            yield
        finally:
            await self._control("faults", switch | {"on": False})

    async def _control(self, what: str, body: dict[str, Any]) -> None:
        await asyncio.to_thread(self._simulator.control, body, f"/{what}")


def client_of(*accesses: Access, observe: ObserveDate = lambda *_: None) -> Client:
    """Return a client without a request limit, with this access, or with several that follow each other."""
    return Client(connection(*accesses), Limiter(1e6), observe)


@dataclass(slots=True)
class Author:
    """Writes objects of one resource into one namespace, without blocking the event loop."""

    writer: Writer
    resource: Resource
    namespace: str
    body: dict[str, Any] = field(default_factory=lambda: configmap(""))
    _versions: Iterator[int] = field(default_factory=itertools.count)

    async def create(self, name: str, **labels: str) -> int:
        """Create an object and return its revision."""
        metadata = {"name": name, "labels": labels}
        return _revision(await self._write("create", self._collection, self.body | {"metadata": metadata}))

    async def change(self, name: str, **labels: str | None) -> int:
        """Change an object and the given labels, and return its revision."""
        metadata = {"labels": labels, "annotations": {"version": str(next(self._versions))}}
        return _revision(await self._write("patch", f"{self._collection}/{name}", {"metadata": metadata}))

    async def delete(self, name: str) -> None:
        await self._write("delete", f"{self._collection}/{name}")

    async def until_cached(self, revision: int) -> None:
        """Wait until the watch cache of the apiserver, if there is one, has reached a revision."""
        while True:
            with given_up():  # after three seconds
                await asyncio.to_thread(lambda: self.writer.get(self._collection, resourceVersion=str(revision)))
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
    """Return an event about a pod that does not exist."""
    pod = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": "absent"}
    return {"apiVersion": "v1", "kind": "Event", "involvedObject": pod, "reason": "Tested", "type": "Normal"}


def _revision(write: Write) -> int:
    assert write.revision is not None
    return write.revision
