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
from watchslo.monitor.auditor import Auditor
from watchslo.snapshot import DomainReading
from watchslo.watch.failure import Reason


def domain(run: Running, name: str = "main") -> DomainReading:
    return next(domain for domain in run.snapshot().domains if domain.name == name)


def domains(run: Running) -> list[str]:
    return [domain.name for domain in run.snapshot().domains]


def foreign_domain(run: Running) -> str:
    """Return the name of the only domain except the main one."""
    main, name = domains(run)
    assert main == "main"
    return name


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


class TestChoice:
    async def test_choice_prefers_readable_resources(self, cluster: Cluster) -> None:
        forbidden = [Resource("", "v1", f"secret{number}s", namespaced=True) for number in range(20)]
        cluster.served[:0] = forbidden
        for resource in forbidden:
            cluster.fail(Reason.FORBIDDEN, "*", resource.key)
            for kind in ("list", "tick"):
                cluster.fail(Reason.FORBIDDEN, kind, resource.key)
        async with running(config("*"), start=60) as run:
            assert domain(run).ticks_on == ("events",)


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
    async def of_one_storage(self, cluster: Cluster, *keys: str, start: float = 30) -> AsyncIterator[Running]:
        """Run with things of one other storage and configmaps of the main one."""
        cluster.served += THINGS
        cluster.revisions["things"] = 10
        cluster.kept_with |= dict.fromkeys(KEYS, "things")
        async with writing(cluster, *THINGS, CONFIGMAPS), running(config("configmaps", *keys), start=start) as run:
            yield run

    @asynccontextmanager
    async def of_six_storages(self, cluster: Cluster, start: float = 60, **more: Any) -> AsyncIterator[Running]:
        """Run with six things of a storage each, and configmaps of the main one."""
        cluster.served += THINGS
        cluster.revisions |= {key: 10 * 7**number for number, key in enumerate(KEYS)}
        made = config("configmaps", *KEYS, **more)
        async with writing(cluster, *THINGS, CONFIGMAPS), running(made, start=start) as run:
            yield run

    async def test_shared_clock_continues_when_the_resources_that_it_ticks_on_leave(self, cluster: Cluster) -> None:
        async with self.of_one_storage(cluster, *KEYS[:3]) as run:
            name = foreign_domain(run)
            ticked = domain(run, name).ticks_on
            (other,) = set(KEYS[:3]) - set(ticked)
            run.supervisor.configure(config("configmaps", other))
            await asyncio.sleep(5)
            before = run.stream(other).track
            cluster.asked.clear()
            await asyncio.sleep(20)
            assert cluster.count("tick", other) > 37
            assert [cluster.count("tick", key) for key in ticked] == [0, 0]
            assert where(run, other) == (name, "member")
            assert run.stream(other).track.timespan.total > before.timespan.total + 194
            assert run.stream(other).track.unmeasured == before.unmeasured

    async def test_shared_clock_ticks_on_what_can_be_read(self, cluster: Cluster) -> None:
        async with self.of_one_storage(cluster, *KEYS[:3]) as run:
            name = foreign_domain(run)
            refused = domain(run, name).ticks_on[0]
            others = set(KEYS[:3]) - {refused}
            for kind in ("tick", "watch", "list", "probe"):
                cluster.fail(Reason.FORBIDDEN, kind, refused)
            cluster.send(THINGS[KEYS.index(refused)])
            await asyncio.sleep(60)
            assert set(domain(run, name).ticks_on) == others
            before = {key: run.stream(key).track.timespan.total for key in others}
            await asyncio.sleep(10)
            for key in others:
                assert run.stream(key).track.timespan.total > before[key] + 97

    async def test_watch_of_a_shared_clock_returns_to_the_main_one_alone(self, cluster: Cluster) -> None:
        async with self.of_one_storage(cluster, *KEYS[:3]) as run:
            name = foreign_domain(run)
            (moved,) = set(KEYS[:3]) - set(domain(run, name).ticks_on)
            del cluster.kept_with[moved]
            for _ in range(6):
                gone = line("ERROR", 0).replace(b'"object"', b'"object": {"code": 410}, "was"')
                cluster.send(THINGS[KEYS.index(moved)], gone)
                await asyncio.sleep(30)
            assert where(run, moved) == ("main", "member")
            assert {where(run, key) for key in {*KEYS[:3]} - {moved}} == {(name, "member")}
            assert domain(run, name).resets == 0

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
            {"event": "domain_reset", "domain": "main", "streams": 2},
        ]
        assert forgotten == ["pods", "nodes"]


class TestSplit:
    """Resources that move to another storage while the daemon runs, as after an apiserver restart with an override."""

    @asynccontextmanager
    async def one_storage(self, cluster: Cluster, *resources: Resource) -> AsyncIterator[Running]:
        """Run until all of these are dated by the main clock, with revisions that no new storage has reached."""
        cluster.revision = 5000
        async with writing(cluster, *resources), running(config(*(one.key for one in resources))) as run:
            assert {where(run, one.key) for one in resources} == {("main", "member")}
            yield run

    async def test_both_resources_of_the_ticks_move_to_storages_of_their_own(self, cluster: Cluster) -> None:
        cluster.fail(Reason.FORBIDDEN, "tick", "events")
        cluster.served += THINGS
        async with self.one_storage(cluster, PODS, CONFIGMAPS, *THINGS[:2]) as run:
            ticked = domain(run).ticks_on
            others = {"pods", "configmaps", *KEYS[:2]} - {*ticked}
            cluster.revisions |= {ticked[0]: 10, ticked[1]: 1000}
            for resource in (PODS, CONFIGMAPS, *THINGS[:2]):
                cluster.send(resource)
            await asyncio.sleep(40)
            assert set(domain(run).ticks_on) == others
            assert {where(run, key) for key in others} == {("main", "member")}
            assert {where(run, key) for key in ticked} == {(key, "member") for key in ticked}
            for key in (*ticked, *others):
                assert run.stream(key).lists.relists.get("domain_reset", 0) == (key in ticked)
            assert domain(run).resets == 0
