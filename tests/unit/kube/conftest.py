"""A server that sends the bytes of a test's script, and a client that is connected to it."""

import asyncio
import contextlib
import re
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from tests.support.certs import Authority
from tests.support.loop import JumpingLoop
from watchslo.asyncio_overrides import OverridingEventLoop
from watchslo.event_loop import TimedEventLoop
from watchslo.kube.apiservers import count_apiservers, read_addresses
from watchslo.kube.call import Page, Selectors
from watchslo.kube.client import Client
from watchslo.kube.credentials import Access, Credentials, CredentialSource
from watchslo.kube.discovery import Discovery
from watchslo.kube.limiter import Limiter
from watchslo.kube.proxy_rule import DIRECT
from watchslo.kube.representation import Representation
from watchslo.kube.reviews import ReviewedAccess, may, review
from watchslo.kube.watch_response import WatchResponse
from watchslo.model import Reading, Resource
from watchslo.watch.failure import Failure
from watchslo.watch.messages import ListRequest, WatchRequest

PODS = Resource("", "v1", "pods", namespaced=True)
NODES = Resource("", "v1", "nodes", namespaced=False)
EMPTY = b'{"metadata":{"resourceVersion":"42"},"items":[]}'
EXPIRED = b'{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version: 5 (236)"}'
LOGIN = b"<html><body>Please log in</body></html>"
EVENT = b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"43"}}}\n'
CONFIRMED = b'{"metadata":{"resourceVersion":"42","shardInfo":{"selector":"as requested"}},"items":[]}'
ALL = Selectors()
ANY_LIST = ListRequest()

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


async def tick(client: Client) -> Reading | Failure:
    return await client.read_nothing(PODS, "default", "tick")


def list_page(
    client: Client,
    representation: Representation = Representation.TABLE,
    request: ListRequest = ANY_LIST,
    selectors: Selectors = ALL,
    **how: Any,
) -> Awaitable[Page | Failure]:
    """List all pods."""
    return client.list_page(PODS, None, selectors, request, representation, **how)


def watch(
    client: Client,
    selectors: Selectors = ALL,
    representation: Representation = Representation.TABLE,
    **how: Any,
) -> AbstractAsyncContextManager[WatchResponse | Failure]:
    """Open a watch of all pods."""
    return client.watch(PODS, None, selectors, WatchRequest(41, timeout=300), representation, **how)


@contextlib.asynccontextmanager
async def opened(client: Client, **how: Any) -> AsyncIterator[WatchResponse]:
    """Give a watch of all pods that has been opened."""
    async with watch(client, **how) as response:
        assert isinstance(response, WatchResponse)
        yield response


async def watched(client: Client, **how: Any) -> list[bytes | Failure]:
    """Return all chunks of a watch, and the failure that ends it or refuses it."""
    brought: list[bytes | Failure] = []
    async with watch(client, **how) as response:
        if isinstance(response, Failure):
            return [response]
        while not isinstance(part := await response.read(), Failure):
            brought.append(part[1])
    return [*brought, part]


async def failed(ended: Awaitable[object]) -> Failure:
    """Return the failure in which a request ends."""
    failure = await ended
    assert isinstance(failure, Failure)
    return failure


async def take_nothing(_: bytes) -> None:
    """Drop a piece of a page."""


ASKS: dict[str, Callable[[Client], Awaitable[object]]] = {
    "tick": tick,
    "cache probe": lambda client: client.read_cache(PODS, "default"),
    "list": list_page,
    "list with objects": lambda client: list_page(client, Representation.PLAIN, with_objects=True),
    "list of a shard": lambda client: list_page(client, selectors=Selectors(shard="x")),
    "watch": watched,
    "document": lambda client: client.document("/api"),
    "create": lambda client: client.create("access_review", "/apis/x", b"{}"),
    "version": lambda client: client.version(),
    "metrics": lambda client: client.read_metrics(take_nothing),
    "addresses": read_addresses,
    "leases": count_apiservers,
    "discovery": lambda client: Discovery(lambda: client).refresh(),
    "token review": lambda client: review(client, "token", "/metrics"),
    "access review": lambda client: may(client, ReviewedAccess("list", "", "pods")),
}
"""Requests of each kind."""


@pytest.fixture
async def client(server: Server, known: Known) -> AsyncIterator[Client]:
    async with Client(connection_to(server.url, known), Limiter(10_000), known.observe) as client:
        yield client


def described(access: Access) -> list[str]:
    """Return an access in lines: its address, then its headers."""
    if access.tls is None:
        tls = "no TLS"
    else:
        source = "one authority" if len(access.tls.get_ca_certs()) == 1 else "authorities of the system"
        tls = source if access.tls.check_hostname else "no verification"
    name = f", as {access.server_name}" if access.server_name else ""
    proxy = f", by {access.proxy.fixed or access.proxy.https}" if access.proxy != DIRECT else ""
    return [f"{access.url}, {tls}{name}{proxy}", *(f"{key}: {value}" for key, value in access.headers)]


async def renewed(connection: CredentialSource) -> Access:
    """Return the access after the renewal in the background, if one is due."""
    await connection.access()
    if connection._renewal is not None:
        await asyncio.wait([connection._renewal])
    return await connection.access()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority") / "ca")
