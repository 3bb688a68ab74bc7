"""What waits for this process: in the kernel's queue of a connection, and at the sender while that queue was full.

The kernel keeps what arrives while this process is late, and the sender does not notice. But if the queue has no room
for what the sender sends in a round trip, the sender has to wait too. What it holds then may arrive long after this
process has read the queue, in small reads, and hardly faster than new data. Only silence proves that the sender holds
nothing any more: whatever it holds, it sends within a round trip after a read.

Through a proxy, only the round trip to the proxy is known. Times are monotonic seconds.
"""

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Protocol

LEAST_ROOM = 0.5  # of the window: the memory of what was just read is an estimate
ROUND_TRIPS = 2  # a sender that holds data is silent for at most so many
PAUSE_SECONDS = 0.001  # or for so long
SILENT_SECONDS = 0.05  # beyond that, in total, before a sender holds nothing: it may have to wait for a CPU
# A sender that needs longer to catch up uses 97% of what its connection can carry: its data is late then anyway.
CATCHING_UP = 30  # times as long as it had to wait
CATCHING_UP_ROUND_TRIPS = 20  # more, as a connection that was idle becomes fast in several
CATCHING_UP_SECONDS = 0.5  # more

_MEMORY_OPTION = 55  # SO_MEMINFO (uapi/asm-generic/socket.h), since Linux 4.12
_MEMORY = struct.Struct("=II")  # SK_MEMINFO_RMEM_ALLOC and SK_MEMINFO_RCVBUF (uapi/linux/sock_diag.h)
# Fields of Linux's struct tcp_info (uapi/linux/tcp.h): tcpi_rcv_ssthresh and tcpi_rtt at 64 and 68; tcpi_rcv_rtt and
# tcpi_rcv_space at 92 and 96. Both round trips are in microseconds.
_TCP_INFO = struct.Struct("=64xII20xII")


class Connected(Protocol):
    """What a socket and asyncio's substitute for it have in common."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class ReceiveQueue:
    """The kernel's queue of a connection after `read` bytes were read, all in bytes.

    The queue takes `memory` of at most `most_memory`. When it is empty, the sender may send `window` without waiting.
    The sender has sent at most `in_flight` in a round trip.
    """

    read: int
    memory: int
    most_memory: int
    window: int
    in_flight: float
    round_trip: float

    def held_up_sender(self) -> bool:
        """Return True unless the queue had room for what the sender sends in a round trip, before the read."""
        room = self.window * (1 - self.memory / self.most_memory) - self.read
        return room < max(LEAST_ROOM * self.window, self.in_flight)


def receive_queue(connected: Connected, read: int) -> ReceiveQueue | None:
    """Return the queue of a connection after a read of so many bytes; None if the kernel does not say."""
    try:
        memory, most_memory = _MEMORY.unpack(connected.getsockopt(socket.SOL_SOCKET, _MEMORY_OPTION, _MEMORY.size))
        info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        window, round_trip, measured_in, in_flight = _TCP_INFO.unpack(info)
    except (OSError, AttributeError, struct.error):  # not TCP, closed just now, not Linux, or a sandbox says less
        return None
    # The kernel's own estimate takes the pauses of a sender for round trips.
    in_flight *= min(1.0, round_trip / measured_in) if measured_in else 1.0
    return ReceiveQueue(read, memory, most_memory, window, in_flight, round_trip / 1e6)


@dataclass(slots=True)
class _Backlog:
    """What a sender may hold.

    The sender has caught up at `until`, or if its silences longer than `pause` add up. `heard` is when it was last not
    silent, and `silence` the sum before that.
    """

    pause: float
    until: float
    heard: float
    silence: float = 0.0


class SenderBacklogs:
    """What senders may hold, each under the number of its socket, and since when: `since` is infinite for nothing."""

    def __init__(self) -> None:
        self.since = inf
        self._backlogs: dict[int, _Backlog] = {}

    def __bool__(self) -> bool:
        return bool(self._backlogs)

    def __iter__(self) -> Iterator[int]:
        return iter(self._backlogs)

    def note(self, number: int, since: float, now: float, round_trip: float) -> None:
        """Note that a sender was held up from `since` to `now`."""
        until = now + CATCHING_UP * (now - since) + CATCHING_UP_ROUND_TRIPS * round_trip + CATCHING_UP_SECONDS
        if number in self._backlogs:
            until = max(until, self._backlogs[number].until)
        self._backlogs[number] = _Backlog(max(PAUSE_SECONDS, ROUND_TRIPS * round_trip), until, now)
        self.since = min(self.since, since)

    def follow(self, heard: set[int], silent: set[int], arrived: float, asked: float, now: float) -> None:
        """Take in a turn of the event loop, and forget the senders that have caught up.

        The data of the sockets `heard`, which was read until `now`, arrived after `arrived`. The sockets `silent` had
        no data when the kernel was `asked`. Nothing is known of others.
        """
        for number, backlog in [*self._backlogs.items()]:
            until = asked if number in silent else arrived if number in heard else -inf
            silence = backlog.silence + max(0.0, until - backlog.heard - backlog.pause)
            if silence >= SILENT_SECONDS or now >= backlog.until:
                del self._backlogs[number]
            elif number not in silent:
                backlog.heard, backlog.silence = now, silence
        if not self._backlogs:
            self.since = inf
