"""Requests to one apiserver. Each returns a value and never raises, and each is counted and timed.

`sent`, `answered` and `received` are monotonic seconds, taken as close to the socket as a coroutine can.
"""

import asyncio
import contextlib
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from typing import Self

import aiohttp
import msgspec

from watchslo import __version__
from watchslo.event_loop import Inbox, SocketTransport, TimedEventLoop
from watchslo.kube.credentials import Address, CredentialSource
from watchslo.kube.decoding import decode_answer
from watchslo.kube.limiter import Limiter, RequestClass
from watchslo.kube.list_body import decode_list
from watchslo.kube.network_failure import FAULTS, fault, redirect_target
from watchslo.kube.representation import JSON, PROTOBUF, Representation
from watchslo.model import SERVICE, Reading, Resource
from watchslo.snapshot import TransportReading
from watchslo.watch.decode import FRAME, ApiStatus, FrameDecoder, FrameReader, Frames, decode_status, parse_revision
from watchslo.watch.failure import (
    CACHE_NOT_READY,
    ENDED,
    Action,
    Failure,
    Phase,
    Reason,
    because,
    classify_status,
    parse_retry_after,
    unmeasurable,
)
from watchslo.watch.lines import DEFAULT_LIMIT_BYTES, LineTooLong
from watchslo.watch.messages import ListedObjects, ListRequest, WatchRequest
from watchslo.watch.protobuf import MAGIC, ProtobufFrameReader, decode_protobuf_status
from watchslo.watch.responsiveness import Responsiveness

OnSent = Callable[[], object]
"""Called when a request has waited for its turn in this process, and is sent."""

ABSENT_NAME = "watchslo-reads-nothing"
"""A name that no object and no namespace has. If an object had it, ticks would read it needlessly."""

CONNECT_SECONDS = 10.0
CONNECT_SHARE = 0.8  # of the patience, at most, so that an unreachable apiserver is not mistaken for a slow one
TICK_SECONDS = 5.0  # a cached read blocks for up to 3 s, then etcd answers
REVIEW_SECONDS = 3.0  # a scrape waits for two of them, and times out after ten seconds
LIST_SECONDS = 75.0  # for any size: an apiserver aborts after 60 s, even in the middle of the answer
OPEN_SECONDS = 30.0  # until a watch's headers; priority and fairness may queue it for 15 s
OVERTIME_SECONDS = 30.0  # that a watch may last longer than its timeout
IDLE_SECONDS = 85.0  # before an unused connection is closed: an apiserver closes it after 90 s, a rare tick needs 75 s
RENEW_SECONDS = 180.0  # between renewals of all connections: a load balancer may route new ones to other apiservers
RENEW_REQUESTS = 100  # the same, at least, so that rare requests do not spend a TLS handshake each
_DONE = (HTTPStatus.OK, HTTPStatus.CREATED)
LONGEST_ERROR_BYTES = 64 * 2**10
LONGEST_QUOTE = 300  # characters of the server's message
LONGEST_BODY_BYTES = 256 * 2**20  # 500 of the largest objects, or the metadata of 100,000
LONGEST_NOTHING_BYTES = 64 * 2**10  # an empty list has some hundred bytes; many of them are in flight at once
MOST_REMAINING = 2**63 - 1  # the API defines the number as an int64
TOO_LONG = f"The answer is longer than {LONGEST_BODY_BYTES // 2**20} MiB; list in pages, or a smaller representation."
METRICS_PATH = "/metrics"
METRICS_SECONDS = 12.0  # for a whole page: less than the time between two reads
LONGEST_METRICS_BYTES = 128 * 2**20  # the page of a cluster with thousands of nodes has some tens of megabytes
CLOSED = replace(because(Reason.RELOAD), message="This apiserver is not asked any more.")
"""Why a request is not sent, or is broken off, once its client is closed: that is no failure of the apiserver."""

NOT_NOTHING = f"The answer to a read of nothing is longer than {LONGEST_NOTHING_BYTES // 2**10} KiB."

# Read buffers of one connection. A burst fills those of all watches at once, so they are small; the rest waits in the
# kernel.
READ_AHEAD_BYTES = 32 * 2**10  # decrypted; aiohttp stops at twice as much
READ_AHEAD_TLS_BYTES = 64 * 2**10  # still encrypted; 256 KiB by default

# A lost peer is detected within half a minute, as client-go does by HTTP/2 pings.
_KEEPALIVE_IDLE_SECONDS = 15
_KEEPALIVE_INTERVAL_SECONDS = 5
_KEEPALIVE_PROBES = 3
_USER_TIMEOUT_MILLISECONDS = 30_000

