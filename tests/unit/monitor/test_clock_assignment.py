"""Which clock dates which watch, and what the clocks tick on: everything but the cluster is real."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.monitor.cluster import CONFIGMAPS, EVENTS, NODES, PODS, Cluster, Log, line
from tests.unit.monitor.inside import Running, config, keep_writing, running
from watchslo.config.model import Config
from watchslo.model import Resource
from watchslo.monitor.auditor import Auditor
from watchslo.monitor.supervisor import REFRESH_SECONDS
from watchslo.snapshot import DomainReading
from watchslo.watch.failure import Reason


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


async def renew(cluster: Cluster, resource: Resource) -> None:
    cluster.send(resource)
    await asyncio.sleep(15)


class TestChoice:
    async def test_ticks_alternate_between_two_cached_resources_without_events(self, cluster: Cluster) -> None:
        cluster.fail(Reason.FORBIDDEN, "tick", "events")
        async with running(config("pods", "nodes", "configmaps")) as run:
            assert domain(run).ticks_on == ("pods", "configmaps")
            await keep_writing(cluster, PODS)
            await asyncio.sleep(10)
            assert run.stream("pods").track.timespan.total == 600

    async def test_ticks_avoid_events_of_another_storage(self, cluster: Cluster) -> None:
        cluster.revisions["events"] = 7000
        async with writing(cluster, CONFIGMAPS, EVENTS), running(config("pods", "configmaps")) as run:
            assert domain(run).ticks_on == ("pods", "configmaps")

    async def test_single_resource_is_ticked_on_blindly(self, cluster: Cluster) -> None:
        cluster.fail(Reason.FORBIDDEN, "tick", "events")
        async with running(config("pods")) as run:
            assert domain(run).ticks_on == ("pods",)
            await keep_writing(cluster, PODS)
            await asyncio.sleep(10)
            assert run.stream("pods").track.timespan.total == 600

    async def test_choice_is_repeated_when_a_right_is_revoked(self, cluster: Cluster, log: Log) -> None:
        async with running(config("pods", "nodes")) as run:
            cluster.fail(Reason.FORBIDDEN, "tick", "events")
            await asyncio.sleep(10)
            assert domain(run).ticks_on == ("pods", "nodes")
            assert run.not_ready() == ()
            assert run.stream("pods").membership == "member"
        assert [entry["on"] for entry in log.of("ticking")] == [["events"], ["pods", "nodes"]]

    async def test_choice_skips_a_failing_candidate(self, cluster: Cluster, log: Log) -> None:
        cluster.fail(Reason.SERVER_ERROR, "tick", "pods")
        async with running(config("pods", "nodes"), start=30) as run:
            assert domain(run).ticks_on == ("events",)
            assert run.not_ready() == ()
        assert len(log.of("tick_failed")) == len(log.of("recovered")) == 1

    async def test_choice_is_retried_slowly_if_nothing_can_be_read(self, cluster: Cluster, log: Log) -> None:
        cluster.fail(Reason.FORBIDDEN, "tick")
        async with running(config("pods", "nodes"), start=600):
            assert 30 < cluster.count("tick") < 90
            assert not log.of("ticking"), "it does not"
            cluster.failures.clear()
            await asyncio.sleep(120)
            assert [entry["on"] for entry in log.of("ticking")] == [["events"]]

    async def test_choice_considers_new_watches(self, cluster: Cluster) -> None:
        cluster.fail(Reason.FORBIDDEN, "tick", "events")
        cluster.fail(Reason.FORBIDDEN, "tick", "pods")
        async with running(config("pods")) as run:
            assert run.not_ready()
            run.supervisor.configure(config("pods", "nodes"))
            await asyncio.sleep(60)
            assert domain(run).ticks_on == ("nodes",)

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
    @asynccontextmanager
    async def moved(self, cluster: Cluster) -> AsyncIterator[Running]:
        """Run until pods, which have a storage of their own, have moved to their own clock."""
        cluster.revisions["pods"] = 10
        async with writing(cluster, PODS, CONFIGMAPS), running(config("pods", "configmaps")) as run:
            assert where(run, "pods") == ("pods", "member")
            yield run

    async def test_foreign_resource_gets_its_own_clock(self, cluster: Cluster, log: Log) -> None:
        async with self.moved(cluster) as run:
            await asyncio.sleep(60)
            assert where(run, "configmaps") == ("main", "member")
            assert domain(run, "pods").ticks_on == ("pods",)
            stream = run.stream("pods")
            assert stream.track.timespan.total > 500
            assert (
                stream.track.unmeasured["domain"] + stream.track.timespan.total
                > stream.received.events["MODIFIED"] - 70
            )
        assert [entry["domain"] for entry in log.of("domain_changed")] == ["pods"]

    async def test_own_clock_ends_with_its_last_watch(self, cluster: Cluster) -> None:
        async with self.moved(cluster) as run:
            run.supervisor.configure(config("configmaps"))
            await asyncio.sleep(1)
            assert domains(run) == ["main"]
            cluster.asked.clear()
            await asyncio.sleep(60)
            assert cluster.count("tick", "pods") == 0

    async def test_watches_of_one_resource_share_their_own_clock(self, cluster: Cluster) -> None:
        cluster.revisions["pods"] = 10
        watches = [{"resource": "pods", "name": name} for name in ("a", "b")]
        made = Config.model_validate({"watch": [{"resource": "configmaps"}, *watches]})
        async with writing(cluster, PODS, CONFIGMAPS), running(made) as run:
            assert {where(run, "a"), where(run, "b")} == {("pods", "member")}
            run.supervisor.configure(Config.model_validate({"watch": [{"resource": "configmaps"}, watches[0]]}))
            await asyncio.sleep(60)
            assert where(run, "a") == ("pods", "member")

    async def test_foreign_watch_is_probed_at_each_opening_and_may_return(self, cluster: Cluster, log: Log) -> None:
        async with self.moved(cluster) as run:
            for _ in range(3):
                await renew(cluster, PODS)
            assert where(run, "pods") == ("pods", "member")
            del cluster.revisions["pods"]
            cluster.send(PODS, line("ERROR", 0).replace(b'"object"', b'"object": {"code": 410}, "was"'))
            await asyncio.sleep(30)
            for _ in range(4):
                await renew(cluster, PODS)
            assert where(run, "pods") == ("main", "member")
            assert domains(run) == ["main"]
        assert [entry["domain"] for entry in log.of("domain_changed")] == ["pods", "main"]

    async def test_violation_moves_a_watch_to_its_own_clock(self, cluster: Cluster) -> None:
        async with writing(cluster, CONFIGMAPS), running(config("pods", "configmaps")) as run:
            assert where(run, "pods") == ("main", "member")
            measured = run.stream("pods").track.timespan.total
            cluster.send(PODS, line("MODIFIED", 10_000))
            await asyncio.sleep(6)
            assert run.stream("pods").domain == "pods"
            assert run.stream("pods").track.unmeasured["domain"] == 1
            assert run.stream("pods").track.timespan.total == measured

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
            assert run.stream("pods").domain == "pods"
            await asyncio.sleep(10)
            assert run.stream("pods").track.timespan.total == 0

    async def test_own_clock_ticks_in_the_watched_namespace(self, cluster: Cluster, log: Log) -> None:
        cluster.revisions["pods"] = 10
        cluster.namespace = "team"
        made = Config.model_validate(
            {"watch": [{"resource": "pods", "namespace": "team"}, {"resource": "configmaps", "namespace": "team"}]}
        )
        async with writing(cluster, PODS, CONFIGMAPS), running(made.model_copy(update={"clock": _in("team")})) as run:
            assert where(run, "pods") == ("pods", "member")
        assert not log.of("tick_failed")

    async def test_own_clock_retries_forbidden_ticks(self, cluster: Cluster) -> None:
        async with self.moved(cluster) as run:
            cluster.fail(Reason.FORBIDDEN, "tick", "pods")
            await asyncio.sleep(60)
            cluster.fail(None, "tick", "pods")
            cluster.asked.clear()
            await asyncio.sleep(70)
            assert cluster.count("tick", "pods") > 10
            assert domain(run, "pods").tickers[0].ticks["failed"] > 0

    async def test_failed_probes_are_repeated_slowly(self, cluster: Cluster) -> None:
        cluster.fail(Reason.TIMEOUT, "probe", "pods")
        async with running(config("pods", "nodes"), start=600) as run:
            assert where(run, "pods") == ("main", "pending")
            assert cluster.count("probe", "pods") < 25
            assert run.supervisor.starting
            cluster.write(PODS)
            assert not run.not_ready()
            cluster.fail(None, "probe", "pods")
            await asyncio.sleep(70)
            assert where(run, "pods") == ("main", "member")
            assert run.stream("pods").track.unmeasured["domain"] == 1


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

    async def test_reset_of_one_domain_leaves_the_others_alone(self, cluster: Cluster) -> None:
        cluster.revisions["pods"] = 5000
        async with writing(cluster, PODS, CONFIGMAPS), running(config("pods", "configmaps")) as run:
            assert where(run, "pods") == ("pods", "member")
            cluster.revisions["pods"] = 10
            await asyncio.sleep(30)
            assert domain(run, "pods").resets == 1
            assert where(run, "pods") == ("pods", "member")
            assert run.stream("pods").lists.relists["domain_reset"] == 1
            assert "domain_reset" not in run.stream("configmaps").lists.relists


async def test_pause_ends_all_clocks_and_resume_starts_again(cluster: Cluster) -> None:
    cluster.revisions["pods"] = 10
    async with writing(cluster, PODS, CONFIGMAPS), running(config("pods", "configmaps")) as run:
        assert where(run, "pods") == ("pods", "member")
        run.supervisor.configure(config("pods", "configmaps", paused=True))
        await asyncio.sleep(1)
        assert domains(run) == []
        run.supervisor.configure(config("pods", "configmaps"))
        await asyncio.sleep(20)
        assert where(run, "pods") == ("pods", "member")


async def test_rare_ticks_keep_the_daemon_ready_without_a_cause(cluster: Cluster, log: Log) -> None:  # noqa: ARG001 - asks it
    async with running(config("pods", "nodes", clock={"interval": "20s"}, metrics="proven"), start=300) as run:
        for _ in range(60):
            await asyncio.sleep(1)
            assert run.not_ready() == ()
    assert not log.of("cause_began")


async def test_lost_tick_keeps_the_daemon_ready(cluster: Cluster) -> None:
    async with writing(cluster, PODS), running(config("pods", "nodes")) as run:
        failed = domain(run, "main").tickers[0].ticks["failed"]
        cluster.fail(Reason.TIMEOUT)
        await asyncio.sleep(3)
        assert domain(run, "main").tickers[0].ticks["failed"] > failed
        assert run.not_ready() == ()


async def test_outage_of_minutes_keeps_all_counters(cluster: Cluster, log: Log) -> None:
    async with writing(cluster, PODS), running(config("pods", "nodes")) as run:
        before = run.stream("pods")
        cluster.fail(Reason.REFUSED)
        for resource in (PODS, NODES):
            cluster.send(resource, cluster.failures["*", "*"])
        await asyncio.sleep(1.5 * REFRESH_SECONDS)
        assert run.not_ready() == ("The revision clock does not tick: The apiserver refuses the connection.",)
        cluster.fail(None)
        await asyncio.sleep(90)
        after = run.stream("pods")
        assert run.not_ready() == ()
        assert after.up
        assert after.membership == "member"
        assert after.received.events["MODIFIED"] > before.received.events["MODIFIED"] + 100
        assert after.track.timespan.total > before.track.timespan.total
    events: Sequence[str] = [event for event in log.events if "failed" in event or event == "watch_closed"]
    assert sorted(set(events)) == ["discovery_failed", "tick_failed", "watch_closed"]
    assert len(log.of("tick_failed")) == 1


def _in(namespace: str) -> Any:
    return Config.model_validate({"clock": {"namespace": namespace}}).clock
