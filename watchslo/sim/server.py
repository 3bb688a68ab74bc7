"""The HTTP server of the simulated apiserver: it routes requests to the cluster and encodes the responses."""

import asyncio
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from random import Random
from typing import Any

from aiohttp import web

from watchslo.sim import discovery, status
from watchslo.sim.cluster import Cluster
from watchslo.sim.encoding import dump, error_body, error_type, negotiate
from watchslo.sim.faults import ALL_RESOURCES, FaultResponse
from watchslo.sim.kinds import BUILT_IN, Object, ResourceKind
from watchslo.sim.metrics_page import metrics_page
from watchslo.sim.query import ListOptions, ObjectSelector, parse_options, parse_selector
from watchslo.sim.registry import merge
from watchslo.sim.watch_connection import WatchConnection

_WATCH_TIMEOUT_RANGE_SECONDS = (1800.0, 3600.0)
"""Lifetime of a watch without timeoutSeconds, as with kube-apiserver's --min-request-timeout."""
_MAX_ARRIVALS = 100_000
_OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version")
"""Paths that need no token, as with the role system:public-info-viewer."""
_VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.3", "platform": "simulated"}
_VERBS = {
    ("GET", False): "list",
    ("GET", True): "get",
    ("POST", False): "create",
    ("PATCH", True): "patch",
    ("DELETE", True): "delete",
}
"""The verb of a request, by its method and by whether the path names one object."""


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The target of a path: a collection, or one object of it if `name` is set."""

    kind: ResourceKind
    namespace: str | None
    name: str | None


def parse_path(path: str) -> RequestTarget | None:
    """Return the target of a resource's path; None for an unknown path."""
    match path.strip("/").split("/"):
        case ["api", "v1", *rest]:
            group = ""
        case ["apis", group, "v1", *rest]:
            pass
        case _:
            return None
    namespace = None
    if len(rest) > 2 and rest[0] == "namespaces":  # noqa: PLR2004 - namespaces/NAME/RESOURCE
        _, namespace, *rest = rest
    plural, name, *more = [*rest, None, None]
    kind = BUILT_IN.get(f"{plural}.{group}" if group else plural or "")
    return RequestTarget(kind, namespace, name) if kind and not any(more) else None


