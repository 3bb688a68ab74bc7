"""Which clock dates which watch, and what the clocks tick on: everything but the cluster is real."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.monitor.cluster import CONFIGMAPS, EVENTS, NODES, PODS, Cluster, Log, line
from tests.unit.monitor.inside import Running, config, keep_writing, running
from watchslo.config.model import Config
from watchslo.kube.limiter import Limiter
from watchslo.model import Resource
from watchslo.monitor.auditor import Auditor
from watchslo.monitor.readiness import StartState
from watchslo.monitor.supervisor import REFRESH_SECONDS
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

    async def test_start_of_an_apiserver_does_not_change_what_is_ticked_on(self, cluster: Cluster) -> None:
        """It refuses everything for a moment."""
        async with running(config("pods", "nodes")) as run:
            cluster.fail(Reason.FORBIDDEN, "tick")
            await asyncio.sleep(0.7)
            cluster.failures.clear()
            await asyncio.sleep(10)
            assert domain(run).ticks_on == ("events",)

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
            await asyncio.sleep(2)
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
            assert run.stream("pods").domain != "main"
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
            assert run.start() is StartState.OPENING
            cluster.write(PODS)
            assert not run.not_ready()
            cluster.fail(None, "probe", "pods")
            await asyncio.sleep(70)
            assert where(run, "pods") == ("main", "member")
            await asyncio.sleep(5)
            track = run.stream("pods").track
            assert (track.timespan.total, sum(track.unmeasured.values())) == (1, 0)


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

    async def test_six_resources_of_one_storage_share_one_clock(self, cluster: Cluster, log: Log) -> None:
        async with self.of_one_storage(cluster, *KEYS) as run:
            name = foreign_domain(run)
            assert {where(run, key) for key in KEYS} == {(name, "member")}
            assert len(domain(run, name).ticks_on) == 2
            await asyncio.sleep(2)  # between two evaluations, each of which adds what was written in five seconds
            before = {key: run.stream(key).track for key in KEYS}
            await asyncio.sleep(60)
            for key in KEYS:
                track = run.stream(key).track
                assert track.timespan.total - before[key].timespan.total == 600
                assert track.unmeasured == before[key].unmeasured
        assert [entry["domain"] for entry in log.of("domain_changed")] == [name] * 6

    async def test_later_watch_joins_the_clock_of_its_storage(self, cluster: Cluster) -> None:
        async with self.of_one_storage(cluster, KEYS[0]) as run:
            assert domain(run, "things0").ticks_on == ("things0",)
            run.supervisor.configure(config("configmaps", *KEYS[:2]))
            await asyncio.sleep(15)
            assert where(run, "things1") == ("things0", "member")
            assert domain(run, "things0").ticks_on == ("things0", "things1")

    async def test_shared_clock_continues_when_the_resources_that_it_ticks_on_leave(self, cluster: Cluster) -> None:
        async with self.of_one_storage(cluster, *KEYS[:3]) as run:
            name = foreign_domain(run)
            ticked = domain(run, name).ticks_on
            (other,) = set(KEYS[:3]) - set(ticked)
            run.supervisor.configure(config("configmaps", other))
            await asyncio.sleep(5)
            before = run.stream(other).track
            cluster.asked.clear()
            await asyncio.sleep(60)
            assert cluster.count("tick", other) > 110
            assert [cluster.count("tick", key) for key in ticked] == [0, 0]
            assert where(run, other) == (name, "member")
            assert run.stream(other).track.timespan.total > before.timespan.total + 580
            assert run.stream(other).track.unmeasured == before.unmeasured

    async def test_name_of_a_clock_is_not_used_twice(self, cluster: Cluster) -> None:
        async with self.of_one_storage(cluster, KEYS[0]) as run:
            run.supervisor.configure(config("configmaps", *KEYS[:2]))
            await asyncio.sleep(15)
            run.supervisor.configure(config("configmaps", "things1"))
            await asyncio.sleep(5)
            del cluster.kept_with["things0"]
            cluster.revisions["things0"] = 100_000
            run.supervisor.configure(config("configmaps", "things1", "things0"))
            await asyncio.sleep(15)
            assert where(run, "things1") == ("things0", "member")
            assert where(run, "things0") == ("things0-2", "member")

    async def test_shared_clock_ticks_on_what_can_be_read(self, cluster: Cluster) -> None:
        async with self.of_one_storage(cluster, *KEYS[:3]) as run:
            name = foreign_domain(run)
            refused = domain(run, name).ticks_on[0]
            others = set(KEYS[:3]) - {refused}
            for kind in ("tick", "watch", "list", "probe"):
                cluster.fail(Reason.FORBIDDEN, kind, refused)
            cluster.send(THINGS[KEYS.index(refused)])
            await asyncio.sleep(120)
            assert set(domain(run, name).ticks_on) == others
            before = {key: run.stream(key).track.timespan.total for key in others}
            await asyncio.sleep(60)
            for key in others:
                assert run.stream(key).track.timespan.total > before[key] + 580

    async def test_uncached_resource_of_another_storage_is_ticked_on_alone(self, cluster: Cluster) -> None:
        cluster.kept_with["events"] = "things"
        async with self.of_one_storage(cluster, "pods", "events", *KEYS[:2]) as run:
            name = foreign_domain(run)
            assert {where(run, key)[0] for key in ("events", *KEYS[:2])} == {name}
            assert domain(run, name).ticks_on == ("events",)

    async def test_watch_of_a_shared_clock_returns_to_the_main_one_alone(self, cluster: Cluster) -> None:
        async with self.of_one_storage(cluster, *KEYS[:3]) as run:
            name = foreign_domain(run)
            (moved,) = set(KEYS[:3]) - set(domain(run, name).ticks_on)
            del cluster.kept_with[moved]
            for _ in range(8):
                gone = line("ERROR", 0).replace(b'"object"', b'"object": {"code": 410}, "was"')
                cluster.send(THINGS[KEYS.index(moved)], gone)
                await asyncio.sleep(30)
            assert where(run, moved) == ("main", "member")
            assert {where(run, key) for key in {*KEYS[:3]} - {moved}} == {(name, "member")}
            assert domain(run, name).resets == 0

    async def test_silent_clock_is_not_waited_for_and_found_again(self, cluster: Cluster) -> None:
        async with self.of_one_storage(cluster, KEYS[0]) as run:
            cluster.fail(Reason.TIMEOUT, "tick", "things0")
            await asyncio.sleep(30)
            run.supervisor.configure(config("configmaps", *KEYS[:2]))
            await asyncio.sleep(15)
            assert where(run, "things1") == ("things1", "member")
            cluster.fail(None, "tick", "things0")
            await asyncio.sleep(30)
            await renew(cluster, THINGS[1])
            assert where(run, "things1") == ("things0", "member")
            assert domains(run) == ["main", "things0"]

    async def test_ticks_of_six_storages_stay_within_the_budget(self, cluster: Cluster) -> None:
        async with self.of_six_storages(cluster, clock={"burst": {"ticksPerHour": 0}}) as run:
            assert {where(run, key) for key in KEYS} == {(key, "member") for key in KEYS}
            cluster.asked.clear()
            await asyncio.sleep(60)
            assert 114 <= cluster.count("tick", "events") <= 121, "two a second on the main clock, as without others"
            foreign = [cluster.count("tick", key) for key in KEYS]
            assert sum(foreign) <= 126
            assert min(foreign) >= 18

    async def test_ticks_of_six_storages_starve_no_other_request(self, cluster: Cluster) -> None:
        cluster.limiter = Limiter(config().limits.requests_per_second, clock=time.monotonic)
        async with self.of_six_storages(cluster, start=120) as run:
            for resource in THINGS:
                cluster.send(resource)
            await asyncio.sleep(4)
            assert len(cluster.open_watches()) == 7
            assert all(run.stream(key).up for key in KEYS)

    async def test_windows_are_undecided_if_ticks_are_too_slow(self, cluster: Cluster) -> None:
        async with self.of_six_storages(cluster, objective={"minutes": {"minEvents": 10}}) as run:
            before = {key: run.stream(key).track.objective.windows for key in ("configmaps", *KEYS)}
            await asyncio.sleep(120)
            for key in KEYS:
                track = run.stream(key).track
                judged = {verdict: count - before[key][verdict] for verdict, count in track.objective.windows.items()}
                assert judged == {"good": 0, "bad": 0, "undecided": 2, "no_data": 0}
                assert track.timespan.total > 1000, "events are measured all the same"
            assert run.stream("configmaps").track.objective.windows["good"] >= before["configmaps"]["good"] + 1

    async def test_apiserver_of_another_cluster_needs_one_clock(self, cluster: Cluster) -> None:
        cluster.announce("10.0.0.1", "10.0.0.2")
        cluster.elsewhere["10.0.0.2"] = 5000
        made = config("pods", "configmaps", "nodes", kubernetes={"apiservers": "each"})
        async with writing(cluster, PODS, CONFIGMAPS), running(made, start=60) as run:
            others = [stream for stream in run.snapshot().streams if stream.apiserver.startswith("10.0.0.2")]
            assert {stream.domain for stream in others} <= {"pods", "configmaps", "nodes"}
            assert len({stream.domain for stream in others}) == 1
            assert {stream.membership for stream in others} == {"member"}


class TestBounds:
    async def test_former_apiservers_leave_nothing_in_the_domains(self, cluster: Cluster) -> None:
        cluster.revisions["pods"] = 10
        made = config("pods", "configmaps", kubernetes={"apiservers": "each"})
        async with writing(cluster, PODS, CONFIGMAPS), running(made) as run:
            for number in range(2, 6):
                cluster.announce("10.0.0.1", f"10.0.0.{number}")
                await asyncio.sleep(30)
            assert domains(run) == ["main", "pods"]
            assert run.supervisor._watches.assignment
            for clock in run.supervisor._watches.assignment.clocks:
                names = {"10.0.0.1:6443", "10.0.0.5:6443"}
                assert {name for name, _ in clock.domain._standings} <= names
                assert {name for name, _ in clock.domain._waiting} <= names
                assert {name for name, _ in clock.domain.clock._ticks} == names
                assert set(clock.domain.clock._round_trips) == set(clock.tickers) == names


def soon_judged(**more: Any) -> Config:
    """Return a configuration by which ten events in a minute are enough."""
    return config("pods", "nodes", objective={"minutes": {"minEvents": 10}}, **more)


class TestBursts:
    async def test_late_watch_without_a_known_cause_gets_more_ticks_for_a_minute(
        self, cluster: Cluster, log: Log
    ) -> None:
        cluster.late = 1.5
        async with running(soon_judged()) as run, writing(cluster, PODS):
            await asyncio.sleep(20)
            (began,) = log.of("burst_began")
            assert (began["domain"], began["reason"], began["seconds"]) == ("main", "late", 60.0)
            cluster.asked.clear()
            await asyncio.sleep(10)
            assert cluster.count("tick") == pytest.approx(100, abs=5)
            assert domain(run).bursts == {"late": 1}
            assert domain(run).burst_ticks > 100
            cluster.late = 0.0
            await asyncio.sleep(120)
            assert len(log.of("burst_ended")) == len(log.of("burst_began"))
            cluster.asked.clear()
            await asyncio.sleep(10)
            assert cluster.count("tick") == pytest.approx(20, abs=2)

    async def test_reload_of_the_request_rate_slows_down_a_burst(self, cluster: Cluster, log: Log) -> None:
        cluster.late = 1.5
        async with running(soon_judged()) as run, writing(cluster, PODS):
            await asyncio.sleep(20)
            assert log.of("burst_began")
            run.supervisor.configure(soon_judged(limits={"requestsPerSecond": 8}))
            await asyncio.sleep(1)
            cluster.asked.clear()
            await asyncio.sleep(10)
            assert cluster.count("tick") == pytest.approx(40, abs=4), "half of all requests"

    async def test_bursts_can_be_turned_off(self, cluster: Cluster, log: Log) -> None:
        cluster.late = 1.5
        made = soon_judged(clock={"burst": {"ticksPerHour": 0}})
        async with running(made), writing(cluster, PODS):
            await asyncio.sleep(60)
        assert not log.of("burst_began")


class TestReads:
    async def test_reads_of_members_are_evidence(self, cluster: Cluster) -> None:
        made = Config.model_validate({"watch": [{"resource": "pods", "list": "paged"}, {"resource": "nodes"}]})
        async with writing(cluster, PODS), running(made, start=60) as run:
            for _ in range(2):
                cluster.send(PODS, line("ERROR", 0).replace(b'"object"', b'"object": {"code": 410}, "was"'))
                await asyncio.sleep(30)
            reads = domain(run).reads
            assert reads["nudge"] > 5, "nodes are quiet"
            assert reads["list"] > 0
            assert reads["probe"] > 0
            assert reads["contradicted"] == 0
            assert run.snapshot().domains[0].resets == 0

    async def test_reads_of_another_storage_are_ignored(self, cluster: Cluster) -> None:
        cluster.revisions["nodes"] = 10
        async with writing(cluster, PODS), running(config("pods", "nodes"), start=120) as run:
            assert where(run, "nodes")[0] == "nodes"
            assert domain(run).reads.get("nudge", 0) == 0
            assert domain(run, "nodes").reads["nudge"] > 5
            assert domain(run, "nodes").reads["contradicted"] == 0


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


class TestSplit:
    """Resources that move to another storage while the daemon runs, as after an apiserver restart with an override."""

    @asynccontextmanager
    async def one_storage(self, cluster: Cluster, *resources: Resource) -> AsyncIterator[Running]:
        """Run until all of these are dated by the main clock, with revisions that no new storage has reached."""
        cluster.revision = 5000
        async with writing(cluster, *resources), running(config(*(one.key for one in resources))) as run:
            assert {where(run, one.key) for one in resources} == {("main", "member")}
            yield run

    async def test_moved_resource_starts_over_alone(self, cluster: Cluster) -> None:
        async with self.one_storage(cluster, PODS, NODES, CONFIGMAPS) as run:
            assert domain(run).ticks_on == ("events",)
            cluster.revisions["pods"] = 10
            for resource in (PODS, NODES, CONFIGMAPS):
                cluster.send(resource)
            await asyncio.sleep(30)
            assert where(run, "pods") == ("pods", "member")
            assert run.stream("pods").lists.relists["domain_reset"] == 1
            before = run.stream("pods").track.timespan.total
            await asyncio.sleep(30)
            assert run.stream("pods").track.timespan.total > before + 250
            for key in ("nodes", "configmaps"):
                assert where(run, key) == ("main", "member")
                assert run.stream(key).lists.relists.get("domain_reset", 0) == 0
            assert domain(run).resets == 0

    async def test_moved_resource_of_the_ticks_resets_nothing(self, cluster: Cluster, log: Log) -> None:
        async with self.one_storage(cluster, PODS, NODES) as run:
            before = {key: run.stream(key).track.timespan.total for key in ("pods", "nodes")}
            cluster.revisions["events"] = 10
            await asyncio.sleep(30)
            assert set(domain(run).ticks_on) == {"pods", "nodes"}
            for key in ("pods", "nodes"):
                assert where(run, key) == ("main", "member")
                assert run.stream(key).lists.relists.get("domain_reset", 0) == 0
                assert run.stream(key).track.timespan.total > before[key] + 230
            assert domain(run).resets == 0
        assert [entry["on"] for entry in log.of("ticking")] in (
            [["events"], ["pods", "nodes"]],
            [["events"], ["nodes", "pods"]],
        )

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

    async def test_storage_is_restored_although_a_read_fails(self, cluster: Cluster) -> None:
        async with self.one_storage(cluster, PODS, NODES) as run:
            cluster.fail(Reason.TIMEOUT, "probe", "pods")
            cluster.revision = 50
            await asyncio.sleep(5)
            assert domain(run).resets == 1

    async def test_nothing_is_reset_while_no_other_resource_can_be_read(self, cluster: Cluster) -> None:
        async with self.one_storage(cluster, PODS, NODES) as run:
            cluster.fail(Reason.SERVER_ERROR, "probe")
            cluster.revisions["events"] = 10
            await asyncio.sleep(10)
            assert domain(run).ticks_on == ("events",)
            cluster.fail(None, "probe")
            await asyncio.sleep(10)
            assert set(domain(run).ticks_on) == {"pods", "nodes"}
            assert domain(run).resets == 0


async def test_pause_ends_all_clocks_and_resume_starts_again(cluster: Cluster) -> None:
    cluster.revisions["pods"] = 10
    async with writing(cluster, PODS, CONFIGMAPS), running(config("pods", "configmaps")) as run:
        assert where(run, "pods") == ("pods", "member")
        run.supervisor.configure(config("pods", "configmaps", paused=True))
        await asyncio.sleep(2)
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
