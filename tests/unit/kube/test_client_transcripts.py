"""Transcripts of a client: the requests that it sends, and the failures that unusable answers become."""

import json
from collections.abc import Awaitable, Callable

import pytest

from tests.support.protobuf import status
from tests.support.transcripts import of_states
from tests.unit.kube.conftest import (
    ALL,
    ANY_LIST,
    ASKS,
    CHUNKED,
    CONFIRMED,
    EMPTY,
    EXPIRED,
    LOGIN,
    NODES,
    PODS,
    Known,
    Reply,
    Server,
    answer,
    chunk,
    connection_to,
    hang_up,
    reset,
    stay,
    then,
    tick,
)
from watchslo import __version__
from watchslo.kube import call as call_module
from watchslo.kube import client as client_module
from watchslo.kube.call import Selectors
from watchslo.kube.client import Client
from watchslo.kube.limiter import Limiter
from watchslo.kube.representation import Representation
from watchslo.kube.reviews import ReviewedAccess, may, review
from watchslo.model import Resource
from watchslo.watch.failure import Failure
from watchslo.watch.messages import ListRequest, WatchRequest

Ask = Callable[[Client], Awaitable[object]]

TABLE, METADATA, PLAIN, PROTOBUF = (
    Representation.TABLE,
    Representation.METADATA,
    Representation.PLAIN,
    Representation.PROTOBUF,
)
PROTOBUF_MEDIA = "application/vnd.kubernetes.protobuf"
SELECTED = Selectors("spec.nodeName=a", "app in (x, y)")
HALF = Selectors(shard="shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')")
BY_NAME, BY_NAMESPACE = ListRequest(absent_name=True), ListRequest(limit=1, absent_namespace=True)
NEWER = ListRequest(limit=500, not_older_than=41, states_match=True)
ONE_NAME = ReviewedAccess("list", "apps", "deployments", "default", "x")


def listing(
    request: ListRequest = ANY_LIST,
    form: Representation = PLAIN,
    selectors: Selectors = SELECTED,
    resource: Resource = PODS,
    namespace: str | None = None,
) -> Ask:
    return lambda client: client.list_page(resource, namespace, selectors, request, form)


def watching(
    request: WatchRequest, form: Representation, namespace: str | None = None, selectors: Selectors = ALL
) -> Ask:
    async def ask(client: Client) -> object:
        async with client.watch(PODS, namespace, selectors, request, form) as opened:
            return opened

    return ask


def reviewing(client: Client) -> Awaitable[object]:
    return review(client, "secret", "/metrics")


def json_answer(document: object, code: str = "200 OK") -> bytes:
    return answer(json.dumps(document).encode(), code)


USER = {"username": "prometheus", "uid": "u-1", "groups": ["g"], "extra": {"k": ["v"]}}
KNOWN_USER = json_answer({"status": {"authenticated": True, "user": USER}}, "201 Created")
MAY = json_answer({"status": {"allowed": True}}, "201 Created")

