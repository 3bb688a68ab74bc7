"""The write log that tests/lab compares samples with is complete."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from math import inf
from typing import Any

from tests.support.scribe import Scribe
from tests.support.writer import Write, Writer

AT_ONCE_SECONDS = 0.1


class Slow(Writer):
    """Creates objects at once, but answers only when `allowed` is set."""

    def __init__(self) -> None:
        super().__init__("http://never-asked.invalid")
        self.done = threading.Event()
        self.allowed = threading.Event()

    def create(self, collection: str, body: dict[str, Any]) -> Write:
        before, revision = time.monotonic(), int(body["data"]["revision"])
        self.done.set()
        self.allowed.wait()
        return Write("POST", collection, before, time.monotonic(), revision)


def of_revision(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"revision": "7"}}


def test_writes_waits_for_a_write_in_flight() -> None:
    slow = Slow()
    with Scribe(lambda: slow, "/api/v1/configmaps", of_revision, "slow") as scribe, ThreadPoolExecutor() as threads:
        slow.done.wait()
        until = time.monotonic()
        pending = threads.submit(scribe.writes, -inf, until)
        wait([pending], AT_ONCE_SECONDS)  # without waiting for the answer, the log would be empty
        slow.allowed.set()
        assert [write.revision for write in pending.result()] == [7]
