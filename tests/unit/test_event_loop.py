"""The event loop: since when its reads may have waited, and TLS read by OpenSSL itself."""

import asyncio
import contextlib
import fcntl
import gc
import os
import queue
import selectors
import signal
import socket
import ssl
import struct
import subprocess
import termios
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import GOLDEN
from tests.support.certs import Authority
from tests.support.transcripts import calls, replay
from watchslo import asyncio_overrides
from watchslo.asyncio_overrides import (
    OverridingEventLoop,
    SocketTransport,
    abandon,
    has_internals,
    new_event_loop,
)
from watchslo.event_loop import (
    MOST_READ_BYTES,
    MOST_WAITING,
    MOST_WAITING_BYTES,
    WAITING_SECONDS,
    Inbox,
    TimedEventLoop,
    TimedSelector,
)
from watchslo.latency.own_delay import NOTED_SECONDS, OwnDelays
from watchslo.receive_queue import ReceiveQueue

Contexts = tuple[ssl.SSLContext, ssl.SSLContext]
"""The TLS contexts of a server and of its client."""
NUMBER = 7  # of a socket
DATA = [(selectors.SelectorKey(NUMBER, NUMBER, selectors.EVENT_READ, None), selectors.EVENT_READ)]

ROOMY = ReceiveQueue(read=16_384, memory=20_000, most_memory=131_072, window=65_536, in_flight=1_000.0, round_trip=0.02)
FULL = ReceiveQueue(read=16_384, memory=120_000, most_memory=131_072, window=65_536, in_flight=1_000.0, round_trip=0.02)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 10.0

    def __call__(self) -> float:
        return self.now


