"""What an informer costs until it is synced, by strategy, and how the headroom is measured."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.monitor.cluster import EVENTS, PODS, Cluster, Watch, because_of, line
from watchslo.kube.call import Page
from watchslo.kube.representation import Representation
from watchslo.rehearse.headroom import RehearsalRecord
from watchslo.rehearse.rehearsal import Rehearsal, rehearse_once
from watchslo.watch.failure import Failure, Reason
from watchslo.watch.messages import ListRequest, WatchRequest
from watchslo.watch.strategy import CACHE, PARALLEL, STREAM, TAIL

PAGE_SECONDS = 0.1
END = {"resourceVersion": "103", "annotations": {"k8s.io/initial-events-end": "true"}}
BOOKMARK = json.dumps({"type": "BOOKMARK", "object": {"metadata": END}}).encode() + b"\n"


async def rehearse(strategy: Any, client: Any) -> Rehearsal:
    return await rehearse_once(strategy, client, PODS, None, lambda: 0.5)


def slow_pages(client: Any, cluster: Cluster, pages: int) -> None:
    """Make a list take several pages, each with its own delay, and a write after it."""

    async def list_page(_: Any, __: Any, ___: Any, request: ListRequest, *____: Any, **_____: Any) -> Page:
        await asyncio.sleep(PAGE_SECONDS)
        number = int(request.continue_token or 1)
        revision = 100  # of all pages: they show one moment
        cluster.write(PODS)
        return Page(revision, 500, 1000, str(number + 1) if number < pages else None, 0.0, 0.0)

    client.list_page = list_page


def answer_streamed_lists(client: Any, cluster: Cluster, *said: bytes | Failure) -> None:
    """Refuse a watch without a revision, or answer it with these bytes."""
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


async def test_parallel_list_makes_events_wait_for_the_last_page(client: Any, cluster: Cluster) -> None:
    slow_pages(client, cluster, pages=4)
    run = await rehearse(PARALLEL, client)
    assert run.synced == pytest.approx(4 * PAGE_SECONDS)
    assert (run.requests, run.pages, run.objects) == (5, 4, 2000)
    assert run.events == 2, "of the second and the third page; the last one is synced by then"
    assert run.waiting == 2 * len(line("MODIFIED", 102))
    assert run.size == 4000 + run.waiting
    assert not cluster.open_watches()


async def test_streamed_list_separates_objects_from_events(client: Any, cluster: Cluster) -> None:
    objects = b"".join(line("ADDED", revision) for revision in (90, 95, 100))
    answer_streamed_lists(client, cluster, objects, line("MODIFIED", 101), BOOKMARK, line("MODIFIED", 104))
    run = await rehearse(STREAM, client)
    assert run.synced is not None
    assert (run.requests, run.pages, run.objects, run.events) == (1, 0, 3, 1)
    assert run.size == len(objects + line("MODIFIED", 101) + BOOKMARK)
    assert run.waiting == 0
    assert (run.by, run.fell_back) == ("stream", False)


async def test_streamed_list_falls_back(client: Any, cluster: Cluster) -> None:
    answer_streamed_lists(client, cluster, because_of(Reason.NO_STREAMED_LISTS))
    run = await rehearse(STREAM, client)
    assert run.synced is not None
    assert (run.by, run.fell_back, run.failure) == ("paged", True, None)
    assert (run.requests, run.pages, run.objects) == (4, 2, 6)


@pytest.mark.parametrize("strategy", [TAIL, CACHE])
async def test_single_answer_is_enough_to_sync(client: Any, strategy: Any) -> None:
    run = await rehearse(strategy, client)
    assert run.synced == pytest.approx(0.004)
    assert (run.requests, run.pages) == (2, 1)


async def test_events_after_the_sync_are_not_counted(client: Any, cluster: Cluster) -> None:
    asyncio.get_running_loop().call_later(0.5, cluster.write, PODS)
    run = await rehearse(TAIL, client)
    assert (run.events, run.size) == (0, 1000)


# Headroom


async def headroom_after_rehearsals(client: Any, cluster: Cluster, *, drops: int = 0) -> Any:
    """Return the headroom after ten rehearsals of a second each, with ten changes in each.

    The cluster has kept the newer half of the first hundred revisions; it drops `drops` more during the rehearsals.
    """
    cluster.oldest = cluster.revision - 50
    record = RehearsalRecord(client, PODS, None)
    await record.begin()
    for _ in range(10):
        for _ in range(10):
            cluster.write(PODS)
        await asyncio.sleep(1.0)
        await record.note()
    cluster.oldest += drops
    return await record.end()


@pytest.mark.parametrize(
    ("drops", "revisions", "seconds", "about", "complete"),
    [
        (0, 150, (10.0, float("inf")), None, True),
        (10, 140, (10.0, float("inf")), None, False),
        (95, 55, (5.0, 6.0), 5.5, False),
    ],
    ids=["unmoved", "older than the rehearsals", "younger, so it is proven"],
)
async def test_headroom_is_never_estimated_beyond_the_rehearsals(
    client: Any,
    cluster: Cluster,
    drops: int,
    revisions: int,
    seconds: tuple[float, float],
    about: float | None,
    *,
    complete: bool,
) -> None:
    found = await headroom_after_rehearsals(client, cluster, drops=drops)
    assert (found.oldest, found.revisions, found.complete) == (50 + drops, revisions, complete)
    assert (found.seconds.lower, found.seconds.upper) == pytest.approx(seconds, abs=0.1)
    assert found.about == (about and pytest.approx(about, abs=0.1))


async def test_headroom_without_changes_has_no_estimate(client: Any, cluster: Cluster) -> None:
    cluster.oldest = 50
    record = RehearsalRecord(client, PODS, None)
    await record.begin()
    await asyncio.sleep(10.0)
    found = await record.end()
    assert found is not None
    assert (found.revisions, found.about, found.complete) == (50, None, True)


async def test_headroom_of_commit_times_is_not_counted(client: Any, cluster: Cluster) -> None:
    cluster.revision = 1_753_647_547_040_015_001
    found = await headroom_after_rehearsals(client, cluster)
    assert found.oldest > 10**18
    assert found.revisions is None


@pytest.mark.parametrize("kind", ["tick", "headroom"])
async def test_headroom_is_unknown_if_requests_fail(client: Any, cluster: Cluster, kind: str) -> None:
    cluster.fail(Reason.FORBIDDEN, kind)
    assert await headroom_after_rehearsals(client, cluster) is None


async def test_headroom_of_uncached_resource_is_unknown(client: Any, cluster: Cluster) -> None:
    record = RehearsalRecord(client, EVENTS, None)
    await record.begin()
    assert await record.end() is None
    assert not cluster.count("headroom")


async def test_headroom_is_read_in_the_rehearsed_namespace(client: Any, cluster: Cluster) -> None:
    cluster.namespace = "mine"
    record = RehearsalRecord(client, PODS, "mine")
    await record.begin()
    assert await record.end()
