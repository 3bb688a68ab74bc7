"""A server that sends the bytes of a test's script, and a client that is connected to it."""

import asyncio
import contextlib
import re
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import pytest

from tests.support.certs import Authority
from tests.support.loop import JumpingLoop
from watchslo.asyncio_overrides import OverridingEventLoop
from watchslo.event_loop import TimedEventLoop
from watchslo.kube.client import Client
from watchslo.kube.credentials import Access, Credentials, CredentialSource
from watchslo.kube.limiter import Limiter
from watchslo.model import Resource

PODS = Resource("", "v1", "pods", namespaced=True)
NODES = Resource("", "v1", "nodes", namespaced=False)
EMPTY = b'{"metadata":{"resourceVersion":"42"},"items":[]}'
EXPIRED = b'{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version: 5 (236)"}'
LOGIN = b"<html><body>Please log in</body></html>"

_LENGTH = re.compile(rb"Content-Length: (\d+)")

Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]


JUMPING = ("test_apiservers.py", "test_limiter.py", "test_timeouts.py")
"""The files whose tests are about seconds."""


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run tests about seconds on a loop whose time jumps.

    The others run on both loops of a daemon: each reports the end of a connection differently.
    """
    if item.path.name in JUMPING:
        return {"jumping": JumpingLoop}
    return {"plain": TimedEventLoop, "overriding": OverridingEventLoop}


@pytest.fixture
async def jumping_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clock show the time of the loop."""
    monkeypatch.setattr(time, "monotonic", asyncio.get_running_loop().time)


def answer(body: bytes, status: str = "200 OK", *headers: str, media: str = "application/json") -> bytes:
    """Return a complete answer, after which the connection may be used again."""
    lines = (f"HTTP/1.1 {status}", f"Content-Type: {media}", f"Content-Length: {len(body)}", *headers)
    return "\r\n".join((*lines, "", "")).encode() + body


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Server:
    """Answers each request with the next step of `script`: bytes, or a coroutine function that writes.

    A path of `steps` has its own step, however often it is asked for.
    """

    def __init__(self) -> None:
        self.script: list[bytes | Reply] = []
        self.steps: Mapping[str, bytes | Reply] = {}
        self.requests: list[str] = []
        self.bodies: list[bytes] = []
        self.asked = asyncio.Event()
        self.connections = 0
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"{'https' if tls else 'http'}://{host}:{port}"

    async def stop(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(head.decode())
                if length := _LENGTH.search(head):
                    self.bodies.append(await reader.readexactly(int(length[1])))
                self.asked.set()
                path = self.requests[-1].split(" ")[1]
                step = self.steps[path] if path in self.steps else self.script.pop(0)
                if isinstance(step, bytes):
                    writer.write(step)
                    await writer.drain()
                else:
                    await step(writer)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """End the connection with FIN."""
    writer.close()


async def stay(_: asyncio.StreamWriter) -> None:
    """Leave the connection open."""


async def reset(writer: asyncio.StreamWriter) -> None:
    """End the connection with RST."""
    await writer.drain()
    taken: socket.socket = writer.get_extra_info("socket")
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def then(first: bytes, end: Reply) -> Reply:
    """Return a reply that sends bytes and then ends the connection."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        await writer.drain()
        await end(writer)

    return reply


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    await server.start()
    yield server
    await server.stop()


class Known:
    """The observed dates, and how often credentials were loaded."""

    def __init__(self) -> None:
        self.dates: list[tuple[float, float, float]] = []
        self.loads = 0

    def observe(self, date: float, sent: float, answered: float) -> None:
        self.dates.append((date, sent, answered))


@pytest.fixture
def known() -> Known:
    return Known()


def connection_to(url: str, known: Known) -> CredentialSource:
    async def load() -> Credentials:
        known.loads += 1
        return Credentials(Access(url, (("Authorization", f"Bearer token-{known.loads}"),)), {})

    return CredentialSource(load)


@pytest.fixture
async def client(server: Server, known: Known) -> AsyncIterator[Client]:
    async with Client(connection_to(server.url, known), Limiter(10_000), known.observe) as client:
        yield client


async def renewed(connection: CredentialSource) -> Access:
    """Return the access after the renewal in the background, if one is due."""
    await connection.access()
    if connection._renewal is not None:
        await asyncio.wait([connection._renewal])
    return await connection.access()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority") / "ca")
