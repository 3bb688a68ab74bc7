"""Access control: which requests are allowed, and the answers to the others."""

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from watchslo.errors import UnavailableError
from watchslo.serve.auth import ALL_ELSE, LONGEST_TOKEN_CHARACTERS, AccessControl, Bearer, bearer, may_continue
from watchslo.serve.auth_cache import AccessDecision

BEARER = ("Authorization", "Bearer secret")
SECRET = Bearer("secret", "10.0.0.9")


class GuardedApp:
    """An application behind the access control; `asked` has the reviews it requested."""

    def __init__(self, verdict: AccessDecision | UnavailableError | None = None) -> None:
        self.asked: list[tuple[str, str]] = []
        self.reached = False
        self._verdict = verdict
        authorize = None if verdict is None else self._authorize
        self._control = AccessControl(self._app, open_paths=frozenset({"/healthz"}), authorize=authorize)

    async def _authorize(self, sent: Bearer, path: str) -> AccessDecision:
        self.asked.append((sent.token, path))
        if isinstance(self._verdict, UnavailableError):
            raise self._verdict
        assert self._verdict is not None
        return self._verdict

    async def _app(self, _: Scope, __: Receive, send: Send) -> None:
        self.reached = True
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"data"})

    def ask(self, path: str, *headers: tuple[str, str], method: str = "GET") -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of the answer."""
        raw = [(name.lower().encode(), value.encode()) for name, value in headers]
        scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "headers": raw}
        sent: list[Message] = []

        async def receive() -> Message:
            raise AssertionError("bodies are not read")

        async def send(message: Message) -> None:
            sent.append(message)

        asyncio.run(self._control(scope, receive, send))
        answered = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], answered, sent[1]["body"]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_request_without_authorization_configured_is_allowed(method: str) -> None:
    guarded = GuardedApp()
    assert guarded.ask("/metrics", method=method)[0] == 200
    assert guarded.reached


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get", "X"])
@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/nowhere"])
def test_other_methods_are_refused_with_405(method: str, path: str) -> None:
    guarded = GuardedApp(AccessDecision.ALLOWED)
    status, headers, _ = guarded.ask(path, BEARER, method=method)
    assert (status, headers["allow"], headers["connection"]) == (405, "GET, HEAD", "close")
    assert not guarded.reached
    assert not guarded.asked


@pytest.mark.parametrize("header", [("Content-Length", "1000000"), ("Transfer-Encoding", "chunked")])
def test_request_with_body_is_refused_with_413(header: tuple[str, str]) -> None:
    guarded = GuardedApp()
    status, headers, _ = guarded.ask("/healthz", header)
    assert (status, headers["connection"]) == (413, "close")
    assert not guarded.reached


def test_request_with_empty_body_is_allowed() -> None:
    assert GuardedApp().ask("/healthz", ("Content-Length", "0"))[0] == 200


def test_open_path_needs_no_token() -> None:
    guarded = GuardedApp(AccessDecision.FORBIDDEN)
    assert guarded.ask("/healthz")[0] == 200
    assert not guarded.asked


@pytest.mark.parametrize(
    "path", ["/", "/metrics", "/api/v1/status", "/openapi.json", "/nowhere", "/healthz/", "//healthz"]
)
def test_other_paths_need_a_token(path: str) -> None:
    guarded = GuardedApp(AccessDecision.ALLOWED)
    status, headers, body = guarded.ask(path)
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert body == b'{"detail":"Unauthorized"}'
    assert not guarded.asked
    assert guarded.ask(path, BEARER)[0] == 200
    assert guarded.asked == [("secret", path if path == "/metrics" else "/")]


@pytest.mark.parametrize(
    ("verdict", "status", "headers", "body"),
    [
        (AccessDecision.UNKNOWN, 401, {"www-authenticate": "Bearer"}, b'{"detail":"Unauthorized"}'),
        (AccessDecision.FORBIDDEN, 403, {}, b'{"detail":"Forbidden"}'),
        (UnavailableError("Not now."), 503, {"retry-after": "1"}, b'{"detail":"Not now."}'),
    ],
)
def test_request_that_is_not_allowed_is_refused(
    verdict: AccessDecision | UnavailableError, status: int, headers: dict[str, str], body: bytes
) -> None:
    guarded = GuardedApp(verdict)
    answered, sent, text = guarded.ask("/metrics", BEARER)
    assert (answered, text) == (status, body)
    assert {name: value for name, value in sent.items() if name in ("www-authenticate", "retry-after")} == headers
    assert not guarded.reached


@pytest.mark.parametrize(
    ("answer", "continues"),
    [
        (AccessDecision.ALLOWED, True),
        (AccessDecision.FORBIDDEN, False),
        (AccessDecision.UNKNOWN, False),
        (UnavailableError("Not now."), False),
    ],
)
async def test_may_continue_only_while_access_is_allowed(
    answer: AccessDecision | UnavailableError, *, continues: bool
) -> None:
    async def authorize(sent: Bearer, path: str) -> AccessDecision:
        assert (sent, path) == (SECRET, ALL_ELSE)
        if isinstance(answer, UnavailableError):
            raise answer
        return answer

    assert await may_continue(authorize, SECRET) is continues
    assert not await may_continue(authorize, None)
    assert await may_continue(None, None)


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
def test_bearer_token_accepts_one_well_formed_header(said: list[str], token: str | None) -> None:
    headers = [(b"authorization", value.encode("latin-1")) for value in said]
    scope = {"type": "http", "headers": headers, "client": ("10.0.0.9", 40_000)}
    assert bearer(scope) == (None if token is None else Bearer(token, "10.0.0.9"))


def test_client_without_an_address_is_known_by_its_token() -> None:
    assert bearer({"type": "http", "headers": [(b"authorization", b"Bearer a")], "client": None}) == Bearer("a", "")
