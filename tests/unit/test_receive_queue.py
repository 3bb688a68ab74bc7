"""The kernel's queue of a connection, and what a sender may hold while that queue is full."""

import contextlib
import selectors
import socket
import struct
from collections.abc import Iterator
from math import inf

import pytest

from watchslo.event_loop import TimedSelector
from watchslo.receive_queue import (
    CATCHING_UP,
    CATCHING_UP_ROUND_TRIPS,
    CATCHING_UP_SECONDS,
    PAUSE_SECONDS,
    ROUND_TRIPS,
    SILENT_SECONDS,
    ReceiveQueue,
    SenderBacklogs,
    receive_queue,
)

READ = 16 * 2**10
NUMBER, OTHER = {7}, {8}  # of sockets
NONE: set[int] = set()


class Clock:
    """A clock that a test sets."""

    now = 10.0

    def __call__(self) -> float:
        return self.now


@contextlib.contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield both ends of a TCP connection; the buffer of the first takes 128 KiB, which count with their overhead."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as ours:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * READ)  # the kernel takes twice as much
        ours.connect(server.getsockname())
        theirs, _ = server.accept()
        with theirs:
            ours.setblocking(False)  # noqa: FBT003 - the argument has no name
            theirs.setblocking(False)  # noqa: FBT003 - the argument has no name
            yield ours, theirs


def fill(theirs: socket.socket) -> None:
    """Send until the kernels of both ends take no more."""
    with contextlib.suppress(BlockingIOError):
        while True:
            theirs.send(bytes(READ))


@pytest.mark.parametrize("is_filled", [True, False])
def test_data_after_a_read_may_have_waited_at_the_sender_only_if_the_queue_was_full(*, is_filled: bool) -> None:
    clock, noted = Clock(), []
    selector = TimedSelector(clock)
    selector.listeners.append(lambda _, end, since: noted.append((end, since)))
    with contextlib.closing(selector), connected() as (ours, theirs):
        selector.register(ours, selectors.EVENT_READ)
        selector.select(0)
        if is_filled:
            fill(theirs)
        else:
            theirs.send(bytes(READ + 1))
        clock.now = 10.3
        selector.select(None)
        assert len(ours.recv(READ)) == READ
        selector.note_full_read(ours.fileno(), receive_queue(ours, READ))
        while selector.select(0):
            ours.recv(READ)
        clock.now = 10.31  # the sender was silent for too short a time
        theirs.send(b"new")
        selector.select(None)
        clock.now = 10.32
        selector.select(0)
    assert noted[-1] == (10.32, 10.0 if is_filled else 10.3)


def test_queue_of_a_socket_without_tcp_is_unknown() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert receive_queue(ours, READ) is None


def test_queue_is_unknown_where_the_kernel_says_less(monkeypatch: pytest.MonkeyPatch) -> None:
    with connected() as (ours, _):
        assert receive_queue(ours, READ)
        monkeypatch.delattr(socket, "TCP_INFO")
        assert receive_queue(ours, READ) is None


class Answers:
    """A socket of which the kernel says what a test says, in microseconds and bytes."""

    def __init__(self, *, round_trip: int, measured_in: int, in_flight: int) -> None:
        self._info = struct.pack("=64xII20xII", 65_536, round_trip, measured_in, in_flight)

    def getsockopt(self, level: int, _: int, size: int) -> bytes:
        return self._info[:size] if level == socket.IPPROTO_TCP else struct.pack("=II", 5_000, 131_072)


@pytest.mark.parametrize(
    ("round_trip", "measured_in", "in_flight"), [(5_000, 20_000, 10_000), (20_000, 5_000, 40_000), (5_000, 0, 40_000)]
)
def test_queue_has_the_figures_of_the_kernel(round_trip: int, measured_in: int, in_flight: int) -> None:
    """What the kernel measured in more than a round trip is shared out; it does not know the rest any better."""
    connection = Answers(round_trip=round_trip, measured_in=measured_in, in_flight=40_000)
    queue = receive_queue(connection, READ)
    assert queue == ReceiveQueue(READ, 5_000, 131_072, 65_536, in_flight, round_trip / 1e6)


