"""A client connection that is slow, silent or malformed, on a transport in memory."""

import asyncio
import gc
import logging
import re
import weakref
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from tests.conftest import GOLDEN
from tests.support.transcripts import AsyncStep, replay_async
from watchslo.serve.acceptor import ARRIVAL_SECONDS, least_needed
from watchslo.serve.uvicorn_overrides import ClientConnection

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


@pytest.fixture(autouse=True)
def no_log_records(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail if anything was logged, whatever the client sent."""
    yield
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


WORDS = {
    "request": REQUEST,
    "begin": REQUEST[:10],
    "rest": REQUEST[10:],
    "upgrade": REQUEST[:-2] + b"Upgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    "chunked": b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    "garbage": b"zzz\r\n",
    "long-header": REQUEST[:-2] + b"a: " + 3 * LIMIT * b"x",
    "long-request": REQUEST[:-2] + b"a: " + 3 * LIMIT * b"x" + b"\r\n\r\n",
    "many-headers": REQUEST[:-2] + LIMIT * b"a: x\r\n",
    "long-method": LIMIT * b"G" + b"G",
    "tls": b"\x16\x03\x01\x02\r\n\r\n",
    "no-path": b"GET\r\n\r\n",
    "no-host": b"GET / HTTP/1.1\r\n\r\n",
    "odd-header": b"GET / HTTP/1.1\r\nHost\r\n\r\n",
}
"""What a client says, by the names that the transcript uses."""


class Dialogue:
    """A transcript of one connection; the outcome of each step is its stage, its answers, and whether it is open."""

    def __init__(self) -> None:
        self.peer = Peer()

    async def step(self, text: str) -> str:
        peer = self.peer
        match text.split():
            case ["says", what]:
                peer.says(WORDS[what])
            case ["says", "byte", number, "after", seconds]:
                peer.checked_after(float(seconds))
                peer.says(REQUEST[int(number) : int(number) + 1])
            case ["answered"]:
                await peer.answered()
            case ["answer", "began"]:
                peer.connection.cycle.response_started = True
            case ["after", seconds]:
                peer.checked_after(float(seconds))
            case ["unsent", size]:
                peer.transport.unsent = int(size)
            case words:
                raise AssertionError(words)
        await asyncio.sleep(0)  # until the transport is closed
        return self._state()

    def _state(self) -> str:
        transport = self.peer.transport
        answers = re.findall(rb"HTTP/1.1 ([^\r]*)", transport.written)
        reads = "" if transport.reads else "reads no more"
        said = [self.peer.connection.stage.name.lower(), *(one.decode() for one in answers), reads, transport.ended]
        return ", ".join(filter(None, said))


async def test_connection_does_what_its_transcripts_say(golden: Callable[[str, str], None]) -> None:
    dialogues = list[Dialogue]()

    async def begin(_: str) -> AsyncStep:
        dialogues.append(Dialogue())
        return dialogues[-1].step

    golden("connections.txt", await replay_async((GOLDEN / "connections.txt").read_text(), begin))
    for dialogue in dialogues:
        if dialogue.peer.connection.cycle is not None:
            dialogue.peer.connection.cycle.disconnected = True
        await dialogue.peer.end()


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


async def test_connection_that_has_ended_is_freed_without_the_collector() -> None:
    """What is garbage in a cycle when others are left out of collections stays for an hour."""
    peer = Peer()
    peer.says(REQUEST)
    await peer.end()
    connection = weakref.ref(peer.connection)
    gc.collect()
    gc.disable()
    try:
        del peer.connection
        assert connection() is None
    finally:
        gc.enable()
