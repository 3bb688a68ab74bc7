"""A highly available control plane: kube-apiservers on one etcd, each of which can fail without the others.

    with HighAvailability(folder, assets) as lab, Daemon(folder, "--kubeconfig", lab.kubeconfig(), ...) as daemon:
        first, *others = lab.members
        with first.storage.late("constant 300ms"):  # etcd -> this apiserver; so is client.late: this apiserver -> all
            ...                                     # daemon.status() speaks of it as first.name

Each member stands between two proxies (`tests.support.daemon.Proxy`), and so does the service:

    clients ── client ── apiserver ── storage ─┐
    clients ── client ── apiserver ── storage ─┼─ etcd        first.storage.late("normal 300ms 30ms")
    clients ── client ── apiserver ── storage ─┘              first.storage.fault("frozen-link")     nothing passes
    clients ── service ── each apiserver in turn              first.client.fault("thin-link", 2000)  bytes a second
                                                              first.paused()                         SIGSTOP
                                                              lab.kill(first); lab.withdraw(first.url); lab.add()

`late`, `fault` and `paused` are contexts; without one there are `control`, `switch_on` and `switch_off`. A proxy's
faults are in `watchslo.sim.link_faults`; `thin-link` may be of `"open"` or `"new"` connections only. An apiserver has
about sixty connections to etcd, one for each resource. With `overrides=("/configmaps",)` all apiservers reach that
resource in etcd by one more proxy, `lab.overrides["/configmaps"]`.

`lab.writer(member)` writes past all proxies. `lab.plane` is the `ControlPlane`, with its CA, tokens and service
accounts; `lab.kubeconfig("name", user, server=...)` goes by the service, and knows servers as `kubernetes.default.svc`.
The EndpointSlices of `kubernetes` are those that `announce` and `withdraw` write: the apiservers announce nothing. They
name loopback addresses, which an apiserver would refuse, so they are written to etcd directly.

With `hosts`, the addresses of a network of its own, the apiservers announce these themselves, and are withdrawn when
their leases end; the links of clients listen there. With three `etcd_members`, each apiserver asks its own member.

Processes are started from the main thread only, and so are the lab and the members that it adds.
"""

import contextlib
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from tests.support.assets import Assets
from tests.support.control_plane import SECURE_PORT, SERVICE_NAME, Apiserver, ControlPlane, Etcd, override
from tests.support.daemon import Proxy
from tests.support.etcd_cluster import EtcdCluster
from tests.support.writer import Writer

SLICES = "/registry/endpointslices/default"
UNSEEN_SECONDS = 0.5  # long enough for some writes


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One apiserver, its link to etcd, and the link by which clients reach it."""

    apiserver: Apiserver
    storage: Proxy
    client: Proxy

    @property
    def url(self) -> str:
        """The URL for clients."""
        return self.client.url

    @property
    def name(self) -> str:
        """The host and port for clients, which is its name in watchslo."""
        return urlsplit(self.url).netloc

    def kill(self) -> None:
        """Kill it: its address refuses connections."""
        self.apiserver.process.kill()
        self.client.process.kill()

    def start(self) -> None:
        """Start it again, and wait until it is ready; its address is the same if that is one of `hosts`."""
        self.client.start()
        self.apiserver.start()
        self.apiserver.wait_ready()

    def restart(self) -> None:
        """Stop it cleanly, start it again and wait until it is ready."""
        self.apiserver.process.end()
        self.client.process.kill()
        self.start()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop it by SIGSTOP while the context is open; its connections stay open."""
        with self.apiserver.process.paused():
            yield