class Loop:
    """A timed selector whose time the test drives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        self.selector = TimedSelector(self.clock)
        self.last = 0.0, 0.0, 0.0
        self.selector.listeners.append(self._note)
        self._waits = 0.0
        self._slow = 0.0
        self.ready = DATA
        monkeypatch.setattr(selectors.DefaultSelector, "select", self._ask)
        self.watched = {NUMBER: DATA[0][0]}
        monkeypatch.setattr(self.selector, "get_map", lambda: self.watched)

    def _ask(self, timeout: float | None) -> list[Any]:
        self.clock.now += self._slow
        if timeout == 0:
            return [] if self._waits else self.ready
        self.clock.now += self._waits
        return self.ready

    def start(self, *, waits: float, slow: float = 0.0) -> None:
        """Let data be reported after a wait, or at once by a slow `select`."""
        self._waits, self._slow = waits, slow

    def turn(self, *, waits: float = 0.0, callbacks: float = 0.001, slow: float = 0.0) -> None:
        """Let data be reported after a wait, or at once by a slow `select`, and run callbacks."""
        self.start(waits=waits, slow=slow)
        self.selector.select(1.0)
        self.clock.now += callbacks

    def look(self) -> None:
        """Ask for data, and neither wait nor run callbacks."""
        self.selector.select(0.0)

    def read_much(self) -> None:
        """Read so much that data may be left."""
        self.selector.note_full_read(NUMBER, ROOMY)

    def hold_up(self, *, knows: bool = True) -> None:
        """Read a full queue, of which the kernel `knows` or not."""
        self.selector.note_full_read(NUMBER, FULL if knows else None)

    def pause(self, events: int) -> None:
        """Let the socket be watched for other `events` than data, or for none."""
        self.watched = {NUMBER: DATA[0][0]._replace(events=events)} if events else {}

    def has_waited(self) -> bool:
        return self.selector.has_waited

    def end(self) -> tuple[float, float, float]:
        """Return what is noted of the last turn."""
        self._waits = self._slow = 0.0
        self.selector.select(0.0)
        return self.last

    def _note(self, *span: float) -> None:
        start, end, since = (round(at, 4) for at in span)
        self.last = start, end, since


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    return Loop(monkeypatch)


def timeless_loop() -> OverridingEventLoop:
    """Return an event loop for which turns take no time, so that each `select` waits, however slow the machine is."""
    made = OverridingEventLoop()
    made.selector._clock = Clock()
    return made


def test_lost_connection_is_freed_without_garbage_collection() -> None:
    """`GarbageCollection` leaves out what existed at an evaluation: cycles would stay for an hour."""

    async def connect(port: int, *, abort: bool) -> "weakref.ref[asyncio.Transport]":
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, "127.0.0.1", port)
        transport.abort() if abort else transport.close()
        for _ in range(3):  # turns of the loop
            await asyncio.sleep(0)
        return weakref.ref(transport)

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            for abort in (True, False):
                lost = await connect(port, abort=abort)
                assert lost() is None

    gc.disable()
    try:
        with asyncio.Runner(loop_factory=OverridingEventLoop) as runner:
            runner.run(run())
    finally:
        gc.enable()


class TestTimedSelector:
    def test_notes_of_reads_are_those_of_the_golden_file(
        self, monkeypatch: pytest.MonkeyPatch, golden: Callable[[str, str], None]
    ) -> None:
        golden("late-reads.txt", replay((GOLDEN / "late-reads.txt").read_text(), lambda _: calls(Loop(monkeypatch))))

    def test_readers_are_called_until_asyncio_has_something_to_do(self, loop: Loop) -> None:
        results, seen = iter((True, True, False)), []

        def read() -> bool:
            seen.append(loop.clock.now)
            loop.clock.now += 0.001
            loop.start(waits=0.1)
            return next(results)

        loop.selector.readers[NUMBER] = read
        loop.turn(waits=0.1)
        assert seen == pytest.approx([10.1, 10.201, 10.302])
        assert loop.end()[2] == pytest.approx(10.302)

    def test_readers_are_left_to_asyncio_if_the_loop_is_late(self, loop: Loop) -> None:
        loop.turn(callbacks=0.1)
        loop.selector.readers[NUMBER] = lambda: pytest.fail("called")
        loop.turn()

    def test_readers_leave_what_can_be_written_to_asyncio(self, loop: Loop) -> None:
        """The socket would be ready again and again."""
        loop.ready = [(DATA[0][0], selectors.EVENT_READ | selectors.EVENT_WRITE)]
        loop.selector.readers[NUMBER] = lambda: pytest.fail("called")
        loop.turn(waits=0.1)

    def test_select_with_readers_returns_in_time(self, loop: Loop) -> None:
        """The loop has timers."""

        def read() -> bool:
            loop.clock.now += 0.001
            return True

        loop.selector.readers[NUMBER] = read
        loop.turn(waits=0.3)
        assert loop.clock.now == pytest.approx(11.205)

    def test_data_after_reads_that_the_kernel_had_room_for_has_just_arrived(self, loop: Loop) -> None:
        """A busy connection leaves data behind again and again, and the loop waits for new data in between."""
        for _ in range(50):
            loop.turn(waits=0.02)
            loop.read_much()
        loop.turn(waits=0.02)
        assert loop.end()[2] == pytest.approx(loop.clock.now - 0.001)

    @pytest.mark.parametrize("knows", [True, False])
    def test_data_may_be_as_old_as_before_while_its_sender_is_never_silent(self, loop: Loop, *, knows: bool) -> None:
        loop.turn(waits=0.1)
        began = loop.clock.now
        loop.turn(callbacks=0.3)
        loop.turn(callbacks=0.01)
        loop.hold_up(knows=knows)
        for _ in range(200):
            loop.turn(waits=0.0005)
        assert loop.end()[2] <= began

    @pytest.mark.parametrize(("waits", "pauses"), [(0.2, 1), (0.06, 3)])
    def test_data_has_just_arrived_once_its_sender_was_silent_long_enough(
        self, loop: Loop, waits: float, pauses: int
    ) -> None:
        """Silences count without two round trips of 20 ms each."""
        loop.turn(callbacks=0.3)
        loop.hold_up()
        for _ in range(pauses):
            assert loop.end()[2] <= 10.0
            loop.turn(waits=waits)
        assert loop.end()[2] == pytest.approx(loop.clock.now - 0.001)

    @pytest.mark.parametrize("events", [0, selectors.EVENT_WRITE])
    def test_data_may_be_as_old_while_nothing_reads_its_socket(self, loop: Loop, events: int) -> None:
        loop.turn(callbacks=0.1)
        loop.hold_up()
        loop.pause(events)
        loop.ready = []
        for _ in range(30):
            loop.turn(waits=0.1)
            assert loop.end()[2] <= 10.0
        loop.turn(waits=1.0)
        assert loop.end()[2] > 10.0, "its sender had long enough to catch up"

    def test_sender_was_not_silent_before_data_that_a_slow_select_found(self, loop: Loop) -> None:
        loop.turn(callbacks=0.1)
        loop.hold_up()
        loop.turn()
        loop.turn()
        loop.turn(slow=0.2)
        assert loop.end()[2] <= 10.0

    def test_sender_was_silent_only_until_a_late_select_began(self, loop: Loop) -> None:
        """It does not report what arrived in that time."""
        loop.turn(callbacks=0.1)
        loop.hold_up()
        loop.turn()
        loop.turn()
        loop.ready = []
        loop.turn(waits=1.5)
        assert loop.end()[2] <= 10.0
        loop.turn(waits=0.1)
        assert loop.end()[2] > 10.0

    def test_what_reads_leave_behind_is_no_new_data(self, loop: Loop) -> None:
        """Data is there after each read, however short the turn is."""
        loop.turn(waits=0.1)
        began = loop.clock.now
        for _ in range(1000):
            loop.turn(callbacks=0.0001)
            loop.read_much()
        assert loop.end()[2] <= began

    def test_notes_nothing_without_a_receiver(self, loop: Loop) -> None:
        loop.selector.listeners.clear()
        assert len(loop.selector.select(0.0)) == 1


class TestInbox:
    def test_passes_data_on_in_order_after_a_while(self, jumping: asyncio.Runner) -> None:
        async def work() -> None:
            inbox, taken, began = Inbox(), [], time.monotonic()
            assert not inbox.put(lambda *data: taken.append(("a", *data)), b"1"), "it scheduled a call"
            await asyncio.sleep(WAITING_SECONDS / 2)
            assert inbox.put(lambda *data: taken.append(("b", *data)), b"2")
            assert not taken
            await asyncio.sleep(WAITING_SECONDS)
            assert taken == [("a", began, b"1"), ("b", began + WAITING_SECONDS / 2, b"2")]

        jumping.run(work())

    async def test_passes_data_on_at_once_if_there_is_much(self) -> None:
        inbox, taken = Inbox(), []
        for _ in range(2):
            assert not inbox.put(lambda _, data: taken.append(len(data)), bytes(MOST_WAITING_BYTES + 1))
        assert taken == [MOST_WAITING_BYTES + 1] * 2

    async def test_passes_data_on_at_once_after_many_reads(self) -> None:
        inbox, taken = Inbox(), []
        scheduled = [not inbox.put(lambda _, data: taken.append(data), b"1") for _ in range(MOST_WAITING)]
        assert scheduled == [True, *[False] * (MOST_WAITING - 2), True]
        assert len(taken) == MOST_WAITING

    def test_passes_data_on_that_comes_after_it_was_emptied(self, jumping: asyncio.Runner) -> None:
        async def work() -> None:
            inbox, taken = Inbox(), []
            for data in (b"1", b"2"):
                inbox.put(lambda _, data: taken.append(data), data)
                inbox.empty()
                assert taken.pop() == data
            inbox.put(lambda _, data: taken.append(data), b"3")
            await asyncio.sleep(2 * WAITING_SECONDS)
            assert taken == [b"3"]

        jumping.run(work())

    async def test_passes_on_the_rest_if_a_taker_empties_it(self) -> None:
        inbox, taken = Inbox(), []

        def take(_: float, data: bytes) -> None:
            inbox.empty()
            taken.append(data)

        inbox.put(take, b"1")
        inbox.put(lambda _, data: taken.append(data), b"2")
        inbox.empty()
        assert taken == [b"2", b"1"], "what the first taker does next follows what came before it"


@pytest.mark.real_clock
@pytest.mark.parametrize("new_loop", [TimedEventLoop, OverridingEventLoop])
@pytest.mark.parametrize("block", [0.002, 0.02])
def test_own_delay_covers_the_time_from_sending_to_receiving(
    block: float, new_loop: Callable[[], TimedEventLoop]
) -> None:
    async def receive(reader: asyncio.StreamReader) -> float:
        await reader.read(1)
        return time.monotonic()

    async def work() -> None:
        delays, loop = OwnDelays(), asyncio.get_running_loop()
        assert isinstance(loop, TimedEventLoop)
        loop.selector.listeners.append(delays.add_late_reads)
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        for _ in range(20):
            receiving = asyncio.create_task(receive(reader))
            await asyncio.sleep(0.001)
            theirs.send(b"x")
            sent = time.monotonic()
            time.sleep(block)  # noqa: ASYNC251 - the block
            received = await receiving
            await asyncio.sleep(0.001)  # the turn is noted at its end
            assert delays.of(np.array([received]))[0] >= received - sent - NOTED_SECONDS
        writer.close()
        await writer.wait_closed()
        theirs.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(work())


@pytest.mark.parametrize("owner", asyncio_overrides._INTERNALS)
def test_new_event_loop_is_plain_if_asyncio_lacks_what_is_overridden(
    monkeypatch: pytest.MonkeyPatch, owner: type
) -> None:
    assert has_internals()
    monkeypatch.setitem(asyncio_overrides._INTERNALS, owner, ("_no_such_method",))
    loop = new_event_loop()
    loop.close()
    assert type(loop) is TimedEventLoop


@pytest.mark.parametrize("has_transport", [True, False])
async def test_abandon_ends_a_process(*, has_transport: bool) -> None:
    process = await asyncio.create_subprocess_exec("bash", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    abandon(process if has_transport else WithoutTransport(process))  # type: ignore[arg-type]
    assert await process.wait() == -signal.SIGKILL


class WithoutTransport:
    """A process as asyncio would have it without the attribute that is not documented."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.kill = process.kill


