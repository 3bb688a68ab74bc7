"""Where revisions belong, and what the clocks tick on: everything around the streams is real, the cluster is not."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.unit.monitor.cluster import CONFIGMAPS, EVENTS, NODES, PODS, Cluster, Log, line
from tests.unit.monitor.inside import Running, config, keep_writing, running
from watchslo.config import Config
from watchslo.model import Resource
from watchslo.monitor.supervisor import REFRESH_SECONDS
from watchslo.snapshot import DomainReading
from watchslo.watch.failure import Reason


def domain(run: Running, name: str = "main") -> DomainReading:
    return next(domain for domain in run.supervisor.snapshot().domains if domain.name == name)


def domains(run: Running) -> list[str]:
    return [domain.name for domain in run.supervisor.snapshot().domains]


def where(run: Running, label: str) -> tuple[str, str]:
    stream = run.stream(label)
    return stream.domain, stream.membership


@asynccontextmanager
async def writing(cluster: Cluster, *resources: Resource) -> AsyncIterator[None]:
    """While the context lasts."""
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
    async def test_without_events_two_cached_resources_take_turns(self, cluster: Cluster) -> None:
        cluster.fail(Reason.FORBIDDEN, "tick", "events")
        async with running(config("pods", "nodes", "configmaps")) as run:
            assert domain(run).ticks_on == ("pods", "configmaps")
            await keep_writing(cluster, PODS)
            await asyncio.sleep(10)
            assert run.stream("pods").track.timespan.total == 600

    async def test_events_of_another_storage_are_not_ticked_on(self, cluster: Cluster) -> None:
        cluster.revisions["events"] = 7000
        async with writing(cluster, CONFIGMAPS, EVENTS), running(config("pods", "configmaps")) as run:
            assert domain(run).ticks_on == ("pods", "configmaps")

    async def test_a_single_resource_is_ticked_on_blindly(self, cluster: Cluster) -> None:
        cluster.fail(Reason.FORBIDDEN, "tick", "events")
        async with running(config("pods")) as run:
            assert domain(run).ticks_on == ("pods",)
            await keep_writing(cluster, PODS)
            await asyncio.sleep(10)
            assert run.stream("pods").track.timespan.total == 600

    async def test_is_made_again_when_a_right_is_revoked(self, cluster: Cluster, log: Log) -> None:
        async with running(config("pods", "nodes")) as run:
            cluster.fail(Reason.FORBIDDEN, "tick", "events")
            await asyncio.sleep(10)
            assert domain(run).ticks_on == ("pods", "nodes")
            assert run.not_ready() == ()
            assert run.stream("pods").membership == "member"
        assert [entry["on"] for entry in log.of("ticking")] == [["events"], ["pods", "nodes"]]

    async def test_does_not_wait_for_a_sick_candidate(self, cluster: Cluster, log: Log) -> None:
        cluster.fail(Reason.SERVER_ERROR, "tick", "pods")
        async with running(config("pods", "nodes"), start=30) as run:
            assert domain(run).ticks_on == ("events",)
            assert run.not_ready() == ()
        assert len(log.of("tick_failed")) == len(log.of("recovered")) == 1

    async def test_is_not_made_again_and_again_where_nothing_can_be_read(self, cluster: Cluster, log: Log) -> None:
        cluster.fail(Reason.FORBIDDEN, "tick")
        async with running(config("pods", "nodes"), start=600):
            assert 30 < cluster.count("tick") < 90
            assert not log.of("ticking"), "it does not"
            cluster.failures.clear()
            await asyncio.sleep(120)
            assert [entry["on"] for entry in log.of("ticking")] == [["events"]]

    async def test_knows_new_watches(self, cluster: Cluster) -> None:
        cluster.fail(Reason.FORBIDDEN, "tick", "events")
        cluster.fail(Reason.FORBIDDEN, "tick", "pods")
        async with running(config("pods")) as run:
            assert run.not_ready()
            run.supervisor.configure(config("pods", "nodes"))
            await asyncio.sleep(60)
            assert domain(run).ticks_on == ("nodes",)

    async def test_prefers_what_is_known_to_be_readable(self, cluster: Cluster) -> None:
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
        """Pods are kept in a storage of their own, and that is known."""
        cluster.revisions["pods"] = 10
        async with writing(cluster, PODS, CONFIGMAPS), running(config("pods", "configmaps")) as run:
            assert where(run, "pods") == ("pods", "member")
            yield run

    async def test_has_a_clock_of_its_own(self, cluster: Cluster, log: Log) -> None:
        async with self.moved(cluster) as run:
            await asyncio.sleep(60)
            assert where(run, "configmaps") == ("main", "member")
            assert domain(run, "pods").ticks_on == ("pods",)
            stream = run.stream("pods")
            assert stream.track.timespan.total > 500
            assert stream.track.unmeasured["domain"] + stream.track.timespan.total > stream.events["MODIFIED"] - 70
        assert [entry["domain"] for entry in log.of("domain_changed")] == ["pods"]

    async def test_clock_ends_with_its_last_stream(self, cluster: Cluster) -> None:
        async with self.moved(cluster) as run:
            run.supervisor.configure(config("configmaps"))
            await asyncio.sleep(1)
            assert domains(run) == ["main"]
            cluster.asked.clear()
            await asyncio.sleep(60)
            assert cluster.count("tick", "pods") == 0

    async def test_streams_of_one_resource_share_it(self, cluster: Cluster) -> None:
        cluster.revisions["pods"] = 10
        watches = [{"resource": "pods", "name": name} for name in ("a", "b")]
        made = Config.model_validate({"watch": [{"resource": "configmaps"}, *watches]})
        async with writing(cluster, PODS, CONFIGMAPS), running(made) as run:
            assert {where(run, "a"), where(run, "b")} == {("pods", "member")}
            run.supervisor.configure(Config.model_validate({"watch": [{"resource": "configmaps"}, watches[0]]}))
            await asyncio.sleep(60)
            assert where(run, "a") == ("pods", "member")

    async def test_is_tested_again_at_renewals_and_may_return(self, cluster: Cluster, log: Log) -> None:
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

    async def test_a_violation_moves_a_stream(self, cluster: Cluster) -> None:
        async with writing(cluster, CONFIGMAPS), running(config("pods", "configmaps")) as run:
            assert where(run, "pods") == ("main", "member")
            measured = run.stream("pods").track.timespan.total
            cluster.send(PODS, line("MODIFIED", 10_000))
            await asyncio.sleep(6)
            assert run.stream("pods").domain == "pods"
            assert run.stream("pods").track.unmeasured["domain"] == 1
            assert run.stream("pods").track.timespan.total == measured

    async def test_is_not_measured_by_the_tick_that_gives_it_away(self, cluster: Cluster) -> None:
        """Seconds lie between the probe and that tick: nothing that came in them may be sealed."""
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

    async def test_is_ticked_on_where_it_is_watched(self, cluster: Cluster, log: Log) -> None:
        cluster.revisions["pods"] = 10
        cluster.namespace = "team"
        made = Config.model_validate(
            {"watch": [{"resource": "pods", "namespace": "team"}, {"resource": "configmaps", "namespace": "team"}]}
        )
        async with writing(cluster, PODS, CONFIGMAPS), running(made.model_copy(update={"clock": _in("team")})) as run:
            assert where(run, "pods") == ("pods", "member")
        assert not log.of("tick_failed")

    async def test_clock_that_may_not_read_tries_again(self, cluster: Cluster) -> None:
        async with self.moved(cluster) as run:
            cluster.fail(Reason.FORBIDDEN, "tick", "pods")
            await asyncio.sleep(60)
            cluster.fail(None, "tick", "pods")
            cluster.asked.clear()
            await asyncio.sleep(70)
            assert cluster.count("tick", "pods") > 10
            assert domain(run, "pods").tickers[0].ticks["failed"] > 0

    async def test_probes_that_fail_are_repeated_slowly(self, cluster: Cluster) -> None:
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
    async def test_starts_everything_over(self, cluster: Cluster, log: Log) -> None:
        async with writing(cluster, PODS, NODES), running(config("pods", "nodes")) as run:
            before = run.stream("pods").track.timespan.total
            cluster.revision = 50
            await asyncio.sleep(30)
            assert run.not_ready() == ()
            assert domain(run).resets == 1
            assert run.stream("pods").relists["domain_reset"] == 1
            assert where(run, "pods") == ("main", "member")
            assert run.stream("pods").track.timespan.total > before + 100
        assert log.of("domain_reset") == [
            {"event": "domain_reset", "domain": "main", "streams": 2},
        ]

    async def test_of_one_storage_leaves_the_others_alone(self, cluster: Cluster) -> None:
        cluster.revisions["pods"] = 5000
        async with writing(cluster, PODS, CONFIGMAPS), running(config("pods", "configmaps")) as run:
            assert where(run, "pods") == ("pods", "member")
            cluster.revisions["pods"] = 10
            await asyncio.sleep(30)
            assert domain(run, "pods").resets == 1
            assert where(run, "pods") == ("pods", "member")
            assert run.stream("pods").relists["domain_reset"] == 1
            assert "domain_reset" not in run.stream("configmaps").relists


async def test_pausing_ends_all_clocks_and_going_on_learns_again(cluster: Cluster) -> None:
    cluster.revisions["pods"] = 10
    async with writing(cluster, PODS, CONFIGMAPS), running(config("pods", "configmaps")) as run:
        assert where(run, "pods") == ("pods", "member")
        run.supervisor.configure(config("pods", "configmaps", paused=True))
        await asyncio.sleep(1)
        assert domains(run) == []
        run.supervisor.configure(config("pods", "configmaps"))
        await asyncio.sleep(20)
        assert where(run, "pods") == ("pods", "member")


async def test_seldom_ticks_make_nobody_unready_and_blame_nobody(cluster: Cluster, log: Log) -> None:  # noqa: ARG001 - asks it
    async with running(config("pods", "nodes", clock={"interval": "20s"}, metrics="proven"), start=300) as run:
        for _ in range(60):
            await asyncio.sleep(1)
            assert run.not_ready() == ()
    assert not log.of("cause_began")


async def test_a_lost_tick_makes_nobody_unready(cluster: Cluster) -> None:
    async with writing(cluster, PODS), running(config("pods", "nodes")) as run:
        failed = domain(run, "main").tickers[0].ticks["failed"]
        cluster.fail(Reason.TIMEOUT)
        await asyncio.sleep(3)
        assert domain(run, "main").tickers[0].ticks["failed"] > failed
        assert run.not_ready() == ()


async def test_an_outage_of_minutes_loses_no_counter(cluster: Cluster, log: Log) -> None:
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
        assert after.events["MODIFIED"] > before.events["MODIFIED"] + 100
        assert after.track.timespan.total > before.track.timespan.total
    events: Sequence[str] = [event for event in log.events if "failed" in event or event == "watch_closed"]
    assert sorted(set(events)) == ["discovery_failed", "tick_failed", "watch_closed"]
    assert len(log.of("tick_failed")) == 1


def _in(namespace: str) -> Any:
    return Config.model_validate({"clock": {"namespace": namespace}}).clock
