"""One connection of somebody who reads: it may be slow, silent, or speak nonsense, and must not cost us much."""

import asyncio
import sys
from collections.abc import Iterable
from enum import Enum
from http import HTTPStatus

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

ARRIVAL_SECONDS = 0.25  # for which what a new connection asks may still be on its way
LINGER_SECONDS = 0.5  # before a refused connection is closed: what comes in late would reset it, and the answer with it
_WHY = {
    HTTPStatus.BAD_REQUEST: "This is no HTTP request.",
    HTTPStatus.REQUEST_TIMEOUT: "The request did not arrive in time.",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "The head of the request is too large.",
}


class Stage(Enum):
    """What a connection waits for: a request to arrive as a whole, our answer, or another request."""

    ASKING = "asking"
    ANSWERED = "answered"
    IDLE = "idle"


class Visitor(H11Protocol):
    """uvicorn's protocol, but for what strangers can do: its state has a name, and `since` when it holds.

    Its own complaints of what it received are not for our log: `h11` knows which status fits.
    """

    stage = Stage.ASKING
    since = 0.0
    _unsent_since: float | None = None
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._enter(Stage.ASKING)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.stage is Stage.IDLE:
            self._enter(Stage.ASKING)
        size = self.config.h11_max_incomplete_event_size
        assert size
        for start in range(0, len(data), size):  # piece by piece: h11 takes any head that comes as a whole
            if not self._refused:
                super().data_received(data[start : start + size])

    def handle_events(self) -> None:
        super().handle_events()
        if self.is_answered and self.stage is not Stage.ANSWERED:
            self._enter(Stage.ANSWERED)

    def on_response_complete(self) -> None:
        self._enter(Stage.IDLE)
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the same for all
        """Called where `h11` has raised."""
        hint = getattr(sys.exception(), "error_status_hint", HTTPStatus.BAD_REQUEST)
        self._refuse(HTTPStatus(hint) if hint in _WHY else HTTPStatus.BAD_REQUEST)

    @property
    def is_answered(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def look(self, now: float, patience: float) -> None:
        """Ends it where a request does not arrive, or its answer is not taken, within so many seconds."""
        if not self.transport.get_write_buffer_size():
            self._unsent_since = None
        elif self._unsent_since is None:
            self._unsent_since = now
        elif now - self._unsent_since > patience:
            self.drop()
        if self.stage is Stage.ASKING and now - self.since > patience and not self._is_ending:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    @property
    def _is_ending(self) -> bool:
        return self._refused or self.transport.is_closing()

    def drop(self) -> None:
        """Ends it at once."""
        self.transport.abort()

    def _enter(self, stage: Stage) -> None:
        self.stage, self.since = stage, self.loop.time()

    def _refuse(self, status: HTTPStatus) -> None:
        """Says why, where that is an answer to something, and hangs up."""
        self._refused = True
        if self.cycle is not None:
            if self.cycle.response_started and not self.cycle.response_complete:
                self.drop()  # there is no way to say it within an answer
                return
            self.cycle.disconnected = True
        if self.conn.their_state is h11.ERROR or (self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]):
            self.transport.write(_answer(status))
        self.transport.pause_reading()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)


def _answer(status: HTTPStatus) -> bytes:
    body = f"{_WHY[status]}\n".encode()
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def least_needed(visitors: Iterable[Visitor], now: float, patience: float) -> Visitor | None:
    """Who makes room for somebody else: who has been silent for the longest, or else has been answered for long.

    None if everybody has come or asked something just now.
    """
    visitors = list(visitors)
    silent = [one for one in visitors if one.stage is not Stage.ANSWERED and now - one.since > ARRIVAL_SECONDS]
    lasting = [visitor for visitor in visitors if now - visitor.since > patience]
    return min(silent or lasting, key=lambda visitor: visitor.since, default=None)
