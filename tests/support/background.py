"""Work that runs in a thread during a test."""

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from socketserver import BaseServer
from typing import Self

POLL_SECONDS = 0.01  # in which a server notices that it is to end


class Background(ABC):
    """Runs in its own thread while its context is open."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @abstractmethod
    def _run(self) -> None:
        """Run until `_over` is set."""


class ServerThread:
    """Runs a server in a thread of its own while its context is open."""

    def __init__(self, server: BaseServer) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def repeated(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    """Act at once, and again `seconds` after the end of each act, while the context is open."""
    over = threading.Event()

    def run() -> None:
        while True:
            act()
            if over.wait(seconds):
                return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
