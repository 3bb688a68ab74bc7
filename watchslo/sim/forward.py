"""Forwards TCP connections to a server, or to several in turn, and lets go wrong with them what is switched on.

It cannot see events, so it notes chunks of bytes: when each came from the server, and when it went on.
"""

import asyncio
import math
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Any, Self

from watchslo.errors import ConfigError
from watchslo.sim.delay import AT_ONCE, Law
from watchslo.sim.link_faults import Connections, Cut, LinkFault, known_link_fault
from watchslo.sim.way import Way

_REMEMBERED = 200_000
_BACKLOG = 128
_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER of no seconds: to close is to reset."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes of one connection that came from the server together and went on together (monotonic seconds)."""

    connection: int
    size: int
    received: float
    forwarded: float


class Proxy:
    """Forwards connections, from `async with` on until its end, to each upstream in turn, or to the next that answers.

    Whoever owns it may change `law`, by which bytes reach clients late, at any time. With `tls` the upstreams speak
    TLS, and clients do not.
    """

    def __init__(
        self,
        to: Sequence[Address],
        law: Law,
        random: Random,
        listen: Address = ("127.0.0.1", 0),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.law = law
        self.random = random
        self.chunks: deque[Chunk] = deque(maxlen=_REMEMBERED)
        self.connections: dict[int, Connection] = {}
        self.address = listen
        self._to = tuple(to)
        self._tls = tls
        self._coming: dict[str, tuple[LinkFault, Any]] = {}
        self._listening = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._last = 0

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            OSError: for an address that cannot be listened on.
        """
        self._socket = socket.create_server(self.address, backlog=_BACKLOG)
        self._socket.settimeout(0.0)
        self.address = self._socket.getsockname()[:2]
        self._listening.set()
        self._hire(asyncio.create_task(self._accept()))
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._socket.close()
        await asyncio.sleep(0)  # transports close one turn of the loop after they are told to

    def switch_on(
        self, name: str, value: float | str | None = None, connections: Connections | int | None = None
    ) -> LinkFault:
        """Let something go wrong, see `watchslo.sim.link_faults`, with the fault's usual value if none is given.

        A number is that of the one connection that it is about.

        Raises:
            ConfigError: for an unknown fault, a value that is none, or a connection that is not open.
        """
        fault = known_link_fault(name)
        meant = fault.read(fault.usual if value is None else value)
        if isinstance(connections, int):
            if connections not in self.connections:
                raise ConfigError(f"no connection {connections} is open. Take the number of a recent chunk.")
            fault.start(self.connections[connections], meant)
            return fault
        about = connections or fault.about
        if about is not Connections.OPEN:
            self._coming[name] = fault, meant
            self._listen()
        if about is not Connections.NEW:
            for connection in tuple(self.connections.values()):
                fault.start(connection, meant)
        return fault

    def switch_off(self, name: str) -> LinkFault:
        """Let it be right again, with all connections.

        Raises:
            ConfigError: for an unknown fault.
        """
        fault = known_link_fault(name)
        self._coming.pop(name, None)
        self._listen()
        for connection in tuple(self.connections.values()):
            fault.stop(connection)
        return fault

    @property
    def coming(self) -> list[str]:
        """Names of the faults that connections to come will have."""
        return list(self._coming)

    def _listen(self) -> None:
        if any(fault.deaf for fault, _ in self._coming.values()):
            self._listening.clear()
        else:
            self._listening.set()

    def _hire(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._listening.wait()
            client, _ = await loop.sock_accept(self._socket)
            self._hire(asyncio.create_task(self._serve(client)))

    async def _serve(self, client: socket.socket) -> None:
        self._last += 1
        number = self._last
        upstream = None
        try:
            await self._listening.wait()
            upstream = await self._upstream(number)
        finally:
            if upstream is None:
                client.close()
        if upstream is None:
            return
        connection = Connection(number, self, client, await asyncio.open_connection(sock=client), upstream)
        self.connections[number] = connection
        try:
            for fault, value in tuple(self._coming.values()):
                fault.start(connection, value)
            await connection.run()
        finally:
            del self.connections[number]

    async def _upstream(self, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """A connection to the one whose turn it is, or to the next that answers; None when none does."""
        first = number % len(self._to)
        for host, port in self._to[first:] + self._to[:first]:
            with suppress(OSError):
                return await asyncio.open_connection(host, port, ssl=self._tls)
        return None


class Connection:
    """One client's connection and the one to the server behind it."""

    def __init__(
        self,
        number: int,
        proxy: Proxy,
        client_socket: socket.socket,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.law: Law | None = None
        self.to_client = Way(server[0], client[1], lambda: self.law or proxy.law, proxy.random, self._note)
        self.to_server = Way(client[0], server[1], lambda: AT_ONCE, proxy.random, lambda _size, _received: None)
        self._number = number
        self._chunks = proxy.chunks
        self._socket = client_socket
        self._client = client[1]
        self._server = server[1]
        self._over = asyncio.Event()
        self._idle = math.inf
        self._timer: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Forward both ways until one has come to its end."""
        ways = (self.to_client, self.to_server)
        ends = [asyncio.create_task(end) for end in (self._over.wait(), *(way.write() for way in ways))]
        readers = [asyncio.create_task(way.read()) for way in ways]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.cut_when_idle(math.inf)
            self._client.close()
            self._server.transport.abort()
            for task in (*ends, *readers):
                task.cancel()
            await asyncio.gather(*ends, *readers, return_exceptions=True)

    def cut(self, how: Cut) -> None:
        """End it, for the client with FIN or RST."""
        if how is Cut.RST:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            self._client.transport.abort()
        self._over.set()

    def cut_when_idle(self, seconds: float) -> None:
        """Cut it when nothing has come from either side for so long; infinite for never."""
        self._idle = seconds
        if self._timer:
            self._timer.cancel()
        self._timer = None
        if seconds < math.inf:
            self._look_idle()

    def _look_idle(self) -> None:
        left = max(self.to_client.read_at, self.to_server.read_at) + self._idle - time.monotonic()
        if left <= 0:
            self.cut(Cut.FIN)
            return
        self._timer = asyncio.get_running_loop().call_later(left + 1e-3, self._look_idle)

    def _note(self, size: int, received: float) -> None:
        self._chunks.append(Chunk(self._number, size, received, time.monotonic()))
