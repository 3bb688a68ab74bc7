"""A cluster in memory, behind the methods of `kube.client.Client`; its answers can be changed at any time.

Each client leads to one apiserver; all of them have the same storage.
"""

import asyncio
import contextlib
import json
import ssl
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby
from typing import Any, Self, cast

from structlog.testing import CapturingLogger

from tests.support.protobuf import from_line
from watchslo.kube.apiservers import LEASES, SLICES
from watchslo.kube.call import LIST_SECONDS, OnSent, Page, Selectors, has_own_connection, request_class
from watchslo.kube.client import METRICS_PATH
from watchslo.kube.connections import IDLE_SECONDS, ConnectionPool
from watchslo.kube.credentials import Access, Address, ClusterPlace, Credentials, CredentialSource, PluginRun
from watchslo.kube.limiter import Limiter, RequestClass
from watchslo.kube.refusal import TakePiece
from watchslo.kube.representation import Representation
from watchslo.kube.watch_response import TakeChunk, WatchFrames
from watchslo.model import SERVICE, Reading, Resource
from watchslo.watch.decode import FRAME, FrameDecoder
from watchslo.watch.failure import ENDED, Failure, Phase, Reason, because
from watchslo.watch.lines import DEFAULT_LIMIT_BYTES
from watchslo.watch.messages import ListedObjects, ListRequest, WatchRequest
from watchslo.watch.responsiveness import Responsiveness

PODS = Resource("", "v1", "pods", namespaced=True)
NODES = Resource("", "v1", "nodes", namespaced=False)
CONFIGMAPS = Resource("", "v1", "configmaps", namespaced=True)
EVENTS = Resource("", "v1", "events", namespaced=True)
RESOURCES = {one.key: one for one in (PODS, NODES, CONFIGMAPS, EVENTS)}
ANSWER_SECONDS = 0.002
SLOW_SECONDS = 3.5
PIECE_BYTES = 100
START_REVISION = 100
RESYNC_SECONDS = 0.1  # between two looks of etcd at watches that begin in the past
COMPACTED = "The resourceVersion for the provided watch is too old."
CONSISTENT = ("tick", "probe", "nudge", "list")  # the kinds of requests that etcd answers

Received = tuple[float, bytes] | Failure


class Log:
    """What was logged."""

    def __init__(self, logger: CapturingLogger) -> None:
        self._logger = logger

    def of(self, event: str) -> list[dict[str, Any]]:
        """Return the facts of each entry of one event."""
        return [call.kwargs for call in self._logger.calls if call.kwargs.get("event") == event]

    @property
    def events(self) -> list[str]:
        return [call.kwargs["event"] for call in self._logger.calls]

    @property
    def levels(self) -> set[str]:
        return {call.method_name for call in self._logger.calls}


@dataclass
class Watch:
    """An open watch: what is `sent` on it arrives at once, and what is `kept` when it is caught up.

    The revision of a streamed list is 0.
    """

    resource: Resource
    revision: int
    representation: Representation
    apiserver: str = SERVICE
    queue: asyncio.Queue[bytes | Failure] = field(default_factory=asyncio.Queue)
    open: bool = True
    ended: bool = False  # by the apiserver, cleanly: its connection can be used again
    kept: list[bytes] = field(default_factory=list)

    async def read(self) -> Received:
        said = await self.queue.get()
        self.ended = said is ENDED
        return said if isinstance(said, Failure) else (time.monotonic(), said)

    async def follow(self, take: TakeChunk) -> Failure:
        self._take = take
        while not isinstance(arrived := await self.read(), Failure):
            take(*arrived)
        return arrived

    def catch_up(self) -> None:
        while self.kept:
            self._take(time.monotonic(), self.kept.pop(0))

    def frames(self, longest_line: int = DEFAULT_LIMIT_BYTES, decoder: FrameDecoder = FRAME) -> WatchFrames:
        return WatchFrames(self.read, self.representation.frame_reader(longest_line, decoder))

    def send(self, said: bytes | Failure = ENDED) -> None:
        if self.representation is Representation.PROTOBUF and isinstance(said, bytes):
            said = from_line(said)
        self.queue.put_nowait(said)

    def transport(self) -> None:
        return None


