"""The server in its own thread: which connections are accepted at the limit, and how it stops and fails."""

import asyncio
import contextlib
import errno
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from structlog.testing import CapturingLogger

from tests.support.certs import Authority
from watchslo.config.sections.server import ServerLimitsConfig, TlsConfig
from watchslo.config.values import Listen
from watchslo.serve import acceptor
from watchslo.serve.server import StatusServer, listen
from watchslo.serve.tls import Certificate
from watchslo.serve.uvicorn_overrides import ClientConnection, ConnectionStage

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
PROBE = REQUEST.replace(b"/ ", b"/healthz ", 1)
OTHER = "127.0.0.2"  # the address of a second client
CONNECTIONS = 8

Connected = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ServerUnderTest:
    """A server and its clients. `/` is answered once `gate` is set; `thread` is where that happened.

    `answered` counts the requests that reached the application; probes are answered at once.
    """

    def __init__(self, certificate: Certificate | None = None, **limits: Any) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.listener = listen(Listen("127.0.0.1", 0))
        app = FastAPI()
        app.add_api_route("/", self._index)
        app.add_api_route("/healthz", lambda: "ok")
        limited = ServerLimitsConfig.model_validate({"connections": CONNECTIONS, **limits})
        self.server = StatusServer(app, self.listener, limited, certificate)
        self.thread = ""
        self.answered = 0

    @property
    def being_answered(self) -> int:
        connections = self.server.uvicorn.server_state.connections.copy()  # atomic: another thread changes the set
        return sum(isinstance(one, ClientConnection) and one.stage is ConnectionStage.ANSWERED for one in connections)

    async def _index(self) -> PlainTextResponse:
        self.thread = threading.current_thread().name
        self.answered += 1
        await asyncio.to_thread(self.gate.wait)
        return PlainTextResponse("ok")

    async def connect(self, tls: ssl.SSLContext | None = None, address: str = "127.0.0.1") -> Connected:
        return await asyncio.open_connection(*self.listener.getsockname(), ssl=tls, local_addr=(address, 0))

    async def flooded(self, requests: int) -> list[asyncio.Task[bytes]]:
        """Return requests, none of which is answered before `gate` is set; all connections are used."""
        self.gate.clear()
        flood = [asyncio.create_task(self.ask()) for _ in range(requests)]
        while self.being_answered < CONNECTIONS:  # noqa: ASYNC110 - of another thread
            await asyncio.sleep(0)
        return flood

    async def ask(
        self, tls: ssl.SSLContext | None = None, request: bytes = REQUEST, address: str = "127.0.0.1"
    ) -> bytes:
        reader, writer = await self.connect(tls, address)
        with contextlib.closing(writer):
            writer.write(request)
            with contextlib.suppress(ConnectionResetError):
                return (await reader.read()).partition(b"\r\n")[0]
            return b""


@contextlib.asynccontextmanager
async def serving(certificate: Certificate | None = None, **limits: Any) -> AsyncIterator[ServerUnderTest]:
    place = ServerUnderTest(certificate, **limits)
    place.server.start()
    try:
        yield place
    finally:
        place.gate.set()
        await place.server.stop()


@pytest.fixture
def logged() -> Iterator[CapturingLogger]:
    logger = CapturingLogger()
    before = structlog.get_config()
    structlog.configure(processors=[lambda _, __, facts: ((), facts)], logger_factory=lambda *_: logger)
    yield logger
    structlog.configure(**before)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority") / "ca")


@pytest.fixture
def certificate(authority: Authority, tmp_path: Path) -> Certificate:
    pair = authority.server(tmp_path.name)
    return Certificate(TlsConfig.model_validate({"certFile": str(pair.certificate), "keyFile": str(pair.key)}))


async def test_server_answers_in_its_own_thread() -> None:
    async with serving() as place:
        assert await place.ask() == b"HTTP/1.1 200 OK"
    assert place.thread == "serve"
    assert place.listener.fileno() == -1


async def test_silent_connections_are_dropped_for_new_ones() -> None:
    async with serving() as place:
        silent = [await place.connect() for _ in range(3 * CONNECTIONS)]
        assert await place.ask() == b"HTTP/1.1 200 OK"
        for reader, _ in silent[: 2 * CONNECTIONS]:
            assert await reader.read() == b""
        for _, writer in silent:
            writer.close()


