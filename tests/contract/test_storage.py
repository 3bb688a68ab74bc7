"""The storage behind an apiserver: what a reader sees of it is etcd's, and not kine's."""

from tests.contract.cluster import Author, Cluster
from watchslo.kube.client import Client
from watchslo.monitor.storage_prober import find_kind
from watchslo.snapshot import StorageKind
from watchslo.watch.failure import ENDED, Failure


async def test_storage_is_recognised_by_its_compaction(client: Client, cluster: Cluster, author: Author) -> None:
    """The changes after the compaction move neither its revision nor what a watch may begin from."""
    await author.create("object")
    await cluster.compact()
    await author.change("object")
    while isinstance(found := await find_kind(client, "default"), Failure):  # a watch of a second may end too early
        assert found == ENDED
    assert found is StorageKind.SEQUENCE
