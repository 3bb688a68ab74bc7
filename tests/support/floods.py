"""Floods of requests, from readers and from attackers: each one runs until it is cancelled."""

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

CHUNK = b"x" * 2**16
HEAD_BYTES = 100 * 2**20
WAIT_SECONDS = 0.2

Address = tuple[str, int]
Flood = Callable[["Target"], Awaitable[None]]


class Target:
    """A server under a flood. `statuses` counts its answers, `gone` the connections that ended without one."""

    def __init__(self, address: Address, token: str) -> None:
        self.address = address
        self.token = token
        self.statuses: Counter[int] = Counter()
        self.gone = 0

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Open a connection; the server may cut it."""
        try:
            reader, writer = await asyncio.open_connection(*self.address)
        except OSError:
            self.gone += 1
            await asyncio.sleep(WAIT_SECONDS)
            raise
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def ask(self, request: bytes) -> None:
        """Send one request on a new connection and read the answer."""
        with contextlib.suppress(OSError):
            async with self.connected() as (reader, writer):
                writer.write(request)
                await self.note(await reader.readline(), reader)

    async def note(self, line: bytes, reader: asyncio.StreamReader) -> None:
        if not line:
            self.gone += 1
            return
        self.statuses[int(line.split()[1])] += 1
        while await reader.read(2**16):
            pass


def get(path: str, token: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n".encode()
    )


async def idle(target: Target) -> None:
    """Hold a thousand silent connections."""
    await _crowd(1000, lambda: _say_nothing(target))


async def slow(target: Target) -> None:
    """Send hundreds of requests one byte at a time."""
    await _crowd(400, lambda: _again(lambda: _dribble(target)))


async def huge(target: Target) -> None:
    """Send request heads of 100 MB."""
    await _crowd(8, lambda: _again(lambda: _never_end_a_head(target)))


async def scrapes(target: Target) -> None:
    """Run five hundred scrapes in parallel."""
    await _crowd(500, lambda: _again(lambda: target.ask(get("/metrics", target.token))))


async def strangers(target: Target) -> None:
    """Send random tokens as fast as they are answered."""
    await _crowd(50, lambda: _again(lambda: target.ask(get("/metrics", secrets.token_urlsafe(40)))))


async def _crowd(number: int, work: Callable[[], Awaitable[None]]) -> None:
    await asyncio.gather(*(work() for _ in range(number)))


async def _again(work: Callable[[], Awaitable[None]]) -> None:
    while True:
        with contextlib.suppress(OSError):
            await work()
        await asyncio.sleep(0)


async def _say_nothing(target: Target) -> None:
    with contextlib.suppress(OSError):
        async with target.connected() as (reader, _):
            await target.note(await reader.readline(), reader)
    await asyncio.Event().wait()


async def _dribble(target: Target) -> None:
    async with target.connected() as (reader, writer):
        answer = asyncio.ensure_future(reader.readline())
        try:
            for byte in get("/metrics", target.token)[:-4] + CHUNK:
                writer.write(bytes([byte]))
                await asyncio.wait([answer], timeout=WAIT_SECONDS)
                if answer.done():
                    await target.note(answer.result(), reader)
                    return
        finally:
            answer.cancel()
            await asyncio.gather(answer, return_exceptions=True)


async def _never_end_a_head(target: Target) -> None:
    async with target.connected() as (reader, writer):
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nA: ")
        with contextlib.suppress(OSError):  # the server closes the connection, but its answer can still be read
            for _ in range(HEAD_BYTES // len(CHUNK)):
                writer.write(CHUNK)
                async with asyncio.timeout(WAIT_SECONDS):  # wait_for of Python 3.11 may lose a cancellation
                    await writer.drain()
        await target.note(await reader.readline(), reader)
