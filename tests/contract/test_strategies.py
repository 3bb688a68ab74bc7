"""Every strategy, from its first request to its next list: each write arrives once, in order and live."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.backend import only, real
from tests.contract.cluster import CONFIGMAPS, EVENTS, Author, Cluster, RealCluster
from tests.contract.watch import Event, Interrupted, Watch, starting, synced
from watchslo.kube.call import Page
from watchslo.kube.client import Client
from watchslo.kube.watch_response import WatchResponse
from watchslo.watch.failure import Failure, Phase, Reason, because
from watchslo.watch.messages import (
    Expired,
    FellBack,
    Gap,
    InitialEvents,
    ListDone,
    ListRequest,
    Relisted,
    RelistReason,
    TimeTravel,
    Violated,
    WatchRequest,
)
from watchslo.watch.strategy import CACHE, PAGED, PARALLEL, STRATEGIES, STREAM, TAIL, Strategy, StreamedLists

STREAMS_LISTS = only(lambda backend: backend.watch_list, "lists are streamed since 1.34, by default, and by 1.32")
EVERY_STRATEGY = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=lambda strategy: strategy.name)
PAGED_STRATEGIES = pytest.mark.parametrize("strategy", [PAGED, PARALLEL], ids=lambda strategy: strategy.name)
THERE = 5


class Busy:
    """An author that writes all the time. `written` are the revisions of all writes, in order."""

    def __init__(self, author: Author) -> None:
        self.written: list[int] = []
        self._author = author
        self._over = False
        self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        for number in range(THERE):
            self.written.append(await self._author.create(f"object-{number}"))
        await self._author.until_cached(self.written[-1])
        working = asyncio.create_task(self._work())
        try:
            yield
        finally:
            self._over = True
            await working

    async def more(self, _: ListRequest | None = None) -> None:
        """Wait for four more writes."""
        goal = len(self.written) + 4
        while len(self.written) < goal:
            self._changed.clear()
            await self._changed.wait()

    async def _work(self) -> None:
        while not self._over:
            self.written.append(await self._author.change("object-0"))
            self._changed.set()


@EVERY_STRATEGY
async def test_all_writes_after_the_list_arrive_once_and_in_order(
    client: Client, any_author: Author, strategy: Strategy
) -> None:
    busy = Busy(any_author)
    watch = Watch(client, any_author.resource, any_author.namespace, strategy=strategy, page_size=2, delay=busy.more)
    async with busy.at_work(), starting(watch):
        await watch.until_said(ListDone)
        await watch.until_watching()
        await busy.more()
        with watch.while_closed():
            await busy.more()
        await watch.until_watching()
        await busy.more()
        last = busy.written[-1]
        await watch.until_seen(last)
    (done,) = watch.said(ListDone)
    seen = [event.revision for event in watch.events]
    assert seen == [revision for revision in busy.written if done.revision < revision <= seen[-1]]
    assert seen[-1] >= last
    assert {event.type for event in watch.events} == {"MODIFIED"}
    assert done.items == (0 if strategy is TAIL else THERE)
    assert [fact.reason for fact in watch.said(Relisted)] == [RelistReason.START]
    assert not watch.said(Violated)


@EVERY_STRATEGY
async def test_strategy_relists_after_a_410_and_reports_the_gap(
    client: Client, cluster: Cluster, event_author: Author, strategy: Strategy
) -> None:
    await event_author.create("object")
    watch = Watch(client, EVENTS, event_author.namespace, strategy=strategy)
    async with synced(watch):
        seen = await event_author.change("object")
        await watch.until_seen(seen)
        with watch.while_closed():
            await event_author.change("object")
            missed = await event_author.change("object")
            await cluster.compact()
        await watch.until_said(ListDone, times=2)
        await watch.until_watching()
        live = await event_author.change("object")
        await watch.until_seen(live)
    assert watch.said(Expired) == [Expired(Phase.STREAM)]
    assert [fact.reason for fact in watch.said(Relisted)] == [RelistReason.START, RelistReason.EXPIRED]
    (gap,) = watch.said(Gap)
    assert (gap.after, gap.until) == (seen, watch.said(ListDone)[1].revision)
    assert seen < missed <= gap.until < live
    assert watch.events == [Event("MODIFIED", seen), Event("MODIFIED", live)]


# Lists with a compaction between two pages


@PAGED_STRATEGIES
@real("a simulated apiserver offers no token for the remaining objects")
async def test_list_with_an_expired_token_continues_with_the_offered_token(
    client: Client, cluster: Cluster, event_author: Author, strategy: Strategy
) -> None:
    for number in range(THERE):
        await event_author.create(f"object-{number}")
    watch = Interrupted(client, event_author, strategy)
    async with starting(watch):
        await watch.interruption.wait()
        concurrent = await event_author.create("zzz-concurrent")
        if strategy is PARALLEL:  # the parallel watch must bring it before the compaction
            await watch.until_seen(concurrent)
        await cluster.compact()
        watch.resume.set()
        await watch.until_said(ListDone)
        await watch.until_watching()
        live = await event_author.create("zzz-live")
        await watch.until_seen(live)
    assert watch.said(Expired) == [Expired(Phase.LIST)]
    assert [fact.reason for fact in watch.said(Relisted)] == [RelistReason.START]
    (done,) = watch.said(ListDone)
    assert (done.items, done.pages) == (THERE + 1, 3)
    assert concurrent <= done.revision < live
    happened = [Event("ADDED", concurrent), Event("ADDED", live)]
    assert watch.events == (happened if strategy is PARALLEL else happened[1:])
    assert sum(isinstance(request, ListRequest) for request in watch.requests) == 4


# Streamed lists


@STREAMS_LISTS
async def test_streamed_list_emits_no_live_events(client: Client, any_author: Author) -> None:
    for number in range(THERE):
        newest = await any_author.create(f"object-{number}")
    watch = Watch(client, any_author.resource, any_author.namespace, strategy=STREAM)
    async with synced(watch):
        changed = await any_author.change("object-0")
        await watch.until_seen(changed)
    assert sum(fact.count for fact in watch.said(InitialEvents)) == THERE  # reported in parts
    (done,) = watch.said(ListDone)
    assert (done.strategy, done.items) == (STREAM.name, THERE)
    assert newest <= done.revision < changed
    assert watch.events == [Event("MODIFIED", changed)]
    assert not any(isinstance(request, ListRequest) for request in watch.requests)


async def fall_back(client: Client, author: Author) -> None:
    """Expect that the first of two watches falls back to pages, and the second one starts with pages."""
    known = StreamedLists()
    created = await author.create("object")
    first, second = (
        Watch(client, author.resource, author.namespace, strategy=STREAM, streaming=known) for _ in range(2)
    )
    async with synced(first), synced(second):
        changed = await author.change("object")
        for watch in (first, second):
            await watch.until_seen(changed)
    for watch in (first, second):
        assert watch.events == [Event("MODIFIED", changed)]
        (done,) = watch.said(ListDone)
        assert (done.strategy, done.items) == (PAGED.name, 1)
        assert created <= done.revision < changed
    assert len(first.said(FellBack)) == 1
    assert asks_for_streamed_lists(first) == 1
    assert asks_for_streamed_lists(second) == 0


def asks_for_streamed_lists(watch: Watch) -> int:
    return sum(isinstance(request, WatchRequest) and request.revision is None for request in watch.requests)


async def test_streamed_list_falls_back_to_pages_once_where_the_gate_is_off(
    split_client: Client, author: Author
) -> None:
    await fall_back(split_client, author)


@only(lambda backend: not backend.watch_list, "lists are not streamed before 1.34, by default, except by 1.32")
async def test_streamed_list_falls_back_to_pages_once_where_the_gate_is_off_by_default(
    client: Client, any_author: Author
) -> None:
    await fall_back(client, any_author)


# Lists from a cache


class Balanced(Client):
    """A client behind a load balancer: lists go to one apiserver and watches to another, which can answer 410."""

    def __init__(self, lists: Client, watches: Client) -> None:
        self.forgets = False
        self._for_lists = lists
        self._for_watches = watches

    async def list_page(self, *question: Any, **how: Any) -> Page | Failure:
        return await self._for_lists.list_page(*question, **how)

    @contextlib.asynccontextmanager
    async def watch(self, *question: Any, **how: Any) -> AsyncIterator[WatchResponse | Failure]:
        if self.forgets:
            self.forgets = False
            yield because(Reason.EXPIRED, phase=Phase.OPEN)
            return
        async with self._for_watches.watch(*question, **how) as stream:
            yield stream


@real("a simulated cluster has one apiserver")
async def test_list_from_an_older_cache_is_time_travel_and_is_repeated_in_pages(
    split_cluster: RealCluster, split_client: Client, client: Client, author: Author
) -> None:
    client = Balanced(lists=split_client, watches=client)
    watch = Watch(client, CONFIGMAPS, author.namespace, strategy=CACHE)
    async with synced(watch):
        async with split_cluster.frozen():
            created = await author.create("object")
            await watch.until_seen(created)
            client.forgets = True
            with watch.while_closed():
                pass
            await watch.until_said(TimeTravel)
        await watch.until_said(ListDone, times=2)
        await watch.until_watching()
        changed = await author.change("object")
        await watch.until_seen(changed)
    assert [fact.back > 0 for fact in watch.said(TimeTravel)] == [True]
    assert [fact.strategy for fact in watch.said(ListDone)] == [CACHE.name, PAGED.name]
    assert watch.events == [Event("ADDED", created), Event("MODIFIED", changed)]
