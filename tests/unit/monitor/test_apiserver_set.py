"""Which apiservers are watched: everything but the cluster is real."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.unit.monitor.cluster import EVENTS, NODES, PODS, Cluster, Log, because_of
from tests.unit.monitor.inside import STARTED_SECONDS, Running, config, keep_writing, running
from watchslo.config.model import Config
from watchslo.kube.apiservers import LEASE_SECONDS, LEASES, SLICES
from watchslo.model import SERVICE
from watchslo.monitor.apiserver_follower import FOLLOW_SECONDS
from watchslo.snapshot import ApiserverReading, StreamReading
from watchslo.watch.failure import Phase, Reason

HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
NAMES = tuple(f"{host}:6443" for host in HOSTS)
ONE, TWO, THREE = NAMES


@pytest.fixture
def cluster(cluster: Cluster) -> Cluster:
    cluster.announce(*HOSTS)
    return cluster


def each(*resources: str, **more: Any) -> Config:
    return config(*resources, **{"kubernetes": {"apiservers": "each"}, **more})


def watched(run: Running) -> list[tuple[str, str]]:
    return sorted((stream.apiserver, stream.watch) for stream in run.snapshot().streams)


def stream(run: Running, apiserver: str, label: str = "pods") -> StreamReading:
    return next(one for one in run.snapshot().streams if (one.apiserver, one.watch) == (apiserver, label))


def apiserver(run: Running, name: str) -> ApiserverReading:
    return next(one for one in run.snapshot().apiservers if one.name == name)


class TestEach:
    async def test_watches_every_resource_at_every_apiserver(self, cluster: Cluster) -> None:
        async with running(each("pods", "nodes")) as run:
            assert watched(run) == [(name, label) for name in NAMES for label in ("nodes", "pods")]
            assert [one.name for one in run.snapshot().apiservers if one.watched] == [*NAMES]
            assert all(one.version == "v1.36.3" for one in run.snapshot().apiservers)
            assert run.not_ready() == ()
            await keep_writing(cluster, PODS)
            await asyncio.sleep(10)
            assert [stream(run, name).track.timespan.total for name in NAMES] == [600] * 3
        assert not cluster.is_open

    async def test_each_apiserver_gets_the_ticks_of_one(self, cluster: Cluster) -> None:
        async with running(each("pods", limits={"auditsPerSecond": 0})):
            cluster.asked_at.clear()
            await asyncio.sleep(120)
            ticks = Counter({name: cluster.asked_at[name, "tick"] for name in NAMES})
        assert set(ticks) == set(NAMES)
        assert all(230 < count < 250 for count in ticks.values())

    async def test_healthy_cluster_gets_few_reads(self, cluster: Cluster) -> None:
        async with running(each("pods", "nodes"), start=60):
            cluster.asked_at.clear()
            await keep_writing(cluster, PODS, NODES, seconds=120)
            asked = {
                name: {kind: count for (at, kind), count in cluster.asked_at.items() if at == name} for name in NAMES
            }
        for kinds in asked.values():
            assert kinds["tick"] > 200
            assert sum(kinds.values()) <= 2.5 * 120
            assert "probe_cache" not in kinds

    async def test_audits_share_the_rate_of_one_apiserver(self, cluster: Cluster) -> None:
        async with running(each("pods", "nodes", limits={"auditsPerSecond": 0.5})):
            cluster.asked_at.clear()
            await asyncio.sleep(120)
            assert 0 < sum(cluster.asked_at[name, "nudge"] for name in NAMES) <= 62

    async def test_limit_of_watches_covers_all_apiservers(self, cluster: Cluster) -> None:  # noqa: ARG002 - has them
        async with running(each("pods", "nodes", limits={"watches": 4})) as run:
            assert watched(run) == [(name, "pods") for name in NAMES]

    async def test_slow_apiserver_is_measured_by_ticks_of_the_others(self, cluster: Cluster) -> None:
        """A tick through the same slow path hides the delay that it shares."""
        cluster.slow_at[HOSTS[0]] = 0.4
        async with running(each("pods", "nodes")) as run:
            await keep_writing(cluster, PODS)
            await asyncio.sleep(10)
            median = stream(run, ONE).track.windows[-1].quantiles[0]
            assert median.estimate == pytest.approx(0.4, abs=0.05)
            assert stream(run, TWO).track.windows[-1].quantiles[0].estimate < 0.05
            excess, none = stream(run, ONE).behind_fastest, stream(run, TWO).behind_fastest
            assert excess
            assert none
            assert excess.p50 == pytest.approx(0.4, abs=0.01)
            assert none.p99 < 0.01
            slow = apiserver(run, ONE)
            assert slow.combined
            assert slow.alone
            assert slow.combined.events == slow.alone.events > 400
            assert slow.combined.quantiles[0].estimate == pytest.approx(0.4, abs=0.05)
            assert slow.alone.quantiles[0].estimate < 0.25

    @pytest.mark.parametrize(("seconds", "probed"), [(0.05, set()), (0.1, {ONE})])
    async def test_caches_behind_slow_ticks_are_read(self, cluster: Cluster, seconds: float, probed: set[str]) -> None:
        """No watch is late by a fifth of its threshold; the reads show on which side of the cache the delay is."""
        cluster.slow_at[HOSTS[0]] = seconds
        async with running(each("pods")):
            await asyncio.sleep(30)
            assert {name for name in NAMES if cluster.asked_at[name, "probe_cache"]} == probed

    async def test_paused_daemon_asks_no_apiserver(self, cluster: Cluster, refresh: float) -> None:
        async with running(each("pods")) as run:
            run.supervisor.configure(each("pods", paused=True))
            await asyncio.sleep(1)
            assert not cluster.open_watches()
            assert not cluster.address_watches
            cluster.asked.clear()
            await asyncio.sleep(2 * refresh)
            assert not cluster.asked
            run.supervisor.configure(each("pods"))
            await asyncio.sleep(20)
            assert watched(run) == [(name, "pods") for name in NAMES]


class TestComeAndGo:
    async def test_replaced_apiserver_is_followed_at_once(self, cluster: Cluster) -> None:
        async with running(each("pods")) as run:
            kept = next(watch for watch in cluster.open_watches() if watch.apiserver == TWO)
            cluster.announce("10.0.0.2", "10.0.0.3", "10.0.0.4")
            await asyncio.sleep(5)
            assert watched(run) == [(name, "pods") for name in (TWO, THREE, "10.0.0.4:6443")]
            assert kept in cluster.open_watches()
            assert {door.name for door in cluster.doors} == {"service", TWO, THREE, "10.0.0.4:6443"}
            await asyncio.sleep(15)
            assert run.not_ready() == ()
            assert stream(run, "10.0.0.4:6443").membership == "member"

    async def test_apiservers_that_left_without_a_watch_are_closed(self, cluster: Cluster) -> None:
        cluster.served = [EVENTS]
        async with running(each()) as run:
            for number in range(4, 9):
                cluster.announce(f"10.0.0.{number}")
                await asyncio.sleep(5)
            assert watched(run) == []
            assert {door.name for door in cluster.doors} == {"service", "10.0.0.8:6443"}

    async def test_returning_apiserver_is_asked_again(self, cluster: Cluster) -> None:
        async with running(each("pods")) as run:
            cluster.announce(*HOSTS[1:])
            await asyncio.sleep(5)
            cluster.announce(*HOSTS)
            await asyncio.sleep(20)
            assert watched(run) == [(name, "pods") for name in NAMES]
            assert stream(run, ONE).membership == "member"

    async def test_replacement_is_found_without_a_watch_event(self, cluster: Cluster) -> None:
        """The apiserver that would have reported it is the one that is gone."""
        async with running(each("pods")) as run:
            (watch,) = cluster.address_watches
            watch.send(because_of(Reason.RESET, Phase.STREAM))
            await asyncio.sleep(1)
            cluster.announce(*HOSTS[1:])
            await asyncio.sleep(FOLLOW_SECONDS + 5)
            assert watched(run) == [(name, "pods") for name in (TWO, THREE)]

    async def test_replacement_is_found_when_the_service_is_unreachable(self, cluster: Cluster) -> None:
        async with running(each("pods")) as run:
            cluster.dead.add("service")
            cluster.announce(*HOSTS[1:])
            await asyncio.sleep(30)
            assert watched(run) == [(name, "pods") for name in (TWO, THREE)]
            assert run.not_ready() == ()

    async def test_replacement_is_found_when_the_service_leads_to_a_stopped_one(self, cluster: Cluster) -> None:
        async with running(each("pods")) as run:
            cluster.mute.add("service")
            await asyncio.sleep(FOLLOW_SECONDS + 5)
            cluster.announce(*HOSTS[1:])
            await asyncio.sleep(FOLLOW_SECONDS + 15)
            assert watched(run) == [(name, "pods") for name in (TWO, THREE)]

    async def test_removed_apiserver_is_not_reported_as_hidden(self, cluster: Cluster, log: Log) -> None:
        """Its address disappears before its lease expires."""
        async with running(each("pods")) as run:
            cluster.leases = 3
            cluster.announce(*HOSTS[1:])
            await asyncio.sleep(50)
            cluster.leases = None
            await asyncio.sleep(50)
            assert [apiserver(run, name).peers for name in (TWO, THREE)] == [1, 1]
        assert not log.of("apiservers_hidden")

    async def test_all_apiservers_can_be_replaced(self, cluster: Cluster) -> None:
        async with running(each("pods")) as run:
            cluster.announce("10.0.0.7")
            await asyncio.sleep(20)
            assert watched(run) == [("10.0.0.7:6443", "pods")]
            assert run.not_ready() == ()

    async def test_dead_apiserver_does_not_affect_the_others(self, cluster: Cluster, log: Log) -> None:
        async with running(each("pods", "nodes")) as run:
            cluster.kill(HOSTS[0])
            await asyncio.sleep(30)
            cluster.asked_at.clear()
            await keep_writing(cluster, PODS)
            await asyncio.sleep(10)
            assert run.not_ready() == ()
            assert not stream(run, ONE).up
            assert [stream(run, name).track.timespan.total for name in (TWO, THREE)] == [600] * 2
            assert 130 < cluster.asked_at[TWO, "tick"] < 150
            assert (stream(run, ONE).cache.behind_peers or 0) > 10
            assert stream(run, TWO).cache.behind_peers == 0
            (ticker,) = (one for one in run.snapshot().domains[0].tickers if one.apiserver == ONE)
            assert ticker.failure
            assert (ticker.answered_ago or 0) > 60
        assert len([entry for entry in log.of("tick_failed") if entry.get("apiserver") == ONE]) == 1

    async def test_apiserver_dead_from_the_start_does_not_delay_readiness(self, cluster: Cluster) -> None:
        cluster.dead.add(HOSTS[2])
        async with running(each("pods")) as run:
            assert run.not_ready() == ()
            assert stream(run, ONE).membership == "member"
            assert not stream(run, THREE).up
            cluster.dead.clear()
            await asyncio.sleep(120)
            assert stream(run, THREE).membership == "member"

    async def test_remaining_apiserver_becomes_anchor_after_the_anchor_left(self, cluster: Cluster) -> None:
        """No apiserver could be compared with the first one while it was there."""
        cluster.dead.update(HOSTS[1:])
        async with running(each("pods")) as run:
            cluster.announce(*HOSTS[1:])
            await asyncio.sleep(5)
            cluster.dead.clear()
            await asyncio.sleep(60)
            assert run.not_ready() == ()
            assert [stream(run, name).membership for name in (TWO, THREE)] == ["member"] * 2
            assert run.snapshot().domains[0].resets == 0

    async def test_remaining_apiserver_becomes_anchor_after_the_anchor_died(self, cluster: Cluster) -> None:
        cluster.fail(Reason.FORBIDDEN, "discovery", SLICES)
        cluster.dead.update(HOSTS[1:])
        async with running(each("pods", kubernetes={"apiservers": [f"https://{name}" for name in NAMES]})) as run:
            cluster.kill(HOSTS[0])
            cluster.dead.difference_update(HOSTS[1:])
            await asyncio.sleep(120)
            assert run.not_ready() == ()
            assert [stream(run, name).membership for name in (TWO, THREE)] == ["member"] * 2

    async def test_watches_on_own_clocks_return_together(self, cluster: Cluster, log: Log) -> None:
        cluster.revisions["pods"] = 5000
        async with running(each("pods", "nodes")) as run:
            assert {one.domain for one in run.snapshot().streams} == {"main", "pods"}
            del cluster.revisions["pods"]
            cluster.revision = 6000
            for _ in range(6):
                cluster.send(PODS)
                await asyncio.sleep(30)
            assert {one.domain for one in run.snapshot().streams} == {"main"}
            assert [one.name for one in run.snapshot().domains] == ["main"]
        assert not log.of("task_crashed")

    async def test_restored_storage_resets_once_without_a_cause(self, cluster: Cluster, log: Log) -> None:
        cluster.revision = 9000
        async with running(each("pods", "nodes")) as run:
            await keep_writing(cluster, PODS, NODES, EVENTS, seconds=20)
            cluster.revision = 4000
            cluster.history.clear()
            await keep_writing(cluster, PODS, NODES, EVENTS, seconds=30)
            counted = [stream(run, name).track.timespan.total for name in NAMES]
            await keep_writing(cluster, PODS, NODES, EVENTS, seconds=30)
            await asyncio.sleep(10)
            assert run.not_ready() == ()
            assert run.snapshot().domains[0].resets == 1
            streams = run.snapshot().streams
            assert {one.membership for one in streams} == {"member"}
            assert max(one.track.windows[0].quantiles[-1].lower for one in streams) < 0.05
            assert [stream(run, name).track.timespan.total - of for name, of in zip(NAMES, counted, strict=True)] > [
                280
            ] * 3
        assert not log.of("cause_began")


class TestNotToBeHad:
    async def test_forbidden_addresses_leave_the_service_watched(
        self, cluster: Cluster, log: Log, refresh: float
    ) -> None:
        cluster.fail(Reason.FORBIDDEN, "discovery", SLICES)
        async with running(each("pods")) as run:
            await asyncio.sleep(3 * refresh)
            assert watched(run) == [("service", "pods")]
            assert run.not_ready() == ()
        assert len(log.of("apiservers_unknown")) == 1

    async def test_addresses_that_were_refused_once_are_read_again_soon(self, cluster: Cluster) -> None:
        """An apiserver that starts refuses everything for a moment."""
        cluster.fail(Reason.FORBIDDEN, "discovery", SLICES)
        async with running(each("pods"), start=2) as run:
            cluster.failures.clear()
            await asyncio.sleep(STARTED_SECONDS)
            assert watched(run) == [(name, "pods") for name in NAMES]

    async def test_unreachable_addresses_leave_the_service_watched(
        self, cluster: Cluster, log: Log, refresh: float
    ) -> None:
        cluster.dead.update(HOSTS)
        async with running(each("pods"), start=40) as run:
            assert watched(run) == [("service", "pods")]
            assert run.not_ready() == ()
            await asyncio.sleep(2 * refresh)
            assert len(log.of("apiservers_unreachable")) == 1
            cluster.dead.clear()
            await asyncio.sleep(2 * refresh)
            assert watched(run) == [(name, "pods") for name in NAMES]

    async def test_address_that_hides_several_apiservers_is_reported(
        self, cluster: Cluster, log: Log, refresh: float
    ) -> None:
        cluster.leases = 5
        cluster.date_skew = 0.0
        async with running(each("pods")) as run:
            await asyncio.sleep(3 * refresh)
            assert apiserver(run, ONE).peers is None
            assert apiserver(run, "service").peers == 5
        assert [(entry["addresses"], entry["apiservers"]) for entry in log.of("apiservers_hidden")] == [(3, 5)]

    async def test_single_address_with_several_apiservers_has_no_cache_reads(self, cluster: Cluster) -> None:
        cluster.announce(HOSTS[0])
        cluster.leases = 3
        cluster.date_skew = 0.0
        watch = [{"resource": "pods", "hops": True}]
        async with running(each(watch=watch), start=120) as run:
            cluster.asked.clear()
            await asyncio.sleep(30)
            assert not cluster.count("probe_cache")
            assert apiserver(run, ONE).peers == 3
            assert apiserver(run, ONE).offset is None

    async def test_number_is_unknown_without_announced_apiservers(self, cluster: Cluster) -> None:
        cluster.announce()
        cluster.date_skew = 0.0
        async with running(config("pods"), start=60) as run:
            assert apiserver(run, "service").peers is None
            assert apiserver(run, "service").offset is not None

    async def test_single_address_may_hide_others_if_leases_cannot_be_read(self, cluster: Cluster) -> None:
        cluster.announce(HOSTS[0])
        cluster.fail(Reason.FORBIDDEN, "discovery", LEASES)
        async with running(each(watch=[{"resource": "pods", "hops": True}]), start=120) as run:
            cluster.asked.clear()
            await asyncio.sleep(30)
            assert apiserver(run, ONE).peers is None
            assert not cluster.count("probe_cache")

    @pytest.mark.parametrize(("apiservers", "name"), [("each", ONE), ("service", SERVICE)])
    async def test_lease_of_an_apiserver_that_has_just_started_is_found_soon(
        self, cluster: Cluster, apiservers: str, name: str
    ) -> None:
        cluster.announce(HOSTS[0])
        cluster.leases = 0
        async with running(config("pods", kubernetes={"apiservers": apiservers})) as run:
            assert apiserver(run, name).peers is None
            cluster.leases = 1
            await asyncio.sleep(2 * LEASE_SECONDS)
            assert apiserver(run, name).peers == 1

    async def test_number_stays_known_while_leases_cannot_be_read_for_a_moment(
        self, cluster: Cluster, log: Log, refresh: float
    ) -> None:
        cluster.announce(HOSTS[0])
        async with running(each("pods")) as run:
            assert apiserver(run, ONE).peers == 1
            cluster.fail(Reason.UNREACHABLE, "discovery", LEASES)
            await asyncio.sleep(2 * refresh)
            assert log.of("apiservers_uncounted")
            assert apiserver(run, ONE).peers == 1
            cluster.fail(Reason.FORBIDDEN, "discovery", LEASES)
            await asyncio.sleep(1.5 * refresh)
            assert apiserver(run, ONE).peers == 1, "an apiserver that starts refuses everything for a moment"
            await asyncio.sleep(2 * LEASE_SECONDS)
            assert apiserver(run, ONE).peers is None

    async def test_forbidden_leases_are_reported_once(self, cluster: Cluster, log: Log, refresh: float) -> None:
        cluster.fail(Reason.FORBIDDEN, "discovery", LEASES)
        async with running(each("pods")) as run:
            await asyncio.sleep(3 * refresh)
            assert apiserver(run, ONE).peers == 1
            assert watched(run) == [(name, "pods") for name in NAMES]
        assert len(log.of("apiservers_uncounted")) == 1


class TestListed:
    async def test_configured_apiservers_are_watched(self, cluster: Cluster) -> None:
        cluster.fail(Reason.FORBIDDEN, "discovery", SLICES)
        urls = ["https://10.0.0.2:6443", "https://10.0.0.9:6443"]
        async with running(each("pods", kubernetes={"apiservers": urls})) as run:
            assert watched(run) == [(TWO, "pods"), ("10.0.0.9:6443", "pods")]

    async def test_caches_of_configured_apiservers_are_read(self, cluster: Cluster, log: Log) -> None:
        watch = [{"resource": "pods", "hops": True}]
        async with running(each(watch=watch, kubernetes={"apiservers": ["https://10.0.0.2:6443"]})) as run:
            assert apiserver(run, TWO).peers == 1
            cluster.asked.clear()
            await asyncio.sleep(100)
            assert cluster.count("probe_cache")
        assert log.of("apiservers_hidden") == [], "the cluster announces it as one of several"

    @pytest.mark.parametrize("announced", [HOSTS, ("10.0.0.9",)])
    async def test_possible_load_balancer_is_reported_as_hiding_others(
        self, cluster: Cluster, log: Log, refresh: float, announced: tuple[str, ...]
    ) -> None:
        cluster.announce(*announced)
        cluster.leases = 3
        urls = ["https://10.0.0.9:6443"]
        async with running(each("pods", kubernetes={"apiservers": urls})) as run:
            await asyncio.sleep(3 * refresh)
            assert apiserver(run, "10.0.0.9:6443").peers is None
        assert [(entry["addresses"], entry["apiservers"]) for entry in log.of("apiservers_hidden")] == [(1, 3)]

    async def test_dead_first_apiserver_is_tolerated(self, cluster: Cluster) -> None:
        cluster.dead.add("10.0.0.2")
        urls = ["https://10.0.0.2:6443", "https://10.0.0.9:6443"]
        async with running(each("pods", kubernetes={"apiservers": urls}), start=60) as run:
            assert stream(run, "10.0.0.9:6443").membership == "member"
            assert run.not_ready() == ()

    async def test_blind_clock_uses_its_own_ticks_while_the_others_are_silent(self, cluster: Cluster) -> None:
        """Ticks on the watched cache through one apiserver hide its lag, but they are all there is."""
        cluster.fail(Reason.FORBIDDEN, "tick", "events")
        async with running(each("pods")) as run:
            for host in HOSTS[1:]:
                cluster.kill(host)
            await asyncio.sleep(30)
            before = stream(run, ONE).track.timespan.total
            await keep_writing(cluster, PODS)
            await asyncio.sleep(10)
            assert stream(run, ONE).track.timespan.total - before == 600


class TestForeign:
    async def test_apiserver_of_another_cluster_is_not_trusted(self, cluster: Cluster) -> None:
        cluster.elsewhere[HOSTS[1]] = 10**6
        async with running(each("pods", "nodes")) as run:
            await keep_writing(cluster, PODS, NODES, EVENTS, seconds=30)
            await asyncio.sleep(10)
            (ticker,) = (one for one in run.snapshot().domains[0].tickers if one.apiserver == TWO)
            assert not ticker.confirmed
            assert run.snapshot().domains[0].resets == 0
            assert stream(run, ONE).track.timespan.total == 300
            assert stream(run, ONE).track.windows[0].quantiles[-1].upper <= 1.0

    async def test_foreign_apiserver_gets_few_ticks(self, cluster: Cluster) -> None:
        """They only show whether it belongs to the domain by now."""
        cluster.elsewhere[HOSTS[1]] = 10**6
        async with running(each("nodes", limits={"auditsPerSecond": 0})):
            cluster.asked.clear()
            cluster.asked_at.clear()
            await asyncio.sleep(120)
            assert cluster.count("tick", EVENTS.key) < 2 * 250 + 30
            assert cluster.asked_at[ONE, "tick"] > 230

    async def test_foreign_apiserver_is_not_compared_with_others(self, cluster: Cluster) -> None:
        """Its watches deliver revisions of another sequence, which the other watches cannot lack."""
        cluster.elsewhere[HOSTS[1]] = 10**6
        async with running(each("pods", "nodes")) as run:
            await keep_writing(cluster, PODS, NODES, EVENTS, seconds=20)
            await asyncio.sleep(20)
            assert [stream(run, name).cache.behind_peers for name in NAMES] == [0.0, None, 0.0]
            assert run.snapshot().causes == ()
