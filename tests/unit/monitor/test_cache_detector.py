"""Which caches are found, and what follows for ticks: everything but the cluster is real."""

import asyncio

import pytest

from tests.unit.monitor.cluster import EVENTS, PODS, START_REVISION, Cluster, Log, line
from tests.unit.monitor.inside import Running, config, keep_writing, running
from watchslo.model import Resource
from watchslo.monitor.cache_detector import MOST_READ
from watchslo.watch.failure import Reason

AGAIN_SECONDS = 120.0  # in place of an hour, which would take seconds of CPU


def caches(run: Running) -> dict[str, tuple[bool, bool]]:
    """Return for each watch whether its resource has a cache, and whether that was found."""
    return {stream.watch: (stream.cache.exists, stream.cache.found) for stream in run.snapshot().streams}


def ticks_on(run: Running) -> tuple[str, ...]:
    return run.snapshot().domains[0].ticks_on


def grow_old(cluster: Cluster, *uncached: str) -> None:
    """Let caches and the storage drop the oldest changes; exactly these resources have no cache."""
    cluster.uncached = {*uncached}
    cluster.oldest = cluster.compacted = START_REVISION - 50


async def reopen(cluster: Cluster, resource: Resource) -> None:
    cluster.send(resource)
    await asyncio.sleep(15)


async def test_usual_caches_are_confirmed_without_a_change(cluster: Cluster, log: Log) -> None:
    grow_old(cluster, "events")
    async with running(config("pods", "events")) as run:
        assert caches(run) == {"pods": (True, True), "events": (False, True)}
        assert ticks_on(run) == ("events",)
    assert not log.of("watch_cache")
    assert len(log.of("ticking")) == 1


async def test_cached_events_are_not_ticked_on_alone(cluster: Cluster, log: Log) -> None:
    grow_old(cluster)
    async with running(config("pods", "events")) as run:
        assert caches(run)["events"] == (True, True)
        assert ticks_on(run) == ("events", "pods")
        await keep_writing(cluster, EVENTS, PODS)
        await asyncio.sleep(10)
        assert run.stream("events").track.timespan.total == run.stream("pods").track.timespan.total == 600
    assert [(entry["resource"], entry["cached"]) for entry in log.of("watch_cache")] == [("events", True)]


async def test_uncached_resource_is_ticked_on_alone_instead_of_two_cached_ones(cluster: Cluster) -> None:
    grow_old(cluster, "events", "nodes")
    cluster.fail(Reason.FORBIDDEN, "tick", "events")
    async with running(config("pods", "nodes", "configmaps"), start=40) as run:
        assert caches(run)["nodes"] == (False, True)
        assert ticks_on(run) == ("nodes",)
        assert run.snapshot().domains[0].resets == 0


async def test_cache_that_was_switched_on_is_noticed_when_its_watch_opens_again(cluster: Cluster) -> None:
    grow_old(cluster, "events")
    async with running(config("pods", "events")) as run:
        grow_old(cluster)
        await reopen(cluster, EVENTS)
        assert caches(run)["events"] == (True, True)
        assert ticks_on(run) == ("events", "pods")
        assert run.not_ready() == ()


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


async def test_bookmark_proves_a_cache_in_a_young_cluster(cluster: Cluster) -> None:
    cluster.compacted = 0
    async with running(config("pods", "events")) as run:
        assert caches(run) == {"pods": (True, False), "events": (False, False)}
        cluster.send(EVENTS, line("BOOKMARK", cluster.revision))
        await asyncio.sleep(1)
        await reopen(cluster, EVENTS)
        assert caches(run)["events"] == (True, True)


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


async def test_failed_list_before_a_look_changes_nothing(cluster: Cluster) -> None:
    grow_old(cluster)
    cluster.revision = MOST_READ + 1
    cluster.fail(Reason.FORBIDDEN, "detect_cache", "events")
    async with running(config("events")) as run:
        assert cluster.count("detect_cache", "events") == 1
        assert caches(run)["events"] == (False, False)


async def test_apiservers_behind_one_address_cannot_show_that_a_cache_is_off(cluster: Cluster) -> None:
    grow_old(cluster, "events", "pods")
    cluster.leases = 2
    async with running(config("pods", "events")) as run:
        assert caches(run) == {"pods": (True, False), "events": (False, False)}


async def test_failure_to_look_changes_nothing(cluster: Cluster) -> None:
    grow_old(cluster)
    cluster.fail(Reason.FORBIDDEN, "detect_cache")
    async with running(config("pods", "events")) as run:
        assert caches(run) == {"pods": (True, False), "events": (False, False)}
        assert run.stream("events").membership == "member"


async def test_clock_of_another_storage_ticks_on_its_uncached_resource_alone(cluster: Cluster) -> None:
    grow_old(cluster, "events", "nodes")
    cluster.kept_with = {"pods": "other", "nodes": "other"}
    cluster.revisions["other"] = 5000
    async with running(config("configmaps", "pods", "nodes"), start=90) as run:
        (foreign,) = run.snapshot().domains[1:]
        assert foreign.ticks_on == ("nodes",)
