"""The simulated apiserver's HTTP: which request asks for what, and how it is answered."""

import asyncio
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from random import Random
from typing import Any

from aiohttp import web

from watchslo.sim import discovery, status
from watchslo.sim.cluster import Cluster
from watchslo.sim.faults import EVERYTHING, Answer
from watchslo.sim.kinds import BUILT_IN_GROUPS, Kind, Object
from watchslo.sim.query import Options, Scope, check_options, parse_options, parse_scope
from watchslo.sim.registry import merge
from watchslo.sim.stream import Stream
from watchslo.sim.wire import UNACCEPTABLE, dump, negotiate

_TIMEOUT_RANGE = (1800.0, 3600.0)
"""Seconds a watch lives that does not say how long, as with kube-apiserver's --min-request-timeout."""
_ARRIVALS = 100_000
_OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version")
"""Readable without a token, as system:public-info-viewer allows."""
_MERGE_PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json")

_VERBS = {
    ("GET", False): "list",
    ("GET", True): "get",
    ("POST", False): "create",
    ("PUT", True): "update",
    ("PATCH", True): "patch",
    ("DELETE", True): "delete",
    ("DELETE", False): "deletecollection",
}
"""The verb of a method on a collection, or on one object."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: a collection, or with a `name` one object of it."""

    kind: Kind
    version: str
    namespace: str | None
    name: str | None

    @property
    def possible(self) -> bool:
        """Only namespaced resources are in a namespace, and their objects always are."""
        return self.namespace is None if not self.kind.namespaced else bool(self.namespace) or self.name is None


def parse_path(path: str, kinds: Mapping[str, Kind]) -> Target | None:
    """The target of a resource's path; None for a path that nobody knows.

    Raises:
        StatusError: 404 in a group that is known.
    """
    match path.strip("/").split("/"):
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    namespace = None
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] != "status":  # noqa: PLR2004 - namespaces/NAME/RESOURCE
        _, namespace, *rest = rest
    if not rest:
        return None
    plural, name, subresource, *more = [*rest, None, None, None]
    kind = kinds.get(f"{plural}.{group}" if group else plural or "")
    if kind and version in kind.versions and subresource in (None, "status" if kind.status else None) and not any(more):
        target = Target(kind, version, namespace, name)
        if target.possible:
            return target
    if group in BUILT_IN_GROUPS:
        raise status.unknown_resource()
    return None


