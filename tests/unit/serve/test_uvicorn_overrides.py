"""A client connection that is slow, silent or malformed, on a transport in memory."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any, cast

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from watchslo.serve.acceptor import ARRIVAL_SECONDS, least_needed
from watchslo.serve.uvicorn_overrides import ClientConnection, ConnectionStage

TIMEOUT = 10.0
LIMIT = 4096
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
NOW = 1000.0


class Transport(asyncio.Transport):
    """Keeps the data that is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.unsent = 0
        self.ended = ""
        self.reads = True

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    @property
    def status(self) -> str:
        """The status of the last answer."""
        return self.written.rpartition(b"HTTP/1.1 ")[2].partition(b"\r\n")[0].decode()


class Peer:
    """A client and the connection under test; `says` sends data, `now` is the time of the loop."""

    def __init__(self) -> None:
        self.now = NOW
        self.answer = asyncio.Event()
        self.transport = Transport()
        config = uvicorn.Config(
            self._app,
            interface="asgi3",
            lifespan="off",
            log_config=None,
            log_level="error",
            ws="none",
            h11_max_incomplete_event_size=LIMIT,
        )
        config.load()
        self._loop = asyncio.get_running_loop()
        self.state = ServerState()
        self.connection = ClientConnection(config, self.state, {}, cast("asyncio.AbstractEventLoop", self))
        self.connection.connection_made(self.transport)

    async def _app(self, _: Scope, __: Receive, send: Send) -> None:
        await self.answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    # the methods of a loop that the connection calls

    def time(self) -> float:
        return self.now

    def create_task(self, *arguments: Any, **options: Any) -> asyncio.Task[None]:
        return self._loop.create_task(*arguments, **options)

    def call_later(self, _: float, callback: Any, *arguments: Any) -> asyncio.Handle:
        """Call the closing of the transport at once, and nothing else ever."""
        return self._loop.call_soon(callback, *arguments) if callback == self.transport.close else _Never()

    @property
    def ended(self) -> str:
        return self.transport.ended

    # what the tests do

    def says(self, data: bytes) -> None:
        self.connection.data_received(data)

    async def answered(self) -> None:
        self.answer.set()
        await asyncio.gather(*self.state.tasks)

    def checked_after(self, after: float) -> None:
        self.now += after
        self.connection.enforce_timeouts(self.now, TIMEOUT)

    async def end(self) -> None:
        await asyncio.sleep(0)
        self.connection.connection_lost(None)
        await self.answered()


class _Never(asyncio.Handle):
    def __init__(self) -> None:
        """Have no callback."""

    def cancel(self) -> None:
        """Do nothing: it is never called."""


@pytest.fixture
async def peer() -> Any:
    made = Peer()
    yield made
    await made.end()


