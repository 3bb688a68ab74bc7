"""Which clock dates which watch, and what the clocks tick on: everything but the cluster is real."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.unit.monitor.cluster import CONFIGMAPS, PODS, Cluster, line
from tests.unit.monitor.inside import config, keep_writing, running
from watchslo.kube.limiter import Limiter
from watchslo.model import Resource
from watchslo.monitor.checks.auditor import Auditor


@asynccontextmanager
async def writing(cluster: Cluster, *resources: Resource) -> AsyncIterator[None]:
    """Write to these resources within the context."""
    task = asyncio.create_task(keep_writing(cluster, *resources, seconds=1e6))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class TestForeign:
    async def test_second_that_proves_a_watch_foreign_is_unmeasured(self, cluster: Cluster) -> None:
        """Seconds lie between the probe and that tick: no event received in them may be sealed."""
        made = config("pods", "configmaps", clock={"interval": "4s"}, mode="node")
        async with writing(cluster, CONFIGMAPS), running(made, start=60) as run:
            assert (run.stream("pods").domain, run.stream("pods").membership) == ("main", "member")
            cluster.revisions["pods"] = cluster.revision - 60
            cluster.send(PODS)
            for _ in range(100):
                cluster.send(PODS, line("MODIFIED", cluster.revision))
                await asyncio.sleep(0.1)
            assert run.stream("pods").domain != "main"
            await asyncio.sleep(10)
            assert run.stream("pods").track.timespan.total == 0


async def test_ticks_of_six_storages_starve_no_other_request(cluster: Cluster) -> None:
    things = [Resource("", "v1", f"things{number}", namespaced=True) for number in range(6)]
    keys = [resource.key for resource in things]
    cluster.served += things
    cluster.revisions |= {key: 10 * 7**number for number, key in enumerate(keys)}
    cluster.limiter = Limiter(config().limits.requests_per_second, clock=time.monotonic)
    async with writing(cluster, *things, CONFIGMAPS), running(config("configmaps", *keys), start=60) as run:
        for resource in things:
            cluster.send(resource)
        await asyncio.sleep(4)
        assert len(cluster.open_watches()) == 7
        assert all(run.stream(key).up for key in keys)


class TestBounds:
    async def test_former_apiservers_leave_nothing_in_the_domains(self, cluster: Cluster) -> None:
        cluster.revisions["pods"] = 10
        made = config("pods", "configmaps", kubernetes={"apiservers": "each"})
        async with writing(cluster, PODS, CONFIGMAPS), running(made) as run:
            for number in range(2, 6):
                cluster.announce("10.0.0.1", f"10.0.0.{number}")
                await asyncio.sleep(15)
            assert [domain.name for domain in run.snapshot().domains] == ["main", "pods"]
            assert run.supervisor._watches.assignment
            for clock in run.supervisor._watches.assignment.clocks:
                names = {"10.0.0.1:6443", "10.0.0.5:6443"}
                assert {name for name, _ in clock.domain._standings} <= names
                assert {name for name, _ in clock.domain._waiting} <= names
                assert {name for name, _ in clock.domain.clock._ticks} == names
                assert set(clock.domain.clock._round_trips) == set(clock.tickers) == names


async def test_restored_storage_lets_audits_forget_its_revisions(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[str] = []
    monkeypatch.setattr(Auditor, "forget_revisions", lambda _, watch: forgotten.append(watch.identity.label))
    async with running(config("pods", "nodes")):
        cluster.revision = 50
        await asyncio.sleep(30)
    assert forgotten == ["pods", "nodes"]
