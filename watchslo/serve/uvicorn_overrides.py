"""The parts of uvicorn that are replaced, and why. pyproject.toml caps uvicorn's version, because these are internals.

`EmbeddedServer` replaces four methods of `uvicorn.Server`:

- `startup`: uvicorn's own accepts as many connections at once as there are. A thousand at once would keep the
  interpreter from the thread that measures, so the caller accepts connections itself, at a bounded pace.
- `shutdown` and `on_tick`: they end the caller's background tasks, and report it if one of them fails.
- `capture_signals`: signals belong to the process, not to the server's thread.

`ClientConnection` replaces parts of `H11Protocol`, because clients are not trusted:

- `data_received` feeds h11 piece by piece: h11 accepts a head of any size if it arrives as a whole.
- `send_400_response` answers with the status that h11 suggests (431 for a large head), logs nothing, and lets the
  answer arrive before the connection is closed.
- `connection_made`, `handle_events`, `on_response_complete` note the stage, so that a request that does not arrive and
  an answer that is not read can be timed out. uvicorn times out idle connections only.
- `connection_made` gives requests a way to end their connection, as `drop` of their state: ASGI has none.
"""

import asyncio
import socket
import sys
import weakref
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

LINGER_SECONDS = (
    0.5  # before a refused connection is closed: data that still arrives would reset it and lose the answer
)
_MESSAGES = {
    HTTPStatus.BAD_REQUEST: "This is not an HTTP request.",
    HTTPStatus.REQUEST_TIMEOUT: "The request did not arrive in time.",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "The head of the request is too large.",
}

BackgroundWork = Callable[[], Sequence[Coroutine[Any, Any, None]]]


class EmbeddedServer(uvicorn.Server):
    """uvicorn without its own accepting and signals: `background` returns the coroutines that run instead."""

    def __init__(self, config: uvicorn.Config, background: BackgroundWork) -> None:
        super().__init__(config)
        self._background = background
        self._tasks: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - accepted elsewhere
        await self.lifespan.startup()
        self.servers = []
        self._tasks = [asyncio.create_task(work) for work in self._background()]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        for task in self._tasks:
            if task.done():  # these run until they are cancelled: a programming error ended it
                task.result()
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def new_connection(self) -> "ClientConnection":
        """Return the protocol of one accepted connection."""
        return ClientConnection(self.config, self.server_state, self.lifespan.state)

    @property
    def connections(self) -> list["ClientConnection"]:
        """All open connections."""
        return [connection for connection in self.server_state.connections if isinstance(connection, ClientConnection)]


class ConnectionStage(Enum):
    """What a connection waits for: the rest of a request, our answer, or the next request."""

    ASKING = "asking"
    ANSWERED = "answered"
    IDLE = "idle"


class ClientConnection(H11Protocol):
    """One connection of a client, which may be slow, silent or malicious: `stage`, and `since` when it is in it."""

    stage = ConnectionStage.ASKING
    since = 0.0
    _unsent_since: float | None = None
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._enter(ConnectionStage.ASKING)
        super().connection_made(transport)
        drop = weakref.WeakMethod(self.drop)  # a strong one would be a cycle, which is collected once an hour
        self.app_state = {**self.app_state, "drop": lambda: (method := drop()) and method()}

    def data_received(self, data: bytes) -> None:
        if self.stage is ConnectionStage.IDLE:
            self._enter(ConnectionStage.ASKING)
        size = self.config.h11_max_incomplete_event_size
        assert size
        for start in range(0, len(data), size):
            if not self._refused:
                super().data_received(data[start : start + size])

    def handle_events(self) -> None:
        super().handle_events()
        if self.is_answered and self.stage is not ConnectionStage.ANSWERED:
            self._enter(ConnectionStage.ANSWERED)

    def on_response_complete(self) -> None:
        self._enter(ConnectionStage.IDLE)
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the answer does not repeat it
        """Refuse the request; uvicorn calls this while it handles an exception of h11."""
        hint = getattr(sys.exception(), "error_status_hint", HTTPStatus.BAD_REQUEST)
        self._refuse(HTTPStatus(hint) if hint in _MESSAGES else HTTPStatus.BAD_REQUEST)

    @property
    def address(self) -> str:
        """The IP address of the client."""
        return self.client[0] if self.client else ""

    @property
    def is_answered(self) -> bool:
        """True while a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def enforce_timeouts(self, now: float, timeout: float) -> None:
        """End the connection if its request has not arrived, or its answer was not read, within `timeout` seconds."""
        if not self.transport.get_write_buffer_size():
            self._unsent_since = None
        elif self._unsent_since is None:
            self._unsent_since = now
        elif now - self._unsent_since > timeout:
            self.drop()
        if self.stage is ConnectionStage.ASKING and now - self.since > timeout and not self._is_ending:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    @property
    def _is_ending(self) -> bool:
        return self._refused or self.transport.is_closing()

    def drop(self) -> None:
        """End the connection at once."""
        self.transport.abort()

    def _enter(self, stage: ConnectionStage) -> None:
        self.stage, self.since = stage, self.loop.time()

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer with the status if a request has begun to arrive, and close the connection."""
        self._refused = True
        if self.cycle is not None:
            if self.cycle.response_started and not self.cycle.response_complete:
                self.drop()  # an answer under way cannot be replaced by another
                return
            self.cycle.disconnected = True
        if self.conn.their_state is h11.ERROR or (self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]):
            self.transport.write(_answer(status))
        self.transport.pause_reading()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)


def _answer(status: HTTPStatus) -> bytes:
    body = f"{_MESSAGES[status]}\n".encode()
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
