"""A TCP proxy that forwards connections to one server, or to several in turn, and injects link faults.

It records chunks of bytes: when each arrived from the server, and when it was forwarded. It parses HTTP/1.1 only to
edit events of watches, and counts what it has edited.
"""

import asyncio
import socket
import ssl
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from types import TracebackType
from typing import Any, Self

from watchslo.errors import ConfigError
from watchslo.sim.delay_law import DelayLaw
from watchslo.sim.link_faults import ConnectionSelection, LinkFault, known_link_fault
from watchslo.sim.proxied_connection import ProxiedConnection, StreamPair
from watchslo.sim.watch_editor import WatchEditor

_MAX_CHUNKS = 200_000
_BACKLOG = 128

HostPort = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes of one connection that arrived from the server together and left together (monotonic seconds)."""

    connection: int
    size: int
    received: float
    forwarded: float


class TcpProxy:
    """Forwards each connection to the next upstream in turn, or to the first one after it that accepts.

    It runs inside `async with`. The owner may change `law`, the delay law of bytes to clients, at any time. With
    `tls`, the proxy speaks TLS to the upstreams and plain TCP to its clients. `events_seen` counts the events that
    passed while a fault that edits events was on, and `edits` those that were edited, by fault.
    """

    def __init__(
        self,
        to: Sequence[HostPort],
        law: DelayLaw,
        random: Random,
        listen: HostPort = ("127.0.0.1", 0),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.law = law
        self.chunks: deque[Chunk] = deque(maxlen=_MAX_CHUNKS)
        self.connections: dict[int, ProxiedConnection] = {}
        self.edits: Counter[str] = Counter()
        self.events_seen = 0
        self.address = listen
        self._random = random
        self._to = tuple(to)
        self._tls = tls
        self._new_connection_faults: dict[str, tuple[LinkFault, Any]] = {}
        self._accepting = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_number = 0

    async def __aenter__(self) -> Self:
        """Start to listen.

        Raises:
            OSError: if the proxy cannot listen on the address.
        """
        self._socket = socket.create_server(self.address, backlog=_BACKLOG)
        self._socket.settimeout(0.0)
        self.address = self._socket.getsockname()[:2]
        self._accepting.set()
        self._start(asyncio.create_task(self._accept()))
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._socket.close()
        await asyncio.sleep(0)  # transports close one iteration of the event loop after close()

    def switch_on(
        self, name: str, value: float | None = None, connections: ConnectionSelection | int | None = None
    ) -> LinkFault:
        """Switch on a fault of `watchslo.sim.link_faults`, with its default value if none is given.

        A number as `connections` selects the one connection with that number.

        Raises:
            ConfigError: for an unknown fault, an invalid value, or a connection that is not open.
        """
        fault = known_link_fault(name)
        parsed = fault.checked(value)
        if isinstance(connections, int):
            if connections not in self.connections:
                raise ConfigError(f"no connection {connections} is open. Take the number of a recent chunk.")
            fault.start(self.connections[connections], parsed)
            return fault
        selection = connections or fault.about
        if selection is not ConnectionSelection.OPEN:
            self._new_connection_faults[name] = fault, parsed
            self._update_accepting()
        if selection is not ConnectionSelection.NEW:
            for connection in tuple(self.connections.values()):
                fault.start(connection, parsed)
        return fault

    def switch_off(self, name: str) -> LinkFault:
        """Switch off a fault on all connections.

        Raises:
            ConfigError: for an unknown fault.
        """
        fault = known_link_fault(name)
        self._new_connection_faults.pop(name, None)
        self._update_accepting()
        for connection in tuple(self.connections.values()):
            fault.stop(connection)
        return fault

    def _update_accepting(self) -> None:
        if any(fault.stops_accepting for fault, _ in self._new_connection_faults.values()):
            self._accepting.clear()
        else:
            self._accepting.set()

    def _start(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._accepting.wait()
            client, _ = await loop.sock_accept(self._socket)
            self._start(asyncio.create_task(self._serve(client)))

    async def _serve(self, client: socket.socket) -> None:
        self._last_number += 1
        number = self._last_number
        upstream = None
        try:
            await self._accepting.wait()
            upstream = await self._connect_upstream(number)
        finally:
            if upstream is None:
                client.close()
        if upstream is None:
            return
        connection = ProxiedConnection(
            lambda: self.law,
            self._random,
            partial(self._record_chunk, number),
            client,
            await asyncio.open_connection(sock=client),
            upstream,
            WatchEditor(self._random, self._count_event, self._count_edit),
        )
        self.connections[number] = connection
        try:
            for fault, value in tuple(self._new_connection_faults.values()):
                fault.start(connection, value)
            await connection.run()
        finally:
            del self.connections[number]

    async def _connect_upstream(self, number: int) -> StreamPair | None:
        """Connect to the upstream whose turn it is, or to the first one after it that accepts; None if none does."""
        first = number % len(self._to)
        for host, port in self._to[first:] + self._to[:first]:
            with suppress(OSError):
                return await asyncio.open_connection(host, port, ssl=self._tls)
        return None

    def _count_event(self) -> None:
        self.events_seen += 1

    def _count_edit(self, fault: str) -> None:
        self.edits[fault] += 1

    def _record_chunk(self, number: int, size: int, received: float) -> None:
        self.chunks.append(Chunk(number, size, received, time.monotonic()))
