"""Who gets in, and what everybody else is told."""

import asyncio
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from watchslo.errors import UnavailableError
from watchslo.serve.gate import ALL_ELSE, LONGEST_TOKEN_CHARACTERS, Gate, bearer_token, may_go_on
from watchslo.serve.verdicts import Verdict

BEARER = ("Authorization", "Bearer secret")


class Inside:
    """What stands behind the gate, and what is asked of whoever decides."""

    def __init__(self, verdict: Verdict | UnavailableError | None = None) -> None:
        self.asked: list[tuple[str, str]] = []
        self.reached = False
        self._verdict = verdict
        authorize = None if verdict is None else self._authorize
        self._gate = Gate(self._app, open_paths=frozenset({"/healthz"}), authorize=authorize)

    async def _authorize(self, token: str, path: str) -> Verdict:
        self.asked.append((token, path))
        if isinstance(self._verdict, UnavailableError):
            raise self._verdict
        assert self._verdict is not None
        return self._verdict

    async def _app(self, _: Scope, __: Receive, send: Send) -> None:
        self.reached = True
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"data"})

    def ask(self, path: str, *headers: tuple[str, str], method: str = "GET") -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer."""
        raw = [(name.lower().encode(), value.encode()) for name, value in headers]
        scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "headers": raw}
        sent: list[Message] = []

        async def receive() -> Message:
            raise AssertionError("nobody reads bodies")

        async def send(message: Message) -> None:
            sent.append(message)

        asyncio.run(self._gate(scope, receive, send))
        answered = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], answered, sent[1]["body"]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_without_authorization_all_may_read(method: str) -> None:
    inside = Inside()
    assert inside.ask("/metrics", method=method)[0] == 200
    assert inside.reached


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get", "X"])
@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/nowhere"])
def test_nobody_may_do_anything_else(method: str, path: str) -> None:
    inside = Inside(Verdict.ALLOWED)
    status, headers, _ = inside.ask(path, BEARER, method=method)
    assert (status, headers["allow"], headers["connection"]) == (405, "GET, HEAD", "close")
    assert not inside.reached
    assert not inside.asked


@pytest.mark.parametrize("header", [("Content-Length", "1000000"), ("Transfer-Encoding", "chunked")])
def test_bodies_are_refused(header: tuple[str, str]) -> None:
    inside = Inside()
    status, headers, _ = inside.ask("/healthz", header)
    assert (status, headers["connection"]) == (413, "close")
    assert not inside.reached


def test_a_body_of_nothing_is_none() -> None:
    assert Inside().ask("/healthz", ("Content-Length", "0"))[0] == 200


def test_probes_need_no_token() -> None:
    inside = Inside(Verdict.FORBIDDEN)
    assert inside.ask("/healthz")[0] == 200
    assert not inside.asked


@pytest.mark.parametrize(
    "path", ["/", "/metrics", "/api/v1/status", "/openapi.json", "/nowhere", "/healthz/", "//healthz"]
)
def test_all_else_does(path: str) -> None:
    inside = Inside(Verdict.ALLOWED)
    status, headers, body = inside.ask(path)
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert body == b'{"detail":"Unauthorized"}'
    assert not inside.asked
    assert inside.ask(path, BEARER)[0] == 200
    assert inside.asked == [("secret", path if path == "/metrics" else "/")]


def test_who_is_unknown() -> None:
    inside = Inside(Verdict.UNKNOWN)
    status, headers, body = inside.ask("/metrics", BEARER)
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert body == b'{"detail":"Unauthorized"}'
    assert not inside.reached


def test_who_may_not() -> None:
    inside = Inside(Verdict.FORBIDDEN)
    status, headers, body = inside.ask("/metrics", BEARER)
    assert (status, body) == (403, b'{"detail":"Forbidden"}')
    assert "www-authenticate" not in headers
    assert not inside.reached


def test_when_nobody_can_say() -> None:
    inside = Inside(UnavailableError("Not now."))
    status, headers, body = inside.ask("/metrics", BEARER)
    assert (status, headers["retry-after"], body) == (503, "1", b'{"detail":"Not now."}')
    assert not inside.reached


@pytest.mark.parametrize(
    ("answer", "goes_on"),
    [
        (Verdict.ALLOWED, True),
        (Verdict.FORBIDDEN, False),
        (Verdict.UNKNOWN, False),
        (UnavailableError("Not now."), False),
    ],
)
async def test_who_may_go_on(answer: Verdict | UnavailableError, *, goes_on: bool) -> None:
    async def authorize(token: str, path: str) -> Verdict:
        assert (token, path) == ("secret", ALL_ELSE)
        if isinstance(answer, UnavailableError):
            raise answer
        return answer

    assert await may_go_on(authorize, "secret") is goes_on
    assert not await may_go_on(authorize, None)
    assert await may_go_on(None, None)


@pytest.mark.parametrize(
    ("said", "token"),
    [
        (["Bearer abc"], "abc"),
        (["bearer abc"], "abc"),
        (["BEARER   abc "], "abc"),
        ([], None),
        (["Bearer"], None),
        (["Bearer "], None),
        (["Basic abc"], None),
        (["abc"], None),
        (["Bearer a b"], None),
        (["Bearer ab\u00e4"], None),
        (["Bearer ab\x01"], None),
        (["Bearer abc", "Bearer abc"], None),
        (["Bearer " + "x" * LONGEST_TOKEN_CHARACTERS], "x" * LONGEST_TOKEN_CHARACTERS),
        (["Bearer " + "x" * (LONGEST_TOKEN_CHARACTERS + 1)], None),
    ],
)
def test_what_is_a_token(said: list[str], token: str | None) -> None:
    headers = Headers(raw=[(b"authorization", value.encode("latin-1")) for value in said])
    assert bearer_token(headers) == token