class Body:
    """The body of a watch that is open: chunks straight to the transport, without waiting for it.

    aiohttp's own `write` waits while the transport is full, and costs a task that wakes for every event.
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


Handler = Callable[[web.Request, Target], Awaitable[web.StreamResponse]]


class Server:
    """Answers the Kubernetes API of a cluster, and counts its answers by (verb, status code), watches as they open.

    `arrivals` are when the last requests came, in monotonic seconds, whatever becomes of them.
    """

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self.requests: dict[tuple[str, int], int] = {}
        self.arrivals: deque[float] = deque(maxlen=_ARRIVALS)
        self._cluster = cluster
        self._random = random
        self._verbs: dict[str, Handler] = {
            "list": self._list,
            "watch": self._watch,
            "get": self._get,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer any request of the Kubernetes API."""
        self.arrivals.append(time.monotonic())
        verb = "discover"
        try:
            self._authenticate(request)
            target = parse_path(request.path, self._cluster.kinds)
            verb = self._verb(request, target) if target else verb
            response = await (self._faulty(request, target, verb) or self._answer(request, target, verb))
        except status.StatusError as error:
            response = _refusal(error)
        if isinstance(response, web.Response):  # a watch has been counted as it opened
            self._count(verb, response.status)
        return response

    async def stamp(self, _request: web.Request, response: web.StreamResponse) -> None:
        """Every answer carries the time of the apiserver's clock, in whole seconds, and may not be cached."""
        response.headers["Date"] = formatdate(int(self._cluster.wall()), usegmt=True)
        response.headers["Cache-Control"] = "no-cache, private"
        response.headers.popall("Server", None)

    def _count(self, verb: str, code: int) -> None:
        self.requests[verb, code] = self.requests.get((verb, code), 0) + 1

    def _authenticate(self, request: web.Request) -> None:
        token = self._cluster.settings.token
        authorization = request.headers.get("Authorization", "")
        anonymous = not authorization and request.path in _OPEN_PATHS
        if token and not anonymous and authorization != f"Bearer {token}":
            raise status.unauthorized()

    def _verb(self, request: web.Request, target: Target) -> str:
        verb = _VERBS.get((request.method, target.name is not None), "")
        across_namespaces = target.kind.namespaced and target.namespace is None
        if verb not in target.kind.verbs or (across_namespaces and verb != "list"):
            raise status.method_not_allowed()
        if verb != "list" or not parse_options(request.query).watch:
            return verb
        if "watch" not in target.kind.verbs:
            raise status.not_watchable(target.kind)
        return "watch"

    def _faulty(self, request: web.Request, target: Target | None, verb: str) -> Awaitable[web.Response] | None:
        resource = target.kind.stored if target else EVERYTHING
        answer = self._cluster.faults.answer(resource, verb)
        return _instead(request, target, verb, answer) if answer else None

    async def _answer(self, request: web.Request, target: Target | None, verb: str) -> web.StreamResponse:
        if target:
            return await self._verbs[verb](request, target)
        return self._discover(request)

    # Resources

    async def _list(self, request: web.Request, target: Target) -> web.Response:
        options, scope = self._options(request, target)
        representation = negotiate(
            request.headers.get("Accept", ""), target.kind, target.version, options.include, listed=True
        )
        listing = await self._cluster.served(target.kind).read(options, scope)
        return _json(representation.list_document(listing.objects, listing.metadata(), self._cluster.wall()))

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        options, scope = self._options(request, target)
        representation = negotiate(
            request.headers.get("Accept", ""), target.kind, target.version, options.include, listed=False
        )
        lifetime = options.timeout or self._random.uniform(*_TIMEOUT_RANGE)
        deadline = time.monotonic() + lifetime
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        async with self._cluster.watch(options, scope, representation, deadline) as stream:
            with suppress(ConnectionError, TimeoutError):  # the client goes, or its time is over
                await response.prepare(request)
                self._count("watch", response.status)
                await _begin(response, stream)
                stream.start(Body(_transport(request)))
                await asyncio.wait_for(stream.done.wait(), deadline - time.monotonic())
        return response

    def _options(self, request: web.Request, target: Target) -> tuple[Options, Scope]:
        options = parse_options(request.query)
        check_options(options, watch_list=self._cluster.profile.watch_list)
        return options, parse_scope(target.kind, target.namespace, request.query)

    async def _get(self, request: web.Request, target: Target) -> web.Response:
        return self._object(request, target, self._cluster.get(target.kind, target.namespace, _name(target)))

    async def _create(self, request: web.Request, target: Target) -> web.Response:
        body = await _body(request, target)
        created = self._cluster.create(target.kind, target.namespace, body)
        return self._object(request, target, created, code=201)

    async def _update(self, request: web.Request, target: Target) -> web.Response:
        body = await _body(request, target)
        updated = self._cluster.update(target.kind, target.namespace, _name(target), lambda _old: body)
        return self._object(request, target, updated)

    async def _patch(self, request: web.Request, target: Target) -> web.Response:
        if request.content_type not in _MERGE_PATCHES:
            raise status.unsupported_media_type()
        patch = await _parsed(request)
        updated = self._cluster.update(
            target.kind, target.namespace, _name(target), lambda old: merge(_unversioned(old), patch)
        )
        return self._object(request, target, updated)

    async def _delete(self, request: web.Request, target: Target) -> web.Response:
        deleted = self._cluster.delete(target.kind, target.namespace, _name(target))
        if target.kind.plural == "pods":
            return self._object(request, target, deleted)
        details = {
            "name": target.name,
            **({"group": target.kind.group} if target.kind.group else {}),
            "kind": target.kind.plural,
            "uid": deleted["metadata"]["uid"],
        }
        return _json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})

    async def _delete_collection(self, request: web.Request, target: Target) -> web.Response:
        scope = parse_scope(target.kind, target.namespace, request.query)
        table = self._cluster.etcd(target.kind).table(target.kind.stored)
        doomed = [obj for key, obj in table.items(scope.prefix) if scope.matches(key, obj)]
        for obj in doomed:
            self._cluster.delete(target.kind, obj["metadata"].get("namespace"), obj["metadata"]["name"])
        representation = negotiate("", target.kind, target.version, "Metadata", listed=True)
        metadata = {"resourceVersion": str(self._cluster.etcd(target.kind).revision)}
        return _json(representation.list_document(doomed, metadata, self._cluster.wall()))

    def _object(self, request: web.Request, target: Target, obj: Object, code: int = 200) -> web.Response:
        accept, include = request.headers.get("Accept", ""), request.query.get("includeObject", "Metadata")
        representation = negotiate(accept, target.kind, target.version, include, listed=False)
        return _json(representation.document(obj, self._cluster.wall()), code)

    # Everything else

    def _discover(self, request: web.Request) -> web.Response:
        kinds = self._cluster.kinds.values()
        document: object = None
        match request.path.strip("/").split("/"):
            case ["healthz" | "livez" | "readyz"]:
                return web.Response(text="ok")
            case ["version"]:
                document = _version(self._cluster.profile.git_version)
            case ["api" | "apis" as root]:
                return self._roots(request, root)
            case ["apis", group]:
                document = discovery.group(kinds, group)
            case ["api", version]:
                document = discovery.resource_list(kinds, "", version)
            case ["apis", group, version]:
                document = discovery.resource_list(kinds, group, version)
        return _json(document) if document else web.Response(text="404 page not found\n", status=HTTPStatus.NOT_FOUND)

    def _roots(self, request: web.Request, root: str) -> web.Response:
        """The core group or the others: in one document, if the client can read that."""
        kinds = self._cluster.kinds.values()
        try:
            version = discovery.aggregated_version(request.headers.get("Accept", ""), self._cluster.profile.discovery)
        except LookupError:
            raise status.not_acceptable(UNACCEPTABLE) from None
        if version:
            stale = {kind.group for kind in kinds if self._cluster.faults.stale(kind.stored)}
            document = discovery.aggregated(kinds, version, core=root == "api", stale=stale)
            return _json(document, content_type=discovery.AGGREGATED.format(version))
        if root == "api":
            return _json(discovery.core_versions(request.host))
        return _json(discovery.group_list(kinds))


