"""Which clock dates which watch, and what the clocks tick on: everything but the cluster is real."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.monitor.cluster import CONFIGMAPS, NODES, PODS, Cluster, Log, line
from tests.unit.monitor.inside import Running, config, keep_writing, running
from watchslo.kube.limiter import Limiter
from watchslo.model import Resource
from watchslo.monitor.checks.auditor import Auditor
from watchslo.snapshot import DomainReading


def domain(run: Running, name: str = "main") -> DomainReading:
    return next(domain for domain in run.snapshot().domains if domain.name == name)


def domains(run: Running) -> list[str]:
    return [domain.name for domain in run.snapshot().domains]


def where(run: Running, label: str) -> tuple[str, str]:
    stream = run.stream(label)
    return stream.domain, stream.membership


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
        made = config("pods", "configmaps", clock={"interval": "4s"}, metrics="proven")
        async with writing(cluster, CONFIGMAPS), running(made, start=60) as run:
            assert where(run, "pods") == ("main", "member")
            cluster.revisions["pods"] = cluster.revision - 60
            cluster.send(PODS)
            for _ in range(100):
                cluster.send(PODS, line("MODIFIED", cluster.revision))
                await asyncio.sleep(0.1)
            assert run.stream("pods").domain != "main"
            await asyncio.sleep(10)
            assert run.stream("pods").track.timespan.total == 0


THINGS = [Resource("", "v1", f"things{number}", namespaced=True) for number in range(6)]
KEYS = [resource.key for resource in THINGS]


class TestStorages:
    """Several resources that are kept in other storages."""

    @asynccontextmanager
    async def of_six_storages(self, cluster: Cluster, start: float = 60, **more: Any) -> AsyncIterator[Running]:
        """Run with six things of a storage each, and configmaps of the main one."""
        cluster.served += THINGS
        cluster.revisions |= {key: 10 * 7**number for number, key in enumerate(KEYS)}
        made = config("configmaps", *KEYS, **more)
        async with writing(cluster, *THINGS, CONFIGMAPS), running(made, start=start) as run:
            yield run

    async def test_ticks_of_six_storages_starve_no_other_request(self, cluster: Cluster) -> None:
        cluster.limiter = Limiter(config().limits.requests_per_second, clock=time.monotonic)
        async with self.of_six_storages(cluster) as run:
            for resource in THINGS:
                cluster.send(resource)
            await asyncio.sleep(4)
            assert len(cluster.open_watches()) == 7
            assert all(run.stream(key).up for key in KEYS)


class TestBounds:
    async def test_former_apiservers_leave_nothing_in_the_domains(self, cluster: Cluster) -> None:
        cluster.revisions["pods"] = 10
        made = config("pods", "configmaps", kubernetes={"apiservers": "each"})
        async with writing(cluster, PODS, CONFIGMAPS), running(made) as run:
            for number in range(2, 6):
                cluster.announce("10.0.0.1", f"10.0.0.{number}")
                await asyncio.sleep(15)
            assert domains(run) == ["main", "pods"]
            assert run.supervisor._watches.assignment
            for clock in run.supervisor._watches.assignment.clocks:
                names = {"10.0.0.1:6443", "10.0.0.5:6443"}
                assert {name for name, _ in clock.domain._standings} <= names
                assert {name for name, _ in clock.domain._waiting} <= names
                assert {name for name, _ in clock.domain.clock._ticks} == names
                assert set(clock.domain.clock._round_trips) == set(clock.tickers) == names


class TestReset:
    async def test_restored_storage_starts_all_watches_over(
        self, cluster: Cluster, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        forgotten: list[str] = []
        monkeypatch.setattr(Auditor, "forget_revisions", lambda _, watch: forgotten.append(watch.identity.label))
        async with writing(cluster, PODS, NODES), running(config("pods", "nodes")) as run:
            before = run.stream("pods").track.timespan.total
            cluster.revision = 50
            await asyncio.sleep(30)
            assert run.not_ready() == ()
            assert domain(run).resets == 1
            assert run.stream("pods").lists.relists["domain_reset"] == 1
            assert where(run, "pods") == ("main", "member")
            assert run.stream("pods").track.timespan.total > before + 100
        assert log.of("domain_reset") == [
            {"event": "domain_reset", "domain": "main", "watches": 2},
        ]
        assert forgotten == ["pods", "nodes"]
