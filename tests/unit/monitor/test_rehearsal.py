"""What is counted while an informer starts, by each strategy."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.monitor.cluster import PODS, Cluster, Watch, because_of, line
from watchslo.kube.client import Page
from watchslo.kube.representation import Representation
from watchslo.monitor.rehearsal import Rehearsal, rehearse_once
from watchslo.watch.failure import Failure, Reason
from watchslo.watch.messages import ListRequest, WatchRequest
from watchslo.watch.strategy import CACHE, PARALLEL, STREAM, TAIL

PAGE_SECONDS = 0.1
END = {"resourceVersion": "103", "annotations": {"k8s.io/initial-events-end": "true"}}
BOOKMARK = json.dumps({"type": "BOOKMARK", "object": {"metadata": END}}).encode() + b"\n"


async def rehearse(strategy: Any, cluster: Cluster) -> Rehearsal:
    return await rehearse_once(strategy, cluster, PODS, None, lambda: 0.5)  # type: ignore[arg-type]


def slow_pages(cluster: Cluster, pages: int) -> None:
    """A list takes so many pages, and each its time; then something is written."""

    async def list_page(_: Any, __: Any, ___: Any, request: ListRequest, *____: Any, **_____: Any) -> Page:
        await asyncio.sleep(PAGE_SECONDS)
        number = int(request.continue_token or 1)
        revision = 100  # of them all: they are of one moment
        cluster.write(PODS)
        return Page(revision, 500, 1000, str(number + 1) if number < pages else None, 0.0, 0.0)

    cluster.list_page = list_page  # type: ignore[method-assign,assignment]


def answer_streamed_lists(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *said: bytes | Failure) -> None:
    """A watch without a revision is refused, or brings this."""
    ordinary = cluster.watch

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

    monkeypatch.setattr(cluster, "watch", watch)


async def test_parallel_has_events_wait_for_the_last_page(cluster: Cluster) -> None:
    slow_pages(cluster, pages=4)
    run = await rehearse(PARALLEL, cluster)
    assert run.synced == pytest.approx(4 * PAGE_SECONDS)
    assert (run.requests, run.pages, run.objects) == (5, 4, 2000)
    assert run.events == 2, "of the second and the third page; the last one is synced by then"
    assert run.waiting == 2 * len(line("MODIFIED", 102))
    assert run.size == 4000 + run.waiting


async def test_stream_tells_objects_from_events(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = b"".join(line("ADDED", revision) for revision in (90, 95, 100))
    answer_streamed_lists(cluster, monkeypatch, objects, line("MODIFIED", 101), BOOKMARK, line("MODIFIED", 104))
    run = await rehearse(STREAM, cluster)
    assert run.synced is not None
    assert (run.requests, run.pages, run.objects, run.events) == (1, 0, 3, 1)
    assert run.size == len(objects + line("MODIFIED", 101) + BOOKMARK)
    assert run.waiting == 0
    assert (run.by, run.fell_back) == ("stream", False)


async def test_stream_falls_back(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_streamed_lists(cluster, monkeypatch, because_of(Reason.NO_STREAMED_LISTS))
    run = await rehearse(STREAM, cluster)
    assert run.synced is not None
    assert (run.by, run.fell_back, run.failure) == ("paged", True, None)
    assert (run.requests, run.pages, run.objects) == (4, 2, 6)


@pytest.mark.parametrize("strategy", [TAIL, CACHE])
async def test_one_answer_tells_all(cluster: Cluster, strategy: Any) -> None:
    run = await rehearse(strategy, cluster)
    assert run.synced == pytest.approx(0.004)
    assert (run.requests, run.pages) == (2, 1)


async def test_what_comes_once_it_is_synced_is_not_counted(cluster: Cluster) -> None:
    asyncio.get_running_loop().call_later(0.5, cluster.write, PODS)
    run = await rehearse(TAIL, cluster)
    assert (run.events, run.size) == (0, 1000)


async def test_nothing_is_left(cluster: Cluster) -> None:
    await rehearse(PARALLEL, cluster)
    assert not cluster.open_watches()