STATUS = {Reason.THROTTLED: 429}


def error(code: int, reason: str, message: str | None = None) -> bytes:
    """Return the line of an error in a watch."""
    status = {"kind": "Status", "code": code, "reason": reason} | ({"message": message} if message else {})
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


GONE = error(410, "Expired")


def line(type_: str, revision: int | str, created: str | None = None, namespace: str | None = None) -> bytes:
    given = {"resourceVersion": str(revision), "creationTimestamp": created, "namespace": namespace}
    metadata = {key: value for key, value in given.items() if value}
    return json.dumps({"type": type_, "object": {"metadata": metadata}}).encode() + b"\n"


def because_of(reason: Reason, phase: Phase = Phase.LIST, retry_after: float | None = None) -> Failure:
    return because(reason, phase=phase, status=STATUS.get(reason), retry_after=retry_after)


@dataclass
class Counted:
    """What burdens apiservers: connections that were opened, lists with objects, and watches.

    Of each watch, `started` has its kind and resource, and by how many revisions it began in the past.
    """

    handshakes: int = 0
    lists_with_objects: int = 0
    started: list[tuple[str, str, int]] = field(default_factory=list)


class Session:
    """Connections to one apiserver, of which idle ones are used again, the oldest first, as those of aiohttp."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._idle: deque[float] = deque()  # since when

    def connect(self, host: str) -> None:
        """Use an idle connection, or else open one."""
        if host in self._cluster.dead:
            self._idle.clear()
            return
        while self._idle:
            if time.monotonic() - self._idle.popleft() <= IDLE_SECONDS:
                return
        self._cluster.counted.handshakes += 1

    def release(self) -> None:
        """Keep the connection of an answer that was read to its end."""
        self._idle.append(time.monotonic())

    async def close(self) -> None:
        self._idle.clear()


class Door:
    """A client of one apiserver."""

    def __init__(self, cluster: "Cluster", name: str, observe: Callable[[float, float, float], object]) -> None:
        self.cluster = cluster
        self.name = name
        self._observe = observe
        self.requests: Counter[tuple[str, str]] = Counter()
        self.not_ready = 0
        self.responsiveness = Responsiveness()

    async def __aenter__(self) -> Self:
        self.cluster.doors.add(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cluster.doors.discard(self)
        await self._pool.close()

    @cached_property
    def _pool(self) -> ConnectionPool:
        """The real one, of sessions that only count."""
        return ConnectionPool()

    @contextlib.asynccontextmanager
    async def _session(self, *, own: bool = False) -> AsyncIterator[Session]:
        """Provide what counts the connections of one request: those of the pool, or one of its own."""
        if own:
            yield Session(self.cluster)
            return
        async with self._pool.session() as session:
            yield cast("Session", session)

    def hang_up(self) -> None:
        self.cluster.hung_up += 1
        self._pool.renew()

    async def read_nothing(
        self, resource: Resource, namespace: str, kind: str, at: int | None = None
    ) -> Reading | Failure:
        """Only the turn and the answer take time; the request arrives at once."""
        await self.cluster.wait_for_turn(request_class(kind))
        sent = time.monotonic()
        if kind == "nudge" and resource.key in self.cluster.frozen:
            await asyncio.sleep(SLOW_SECONDS)
        revision = self.cluster.revision_of(resource) + self.cluster.elsewhere.get(_host(self.name), 0)
        failure = await self._request(kind, resource.key, namespace)
        if at is not None:
            revision, failure = at, failure or (because_of(Reason.EXPIRED) if at < self.cluster.compacted else None)
        return failure or Reading(resource.key, sent, time.monotonic(), revision, self.name)

    async def read_cache(self, resource: Resource, namespace: str) -> Reading | Failure:
        """A cache behind a late link is old, and answers at once."""
        late = self.cluster.link_late.get(_host(self.name))
        if late is None:
            return await self.read_nothing(resource, namespace, "probe_cache")
        sent = time.monotonic()
        revision = self.cluster.revision_at(resource, sent - late)
        failure = await self._request("probe_cache", resource.key, namespace)
        return failure or Reading(resource.key, sent, time.monotonic(), revision, self.name)

    async def list_page(
        self,
        resource: Resource,
        namespace: str | None,
        _: Selectors,
        request: ListRequest,
        __: Representation,
        *,
        with_objects: bool = False,
        on_sent: OnSent = lambda: None,
    ) -> Page | Failure:
        await self.cluster.wait_for_turn(request_class("list"), on_sent)
        sent = time.monotonic()
        failure = await self._request("list", resource.key, namespace)
        self.cluster.counted.lists_with_objects += not request.absent_name
        token = None if request.continue_token or not request.limit else "more"
        objects = ListedObjects(["a", "b", "c"], ["1", "2", "3"]) if with_objects else None
        return failure or Page(self.cluster.revision_of(resource), 3, 1000, token, sent, time.monotonic(), objects)

    @contextlib.asynccontextmanager
    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        selectors: Selectors,
        request: WatchRequest,
        representation: Representation,
        *,
        kind: str = "watch",
        resumes: bool = False,
        on_sent: OnSent = lambda: None,
    ) -> AsyncIterator[Watch | Failure]:
        await self.cluster.wait_for_turn(request_class(kind, resumes=resumes), on_sent)
        async with self._session(own=has_own_connection(kind, selectors)) as session:
            session.connect(_host(self.name))
            behind = self.cluster.revision_of(resource) - (request.revision or 0)
            self.cluster.counted.started.append((kind, resource.key, behind))
            failure = await self._answer(kind, resource.key, namespace)
            if failure:
                session.release()
                yield failure
                return
            opened = Watch(resource, request.revision or 0, representation, self.name)
            try:
                async with self._opened(opened, kind, request.timeout):
                    yield opened
            finally:
                if opened.ended:
                    session.release()

    @contextlib.asynccontextmanager
    async def _opened(self, opened: Watch, kind: str, seconds: float) -> AsyncIterator[None]:
        """Let a watch get what a watch of its kind gets."""
        if kind == "discovery":
            self.cluster.address_watches.append(opened)
            try:
                yield
            finally:
                self.cluster.address_watches.remove(opened)
            return
        if kind == "detect_storage":
            self._of_storage(opened, seconds)
            yield
            return
        if kind in ("audit", "headroom", "detect_cache"):
            self.cluster.looked += [opened.resource.key] * (kind == "detect_cache")
            self._send_past_events(opened, seconds)
            yield
            return
        self.cluster.watches.append(opened)
        if self.cluster.catches_up:
            self._send_past(opened, self._edited)
        try:
            yield
        finally:
            opened.open = False

    def _of_storage(self, watch: Watch, seconds: float) -> None:
        """Make it a watch without events: etcd waits for the future, and refuses in step with its own clock."""
        if watch.resource.key not in self.cluster.uncached:
            self._send_past_events(watch, seconds)
            return
        is_kine, compacted = self.cluster.is_kine, self.cluster.compacted
        if watch.revision < compacted - (not is_kine):
            wait = self.cluster.refuses_within if is_kine else RESYNC_SECONDS - time.monotonic() % RESYNC_SECONDS
            asyncio.get_running_loop().call_later(wait, watch.send, error(410, "Expired", COMPACTED))
        self.cluster.begun.append((watch.revision, self.cluster.revision_of(watch.resource)))
        closes = is_kine and self.cluster.refuses_future and watch.revision > self.cluster.revision_of(watch.resource)
        asyncio.get_running_loop().call_later(0.0 if closes else seconds, watch.send)

    def _send_past_events(self, watch: Watch, timeout: float) -> None:
        """Send what a second watch gets: all events in the cache and an end, or a 410."""
        if self._send_past(watch):
            asyncio.get_running_loop().call_later(timeout, watch.send)

    def _send_past(self, watch: Watch, edit: Callable[[bytes], bytes] = bytes) -> bool:
        """Send the events since a revision; or a 410, then return False."""
        uncached = watch.resource.key in self.cluster.uncached
        if watch.revision < (self.cluster.compacted if uncached else self.cluster.oldest):
            too_old = f"too old resource version: {watch.revision} ({self.cluster.oldest})"
            watch.send(error(410, "Expired", COMPACTED if uncached else too_old))
            return False
        hidden = self.cluster.hidden_at[_host(self.name)]
        for resource, revision, event in self.cluster.history:
            if revision in hidden:
                continue
            if resource == watch.resource and revision > watch.revision and (sent := edit(event)):
                watch.send(sent)
        return True

    def _edited(self, event: bytes) -> bytes:
        """Return what a first watch gets in place of an event of the past."""
        return self.cluster.edits.get((_host(self.name), event), event)

    async def document(self, path: str, _: str = "", seconds: float = LIST_SECONDS) -> bytes | Failure:
        failure = await self._request("discovery", path)
        if failure:
            return failure
        if path in self.cluster.group_seconds:
            takes = self.cluster.group_seconds[path]
            self.cluster.in_flight += 1
            self.cluster.most_in_flight = max(self.cluster.most_in_flight, self.cluster.in_flight)
            try:
                await asyncio.sleep(min(takes, seconds))
            finally:
                self.cluster.in_flight -= 1
            if takes >= seconds:
                return because_of(Reason.TIMEOUT)
        if path == SLICES:
            ports = [{"name": "https", "port": 6443}]
            part = {"addressType": "IPv4", "endpoints": [{"addresses": list(self.cluster.addresses)}], "ports": ports}
            return json.dumps({"items": [part], "metadata": {"resourceVersion": "1"}}).encode()
        if path == LEASES:
            number = len(self.cluster.addresses) if self.cluster.leases is None else self.cluster.leases
            renewed = {"spec": {"renewTime": datetime(2026, 1, 1, tzinfo=UTC).isoformat()}}
            return json.dumps({"items": [renewed] * number}).encode()
        if not self.cluster.is_aggregated:
            return _single_document(self.cluster.served, path)
        return _discovery(
            [resource for resource in self.cluster.served if bool(resource.group) == (path == "/apis")],
            self.cluster.stale if path == "/apis" else (),
        )

    async def create(self, kind: str, path: str, _: bytes) -> bytes | Failure:
        return await self._request(kind, path) or json.dumps({"status": self.cluster.reviews[kind]}).encode()

    async def read_metrics(self, take: TakePiece) -> Failure | None:
        failure = await self._request("metrics_page", METRICS_PATH)
        if failure is None:
            page = self.cluster.metrics(self.name)
            for start in range(0, len(page), PIECE_BYTES):
                await take(page[start : start + PIECE_BYTES])
        return failure

    async def version(self) -> str | Failure:
        return await self._request("version") or self.cluster.git_version

    async def _request(self, kind: str, key: str = "", namespace: str | None = None) -> Failure | None:
        async with self._session() as session:
            session.connect(_host(self.name))
            failure = await self._answer(kind, key, namespace)
            session.release()
        return failure

    async def _answer(self, kind: str, key: str = "", namespace: str | None = None) -> Failure | None:
        cluster = self.cluster
        sent = time.monotonic()
        cluster.asked.append((sent, kind, key))
        self.responsiveness.asked(sent)
        cluster.asked_at[self.name, kind] += 1
        if namespace:
            cluster.asked_in[kind].append(namespace)
        self.requests[kind, "200"] += 1
        of_etcd = cluster.link_late.get(_host(self.name), 0.0) if kind in CONSISTENT else 0.0
        await asyncio.sleep(ANSWER_SECONDS + cluster.slow_at.get(_host(self.name), 0.0) + of_etcd)
        if _host(self.name) in cluster.refusing:
            self.responsiveness.refused()
            return because_of(Reason.REFUSED)
        if _host(self.name) in cluster.dead:
            return because_of(Reason.UNREACHABLE)
        if kind in cluster.hanging or _host(self.name) in cluster.mute:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(cluster.patience):
                    await asyncio.get_running_loop().create_future()
            return because_of(Reason.TIMEOUT)
        self.responsiveness.heard(time.monotonic())
        if cluster.date_skew is not None:
            date = float(int(cluster.wall() + cluster.skew_at.get(_host(self.name), 0.0)))
            self._observe(date, sent, time.monotonic())
        if cluster.namespace and namespace and namespace != cluster.namespace:
            return because_of(Reason.FORBIDDEN)
        names = ((kind, key), (kind, "*"), ("*", "*"))
        return next((cluster.failures[name] for name in names if name in cluster.failures), None)


class Cluster(Door):
    """The whole cluster, and the client of its service.

    A request fails while `failures` names its (kind, resource key), (kind, "*") or ("*", "*"). `revisions` are those of
    other storages, by the key of a resource; `kept_with` names that key for each other resource there. `hanging` kinds
    are never answered. Apiservers are announced at `addresses`; a host that is `dead` cannot be reached, one
    that is `refusing` refuses connections, one that is `mute` accepts requests and never answers, and one of `slow_at`
    takes so many seconds to answer and to pass on events. What etcd sends to a host of `link_late` arrives so many
    seconds late. Requests wait for a `limiter`, if one is set.
    """

    def __init__(self) -> None:
        self.hung_up = 0
        super().__init__(self, SERVICE, lambda *_: None)
        self.revision = START_REVISION
        self.revisions: dict[str, int] = {}
        self.kept_with: dict[str, str] = {}
        self.failures: dict[tuple[str, str], Failure] = {}
        self.hanging: set[str] = set()
        self.late = 0.0  # seconds from a change to its event
        self.served: list[Resource] = [PODS, NODES, CONFIGMAPS, EVENTS]
        self.stale: set[str] = set()
        self.is_aggregated = True  # its discovery
        self.group_seconds: dict[str, float] = {}  # that the documents of group versions take, by their path
        self.in_flight = self.most_in_flight = 0  # requests for these documents
        self.namespace: str | None = None  # the only one that may be read
        self.git_version = "v1.36.3"
        self.reviews: dict[str, dict[str, object]] = {  # the answers for any token and its bearer
            "token_review": {"authenticated": True, "user": {"username": "alice"}},
            "access_review": {"allowed": True},
        }
        self.addresses: tuple[str, ...] = ("10.0.0.1",)
        self.leases: int | None = None  # as many as there are addresses
        self.dead, self.mute, self.refusing = set[str](), set[str](), set[str]()
        self.patience: float | None = None  # seconds until a request that is not answered times out
        self.slow_at: dict[str, float] = {}
        self.link_late: dict[str, float] = {}
        self.losing: Counter[str] = Counter()  # hosts whose watches lose so many of the next events
        self.hidden_at: defaultdict[str, set[int]] = defaultdict(set)  # revisions that the caches of a host have lost
        self.elsewhere: dict[str, int] = {}  # hosts of another cluster, and by how much its revisions are ahead
        self.address_watches: list[Watch] = []
        self.asked: list[tuple[float, str, str]] = []
        self.asked_at: Counter[tuple[str, str]] = Counter()  # by apiserver and kind
        self.asked_in: defaultdict[str, list[str]] = defaultdict(list)  # the namespaces of requests, by their kind
        self.counted = Counted()
        self.watches: list[Watch] = []  # without those of audits
        self.history: list[tuple[Resource, int, bytes]] = []
        self.committed: list[tuple[float, Resource, int]] = []
        self.oldest = 0  # revision that a second watch may begin from
        self.compacted = START_REVISION // 2  # the oldest revision of the storage; older ones are compacted
        self.is_kine = False
        self.refuses_future = True  # if it is kine, whether it closes watches from the future at once
        self.refuses_within = 0.004  # seconds, if it is kine: until a watch from a compacted revision is refused
        self.begun: list[tuple[int, int]] = []  # where watches that probe the storage began, and the newest revision
        self.looked: list[str] = []  # the resources of watches that look for a cache
        self.uncached: set[str] = {"events"}
        self.frozen: set[str] = set()  # keys of resources whose cache is stuck: nothing is delivered, nudges are slow
        self.date_skew: float | None = None
        self.skew_at: dict[str, float] = {}  # hosts whose clocks are that much further ahead
        self._began_wall = time.time() - time.monotonic()
        self.doors: set[Door] = set()  # the open ones
        self.edits: dict[tuple[str, bytes], bytes] = {}  # what watches of a host get in place of an event of the past
        self.catches_up = False  # whether watches begin with the events since their revision, as on a real apiserver
        self.limiter: Limiter | None = None  # for lists, watches and reads
        self.metrics: Callable[[str], bytes] = lambda _: b""  # the page of the metrics of an apiserver, by its name

    def client(
        self,
        _: CredentialSource,
        __: Limiter,
        observe: Callable[[float, float, float], object],
        *,
        name: str = SERVICE,
        address: Address | None = None,  # noqa: ARG002 - the name tells
    ) -> "Door":
        if name != SERVICE:
            return Door(self, name, observe)
        self._observe = observe
        return self

    def session(self) -> Session:
        """Return what counts the connections of a pool."""
        return Session(self)

    async def wait_for_turn(self, of: RequestClass, on_sent: OnSent = lambda: None) -> None:
        if self.limiter is not None:
            await self.limiter.acquire(of)
        on_sent()

    @property
    def is_open(self) -> bool:
        return bool(self.doors)

    # What happens in the cluster

    def revision_of(self, resource: Resource) -> int:
        return self.revisions.get(self.kept_with.get(resource.key, resource.key), self.revision)

    def revision_at(self, resource: Resource, moment: float) -> int:
        """Return the revision of the last change of a resource that was committed by then."""
        passed = (revision for at, of, revision in reversed(self.committed) if of == resource and at <= moment)
        return next(passed, START_REVISION)

    def wall(self) -> float:
        """Return the apiserver's wall clock, which runs as fast as the loop."""
        return self._began_wall + time.monotonic() + (self.date_skew or 0.0)

    def write(self, resource: Resource, type_: str = "MODIFIED", created: str | None = None) -> int:
        """Make a change and return its revision."""
        storage = self.kept_with.get(resource.key, resource.key)
        if storage in self.revisions:
            self.revisions[storage] += 1
        else:
            self.revision += 1
        revision = self.revision_of(resource)
        event = line(type_, revision, created, self.namespace if resource.namespaced else None)
        self.committed.append((time.monotonic(), resource, revision))
        if resource.key in self.frozen:
            return revision
        self.history.append((resource, revision, event))
        if self.late:
            asyncio.get_running_loop().call_later(self.late, self.send, resource, event)
        else:
            self.send(resource, event)
        return revision

    def send(self, resource: Resource, said: bytes | Failure = ENDED) -> None:
        for watch in self.open_watches(resource):
            host = _host(watch.apiserver)
            if self.losing[host]:
                self.losing[host] -= 1
                continue
            event = _ahead(said, self.elsewhere[host]) if isinstance(said, bytes) and host in self.elsewhere else said
            if delay := self.slow_at.get(host, 0.0) + self.link_late.get(host, 0.0):
                asyncio.get_running_loop().call_later(delay, watch.send, event)
            elif host not in self.dead | self.mute:
                watch.send(event)

    def announce(self, *addresses: str) -> None:
        """Announce other apiservers."""
        self.addresses = addresses
        for watch in self.address_watches:
            watch.send(b"{}")

    def drop(self, resource: Resource) -> None:
        """Serve a resource no more, as without its CRD: its watches end, and none can be opened."""
        self.served.remove(resource)
        self.fail(Reason.NOT_FOUND, "watch", resource.key)
        self.send(resource)

    def kill(self, host: str) -> None:
        """Make an apiserver unreachable and break its watches."""
        self.dead.add(host)
        for watch in self.open_watches():
            if _host(watch.apiserver) == host:
                watch.send(because_of(Reason.RESET, Phase.STREAM))

    def open_watches(self, resource: Resource | None = None) -> list[Watch]:
        return [watch for watch in self.watches if watch.open and resource in (None, watch.resource)]

    def fail(self, reason: Reason | None, kind: str = "*", key: str = "*", retry_after: float | None = None) -> None:
        """Make requests fail; None ends that."""
        if reason is None:
            self.failures.pop((kind, key))
        else:
            self.failures[kind, key] = because_of(reason, retry_after=retry_after)

    def count(self, kind: str, key: str | None = None) -> int:
        return sum(1 for _, asked, of in self.asked if asked == kind and key in (None, of))


