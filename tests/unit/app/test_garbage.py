"""What the garbage collector looks at."""

import gc
import time
from collections.abc import Iterator
from weakref import ref

import pytest

from watchslo.app.garbage import FULL_SECONDS, GarbageCollection


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


def test_objects_are_left_out_until_the_full_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    collection = GarbageCollection()
    left = ref(Cycle())
    collection.after_evaluation(None)
    gc.collect()
    assert left() is not None
    start = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: start + FULL_SECONDS + 1)
    collection.after_evaluation(None)
    assert left() is None


def test_newer_objects_are_collected() -> None:
    GarbageCollection().after_evaluation(None)
    new = ref(Cycle())
    gc.collect()
    assert new() is None


def test_python_starts_no_full_collection_by_itself() -> None:
    GarbageCollection()
    before = gc.get_stats()[2]["collections"]
    kept: list[list[int]] = [[] for _ in range(200_000)]
    assert gc.get_stats()[1]["collections"] > 0
    assert gc.get_stats()[2]["collections"] == before
    assert len(kept) == 200_000
