"""What an instance of a DaemonSet says while its own apiserver is slow: everything but the cluster is real."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.unit.monitor.cluster import NODES, PODS, Cluster
from tests.unit.monitor.inside import Running, keep_writing, running, verified
from tests.unit.monitor.test_witnesses import HOSTS, OWN, next_to
from watchslo.snapshot import Cause, Confidence
from watchslo.timeline.timeline import Timeline
from watchslo.timeline.verdict import Level

LATE_SECONDS = 0.304
LOW, MEDIUM, HIGH = Confidence


@pytest.fixture
def cluster(cluster: Cluster) -> Cluster:
    cluster.announce(*HOSTS)
    return cluster


@pytest.fixture
async def run(cluster: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    """An instance, 45 s after its own apiserver became slow on one side."""
    side, reaches_others, busy = request.param
    if not reaches_others:
        cluster.dead = {*HOSTS[1:]}
    async with running(next_to("pods", "nodes"), credentials=verified()) as run, asyncio.TaskGroup() as tasks:
        if busy:
            tasks.create_task(keep_writing(cluster, PODS, NODES, seconds=65))
        await asyncio.sleep(20)
        getattr(cluster, side)[HOSTS[0]] = LATE_SECONDS
        await asyncio.sleep(45)
        yield run


ETCD, CLIENT = "link_late", "slow_at"
REACHED, UNREACHED = True, False
BUSY, QUIET = True, False


@pytest.mark.parametrize(
    ("run", "cause"),
    [
        ((ETCD, REACHED, BUSY), (Cause.CACHE_BEHIND, OWN, HIGH)),
        ((ETCD, REACHED, QUIET), (Cause.CACHE_BEHIND, OWN, MEDIUM)),
        ((ETCD, UNREACHED, BUSY), (Cause.STORAGE_SLOW, None, MEDIUM)),
        ((ETCD, UNREACHED, QUIET), (Cause.STORAGE_SLOW, None, MEDIUM)),
        ((CLIENT, REACHED, BUSY), (Cause.APISERVER_SENDING, OWN, MEDIUM)),
        ((CLIENT, REACHED, QUIET), (Cause.APISERVER_SENDING, OWN, MEDIUM)),
        ((CLIENT, UNREACHED, BUSY), (Cause.BANDWIDTH, OWN, LOW)),
        ((CLIENT, UNREACHED, QUIET), (Cause.BANDWIDTH, OWN, LOW)),
    ],
    indirect=["run"],
)
async def test_slow_side_of_the_own_apiserver_is_named(
    run: Running, cause: tuple[Cause, str | None, Confidence]
) -> None:
    assert [(one.cause, one.apiserver, one.confidence) for one in run.snapshot().causes] == [cause]
    assert "ticks take 0.31 s" in run.snapshot().causes[0].evidence


@pytest.mark.parametrize("run", [(side, REACHED, BUSY) for side in (ETCD, CLIENT)], indirect=True)
async def test_latency_is_measured_by_ticks_of_witnesses(run: Running) -> None:
    for stream in run.snapshot().watches:
        (median,) = (one for one in stream.track.windows[-1].quantiles if one.q == 0.5)
        assert median.resolved
        assert median.estimate == pytest.approx(LATE_SECONDS, abs=0.05)


@pytest.mark.parametrize("run", [(side, UNREACHED, BUSY) for side in (ETCD, CLIENT)], indirect=True)
async def test_headline_names_the_cause_though_nothing_can_be_distinguished(run: Running) -> None:
    said = Timeline().observe(run.snapshot())
    assert said.headline.text.startswith("No watch is proven late, but a cause of lateness is active: ")
    assert said.headline.level is Level.UNKNOWN
    assert said.trust.text.startswith("Mostly: check Clock, ")
