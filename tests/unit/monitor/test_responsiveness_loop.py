"""An apiserver that keeps its connections open and answers nothing: everything but the cluster is real."""

import asyncio

import pytest

from tests.unit.monitor.cluster import PODS, Cluster, Log
from tests.unit.monitor.inside import config, keep_writing, running
from tests.unit.monitor.test_witnesses import HOSTS
from watchslo.model import SERVICE
from watchslo.snapshot import OverallVerdict, Snapshot
from watchslo.timeline.timeline import Timeline
from watchslo.timeline.verdict import Level

EACH = {"kubernetes": {"apiservers": "each"}}


@pytest.fixture
def cluster(cluster: Cluster) -> Cluster:
    cluster.announce(*HOSTS)
    return cluster


def at(snapshot: Snapshot, host: str) -> list[bool]:
    """Return which watches at an apiserver are up."""
    return [stream.up for stream in snapshot.streams if stream.apiserver.startswith(host)]


def silent(snapshot: Snapshot) -> list[str]:
    return [one.name for one in snapshot.apiservers if one.unresponsive_for is not None]


async def test_stopped_apiserver_is_unresponsive_within_30_seconds_and_others_are_not(
    cluster: Cluster, log: Log
) -> None:
    async with running(config("pods", "nodes", **EACH)) as run:
        timeline = Timeline()
        run.supervisor.on_evaluation(timeline.observe)
        await asyncio.sleep(30)
        cluster.mute.add(HOSTS[0])
        await asyncio.sleep(30)
        snapshot, account = run.snapshot(), timeline.account
        assert at(snapshot, HOSTS[0]) == [False, False]
        assert at(snapshot, HOSTS[1]) == at(snapshot, HOSTS[2]) == [True, True]
        (name,) = silent(snapshot)
        assert name.startswith(HOSTS[0])
        assert account is not None
        assert (account.headline.verdict, account.headline.level) == (OverallVerdict.UNRESPONSIVE, Level.BAD)
        assert account.headline.text.startswith(f"{name} answers nothing since ")
        assert [line["apiserver"] for line in log.of("apiserver_unresponsive")] == [name]

        cluster.mute.clear()
        await asyncio.sleep(30)
        assert not silent(run.snapshot())
        assert at(run.snapshot(), HOSTS[0]) == [True, True]
        assert [line["apiserver"] for line in log.of("apiserver_responsive")] == [name]


async def test_minutes_under_a_silent_apiserver_are_bad(cluster: Cluster) -> None:
    async with running(config("pods", **EACH)) as run, asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(keep_writing(cluster, PODS, seconds=400))
        await asyncio.sleep(100)
        cluster.mute.add(HOSTS[0])
        await asyncio.sleep(200)
        bad = {stream.apiserver: stream.track.objective.windows["bad"] for stream in run.snapshot().streams}
        writing.cancel()
    (muted,) = (name for name in bad if name.startswith(HOSTS[0]))
    assert bad.pop(muted) >= 2
    assert set(bad.values()) == {0}


async def test_apiserver_whose_storage_does_not_answer_is_responsive(cluster: Cluster) -> None:
    """It answers a request that needs no storage, so its silence is not its own."""
    async with running(config("pods", "nodes")) as run:
        cluster.hanging.update(("tick", "nudge", "audit", "probe_cache"))
        await asyncio.sleep(60)
        assert not silent(run.snapshot())


async def test_apiserver_that_refuses_connections_is_unresponsive(cluster: Cluster) -> None:
    async with running(config("pods", **EACH)) as run:
        cluster.dead.add(HOSTS[2])
        await asyncio.sleep(30)
        assert [name.split(":")[0] for name in silent(run.snapshot())] == [HOSTS[2]]


async def test_apiserver_that_still_sends_events_is_responsive(cluster: Cluster) -> None:
    async with running(config("pods")) as run, asyncio.TaskGroup() as tasks:
        cluster.hanging.update(("tick", "nudge", "audit", "probe_cache", "version"))
        tasks.create_task(keep_writing(cluster, PODS, seconds=60))
        await asyncio.sleep(40)
        assert not silent(run.snapshot())


async def test_unresponsive_apiserver_is_asked_for_its_version_seldom(cluster: Cluster) -> None:
    async with running(config("pods")) as run:
        cluster.mute.add("service")
        await asyncio.sleep(10)
        before = sum(kind == "version" for _, kind, _ in cluster.asked)
        await asyncio.sleep(60)
        assert 2 <= sum(kind == "version" for _, kind, _ in cluster.asked) - before <= 6
        assert silent(run.snapshot()) == ["service"]


async def test_silent_apiserver_is_asked_ever_more_rarely(cluster: Cluster) -> None:
    async with running(config("pods", metrics="proven", clock={"interval": "30s"})):
        cluster.kill(SERVICE)
        await asyncio.sleep(60)
        before = cluster.count("version")
        await asyncio.sleep(300)
        assert 300 / 30 <= cluster.count("version") - before <= 300 / 15
