"""Which apiservers are watched: everything but the cluster is real."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.unit.monitor.cluster import EVENTS, NODES, PODS, Cluster, Log, because_of
from tests.unit.monitor.inside import Running, config, keep_writing, running
from watchslo.config import Config
from watchslo.kube.apiservers import LEASES, SLICES
from watchslo.monitor.fleet import FOLLOW_SECONDS
from watchslo.monitor.supervisor import REFRESH_SECONDS
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
    return sorted((stream.apiserver, stream.watch) for stream in run.supervisor.snapshot().streams)


def stream(run: Running, apiserver: str, label: str = "pods") -> StreamReading:
    return next(one for one in run.supervisor.snapshot().streams if (one.apiserver, one.watch) == (apiserver, label))


def apiserver(run: Running, name: str) -> ApiserverReading:
    return next(one for one in run.supervisor.snapshot().apiservers if one.name == name)


class TestEach:
    async def test_watches_every_resource_at_every_apiserver(self, cluster: Cluster) -> None:
        async with running(each("pods", "nodes")) as run:
            assert watched(run) == [(name, label) for name in NAMES for label in ("nodes", "pods")]
            assert [one.name for one in run.supervisor.snapshot().apiservers if one.watched] == [*NAMES]
            assert all(one.version == "v1.36.3" for one in run.supervisor.snapshot().apiservers)
            assert run.not_ready() == ()
            await keep_writing(cluster, PODS)
            await asyncio.sleep(10)
            assert [stream(run, name).track.timespan.total for name in NAMES] == [600] * 3
        assert not cluster.is_open

    async def test_ticks_share_the_rate_of_one(self, cluster: Cluster) -> None:
        async with running(each("pods", limits={"auditsPerSecond": 0})):
            cluster.asked_at.clear()
            await asyncio.sleep(120)
            ticks = Counter({name: cluster.asked_at[name, "tick"] for name in NAMES})
        assert 230 < ticks.total() < 250
        assert max(ticks.values()) - min(ticks.values()) < 5

    async def test_so_do_audits(self, cluster: Cluster) -> None:
        async with running(each("pods", "nodes", limits={"auditsPerSecond": 0.5})):
            cluster.asked_at.clear()
            await asyncio.sleep(120)
            assert 0 < sum(cluster.asked_at[name, "nudge"] for name in NAMES) <= 62

    async def test_the_limit_of_watches_is_for_all_of_them(self, cluster: Cluster) -> None:  # noqa: ARG002 - has them
        async with running(each("pods", "nodes", limits={"watches": 4})) as run:
            assert watched(run) == [(name, "pods") for name in NAMES]

    async def test_a_slow_one_is_told_by_the_ticks_of_the_others(self, cluster: Cluster) -> None:
        """A tick through the same slow way hides exactly the delay that it shares."""
        cluster.slow_at[HOSTS[0]] = 0.4
        async with running(each("pods", "nodes")) as run:
            await keep_writing(cluster, PODS)
            await asyncio.sleep(10)
            median = stream(run, ONE).track.windows[-1].quantiles[0]
            assert median.estimate == pytest.approx(0.4, abs=0.05)
            assert stream(run, TWO).track.windows[-1].quantiles[0].estimate < 0.05
            slow = apiserver(run, ONE)
            assert slow.combined
            assert slow.alone
            assert slow.combined.events == slow.alone.events > 400
            assert slow.combined.quantiles[0].estimate == pytest.approx(0.4, abs=0.05)
            assert slow.alone.quantiles[0].estimate < 0.25

    async def test_paused_means_that_none_is_asked(self, cluster: Cluster) -> None:
        async with running(each("pods")) as run:
            run.supervisor.configure(each("pods", paused=True))
            await asyncio.sleep(1)
            assert not cluster.open_watches()
            assert not cluster.bells
            cluster.asked.clear()
            await asyncio.sleep(2 * REFRESH_SECONDS)
            assert not cluster.asked
            run.supervisor.configure(each("pods"))
            await asyncio.sleep(20)
            assert watched(run) == [(name, "pods") for name in NAMES]


class TestComeAndGo:
    async def test_a_replaced_one_is_followed_at_once(self, cluster: Cluster) -> None:
        async with running(each("pods")) as run:
            kept = cluster.open_watches()[1]
            cluster.announce("10.0.0.2", "10.0.0.3", "10.0.0.4")
            await asyncio.sleep(5)
            assert watched(run) == [(name, "pods") for name in (TWO, THREE, "10.0.0.4:6443")]
            assert kept in cluster.open_watches()
            assert {door.name for door in cluster.doors} == {"service", TWO, THREE, "10.0.0.4:6443"}
            await asyncio.sleep(15)
            assert run.not_ready() == ()
            assert stream(run, "10.0.0.4:6443").membership == "member"

    async def test_one_that_comes_back_is_asked_again(self, cluster: Cluster) -> None:
        async with running(each("pods")) as run:
            cluster.announce(*HOSTS[1:])
            await asyncio.sleep(5)
            cluster.announce(*HOSTS)
            await asyncio.sleep(20)
            assert watched(run) == [(name, "pods") for name in NAMES]
            assert stream(run, ONE).membership == "member"

    async def test_is_followed_though_nobody_rings_the_bell(self, cluster: Cluster) -> None:
        """Whoever would have rung it is the one that is gone."""
        async with running(each("pods")) as run:
            (bell,) = cluster.bells
            bell.send(because_of(Reason.RESET, Phase.STREAM))
            await asyncio.sleep(1)
            cluster.announce(*HOSTS[1:])
            await asyncio.sleep(FOLLOW_SECONDS + 5)
            assert watched(run) == [(name, "pods") for name in (TWO, THREE)]

    async def test_is_followed_though_the_service_has_lost_its_way(self, cluster: Cluster) -> None:
        async with running(each("pods")) as run:
            cluster.dead.add("service")
            cluster.announce(*HOSTS[1:])
            await asyncio.sleep(30)
            assert watched(run) == [(name, "pods") for name in (TWO, THREE)]
            assert run.not_ready() == ()

    async def test_is_followed_though_the_service_sends_us_to_one_that_is_stopped(self, cluster: Cluster) -> None:
        async with running(each("pods")) as run:
            cluster.mute.add("service")
            await asyncio.sleep(FOLLOW_SECONDS + 5)
            cluster.announce(*HOSTS[1:])
            await asyncio.sleep(FOLLOW_SECONDS + 15)
            assert watched(run) == [(name, "pods") for name in (TWO, THREE)]

    async def test_one_that_is_gone_is_not_taken_for_hidden(self, cluster: Cluster, log: Log) -> None:
        """Its address goes sooner than its lease can tell."""
        async with running(each("pods")) as run:
            cluster.leases = 3
            cluster.announce(*HOSTS[1:])
            await asyncio.sleep(50)
            cluster.leases = None
            await asyncio.sleep(50)
            assert [apiserver(run, name).peers for name in (TWO, THREE)] == [1, 1]
        assert not log.of("apiservers_hidden")

    async def test_all_can_be_replaced(self, cluster: Cluster) -> None:
        async with running(each("pods")) as run:
            cluster.announce("10.0.0.7")
            await asyncio.sleep(20)
            assert watched(run) == [("10.0.0.7:6443", "pods")]
            assert run.not_ready() == ()

    async def test_a_dead_one_disturbs_no_other(self, cluster: Cluster, log: Log) -> None:
        async with running(each("pods", "nodes")) as run:
            cluster.kill(HOSTS[0])
            await asyncio.sleep(30)
            cluster.asked_at.clear()
            await keep_writing(cluster, PODS)
            await asyncio.sleep(10)
            assert run.not_ready() == ()
            assert not stream(run, ONE).up
            assert [stream(run, name).track.timespan.total for name in (TWO, THREE)] == [600] * 2
            assert 60 < cluster.asked_at[TWO, "tick"] < 80
            assert (stream(run, ONE).behind_peers or 0) > 10
            assert stream(run, TWO).behind_peers == 0
            (ticker,) = (one for one in run.supervisor.snapshot().domains[0].tickers if one.apiserver == ONE)
            assert ticker.failure
            assert (ticker.answered_ago or 0) > 60
        assert len([entry for entry in log.of("tick_failed") if entry.get("apiserver") == ONE]) == 1

    async def test_one_that_is_dead_from_the_start_keeps_nobody_waiting(self, cluster: Cluster) -> None:
        cluster.dead.add(HOSTS[2])
        async with running(each("pods")) as run:
            assert run.not_ready() == ()
            assert stream(run, ONE).membership == "member"
            assert not stream(run, THREE).up
            cluster.dead.clear()
            await asyncio.sleep(120)
            assert stream(run, THREE).membership == "member"

    async def test_whoever_is_left_ticks_on_where_only_one_that_has_gone_was_known(self, cluster: Cluster) -> None:
        """Nobody could be compared with the first one while it was there."""
        cluster.dead.update(HOSTS[1:])
        async with running(each("pods")) as run:
            cluster.announce(*HOSTS[1:])
            await asyncio.sleep(5)
            cluster.dead.clear()
            await asyncio.sleep(60)
            assert run.not_ready() == ()
            assert [stream(run, name).membership for name in (TWO, THREE)] == ["member"] * 2
            assert run.supervisor.snapshot().domains[0].resets == 0

    async def test_whoever_is_left_ticks_on_where_only_one_that_has_died_was_known(self, cluster: Cluster) -> None:
        cluster.fail(Reason.FORBIDDEN, "discovery", SLICES)
        cluster.dead.update(HOSTS[1:])
        async with running(each("pods", kubernetes={"apiservers": [f"https://{name}" for name in NAMES]})) as run:
            cluster.kill(HOSTS[0])
            cluster.dead.difference_update(HOSTS[1:])
            await asyncio.sleep(120)
            assert run.not_ready() == ()
            assert [stream(run, name).membership for name in (TWO, THREE)] == ["member"] * 2

    async def test_who_has_clocks_of_their_own_may_return_together(self, cluster: Cluster, log: Log) -> None:
        cluster.revisions["pods"] = 5000
        async with running(each("pods", "nodes")) as run:
            assert {one.domain for one in run.supervisor.snapshot().streams} == {"main", "pods"}
            del cluster.revisions["pods"]
            cluster.revision = 6000
            for _ in range(6):
                cluster.send(PODS)
                await asyncio.sleep(30)
            assert {one.domain for one in run.supervisor.snapshot().streams} == {"main"}
            assert [one.name for one in run.supervisor.snapshot().domains] == ["main"]
        assert not log.of("task_crashed")

    async def test_a_restored_storage_resets_once_and_blames_nobody(self, cluster: Cluster, log: Log) -> None:
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
            assert run.supervisor.snapshot().domains[0].resets == 1
            streams = run.supervisor.snapshot().streams
            assert {one.membership for one in streams} == {"member"}
            assert max(one.track.windows[0].quantiles[-1].lower for one in streams) < 0.05
            assert [stream(run, name).track.timespan.total - of for name, of in zip(NAMES, counted, strict=True)] > [
                280
            ] * 3
        assert not log.of("cause_began")


class TestNotToBeHad:
    async def test_goes_on_with_the_service_where_addresses_may_not_be_read(self, cluster: Cluster, log: Log) -> None:
        cluster.fail(Reason.FORBIDDEN, "discovery", SLICES)
        async with running(each("pods")) as run:
            await asyncio.sleep(3 * REFRESH_SECONDS)
            assert watched(run) == [("service", "pods")]
            assert run.not_ready() == ()
        assert len(log.of("apiservers_unknown")) == 1

    async def test_goes_on_with_the_service_where_addresses_cannot_be_reached(self, cluster: Cluster, log: Log) -> None:
        cluster.dead.update(HOSTS)
        async with running(each("pods"), start=40) as run:
            assert watched(run) == [("service", "pods")]
            assert run.not_ready() == ()
            await asyncio.sleep(2 * REFRESH_SECONDS)
            assert len(log.of("apiservers_unreachable")) == 1
            cluster.dead.clear()
            await asyncio.sleep(2 * REFRESH_SECONDS)
            assert watched(run) == [(name, "pods") for name in NAMES]

    async def test_says_so_where_an_address_hides_several(self, cluster: Cluster, log: Log) -> None:
        cluster.leases = 5
        cluster.date_skew = 0.0
        async with running(each("pods")) as run:
            await asyncio.sleep(3 * REFRESH_SECONDS)
            assert apiserver(run, ONE).peers is None
            assert apiserver(run, "service").peers == 5
        assert [(entry["addresses"], entry["apiservers"]) for entry in log.of("apiservers_hidden")] == [(3, 5)]

    async def test_knows_how_many_a_single_address_hides_and_reads_none_of_their_caches(self, cluster: Cluster) -> None:
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

    async def test_reads_no_caches_of_which_it_is_not_known_whose_they_are(self, cluster: Cluster) -> None:
        cluster.leases = 5
        async with running(each(watch=[{"resource": "pods", "hops": True}]), start=120):
            cluster.asked.clear()
            await asyncio.sleep(30)
            assert not cluster.count("probe_cache")

    async def test_where_nobody_announces_itself_it_is_not_known_how_many_there_are(self, cluster: Cluster) -> None:
        cluster.announce()
        cluster.date_skew = 0.0
        async with running(config("pods"), start=60) as run:
            assert apiserver(run, "service").peers is None
            assert apiserver(run, "service").offset is not None

    async def test_leases_that_may_not_be_read_are_said_once(self, cluster: Cluster, log: Log) -> None:
        cluster.fail(Reason.FORBIDDEN, "discovery", LEASES)
        async with running(each("pods")) as run:
            await asyncio.sleep(3 * REFRESH_SECONDS)
            assert apiserver(run, ONE).peers == 1
            assert watched(run) == [(name, "pods") for name in NAMES]
        assert len(log.of("apiservers_uncounted")) == 1


class TestListed:
    async def test_watches_those_that_are_listed(self, cluster: Cluster) -> None:
        cluster.fail(Reason.FORBIDDEN, "discovery", SLICES)
        urls = ["https://10.0.0.2:6443", "https://10.0.0.9:6443"]
        async with running(each("pods", kubernetes={"apiservers": urls})) as run:
            assert watched(run) == [(TWO, "pods"), ("10.0.0.9:6443", "pods")]

    async def test_their_caches_are_read_though_others_are_not_listed(self, cluster: Cluster, log: Log) -> None:
        watch = [{"resource": "pods", "hops": True}]
        async with running(each(watch=watch, kubernetes={"apiservers": ["https://10.0.0.2:6443"]})) as run:
            assert apiserver(run, TWO).peers == 1
            cluster.asked.clear()
            await asyncio.sleep(100)
            assert cluster.count("probe_cache")
        assert log.of("apiservers_hidden") == [], "the cluster announces it as one of several"

    @pytest.mark.parametrize("announced", [HOSTS, ("10.0.0.9",)])
    async def test_one_that_may_be_a_load_balancer_is_said_to_hide_others(
        self, cluster: Cluster, log: Log, announced: tuple[str, ...]
    ) -> None:
        cluster.announce(*announced)
        cluster.leases = 3
        urls = ["https://10.0.0.9:6443"]
        async with running(each("pods", kubernetes={"apiservers": urls})) as run:
            await asyncio.sleep(3 * REFRESH_SECONDS)
            assert apiserver(run, "10.0.0.9:6443").peers is None
        assert [(entry["addresses"], entry["apiservers"]) for entry in log.of("apiservers_hidden")] == [(1, 3)]

    async def test_the_first_one_need_not_live(self, cluster: Cluster) -> None:
        cluster.dead.add("10.0.0.2")
        urls = ["https://10.0.0.2:6443", "https://10.0.0.9:6443"]
        async with running(each("pods", kubernetes={"apiservers": urls}), start=60) as run:
            assert stream(run, "10.0.0.9:6443").membership == "member"
            assert run.not_ready() == ()


class TestForeign:
    async def test_one_of_another_cluster_is_not_believed(self, cluster: Cluster) -> None:
        cluster.elsewhere[HOSTS[1]] = 10**6
        async with running(each("pods", "nodes")) as run:
            await keep_writing(cluster, PODS, NODES, EVENTS, seconds=30)
            await asyncio.sleep(10)
            (ticker,) = (one for one in run.supervisor.snapshot().domains[0].tickers if one.apiserver == TWO)
            assert not ticker.vouched
            assert run.supervisor.snapshot().domains[0].resets == 0
            assert stream(run, ONE).track.timespan.total == 300
            assert stream(run, ONE).track.windows[0].quantiles[-1].upper <= 1.0

    async def test_ticks_through_it_are_few(self, cluster: Cluster) -> None:
        """They only tell whether it belongs here by now."""
        cluster.elsewhere[HOSTS[1]] = 10**6
        async with running(each("nodes", limits={"auditsPerSecond": 0})):
            cluster.asked.clear()
            cluster.asked_at.clear()
            await asyncio.sleep(120)
            assert cluster.count("tick", EVENTS.key) < 270
            assert cluster.asked_at[ONE, "tick"] > 110

    async def test_nobody_is_held_against_it(self, cluster: Cluster) -> None:
        """What its watches deliver are revisions of another sequence: who has not got them lacks nothing."""
        cluster.elsewhere[HOSTS[1]] = 10**6
        async with running(each("pods", "nodes")) as run:
            await keep_writing(cluster, PODS, NODES, EVENTS, seconds=20)
            await asyncio.sleep(20)
            assert [stream(run, name).behind_peers for name in NAMES] == [0.0, None, 0.0]
            assert run.supervisor.snapshot().causes == ()
