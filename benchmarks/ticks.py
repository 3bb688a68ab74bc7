"""Ticks of thousands of nodes: each node has its own token, TLS connection and irregular schedule.

The request is the one of `Client.read_nothing`. Plain TLS streams on uvloop take a tenth of a core
for 500 ticks per second; without aiohttp, its cost is not part of the measurement.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Sequence
from random import Random
from urllib.parse import urlencode, urlsplit

from watchslo import __version__
from watchslo.kube.call import NOTHING

CONNECTING = 32  # connections that are opened at the same time
SEED = 7
PATH = "/api/v1/namespaces/default/events"


class Crowd:
    """Clients of one apiserver, one per token. `codes` counts the answers; `times` are their seconds."""

    def __init__(self, url: str, context: ssl.SSLContext, tokens: Sequence[str]) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._host, self._port = parts.hostname, parts.port
        self._context = context
        self._tokens = tokens
        self._random = Random(SEED)
        self.codes: Counter[str] = Counter()
        self.times: list[float] = []
        self._streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def connect(self) -> None:
        """Open all connections, CONNECTING at a time."""
        room = asyncio.Semaphore(CONNECTING)

        async def one() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            async with room:
                return await asyncio.open_connection(self._host, self._port, ssl=self._context)

        self._streams = await asyncio.gather(*(one() for _ in self._tokens))

    async def close(self) -> None:
        for _, writer in self._streams:
            writer.transport.abort()

    async def tick(self, interval: float, seconds: float) -> None:
        """Let each client tick like the daemon, with gaps of 0.5 to 1.5 intervals."""
        self.codes.clear()
        self.times.clear()
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        await asyncio.gather(*(self._client(number, interval, end) for number in range(len(self._tokens))))

    async def _client(self, number: int, interval: float, end: float) -> None:
        loop = asyncio.get_running_loop()
        request = _tick(f"{self._host}:{self._port}", self._tokens[number])
        at = loop.time() + interval * self._random.random()
        while at < end:
            await asyncio.sleep(at - loop.time())
            began = loop.time()
            self.codes[await self._ask(number, request)] += 1
            self.times.append(loop.time() - began)
            at += interval * (0.5 + self._random.random())

    async def _ask(self, number: int, request: bytes) -> str:
        """Send a request, read the answer, and return its status code."""
        reader, writer = self._streams[number]
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        fields = head.decode().lower().split("\r\n")
        if "transfer-encoding: chunked" in fields:
            await reader.readuntil(b"\r\n0\r\n\r\n")
        else:
            length = next(int(field.split(":")[1]) for field in fields if field.startswith("content-length:"))
            await reader.readexactly(length)
        return fields[0].split(" ")[1]


def _tick(host: str, token: str) -> bytes:
    """Return a read of an event that does not exist, as a request."""
    lines = (
        f"GET {PATH}?{urlencode(NOTHING.query)} HTTP/1.1",
        f"Host: {host}",
        f"User-Agent: watchslo/{__version__}",
        "Accept-Encoding: identity",
        f"Authorization: Bearer {token}",
        "Accept: application/json",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
