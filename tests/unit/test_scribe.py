"""The log that samples are judged by is complete; tests/e2e/faults judges them."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from math import inf
from typing import Any

from tests.e2e.faults.scribe import Scribe
from tests.support.writer import Write, Writer

AT_ONCE_SECONDS = 0.1


class Slow(Writer):
    """What it creates is done at once, but answered only when that is `allowed`."""

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


def test_a_write_that_is_under_way_is_in_the_log() -> None:
    slow = Slow()
    with Scribe(lambda: slow, "/api/v1/configmaps", of_revision, "slow") as scribe, ThreadPoolExecutor() as threads:
        slow.done.wait()
        until = time.monotonic()
        asked = threads.submit(scribe.writes, -inf, until)
        wait([asked], AT_ONCE_SECONDS)  # a log that waits for no answer says at once that there is none
        slow.allowed.set()
        assert [write.revision for write in asked.result()] == [7]
