"""A writer with a complete log: it writes through all faults, and in the end knows every revision that it made."""

import contextlib
import http.client
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from tests.support.background import Background
from tests.support.writer import StatusError, Write, Writer, configmap, pod

SHORTEST_GAP_SECONDS, LONGEST_GAP_SECONDS = 0.03, 0.09
REFUSED_PAUSE_SECONDS = 0.2

CORE = "/api/v1/namespaces/default"
ANNOTATION_BYTES = 2000

Make = Callable[[str], dict[str, Any]]
"""Makes an object of a name."""


def anything(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def event(name: str) -> dict[str, Any]:
    return anything(name) | {"involvedObject": {"kind": "Pod", "namespace": "default", "name": "none"}}


def annotated(name: str) -> dict[str, Any]:
    """A config map with long metadata: four of them a second are more than 64 kbit/s."""
    made = configmap(name)
    made["metadata"]["annotations"] = {"filling": "x" * ANNOTATION_BYTES}
    return made


WRITTEN: dict[str, tuple[str, Make]] = {
    "configmaps": (f"{CORE}/configmaps", annotated),
    "events": (f"{CORE}/events", event),
    "secrets": (f"{CORE}/secrets", anything),
    "pods": (f"{CORE}/pods", pod),
    "leases.coordination.k8s.io": ("/apis/coordination.k8s.io/v1/namespaces/default/leases", anything),
    "serviceaccounts": (f"{CORE}/serviceaccounts", anything),
}
"""The collection of each resource, and the function that makes its objects."""


class Scribe(Background):
    """Creates about 17 objects a second in one collection while its context is open.

    A write without an answer may have succeeded. No other object has its name, so a later read shows whether it did.
    After a failure, the next write uses a new `Writer`, which may be one of another apiserver.
    """

    def __init__(self, open_writer: Callable[[], Writer], collection: str, make: Make, name: str) -> None:
        super().__init__()
        self._open_writer = open_writer
        self._collection = collection
        self._make = make
        self._name = name
        self._under_way = threading.Lock()  # held during a write, until its result, or the lack of one, is in the log
        self._writes: list[Write] = []
        self._doubtful: list[tuple[str, float]] = []

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """Pause the writer while the context is open; a write that is under way is finished first."""
        with self._under_way:
            yield

    def answered(self) -> list[Write]:
        """Return the writes that were answered so far."""
        return list(self._writes)

    def writes(self, since: float, until: float) -> list[Write]:
        """Return all writes that began in this period; the apiserver is asked about those without an answer.

        A write that is under way is waited for: its event may arrive before its answer.
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
        """Create one object; return False if the write has no answer or was refused."""
        with self._under_way:
            before = time.monotonic()
            try:
                self._writes.append(writer.create(self._collection, self._make(name)))
            except (OSError, http.client.HTTPException, StatusError):
                self._doubtful.append((name, before))
                return False
        return True
