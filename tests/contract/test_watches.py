"""Watches: their start, their events, their end, and that no event is lost between two of them."""

import asyncio
import time
from collections.abc import Callable

import pytest

from tests.contract.backend import Backend
from tests.contract.cluster import CONFIGMAPS, EVENTS, JOBS, REPLICASETS, SECRETS, Author, Cluster, client_of
from tests.contract.watch import Event, Watch, frames, narrow_socket, now, opened, read, revision_of, up_to, watching
from tests.support.writer import Writer, configmap
from watchslo.kube import connections
from watchslo.kube.client import Client
from watchslo.kube.representation import Representation
from watchslo.model import Resource
from watchslo.watch.decode import Bookmark
from watchslo.watch.failure import Reason
from watchslo.watch.messages import (
    BookmarkSeen,
    Relisted,
    RelistReason,
    Violated,
    WatchClosed,
)

PROGRESS_SECONDS = 3.0
"""After a list, etcd may still report its progress to the cache: the apiserver polls it every 100 ms during lists."""
TRIES = 3  # a busy etcd may answer such a poll even later
ALL_FORMS = pytest.mark.parametrize("representation", list(Representation))


def started_once(watch: Watch) -> bool:
    """Return whether it never relisted, and never received an event twice."""
    return [fact.reason for fact in watch.said(Relisted)] == [RelistReason.START] and not watch.said(Violated)


async def test_write_without_a_change_causes_no_event(client: Client, author: Author, writer: Writer) -> None:
    watch = Watch(client, CONFIGMAPS, author.namespace)
    async with watching(watch):
        created = await author.create("object")
        path = f"{CONFIGMAPS.path(author.namespace)}/object"
        write = await asyncio.to_thread(writer.patch, path, {"metadata": {"labels": {"absent": None}}})
        assert write.revision == created
        changed = await author.change("object")
        await watch.until_seen(changed)
    assert watch.events == [Event("ADDED", created), Event("MODIFIED", changed)]


async def test_watch_ends_at_its_deadline_and_the_next_one_continues(
    client: Client, author: Author, event_author: Author, watches_end_after: Callable[[int], None]
) -> None:
    watches_end_after(2)
    watches = {one.resource: Watch(client, one.resource, one.namespace) for one in (author, event_author)}
    written: dict[Resource, list[int]] = {one.resource: [await one.create("object")] for one in (author, event_author)}
    async with watching(*watches.values()):
        while not all(Reason.DEADLINE in watch.closed() for watch in watches.values()):
            for one in (author, event_author):
                written[one.resource].append(await one.change("object"))
        for resource, watch in watches.items():
            await watch.until_watching()
            await watch.until_seen(written[resource][-1])
    for resource, watch in watches.items():
        assert [event.revision for event in watch.events] == written[resource][1:]
        assert started_once(watch)


@ALL_FORMS
async def test_line_of_a_megabyte_is_one_event(client: Client, author: Author, representation: Representation) -> None:
    author.body = configmap("", size=1_000_000)
    watch = Watch(client, CONFIGMAPS, author.namespace, representation=representation)
    async with watching(watch):
        created = await author.create("large")
        changed = await author.change("large")
        await watch.until_seen(changed)
    assert watch.events == [Event("ADDED", created), Event("MODIFIED", changed)]


async def test_hundreds_of_watches_of_one_client_are_open_at_once(client: Client, author: Author) -> None:
    watches = [Watch(client, CONFIGMAPS, author.namespace) for _ in range(150)]
    async with watching(*watches):
        created = await author.create("object")
        for watch in watches:
            await watch.until_seen(created)
    assert all(watch.events == [Event("ADDED", created)] for watch in watches)


async def test_bookmark_comes_two_seconds_before_the_deadline_if_the_cache_has_a_newer_revision(
    client: Client, author: Author, event_author: Author, backend: Backend, watches_end_after: Callable[[int], None]
) -> None:
    watches_end_after(20)
    for number in range(TRIES):
        if await _idle_watch_stays_behind(client, author, event_author, backend, f"object-{number}"):
            return
    pytest.fail("caches always learn of revisions that nothing asked them for")


