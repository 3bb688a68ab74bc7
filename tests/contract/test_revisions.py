"""What revisions mean: the facts that the revision clock relies on."""

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.backend import real
from tests.contract.cluster import CONFIGMAPS, EVENTS, LEASES, NAMESPACES, NODES, PODS, Author, Cluster
from tests.contract.judge import get, refusal
from tests.contract.watch import EVERYTHING, read
from tests.support.writer import Write, Writer, configmap, given_up
from watchslo.kube.call import Page
from watchslo.kube.client import Client
from watchslo.kube.representation import Representation
from watchslo.model import Reading, Resource
from watchslo.watch.failure import Reason
from watchslo.watch.messages import ListRequest

BUSY_SECONDS = 2.0
ENOUGH = 50  # reads, and writes: a busy machine takes longer
FAR = 1_000_000
"""More revisions than all tests write."""


async def listed(client: Client, request: ListRequest, representation: Representation) -> int:
    page = await client.list_page(CONFIGMAPS, "default", EVERYTHING, request, representation)
    assert isinstance(page, Page), page
    assert page.revision is not None
    return page.revision


class Typewriter:
    """Writes as fast as the apiserver accepts it, in its own thread, and records every write."""

    def __init__(self, writer: Writer, collection: str) -> None:
        self.writes: list[Write] = []
        self._writer = writer
        self._collection = collection
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        self.writes.append(self._writer.create(self._collection, configmap("typed")))
        for number in itertools.count():
            if self._stop.is_set():
                return
            change = {"data": {"number": str(number)}}
            self.writes.append(self._writer.patch(f"{self._collection}/typed", change))


@pytest.fixture
def typewriter(cluster: Cluster, namespace: str) -> Iterator[Typewriter]:
    with cluster.writer() as writer:
        yield Typewriter(writer, CONFIGMAPS.path(namespace))


async def read_while_writing(client: Client, typewriter: Typewriter, *resources: Resource) -> list[Reading]:
    """Return consistent reads of resources, made while the typewriter writes."""
    readings: list[Reading] = []

    async def keep_reading(resource: Resource) -> None:
        end = time.monotonic() + BUSY_SECONDS
        while time.monotonic() < end or min(len(readings), len(typewriter.writes)) <= ENOUGH:
            readings.append(await read(client, resource))

    with typewriter:
        await asyncio.gather(*map(keep_reading, resources))
    return readings


def expect_all_finished_and_none_not_begun(readings: list[Reading], writes: list[Write]) -> None:
    """Expect that each reading covers every write that finished before it, and none that began after it."""
    for reading in readings:
        finished = [write.revision or 0 for write in writes if write.after < reading.sent]
        not_begun = [write.revision or 0 for write in writes if write.before > reading.answered]
        assert max(finished, default=0) <= reading.revision < min(not_begun, default=2**63)


async def test_consistent_read_covers_every_finished_write_and_no_later_one(
    client: Client, typewriter: Typewriter
) -> None:
    readings = await read_while_writing(client, typewriter, EVENTS, CONFIGMAPS, LEASES, NODES)
    expect_all_finished_and_none_not_begun(readings, typewriter.writes)


@real("a simulated cluster has one apiserver")
async def test_consistent_read_covers_every_finished_write_through_another_apiserver(
    split_client: Client, typewriter: Typewriter
) -> None:
    readings = await read_while_writing(split_client, typewriter, CONFIGMAPS, LEASES, NODES)
    expect_all_finished_and_none_not_begun(readings, typewriter.writes)


async def test_consistent_reads_of_all_resources_never_go_backwards(client: Client, typewriter: Typewriter) -> None:
    with typewriter:
        for _ in range(20):
            readings = [await read(client, resource) for resource in (EVENTS, CONFIGMAPS, LEASES, NODES, PODS)]
            revisions = [reading.revision for reading in readings]
            assert revisions == sorted(revisions)


async def test_revision_of_a_consistent_read_is_the_same_for_all_resources_and_forms(
    client: Client, author: Author
) -> None:
    await author.create("one")
    places = [(CONFIGMAPS, author.namespace), (CONFIGMAPS, "no-such-namespace"), (LEASES, "default"), (NODES, "")]
    requests = [ListRequest(absent_name=True), ListRequest(limit=1), ListRequest()]
    while True:
        before = await read(client, EVENTS)
        same = await asyncio.gather(
            *(listed(client, request, form) for request in requests for form in Representation),
            *((read(client, resource, namespace)) for resource, namespace in (*places, (NAMESPACES, ""))),
        )
        after = await read(client, EVENTS)
        if before.revision == after.revision:  # nothing was written in between
            assert {getattr(one, "revision", one) for one in same} == {before.revision}
            return


async def test_read_of_any_revision_returns_a_past_or_current_revision(
    client: Client, writer: Writer, author: Author
) -> None:
    created = await author.create("one")
    any_revision = await get(writer, CONFIGMAPS.path(author.namespace), resourceVersion="0")
    newest = await read(client, CONFIGMAPS)
    assert 0 < int(any_revision["metadata"]["resourceVersion"]) <= newest.revision
    assert created <= newest.revision


async def test_limit_is_ignored_in_a_list_of_any_revision(writer: Writer, author: Author) -> None:
    for number in range(3):
        newest = await author.create(f"object-{number}")
    path = CONFIGMAPS.path(author.namespace)
    await author.until_cached(newest)
    some = await get(writer, path, resourceVersion="0", limit="1")
    assert len(some["items"]) == 3
    assert "continue" not in some["metadata"]


async def get_not_older_than(writer: Writer, path: str, revision: int) -> Any:
    """Return a list; ask again if its cache is late for more than three seconds."""
    while True:
        with given_up():
            return await get(writer, path, resourceVersion=str(revision), resourceVersionMatch="NotOlderThan")


@pytest.mark.parametrize("resource", [CONFIGMAPS, EVENTS], ids=["cached", "uncached"])
async def test_list_not_older_than_returns_that_revision_or_a_newer_one(
    writer: Writer, author: Author, resource: Resource
) -> None:
    for number in range(5):
        created = await author.create(f"object-{number}")
        found = await get_not_older_than(writer, resource.path(), created)
        assert int(found["metadata"]["resourceVersion"]) >= created


async def test_cached_list_of_a_future_revision_waits_and_is_then_refused(client: Client, writer: Writer) -> None:
    future = str((await read(client, EVENTS)).revision + FAR)
    began = time.monotonic()
    failure = await refusal(writer, CONFIGMAPS.path("default"), resourceVersion=future)
    assert time.monotonic() - began > 2.5
    assert (failure.status, failure.reason, failure.retry_after) == (504, Reason.FUTURE_REVISION, 1)


async def test_uncached_list_of_a_future_revision_is_refused_at_once(client: Client, writer: Writer) -> None:
    future = str((await read(client, EVENTS)).revision + FAR)
    failure = await refusal(writer, EVENTS.path("default"), resourceVersion=future)
    assert (failure.status, failure.reason, failure.retry_after) == (504, Reason.FUTURE_REVISION, None)
