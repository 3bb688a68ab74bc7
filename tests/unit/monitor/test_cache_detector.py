"""Which caches are found, and what follows for ticks: everything but the cluster is real."""

import asyncio

import pytest

from tests.unit.monitor.cluster import EVENTS, PODS, START_REVISION, Cluster
from tests.unit.monitor.inside import Running, config, running
from watchslo.model import Resource
from watchslo.monitor.assignment.cache_detector import MOST_READ

AGAIN_SECONDS = 120.0  # in place of an hour, which would take seconds of CPU


def caches(run: Running) -> dict[str, tuple[bool, bool]]:
    """Return for each watch whether its resource has a cache, and whether that was found."""
    return {stream.watch: (stream.cache.exists, stream.cache.found) for stream in run.snapshot().watches}


def ticks_on(run: Running) -> tuple[str, ...]:
    return run.snapshot().domains[0].ticks_on


def grow_old(cluster: Cluster, *uncached: str) -> None:
    """Let caches and the storage drop the oldest changes; exactly these resources have no cache."""
    cluster.uncached = {*uncached}
    cluster.oldest = cluster.compacted = START_REVISION - 50


async def reopen(cluster: Cluster, resource: Resource) -> None:
    cluster.send(resource)
    await asyncio.sleep(15)


async def test_cache_that_was_switched_off_is_noticed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchslo.watch.watch_caches.AGAIN_SECONDS", AGAIN_SECONDS)
    grow_old(cluster, "events")
    async with running(config("pods", "events")) as run:
        grow_old(cluster, "events", "pods")
        await reopen(cluster, PODS)
        assert caches(run)["pods"] == (True, True)
        assert cluster.count("detect_cache", "pods") == 1
        await asyncio.sleep(AGAIN_SECONDS)
        await reopen(cluster, PODS)
        assert caches(run)["pods"] == (False, True)


@pytest.mark.parametrize("uncached", [True, False])
@pytest.mark.parametrize(("revision", "watches"), [(MOST_READ, 1), (MOST_READ + 1, 0)])
async def test_history_without_compaction_is_not_read(
    cluster: Cluster,
    revision: int,
    watches: int,
    uncached: bool,  # noqa: FBT001
) -> None:
    """In a young cluster, a watch of an uncached resource from the first revision would read all of it."""
    cluster.revision, cluster.compacted, cluster.oldest = revision, 0, 0
    cluster.uncached = {"events"} if uncached else set()
    async with running(config("pods", "events")) as run:
        assert cluster.count("detect_cache", "pods") == 1, "it has a cache"
        assert len(cluster.looked) == 1 + watches
        assert caches(run)["events"] == (False, False)
        cluster.compacted = revision - 10
        await reopen(cluster, EVENTS)
        assert caches(run)["events"][1] is uncached
