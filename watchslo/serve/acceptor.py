"""Accepts connections at a bounded pace, up to a limit; if it is reached, the least needed connection is dropped."""

import asyncio
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import structlog

from watchslo.config.model import ServerLimitsConfig
from watchslo.serve.tls import Certificate
from watchslo.serve.uvicorn_overrides import ClientConnection, ConnectionStage, EmbeddedServer

PACE_SECONDS = 0.001  # between two connections: a thousand at once would keep the interpreter from what measures
FULL_SECONDS = 0.05  # between two attempts to make room if every connection is being answered
EXHAUSTED_SECONDS = 0.5  # after the kernel could not provide a connection
ARRIVAL_SECONDS = 0.25  # the time that the first request of a new connection may need to arrive
TIMEOUT_CHECK_SECONDS = 0.25  # between two checks of the timeouts


class Acceptor:
    """Accepts the connections of one listening socket and enforces their limits."""

    def __init__(
        self, server: EmbeddedServer, listener: socket.socket, limits: ServerLimitsConfig, tls: Certificate | None
    ) -> None:
        self._server = server
        self._listener = listener
        self._limits = limits
        self._tls = tls
        self._handshakes: dict[asyncio.Task[None], float] = {}  # in the order in which they began, and when
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Accept connections until cancelled."""
        self._listener.settimeout(0)
        is_exhausted = False
        try:
            while True:
                try:
                    connected = await self.accept()
                except OSError as error:  # too many open files, most likely
                    if not is_exhausted:
                        self._log.warning("accepting_failed", error=error.strerror)
                    is_exhausted = True
                    await asyncio.sleep(EXHAUSTED_SECONDS)
                    continue
                is_exhausted = False
                await self._wait_for_room(connected)
                task = asyncio.create_task(self._connect(connected))
                self._handshakes[task] = asyncio.get_running_loop().time()
                task.add_done_callback(self._handshakes.pop)
                await asyncio.sleep(PACE_SECONDS)
        finally:
            await self._cancel_handshakes()

    async def accept(self) -> socket.socket:
        """Return the next connection of the kernel's queue."""
        return (await asyncio.get_running_loop().sock_accept(self._listener))[0]

    async def enforce_timeouts(self) -> None:
        """End connections that are too slow, until cancelled."""
        while True:
            await asyncio.sleep(TIMEOUT_CHECK_SECONDS)
            now = asyncio.get_running_loop().time()
            for connection in self._server.connections:
                connection.enforce_timeouts(now, self._limits.request_timeout)

    async def _cancel_handshakes(self) -> None:
        tasks = [*self._handshakes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait_for_room(self, connected: socket.socket) -> None:
        """Return once the new connection is within the limit."""
        try:
            while not self._has_room():  # noqa: ASYNC110 - answers end at many places
                await asyncio.sleep(FULL_SECONDS)
        except asyncio.CancelledError:
            connected.close()
            raise

    def _has_room(self) -> bool:
        """Return True if one more connection is within the limit, after dropping another one if that is needed."""
        connections = self._server.connections
        if len(connections) + len(self._handshakes) < self._limits.connections:
            return True
        now = asyncio.get_running_loop().time()
        if dropped := least_needed(connections, now, self._limits.request_timeout):
            dropped.drop()
            return True
        first, since = next(iter(self._handshakes.items()), (None, now))
        if first and now - since > ARRIVAL_SECONDS:
            first.cancel()
            return True
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


def least_needed(connections: Iterable[ClientConnection], now: float, timeout: float) -> ClientConnection | None:
    """Return the connection to drop: the longest silent one, else the one answered for the longest.

    None if every connection is new or has sent a request within `timeout` seconds.
    """
    connections = list(connections)
    silent = [
        one for one in connections if one.stage is not ConnectionStage.ANSWERED and now - one.since > ARRIVAL_SECONDS
    ]
    lasting = [one for one in connections if now - one.since > timeout]
    return min(silent or lasting, key=lambda one: one.since, default=None)
