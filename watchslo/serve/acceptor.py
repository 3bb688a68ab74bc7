"""Accepts connections at a bounded pace, up to a limit; if it is reached, the least needed connection is dropped.

The kernel's queue has one order for all clients. So it is emptied at once: the connections wait here, where the clients
take turns, and a client that floods the server waits for itself only.
"""

import asyncio
import select
import socket
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import structlog

from watchslo.config.sections.server import ServerLimitsConfig
from watchslo.serve.admission import Admission, client_at, gives_way
from watchslo.serve.tls import Certificate
from watchslo.serve.uvicorn_overrides import ClientConnection, ConnectionStage, EmbeddedServer

PACE_SECONDS = 0.001  # between two connections: a thousand at once would keep the interpreter from what measures
ACCEPTED_AT_ONCE = 8  # between two paces; it takes 20 µs each to let one wait or to close it
FULL_SECONDS = 0.05  # between two attempts to make room if every connection is being answered
EXHAUSTED_SECONDS = 0.5  # after the kernel could not provide a connection
ARRIVAL_SECONDS = 0.25  # the time that the first request of a new connection may need to arrive
TIMEOUT_CHECK_SECONDS = 0.25  # between two checks of the timeouts

_GONE = getattr(select, "POLLRDHUP", 0)  # errors are always reported


class Acceptor:
    """Accepts the connections of one listening socket and enforces their limits."""

    def __init__(
        self, server: EmbeddedServer, listener: socket.socket, limits: ServerLimitsConfig, tls: Certificate | None
    ) -> None:
        self._server = server
        self._listener = listener
        self._limits = limits
        self._tls = tls
        self._waiting = Admission[socket.socket](limits.connections)
        self._arrived = asyncio.Event()
        self._handshakes: dict[asyncio.Task[None], _Handshake] = {}  # in the order in which they began
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Take the connections out of the kernel's queue until cancelled."""
        self._listener.settimeout(0)
        is_exhausted = False
        accepted = 0
        while True:
            try:
                connected, address = await self.accept()
            except OSError as error:  # too many open files, most likely
                if not is_exhausted:
                    self._log.warning("accepting_failed", error=error.strerror)
                is_exhausted = True
                await asyncio.sleep(EXHAUSTED_SECONDS)
                continue
            is_exhausted = False
            self._let_wait(client_at(address[0]), connected)
            accepted += 1
            await asyncio.sleep(0.0 if accepted % ACCEPTED_AT_ONCE else PACE_SECONDS)

    def _let_wait(self, client: str, connected: socket.socket) -> None:
        leaving = self._waiting.enter(client, connected)
        if leaving is connected and client in self._waiting.turns:
            leaving = self._waiting.take(client)  # the oldest: more likely than for a new one, its client has given up
            self._waiting.enter(client, connected)
        if leaving:
            leaving.close()
        self._arrived.set()

    async def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection of the kernel's queue, and its address."""
        return await asyncio.get_running_loop().sock_accept(self._listener)

    async def serve_in_turns(self) -> None:
        """Serve the connections that wait, until cancelled."""
        try:
            while True:
                await self._arrived.wait()
                self._arrived.clear()
                self._discard_gone()
                while self._waiting:
                    await self._serve_next()
                    self._discard_gone()
        finally:
            await self._close_all()

    async def _serve_next(self) -> None:
        client = self._next_client()
        if client is None:
            await asyncio.sleep(FULL_SECONDS)
            return
        connected = self._waiting.take(client)
        task = asyncio.create_task(self._connect(connected))
        self._handshakes[task] = _Handshake(client, asyncio.get_running_loop().time())
        task.add_done_callback(self._handshakes.pop)
        await asyncio.sleep(PACE_SECONDS)

    async def enforce_timeouts(self) -> None:
        """End connections that are too slow, until cancelled."""
        while True:
            await asyncio.sleep(TIMEOUT_CHECK_SECONDS)
            now = asyncio.get_running_loop().time()
            for connection in self._server.connections:
                connection.enforce_timeouts(now, self._limits.request_timeout)

    async def _close_all(self) -> None:
        while self._waiting:
            self._waiting.take(self._waiting.turns[0]).close()
        tasks = [*self._handshakes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _discard_gone(self) -> None:
        """Close the connections whose turn it would be, but whose clients have gone."""
        for client in self._waiting.turns:
            while client in self._waiting.turns and has_gone(self._waiting.first(client)):
                self._waiting.take(client).close()

    def _next_client(self) -> str | None:
        """Return whose next connection is within the limit, after dropping another one if needed; None without one."""
        turns = self._waiting.turns
        connections = self._server.connections
        if len(connections) + len(self._handshakes) < self._limits.connections:
            return turns[0]
        now = asyncio.get_running_loop().time()
        held = Counter(client_at(connection.address) for connection in connections)
        held.update(handshake.client for handshake in self._handshakes.values())
        greediest = max(held, key=held.__getitem__)
        needy = next((client for client in turns if gives_way(held[greediest], held[client])), None)
        if needy is not None and self._drop_one(now, greediest):
            return needy
        return turns[0] if self._drop_one(now) else None

    def _drop_one(self, now: float, of: str | None = None) -> bool:
        """Drop the least needed connection; of a client with more than its share, a needed one, too. False if none."""
        has_more = of is not None
        connections = [
            connection for connection in self._server.connections if of in (None, client_at(connection.address))
        ]
        if dropped := least_needed(connections, now, 0.0 if has_more else self._limits.request_timeout):
            dropped.drop()
            return True
        for task, handshake in self._handshakes.items():
            if of in (None, handshake.client):
                return (has_more or now - handshake.since > ARRIVAL_SECONDS) and task.cancel()
        return False

    async def _connect(self, connected: socket.socket) -> None:
        """Hand the socket to uvicorn's protocol; the TLS handshake may take as long as a request."""
        tls: dict[str, Any] = {}
        if self._tls:
            timeout = self._limits.request_timeout
            tls = {"ssl": self._tls.context, "ssl_handshake_timeout": timeout, "ssl_shutdown_timeout": 1.0}
        try:
            with suppress(OSError):  # the client went away, or does not speak TLS
                await asyncio.get_running_loop().connect_accepted_socket(self._server.new_connection, connected, **tls)
        finally:
            connected.detach()  # uvloop owns it and may have closed it: the descriptor may already be reused


class _Handshake(NamedTuple):
    """A connection before its first request: its client, and since when."""

    client: str
    since: float


def has_gone(connected: socket.socket) -> bool:
    """Return whether a client that nothing was read from has closed its end: it does not wait for an answer."""
    poll = select.poll()
    poll.register(connected, _GONE)
    return bool(poll.poll(0))


def least_needed(connections: Iterable[ClientConnection], now: float, timeout: float) -> ClientConnection | None:
    """Return the connection to drop: the longest silent one, else the one answered for the longest.

    None if every connection is new or has sent a request within `timeout` seconds.
    """
    connections = list(connections)
    silent = [
        connection
        for connection in connections
        if connection.stage is not ConnectionStage.ANSWERED and now - connection.since > ARRIVAL_SECONDS
    ]
    lasting = [connection for connection in connections if now - connection.since > timeout]
    return min(silent or lasting, key=lambda connection: connection.since, default=None)
