"""The writers: threads that create and change objects by a schedule, and record every write."""

import threading
import time
from collections.abc import Callable, Sequence
from random import Random
from types import TracebackType
from typing import Any, Self

from tests.fidelity.cases import CREATED, OBJECTS, Traffic
from tests.support.writer import Write, Writer, given_up

Make = Callable[[str], dict[str, Any]]
"""Returns an object with this name."""


class Writing:
    """Writes objects of one collection inside its context; `threads` threads share the traffic."""

    def __init__(
        self,
        open_writer: Callable[[], Writer],
        collection: str,
        make: Make,
        traffic: Traffic,
        seed: int,
        threads: int = 1,
    ) -> None:
        self._open_writer = open_writer
        self._collection = collection
        self._make = make
        self._over = threading.Event()
        self._writes: list[list[Write]] = [[] for _ in range(threads)]
        self._errors: list[Exception] = []
        share = Traffic(traffic.name, traffic.rate / threads, traffic.stalls)
        self._threads = [
            threading.Thread(
                target=self._run, args=(share, Random(f"{seed} {collection} {number}"), number), daemon=True
            )
            for number in range(threads)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def writes(self) -> Sequence[Write]:
        """Return the writes so far; raise the error that ended the writing, if any."""
        if self._errors:
            raise self._errors[0]
        return [write for writes in self._writes for write in tuple(writes)]

    def _run(self, traffic: Traffic, random: Random, number: int) -> None:
        try:
            with self._open_writer() as writer:
                self._write_all(writer, traffic, random, number)
        except Exception as error:  # noqa: BLE001 - `writes` raises it
            self._errors.append(error)

    def _write_all(self, writer: Writer, traffic: Traffic, random: Random, number: int) -> None:
        names: list[str] = []
        for due in traffic.schedule(random, time.monotonic):
            if self._over.wait(max(due - time.monotonic(), 0.0)):
                return
            with given_up():
                self._writes[number].append(self._write(writer, random, number, names))

    def _write(self, writer: Writer, random: Random, number: int, names: list[str]) -> Write:
        """Change one of the objects, or create one and add its name to `names`."""
        if len(names) >= OBJECTS and random.random() >= CREATED:
            change = {"metadata": {"annotations": {"changed": f"{random.random()}"}}}
            return writer.patch(f"{self._collection}/{random.choice(names[-OBJECTS:])}", change)
        name = f"fidelity-{random.getrandbits(40):010x}-{number}-{len(names)}"
        write = writer.create(self._collection, self._make(name))
        names.append(name)
        return write
