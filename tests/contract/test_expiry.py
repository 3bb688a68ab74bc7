"""410: when a revision is too old, and how a watch continues."""

import itertools
import re
from collections.abc import Iterator, Sequence

from tests.contract.backend import real
from tests.contract.cluster import CONFIGMAPS, EVENTS, Author, Cluster, RealCluster
from tests.contract.watch import Event, Watch, frames, now, opened, revision_of, up_to, watching
from tests.support.writer import Writer
from watchslo.kube.client import Client
from watchslo.watch.decode import Error
from watchslo.watch.failure import Phase, Reason, classify_stream_error
from watchslo.watch.messages import BookmarkSeen, Expired, Fact, WatchClosed
from watchslo.watch.strategy import STRATEGIES, STREAM

REGULAR_SECONDS = 45.0  # all watches have a bookmark after about a minute


async def test_uncached_watch_from_a_compacted_revision_gets_410_as_an_event(
    client: Client, cluster: Cluster, event_author: Author
) -> None:
    old = await event_author.create("object")
    await event_author.change("object")
    await event_author.change("object")
    await cluster.compact()
    async with opened(client, event_author, old, timeout=60) as stream:
        ((_, error),) = [arrived async for arrived in frames(stream)]
    assert isinstance(error, Error)
    assert (error.object.code, error.object.reason) == (410, "Expired")
    assert classify_stream_error(error.object).reason is Reason.EXPIRED


async def test_cached_watch_resumes_after_a_compaction(client: Client, cluster: Cluster, author: Author) -> None:
    watch = Watch(client, CONFIGMAPS, author.namespace)
    async with watching(watch):
        written = [await author.create("object")]
        await watch.until_seen(written[0])
        with watch.while_closed():
            written += [await author.change("object") for _ in range(3)]
            await cluster.compact()
        await watch.until_seen(written[-1])
    assert [event.revision for event in watch.events] == written
    assert not watch.said(Expired)


async def test_open_watches_survive_a_compaction(
    client: Client, cluster: Cluster, author: Author, event_author: Author
) -> None:
    cached, uncached = (Watch(client, one.resource, one.namespace) for one in (author, event_author))
    async with watching(cached, uncached):
        await cached.until_seen(await author.create("object"))
        await uncached.until_seen(await event_author.create("object"))  # else etcd may not have delivered it yet
        await cluster.compact()
        await cached.until_seen(await author.change("object"))
        await uncached.until_seen(await event_author.change("object"))
        assert cached.closed() == uncached.closed() == []


@real("a simulated apiserver is not restarted")
async def test_restart_of_the_apiserver_closes_watches_cleanly_and_empties_caches(
    client: Client, cluster: Cluster, author: Author, event_author: Author, writer: Writer
) -> None:
    by_strategy = {
        strategy: Watch(client, CONFIGMAPS, author.namespace, strategy=strategy) for strategy in STRATEGIES.values()
    }
    cached = [*by_strategy.values()]
    uncached = Watch(client, EVENTS, event_author.namespace)
    async with watching(*cached, uncached):
        before = await author.create("object")
        for watch in cached:
            await watch.until_seen(before)
        revisions = [await event_author.create("object")]  # newer than what the first watches have seen
        await uncached.until_seen(revisions[0])
        assert isinstance(cluster, RealCluster)
        await cluster.restart()
        await cluster.until_ready()
        writer.close()  # its connection is to the old process
        for watch in cached:
            await watch.until_said(Expired)
        for watch in (*cached, uncached):
            await watch.until_watching()
        after = await author.change("object")
        revisions.append(await event_author.change("object"))
        for watch in cached:
            await watch.until_seen(after)
        await uncached.until_seen(revisions[-1])
    for strategy, watch in by_strategy.items():
        assert watch.closed()[0] is Reason.FORCED
        lived = watch.said(WatchClosed)[0].lived or 0.0
        if strategy is not STREAM and lived < REGULAR_SECONDS:  # it may have a bookmark a second after its list
            assert not any(isinstance(fact, BookmarkSeen) for fact in until_closed(watch.facts))
        assert watch.said(Expired) == [Expired(Phase.STREAM)]
        assert watch.events == [Event("ADDED", before), Event("MODIFIED", after)]
    assert uncached.closed()[0] is Reason.FORCED
    assert [event.revision for event in uncached.events] == revisions
    assert not uncached.said(Expired)
    await expect_oldest_to_be_named(client, author, before)


def until_closed(facts: Sequence[Fact]) -> Iterator[Fact]:
    """Return the facts up to the end of a watch."""
    return itertools.takewhile(lambda fact: not isinstance(fact, WatchClosed), facts)


async def expect_oldest_to_be_named(client: Client, author: Author, old: int) -> None:
    """Expect that a watch from `old` ends with an error that names the oldest acceptable revision."""
    async with opened(client, author, old, timeout=60) as stream:
        ((_, error),) = [arrived async for arrived in frames(stream)]
    assert isinstance(error, Error)
    assert (error.object.code, error.object.reason) == (410, "Expired")
    assert classify_stream_error(error.object).reason is Reason.EXPIRED
    named = re.fullmatch(rf"too old resource version: {old} \((\d+)\)", error.object.message or "")
    assert named
    oldest = int(named[1])
    assert old < oldest <= await now(client)
    created = await author.create("another")
    async with opened(client, author, oldest, timeout=60) as stream:
        assert [revision_of(frame) async for _, frame in up_to(created, stream)][-1] == created
    async with opened(client, author, oldest - 1, timeout=60) as stream:
        assert [type(frame) async for _, frame in frames(stream)] == [Error]
