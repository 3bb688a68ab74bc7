"""What is counted while an informer starts, by each strategy, and what is found out of how long it may be away."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.monitor.cluster import EVENTS, PODS, Cluster, Door, Watch, because_of, line
from watchslo.kube.client import Page
from watchslo.kube.representation import Representation
from watchslo.model import SERVICE
from watchslo.monitor.rehearsal import Chronicle, Rehearsal, rehearse_once
from watchslo.watch.failure import Failure, Reason
from watchslo.watch.messages import ListRequest, WatchRequest
from watchslo.watch.strategy import CACHE, PARALLEL, STREAM, TAIL

PAGE_SECONDS = 0.1
END = {"resourceVersion": "103", "annotations": {"k8s.io/initial-events-end": "true"}}
BOOKMARK = json.dumps({"type": "BOOKMARK", "object": {"metadata": END}}).encode() + b"\n"


@pytest.fixture
def client(cluster: Cluster) -> Any:
    return Door(cluster, SERVICE, lambda *_: None)


async def rehearse(strategy: Any, client: Any) -> Rehearsal:
    return await rehearse_once(strategy, client, PODS, None, lambda: 0.5)


def slow_pages(client: Any, cluster: Cluster, pages: int) -> None:
    """A list takes so many pages, and each its time; then something is written."""

    async def list_page(_: Any, __: Any, ___: Any, request: ListRequest, *____: Any, **_____: Any) -> Page:
        await asyncio.sleep(PAGE_SECONDS)
        number = int(request.continue_token or 1)
        revision = 100  # of them all: they are of one moment
        cluster.write(PODS)
        return Page(revision, 500, 1000, str(number + 1) if number < pages else None, 0.0, 0.0)

    client.list_page = list_page


def answer_streamed_lists(client: Any, cluster: Cluster, *said: bytes | Failure) -> None:
    """A watch without a revision is refused, or brings this."""
    ordinary = client.watch

    @contextlib.asynccontextmanager
    async def watch(*question: Any, **options: Any) -> AsyncIterator[Watch | Failure]:
        request: WatchRequest = question[3]
        if request.revision is not None:
            async with ordinary(*question, **options) as opened:
                yield opened
        elif isinstance(said[0], Failure):
            yield said[0]
        else:
            streamed = Watch(PODS, cluster.revision, Representation.PLAIN)
            for lines in said:
                streamed.send(lines)
            yield streamed

    client.watch = watch


async def test_parallel_has_events_wait_for_the_last_page(client: Any, cluster: Cluster) -> None:
    slow_pages(client, cluster, pages=4)
    run = await rehearse(PARALLEL, client)
    assert run.synced == pytest.approx(4 * PAGE_SECONDS)
    assert (run.requests, run.pages, run.objects) == (5, 4, 2000)
    assert run.events == 2, "of the second and the third page; the last one is synced by then"
    assert run.waiting == 2 * len(line("MODIFIED", 102))
    assert run.size == 4000 + run.waiting


async def test_stream_tells_objects_from_events(client: Any, cluster: Cluster) -> None:
    objects = b"".join(line("ADDED", revision) for revision in (90, 95, 100))
    answer_streamed_lists(client, cluster, objects, line("MODIFIED", 101), BOOKMARK, line("MODIFIED", 104))
    run = await rehearse(STREAM, client)
    assert run.synced is not None
    assert (run.requests, run.pages, run.objects, run.events) == (1, 0, 3, 1)
    assert run.size == len(objects + line("MODIFIED", 101) + BOOKMARK)
    assert run.waiting == 0
    assert (run.by, run.fell_back) == ("stream", False)


async def test_stream_falls_back(client: Any, cluster: Cluster) -> None:
    answer_streamed_lists(client, cluster, because_of(Reason.NO_STREAMED_LISTS))
    run = await rehearse(STREAM, client)
    assert run.synced is not None
    assert (run.by, run.fell_back, run.failure) == ("paged", True, None)
    assert (run.requests, run.pages, run.objects) == (4, 2, 6)


@pytest.mark.parametrize("strategy", [TAIL, CACHE])
async def test_one_answer_tells_all(client: Any, strategy: Any) -> None:
    run = await rehearse(strategy, client)
    assert run.synced == pytest.approx(0.004)
    assert (run.requests, run.pages) == (2, 1)


async def test_what_comes_once_it_is_synced_is_not_counted(client: Any, cluster: Cluster) -> None:
    asyncio.get_running_loop().call_later(0.5, cluster.write, PODS)
    run = await rehearse(TAIL, client)
    assert (run.events, run.size) == (0, 1000)


async def test_nothing_is_left(client: Any, cluster: Cluster) -> None:
    await rehearse(PARALLEL, client)
    assert not cluster.open_watches()


# How long one may be away


async def chronicled(client: Any, cluster: Cluster, *, drops: int = 0) -> Any:
    """Ten rehearsals of a second each, ten changes in each, and what is said at the end.

    Of the first hundred revisions the cluster remembers half; so many more it forgets meanwhile.
    """
    cluster.oldest = 50
    chronicle = Chronicle(client, PODS, None)
    await chronicle.begin()
    for _ in range(10):
        for _ in range(10):
            cluster.write(PODS)
        await asyncio.sleep(1.0)
        await chronicle.note()
    cluster.oldest += drops
    return await chronicle.end()


async def test_what_is_older_than_the_rehearsals_is_reckoned_by_their_pace(client: Any, cluster: Cluster) -> None:
    found = await chronicled(client, cluster, drops=10)
    assert (found.oldest, found.revisions, found.complete) == (60, 140, False)
    assert (found.seconds.lower, found.seconds.upper) == (pytest.approx(10.0, abs=0.1), float("inf"))
    assert found.about == pytest.approx(14.0, abs=0.1)


async def test_what_is_younger_than_the_rehearsals_is_proven(client: Any, cluster: Cluster) -> None:
    found = await chronicled(client, cluster, drops=95)
    assert found.revisions == 55
    assert (found.seconds.lower, found.seconds.upper) == pytest.approx((5.0, 6.0), abs=0.1)
    assert found.about == pytest.approx(5.5, abs=0.1)


async def test_a_pace_that_contradicts_what_is_proven_is_not_believed(client: Any, cluster: Cluster) -> None:
    chronicle = Chronicle(client, PODS, None)
    await chronicle.begin()
    for _ in range(100):
        cluster.write(PODS)
    await chronicle.note()
    cluster.oldest = 150
    await asyncio.sleep(10.0)
    found = await chronicle.end()
    assert found is not None
    assert found.about == found.seconds.lower == pytest.approx(10.0, abs=0.1)


async def test_a_history_that_begins_where_it_did_has_lost_nothing(client: Any, cluster: Cluster) -> None:
    assert (await chronicled(client, cluster)).complete


async def test_without_changes_there_is_no_pace(client: Any, cluster: Cluster) -> None:
    cluster.oldest = 50
    chronicle = Chronicle(client, PODS, None)
    await chronicle.begin()
    await asyncio.sleep(10.0)
    found = await chronicle.end()
    assert found is not None
    assert (found.revisions, found.about, found.complete) == (50, None, True)


@pytest.mark.parametrize("kind", ["tick", "history"])
async def test_where_that_may_not_be_asked_nothing_is_known(client: Any, cluster: Cluster, kind: str) -> None:
    cluster.fail(Reason.FORBIDDEN, kind)
    assert await chronicled(client, cluster) is None


async def test_what_is_not_cached_depends_on_compactions(client: Any, cluster: Cluster) -> None:
    chronicle = Chronicle(client, EVENTS, None)
    await chronicle.begin()
    assert await chronicle.end() is None
    assert not cluster.count("history")


async def test_the_namespace_that_is_rehearsed_is_asked(client: Any, cluster: Cluster) -> None:
    cluster.namespace = "mine"
    chronicle = Chronicle(client, PODS, "mine")
    await chronicle.begin()
    assert await chronicle.end()
