"""Apiservers that are ticked on but not watched: everything but the cluster is real."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from unittest.mock import AsyncMock

import pytest

from tests.unit.monitor.cluster import NODES, PODS, Cluster, Log
from tests.unit.monitor.inside import Running, config, running, verified
from watchslo.config.model import Config
from watchslo.kube.apiservers import MOST_ADDRESSES
from watchslo.kube.credentials import CredentialSource
from watchslo.monitor.apiservers.apiserver_follower import FOLLOW_SECONDS
from watchslo.snapshot import WatchReading, WitnessReading

HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
OWN, TWO, THREE = (f"{host}:6443" for host in HOSTS)
LATE_SECONDS = 0.3


@pytest.fixture
def cluster(cluster: Cluster) -> Cluster:
    cluster.announce(*HOSTS)
    cluster.date_skew = 0.0
    return cluster


def next_to(*resources: str, **more: Any) -> Config:
    """Return the configuration of an instance next to the first apiserver, which watches only that one."""
    return config(*resources, **{"kubernetes": {"apiservers": [f"https://{OWN}"]}, **more})


def reading(run: Running) -> WitnessReading | None:
    return run.snapshot().monitor.witnesses


def created(stream: WatchReading) -> int:
    """Return how many events are measured from their creation timestamps."""
    return stream.track.creation.total if stream.track.creation else 0


async def create(cluster: Cluster, seconds: float) -> None:
    """Create pods, and change nodes as often."""
    for _ in range(int(10 * seconds)):
        now = datetime.fromtimestamp(int(cluster.wall()), UTC)
        cluster.write(PODS, "ADDED", now.strftime("%Y-%m-%dT%H:%M:%SZ"))
        cluster.write(NODES)
        await asyncio.sleep(0.1)


class TestWanted:
    """Whether there are witnesses at all."""

    async def test_only_so_many_of_each_are_asked(self, cluster: Cluster, log: Log) -> None:
        cluster.announce(*(f"10.0.1.{number}" for number in range(MOST_ADDRESSES + 1)))
        async with running(config("pods", kubernetes={"apiservers": "each"})) as run:
            assert len(run.snapshot().watches) == MOST_ADDRESSES
        assert len(log.of("apiservers_limited")) == 1

    async def test_each_is_given_up_once_certificates_are_no_longer_verified(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with running(config("pods", kubernetes={"apiservers": "each"})) as run:
            assert len(run.snapshot().watches) == len(HOSTS)
            monkeypatch.setattr(CredentialSource, "are_verified", AsyncMock(return_value=False))
            await asyncio.sleep(2 * FOLLOW_SECONDS)
            cluster.asked_at.clear()
            await asyncio.sleep(FOLLOW_SECONDS)
            assert {name for name, _ in cluster.asked_at} == {"service"}


class TestCreations:
    @pytest.mark.parametrize(
        ("changes", "witnesses", "least", "most"),
        [
            ({"link_late": {HOSTS[0]: LATE_SECONDS}}, "auto", 250, 300),
            ({"link_late": {HOSTS[0]: LATE_SECONDS}}, "none", 0, 0),
            ({"leases": 4}, "auto", 0, 0),
            ({"dead": {HOSTS[2]}}, "auto", 0, 0),
        ],
        ids=["late link", "late link and no witnesses", "hidden", "unreached"],
    )
    async def test_apiserver_that_is_no_witness_leaves_creations_undated(
        self, cluster: Cluster, changes: dict[str, Any], witnesses: str, least: int, most: int
    ) -> None:
        vars(cluster).update(changes)
        of = {"apiservers": [f"https://{OWN}"], "witnesses": witnesses}
        async with running(next_to("pods", "nodes", kubernetes=of), credentials=verified()) as run:
            await create(cluster, 30)
            await asyncio.sleep(10)
            assert least <= created(run.stream("pods")) <= most

    async def test_clocks_of_all_apiservers_bound_the_latency(self, cluster: Cluster) -> None:
        """Any of them may have stamped the object; the clock of one is 5 s ahead."""
        cluster.skew_at[HOSTS[2]] = 5.0
        async with running(next_to("pods"), credentials=verified()) as run:
            await create(cluster, 60)
            creators = run.supervisor._apiservers.creators
            assert creators
            assert 5.0 < creators.offset.width < 6.0
