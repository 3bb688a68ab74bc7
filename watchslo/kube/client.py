"""Requests to one apiserver: each ends in a value, never in an exception, and each is counted and stamped.

`sent`, `answered` and `received` are monotonic seconds, taken as close to the socket as a coroutine comes.
"""

import asyncio
import contextlib
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Self

import aiohttp
import msgspec

from watchslo import __version__
from watchslo.kube.access import Address, Connection
from watchslo.kube.faults import FAULTS, fault
from watchslo.kube.limiter import Limiter, Priority
from watchslo.kube.representation import Representation
from watchslo.model import SERVICE, Reading, Resource
from watchslo.snapshot import TransportReading
from watchslo.watch.decode import decode_status, parse_revision
from watchslo.watch.failure import (
    ENDED,
    Action,
    Failure,
    Phase,
    Reason,
    because,
    classify_status,
    parse_retry_after,
)
from watchslo.watch.messages import ListRequest, Objects, WatchRequest

ABSENT_NAME = "watchslo-reads-nothing"
"""No object has this name; if one had, a tick would read it in vain."""

CONNECT_SECONDS = 10.0
CONNECT_SHARE = 0.8  # of the patience, at most: who cannot be reached is not taken for one that is slow
TICK_SECONDS = 5.0  # a cached read blocks for up to 3 s, then etcd is asked
REVIEW_SECONDS = 3.0  # somebody who scrapes waits for two of them, and gives up after ten seconds
LIST_SECONDS = 75.0  # whatever its size: an apiserver gives up after 60 s, in the middle of the answer if need be
OPEN_SECONDS = 30.0  # until a watch's headers; priority and fairness may queue it for 15 s
OVERTIME_SECONDS = 30.0  # that a watch may take longer than it was asked to
IDLE_SECONDS = 60.0  # before an unused connection is closed
RENEW_SECONDS = 180.0  # of one set of connections: a load balancer sends each new one where it likes
_DONE = (HTTPStatus.OK, HTTPStatus.CREATED)
LONGEST_ERROR_BYTES = 64 * 2**10
LONGEST_QUOTE = 300  # characters of what the server says
LONGEST_BODY_BYTES = 256 * 2**20  # 500 objects of the largest kind, or the metadata of 100,000 in one
TOO_LONG = f"The answer is longer than {LONGEST_BODY_BYTES // 2**20} MiB; list in pages, or a smaller representation."

# What is read ahead of us, in a burst on a hundred watches at once, a hundred times: the rest may wait in the kernel.
READ_AHEAD_BYTES = 32 * 2**10  # decrypted; aiohttp stops at twice as much
READ_AHEAD_TLS_BYTES = 64 * 2**10  # still encrypted; 256 KiB by default

# A peer that is gone is noticed within half a minute, as client-go does by HTTP/2 pings.
_KEEPALIVE_IDLE_SECONDS = 15
_KEEPALIVE_INTERVAL_SECONDS = 5
_KEEPALIVE_PROBES = 3
_USER_TIMEOUT_MILLISECONDS = 30_000

# Of Linux's struct tcp_info (uapi/linux/tcp.h): tcpi_last_data_recv and tcpi_last_ack_recv at 52 and 56, milliseconds;
# tcpi_rtt at 68, microseconds; tcpi_total_retrans at 100.
_TCP_INFO = struct.Struct("=52xII8xI28xI")

_PATIENT = ("nudge", "audit", "probe_cache", "history", "token_review", "access_review")
_PRIORITIES = {"tick": Priority.TICK} | dict.fromkeys(_PATIENT, Priority.AUDIT)

ObserveDate = Callable[[float, float, float], object]
"""Takes a `Date` header and when that request was sent and answered, all in Unix seconds."""


@dataclass(frozen=True, slots=True)
class Selectors:
    """What of a collection is asked for."""

    fields: str | None = None
    labels: str | None = None

    @property
    def query(self) -> dict[str, str]:
        pairs = (("fieldSelector", self.fields), ("labelSelector", self.labels))
        return {key: value for key, value in pairs if value}


