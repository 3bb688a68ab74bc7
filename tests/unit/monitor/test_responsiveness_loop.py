"""An apiserver that keeps its connections open and answers nothing: everything but the cluster is real."""

import asyncio

import pytest

from tests.unit.monitor.cluster import Cluster, Log
from tests.unit.monitor.inside import config, running
from tests.unit.monitor.test_witnesses import HOSTS
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
    return [stream.up for stream in snapshot.watches if stream.apiserver.startswith(host)]


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
