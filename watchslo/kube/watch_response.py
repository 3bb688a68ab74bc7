"""The answer of an open watch: its chunks as they arrive, or its decoded frames."""

import asyncio
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Self

import aiohttp

from watchslo.asyncio_overrides import SocketTransport
from watchslo.event_loop import MOST_READ_BYTES, Inbox, TimedEventLoop
from watchslo.kube.connections import transport_reading
from watchslo.kube.network_failure import FAULTS, fault
from watchslo.kube.representation import Representation
from watchslo.receive_queue import receive_queue
from watchslo.snapshot import TransportReading
from watchslo.watch.decode import FRAME, FrameDecoder, FrameReader, Frames
from watchslo.watch.failure import (
    ENDED,
    Failure,
    Phase,
    Reason,
    because,
)
from watchslo.watch.lines import DEFAULT_LIMIT_BYTES, LineTooLong
from watchslo.watch.protobuf import ProtobufFrameReader

TakeChunk = Callable[[float, bytes], object]
"""Takes when a chunk of an answer was received, in monotonic seconds, and its bytes."""


class WatchFrames:
    """The frames of an open watch, read chunk by chunk: an async iterator.

    Each item is when a chunk was received (monotonic seconds), its size in bytes, and the decoded lines that it
    completes, or None if it completes none. After the last item `failure` is why the watch ended: `ENDED` if the server
    closed it cleanly, `OVERSIZE` if a line was too long.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[tuple[float, bytes] | Failure]],
        reader: FrameReader | ProtobufFrameReader,
    ) -> None:
        self.failure = ENDED
        self._read = read
        self._reader = reader
        self._is_over = False

    @property
    def is_cut(self) -> bool:
        """Whether the watch ended within a line."""
        return self._reader.is_cut

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[float, int, Frames | None]:
        if self._is_over:
            raise StopAsyncIteration
        arrived = await self._read()
        if isinstance(arrived, Failure):
            self.failure = arrived
            self._is_over = True
            raise StopAsyncIteration
        received, chunk = arrived
        try:
            return received, len(chunk), self._reader.feed(chunk)
        except LineTooLong:
            self.failure = because(Reason.OVERSIZE)
            self._is_over = True
            return received, len(chunk), None


class _BodyWatcher(asyncio.Protocol):
    """Passes the body of an answer to `take`, by way of the inbox of the event loop, where it waits encrypted.

    It stands in front of aiohttp's protocol, which decodes the body. A task that waits for the body would run in the
    next turn of the loop, which costs more than the event itself. `ended` is why the answer ended, or what `take`
    raised.

    A small event is one chunk of the transfer encoding and arrives alone. aiohttp does not see such a chunk if it has
    decoded all chunks before it completely: it then has nothing to remember of it.
    """

    def __init__(self, content: aiohttp.StreamReader, address: str, take: TakeChunk) -> None:
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[Failure] = loop.create_future()
        self._loop = loop if isinstance(loop, TimedEventLoop) else None
        self._inbox = self._loop.inbox if self._loop else Inbox()
        self._content = content
        self._address = address
        self._take = take
        self._decrypt: Callable[[bytes], bytes] = bytes
        self._connected: socket.socket | None = None
        self._is_between_chunks = False

    def begin(self, connection: aiohttp.connector.Connection | None) -> None:
        """Pass on what has been read, and stand in front of the protocol of the connection if it is still open."""
        if connection is not None and connection.transport is not None:
            assert connection.protocol is not None
            self._inner = connection.protocol
            connection.transport.set_protocol(self)
            if isinstance(connection.transport, SocketTransport):
                self._decrypt = connection.transport.keep_encrypted(partial(self._inbox.put, self._decode))
            if self._decrypt is bytes:  # asyncio's own reads: it does not say what they left behind
                self._connected = connection.transport.get_extra_info("socket")
        self.catch_up()  # with what others have received: events are recorded in the order of their arrival
        self._pass_on_decoded(time.monotonic())

    def catch_up(self) -> None:
        """Pass on what has been received until now."""
        self._inbox.empty()

    def data_received(self, data: bytes) -> None:
        if self._loop and self._connected and len(data) >= MOST_READ_BYTES:
            queue = receive_queue(self._connected, len(data))
            self._loop.selector.note_full_read(self._connected.fileno(), queue)
        self._inbox.put(self._decode, data)

    def eof_received(self) -> None:
        self.catch_up()
        self._inner.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self.catch_up()
        self._inner.connection_lost(error)
        self._pass_on_decoded(time.monotonic())

    def _decode(self, received: float, encrypted: bytes) -> None:
        """Decrypt data, and pass on the chunks of the transfer encoding that it completes."""
        try:
            data = self._decrypt(encrypted)
        except OSError as error:
            self._end(fault(error, self._address, Phase.STREAM))
            return
        alone = content_of_chunk(data)
        if alone and self._is_between_chunks:
            self._pass_on(received, alone)
        else:
            self._inner.data_received(data)
            # Within a chunk, it would have decoded the size as well: no object begins with a digit.
            self._is_between_chunks = self._pass_on_decoded(received) == alone != b""

    def _pass_on_decoded(self, received: float) -> bytes:
        """Pass on and return what aiohttp has decoded; while it is read, aiohttp may continue to decode."""
        parts = []
        try:
            while part := self._content.read_nowait():
                parts.append(part)
        except FAULTS as error:  # one object for all answers that were closed: its traceback would keep all of them
            failure: Failure | None = fault(error.with_traceback(None), self._address, Phase.STREAM)
        else:
            failure = ENDED if self._content.is_eof() else None
        content = b"".join(parts)
        if content:
            self._pass_on(received, content)
        if failure is not None:
            self._end(failure)
        return content

    def _pass_on(self, received: float, chunk: bytes) -> None:
        if self.ended.done():
            return
        try:
            self._take(received, chunk)
        except Exception as error:  # noqa: BLE001 - the task that waits for the end raises it
            self.ended.set_exception(error)

    def _end(self, why: Failure) -> None:
        if not self.ended.done():
            self.ended.set_result(why)


def content_of_chunk(data: bytes) -> bytes:
    """Return the JSON object if the data is one chunk of the transfer encoding as Go writes it, else b""."""
    start = data.find(b"\r\n{") + 2
    end = len(data) - 2
    if data[end:] == b"\r\n" and data[: start - 2] == b"%x" % (end - start):
        return data[start:end]
    return b""


class WatchResponse:
    """An open watch, which may last until `deadline`."""

    read_body: _BodyWatcher | None = None

    def __init__(
        self, response: aiohttp.ClientResponse, address: str, deadline: float, representation: Representation
    ) -> None:
        self._representation = representation
        self._deadline = deadline
        self._response = response
        self._content = response.content
        self._address = address

    def frames(self, longest_line: int = DEFAULT_LIMIT_BYTES, decoder: FrameDecoder = FRAME) -> WatchFrames:
        """Return an iterator over the decoded frames; no line may be longer than `longest_line` bytes."""
        return WatchFrames(self.read, self._representation.frame_reader(longest_line, decoder))

    async def follow(self, take: TakeChunk) -> Failure:
        """Pass each chunk to `take` soon after it was read; return why the watch ended, or raise an error of `take`.

        As for `read`, chunks are not lines.
        """
        self._body = body = _BodyWatcher(self._content, self._address, take)
        body.begin(self._response.connection)
        try:
            async with asyncio.timeout_at(self._deadline):
                return await body.ended
        except TimeoutError as error:
            return fault(error, self._address, Phase.STREAM)

    def catch_up(self) -> None:
        """Pass on what has been received until now."""
        if self._body is not None:
            self._body.catch_up()

    async def read(self) -> tuple[float, bytes] | Failure:
        """Return the next chunk and when it was received, or why the watch ended: `ENDED` if it was closed cleanly.

        Chunks are not lines: a clean end within a line is for the caller to notice.
        """
        try:
            chunk = await self._content.readany()
        except FAULTS as error:
            return fault(error, self._address, Phase.STREAM)
        received = time.monotonic()
        return (received, chunk) if chunk else ENDED

    def transport(self) -> TransportReading | None:
        """Return what the kernel knows of the connection, or None if it is closed or this is not Linux.

        Nothing is sent on an open watch, so the round trip is the one measured when it opened. Through a proxy it is
        the round trip to the proxy.
        """
        connection = self._response.connection
        transport = connection.transport if connection else None
        if sys.platform != "linux" or transport is None or transport.is_closing():
            return None  # the number of a closed descriptor may already belong to another connection
        return transport_reading(transport.get_extra_info("socket"))