REQUESTS: dict[str, Ask] = {
    "tick, with all headers; the others show what differs": tick,
    "tick without namespaces": lambda client: client.read_nothing(NODES, "default", "tick"),
    "read of an exact revision": lambda client: client.read_nothing(PODS, "default", "detect_storage", at=7),
    "probe of the cache": lambda client: client.read_cache(PODS, "default"),
    "list": listing(),
    "list in pages": listing(ListRequest(limit=500, continue_token="a+b/c=")),
    "list from the cache": listing(ListRequest(from_cache=True)),
    "list that is not older": listing(ListRequest(not_older_than=41)),
    "list that is not older and states its match": listing(NEWER),
    "next page of that list": listing(ListRequest(500, "x", not_older_than=41, states_match=True)),
    **{f"list as {form}": listing(form=form, selectors=ALL) for form in (TABLE, METADATA, PROTOBUF)},
    "list for a revision": listing(BY_NAME),
    "list for a revision, in a namespace": listing(BY_NAME, namespace="default"),
    "list for a revision, without namespaces": listing(BY_NAME, resource=NODES),
    "list for a revision in an absent namespace": listing(BY_NAMESPACE),
    "list for a revision in an absent namespace, in a namespace": listing(BY_NAMESPACE, namespace="default"),
    "list for a revision in an absent namespace, without namespaces": listing(BY_NAMESPACE, resource=NODES),
    "list of a shard, which is confirmed": listing(selectors=HALF, namespace="default"),
    "list of a shard for a revision, which needs no confirmation": listing(BY_NAME, selectors=HALF),
    "watch": watching(WatchRequest(41, 300), METADATA, "x", Selectors(labels="a=b")),
    "watch without bookmarks": watching(WatchRequest(41, 300, bookmarks=False), PLAIN),
    "watch of a table": watching(WatchRequest(41, 300), TABLE),
    "watch of protobuf": watching(WatchRequest(41, 300), PROTOBUF),
    "streamed list": watching(WatchRequest(None, 300), METADATA),
    "streamed list, whose end is a bookmark": watching(WatchRequest(None, 300, bookmarks=False), METADATA),
    "watch of a shard, which is confirmed": watching(WatchRequest(41, 300), TABLE, selectors=HALF),
    "version": ASKS["version"],
    "metrics": ASKS["metrics"],
    "review of a token": reviewing,
    "may this identity list one name": lambda client: may(client, ONE_NAME),
    "may this identity watch all names": lambda client: may(client, ReviewedAccess("watch", "", "pods")),
    "may this identity read a path": lambda client: may(client, ReviewedAccess("get", path="/metrics")),
    "addresses of apiservers": ASKS["addresses"],
    "leases of apiservers": ASKS["leases"],
}
REPLIES: dict[str, list[bytes]] = {
    "list of a shard, which is confirmed": [answer(CONFIRMED), answer(EMPTY)],
    "watch of a shard, which is confirmed": [answer(CONFIRMED), CHUNKED + chunk(b"")],
    "review of a token": [KNOWN_USER, MAY],
}
"""The answers to requests that are followed by another one."""


async def ask_alone(ask: Ask, server: Server, *script: bytes | Reply) -> tuple[object, Client]:
    """Return the result of a new client, and that client."""
    server.script = [*script]
    async with Client(connection_to(server.url, Known()), Limiter(10_000), Known().observe) as client:
        return await ask(client), client


def test_forms_fall_back_to_plain_objects() -> None:
    assert [form.simpler for form in (TABLE, METADATA, PROTOBUF, PLAIN)] == [METADATA, PLAIN, PLAIN, PLAIN]


async def test_requests_match_golden_file(server: Server, golden: Callable[[str, str], None]) -> None:
    states: dict[str, list[str]] = {}
    usual: set[str] = set()
    for name, ask in REQUESTS.items():
        server.requests.clear()
        server.bodies.clear()
        await ask_alone(ask, server, *REPLIES.get(name, [answer(EMPTY)]))
        states[name] = []
        for first, *headers in (request.strip().splitlines() for request in server.requests):
            own = [header for header in headers if not header.startswith(("Host: ", "Content-Length: "))]
            states[name] += [first, *(f"  {header}" for header in own if header not in usual)]
            usual = usual or {*own}
        states[name] += [f"  {body.decode()}" for body in server.bodies]
    golden("kube/requests.txt", of_states(states).replace(__version__, "VERSION"))


SECRET = "/registry/secrets/default/mine"
CONVERSION = b'{"message":"conversion webhook for x/v1, Kind=A failed: Post \\"https://a.b.svc/\\": refused"}'
UNFILLED = b'{"message":"storage is (re)initializing"}'
UNCONVERTED = CONVERSION.replace(b"conversion", b"storage is (re)initializing: failed to list: conversion", 1)
NAMES_AN_OBJECT = json.dumps({"kind": "Status", "message": f"unable to decode object at key {SECRET}"}).encode()
NO_LEADER = b'{"kind":"Status","message":"etcdserver: no leader"}'
NEXT_TOKEN = b'{"kind":"Status","metadata":{"continue":"abc=="},"code":410,"reason":"Expired"}'
EXPIRED_AS_PROTOBUF = status({"reason": "Expired", "message": "too old", "code": 410, "metadata": {"continue": "next"}})
INTERNAL, TEAPOT, GONE, FORBIDDEN = "500 Internal Server Error", "418 I'm a teapot", "410 Gone", "403 Forbidden"
TEXT = CHUNKED.replace(b"application/json", b"text/plain")
ODD_GROUP = {"status": {"authenticated": True, "user": USER | {"groups": ["g", 7]}}}
CODES = (
    *(
        "400 Bad Request",
        "401 Unauthorized",
        FORBIDDEN,
        "404 Not Found",
        "405 Method Not Allowed",
        "406 Not Acceptable",
        GONE,
    ),
    *(INTERNAL, "302 Found"),
)
REVIEWS = ("429 Too Many Requests", INTERNAL, "503 Service Unavailable", "401 Unauthorized", FORBIDDEN)
GARBAGE = (b"", b"{}", b'{"status":{"authenticated":"yes"}}', b'{"status":7}')
WATCH = watching(WatchRequest(41, 300), PLAIN)