def test_connection_that_its_reader_paused_and_resumed_within_select_is_read_on() -> None:
    """aiohttp does so if it decodes much at once."""

    async def work() -> None:
        loop, read = asyncio.get_running_loop(), asyncio.Event()
        taken: list[bytes] = []
        ours, theirs = socket.socketpair()
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
        assert isinstance(transport, SocketTransport)

        def keep(data: bytes) -> bool:
            taken.append(data)
            transport.pause_reading()
            transport.resume_reading()
            loop.call_soon(read.set)
            return False

        transport.keep_encrypted(keep)
        with theirs:
            for number in range(3):
                read.clear()
                theirs.send(b"%d" % number)
                await read.wait()
        transport.abort()
        assert taken == [b"0", b"1", b"2"]

    with asyncio.Runner(loop_factory=timeless_loop) as runner:
        runner.run(work())


class Received(asyncio.Protocol):
    """Collects what arrives, with the sizes of the reads."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.sizes: list[int] = []
        self.arrived = asyncio.Event()
        self.lost = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.sizes.append(len(data))
        self.arrived.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(error)

    async def has(self, size: int) -> None:
        """Wait until so many bytes have arrived."""
        while len(self.data) < size:
            self.arrived.clear()
            await self.arrived.wait()


class Decrypting(asyncio.Protocol):
    """Passes what arrives to `take`, and the end of the connection to another protocol."""

    def __init__(self, inner: Received, take: Callable[[bytes], object]) -> None:
        self._inner = inner
        self._take = take

    def data_received(self, data: bytes) -> None:
        self._take(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._inner.connection_lost(error)


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    folder: Path = tmp_path_factory.mktemp("tls") / "certificates"
    authority = Authority(folder)
    pair = authority.server("server")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.certificate, pair.key)
    return server, ssl.create_default_context(cafile=str(authority.ca))


@pytest.mark.real_clock
class TestTls:
    @staticmethod
    def run(
        contexts: Contexts,
        serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any],
        use: Callable[[Any, Received], Any],
    ) -> None:
        """Connect to a server, and close the connection after `use`."""

        async def work() -> None:
            server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=contexts[0])
            port = server.sockets[0].getsockname()[1]
            loop = asyncio.get_running_loop()
            transport, protocol = await loop.create_connection(Received, "127.0.0.1", port, ssl=contexts[1])
            try:
                await use(transport, protocol)
            finally:
                transport.close()
                await protocol.lost
                server.close()
                await server.wait_closed()

        with asyncio.Runner(loop_factory=OverridingEventLoop) as runner:
            runner.run(work())

    @staticmethod
    def run_apart(
        contexts: Contexts,
        serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any],
        use: Callable[[Any, Received], Any],
    ) -> None:
        """Do the same as `run`, with the server on another thread."""
        ports: queue.SimpleQueue[int] = queue.SimpleQueue()
        done = threading.Event()

        async def host() -> None:
            server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=contexts[0])
            ports.put(server.sockets[0].getsockname()[1])
            async with server:
                await asyncio.to_thread(done.wait)

        async def work() -> None:
            loop = asyncio.get_running_loop()
            transport, protocol = await loop.create_connection(Received, "127.0.0.1", ports.get(), ssl=contexts[1])
            await use(transport, protocol)

        thread = threading.Thread(target=asyncio.run, args=(host(),))
        thread.start()
        try:
            with asyncio.Runner(loop_factory=timeless_loop) as runner:
                runner.run(work())
        finally:
            done.set()
            thread.join()

    def test_passes_data_both_ways(self, contexts: Contexts) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((await reader.readexactly(300_000))[::-1])
            writer.close()

        async def use(transport: asyncio.Transport, protocol: Received) -> None:
            data = bytes(range(100)) * 3000
            transport.write(data)
            async with asyncio.timeout(10):  # the server waits for longer before it closes the TCP connection
                await protocol.lost
            assert protocol.data == data[::-1]
            assert max(protocol.sizes) <= MOST_READ_BYTES

        self.run(contexts, serve, use)

    def test_first_data_frees_the_write_buffer(self, contexts: Contexts, monkeypatch: pytest.MonkeyPatch) -> None:
        written: list[bytes] = []
        free_write_buffer = asyncio_overrides._TlsSocket._free_write_buffer

        def free(socket: asyncio_overrides._TlsSocket) -> None:
            with monkeypatch.context() as patch:
                patch.setattr(ssl.SSLObject, "write", lambda _, data: written.append(data))
                free_write_buffer(socket)

        monkeypatch.setattr(asyncio_overrides._TlsSocket, "_free_write_buffer", free)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for _ in range(3):
                writer.write(b"data")
                await asyncio.sleep(0.02)
            await reader.read()
            writer.close()

        async def use(_: asyncio.Transport, protocol: Received) -> None:
            assert not written
            await protocol.has(12)
            assert written == [b""]

        self.run(contexts, serve, use)

    def test_first_data_does_not_disturb_what_is_being_sent(self, contexts: Contexts) -> None:
        data = bytes(range(100)) * 300_000  # more than the kernel takes

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"early")
            await asyncio.sleep(0.1)
            writer.write(b"all" if await reader.readexactly(len(data)) == data else b"other")
            writer.close()

        async def use(transport: asyncio.Transport, protocol: Received) -> None:
            transport.write(data)
            await protocol.lost
            assert protocol.data == b"earlyall"

        self.run(contexts, serve, use)

    def test_reads_all_that_openssl_has(self, contexts: Contexts) -> None:
        size = MOST_READ_BYTES + 100  # the limit lies within the last record, and the kernel has no more to report

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(bytes(100))
            writer.write(bytes(MOST_READ_BYTES))
            await reader.read()
            writer.close()

        async def use(_: asyncio.Transport, protocol: Received) -> None:
            time.sleep(0.2)  # noqa: ASYNC251 - until all of it is there
            await protocol.has(size)

        self.run(contexts, serve, use)

    @pytest.mark.parametrize("reset", [False, True])
    def test_passes_what_arrives_alone_to_a_reader_until_the_end(self, contexts: Contexts, *, reset: bool) -> None:
        kept: list[bytes] = []
        data = bytearray()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for number in range(5):
                await reader.readexactly(1)
                writer.write(b"%d" % number)
            await reader.readexactly(1)
            if reset:
                connected = writer.get_extra_info("socket")
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            else:
                writer.close()
                await reader.read()

        async def use(transport: asyncio.Transport, protocol: Received) -> None:
            loop = asyncio.get_running_loop()
            assert isinstance(transport, SocketTransport)
            assert isinstance(loop, TimedEventLoop)

            def take(encrypted: bytes) -> None:
                if decrypted := decrypt(encrypted):
                    data.extend(decrypted)
                    transport.write(b"+")  # the server sends no more before it has read this

            def keep(encrypted: bytes) -> bool:
                kept.append(encrypted)
                take(encrypted)
                return True

            decrypt = transport.keep_encrypted(keep)
            transport.set_protocol(Decrypting(protocol, take))
            transport.write(b"+")
            assert isinstance(await protocol.lost, ConnectionResetError if reset else type(None))
            assert len(kept) >= 2
            assert data == b"01234"
            assert not loop.selector.readers, "the number will belong to another socket"

        # The server must run elsewhere: its callbacks would end each wait of this loop.
        self.run_apart(contexts, serve, use)

    @pytest.mark.parametrize("last", [b"", b"data"])
    def test_reports_a_reset(self, contexts: Contexts, last: bytes) -> None:
        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(last)
            connected = writer.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await asyncio.sleep(0.1)
            writer.transport.abort()

        async def use(_: asyncio.Transport, protocol: Received) -> None:
            assert isinstance(await protocol.lost, ConnectionResetError)
            assert protocol.data == last

        self.run(contexts, serve, use)

    def test_reads_a_cut_record_as_an_end(self, contexts: Contexts) -> None:
        record = b"\x17\x03\x03\x01\x00"  # the header of one with 256 bytes, which do not come

        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with socket.fromfd(writer.get_extra_info("socket").fileno(), socket.AF_INET, socket.SOCK_STREAM) as same:
                same.send(record)
            writer.transport.abort()

        async def use(_: asyncio.Transport, protocol: Received) -> None:
            assert await protocol.lost is None

        self.run(contexts, serve, use)

    def test_notes_full_reads(self, contexts: Contexts, monkeypatch: pytest.MonkeyPatch) -> None:
        noted: list[ReceiveQueue | None] = []
        monkeypatch.setattr(TimedSelector, "note_full_read", lambda _, __, queue: noted.append(queue))

        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(bytes(10 * MOST_READ_BYTES))
            writer.close()

        async def use(_: asyncio.Transport, protocol: Received) -> None:
            time.sleep(0.2)  # noqa: ASYNC251 - the loop is late
            await protocol.lost
            assert len(protocol.data) == 10 * MOST_READ_BYTES

        self.run(contexts, serve, use)
        assert noted
        assert all(noted)

    def test_answers_an_update_of_keys(self, tmp_path: Path) -> None:
        """OpenSSL's own server requests one after `K`, and decrypts by the new keys from then on."""
        authority = Authority(tmp_path / "certificates")
        pair = authority.server("server")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = ["openssl", "s_server", "-accept", str(port), "-cert", str(pair.certificate), "-key", str(pair.key)]

        async def connect(context: ssl.SSLContext) -> tuple[Any, Received]:
            while True:
                with contextlib.suppress(ConnectionRefusedError):
                    loop = asyncio.get_running_loop()
                    return await loop.create_connection(Received, "127.0.0.1", port, ssl=context)
                await asyncio.sleep(0.01)

        async def work() -> None:
            commands, typed = os.pipe()
            server = await asyncio.create_subprocess_exec(
                *command, stdin=commands, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            os.close(commands)
            assert server.stdout
            transport, protocol = await connect(ssl.create_default_context(cafile=str(authority.ca)))
            os.write(typed, b"K\n")
            # It would take what is written together for data.
            while any(fcntl.ioctl(typed, termios.FIONREAD, bytes(4))):  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.001)
            os.write(typed, b"sent after it\n")
            await protocol.arrived.wait()
            transport.write(b"answered after it\n")
            await server.stdout.readuntil(b"answered after it")
            assert protocol.data == b"sent after it\n"
            transport.abort()
            await protocol.lost
            server.kill()
            await server.communicate()
            os.close(typed)

        with asyncio.Runner(loop_factory=OverridingEventLoop) as runner:
            runner.run(work())

    def test_has_the_certificate_of_the_peer(self, contexts: Contexts) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        async def use(transport: asyncio.Transport, _: Received) -> None:
            assert transport.get_extra_info("peercert")["subject"]

        self.run(contexts, serve, use)

    def test_closes_the_socket_of_a_failed_handshake(self, contexts: Contexts) -> None:
        async def work() -> None:
            server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=contexts[0])
            address = server.sockets[0].getsockname()
            connected = socket.create_connection(address)
            loop = asyncio.get_running_loop()
            with pytest.raises(ssl.SSLCertVerificationError):
                await loop.create_connection(Received, sock=connected, ssl=True, server_hostname="localhost")
            assert connected.fileno() == -1
            server.close()
            await server.wait_closed()

        with asyncio.Runner(loop_factory=OverridingEventLoop) as runner:
            runner.run(work())

    def test_handshake_has_a_time_limit(self, contexts: Contexts) -> None:
        async def work() -> None:
            with socket.create_server(("127.0.0.1", 0)) as silent:
                loop = asyncio.get_running_loop()
                with pytest.raises(TimeoutError):
                    await loop.create_connection(
                        Received, *silent.getsockname(), ssl=contexts[1], ssl_handshake_timeout=0.05
                    )

        with asyncio.Runner(loop_factory=OverridingEventLoop) as runner:
            runner.run(work())
