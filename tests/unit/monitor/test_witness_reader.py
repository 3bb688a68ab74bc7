"""A daemon with one address reads busy watches again at witnesses, against a cluster in memory."""

import ssl
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from tests.unit.monitor.cluster import EVENTS, PODS, Cluster, Log, line
from tests.unit.monitor.inside import Running, config, credentials, keep_writing, running
from watchslo.monitor.witness_reader import SHARE, SPACING_SECONDS
from watchslo.watch.failure import Reason

OWN, TWO, THREE = "10.0.0.1", "10.0.0.2", "10.0.0.3"
PORT = 6443
READ_SECONDS = 3 * SPACING_SECONDS  # by then, each loss of the last minute was read twice


def alone(cluster: Cluster, *resources: str, **more: Any) -> AbstractAsyncContextManager[Running]:
    """Watch only at the first of three announced apiservers, as a pod next to it does."""
    cluster.announce(OWN, TWO, THREE)
    made = config(*(resources or ("pods",)), **{"kubernetes": {"apiservers": [f"https://{OWN}:{PORT}"]}, **more})
    return running(made, credentials=credentials(ssl.create_default_context()))


def violations(run: Running) -> dict[str, int]:
    return {name: count for name, count in run.stream("pods").guarantees.violations.items() if count}


def reads(cluster: Cluster) -> int:
    """Return how many reads the witnesses got."""
    return sum(cluster.asked_at[f"{host}:{PORT}", "audit"] for host in (TWO, THREE))


def hide(cluster: Cluster) -> int:
    """Make a change that the cache of the first apiserver loses: none of its watches ever shows it."""
    cluster.losing[OWN] = 1
    revision = cluster.write(PODS)
    cluster.hidden_at[OWN].add(revision)
    return revision


async def test_loss_in_the_cache_of_the_only_watched_apiserver_is_found_at_a_witness(
    cluster: Cluster, log: Log
) -> None:
    async with alone(cluster) as run:
        await keep_writing(cluster, PODS, seconds=30)
        lost = hide(cluster)
        await keep_writing(cluster, PODS, seconds=READ_SECONDS)
        assert violations(run) == {"reliable": 1}
        assert run.stream("pods").guarantees.checked["reliable"] > 500
    (logged,) = log.of("guarantee_violated")
    assert (logged["apiserver"], logged["guarantee"], logged["oldest"]) == (f"{OWN}:{PORT}", "reliable", lost)


async def test_reads_at_witnesses_are_few_and_find_nothing_if_nothing_is_lost(cluster: Cluster) -> None:
    async with alone(cluster, "pods", "nodes") as run:
        asked = len(cluster.asked)
        await keep_writing(cluster, PODS, seconds=900, gap=0.5)
        assert violations(run) == {}
        assert 10 <= reads(cluster) <= 900 / (0.5 * SPACING_SECONDS)
        assert reads(cluster) <= SHARE * (len(cluster.asked) - asked)


async def test_event_that_a_witness_shows_only_once_is_not_lost(cluster: Cluster) -> None:
    async with alone(cluster) as run:
        await keep_writing(cluster, PODS, seconds=30)
        cluster.revision += 1
        invented = PODS, cluster.revision, line("MODIFIED", cluster.revision)
        cluster.history.append(invented)
        before = reads(cluster)
        for _ in range(2 * int(READ_SECONDS)):
            await keep_writing(cluster, PODS, seconds=1)
            if reads(cluster) > before and invented in cluster.history:
                cluster.history.remove(invented)
        assert reads(cluster) > before
        assert violations(run) == {}


async def test_failing_witness_finds_nothing(cluster: Cluster) -> None:
    async with alone(cluster) as run:
        await keep_writing(cluster, PODS, seconds=30)
        hide(cluster)
        cluster.fail(Reason.FORBIDDEN, "audit")
        before = reads(cluster)
        await keep_writing(cluster, PODS, seconds=READ_SECONDS)
        assert reads(cluster) > before
        assert violations(run) == {}


async def test_late_watch_loses_nothing(cluster: Cluster) -> None:
    cluster.slow_at[OWN] = 2.5
    async with alone(cluster) as run:
        await keep_writing(cluster, PODS, seconds=300)
        assert reads(cluster) > 0
        assert violations(run) == {}


async def test_witness_of_another_cluster_is_not_read(cluster: Cluster) -> None:
    cluster.elsewhere[TWO] = cluster.elsewhere[THREE] = 5
    async with alone(cluster) as run:
        await keep_writing(cluster, PODS, seconds=300)
        assert reads(cluster) == 0
        assert violations(run) == {}


@pytest.mark.parametrize(
    "more",
    [
        {"guarantees": {"level": "stream"}},
        {"limits": {"auditsPerSecond": 0}},
        {"kubernetes": {"apiservers": [f"https://{OWN}:{PORT}", f"https://{TWO}:{PORT}"]}},
        {"kubernetes": {"apiservers": [f"https://{OWN}:{PORT}"], "witnesses": "none"}},
    ],
    ids=["only its own stream", "no audits", "compared anyway", "no witnesses"],
)
async def test_nothing_is_read_where_that_is_not_wanted(cluster: Cluster, more: dict[str, Any]) -> None:
    async with alone(cluster, **more):
        await keep_writing(cluster, PODS, seconds=300)
        assert cluster.asked_at[f"{THREE}:{PORT}", "audit"] == 0


async def test_uncached_and_quiet_watches_are_not_read(cluster: Cluster) -> None:
    """A watch without a cache loses nothing in one."""
    async with alone(cluster, "events", "pods"):
        await keep_writing(cluster, EVENTS, seconds=300)
        assert reads(cluster) == 0


async def test_few_requests_leave_no_room_for_reads(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchslo.monitor.witness_reader.SHARE", 0.0)
    async with alone(cluster):
        await keep_writing(cluster, PODS, seconds=300)
        assert reads(cluster) == 0