def _discovery(served: Iterable[Resource], stale: Iterable[str]) -> bytes:
    groups = [
        {"metadata": {"name": name}, "versions": [{"version": "v1", "resources": [_entry(one) for one in of_group]}]}
        for name, of_group in groupby(served, lambda resource: resource.group)
    ]
    groups += [{"metadata": {"name": name}, "versions": [{"version": "v1", "freshness": "Stale"}]} for name in stale]
    return json.dumps({"kind": "APIGroupDiscoveryList", "items": groups}).encode()


def _single_document(served: Iterable[Resource], path: str) -> bytes:
    """Return a document of an apiserver without aggregated discovery."""
    if path == "/api":
        return json.dumps({"kind": "APIVersions", "versions": ["v1"]}).encode()
    groups = dict.fromkeys(resource.group for resource in served if resource.group)
    if path == "/apis":
        entries = [{"name": group, "versions": [{"version": "v1"}]} for group in groups]
        return json.dumps({"kind": "APIGroupList", "groups": entries}).encode()
    resources = [
        {"name": one.plural, "namespaced": one.namespaced, "verbs": ["list", "watch"]}
        for one in served
        if path == (f"/apis/{one.group}/v1" if one.group else "/api/v1")
    ]
    return json.dumps({"kind": "APIResourceList", "resources": resources}).encode()


def _entry(resource: Resource) -> dict[str, object]:
    scope = "Namespaced" if resource.namespaced else "Cluster"
    return {"resource": resource.plural, "scope": scope, "verbs": ["list", "watch"]}


def _ahead(event: bytes, revisions: int) -> bytes:
    """Return the same event with the revision of another cluster."""
    parsed = json.loads(event)
    return line(parsed["type"], int(parsed["object"]["metadata"]["resourceVersion"]) + revisions)


def _host(apiserver: str) -> str:
    return apiserver.rpartition(":")[0] or apiserver


def nowhere(
    place: ClusterPlace | None = None, plugin: PluginRun | None = None, tls: ssl.SSLContext | None = None
) -> CredentialSource:
    """Return a credential source that is never used; without `tls`, no announced address is asked."""

    async def load() -> Credentials:
        return Credentials(Access("http://nowhere.test", tls=tls), {})

    return CredentialSource(load, place=place, plugin=plugin)