FAILURES: dict[str, tuple[Ask, list[bytes | Reply]]] = {
    **{f"tick: {code}": (tick, [answer(b"", code, "Location: http://elsewhere.invalid/")]) for code in CODES},
    "tick: 429 with Retry-After": (tick, [answer(b"", "429 Too Many Requests", "Retry-After: 7")]),
    "tick: 429 of a watch cache that is not filled": (tick, [answer(UNFILLED, "429 Too Many Requests")]),
    "tick: 429 of a cache that a webhook keeps empty": (tick, [answer(UNCONVERTED, "429 Too Many Requests")]),
    "tick: 500 of a webhook": (tick, [answer(CONVERSION, INTERNAL)]),
    "tick: 410 with another token": (tick, [answer(NEXT_TOKEN, GONE)]),
    "tick: a Status is quoted": (tick, [answer(EXPIRED, GONE)]),
    "tick: plain text is quoted": (tick, [answer(b"404 page not found\n", "404 Not Found", media="text/plain")]),
    "tick: an error of etcd is quoted": (tick, [answer(NO_LEADER, INTERNAL)]),
    "tick: another internal error may name an object": (tick, [answer(NAMES_AN_OBJECT, INTERNAL)]),
    "tick: an unexpected status may name an object": (tick, [answer(NAMES_AN_OBJECT, TEAPOT)]),
    "tick: a refusal by a web page is not quoted": (tick, [answer(LOGIN, FORBIDDEN, media="text/html")]),
    "tick: web page": (tick, [answer(LOGIN, media="text/html; charset=utf-8")]),
    "tick: endless error": (tick, [then(b"HTTP/1.1 500 No\r\n\r\n" + b"x" * 200_000, stay)]),
    "tick: cut error": (tick, [then(answer(b"x", INTERNAL)[:-1], hang_up)]),
    "tick: cut body": (tick, [then(answer(EMPTY)[:-5], hang_up)]),
    "tick: reset": (tick, [reset]),
    "tick: no answer": (tick, [hang_up]),
    "tick: SSH": (tick, [then(b"SSH-2.0-OpenSSH_9.2\r\n", hang_up)]),
    "tick: longer than an empty list": (tick, [answer(b" " * (64 * 2**10 + 1))]),
    **{
        f"tick: revision {revision!r}": (tick, [answer(EMPTY.replace(b"42", revision.encode()))])
        for revision in ("", "0x2a", "-1", "99999999999999999999")
    },
    **{
        f"list: revision {revision!r}": (listing(), [answer(EMPTY.replace(b"42", revision.encode()))])
        for revision in ("", "0", "1234/5678", "9999999999999999999")
    },
    "list: longer than any": (listing(), [answer(b" " * 1001)]),
    "list: damaged compression": (listing(), [answer(b"no", "200 OK", "Content-Encoding: gzip")]),
    "list as protobuf: JSON": (listing(form=PROTOBUF), [answer(EMPTY)]),
    "list as protobuf: refusal": (listing(form=PROTOBUF), [answer(EXPIRED_AS_PROTOBUF, GONE, media=PROTOBUF_MEDIA)]),
    "list as protobuf: malformed refusal": (
        listing(form=PROTOBUF),
        [answer(b"k8s\0" + SECRET.encode(), "400 Bad", media=PROTOBUF_MEDIA)],
    ),
    "list of a shard: not confirmed": (listing(selectors=HALF), [answer(EMPTY)]),
    "list of a shard: 429": (listing(selectors=HALF), [answer(b"", "429 Too Many Requests")]),
    "watch of a shard: not confirmed": (watching(WatchRequest(41, 300), TABLE, None, HALF), [answer(EMPTY)]),
    "watch of a shard: 429": (
        watching(WatchRequest(41, 300), TABLE, None, HALF),
        [answer(b"", "429 Too Many Requests")],
    ),
    "watch: 410": (WATCH, [answer(EXPIRED, GONE)]),
    "watch: web page": (WATCH, [answer(LOGIN, media="text/html")]),
    "version: garbage": (ASKS["version"], [answer(b"{}")]),
    "version: 403": (ASKS["version"], [answer(b"", FORBIDDEN)]),
    "metrics: 403": (ASKS["metrics"], [answer(NAMES_AN_OBJECT, FORBIDDEN)]),
    "metrics: cut": (ASKS["metrics"], [then(TEXT + chunk(b"a 1\n"), hang_up)]),
    "metrics: another media type": (ASKS["metrics"], [answer(b"{}")]),
    "metrics: longer than any": (ASKS["metrics"], [TEXT + chunk(b"a 1\nb 2\n") + chunk(b"")]),
    **{f"review of a token: {code}": (reviewing, [answer(b"{}", code)]) for code in REVIEWS},
    **{f"review of access: {code}": (reviewing, [KNOWN_USER, answer(b"{}", code)]) for code in REVIEWS},
    **{f"review of a token: {body!r}": (reviewing, [answer(body, "201 Created")]) for body in GARBAGE},
    **{f"review of access: {body!r}": (reviewing, [KNOWN_USER, answer(body, "201 Created")]) for body in GARBAGE},
    "review of a token: an odd group, which may be denied access": (
        reviewing,
        [json_answer(ODD_GROUP, "201 Created")],
    ),
    "may: 403": (lambda client: may(client, ONE_NAME), [answer(b"{}", FORBIDDEN)]),
    "may: garbage": (lambda client: may(client, ONE_NAME), [json_answer({"status": {}}, "201 Created")]),
    **{
        f"{name} of apiservers: {what}": (ask, [reply])
        for name, ask in (("addresses", ASKS["addresses"]), ("leases", ASKS["leases"]))
        for what, reply in (
            ("403", answer(b"{}", FORBIDDEN)),
            ("garbage", answer(b'{"items": [{}]}')),
            ("cut", hang_up),
        )
    },
}