class WatchBody:
    """The body of a watch response: it writes chunks to the transport and never waits.

    aiohttp's `write` waits while the transport is full, and needs a task that wakes for every event.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def backlog(self) -> int:
        return self._transport.get_write_buffer_size()

    def abort(self) -> None:
        self._transport.abort()


Handler = Callable[[web.Request, RequestTarget], Awaitable[web.StreamResponse]]


class SimServer:
    """Serves the Kubernetes API of a cluster.

    `arrivals` holds the arrival times of the last requests (monotonic seconds), whether or not they succeed.
    """

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self.arrivals: deque[float] = deque(maxlen=_MAX_ARRIVALS)
        self._cluster = cluster
        self._random = random
        self._verbs: dict[str, Handler] = {
            "list": self._list,
            "watch": self._watch,
            "get": self._get,
            "create": self._create,
            "patch": self._patch,
            "delete": self._delete,
        }

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Handle a request to the Kubernetes API."""
        self.arrivals.append(time.monotonic())
        verb = "discover"
        try:
            self._authenticate(request)
            target = parse_path(request.path)
            verb = self._verb(request, target) if target else verb
            return await (self._inject_fault(request, target, verb) or self._answer(request, target, verb))
        except status.StatusError as error:
            return _refusal(error, request.headers.get("Accept", ""))

    async def set_headers(self, _request: web.Request, response: web.StreamResponse) -> None:
        """Set the headers of every response: the apiserver's time in whole seconds, and no caching."""
        response.headers["Date"] = formatdate(int(self._cluster.wall()), usegmt=True)
        response.headers["Cache-Control"] = "no-cache, private"
        response.headers.popall("Server", None)

    def _authenticate(self, request: web.Request) -> None:
        token = self._cluster.settings.token
        authorization = request.headers.get("Authorization", "")
        anonymous = not authorization and request.path in _OPEN_PATHS
        if token and not anonymous and authorization != f"Bearer {token}":
            raise status.unauthorized()

    def _verb(self, request: web.Request, target: RequestTarget) -> str:
        verb = _VERBS.get((request.method, target.name is not None), "")
        if verb == "list" and parse_options(request.query).watch:
            verb = "watch"
        if not verb:
            raise status.method_not_allowed()
        return verb

    def _inject_fault(
        self, request: web.Request, target: RequestTarget | None, verb: str
    ) -> Awaitable[web.Response] | None:
        resource = target.kind.stored if target else ALL_RESOURCES
        response = self._cluster.faults.response(resource, verb)
        return _fault_response(request, target, verb, response) if response else None

    async def _answer(self, request: web.Request, target: RequestTarget | None, verb: str) -> web.StreamResponse:
        if target:
            return await self._verbs[verb](request, target)
        return self._discover(request)

    # Resources

    async def _list(self, request: web.Request, target: RequestTarget) -> web.Response:
        options, selector = self._options(request, target)
        encoder = negotiate(request.headers.get("Accept", ""), target.kind, options.include)
        listing = await self._cluster.resource_server(target.kind).read(options, selector)
        body = encoder.list_body(listing.objects, listing.metadata())
        return _answer(body, encoder.media_type)

    async def _watch(self, request: web.Request, target: RequestTarget) -> web.StreamResponse:
        options, selector = self._options(request, target)
        encoder = negotiate(request.headers.get("Accept", ""), target.kind, options.include)
        lifetime = options.timeout or self._random.uniform(*_WATCH_TIMEOUT_RANGE_SECONDS)
        deadline = time.monotonic() + lifetime
        response = web.StreamResponse(headers={"Content-Type": encoder.watch_type})
        async with self._cluster.watch(options, selector, encoder, deadline) as watch:
            with suppress(ConnectionError, TimeoutError):  # the client disconnects, or the watch reaches its deadline
                await response.prepare(request)
                await _send_initial_lines(response, watch)
                watch.start(WatchBody(_transport(request)))
                await asyncio.wait_for(watch.done.wait(), deadline - time.monotonic())
        return response

    def _options(self, request: web.Request, target: RequestTarget) -> tuple[ListOptions, ObjectSelector]:
        return parse_options(request.query), parse_selector(target.kind, target.namespace, request.query)

    async def _get(self, request: web.Request, target: RequestTarget) -> web.Response:
        return self._object(request, target, self._cluster.get(target.kind, target.namespace, _name(target)))

    async def _create(self, request: web.Request, target: RequestTarget) -> web.Response:
        body = await _parsed(request)
        if not (isinstance(body, dict) and "name" in (body.get("metadata") or {})):
            raise status.bad_request("the body has no metadata.name")
        created = self._cluster.create(target.kind, target.namespace, body)
        return self._object(request, target, created, code=201)

    async def _patch(self, request: web.Request, target: RequestTarget) -> web.Response:
        patch = await _parsed(request)
        updated = self._cluster.update(target.kind, target.namespace, _name(target), lambda old: merge(old, patch))
        return self._object(request, target, updated)

    async def _delete(self, request: web.Request, target: RequestTarget) -> web.Response:
        deleted = self._cluster.delete(target.kind, target.namespace, _name(target))
        return self._object(request, target, deleted)

    def _object(self, request: web.Request, target: RequestTarget, obj: Object, code: int = 200) -> web.Response:
        accept, include = request.headers.get("Accept", ""), request.query.get("includeObject", "Metadata")
        encoder = negotiate(accept, target.kind, include)
        return _answer(encoder.body(obj), encoder.media_type, code)

    # Discovery and health

    def _discover(self, request: web.Request) -> web.Response:
        document: object = None
        match request.path.strip("/").split("/"):
            case ["healthz" | "livez" | "readyz"]:
                return web.Response(text="ok")
            case ["metrics"]:
                return web.Response(text=metrics_page(self._cluster.started, self._cluster.cached_revisions()))
            case ["version"]:
                document = _VERSION
            case ["api" | "apis" as root]:
                document = discovery.aggregated(BUILT_IN.values(), core=root == "api")
                return _json(document, content_type=discovery.AGGREGATED)
        return _json(document) if document else web.Response(text="404 page not found\n", status=HTTPStatus.NOT_FOUND)


async def _send_initial_lines(response: web.StreamResponse, watch: WatchConnection) -> None:
    """Send the lines that precede live events."""
    for revisions, data in watch.initial_lines():
        watch.record_sent(revisions, time.monotonic())
        await response.write(data)


def _transport(request: web.Request) -> asyncio.Transport:
    if request.transport is None:  # the client has disconnected
        raise ConnectionResetError
    return request.transport


async def _fault_response(
    request: web.Request, target: RequestTarget | None, verb: str, fault: FaultResponse
) -> web.Response:
    """Return the response of a fault, or raise its refusal, or cut the connection."""
    if fault.refusal:
        kind, namespace = (target.kind, target.namespace) if target else (None, None)
        raise fault.refusal(kind, verb, namespace)
    if fault.body is None:
        _transport(request).abort()
    return web.Response(text=fault.body, content_type=fault.content_type)


def _refusal(error: status.StatusError, accept: str) -> web.Response:
    media_type = error_type(accept)
    response = _answer(error_body(error, media_type), media_type, error.code)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def _json(document: object, code: int = 200, content_type: str = "application/json") -> web.Response:
    return _answer(dump(document), content_type, code)


def _answer(body: bytes, media_type: str, code: int = 200) -> web.Response:
    return web.Response(body=body, status=code, headers={"Content-Type": media_type})


def _name(target: RequestTarget) -> str:
    assert target.name is not None  # the verb implies a name
    return target.name


async def _parsed(request: web.Request) -> Any:
    try:
        return await request.json()
    except json.JSONDecodeError as problem:
        raise status.bad_request(f"json parse error: {problem}") from None
