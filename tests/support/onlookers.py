"""Many clients that follow the event feed of a daemon at once, as open pages do."""

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

ANSWER_SECONDS = 30.0
LOOK_SECONDS = 0.5
CHUNK_BYTES = 2**20
EVENT = b"event: "


@dataclass(slots=True)
class Onlooker:
    """The number of events that one client received, and their size in bytes."""

    events: int = 0
    size: int = 0
    _tail: bytes = b""

    def take(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self.events += (self._tail + chunk).count(EVENT)
        self._tail = chunk[1 - len(EVENT) :]  # too short to be counted again


@contextmanager
def onlooking(url: str, count: int) -> Iterator[list[Onlooker]]:
    """Open `count` clients of the feed of the daemon at `url`, all read by one thread."""
    onlookers, over = [Onlooker() for _ in range(count)], threading.Event()
    address = urlsplit(url)
    with ExitStack() as opened:
        selector = opened.enter_context(selectors.DefaultSelector())
        for onlooker in onlookers:
            connection = socket.create_connection((str(address.hostname), address.port or 0), ANSWER_SECONDS)
            opened.enter_context(connection)
            connection.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            selector.register(connection, selectors.EVENT_READ, (connection, onlooker))

        def read() -> None:
            while not over.is_set():
                for key, _ in selector.select(LOOK_SECONDS):
                    connection, onlooker = key.data
                    if chunk := connection.recv(CHUNK_BYTES):
                        onlooker.take(chunk)
                    else:
                        selector.unregister(connection)

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield onlookers
        finally:
            over.set()
            thread.join()
