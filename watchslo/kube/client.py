"""Requests to one apiserver. Each returns a value and never raises, and each is counted and timed.

`sent`, `answered` and `received` are monotonic seconds, taken as close to the socket as a coroutine can.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Self

import aiohttp
import msgspec

from watchslo.kube.call import (
    ABSENT_NAME,
    LIST_SECONDS,
    LONGEST_BODY_BYTES,
    LONGEST_NOTHING_BYTES,
    NOTHING,
    TICK_SECONDS,
    Call,
    CompleteBody,
    OnSent,
    Page,
    Selectors,
    has_own_connection,
    list_query,
    page_of,
    watch_query,
)
from watchslo.kube.connections import ConnectionPool, address_of, hang_up, read_little_ahead
from watchslo.kube.credentials import Address, CredentialSource
from watchslo.kube.decoding import decode_answer
from watchslo.kube.limiter import Limiter
from watchslo.kube.network_failure import FAULTS, fault
from watchslo.kube.refusal import DONE, TakePiece, pass_body, read_body, refusal
from watchslo.kube.representation import JSON, Representation
from watchslo.kube.watch_response import WatchResponse
from watchslo.model import SERVICE, Reading, Resource
from watchslo.watch.failure import (
    CACHE_NOT_READY,
    Action,
    Failure,
    Phase,
    Reason,
    because,
)
from watchslo.watch.messages import ListRequest, WatchRequest
from watchslo.watch.responsiveness import Responsiveness

CONNECT_SECONDS = 10.0
CONNECT_SHARE = 0.8  # of the patience, at most, so that an unreachable apiserver is not mistaken for a slow one
REVIEW_SECONDS = 3.0  # a scrape waits for two of them, and times out after ten seconds
OPEN_SECONDS = 30.0  # until a watch's headers; priority and fairness may queue it for 15 s
OVERTIME_SECONDS = 30.0  # that a watch may last longer than its timeout
TOO_LONG = f"The answer is longer than {LONGEST_BODY_BYTES // 2**20} MiB; list in pages, or a smaller representation."
METRICS_PATH = "/metrics"
METRICS_SECONDS = 12.0  # for a whole page: less than the time between two reads
LONGEST_METRICS_BYTES = 128 * 2**20  # the page of a cluster with thousands of nodes has some tens of megabytes
CLOSED = replace(because(Reason.RELOAD), message="This apiserver is not asked any more.")
"""Why a request is not sent, or is broken off, once its client is closed: that is no failure of the apiserver."""
NOT_NOTHING = f"The answer to a read of nothing is longer than {LONGEST_NOTHING_BYTES // 2**10} KiB."
ObserveDate = Callable[[float, float, float], object]
"""Takes a `Date` header in Unix seconds, and when its request was sent and answered, in monotonic seconds."""
NO_METRICS = (
    f"This identity may not get the path {METRICS_PATH}, which `kubernetes.apiserverMetrics` needs; apply the output "
    "of `watchslo rbac`."
)
LONG_METRICS = f"The page of the metrics is longer than {LONGEST_METRICS_BYTES // 2**20} MiB."


class _VersionBody(msgspec.Struct, rename="camel"):
    git_version: str


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
        self._pool = ConnectionPool()
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
        call = Call(kind, Phase.LIST, path, query, timeout=TICK_SECONDS, patience=TICK_SECONDS, reads_nothing=True)
        page = page_of(await self._get(call))
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
        query = selectors.query | representation.query | list_query(request)
        call = Call(
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
        return page_of(answer, representation, with_objects=with_objects)

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
        call = Call(
            kind,
            Phase.OPEN,
            resource.path(namespace),
            selectors.query | representation.query | watch_query(request),
            representation.accept_watch,
            timeout=request.timeout + OVERTIME_SECONDS,
            patience=OPEN_SECONDS,
            resumes=resumes,
            on_sent=on_sent,
        )
        own = has_own_connection(kind, selectors)
        async with self._pool.unshared() if own else self._pool.session() as session:
            opened = await self._unconfirmed(
                session, resource, namespace, selectors, resumes=resumes
            ) or await self._open(call, session)
            if isinstance(opened, Failure):
                yield opened
                return
            response, sent = opened
            read_little_ahead(response)
            try:
                yield WatchResponse(response, address_of(response), sent + call.timeout, representation)
            finally:
                hang_up(response)

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
        call = Call(
            "confirm_selector",
            Phase.LIST,
            path,
            query,
            timeout=TICK_SECONDS,
            patience=TICK_SECONDS,
            resumes=resumes,
            reads_nothing=True,
        )
        page = page_of(await self._get_on(session, call))
        if isinstance(page, Failure):
            return page
        return None if page.sharded else because(Reason.SELECTOR_UNCONFIRMED, phase=Phase.LIST)

    async def document(self, path: str, accept: str = JSON, seconds: float = LIST_SECONDS) -> bytes | Failure:
        """Return a document of discovery, which may take so long once it is sent."""
        answer = await self._get(Call("discovery", Phase.LIST, path, accept=accept, timeout=seconds, patience=seconds))
        return answer if isinstance(answer, Failure) else bytes(answer.body)

    async def create(self, kind: str, path: str, body: bytes) -> bytes | Failure:
        """Create a review, which the apiserver answers and does not store, and return the answer."""
        call = Call(kind, Phase.LIST, path, timeout=REVIEW_SECONDS, patience=REVIEW_SECONDS, body=body)
        answer = await self._get(call)
        return answer if isinstance(answer, Failure) else bytes(answer.body)

    async def version(self) -> str | Failure:
        """Return the version of the server, such as `v1.36.3`."""
        answer = await self._get(Call("version", Phase.LIST, "/version"))
        if isinstance(answer, Failure):
            return answer
        version = decode_answer(answer.body, _VersionBody)
        return version if isinstance(version, Failure) else version.git_version

    async def read_metrics(self, take: TakePiece) -> Failure | None:
        """Pass the page of the apiserver's own metrics to `take`, in pieces of at most 64 KiB; return why it failed."""
        call = Call(
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
            try:
                if not await pass_body(response, take, LONGEST_METRICS_BYTES):
                    return replace(because(Reason.GARBAGE, phase=call.phase), message=LONG_METRICS)
            except FAULTS as error:
                return self._fault(error, address_of(response), call.phase)
            finally:
                response.release()
        return None

    async def _get(self, call: Call) -> CompleteBody | Failure:
        async with self._pool.session() as session:
            return await self._get_on(session, call)

    async def _get_on(self, session: aiohttp.ClientSession, call: Call) -> CompleteBody | Failure:
        opened = await self._open(call, session)
        if isinstance(opened, Failure):
            return opened
        response, sent = opened
        try:
            body = await read_body(response, call.longest)
            answered = time.monotonic()
            if len(body) > call.longest:
                message = NOT_NOTHING if call.reads_nothing else TOO_LONG
                return replace(because(Reason.GARBAGE, phase=call.phase), message=message)
        except FAULTS as error:
            return self._fault(error, address_of(response), call.phase)
        finally:
            response.release()
        return CompleteBody(body, response.content.total_raw_bytes, sent, answered)

    async def _open(self, call: Call, session: aiohttp.ClientSession) -> tuple[aiohttp.ClientResponse, float] | Failure:
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
        if response.status in DONE and response.content_type == call.media_type:
            return response, sent
        failure = await refusal(response, call)
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