NOTHING = Selectors(fields=f"metadata.name={ABSENT_NAME}")


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: `items` objects in `size` bytes; `revision` is None where it is no number.

    `objects` says which, where that was asked for and the representation tells it. `remaining` is how many more there
    are, where the apiserver says so: of a page that is not the last, without selectors.
    """

    revision: int | None
    items: int
    size: int
    continue_token: str | None
    sent: float
    answered: float
    objects: Objects | None = None
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class _Call:
    """A request; `timeout` covers all of it, `patience` the time until its headers. With a `body` it is a POST."""

    kind: str
    phase: Phase
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    accept: str = "application/json"
    timeout: float = LIST_SECONDS
    patience: float = LIST_SECONDS
    body: bytes | None = field(default=None, repr=False)

    @property
    def content_type(self) -> tuple[tuple[str, str], ...]:
        """The header that a body needs."""
        return () if self.body is None else (("Content-Type", "application/json"),)


@dataclass(frozen=True, slots=True)
class _Answer:
    """A body that was read, and when."""

    body: bytearray
    sent: float
    answered: float


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str | None = None
    continue_token: str | None = msgspec.field(name="continue", default=None)
    remaining_item_count: int | None = None


class _List(msgspec.Struct):
    """Any list: of objects, of their metadata, or a Table. Its objects stay bytes."""

    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None
    rows: list[msgspec.Raw] | None = None

    def __len__(self) -> int:
        return len(self.rows or self.items or ())

    @property
    def objects(self) -> None:
        """Not asked for, or not told."""


class _ObjectMetadata(msgspec.Struct, gc=False, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _Object(msgspec.Struct, gc=False):
    metadata: _ObjectMetadata


class _Objects(msgspec.Struct):
    """A list of objects or of their metadata, of which it takes what an inventory needs."""

    metadata: _ListMetadata
    items: list[_Object] | None = None

    def __len__(self) -> int:
        return len(self.items or ())

    @property
    def objects(self) -> Objects:
        """As columns."""
        found = [item.metadata for item in self.items or ()]
        return Objects([one.uid for one in found], [one.resource_version for one in found])


class _Version(msgspec.Struct, rename="camel"):
    git_version: str


class Stream:
    """An open watch."""

    def __init__(self, response: aiohttp.ClientResponse, address: str) -> None:
        self._response = response
        self._content = response.content
        self._address = address

    async def read(self) -> tuple[float, bytes] | Failure:
        """The next chunk and when it was received; at the end why it ended, `ENDED` if it was closed cleanly.

        A clean end within a line is for the caller to notice: chunks are not lines.
        """
        try:
            chunk = await self._content.readany()
        except FAULTS as error:
            return fault(error, self._address, Phase.STREAM)
        received = time.monotonic()
        return (received, chunk) if chunk else ENDED

    def transport(self) -> TransportReading | None:
        """What the kernel knows of its connection, while there is one; only Linux tells.

        Nothing is sent on an open watch, so the round trip is that of its beginning. Through a proxy it is the proxy's.
        """
        connection = self._response.connection
        transport = connection.transport if connection else None
        if sys.platform != "linux" or transport is None or transport.is_closing():
            return None  # a descriptor that is closed may be somebody else's by now
        return _transport_reading(transport.get_extra_info("socket"))


class _Pool:
    """Connections that requests share, one request at a time; every `RENEW_SECONDS` new ones take the place of all.

    The old ones are closed when the last request on one of them is over, and cut none.
    """

    def __init__(self) -> None:
        self._session = _session()
        self._renew_at = time.monotonic() + RENEW_SECONDS
        self._users: Counter[aiohttp.ClientSession] = Counter()
        self._closing: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[aiohttp.ClientSession]:
        """For one request, until its answer is read."""
        if time.monotonic() >= self._renew_at:
            self.renew()
        session = self._session
        self._users[session] += 1
        try:
            yield session
        finally:
            self._users[session] -= 1
            if session is not self._session:
                self._close_unused(session)

    async def close(self) -> None:
        """Closes all connections, also those in use."""
        for session in {self._session, *self._users}:
            await session.close()
        if self._closing:
            await asyncio.wait(self._closing)

    def renew(self) -> None:
        """Closes all connections that nobody uses; those in use once their requests are over."""
        retired, self._session = self._session, _session()
        self._renew_at = time.monotonic() + RENEW_SECONDS
        self._close_unused(retired)

    def _close_unused(self, session: aiohttp.ClientSession) -> None:
        """Closes a retired one, beside all else."""
        if not self._users[session]:
            del self._users[session]
            task = asyncio.create_task(session.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


class Client:
    """Speaks to one apiserver; open it as a context, on the loop where it is used.

    Without an address that is whoever answers where the credentials say. Each watch has a connection of its own, all
    other requests share some. `requests` counts by (kind, code); the code of what was never answered is the reason of
    its failure.
    """

    def __init__(
        self,
        connection: Connection,
        limiter: Limiter,
        observe_date: ObserveDate,
        *,
        name: str = SERVICE,
        address: Address | None = None,
    ) -> None:
        self.name = name
        self.requests: Counter[tuple[str, str]] = Counter()
        self._connection = connection
        self._limiter = limiter
        self._observe_date = observe_date
        self._own_address = address

    async def __aenter__(self) -> Self:
        self._pool = _Pool()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close()

    def hang_up(self) -> None:
        """Keeps no connection open that nobody uses now."""
        self._pool.renew()

    async def read_nothing(self, resource: Resource, namespace: str, kind: str) -> Reading | Failure:
        """A consistent list that selects no object: the revision of this moment, as storage has it."""
        return await self._read(resource, namespace, kind, NOTHING.query)

    async def read_cache(self, resource: Resource, namespace: str) -> Reading | Failure:
        """The same of the apiserver's watch cache: its revision of this moment, however old; nothing is waited for.

        Of a resource that is not cached it is `read_nothing`. The cache only moves on with events and progress notices.
        """
        return await self._read(resource, namespace, "probe_cache", NOTHING.query | {"resourceVersion": "0"})

    async def _read(self, resource: Resource, namespace: str, kind: str, query: Mapping[str, str]) -> Reading | Failure:
        path = resource.path(namespace)
        page = _page(await self._get(_Call(kind, Phase.LIST, path, query, timeout=TICK_SECONDS, patience=TICK_SECONDS)))
        if isinstance(page, Failure):
            return page
        if page.revision is None:
            return because(Reason.UNPARSABLE, phase=Phase.LIST)
        return Reading(resource.key, page.sent, page.answered, page.revision, self.name)

    async def list_page(
        self,
        resource: Resource,
        namespace: str | None,
        selectors: Selectors,
        request: ListRequest,
        representation: Representation,
        *,
        with_objects: bool = False,
    ) -> Page | Failure:
        """One page of a list, or all of it. A Table does not say which objects it lists."""
        query = (NOTHING if request.absent_name else selectors).query | representation.query
        if request.from_cache:
            query["resourceVersion"] = "0"
        if request.limit is not None:
            query["limit"] = str(request.limit)
        if request.continue_token is not None:
            query["continue"] = request.continue_token
        path = resource.path(namespace)
        answer = await self._get(_Call("list", Phase.LIST, path, query, representation.accept_list))
        return _page(answer, _Objects if with_objects and representation is not Representation.TABLE else _List)

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
    ) -> AsyncIterator[Stream | Failure]:
        """Opens a watch: a stream to read from once the headers are there, or why it did not open.

        A streamed list has as long as the watch that it is; its headers come before its objects.
        """
        call = _Call(
            kind,
            Phase.OPEN,
            resource.path(namespace),
            selectors.query | representation.query | _watch_query(request),
            representation.accept_watch,
            timeout=request.timeout + OVERTIME_SECONDS,
            patience=OPEN_SECONDS,
        )
        async with _session() as session:  # of its own: however the watch ends, no connection outlives it
            opened = await self._open(call, session)
            if isinstance(opened, Failure):
                yield opened
                return
            response, _ = opened
            _read_little_ahead(response)
            try:
                yield Stream(response, _address(response))
            finally:
                _hang_up(response)

    async def document(self, path: str, accept: str = "application/json") -> bytes | Failure:
        """A document of discovery."""
        answer = await self._get(_Call("discovery", Phase.LIST, path, accept=accept))
        return answer if isinstance(answer, Failure) else bytes(answer.body)

    async def create(self, kind: str, path: str, body: bytes) -> bytes | Failure:
        """What the apiserver makes of a review, which it answers and does not keep."""
        call = _Call(kind, Phase.LIST, path, timeout=REVIEW_SECONDS, patience=REVIEW_SECONDS, body=body)
        answer = await self._get(call)
        return answer if isinstance(answer, Failure) else bytes(answer.body)

    async def version(self) -> str | Failure:
        """The server's own version, such as `v1.36.3`."""
        answer = await self._get(_Call("version", Phase.LIST, "/version"))
        if isinstance(answer, Failure):
            return answer
        try:
            return msgspec.json.decode(answer.body, type=_Version).git_version
        except msgspec.DecodeError:
            return because(Reason.GARBAGE, phase=Phase.LIST)

    async def _get(self, call: _Call) -> _Answer | Failure:
        async with self._pool.session() as session:
            return await self._get_on(session, call)

    async def _get_on(self, session: aiohttp.ClientSession, call: _Call) -> _Answer | Failure:
        opened = await self._open(call, session)
        if isinstance(opened, Failure):
            return opened
        response, sent = opened
        try:
            body = await _body(response, LONGEST_BODY_BYTES)
            answered = time.monotonic()
            if len(body) > LONGEST_BODY_BYTES:
                return replace(because(Reason.GARBAGE, phase=call.phase), message=TOO_LONG)
        except FAULTS as error:
            return fault(error, _address(response), call.phase)
        finally:
            response.release()
        return _Answer(body, sent, answered)

    async def _open(
        self, call: _Call, session: aiohttp.ClientSession
    ) -> tuple[aiohttp.ClientResponse, float] | Failure:
        """Sends a request: an answer of status 200 or 201 and type JSON, still to be read, and when it was sent."""
        address = "the apiserver"
        try:
            access = await self._connection.access()
            where = self._own_address or Address(access.url, access.server_name)
            address = where.url
            await self._limiter.acquire(_PRIORITIES.get(call.kind, Priority.OTHER))
            sent = time.monotonic()
            reached_in = min(CONNECT_SECONDS, CONNECT_SHARE * call.patience)
            async with asyncio.timeout(call.patience):
                response = await session.request(
                    "GET" if call.body is None else "POST",
                    where.url + call.path,
                    params=call.query,
                    data=call.body,
                    headers=[*access.headers, ("Accept", call.accept), *call.content_type],
                    timeout=aiohttp.ClientTimeout(total=call.timeout, connect=reached_in, sock_connect=reached_in),
                    allow_redirects=False,
                    ssl=access.tls or True,
                    server_hostname=where.server_name,
                    proxy=access.proxy,
                )
            self._observe(response, sent)
        except FAULTS as error:
            failure = fault(error, address, call.phase)
            self.requests[call.kind, failure.reason.value] += 1
            return failure
        self.requests[call.kind, str(response.status)] += 1
        if response.status in _DONE and response.content_type == "application/json":
            return response, sent
        failure = await _refusal(response, call.phase)
        if failure.action is Action.REAUTHENTICATE:
            self._connection.reject(access)
        return failure

    def _observe(self, response: aiohttp.ClientResponse, sent: float) -> None:
        answered = time.monotonic()
        with contextlib.suppress(KeyError, ValueError):
            date = parsedate_to_datetime(response.headers["Date"]).timestamp()
            self._observe_date(date, sent, answered)


