"""The writer whose log is the truth: it goes on whatever happens, and in the end knows every revision that it made."""

import contextlib
import http.client
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from tests.support.background import Background
from tests.support.writer import StatusError, Write, Writer

SHORTEST_GAP_SECONDS, LONGEST_GAP_SECONDS = 0.03, 0.09
REFUSED_PAUSE_SECONDS = 0.2

Make = Callable[[str], dict[str, Any]]
"""Makes an object of a name."""


class Scribe(Background):
    """Creates objects in one collection, about 17 a second, while its context lasts.

    A write without an answer may have been done: its object's name is used by no other, so that a look at it tells.
    The next one is made by a new writer, which may be of another apiserver.
    """

    def __init__(self, open_writer: Callable[[], Writer], collection: str, make: Make, name: str) -> None:
        super().__init__()
        self._open_writer = open_writer
        self._collection = collection
        self._make = make
        self._name = name
        self._under_way = threading.Lock()  # held while one is: what it gave, or that it has no answer, is known then
        self._writes: list[Write] = []
        self._doubtful: list[tuple[str, float]] = []

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """Writes nothing while the context lasts; what was under way is done when it begins."""
        with self._under_way:
            yield

    def answered(self) -> list[Write]:
        """The writes that were answered so far."""
        return list(self._writes)

    def writes(self, since: float, until: float) -> list[Write]:
        """All writes that began in this time, those without an answer too; the apiserver is asked about these.

        One that is under way is waited for: its event may have come before its answer does.
        """
        with self._under_way:
            doubtful = [(name, before) for name, before in self._doubtful if since <= before < until]
            found = [write for write in self._writes if since <= write.before < until]
        if doubtful:
            with self._open_writer() as writer:
                found.extend(write for name, before in doubtful if (write := self._look_up(writer, name, before)))
        return sorted(found, key=lambda write: write.before)

    def _look_up(self, writer: Writer, name: str, before: float) -> Write | None:
        path = f"{self._collection}/{name}"
        try:
            found = writer.get(path)
        except StatusError as error:
            assert error.code == 404, error  # noqa: PT017 - not what is tested
            return None
        return Write("POST", path, before, time.monotonic(), int(found["metadata"]["resourceVersion"]))

    def _run(self) -> None:
        random, numbers = Random(self._name), itertools.count(1)
        while not self._over.is_set():
            with self._open_writer() as writer:
                self._write_while_answered(writer, random, numbers)

    def _write_while_answered(self, writer: Writer, random: Random, numbers: Iterator[int]) -> None:
        while not self._over.wait(random.uniform(SHORTEST_GAP_SECONDS, LONGEST_GAP_SECONDS)):
            if not self._write(writer, f"{self._name}-{next(numbers)}"):
                self._over.wait(REFUSED_PAUSE_SECONDS)
                return

    def _write(self, writer: Writer, name: str) -> bool:
        """Whether it was answered that it is done."""
        with self._under_way:
            before = time.monotonic()
            try:
                self._writes.append(writer.create(self._collection, self._make(name)))
            except (OSError, http.client.HTTPException, StatusError):
                self._doubtful.append((name, before))
                return False
        return True
