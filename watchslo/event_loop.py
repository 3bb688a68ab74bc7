"""An event loop that knows since when the data that it reads may have waited for it, and that reads events cheaply.

The loop asks the kernel which sockets have data (`select`), runs the callbacks that read them, and asks again. If
`select` had to wait, everything that it then reports has just arrived. If it returns at once, the data may have arrived
at any time since the previous `select` returned, while callbacks ran. So the loop knows exactly how late each read may
be, whatever the reason: one slow callback, or many short ones before a read.

A signal handler, or another thread, can stop this thread after the kernel was asked: then `select` returns long after
its timeout, and does not report what arrived in that time.

The events of a watch are received by the callback that reads them. Only what arrived together with the headers of an
answer is received by the task that waits for these: the read wakes the task, and it runs after the next `select`, which
then returns at once. So what is received in one turn was read in this turn or in the previous one.

An event that arrives alone is only received, and kept in the `Inbox` with the time, still encrypted. If nothing else
is to do, that happens within `select`, without a turn of asyncio. All events of the last 50 ms are then decrypted and
handled together. That saves CPU: after each wait, code and data must come into the caches of the CPU again, which takes
several times as long as the work itself.

asyncio has TLS as well, but with a buffer of 256 KiB for each connection, and more work for each read.
"""

import asyncio
import asyncio.selector_events
import contextlib
import selectors
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from typing import Any, Literal

SHORT_SECONDS = 0.00025  # a turn; what arrived in it counts as just arrived
OVERSLEPT_SECONDS = 0.005  # after the timeout of a select; timers are rounded to 1 ms
BACKLOG_SECONDS = 0.05  # after a read that left data in the kernel, data may also wait at the sender
MOST_READ_BYTES = 64 * 2**10  # at once from one connection: then others have their turn
RECORD_BYTES = 2**14  # of a TLS record, at most (RFC 8446, 5.1): a read of less would leave data in OpenSSL
PIECE_BYTES = 2**12  # that OpenSSL gets at once: its buffer, one for each connection, does not shrink again
WAITING_SECONDS = 0.05  # of data in the inbox
MOST_WAITING, MOST_WAITING_BYTES = 32, 64 * 2**10  # reads in the inbox, and their size: handled in about 2 ms
HANDSHAKE_SECONDS = 60.0  # as in asyncio

NoteReads = Callable[[float, float, float], object]
"""Takes that data received from `start` to `end` may have arrived as early as `since`, in monotonic seconds."""

TakeData = Callable[[float, bytes], object]
"""Takes when data was received, in monotonic seconds, and the data."""

_receive = socket.socket.recv  # the kernel's data, also of a TLS socket


class TimedSelector(selectors.DefaultSelector):
    """A selector that reports to `note_reads` since when the data received after each `select` may have waited.

    `has_waited` says whether the last `select` had to wait: then only little data has arrived. Such data is read here
    by the `readers`, each under the number of its socket. A reader returns False if asyncio has something to do then.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.note_reads: NoteReads | None = None
        self.has_waited = False
        self.readers: dict[int, Callable[[], bool]] = {}
        self._clock = clock
        self._returned = self._asked = self._read_since = self._since = clock()
        self._backlog_until = self._since

    def note_backlog(self) -> None:
        """Note that a read left data behind: what is read soon after may be as old."""
        self._backlog_until = self._clock() + BACKLOG_SECONDS

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        until = inf if timeout is None else self._clock() + timeout
        ready = self._ask(timeout)
        while self.has_waited and ready:
            if not self._read(ready):
                return self._unchanged(ready)
            ready = self._ask(None if timeout is None else max(0.0, until - self._returned))
        return ready

    def _unchanged(self, ready: list[tuple[selectors.SelectorKey, int]]) -> list[tuple[selectors.SelectorKey, int]]:
        """Return those sockets whose registration no reader has replaced; the kernel reports the others again.

        asyncio would take the callback of a former registration for cancelled, and never read the socket again.
        """
        registered = self.get_map()
        return [(key, events) for key, events in ready if registered.get(key.fileobj) is key]

    def _read(self, ready: list[tuple[selectors.SelectorKey, int]]) -> bool:
        """Run the readers of the sockets; return False if asyncio has something to do."""
        for key, events in ready:
            read = self.readers.get(key.fd)
            if read is None or events != selectors.EVENT_READ or not read():
                return False
        return True

    def _ask(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Ask the kernel which sockets have data, and note since when the data may have waited."""
        entered = self._clock()
        if self.note_reads is not None:
            self.note_reads(self._returned, entered, self._since)
        ready, limit = [], 0.0
        if timeout == 0 or entered - self._returned >= SHORT_SECONDS:
            ready = super().select(0)
        self.has_waited = not ready and timeout != 0
        if self.has_waited:
            ready, limit = super().select(timeout), inf if timeout is None else timeout
        returned = self._clock()
        is_late = returned - entered >= limit + OVERSLEPT_SECONDS
        if returned >= self._backlog_until:
            has_just_arrived = self.has_waited and not is_late
            self._since = returned if has_just_arrived else self._read_since
            self._read_since = returned if has_just_arrived else self._asked
        self._asked = entered if is_late else returned
        self._returned = returned
        return ready


