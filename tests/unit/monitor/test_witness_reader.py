"""A daemon with one address reads busy watches again at witnesses, against a cluster in memory."""

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from tests.unit.monitor.cluster import PODS, Cluster, line
from tests.unit.monitor.inside import Running, config, credentials, keep_writing, running, verified_tls
from watchslo.monitor.checks.witness_reader import SPACING_SECONDS

OWN, TWO, THREE = "10.0.0.1", "10.0.0.2", "10.0.0.3"
PORT = 6443
READ_SECONDS = 3 * SPACING_SECONDS  # by then, each loss of the last minute was read twice


def alone(cluster: Cluster, *resources: str, **more: Any) -> AbstractAsyncContextManager[Running]:
    """Watch only at the first of three announced apiservers, as a pod next to it does."""
    cluster.announce(OWN, TWO, THREE)
    made = config(*(resources or ("pods",)), **{"kubernetes": {"apiservers": [f"https://{OWN}:{PORT}"]}, **more})
    return running(made, credentials=credentials(verified_tls()))


def violations(run: Running) -> dict[str, int]:
    return {name: count for name, count in run.stream("pods").guarantees.violations.items() if count}


def reads(cluster: Cluster) -> int:
    """Return how many reads the witnesses got."""
    return sum(cluster.asked_at[f"{host}:{PORT}", "audit"] for host in (TWO, THREE))


async def test_event_that_a_witness_shows_only_once_is_not_lost(cluster: Cluster) -> None:
    async with alone(cluster) as run:
        await keep_writing(cluster, PODS, seconds=10)
        cluster.revision += 1
        invented = PODS, cluster.revision, line("MODIFIED", cluster.revision)
        cluster.history.append(invented)
        before = reads(cluster)
        for _ in range(int(READ_SECONDS)):
            await keep_writing(cluster, PODS, seconds=1)
            if reads(cluster) > before and invented in cluster.history:
                cluster.history.remove(invented)
        assert reads(cluster) > before
        assert violations(run) == {}


async def test_few_requests_leave_no_room_for_reads(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchslo.monitor.checks.witness_reader.SHARE", 0.0)
    async with alone(cluster):
        await keep_writing(cluster, PODS, seconds=READ_SECONDS)
        assert reads(cluster) == 0
