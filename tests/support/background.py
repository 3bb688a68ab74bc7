"""Work that runs in a thread during a test."""

import threading
from abc import ABC, abstractmethod
from typing import Self


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
