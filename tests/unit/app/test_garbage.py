"""What the garbage collector looks at."""

import asyncio
import gc
import time
from collections.abc import Iterator
from dataclasses import replace
from weakref import ref

import pytest

from tests.unit.monitor.cluster import Cluster
from tests.unit.monitor.inside import config, running
from tests.unit.serve.readings import EMPTY, SNAPSHOT
from watchslo.app.garbage import FULL_SECONDS, LEAST_ENDED, GarbageCollection

EVALUATED_SECONDS = 10.0


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
    collection = GarbageCollection(lambda: 0)
    left = ref(Cycle())
    collection.after_evaluation(EMPTY)
    gc.collect()
    assert left() is not None
    start = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: start + FULL_SECONDS + 1)
    collection.after_evaluation(EMPTY)
    assert left() is None


def test_objects_are_collected_after_as_many_watches_have_ended_as_run() -> None:
    ended = 0
    collection = GarbageCollection(lambda: ended)
    many = replace(EMPTY, watches=SNAPSHOT.watches[:1] * 2 * LEAST_ENDED)
    for snapshot, least in ((EMPTY, LEAST_ENDED), (many, 2 * LEAST_ENDED)):
        left = ref(Cycle())
        ended += least - 1
        collection.after_evaluation(snapshot)
        assert left() is not None
        ended += 1
        collection.after_evaluation(snapshot)
        assert left() is None


async def test_nothing_is_kept_of_watches_that_a_reload_has_ended(cluster: Cluster) -> None:
    many = [[{"resource": "pods", "name": f"{name}{number}"} for number in range(LEAST_ENDED)] for name in "ab"]
    async with running(config(watch=many[0])) as run:
        run.supervisor.on_evaluation(GarbageCollection(lambda: run.supervisor.ended_watches).after_evaluation)
        ended = [ref(watch.session) for watch in run.supervisor._watches.all]
        await asyncio.sleep(EVALUATED_SECONDS)
        cluster.watches.clear()  # what is no part of the product must keep nothing either
        run.supervisor.configure(config(watch=many[1]))
        await asyncio.sleep(EVALUATED_SECONDS)
        assert [session() for session in ended] == [None] * LEAST_ENDED


def test_newer_objects_are_collected() -> None:
    GarbageCollection(lambda: 0).after_evaluation(EMPTY)
    new = ref(Cycle())
    gc.collect()
    assert new() is None


def test_python_starts_no_full_collection_by_itself() -> None:
    GarbageCollection(lambda: 0)
    before = gc.get_stats()[2]["collections"]
    kept: list[list[int]] = [[] for _ in range(200_000)]
    assert gc.get_stats()[1]["collections"] > 0
    assert gc.get_stats()[2]["collections"] == before
    assert len(kept) == 200_000
