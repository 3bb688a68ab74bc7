"""Access control: which requests are allowed, and the answers to the others."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from tests.conftest import GOLDEN
from tests.support.transcripts import Step, replay
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


HEADERS = {
    "bearer": BEARER,
    "long-body": ("Content-Length", "1000000"),
    "chunked": ("Transfer-Encoding", "chunked"),
    "empty-body": ("Content-Length", "0"),
}
SHOWN = ("allow", "connection", "www-authenticate", "retry-after")
DECISIONS = {"none": None, "unavailable": UnavailableError("Not now."), **{one.value: one for one in AccessDecision}}


def guard(decision: str) -> Step:
    """Return a step that asks an application with this decision: `GET /metrics bearer`."""

    def step(text: str) -> str:
        method, path, *headers = text.split()
        guarded = GuardedApp(DECISIONS[decision])
        status, sent, body = guarded.ask(path, *(HEADERS[name] for name in headers), method=method)
        facts = [f"{name} {sent[name]}" for name in SHOWN if name in sent]
        facts += [f"reviewed {token} for {asked}" for token, asked in guarded.asked]
        assert guarded.reached is (status == 200)
        return ", ".join([f"{status} {body.decode()}", *facts])

    return step


def test_requests_are_answered_as_the_transcripts_say(golden: Callable[[str, str], None]) -> None:
    golden("access-control.txt", replay((GOLDEN / "access-control.txt").read_text(), guard))


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


def token(headers: str) -> str:
    """Return the token of these headers, written as JSON; LONG stands for a token of the greatest length."""
    said = json.loads(headers.replace("LONG", "x" * LONGEST_TOKEN_CHARACTERS))
    raw = [(b"authorization", value.encode("latin-1")) for value in said]
    found = bearer({"type": "http", "headers": raw, "client": ("10.0.0.9", 40_000)})
    assert found is None or found.address == "10.0.0.9"
    return "none" if found is None else found.token.replace("x" * LONGEST_TOKEN_CHARACTERS, "LONG")


def test_tokens_are_those_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("bearer-tokens.txt", replay((GOLDEN / "bearer-tokens.txt").read_text(), lambda _: token))


def test_client_without_an_address_is_known_by_its_token() -> None:
    assert bearer({"type": "http", "headers": [(b"authorization", b"Bearer a")], "client": None}) == Bearer("a", "")
