"""What goes on beside a test."""

import threading
from abc import ABC, abstractmethod
from typing import Self


class Background(ABC):
    """Runs in a thread of its own while its context lives."""

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
        """Goes on until `_over` is set."""
