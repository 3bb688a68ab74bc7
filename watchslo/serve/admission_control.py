"""Admits requests: each client has its share of the answers at once, and no work is done for clients that have gone."""

import asyncio
import hashlib
from collections.abc import Callable, Iterable

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from watchslo.errors import UnavailableError
from watchslo.serve.admission import Admission
from watchslo.serve.auth import address_of, bearer, unavailable
from watchslo.serve.route import Kind, Route

MOST = {Kind.SCRAPE: 512, Kind.QUERY: 64, Kind.FEED: 200}
"""Answers at once. Scrapes share one document; each of the others may have several megabytes of its own."""

_TOO_MANY = "Too many requests of this kind are being answered, and you have your share of them; try again."


def client_of(connection: HTTPConnection) -> str:
    """Return the client that sent an admitted request."""
    return str(connection.state.client)


class AdmissionControl:
    """Middleware behind the access check. If that is `authorized`, the token identifies a client, else its address."""

    def __init__(self, app: ASGIApp, *, routes: Iterable[Route], authorized: bool) -> None:
        self._app = app
        self._authorized = authorized
        kinds = {kind: Admission[_Answer](most) for kind, most in MOST.items()}
        self._places = {route.path: kinds[route.kind] for route in routes if route.kind}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        places = self._places.get(scope["path"])
        if places is None:
            await self._app(scope, receive, send)
            return
        client = self._client(scope)
        scope.setdefault("state", {})["client"] = client
        answer = _Answer(send, scope["state"].get("drop"))
        if leaving := places.enter(client, answer):
            leaving.give_up()
        try:
            await answer.give(self._app, scope, receive)
        finally:
            places.leave(client, answer)
        if answer.is_given_up and not answer.is_begun:
            await unavailable(UnavailableError(_TOO_MANY))(scope, receive, send)

    def _client(self, scope: Scope) -> str:
        if self._authorized and (sent := bearer(scope)):
            return hashlib.sha256(sent.token.encode()).hexdigest()
        return address_of(scope)


class _Answer:
    """An answer that ends when its client disconnects, or when it is given up for that of another client."""

    def __init__(self, send: Send, drop: Callable[[], None] | None) -> None:
        self._send = send
        self._drop = drop
        self._task: asyncio.Task[None] | None = None
        self.is_begun = self.is_given_up = False

    async def give(self, app: ASGIApp, scope: Scope, receive: Receive) -> None:
        """Let the application answer."""
        if self.is_given_up:
            return

        async def answer() -> None:
            await app(scope, receive, self._sent)

        self._task = task = asyncio.create_task(answer())
        gone = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()
            gone.cancel()
            await asyncio.gather(task, gone, return_exceptions=True)
            self._task = None  # its exception has frames that lead here: a cycle, which is collected once an hour
        if not task.cancelled():
            task.result()

    def give_up(self) -> None:
        """End the answer; if a part of it was sent, by ending the connection."""
        self.is_given_up = True
        if self.is_begun and self._drop:
            self._drop()
        elif self._task:
            self._task.cancel()

    async def _sent(self, message: Message) -> None:
        self.is_begun = True
        await self._send(message)


async def _gone(receive: Receive) -> None:
    """Return when the client has disconnected or has its whole answer."""
    while (await receive())["type"] != "http.disconnect":
        pass