async def _refusal(response: aiohttp.ClientResponse, phase: Phase) -> Failure:
    """Why an answer is not what was asked for, with what the server says about it."""
    body = b""
    try:
        if response.status in _DONE:
            message = f"{_address(response)} sends {response.content_type}, and no JSON: this is no apiserver."
            return replace(because(Reason.GARBAGE, phase=phase, status=response.status), message=message)
        with contextlib.suppress(*FAULTS):
            body = bytes(await _body(response, LONGEST_ERROR_BYTES))
    finally:
        response.release()
    status = decode_status(body)
    failure = classify_status(response.status, status, parse_retry_after(response.headers.get("Retry-After")), phase)
    said = _quotable(failure.reason, status.message or "" if status else body.decode(errors="replace"))
    return replace(failure, message=f"{failure.message} It says: {said}") if said else failure


def _quotable(reason: Reason, text: str) -> str:
    """What the server says, if people can read it, as they cannot a proxy's page, and if it names no object.

    A failure within may name the object at which it happened, with its key in etcd or in the words of a webhook; what
    etcd itself says names none. All other messages are about the request, which is ours.
    """
    within = reason in (Reason.SERVER_ERROR, Reason.UNEXPECTED_STATUS) and not text.startswith("etcdserver: ")
    return "" if within or "<" in text or not text.isascii() else " ".join(text.split())[:LONGEST_QUOTE]