async def _begin(response: web.StreamResponse, stream: Stream) -> None:
    """Send what a watch begins with."""
    for revisions, data in stream.beginning():
        stream.sent(revisions, time.monotonic())
        await response.write(data)


def _transport(request: web.Request) -> asyncio.Transport:
    if request.transport is None:  # the client has gone
        raise ConnectionResetError
    return request.transport


async def _instead(request: web.Request, target: Target | None, verb: str, answer: Answer) -> web.Response:
    """What a fault answers."""
    if answer.refusal:
        kind, namespace = (target.kind, target.namespace) if target else (None, None)
        raise answer.refusal(kind, verb, namespace)
    if answer.body is None:
        _transport(request).abort()
    return web.Response(text=answer.body, content_type=answer.content_type)


def _refusal(error: status.StatusError) -> web.Response:
    response = _json(error.document(), error.code)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def _json(document: object, code: int = 200, content_type: str = "application/json") -> web.Response:
    return web.Response(body=dump(document), status=code, headers={"Content-Type": content_type})


def _name(target: Target) -> str:
    assert target.name is not None  # the verb says so
    return target.name


async def _parsed(request: web.Request) -> Any:
    try:
        return await request.json()
    except json.JSONDecodeError as problem:
        raise status.bad_request(f"json parse error: {problem}") from None


async def _body(request: web.Request, target: Target) -> Object:
    """The object that a POST or a PUT carries."""
    if request.content_type not in ("application/json", "application/octet-stream"):
        raise status.unsupported_media_type()
    body = await _parsed(request)
    if not isinstance(body, dict):
        raise status.bad_request("the body is no object")
    kind = body.get("kind", target.kind.kind)
    if kind != target.kind.kind:
        raise status.bad_request(f'{kind} in version "{target.version}" cannot be handled as a {target.kind.kind}')
    return body


def _unversioned(obj: Object) -> Object:
    """A patch without a resourceVersion is for whatever version there is."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    return {**obj, "metadata": metadata}


def _version(git_version: str) -> dict[str, str]:
    major, minor, _ = git_version.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": git_version,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "simulated",
    }