# Fields of Linux's struct tcp_info (uapi/linux/tcp.h): tcpi_last_data_recv and tcpi_last_ack_recv at 52 and 56, in
# milliseconds; tcpi_rtt at 68, in microseconds; tcpi_total_retrans at 100.
_TCP_INFO = struct.Struct("=52xII8xI28xI")

_CLASSES = {
    "tick": RequestClass.TICK,
    "nudge": RequestClass.AUDIT,
    "audit": RequestClass.AUDIT,
    "token_review": RequestClass.AUDIT,
    "access_review": RequestClass.AUDIT,
    "probe_cache": RequestClass.PROBE,
    "detect_cache": RequestClass.PROBE,
    "detect_storage": RequestClass.PROBE,
    "headroom": RequestClass.PROBE,
    "metrics_page": RequestClass.PROBE,
}

ObserveDate = Callable[[float, float, float], object]
"""Takes a `Date` header in Unix seconds, and when its request was sent and answered, in monotonic seconds."""

TakePiece = Callable[[bytes], Awaitable[object]]
"""Takes the next bytes of a page; the rest is read when it returns."""

TakeChunk = Callable[[float, bytes], object]
"""Takes when a chunk of an answer was received, in monotonic seconds, and its bytes."""

_ANY_NAME = f"metadata.name!={ABSENT_NAME}"


def request_class(kind: str, *, resumes: bool = False) -> RequestClass:
    """Return the class in which a request of this kind waits for its turn."""
    return RequestClass.RESUME if resumes else _CLASSES.get(kind, RequestClass.OTHER)


@dataclass(frozen=True, slots=True)
class Selectors:
    """Field, label and shard selectors that limit a list or a watch.

    An apiserver without sharded watches (KEP-5866) ignores `shard` silently. Apiservers of 1.36 also ignore it for
    watches without a watch cache, unless another selector is set (github.com/kubernetes/kubernetes/issues/140510).
    """

    fields: str | None = None
    labels: str | None = None
    shard: str | None = None

    @property
    def query(self) -> dict[str, str]:
        fields = self.fields or (_ANY_NAME if self.shard else None)
        pairs = (("fieldSelector", fields), ("labelSelector", self.labels), ("shardSelector", self.shard))
        return {key: value for key, value in pairs if value}


NOTHING = Selectors(fields=f"metadata.name={ABSENT_NAME}")


def has_own_connection(kind: str, selectors: Selectors) -> bool:
    """Return True if a watch has a connection that no other request uses.

    Short ones, as of audits, share connections: only those that are measured may not. A shard selector is confirmed on
    the same connection.
    """
    return kind == "watch" or selectors.shard is not None


NO_METRICS = (
    f"This identity may not get the path {METRICS_PATH}, which `kubernetes.apiserverMetrics` needs; apply the output "
    "of `watchslo rbac`."
)
LONG_METRICS = f"The page of the metrics is longer than {LONGEST_METRICS_BYTES // 2**20} MiB."


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: `items` objects in `size` bytes, as sent.

    `objects` has uids and revisions, if they were requested and the representation has them. `remaining` is the number
    of objects after this page, if the apiserver sends it: only without selectors, and not on the last page. `sharded`
    says whether the apiserver confirms that it applied a shard selector.
    """

    revision: int
    items: int
    size: int
    continue_token: str | None
    sent: float
    answered: float
    objects: ListedObjects | None = None
    remaining: int | None = None
    sharded: bool = False


@dataclass(frozen=True, slots=True)
class _Call:
    """A request; `timeout` covers all of it, `patience` the time until its headers. With a `body` it is a POST.

    `resumes` says that it opens a watch again.
    """

    kind: str
    phase: Phase
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    accept: str = JSON
    timeout: float = LIST_SECONDS
    patience: float = LIST_SECONDS
    body: bytes | None = field(default=None, repr=False)
    resumes: bool = False
    on_sent: OnSent | None = None
    reads_nothing: bool = False

    @property
    def longest(self) -> int:
        """The most bytes that an answer may have."""
        return LONGEST_NOTHING_BYTES if self.reads_nothing else LONGEST_BODY_BYTES

    @property
    def media_type(self) -> str:
        """The only type that a complete answer may have."""
        return self.accept.partition(";")[0]

    @property
    def request_class(self) -> RequestClass:
        return request_class(self.kind, resumes=self.resumes)

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers for the answer, and for a body; the session's own header asks for no encoding."""
        content = () if self.body is None else (("Content-Type", JSON),)
        return (("Accept", self.accept), *content)