@pytest.mark.parametrize(
    ("memory", "window", "in_flight", "held_up"),
    [
        (10_000, 100_000, 0, False),
        (60_000, 100_000, 0, True),  # the queue is half full
        (10_000, 100_000, 90_000, True),  # more is on the way in a round trip than there is room for
        (0, 20_000, 0, True),  # what was read filled the window
        (120_000, 10_000_000, 0, True),
        (100_000, 0, 0, True),
    ],
)
def test_sender_was_held_up_unless_the_queue_had_room(
    memory: int, window: int, in_flight: int, *, held_up: bool
) -> None:
    queue = ReceiveQueue(12_000, memory, 131_072, window, in_flight, 0.02)
    assert queue.held_up_sender() is held_up


class TestSenderBacklogs:
    def test_counts_silence_beyond_two_round_trips(self) -> None:
        senders = SenderBacklogs()
        senders.note(7, 9.0, 10.0, 0.02)
        silence = ROUND_TRIPS * 0.02 + SILENT_SECONDS
        senders.follow(NONE, NUMBER, 0.0, 10.0 + silence - 0.001, 10.2)
        assert senders.since == 9.0
        senders.follow(NONE, NUMBER, 0.0, 10.0 + silence + 0.001, 10.2)
        assert not senders
        assert senders.since == inf

    def test_adds_silences_between_data(self) -> None:
        senders, now = SenderBacklogs(), 10.0
        senders.note(7, 9.0, now, 0.0)
        seen = []
        for _ in range(12):
            now += PAUSE_SECONDS + 0.005
            senders.follow(NUMBER, NONE, now, now, now)
            seen.append(bool(senders))
        assert 9 <= sum(seen) <= 10
        assert seen == sorted(seen, reverse=True)

    def test_counts_neither_short_silences_nor_the_time_of_reading(self) -> None:
        senders, now = SenderBacklogs(), 10.0
        senders.note(7, 9.0, now, 0.0)
        for _ in range(1000):
            now += PAUSE_SECONDS
            arrived, now = now, now + 0.002
            senders.follow(NUMBER, NONE, arrived, arrived, now)
        assert senders.since == 9.0

    def test_does_not_take_an_unwatched_socket_for_a_silent_sender(self) -> None:
        senders = SenderBacklogs()
        senders.note(7, 9.0, 10.0, 0.0)
        senders.follow(NONE, OTHER, 12.0, 12.0, 12.0)
        senders.follow(NUMBER, NONE, 12.0 + SILENT_SECONDS, 12.1, 12.1)
        assert senders.since == 9.0

    def test_waits_for_all_senders_and_no_longer_than_they_need(self) -> None:
        senders = SenderBacklogs()
        senders.note(7, 9.5, 10.0, 0.01)
        senders.note(8, 9.0, 10.0, 0.01)
        ends = [10.0 + CATCHING_UP * held + CATCHING_UP_ROUND_TRIPS * 0.01 + CATCHING_UP_SECONDS for held in (0.5, 1.0)]
        for now, since in ((ends[0] - 0.1, 9.0), (ends[0] + 0.1, 9.0), (ends[1] - 0.1, 9.0), (ends[1] + 0.1, inf)):
            senders.follow(NUMBER | OTHER, NONE, 0.0, 0.0, now)
            assert senders.since == since

    def test_starts_again_when_a_sender_is_held_up_again(self) -> None:
        senders = SenderBacklogs()
        senders.note(7, 9.0, 10.0, 0.0)
        senders.note(7, 10.19, 10.2, 0.0)
        senders.follow(NONE, NUMBER, 0.0, 10.2 + SILENT_SECONDS, 10.3)
        assert senders.since == 9.0
        senders.follow(NUMBER, NONE, 0.0, 10.3, 10.2 + 0.01 * CATCHING_UP + CATCHING_UP_SECONDS + 1.0)
        assert senders.since == 9.0, "it may need the time of the first"
        senders.follow(NONE, NUMBER, 0.0, 20.0, 20.0)
        assert not senders