async def _body(response: aiohttp.ClientResponse, limit: int) -> bytearray:
    """The whole body, or its beginning, longer than `limit` bytes."""
    body = bytearray()
    while len(body) <= limit and (chunk := await response.content.readany()):
        body += chunk
    return body


def _watch_query(request: WatchRequest) -> dict[str, str]:
    query = {"watch": "1", "timeoutSeconds": str(request.timeout)}
    if request.revision is None:
        query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    else:
        query["resourceVersion"] = str(request.revision)
    if request.bookmarks or request.revision is None:  # one of them ends a streamed list
        query["allowWatchBookmarks"] = "true"
    return query


def _page(answer: _Answer | Failure, form: type[_List | _Objects] = _List) -> Page | Failure:
    if isinstance(answer, Failure):
        return answer
    try:
        listed = msgspec.json.decode(answer.body, type=form)
    except msgspec.DecodeError:
        return because(Reason.GARBAGE, phase=Phase.LIST)
    return Page(
        revision=parse_revision(listed.metadata.resource_version),
        items=len(listed),
        size=len(answer.body),
        continue_token=listed.metadata.continue_token or None,
        sent=answer.sent,
        answered=answer.answered,
        objects=listed.objects,
        remaining=listed.metadata.remaining_item_count,
    )