@dataclass(frozen=True, slots=True)
class _Response:
    """A complete body of `size` bytes before it was decompressed, and when it was requested and read."""

    body: bytearray
    size: int
    sent: float
    answered: float


class _VersionBody(msgspec.Struct, rename="camel"):
    git_version: str


class WatchFrames:
    """The frames of an open watch, read chunk by chunk: an async iterator.

    Each item is when a chunk was received (monotonic seconds), its size in bytes, and the decoded lines that it
    completes, or None if it completes none. After the last item `failure` is why the watch ended: `ENDED` if the server
    closed it cleanly, `OVERSIZE` if a line was too long.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[tuple[float, bytes] | Failure]],
        reader: FrameReader | ProtobufFrameReader,
    ) -> None:
        self.failure = ENDED
        self._read = read
        self._reader = reader
        self._is_over = False

    @property
    def is_cut(self) -> bool:
        """Whether the watch ended within a line."""
        return self._reader.is_cut

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[float, int, Frames | None]:
        if self._is_over:
            raise StopAsyncIteration
        arrived = await self._read()
        if isinstance(arrived, Failure):
            self.failure = arrived
            self._is_over = True
            raise StopAsyncIteration
        received, chunk = arrived
        try:
            return received, len(chunk), self._reader.feed(chunk)
        except LineTooLong:
            self.failure = because(Reason.OVERSIZE)
            self._is_over = True
            return received, len(chunk), None


class _BodyWatcher(asyncio.Protocol):
    """Passes the body of an answer to `take`, by way of the inbox of the event loop, where it waits encrypted.

    It stands in front of aiohttp's protocol, which decodes the body. A task that waits for the body would run in the
    next turn of the loop, which costs more than the event itself. `ended` is why the answer ended, or what `take`
    raised.

    A small event is one chunk of the transfer encoding and arrives alone. aiohttp does not see such a chunk if it has
    decoded all chunks before it completely: it then has nothing to remember of it.
    """

    def __init__(self, content: aiohttp.StreamReader, address: str, take: TakeChunk) -> None:
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[Failure] = loop.create_future()
        self._inbox = loop.inbox if isinstance(loop, TimedEventLoop) else Inbox()
        self._content = content
        self._address = address
        self._take = take
        self._decrypt: Callable[[bytes], bytes] = bytes
        self._is_between_chunks = False

    def begin(self, connection: aiohttp.connector.Connection | None) -> None:
        """Pass on what has been read, and stand in front of the protocol of the connection if it is still open."""
        if connection is not None and connection.transport is not None:
            assert connection.protocol is not None
            self._inner = connection.protocol
            connection.transport.set_protocol(self)
            if isinstance(connection.transport, SocketTransport):
                self._decrypt = connection.transport.keep_encrypted(partial(self._inbox.put, self._decode))
        self.catch_up()  # with what others have received: events are recorded in the order of their arrival
        self._pass_on_decoded(time.monotonic())

    def catch_up(self) -> None:
        """Pass on what has been received until now."""
        self._inbox.empty()

    def data_received(self, data: bytes) -> None:
        self._inbox.put(self._decode, data)

    def eof_received(self) -> None:
        self.catch_up()
        self._inner.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self.catch_up()
        self._inner.connection_lost(error)
        self._pass_on_decoded(time.monotonic())

    def _decode(self, received: float, encrypted: bytes) -> None:
        """Decrypt data, and pass on the chunks of the transfer encoding that it completes."""
        try:
            data = self._decrypt(encrypted)
        except OSError as error:
            self._end(fault(error, self._address, Phase.STREAM))
            return
        alone = content_of_chunk(data)
        if alone and self._is_between_chunks:
            self._pass_on(received, alone)
        else:
            self._inner.data_received(data)
            # Within a chunk, it would have decoded the size as well: no object begins with a digit.
            self._is_between_chunks = self._pass_on_decoded(received) == alone != b""

    def _pass_on_decoded(self, received: float) -> bytes:
        """Pass on and return what aiohttp has decoded; while it is read, aiohttp may continue to decode."""
        parts = []
        try:
            while part := self._content.read_nowait():
                parts.append(part)
        except FAULTS as error:  # one object for all answers that were closed: its traceback would keep all of them
            failure: Failure | None = fault(error.with_traceback(None), self._address, Phase.STREAM)
        else:
            failure = ENDED if self._content.is_eof() else None
        content = b"".join(parts)
        if content:
            self._pass_on(received, content)
        if failure is not None:
            self._end(failure)
        return content

    def _pass_on(self, received: float, chunk: bytes) -> None:
        if self.ended.done():
            return
        try:
            self._take(received, chunk)
        except Exception as error:  # noqa: BLE001 - the task that waits for the end raises it
            self.ended.set_exception(error)

    def _end(self, why: Failure) -> None:
        if not self.ended.done():
            self.ended.set_result(why)


def content_of_chunk(data: bytes) -> bytes:
    """Return the JSON object if the data is one chunk of the transfer encoding as Go writes it, else b""."""
    start = data.find(b"\r\n{") + 2
    end = len(data) - 2
    if data[end:] == b"\r\n" and data[: start - 2] == b"%x" % (end - start):
        return data[start:end]
    return b""


class WatchResponse:
    """An open watch, which may last until `deadline`."""

    _body: _BodyWatcher | None = None

    def __init__(
        self, response: aiohttp.ClientResponse, address: str, deadline: float, representation: Representation
    ) -> None:
        self._representation = representation
        self._deadline = deadline
        self._response = response
        self._content = response.content
        self._address = address

    def frames(self, longest_line: int = DEFAULT_LIMIT_BYTES, decoder: FrameDecoder = FRAME) -> WatchFrames:
        """Return an iterator over the decoded frames; no line may be longer than `longest_line` bytes."""
        return WatchFrames(self.read, self._representation.frame_reader(longest_line, decoder))

    async def follow(self, take: TakeChunk) -> Failure:
        """Pass each chunk to `take` soon after it was read; return why the watch ended, or raise an error of `take`.

        As for `read`, chunks are not lines.
        """
        self._body = body = _BodyWatcher(self._content, self._address, take)
        body.begin(self._response.connection)
        try:
            async with asyncio.timeout_at(self._deadline):
                return await body.ended
        except TimeoutError as error:
            return fault(error, self._address, Phase.STREAM)

    def catch_up(self) -> None:
        """Pass on what has been received until now."""
        if self._body is not None:
            self._body.catch_up()

    async def read(self) -> tuple[float, bytes] | Failure:
        """Return the next chunk and when it was received, or why the watch ended: `ENDED` if it was closed cleanly.

        Chunks are not lines: a clean end within a line is for the caller to notice.
        """
        try:
            chunk = await self._content.readany()
        except FAULTS as error:
            return fault(error, self._address, Phase.STREAM)
        received = time.monotonic()
        return (received, chunk) if chunk else ENDED

    def transport(self) -> TransportReading | None:
        """Return what the kernel knows of the connection, or None if it is closed or this is not Linux.

        Nothing is sent on an open watch, so the round trip is the one measured when it opened. Through a proxy it is
        the round trip to the proxy.
        """
        connection = self._response.connection
        transport = connection.transport if connection else None
        if sys.platform != "linux" or transport is None or transport.is_closing():
            return None  # the number of a closed descriptor may already belong to another connection
        return _transport_reading(transport.get_extra_info("socket"))


class _Pool:
    """Connections that requests share, one request at a time.

    All are replaced after `RENEW_SECONDS` and `RENEW_REQUESTS`, whichever comes last. Old connections are closed after
    the last request on them, so no request is interrupted until `close`.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self._session = _session()
        self._renew_at = time.monotonic() + RENEW_SECONDS
        self._requests = 0  # on these connections
        self._users: Counter[aiohttp.ClientSession] = Counter()
        self._closing: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[aiohttp.ClientSession]:
        """Provide a session for one request, until its answer is read."""
        if self._requests >= RENEW_REQUESTS and time.monotonic() >= self._renew_at:
            self.renew()
        self._requests += 1
        session = self._session
        self._users[session] += 1
        try:
            yield session
        finally:
            self._users[session] -= 1
            if session is not self._session:
                self._close_unused(session)

    async def close(self) -> None:
        """Close all connections, also those in use; none is opened afterwards."""
        self.is_closed = True
        for session in {self._session, *self._users}:
            await session.close()
        if self._closing:
            await asyncio.wait(self._closing)

    def renew(self) -> None:
        """Replace all connections: close idle ones now, and the others after their requests."""
        if self.is_closed:
            return
        retired, self._session = self._session, _session()
        self._renew_at, self._requests = time.monotonic() + RENEW_SECONDS, 0
        self._close_unused(retired)

    def _close_unused(self, session: aiohttp.ClientSession) -> None:
        """Close a retired session in the background, if no request uses it."""
        if not self._users[session]:
            del self._users[session]
            task = asyncio.create_task(session.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


class Client:
    """The client of one apiserver; open it as a context, on the event loop where it is used.

    Without `address`, it uses the address of the credentials. Each watch that is measured has its own connection; all
    other requests share connections. `requests` counts by (kind, code); the code of a request without an answer is the
    reason of its failure. A code of HTTP has three digits, so there are at most a thousand of each kind. `not_ready`
    counts those that were answered by a 429 because a watch cache was not ready, which is no sign of load.
    `responsiveness` knows which requests had an answer.

    Once the context is left, each request returns `CLOSED`: others may not know yet that an apiserver has left.
    """

    def __init__(
        self,
        credentials: CredentialSource,
        limiter: Limiter,
        observe_date: ObserveDate,
        *,
        name: str = SERVICE,
        address: Address | None = None,
    ) -> None:
        self.name = name
        self.requests: Counter[tuple[str, str]] = Counter()
        self.not_ready = 0
        self.responsiveness = Responsiveness()
        self._credentials = credentials
        self._limiter = limiter
        self._observe_date = observe_date
        self._own_address = address

    async def __aenter__(self) -> Self:
        self._pool = _Pool()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close()

    def hang_up(self) -> None:
        """Close the idle connections."""
        self._pool.renew()

    async def read_nothing(
        self, resource: Resource, namespace: str, kind: str, at: int | None = None
    ) -> Reading | Failure:
        """Return the present revision of the storage, from a consistent list that selects no object.

        With `at`, read at exactly that revision instead: the failure is EXPIRED if it is compacted.
        """
        exactly = {} if at is None else {"resourceVersion": str(at), "resourceVersionMatch": "Exact"}
        return await self._read(resource, namespace, kind, NOTHING.query | exactly)

    async def read_cache(self, resource: Resource, namespace: str) -> Reading | Failure:
        """Return the present revision of the apiserver's watch cache, which may be old, without waiting.

        For a resource without a cache, this is `read_nothing`. A cache only advances with events and progress notices.
        """
        return await self._read(resource, namespace, "probe_cache", NOTHING.query | {"resourceVersion": "0"})

    async def _read(self, resource: Resource, namespace: str, kind: str, query: Mapping[str, str]) -> Reading | Failure:
        path = resource.path(namespace)
        call = _Call(kind, Phase.LIST, path, query, timeout=TICK_SECONDS, patience=TICK_SECONDS, reads_nothing=True)
        page = _page(await self._get(call))
        if isinstance(page, Failure):
            return page
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
        on_sent: OnSent | None = None,
    ) -> Page | Failure:
        """Return one page of a list, or the whole list. `objects` is None for a Table, which does not identify them.

        In all namespaces, an apiserver goes through all objects to find those of one name. So a list that is read for
        its revision alone is of a namespace.
        """
        if request.for_revision:
            namespace = namespace or ABSENT_NAME  # rights for all namespaces include one that is absent
            selectors = NOTHING if request.absent_name else Selectors()
        query = selectors.query | representation.query | _list_query(request)
        call = _Call(
            "list",
            Phase.LIST,
            resource.path(namespace),
            query,
            representation.accept_list,
            on_sent=on_sent,
        )
        async with self._pool.session() as session:
            if failure := await self._unconfirmed(session, resource, namespace, selectors):
                return failure
            answer = await self._get_on(session, call)
        return _page(answer, representation, with_objects=with_objects)

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
        on_sent: OnSent | None = None,
    ) -> AsyncIterator[WatchResponse | Failure]:
        """Open a watch, and provide its response after the headers arrived, or why it did not open.

        `resumes` says that the watch was open before. A streamed list has the same timeout as any watch; its headers
        arrive before its objects.
        """
        call = _Call(
            kind,
            Phase.OPEN,
            resource.path(namespace),
            selectors.query | representation.query | _watch_query(request),
            representation.accept_watch,
            timeout=request.timeout + OVERTIME_SECONDS,
            patience=OPEN_SECONDS,
            resumes=resumes,
            on_sent=on_sent,
        )
        # With its own session, no connection outlives the watch.
        own = has_own_connection(kind, selectors)
        async with _session() if own else self._pool.session() as session:
            opened = await self._unconfirmed(
                session, resource, namespace, selectors, resumes=resumes
            ) or await self._open(call, session)
            if isinstance(opened, Failure):
                yield opened
                return
            response, sent = opened
            _read_little_ahead(response)
            try:
                yield WatchResponse(response, _address(response), sent + call.timeout, representation)
            finally:
                _hang_up(response)

    async def _unconfirmed(
        self,
        session: aiohttp.ClientSession,
        resource: Resource,
        namespace: str | None,
        selectors: Selectors,
        *,
        resumes: bool = False,
    ) -> Failure | None:
        """Return why the apiserver behind this session may ignore the shard selector; None if there is none.

        Only a list of whole objects repeats its selector, so this one selects no object, from the cache.
        """
        if selectors.shard is None:
            return None
        query = replace(NOTHING, shard=selectors.shard).query | {"resourceVersion": "0"}
        path = resource.path(namespace or ABSENT_NAME)  # rights for all namespaces include one that is absent
        call = _Call(
            "confirm_selector",
            Phase.LIST,
            path,
            query,
            timeout=TICK_SECONDS,
            patience=TICK_SECONDS,
            resumes=resumes,
            reads_nothing=True,
        )
        page = _page(await self._get_on(session, call))
        if isinstance(page, Failure):
            return page
        return None if page.sharded else because(Reason.SELECTOR_UNCONFIRMED, phase=Phase.LIST)

    async def document(self, path: str, accept: str = JSON, seconds: float = LIST_SECONDS) -> bytes | Failure:
        """Return a document of discovery, which may take so long once it is sent."""
        answer = await self._get(_Call("discovery", Phase.LIST, path, accept=accept, timeout=seconds, patience=seconds))
        return answer if isinstance(answer, Failure) else bytes(answer.body)

    async def create(self, kind: str, path: str, body: bytes) -> bytes | Failure:
        """Create a review, which the apiserver answers and does not store, and return the answer."""
        call = _Call(kind, Phase.LIST, path, timeout=REVIEW_SECONDS, patience=REVIEW_SECONDS, body=body)
        answer = await self._get(call)
        return answer if isinstance(answer, Failure) else bytes(answer.body)

    async def version(self) -> str | Failure:
        """Return the version of the server, such as `v1.36.3`."""
        answer = await self._get(_Call("version", Phase.LIST, "/version"))
        if isinstance(answer, Failure):
            return answer
        version = decode_answer(answer.body, _VersionBody)
        return version if isinstance(version, Failure) else version.git_version

    async def read_metrics(self, take: TakePiece) -> Failure | None:
        """Pass the page of the apiserver's own metrics to `take`, in pieces of at most 64 KiB; return why it failed."""
        call = _Call(
            "metrics_page",
            Phase.LIST,
            METRICS_PATH,
            accept="text/plain;version=0.0.4",
            timeout=METRICS_SECONDS,
            patience=METRICS_SECONDS,
        )
        async with self._pool.session() as session:
            opened = await self._open(call, session)
            if isinstance(opened, Failure):
                return replace(opened, message=NO_METRICS) if opened.reason is Reason.FORBIDDEN else opened
            response, _ = opened
            size = 0
            try:
                while piece := await response.content.readany():
                    size += len(piece)
                    if size > LONGEST_METRICS_BYTES:
                        return replace(because(Reason.GARBAGE, phase=call.phase), message=LONG_METRICS)
                    await take(piece)
            except FAULTS as error:
                return self._fault(error, _address(response), call.phase)
            finally:
                response.release()
        return None

    async def _get(self, call: _Call) -> _Response | Failure:
        async with self._pool.session() as session:
            return await self._get_on(session, call)

    async def _get_on(self, session: aiohttp.ClientSession, call: _Call) -> _Response | Failure:
        opened = await self._open(call, session)
        if isinstance(opened, Failure):
            return opened
        response, sent = opened
        try:
            body = await _body(response, call.longest)
            answered = time.monotonic()
            if len(body) > call.longest:
                message = NOT_NOTHING if call.reads_nothing else TOO_LONG
                return replace(because(Reason.GARBAGE, phase=call.phase), message=message)
        except FAULTS as error:
            return self._fault(error, _address(response), call.phase)
        finally:
            response.release()
        return _Response(body, response.content.total_raw_bytes, sent, answered)

    async def _open(
        self, call: _Call, session: aiohttp.ClientSession
    ) -> tuple[aiohttp.ClientResponse, float] | Failure:
        """Send a request; return an answer with status 200 or 201, whose body is unread, and when it was sent."""
        url = "the apiserver"
        try:
            access = await self._credentials.access()
            address = self._own_address or Address(access.url, access.server_name)
            url = address.url
            proxy = access.proxy.for_url(url)
            await self._limiter.acquire(call.request_class)
            if self._pool.is_closed:
                return CLOSED
            sent = time.monotonic()
            self.responsiveness.asked(sent)
            if call.on_sent is not None:
                call.on_sent()
            connect_timeout = min(CONNECT_SECONDS, CONNECT_SHARE * call.patience)
            async with asyncio.timeout(call.patience):
                response = await session.request(
                    "GET" if call.body is None else "POST",
                    url + call.path,
                    params=call.query,
                    data=call.body,
                    headers=[*access.headers, *call.headers],
                    timeout=aiohttp.ClientTimeout(
                        total=call.timeout, connect=connect_timeout, sock_connect=connect_timeout
                    ),
                    allow_redirects=False,
                    ssl=access.tls or True,
                    server_hostname=address.server_name,
                    proxy=proxy,
                )
            self._observe(response, sent)
        except asyncio.CancelledError:
            if self._pool.is_closed and not _is_cancelled():  # aiohttp cancels the resolution of names
                return CLOSED
            raise
        except FAULTS as error:
            failure = self._fault(error, url, call.phase)
            self.requests[call.kind, failure.reason.value] += 1
            if failure.reason is Reason.REFUSED:
                self.responsiveness.refused()
            return failure
        self.requests[call.kind, str(response.status)] += 1
        if response.status in _DONE and response.content_type == call.media_type:
            return response, sent
        failure = await _refusal(response, call)
        self.not_ready += failure.reason in CACHE_NOT_READY and response.status == HTTPStatus.TOO_MANY_REQUESTS
        if failure.action is Action.REAUTHENTICATE:
            self._credentials.reject(access)
        return failure

    def _fault(self, error: Exception, address: str, phase: Phase) -> Failure:
        """Return the failure for one of `FAULTS`, which is our own if the client was closed."""
        return CLOSED if self._pool.is_closed else fault(error, address, phase)

    def _observe(self, response: aiohttp.ClientResponse, sent: float) -> None:
        answered = time.monotonic()
        self.responsiveness.heard(answered)
        with contextlib.suppress(KeyError, ValueError, OverflowError):
            date = parsedate_to_datetime(response.headers["Date"]).timestamp()
            self._observe_date(date, sent, answered)