class _TlsSocket(socket.socket):
    """A non-blocking TLS socket with the interface of a plain one, as asyncio's socket transport uses it.

    It takes over the connection of `plain`, whose handshake is done. If it `is_encrypted`, `recv` returns what
    arrives as it is, for `decrypt`.
    """

    def __init__(
        self, plain: socket.socket, tls: ssl.SSLObject, buffers: "_TlsBuffers", note_backlog: Callable[[], None]
    ) -> None:
        super().__init__(plain.family, plain.type, plain.proto, fileno=plain.detach())
        self.setblocking(False)  # noqa: FBT003 - the argument has no name
        self.tls = tls
        self.is_encrypted = False
        self._buffers = buffers
        self._note_backlog = note_backlog
        self._has_ended = False
        self._has_received = False
        self._unsent = b""
        self._sending = 0  # the size of the data that `_unsent` belongs to

    def recv(self, buflen: int = MOST_READ_BYTES, flags: int = 0) -> bytes:
        """Return what has arrived, or b"" at the end; raise BlockingIOError if nothing has."""
        del buflen, flags  # asyncio's are for plain sockets
        received = self._receive()
        if self.is_encrypted or not received:
            return received
        data = self.decrypt(received)
        if not data:  # no record is complete
            raise BlockingIOError
        return data

    def _receive(self) -> bytes:
        received = super().recv(RECORD_BYTES)
        if len(received) < RECORD_BYTES:
            return received
        parts = [received]
        with contextlib.suppress(OSError):  # there is no more; or the kernel reports again what is wrong
            while len(parts) < MOST_READ_BYTES // RECORD_BYTES and len(parts[-1]) == RECORD_BYTES:
                parts.append(super().recv(RECORD_BYTES))
        if len(parts[-1]) == RECORD_BYTES:
            self._note_backlog()
        return b"".join(parts)

    def decrypt(self, received: bytes) -> bytes:
        """Decrypt what was received next; return the data of the records that are complete now."""
        incoming, parts = self._buffers.incoming, []
        for start in range(0, len(received), PIECE_BYTES):
            incoming.write(received[start : start + PIECE_BYTES])
            try:
                while incoming.pending and not self._has_ended:
                    part = self.tls.read(RECORD_BYTES)
                    if part:
                        parts.append(part)
                    else:
                        self._end()
            except ssl.SSLWantReadError:  # the last record is not complete
                pass
        if parts and not self._has_received:
            self._has_received = True
            self._free_write_buffer()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _free_write_buffer(self) -> None:
        """Let OpenSSL free 16 KiB: it allocates them when it reads a session ticket, and frees them after a write."""
        if not self._sending:
            self.tls.write(b"")

    def _end(self) -> None:
        """Let the kernel report an end too: the peer has sent close_notify, and may keep the connection open."""
        self._has_ended = True
        with contextlib.suppress(OSError):  # there is no connection any more
            self.shutdown(socket.SHUT_RD)

    def send(self, data: bytes, flags: int = 0) -> int:  # type: ignore[override]  # asyncio passes bytes
        """Send some of the data and return its size; raise BlockingIOError if it must be passed again."""
        del flags
        if not self._sending:
            self._sending = self.tls.write(data[:RECORD_BYTES])
            self._unsent = self._buffers.outgoing.read()
        while self._unsent:
            self._unsent = self._unsent[super().send(self._unsent) :]
        size, self._sending = self._sending, 0
        return size

    def sendmsg(self, buffers: Iterable[bytes], *_: object) -> int:  # type: ignore[override]  # asyncio passes buffers
        """Do the same as `send`."""
        return self.send(b"".join(buffers))


class _TlsBuffers:
    """What OpenSSL reads and writes: encrypted data that was received, and that is to be sent."""

    def __init__(self) -> None:
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()


