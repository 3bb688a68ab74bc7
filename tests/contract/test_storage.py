"""The storage behind an apiserver: what a reader sees of it is etcd's, and not kine's."""

from tests.contract.cluster import Author, Cluster
from tests.contract.watch import now
from watchslo.kube.client import Client
from watchslo.monitor.apiservers.oldest_revision import Found, find_oldest, try_list
from watchslo.monitor.assignment.storage_prober import find_kind
from watchslo.snapshot import StorageKind
from watchslo.watch.headroom import Accepted, TooOld

TRIES = 20  # a busy machine may delay what it receives


async def test_storage_is_recognised_by_its_refusals(client: Client, cluster: Cluster, author: Author) -> None:
    await author.create("object")
    await author.change("object")
    await cluster.compact()
    found = [await find_kind(client, "default")]
    while found[-1] is not StorageKind.SEQUENCE and len(found) < TRIES:
        found.append(await find_kind(client, "default"))
    assert found[-1] is StorageKind.SEQUENCE
    assert StorageKind.KINE not in found


async def test_oldest_revision_of_a_storage_is_found_by_lists(
    client: Client, cluster: Cluster, event_author: Author
) -> None:
    """Only the first request is a watch, and it is refused: from another revision, etcd would read the past."""
    before = await event_author.create("object")
    for _ in range(3):
        await event_author.change("object")
    await cluster.compact()
    newest = await event_author.change("object")
    found = await _oldest(client, event_author, newest)
    assert before < found.oldest <= newest
    resource, namespace = event_author.resource, event_author.namespace
    assert await try_list(client, resource, namespace, found.oldest) == Accepted()
    assert await try_list(client, resource, namespace, before) == TooOld(None, by_storage=True)
    assert await now(client) >= newest


async def _oldest(client: Client, author: Author, newest: int) -> Found:
    while not isinstance(
        found := await find_oldest(client, author.resource, author.namespace, lambda: newest, _at_once), Found
    ):
        pass
    return found


async def _at_once() -> None:
    """Wait for no budget."""