def _is_cancelled() -> bool:
    """Return True if the current task itself is being cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _refusal(response: aiohttp.ClientResponse, call: _Call) -> Failure:
    """Return the failure of an answer that cannot be used, with the message of the server."""
    body, phase = b"", call.phase
    try:
        if response.status in _DONE and (response.content_type, call.media_type) == (JSON, PROTOBUF):
            return because(Reason.NOT_ACCEPTABLE, phase=phase)  # the server ignores what was requested
        if response.status in _DONE:
            wanted = "JSON" if call.media_type == JSON else call.media_type
            message = f"{_address(response)} sends {response.content_type} instead of {wanted}: it is not an apiserver."
            return replace(because(Reason.GARBAGE, phase=phase, status=response.status), message=message)
        with contextlib.suppress(*FAULTS):
            body = bytes(await _body(response, LONGEST_ERROR_BYTES))
    finally:
        response.release()
    status, text = _read_status(body)
    failure = classify_status(response.status, status, parse_retry_after(response.headers.get("Retry-After")), phase)
    if failure.reason is Reason.UNEXPECTED_STATUS:
        return replace(failure, message=_unexpected(response))
    quote = _quotable(failure.reason, text)
    return replace(failure, message=f"{failure.message} It says: {quote}") if quote else failure


def _unexpected(response: aiohttp.ClientResponse) -> str:
    """Return what an answer is whose status apiservers do not send; where it leads is shown without its query."""
    said = f"{_address(response)} answers {response.status}"
    if target := redirect_target(response):
        return f"{said} and redirects to {target}: a proxy may want a login; write the address of the apiserver."
    return f"{said}, which is no status of an apiserver; check the address, and the proxies on the way."


def _read_status(body: bytes) -> tuple[ApiStatus | None, str]:
    """Return the Status of an HTTP error if there is one, and the server's message.

    An apiserver sends errors in the representation that was requested, if it got so far as to look at that.
    """
    is_protobuf = body.startswith(MAGIC)
    status = decode_protobuf_status(body) if is_protobuf else decode_status(body)
    if status is not None:
        return status, status.message or ""
    return None, "" if is_protobuf else body.decode(errors="replace")


_INTERNAL = (Reason.SERVER_ERROR, Reason.CONVERSION)


def _quotable(reason: Reason, text: str) -> str:
    """Return the server's message, or "" if it may name an object or is not plain text.

    A proxy's page is not plain text. The message of an internal error may name an object, by its key in etcd or in the
    text of a webhook, whose own name may be in it; messages of etcd itself name none. All other messages are about the
    request.
    """
    internal = reason in _INTERNAL and not text.startswith("etcdserver: ")
    return "" if internal or "<" in text or not text.isascii() else " ".join(text.split())[:LONGEST_QUOTE]


async def _body(response: aiohttp.ClientResponse, limit: int) -> bytearray:
    """Return the body, or only its beginning (more than `limit` bytes) if it is longer."""
    body = bytearray()
    while len(body) <= limit and (chunk := await response.content.readany()):
        body += chunk
    return body


def _list_query(request: ListRequest) -> dict[str, str]:
    query = {} if request.limit is None else {"limit": str(request.limit)}
    if request.continue_token is not None:  # it contains the revision, and apiservers refuse a second one
        return query | {"continue": request.continue_token}
    if request.from_cache:
        return query | {"resourceVersion": "0"}
    if request.not_older_than is not None:
        match = {"resourceVersionMatch": "NotOlderThan"} if request.states_match else {}
        return query | {"resourceVersion": str(request.not_older_than)} | match
    return query


def _watch_query(request: WatchRequest) -> dict[str, str]:
    query = {"watch": "1", "timeoutSeconds": str(request.timeout)}
    if request.revision is None:
        query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    else:
        query["resourceVersion"] = str(request.revision)
    if request.bookmarks or request.revision is None:  # a bookmark ends a streamed list
        query["allowWatchBookmarks"] = "true"
    return query


def _page(
    answer: _Response | Failure, representation: Representation = Representation.PLAIN, *, with_objects: bool = False
) -> Page | Failure:
    if isinstance(answer, Failure):
        return answer
    listed = decode_list(answer.body, representation, with_objects=with_objects)
    if isinstance(listed, Failure):
        return listed
    revision = parse_revision(listed.revision)
    if revision is None:
        return unmeasurable(listed.revision, Phase.LIST)
    return Page(
        revision=revision,
        items=listed.items,
        size=answer.size,
        continue_token=listed.continue_token or None,
        sent=answer.sent,
        answered=answer.answered,
        objects=listed.objects,
        remaining=_remaining(listed.remaining),
        sharded=listed.sharded,
    )


def _remaining(count: int | None) -> int | None:
    """Return the number of objects after a page, or None if the apiserver sends none that is possible."""
    return None if count is None or not 0 <= count <= MOST_REMAINING else count


def _read_little_ahead(response: aiohttp.ClientResponse) -> None:
    """Limit the TLS read buffer of an answer; uvloop and asyncio have the method, but do not document it."""
    transport = response.connection.transport if response.connection else None
    if transport is not None and hasattr(transport, "set_read_buffer_limits"):
        transport.set_read_buffer_limits(READ_AHEAD_TLS_BYTES)


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """Abort an answer at once. TLS would wait for the peer's close_notify, which a stuck peer never sends."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