class SocketTransport(asyncio.selector_events._SelectorSocketTransport):  # type: ignore[misc,name-defined]  # noqa: SLF001
    """A transport that can be read within `select`.

    Once its connection is lost, it has no reference to itself: reference counts then free it at once. Python 3.12 and
    later do the same, but only for connections that are closed and not aborted.
    """

    def keep_encrypted(self, keep: Callable[[bytes], bool]) -> Callable[[bytes], bytes]:
        """Receive without decrypting from now on, and return what decrypts the data, in the order of its arrival.

        Data that arrives alone goes to `keep`, other data to the protocol. `keep` returns False if it scheduled a call.
        """
        self._keep = keep
        self._loop.selector.readers[self._sock_fd] = self._read_lone
        if not isinstance(self._sock, _TlsSocket):
            return bytes
        self._sock.is_encrypted = True
        return self._sock.decrypt

    def _read_lone(self) -> bool:
        try:
            data = _receive(self._sock, RECORD_BYTES)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError as error:
            self._fatal_error(error, "Fatal read error on socket transport")
            return False
        if len(data) == RECORD_BYTES:
            self._loop.selector.note_backlog()
        if data:
            return self._keep(data)
        self._read_ready__on_eof()
        return False

    def _call_connection_lost(self, exc: BaseException | None) -> None:
        self._loop.selector.readers.pop(self._sock_fd, None)
        super()._call_connection_lost(exc)
        self._read_ready_cb = self._write_ready = None


class Inbox:
    """Keeps what connections receive, and passes it on after at most 50 ms, in the order in which it was received."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[TakeData, float, bytes]] = deque()
        self._bytes = 0
        self._alarm: asyncio.TimerHandle | None = None

    def put(self, take: TakeData, data: bytes) -> bool:
        """Keep data that was received just now; return False if that scheduled a call. This runs for every read."""
        self._waiting.append((take, time.monotonic(), data))
        self._bytes += len(data)
        if len(self._waiting) == MOST_WAITING or self._bytes > MOST_WAITING_BYTES:
            self.empty()
            return False
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(WAITING_SECONDS, self.empty)
            return False
        return True

    def empty(self) -> None:
        """Pass on everything that was received until now."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._bytes = 0
        while self._waiting:
            take, received, data = self._waiting.popleft()
            take(received, data)


class TimedEventLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop on a `TimedSelector`; its `inbox` keeps what its connections receive."""

    def __init__(self) -> None:
        self.selector = TimedSelector()
        self.inbox = Inbox()
        super().__init__(self.selector)

    async def _create_connection_transport(  # asyncio has no public way to replace its TLS
        self,
        sock: socket.socket,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        ssl: ssl.SSLContext | bool | None,  # noqa: FBT001
        server_hostname: str | None,
        server_side: bool = False,  # noqa: FBT001, FBT002 - the signature is asyncio's
        ssl_handshake_timeout: float | None = None,
        **more: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        if ssl and not server_side:
            sock = await self._shake_hands(sock, ssl, server_hostname, ssl_handshake_timeout or HANDSHAKE_SECONDS)
            ssl = None
        return await super()._create_connection_transport(  # type: ignore[misc,no-any-return]
            sock, protocol_factory, ssl, server_hostname, server_side, ssl_handshake_timeout=None, **more
        )

    def _make_socket_transport(self, sock: socket.socket, *more: Any, **named: Any) -> asyncio.Transport:
        if isinstance(sock, _TlsSocket):
            named["extra"] = {
                "ssl_object": sock.tls,
                "sslcontext": sock.tls.context,
                "peercert": sock.tls.getpeercert(),
            }
        return SocketTransport(self, sock, *more, **named)

    async def _shake_hands(
        self, sock: socket.socket, context: ssl.SSLContext | Literal[True], server_hostname: str | None, seconds: float
    ) -> socket.socket:
        """Return the TLS socket that replaces a connected one."""
        if context is True:
            context = ssl.create_default_context()
        sock.setblocking(False)  # noqa: FBT003 - the argument has no name
        buffers = _TlsBuffers()
        tls = context.wrap_bio(buffers.incoming, buffers.outgoing, server_hostname=server_hostname)
        try:
            async with asyncio.timeout(seconds):
                await self._finish_handshake(sock, tls, buffers)
        except BaseException:
            sock.close()
            raise
        return _TlsSocket(sock, tls, buffers, self.selector.note_backlog)

    async def _finish_handshake(self, sock: socket.socket, tls: ssl.SSLObject, buffers: _TlsBuffers) -> None:
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                await self.sock_sendall(sock, buffers.outgoing.read())
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    await self.sock_sendall(sock, buffers.outgoing.read())  # the reason
                raise
            else:
                return await self.sock_sendall(sock, buffers.outgoing.read())
            received = await self.sock_recv(sock, RECORD_BYTES)
            if not received:
                raise ConnectionResetError  # as asyncio does; OpenSSL's error looks as if the certificate were wrong
            buffers.incoming.write(received)
