"""The parts of asyncio that are replaced, and why.

These are internals: if asyncio lacks one of them, `new_event_loop` returns a plain loop, which costs more.

- `SocketTransport` can be read within `select`: an event that arrives alone costs no turn of asyncio. It is kept in the
  inbox still encrypted, and is decrypted together with the others of the last 50 ms.
- `OverridingEventLoop` lets OpenSSL decrypt: the TLS of asyncio has a buffer of 256 KiB for each connection, and more
  work for each read.
- `abandon` closes the pipes of a subprocess. asyncio has no public way to end one without waiting for its output.
"""

import asyncio
import asyncio.selector_events
import contextlib
import os
import socket
import ssl
from collections.abc import Callable, Iterable
from typing import Any, Literal

from watchslo.event_loop import MOST_READ_BYTES, TimedEventLoop, TimedSelector
from watchslo.receive_queue import receive_queue

RECORD_BYTES = 2**14  # of a TLS record, at most (RFC 8446, 5.1): a read of less would leave data in OpenSSL
PIECE_BYTES = 2**12  # that OpenSSL gets at once: its buffer, one for each connection, does not shrink again
HANDSHAKE_SECONDS = 60.0  # as in asyncio
PLAIN_VARIABLE = "WATCHSLO_PLAIN_EVENT_LOOP"
"""The environment variable that, if it is not empty, selects the plain loop."""

_AsyncioTransport: Any = getattr(asyncio.selector_events, "_SelectorSocketTransport", asyncio.Transport)
_INTERNALS = {
    asyncio.SelectorEventLoop: ("_create_connection_transport", "_make_socket_transport"),
    _AsyncioTransport: ("_call_connection_lost", "_fatal_error", "_read_ready__on_eof"),
}
_receive = socket.socket.recv  # the kernel's data, also of a TLS socket


def new_event_loop() -> TimedEventLoop:
    """Return the event loop of a measuring process: the plain one if `PLAIN_VARIABLE` is set or asyncio has changed."""
    if os.environ.get(PLAIN_VARIABLE) or not has_internals():
        return TimedEventLoop()
    return OverridingEventLoop()


def has_internals() -> bool:
    """Return True if asyncio has the methods that are overridden or called here."""
    return all(hasattr(owner, name) for owner, names in _INTERNALS.items() for name in names)


def abandon(process: asyncio.subprocess.Process) -> None:
    """Kill a subprocess, and close its pipes without waiting for output."""
    transport = getattr(process, "_transport", None)
    if transport is None:
        process.kill()
    else:
        transport.close()


class _TlsSocket(socket.socket):
    """A non-blocking TLS socket with the interface of a plain one, as asyncio's socket transport uses it.

    It takes over the connection of `plain`, whose handshake is done. If it `is_encrypted`, `recv` returns what
    arrives as it is, for `decrypt`.
    """

    def __init__(
        self, plain: socket.socket, tls: ssl.SSLObject, buffers: "_TlsBuffers", selector: TimedSelector
    ) -> None:
        super().__init__(plain.family, plain.type, plain.proto, fileno=plain.detach())
        self.setblocking(False)  # noqa: FBT003 - the argument has no name
        self.tls = tls
        self.is_encrypted = False
        self._buffers = buffers
        self._selector = selector
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
        self._selector.note_full_read(self.fileno(), receive_queue(self, RECORD_BYTES))
        parts = [received]
        with contextlib.suppress(OSError):  # there is no more; or the kernel reports again what is wrong
            while len(parts) < MOST_READ_BYTES // RECORD_BYTES and len(parts[-1]) == RECORD_BYTES:
                parts.append(super().recv(RECORD_BYTES))
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


class SocketTransport(_AsyncioTransport):  # type: ignore[misc]
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
            self._loop.selector.note_full_read(self._sock_fd, receive_queue(self._sock, RECORD_BYTES))
        if data:
            return self._keep(data)
        self._read_ready__on_eof()
        return False

    def _call_connection_lost(self, exc: BaseException | None) -> None:
        self._loop.selector.readers.pop(self._sock_fd, None)
        super()._call_connection_lost(exc)
        self._read_ready_cb = self._write_ready = None


class OverridingEventLoop(TimedEventLoop):
    """A timed event loop whose connections are `SocketTransport`s."""

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
        return _TlsSocket(sock, tls, buffers, self.selector)

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