@pytest.fixture(autouse=True)
def no_log_records(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail if anything was logged, whatever the client sent."""
    yield
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_connection_passes_its_stages(peer: Peer) -> None:
    stages = [peer.connection.stage]
    peer.says(REQUEST[:10])
    stages.append(peer.connection.stage)
    peer.says(REQUEST[10:])
    stages.append(peer.connection.stage)
    await peer.answered()
    stages.append(peer.connection.stage)
    peer.says(REQUEST[:10])
    stages.append(peer.connection.stage)
    assert stages == [
        ConnectionStage.ASKING,
        ConnectionStage.ASKING,
        ConnectionStage.ANSWERED,
        ConnectionStage.IDLE,
        ConnectionStage.ASKING,
    ]


async def test_incomplete_request_gets_408_after_timeout(peer: Peer) -> None:
    for byte in REQUEST[:9]:
        peer.says(bytes([byte]))
        peer.checked_after(1.0)
    assert not peer.transport.written
    peer.checked_after(1.1)
    assert peer.transport.status == "408 Request Timeout"
    assert not peer.transport.reads
    await asyncio.sleep(0)
    assert peer.transport.ended == "closed"


async def test_silent_connection_is_closed_without_answer(peer: Peer) -> None:
    peer.checked_after(TIMEOUT + 0.1)
    await asyncio.sleep(0)
    assert (peer.transport.written, peer.transport.ended) == (b"", "closed")


async def test_next_request_has_the_same_timeout(peer: Peer) -> None:
    peer.says(REQUEST)
    await peer.answered()
    peer.checked_after(10 * TIMEOUT)  # uvicorn times out idle connections
    assert not peer.transport.ended
    peer.says(REQUEST[:10])
    peer.checked_after(TIMEOUT)
    assert peer.transport.status == "200 OK"
    peer.checked_after(0.1)
    assert peer.transport.status == "408 Request Timeout"


async def test_slow_answer_does_not_time_out(peer: Peer) -> None:
    peer.says(REQUEST)
    peer.checked_after(10 * TIMEOUT)
    assert not peer.transport.ended
    await peer.answered()
    assert peer.transport.status == "200 OK"


async def test_unread_answer_aborts_connection_after_timeout(peer: Peer) -> None:
    peer.says(REQUEST)
    await peer.answered()
    peer.transport.unsent = 5
    peer.checked_after(1.0)
    peer.checked_after(TIMEOUT)
    assert not peer.transport.ended
    peer.transport.unsent = 0
    peer.checked_after(1.0)
    peer.transport.unsent = 5
    peer.checked_after(1.0)
    peer.checked_after(TIMEOUT)
    assert peer.ended == ""
    peer.checked_after(0.1)
    assert peer.ended == "aborted"


@pytest.mark.parametrize(
    "head",
    [
        REQUEST[:-2] + b"a: " + 3 * LIMIT * b"x",
        REQUEST[:-2] + b"a: " + 3 * LIMIT * b"x" + b"\r\n\r\n",
        REQUEST[:-2] + LIMIT * b"a: x\r\n",
        LIMIT * b"G" + b"G",
    ],
)
async def test_large_head_gets_431(peer: Peer, head: bytes) -> None:
    peer.says(head)
    assert peer.transport.status == "431 Request Header Fields Too Large"
    peer.says(head)
    peer.checked_after(10 * TIMEOUT)
    assert peer.transport.written.count(b"HTTP/1.1") == 1
    assert not peer.transport.reads


@pytest.mark.parametrize(
    "nonsense",
    [b"\x16\x03\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost\r\n\r\n"],
)
async def test_malformed_request_gets_400(peer: Peer, nonsense: bytes) -> None:
    peer.says(nonsense)
    assert peer.transport.status == "400 Bad Request"


CHUNKED = b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_malformed_body_gets_400(peer: Peer) -> None:
    peer.says(CHUNKED)
    peer.says(b"zzz\r\n")
    assert peer.transport.status == "400 Bad Request"
    await peer.answered()
    assert peer.transport.written.count(b"HTTP/1.1") == 1


async def test_malformed_body_during_answer_aborts_connection(peer: Peer) -> None:
    peer.says(CHUNKED)
    peer.connection.cycle.response_started = True
    peer.says(b"zzz\r\n")
    assert (peer.transport.written, peer.transport.ended) == (b"", "aborted")
    peer.connection.cycle.disconnected = True


async def test_upgrade_is_ignored(peer: Peer) -> None:
    peer.says(REQUEST[:-2] + b"Upgrade: websocket\r\nConnection: upgrade\r\n\r\n")
    await peer.answered()
    assert peer.transport.status == "200 OK"


async def test_least_needed_is_longest_silent_then_longest_answered() -> None:
    assert least_needed([], NOW, TIMEOUT) is None
    peers = [Peer() for _ in range(3)]
    for number, peer in enumerate(peers):
        peer.connection.since = NOW + number
    connections = [peer.connection for peer in peers]
    assert least_needed(reversed(connections), NOW + 3, TIMEOUT) is connections[0]
    assert least_needed(connections, NOW + ARRIVAL_SECONDS, TIMEOUT) is None, "their requests may be on the way"
    for peer in peers[:2]:
        peer.says(REQUEST)
    assert least_needed(connections, NOW + 100, TIMEOUT) is connections[2]
    peers[2].now = NOW + 3
    peers[2].says(REQUEST)
    assert least_needed(connections, NOW + TIMEOUT, TIMEOUT) is None
    assert least_needed(connections, NOW + TIMEOUT + 1, TIMEOUT) in connections[:2]
    for peer in peers:
        await peer.end()
