"""What revisions mean: the facts that the revision clock relies on."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterator

from tests.contract.backend import real
from tests.contract.cluster import CONFIGMAPS, EVENTS, LEASES, NAMESPACES, NODES, PODS, Author, Cluster
from tests.contract.judge import refusal
from tests.contract.watch import EVERYTHING, read
from tests.support.background import repeated
from tests.support.writer import Write, Writer, configmap
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


@contextlib.contextmanager
def typing(cluster: Cluster, namespace: str) -> Iterator[list[Write]]:
    """Write as fast as the apiserver accepts it while the context is open; the list gets every write."""
    collection, numbers = CONFIGMAPS.path(namespace), itertools.count()
    with cluster.writer() as writer:
        writes = [writer.create(collection, configmap("typed"))]

        def change() -> None:
            writes.append(writer.patch(f"{collection}/typed", {"data": {"number": str(next(numbers))}}))

        with repeated(0.0, change):
            yield writes


async def read_while_writing(client: Client, writes: list[Write], *resources: Resource) -> list[Reading]:
    """Return consistent reads of resources, made while the writes are."""
    readings: list[Reading] = []

    async def keep_reading(resource: Resource) -> None:
        end = time.monotonic() + BUSY_SECONDS
        while time.monotonic() < end or min(len(readings), len(writes)) <= ENOUGH:
            readings.append(await read(client, resource))

    await asyncio.gather(*map(keep_reading, resources))
    return readings


def expect_all_finished_and_none_not_begun(readings: list[Reading], writes: list[Write]) -> None:
    """Expect that each reading covers every write that finished before it, and none that began after it."""
    for reading in readings:
        finished = [write.revision or 0 for write in writes if write.after < reading.sent]
        not_begun = [write.revision or 0 for write in writes if write.before > reading.answered]
        assert max(finished, default=0) <= reading.revision < min(not_begun, default=2**63)


async def test_consistent_read_covers_every_finished_write_and_no_later_one(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    with typing(cluster, namespace) as writes:
        readings = await read_while_writing(client, writes, EVENTS, CONFIGMAPS, LEASES, NODES)
    expect_all_finished_and_none_not_begun(readings, writes)


@real("a simulated cluster has one apiserver")
async def test_consistent_read_covers_every_finished_write_through_another_apiserver(
    split_client: Client, cluster: Cluster, namespace: str
) -> None:
    with typing(cluster, namespace) as writes:
        readings = await read_while_writing(split_client, writes, CONFIGMAPS, LEASES, NODES)
    expect_all_finished_and_none_not_begun(readings, writes)


async def test_consistent_reads_of_all_resources_never_go_backwards(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    with typing(cluster, namespace):
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