class HighAvailability:
    """`count` apiservers on one etcd; see above. `flags` go to each of them."""

    def __init__(
        self,
        folder: Path,
        assets: Assets,
        *,
        count: int = 3,
        flags: Sequence[str] = (),
        overrides: Sequence[str] = (),
        hosts: Sequence[str] = (),
        etcd_members: int = 1,
    ) -> None:
        self._folder = folder
        self._count = len(hosts) or count
        self._hosts = hosts
        self._flags = flags if hosts else ("--endpoint-reconciler-type=none", *flags)
        self._program = assets.kube_apiserver
        self._stack = contextlib.ExitStack()
        self.cluster = EtcdCluster(folder, assets.etcd, etcd_members)
        self.etcd = self.cluster.members[0]
        self.members: list[Member] = []
        self.overrides = {
            resource: Proxy(folder, f"storage-of-{resource.replace('/', '-')}", self.etcd.url) for resource in overrides
        }

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.cluster)
            for proxy in self.overrides.values():
                stack.enter_context(proxy)
            own = [override(resource, proxy.url) for resource, proxy in self.overrides.items()]
            flags, addresses = [*self._flags, *own], [*map(behind, self._hosts), *self._hosts]
            self.plane = ControlPlane(
                self._folder, self._program, self.etcd, apiservers=0, flags=flags, addresses=addresses
            )
            self._stack = stack
            members = [self._start() for _ in range(self._count)]
            for member in members:
                self._join(member)
            self.service = Proxy(self._folder, "service", *(member.apiserver.url for member in members))
            stack.enter_context(self.service)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self) -> Member:
        """Start another apiserver with its own address, and announce it when it is ready."""
        member = self._start()
        self._join(member)
        return member

    def kill(self, member: Member) -> None:
        """Kill an apiserver; its address stays announced and refuses connections."""
        member.kill()
        self.members.remove(member)

    def announce(self, url: str) -> None:
        """Add a URL to the addresses of the service, in a new slice, because a slice has one port."""
        announce(self.etcd, url)

    def withdraw(self, url: str) -> None:
        """Remove a URL from the addresses of the service; open connections stay open."""
        withdraw(self.etcd, url)

    def writer(self, member: Member | None = None) -> Writer:
        """Return an administrator's client of this member, or of the last one, without proxies."""
        return (member or self.members[-1]).apiserver.writer(self.plane.token)

    def lose_revisions(self, resource: str) -> None:
        """Compact revisions that the caches of an overridden resource have not yet received.

        The caches lose etcd, cannot resume, and start empty: every open watch of the resource ends with a 410.
        """
        link = self.overrides[resource]
        with link.fault("reset", connections="new"):
            link.switch_on("reset", connections="open")
            time.sleep(UNSEEN_SECONDS)
            self.etcd.compact(self.etcd.revision())

    def kubeconfig(self, name: str = "admin", user: dict[str, Any] | None = None, **cluster: Any) -> Path:
        """Write a kubeconfig like that of `ControlPlane`, for the service."""
        return self.plane.kubeconfig(
            name, user, **{"server": self.service.url, "tls-server-name": SERVICE_NAME} | cluster
        )

    def _start(self) -> Member:
        """Start a member without waiting for it; it ends with the lab."""
        number = len(self.plane.apiservers)
        host = self._hosts[number] if self._hosts else None
        etcd = self.cluster.members[number % len(self.cluster.members)]
        storage = self._stack.enter_context(Proxy(self._folder, f"storage-{number}", etcd.url))
        apiserver = self.plane.add(storage.url, behind(host) if host else None, host)
        self._stack.callback(apiserver.close)
        apiserver.start()
        listen = (host, SECURE_PORT) if host else None
        client = self._stack.enter_context(Proxy(self._folder, f"client-{number}", apiserver.url, listen=listen))
        return Member(apiserver, storage, client)

    def _join(self, member: Member) -> None:
        member.apiserver.wait_ready()
        self.members.append(member)
        if not self._hosts:
            self.announce(member.url)


def behind(host: str) -> str:
    """Return the address of the apiserver behind a link that listens at `host`: it must have the same port."""
    first, second, rest = host.split(".", 2)
    return f"{first}.{int(second) - 1}.{rest}"


def announce(etcd: Etcd, url: str) -> None:
    """Add a URL to the addresses of the service, in a new slice, because a slice has one port."""
    where = urlsplit(url)
    etcd.put(_slice_key(url), _slice(_slice_name(url), str(where.hostname), int(where.port or 0)))


def withdraw(etcd: Etcd, url: str) -> None:
    """Remove a URL from the addresses of the service; open connections stay open."""
    etcd.delete(_slice_key(url))


def _slice_name(url: str) -> str:
    return f"kubernetes-{urlsplit(url).port}"


def _slice_key(url: str) -> str:
    return f"{SLICES}/{_slice_name(url)}"


def _slice(name: str, host: str, port: int) -> dict[str, Any]:
    """Return a slice as apiservers write it, but with a loopback address."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": str(uuid.uuid4()),
            "creationTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