async def _idle_watch_stays_behind(
    client: Client, author: Author, event_author: Author, backend: Backend, name: str
) -> bool:
    """Return True if a cache that was asked for nothing got no bookmark of a newer revision; assert all other facts."""
    busy = [Watch(client, CONFIGMAPS, author.namespace, representation=form) for form in Representation]
    uncached = Watch(client, EVENTS, event_author.namespace)
    idle, asked = Watch(client, REPLICASETS), Watch(client, JOBS)

    async def bookmarked(watch: Watch) -> float:
        await watch.until_said(BookmarkSeen)
        return time.monotonic()

    async with watching(*busy, uncached, idle, asked):
        await asyncio.sleep(PROGRESS_SECONDS)
        began = time.monotonic()
        await event_author.create(name)
        created = await author.create(name)
        await read(client, JOBS)  # the answer waits until the cache has reached this revision
        for at in await asyncio.gather(*map(bookmarked, busy)):
            assert at - began > 1.0
        for watch in (*busy, uncached, idle, asked):
            await watch.until_said(WatchClosed)
        if backend.consistent_from_cache:
            await asked.until_said(BookmarkSeen)
        for watch in (*busy, uncached, idle, asked):
            await watch.until_watching()  # a loop that closes during a TLS handshake leaves a transport open
    for watch in busy:
        assert watch.events == [Event("ADDED", created)]
        bookmark, closed = (
            next(place for place, fact in enumerate(watch.facts) if isinstance(fact, kind))
            for kind in (BookmarkSeen, WatchClosed)
        )
        assert bookmark < closed
        assert watch.said(BookmarkSeen)[-1].revision >= created
    assert uncached.said(BookmarkSeen) == []
    assert bool(asked.said(BookmarkSeen)) is backend.consistent_from_cache
    return all(bookmark.revision < created for bookmark in idle.said(BookmarkSeen))


async def test_bookmark_never_repeats_a_replayed_revision(client: Client, author: Author) -> None:
    revision = await now(client)
    created = await author.create("object")
    for _ in range(TRIES):  # its three seconds may pass before the replay
        async with opened(client, author, revision, timeout=3) as stream:
            found = [frame async for _, frame in frames(stream)]
        if any(not isinstance(frame, Bookmark) for frame in found):
            break
    assert [revision_of(frame) for frame in found if not isinstance(frame, Bookmark)] == [created]
    marks = [int(frame.object.metadata.resource_version or 0) for frame in found if isinstance(frame, Bookmark)]
    assert all(mark > created for mark in marks)


# The bytes of single watches


async def test_watch_of_a_quiet_resource_opens_at_once(client: Client, any_author: Author) -> None:
    revision = await now(client)
    began = time.monotonic()
    async with opened(client, any_author, revision, timeout=1) as stream:
        assert [frame async for frame in frames(stream)] == []
    assert time.monotonic() - began > 0.9
    async with opened(client, any_author, revision, timeout=60) as stream:
        created = await any_author.create("object")  # the first event ever: the watch opened without one
        assert [revision_of(frame) async for _, frame in up_to(created, stream)] == [created]


async def test_watch_from_a_future_revision_is_silent_until_that_revision(client: Client, any_author: Author) -> None:
    await any_author.create("object")
    future = await now(client) + 20
    async with opened(client, any_author, future, timeout=60) as stream:
        revisions = [await any_author.change("object") for _ in range(25)]
        seen = [revision_of(frame) async for _, frame in up_to(revisions[-1], stream)]
    assert seen == [revision for revision in revisions if revision > future]
    assert 0 < len(seen) < len(revisions)


async def test_watch_of_a_slow_consumer_is_closed_and_resumes_without_loss(
    cluster: Cluster, writer: Writer, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A resource with few writes: apiservers give each watch a queue for the events of a second.
    author = Author(writer, SECRETS, namespace, {"data": {"filling": "eHh4" * 50_000}})
    monkeypatch.setattr(connections, "_socket", narrow_socket)
    async with client_of(cluster.access()) as client:
        revision = await now(client)
        written = [await author.create("large")]
        async with opened(client, author, revision, timeout=30, representation=Representation.PLAIN) as stream:
            written += [await author.change("large") for _ in range(60)]
            seen = [revision_of(frame) async for _, frame in frames(stream)]
        assert 0 < len(seen) < len(written)
        async with opened(client, author, seen[-1], timeout=60) as stream:
            seen += [revision_of(frame) async for _, frame in up_to(written[-1], stream)]
    assert seen == written
