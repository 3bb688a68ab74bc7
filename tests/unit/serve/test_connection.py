"""A connection that is slow, silent, or speaks nonsense, on a transport in memory."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any, cast

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from watchslo.serve.connection import ARRIVAL_SECONDS, Stage, Visitor, least_needed

PATIENCE = 10.0
LIMIT = 4096
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
NOW = 1000.0


class Transport(asyncio.Transport):
    """Keeps what is written, until somebody takes it."""

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
        """Of the last answer."""
        return self.written.rpartition(b"HTTP/1.1 ")[2].partition(b"\r\n")[0].decode()


class Peer:
    """A visitor, and the two ends that hold it: `says` what it sends, `now` is its time."""

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
        self.visitor = Visitor(config, self.state, {}, cast("asyncio.AbstractEventLoop", self))
        self.visitor.connection_made(self.transport)

    async def _app(self, _: Scope, __: Receive, send: Send) -> None:
        await self.answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    # what the visitor needs of a loop

    def time(self) -> float:
        return self.now

    def create_task(self, *arguments: Any, **options: Any) -> asyncio.Task[None]:
        return self._loop.create_task(*arguments, **options)

    def call_later(self, _: float, callback: Any, *arguments: Any) -> asyncio.Handle:
        """At once, but for what this test is not about."""
        return self._loop.call_soon(callback, *arguments) if callback == self.transport.close else _Never()

    @property
    def ended(self) -> str:
        return self.transport.ended

    # what it is told

    def says(self, data: bytes) -> None:
        self.visitor.data_received(data)

    async def answered(self) -> None:
        self.answer.set()
        await asyncio.gather(*self.state.tasks)

    def looked_at(self, after: float) -> None:
        self.now += after
        self.visitor.look(self.now, PATIENCE)

    async def end(self) -> None:
        await asyncio.sleep(0)
        self.visitor.connection_lost(None)
        await self.answered()


class _Never(asyncio.Handle):
    def __init__(self) -> None:
        """Nothing."""

    def cancel(self) -> None:
        """It is never called anyhow."""


@pytest.fixture
async def peer() -> Any:
    made = Peer()
    yield made
    await made.end()


@pytest.fixture(autouse=True)
def complaints(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever it is sent, it says nothing in the log."""
    yield
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_its_stages(peer: Peer) -> None:
    stages = [peer.visitor.stage]
    peer.says(REQUEST[:10])
    stages.append(peer.visitor.stage)
    peer.says(REQUEST[10:])
    stages.append(peer.visitor.stage)
    await peer.answered()
    stages.append(peer.visitor.stage)
    peer.says(REQUEST[:10])
    stages.append(peer.visitor.stage)
    assert stages == [Stage.ASKING, Stage.ASKING, Stage.ANSWERED, Stage.IDLE, Stage.ASKING]


async def test_a_request_that_does_not_arrive(peer: Peer) -> None:
    for byte in REQUEST[:9]:
        peer.says(bytes([byte]))
        peer.looked_at(1.0)
    assert not peer.transport.written
    peer.looked_at(1.1)
    assert peer.transport.status == "408 Request Timeout"
    assert not peer.transport.reads
    await asyncio.sleep(0)
    assert peer.transport.ended == "closed"


async def test_who_says_nothing_is_told_nothing(peer: Peer) -> None:
    peer.looked_at(PATIENCE + 0.1)
    await asyncio.sleep(0)
    assert (peer.transport.written, peer.transport.ended) == (b"", "closed")


async def test_the_next_request_has_as_long(peer: Peer) -> None:
    peer.says(REQUEST)
    await peer.answered()
    peer.looked_at(10 * PATIENCE)  # how long it may be idle is uvicorn's part
    assert not peer.transport.ended
    peer.says(REQUEST[:10])
    peer.looked_at(PATIENCE)
    assert peer.transport.status == "200 OK"
    peer.looked_at(0.1)
    assert peer.transport.status == "408 Request Timeout"


async def test_an_answer_may_take_long(peer: Peer) -> None:
    peer.says(REQUEST)
    peer.looked_at(10 * PATIENCE)
    assert not peer.transport.ended
    await peer.answered()
    assert peer.transport.status == "200 OK"


async def test_an_answer_that_nobody_takes(peer: Peer) -> None:
    peer.says(REQUEST)
    await peer.answered()
    peer.transport.unsent = 5
    peer.looked_at(1.0)
    peer.looked_at(PATIENCE)
    assert not peer.transport.ended
    peer.transport.unsent = 0
    peer.looked_at(1.0)
    peer.transport.unsent = 5
    peer.looked_at(1.0)
    peer.looked_at(PATIENCE)
    assert peer.ended == ""
    peer.looked_at(0.1)
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
async def test_a_head_that_is_too_large(peer: Peer, head: bytes) -> None:
    peer.says(head)
    assert peer.transport.status == "431 Request Header Fields Too Large"
    peer.says(head)
    peer.looked_at(10 * PATIENCE)
    assert peer.transport.written.count(b"HTTP/1.1") == 1
    assert not peer.transport.reads


@pytest.mark.parametrize(
    "nonsense",
    [b"\x16\x03\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost\r\n\r\n"],
)
async def test_what_is_no_http(peer: Peer, nonsense: bytes) -> None:
    peer.says(nonsense)
    assert peer.transport.status == "400 Bad Request"


CHUNKED = b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_a_body_that_is_none(peer: Peer) -> None:
    peer.says(CHUNKED)
    peer.says(b"zzz\r\n")
    assert peer.transport.status == "400 Bad Request"
    await peer.answered()
    assert peer.transport.written.count(b"HTTP/1.1") == 1


async def test_within_an_answer_it_hangs_up(peer: Peer) -> None:
    peer.says(CHUNKED)
    peer.visitor.cycle.response_started = True
    peer.says(b"zzz\r\n")
    assert (peer.transport.written, peer.transport.ended) == (b"", "aborted")
    peer.visitor.cycle.disconnected = True


async def test_an_upgrade_is_ignored(peer: Peer) -> None:
    peer.says(REQUEST[:-2] + b"Upgrade: websocket\r\nConnection: upgrade\r\n\r\n")
    await peer.answered()
    assert peer.transport.status == "200 OK"


async def test_who_makes_room() -> None:
    assert least_needed([], NOW, PATIENCE) is None
    peers = [Peer() for _ in range(3)]
    for number, peer in enumerate(peers):
        peer.visitor.since = NOW + number
    visitors = [peer.visitor for peer in peers]
    assert least_needed(reversed(visitors), NOW + 3, PATIENCE) is visitors[0]
    assert least_needed(visitors, NOW + ARRIVAL_SECONDS, PATIENCE) is None, "what they ask may be on its way"
    for peer in peers[:2]:
        peer.says(REQUEST)
    assert least_needed(visitors, NOW + 100, PATIENCE) is visitors[2]
    peers[2].now = NOW + 3
    peers[2].says(REQUEST)
    assert least_needed(visitors, NOW + PATIENCE, PATIENCE) is None
    assert least_needed(visitors, NOW + PATIENCE + 1, PATIENCE) in visitors[:2]
    for peer in peers:
        await peer.end()