def _read_little_ahead(response: aiohttp.ClientResponse) -> None:
    """Bounds what the TLS of an answer holds back; uvloop and asyncio have the method, and neither documents it."""
    transport = response.connection.transport if response.connection else None
    if transport is not None and hasattr(transport, "set_read_buffer_limits"):
        transport.set_read_buffer_limits(READ_AHEAD_TLS_BYTES)


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """Ends an answer at once. TLS would wait for the peer's goodbye, and a peer that is stuck says none."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


def _address(response: aiohttp.ClientResponse) -> str:
    return str(response.url.origin())


def _transport_reading(connected: socket.socket) -> TransportReading | None:
    try:
        told = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        data_ago, acknowledged_ago, round_trip, retransmits = _TCP_INFO.unpack(told)
    except (OSError, struct.error):  # it was closed just now, or a sandbox tells less than Linux
        return None
    return TransportReading(round_trip / 1e6, retransmits, min(data_ago, acknowledged_ago) / 1e3)


def _session() -> aiohttp.ClientSession:
    """Connections that are used in turn; the unused ones are cut when it is closed, without TLS' goodbye."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS, socket_factory=_socket),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=READ_AHEAD_BYTES,
        headers={"User-Agent": f"watchslo/{__version__}", "Accept-Encoding": "identity"},
    )
    # aiohttp would send a request that was dropped once more, which nobody would count; it has no option for that.
    session._retry_connection = False  # noqa: SLF001
    return session


class _Socket(socket.socket):
    """One whose descriptor is not closed when nobody refers to it any more.

    uvloop closes what it has taken, also where the peer resets it at once. Then the descriptor may be somebody else's
    already, and bytes of one connection would go to another (github.com/MagicStack/uvloop/issues/653).
    """

    def __del__(self) -> None:
        self.detach()


def _socket(info: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    """A socket that notices when its peer is gone."""
    made = _Socket(info[0], info[1], info[2])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", _KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", _KEEPALIVE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", _KEEPALIVE_PROBES),
        ("TCP_USER_TIMEOUT", _USER_TIMEOUT_MILLISECONDS),
    ):
        if hasattr(socket, option):  # not everywhere but on Linux
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