async def test_connections_being_answered_are_kept_and_new_ones_wait() -> None:
    async with serving() as place:
        asking = await place.flooded(CONNECTIONS)
        waiting = [await place.connect() for _ in range(CONNECTIONS)]
        for _, writer in waiting:
            writer.write(REQUEST)
        await asyncio.sleep(0)
        assert not any(task.done() for task in asking)
        place.gate.set()
        assert await asyncio.gather(*asking) == [b"HTTP/1.1 200 OK"] * len(asking)
        for reader, writer in waiting:
            assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
            writer.close()


async def test_connections_without_tls_handshake_are_dropped_for_new_ones(
    certificate: Certificate, authority: Authority
) -> None:
    trusting = ssl.create_default_context(cafile=authority.ca)
    async with serving(certificate) as place:
        silent = [await place.connect() for _ in range(3 * CONNECTIONS)]
        assert await place.ask(trusting) == b"HTTP/1.1 200 OK"
        for _, writer in silent:
            writer.close()


async def test_connections_of_clients_that_have_gone_are_not_served() -> None:
    place = ServerUnderTest()
    for _ in range(CONNECTIONS):
        _, writer = await place.connect()
        writer.write(REQUEST)
        writer.close()
        await writer.wait_closed()
    place.server.start()
    assert await place.ask() == b"HTTP/1.1 200 OK"
    await place.server.stop()
    assert place.answered == 1


async def test_probe_of_another_client_replaces_a_connection_of_one_that_floods() -> None:
    async with serving(requestTimeout="5m") as place:
        flood = await place.flooded(4 * CONNECTIONS)
        assert await place.ask(request=PROBE, address=OTHER) == b"HTTP/1.1 200 OK"
        place.gate.set()
        answers = await asyncio.gather(*flood)
        assert CONNECTIONS < answers.count(b"") + CONNECTIONS <= len(flood)
        assert set(answers) == {b"HTTP/1.1 200 OK", b""}


async def test_connections_that_wait_are_closed_at_the_end() -> None:
    async with serving(requestTimeout="5m") as place:
        flood = await place.flooded(2 * CONNECTIONS)
        await place.ask(request=PROBE, address=OTHER)
        stopping = asyncio.create_task(place.server.stop())
        await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
        place.gate.set()
        _, *answers = await asyncio.gather(stopping, *flood)
        assert b"" in answers
        assert set(answers) <= {b"HTTP/1.1 200 OK", b""}


async def test_probe_of_another_client_replaces_a_handshake_of_one_that_floods(
    certificate: Certificate, authority: Authority
) -> None:
    trusting = ssl.create_default_context(cafile=authority.ca)
    async with serving(certificate, requestTimeout="5m") as place:
        silent = [await place.connect() for _ in range(2 * CONNECTIONS)]
        assert await place.ask(trusting, PROBE, OTHER) == b"HTTP/1.1 200 OK"
        for _, writer in silent:
            writer.close()


def test_client_has_gone_once_its_end_is_closed() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        found = [acceptor.has_gone(ours)]
        theirs.send(REQUEST)
        found.append(acceptor.has_gone(ours))
        theirs.shutdown(socket.SHUT_WR)
        found.append(acceptor.has_gone(ours))
    assert found == [False, False, True]


async def test_failing_accept_is_logged_once(logged: CapturingLogger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor, "EXHAUSTED_SECONDS", 0.0)
    place, failures = ServerUnderTest(), [OSError(errno.EMFILE, "Too many open files")] * 3
    accept = place.server.acceptor.accept

    async def accepted() -> tuple[socket.socket, Any]:
        if failures:
            raise failures.pop()
        return await accept()

    monkeypatch.setattr(place.server.acceptor, "accept", accepted)
    place.server.start()
    assert await place.ask() == b"HTTP/1.1 200 OK"
    await place.server.stop()
    assert [call.kwargs["event"] for call in logged.calls] == ["accepting_failed"]


async def test_programming_error_is_logged_and_raised_by_stop(
    logged: CapturingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ServerUnderTest()

    async def accepted() -> socket.socket:
        raise ZeroDivisionError

    monkeypatch.setattr(place.server.acceptor, "accept", accepted)
    place.server.start()
    place.server._thread.join()
    with pytest.raises(ZeroDivisionError):
        await place.server.stop()
    place.listener.close()
    assert [call.kwargs["error"].partition(" ")[0] for call in logged.calls] == ["ZeroDivisionError"]