def _address(response: aiohttp.ClientResponse) -> str:
    return str(response.url.origin())


def _transport_reading(connected: socket.socket) -> TransportReading | None:
    try:
        info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        data_ago, acknowledged_ago, round_trip, retransmits = _TCP_INFO.unpack(info)
    except (OSError, struct.error):  # it was closed just now, or a sandbox returns less than Linux
        return None
    return TransportReading(round_trip / 1e6, retransmits, min(data_ago, acknowledged_ago) / 1e3)


def _session() -> aiohttp.ClientSession:
    """Return a session that reuses its connections; when it is closed, idle ones are cut without TLS close_notify."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS, socket_factory=_socket),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=READ_AHEAD_BYTES,
        headers={"User-Agent": f"watchslo/{__version__}", "Accept-Encoding": "identity"},
    )
    # aiohttp would repeat a dropped request, which would not be counted; it has no option against that.
    session._retry_connection = False  # noqa: SLF001
    return session


class _Socket(socket.socket):
    """A socket that does not close its descriptor when it is garbage-collected.

    uvloop closes the sockets that it has taken over, also after an immediate reset by the peer. The descriptor may then
    be in use again, and bytes of one connection would go to another (github.com/MagicStack/uvloop/issues/653).
    """

    def __del__(self) -> None:
        self.detach()


def _socket(info: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    """Return a socket with keepalive, which detects a lost peer."""
    made = _Socket(info[0], info[1], info[2])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", _KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", _KEEPALIVE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", _KEEPALIVE_PROBES),
        ("TCP_USER_TIMEOUT", _USER_TIMEOUT_MILLISECONDS),
    ):
        if hasattr(socket, option):  # some platforms other than Linux lack options
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