ALLOWED = {"status": {"allowed": True, "denied": True}}
DENIED = {"status": {"allowed": False, "reason": "RBAC"}}
UNKNOWN_USERS: tuple[dict[str, object], ...] = (
    {},
    {"authenticated": False},
    {"error": "[invalid bearer token, service account token has expired]"},
    {"authenticated": False, "user": {}, "error": "token audiences are invalid"},
)
REVIEWED: dict[str, tuple[Ask, list[object]]] = {
    "known user who may": (reviewing, [{"status": {"authenticated": True, "user": USER}}, ALLOWED]),
    "known user who may not": (reviewing, [{"status": {"authenticated": True, "user": USER}}, DENIED]),
    "user without uid, groups and extra": (
        reviewing,
        [{"status": {"authenticated": True, "user": {"username": "a"}}}, ALLOWED],
    ),
    **{f"status {status}": (reviewing, [{"status": status}]) for status in UNKNOWN_USERS},
    "this identity may": (lambda client: may(client, ONE_NAME), [ALLOWED]),
    "this identity may not": (lambda client: may(client, ONE_NAME), [DENIED]),
}


async def test_reviews_match_golden_file(server: Server, golden: Callable[[str, str], None]) -> None:
    states = {}
    for name, (ask, documents) in REVIEWED.items():
        found, client = await ask_alone(ask, server, *(json_answer(one, "201 Created") for one in documents))
        states[name] = [str(found), f"counted: {', '.join(' '.join(key) for key in client.requests)}"]
    golden("kube/reviews.txt", of_states(states))


async def test_failures_match_golden_file_and_name_no_object(
    server: Server, monkeypatch: pytest.MonkeyPatch, golden: Callable[[str, str], None]
) -> None:
    monkeypatch.setattr(call_module, "LONGEST_BODY_BYTES", 1000)
    monkeypatch.setattr(client_module, "LONGEST_METRICS_BYTES", 6)
    states = {}
    for name, (ask, script) in FAILURES.items():
        failure, client = await ask_alone(ask, server, *script)
        assert isinstance(failure, Failure), name
        parts = {"status": failure.status, "retry after": failure.retry_after, "continue": failure.continue_token}
        shown = [f"{what} {value}" for what, value in parts.items() if value is not None]
        counted = [f"{kind} {code} {count}" for (kind, code), count in client.requests.items()]
        states[name] = [
            ", ".join((failure.reason, failure.action, *shown)),
            failure.message.replace(server.url, "URL"),
            f"counted: {', '.join([*counted, *(['not ready'] if client.not_ready else [])])}",
        ]
    said = of_states(states)
    assert "mine" not in said
    assert "log in" not in said
    golden("kube/failures.txt", said)
