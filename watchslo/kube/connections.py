"""The connections of a client to its apiserver: when they are replaced, and how a lost peer is noticed."""

import asyncio
import contextlib
import socket
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator

import aiohttp

from watchslo import __version__
from watchslo.snapshot import TransportReading

IDLE_SECONDS = 85.0  # before an unused connection is closed: an apiserver closes it after 90 s, a rare tick needs 75 s
RENEW_SECONDS = 180.0  # between renewals of all connections: a load balancer may route new ones to other apiservers
RENEW_REQUESTS = 100  # the same, at least, so that rare requests do not spend a TLS handshake each
# Read buffers of one connection. A burst fills those of all watches at once, so they are small; the rest waits in the
# kernel.
READ_AHEAD_BYTES = 32 * 2**10  # decrypted; aiohttp stops at twice as much
READ_AHEAD_TLS_BYTES = 64 * 2**10  # still encrypted; 256 KiB by default
# A lost peer is detected within half a minute, as client-go does by HTTP/2 pings.
_KEEPALIVE_IDLE_SECONDS = 15
_KEEPALIVE_INTERVAL_SECONDS = 5
_KEEPALIVE_PROBES = 3
_USER_TIMEOUT_MILLISECONDS = 30_000
# Fields of Linux's struct tcp_info (uapi/linux/tcp.h): tcpi_last_data_recv and tcpi_last_ack_recv at 52 and 56, in
# milliseconds; tcpi_rtt at 68, in microseconds; tcpi_total_retrans at 100.
_TCP_INFO = struct.Struct("=52xII8xI28xI")


class ConnectionPool:
    """Connections that requests share, one request at a time.

    All are replaced after `RENEW_SECONDS` and `RENEW_REQUESTS`, whichever comes last. Old connections are closed after
    the last request on them, so no request is interrupted until `close`.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self._session = new_session()
        self._renew_at = time.monotonic() + RENEW_SECONDS
        self._requests = 0  # on these connections
        self._users: Counter[aiohttp.ClientSession] = Counter()
        self._closing: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[aiohttp.ClientSession]:
        """Provide a session for one request, until its answer is read."""
        if self._requests >= RENEW_REQUESTS and time.monotonic() >= self._renew_at:
            self.renew()
        self._requests += 1
        session = self._session
        self._users[session] += 1
        try:
            yield session
        finally:
            self._users[session] -= 1
            if session is not self._session:
                self._close_unused(session)

    def unshared(self) -> aiohttp.ClientSession:
        """Return a session for one request; no connection outlives it."""
        return new_session()

    async def close(self) -> None:
        """Close all connections, also those in use; none is opened afterwards."""
        self.is_closed = True
        for session in {self._session, *self._users}:
            await session.close()
        if self._closing:
            await asyncio.wait(self._closing)

    def renew(self) -> None:
        """Replace all connections: close idle ones now, and the others after their requests."""
        if self.is_closed:
            return
        retired, self._session = self._session, new_session()
        self._renew_at, self._requests = time.monotonic() + RENEW_SECONDS, 0
        self._close_unused(retired)

    def _close_unused(self, session: aiohttp.ClientSession) -> None:
        """Close a retired session in the background, if no request uses it."""
        if not self._users[session]:
            del self._users[session]
            task = asyncio.create_task(session.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def new_session() -> aiohttp.ClientSession:
    """Return a session that reuses its connections; when it is closed, idle ones are cut without TLS close_notify."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS, socket_factory=_socket),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=READ_AHEAD_BYTES,
        headers={"User-Agent": f"watchslo/{__version__}", "Accept-Encoding": "identity"},
    )
    # aiohttp would repeat a dropped request, which would not be counted; it has no option against that.
    session._retry_connection = False  # noqa: SLF001
    return session


class _Socket(socket.socket):
    """A socket that does not close its descriptor when it is garbage-collected.

    uvloop closes the sockets that it has taken over, also after an immediate reset by the peer. The descriptor may then
    be in use again, and bytes of one connection would go to another (github.com/MagicStack/uvloop/issues/653).
    """

    def __del__(self) -> None:
        self.detach()


def _socket(info: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    """Return a socket with keepalive, which detects a lost peer."""
    made = _Socket(info[0], info[1], info[2])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", _KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", _KEEPALIVE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", _KEEPALIVE_PROBES),
        ("TCP_USER_TIMEOUT", _USER_TIMEOUT_MILLISECONDS),
    ):
        if hasattr(socket, option):  # some platforms other than Linux lack options
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


def read_little_ahead(response: aiohttp.ClientResponse) -> None:
    """Limit the TLS read buffer of an answer; uvloop and asyncio have the method, but do not document it."""
    transport = response.connection.transport if response.connection else None
    if transport is not None and hasattr(transport, "set_read_buffer_limits"):
        transport.set_read_buffer_limits(READ_AHEAD_TLS_BYTES)


def hang_up(response: aiohttp.ClientResponse) -> None:
    """Abort an answer at once. TLS would wait for the peer's close_notify, which a stuck peer never sends."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


def address_of(response: aiohttp.ClientResponse) -> str:
    """Return where an answer came from, without a path."""
    return str(response.url.origin())


def transport_reading(connected: socket.socket) -> TransportReading | None:
    """Return what the kernel knows of a connection; None if it is closed, or if this is not Linux."""
    try:
        info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        data_ago, acknowledged_ago, round_trip, retransmits = _TCP_INFO.unpack(info)
    except (OSError, struct.error):  # it was closed just now, or a sandbox returns less than Linux
        return None
    return TransportReading(round_trip / 1e6, retransmits, min(data_ago, acknowledged_ago) / 1e3)
