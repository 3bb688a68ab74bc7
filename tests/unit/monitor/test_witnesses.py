"""Apiservers that are ticked on but not watched: everything but the cluster is real."""

import asyncio
import ssl
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.monitor.cluster import EVENTS, NODES, PODS, Cluster, Log
from tests.unit.monitor.inside import Running, config, credentials, running
from watchslo.config.model import Config
from watchslo.kube.apiservers import SLICES
from watchslo.kube.credentials import CredentialSource
from watchslo.model import Resource
from watchslo.monitor.apiserver_follower import RETRY_WITNESSES_SECONDS
from watchslo.monitor.supervisor import REFRESH_SECONDS
from watchslo.monitor.witnesses import MOST_WITNESSES
from watchslo.snapshot import ApiserverRole, DomainReading, StreamReading, TickerReading, WitnessReading
from watchslo.watch.failure import Reason

HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
OWN, TWO, THREE = (f"{host}:6443" for host in HOSTS)
LATE_SECONDS = 0.3
RETRIED_SECONDS = RETRY_WITNESSES_SECONDS + 20.0


@pytest.fixture
def cluster(cluster: Cluster) -> Cluster:
    cluster.announce(*HOSTS)
    cluster.date_skew = 0.0
    return cluster


def verified() -> CredentialSource:
    return credentials(ssl.create_default_context())


def next_to(*resources: str, **more: Any) -> Config:
    """Return the configuration of an instance next to the first apiserver, which watches only that one."""
    return config(*resources, **{"kubernetes": {"apiservers": [f"https://{OWN}"]}, **more})


def witnesses(run: Running) -> list[str]:
    return [one.name for one in run.snapshot().apiservers if one.role is ApiserverRole.WITNESS]


def reading(run: Running) -> WitnessReading | None:
    return run.snapshot().monitor.witnesses


def main(run: Running) -> DomainReading:
    return run.snapshot().domains[0]


def ticker(run: Running, name: str) -> TickerReading:
    return next(one for one in main(run).tickers if one.apiserver == name)


def created(stream: StreamReading) -> int:
    """Return how many events are measured from their creation timestamps."""
    return stream.track.creation.total if stream.track.creation else 0


async def create(cluster: Cluster, seconds: float) -> None:
    """Create pods, and change nodes as often."""
    for _ in range(int(10 * seconds)):
        now = datetime.fromtimestamp(int(cluster.wall()), UTC)
        cluster.write(PODS, "ADDED", now.strftime("%Y-%m-%dT%H:%M:%SZ"))
        cluster.write(NODES)
        await asyncio.sleep(0.1)


class TestLateLink:
    """The whole link from etcd to the watched apiserver is late."""

    @pytest.fixture(autouse=True)
    def _late(self, cluster: Cluster) -> None:
        cluster.link_late[HOSTS[0]] = LATE_SECONDS

    async def test_ticks_of_witnesses_show_the_latency(self, cluster: Cluster) -> None:
        async with running(next_to("pods", "nodes"), credentials=verified()) as run:
            await create(cluster, 60)
            await asyncio.sleep(10)
            median = run.stream("pods").track.windows[-1].quantiles[0]
            assert median.resolved
            assert median.estimate == pytest.approx(LATE_SECONDS, rel=0.15)
            assert created(run.stream("pods")) > 500
            assert [(c.cause, c.apiserver) for c in run.snapshot().causes] == [("cache_behind", OWN)]

    async def test_idle_watches_do_not_take_the_turns_of_late_ones(self, cluster: Cluster) -> None:
        """The caches of all watches are worth reading, because ticks are slow; only some show how old they are."""
        quiet = [Resource("", "v1", f"quiet{number}", namespaced=True) for number in range(12)]
        cluster.served += quiet
        watches = ["pods", "nodes", *(resource.plural for resource in quiet)]
        async with running(next_to(*watches), credentials=verified()) as run:
            await create(cluster, 150)
            assert run.stream("pods").cache.probed
            assert [(cause.cause, cause.apiserver) for cause in run.snapshot().causes] == [("cache_behind", OWN)]
            for hop, expected in zip(run.stream("pods").track.hops[1:], (LATE_SECONDS, 0.0), strict=True):
                assert hop.windows[0].quantiles[0].estimate == pytest.approx(expected, abs=0.08)

    async def test_ticks_of_the_late_apiserver_alone_do_not(self, cluster: Cluster) -> None:
        alone = {"apiservers": [f"https://{OWN}"], "witnesses": "none"}
        async with running(next_to("pods", "nodes", kubernetes=alone), credentials=verified()) as run:
            await create(cluster, 60)
            await asyncio.sleep(10)
            assert not run.stream("pods").track.windows[-1].quantiles[0].resolved
            assert created(run.stream("pods")) == 0
            assert run.snapshot().causes == ()


class TestTicks:
    async def test_witness_is_ticked_on_and_not_watched(self, cluster: Cluster) -> None:
        async with running(next_to("pods", "nodes", limits={"watches": 2}), credentials=verified()) as run:
            cluster.asked_at.clear()
            await create(cluster, 60)
            assert witnesses(run) == [TWO, THREE]
            assert reading(run) == WitnessReading(announced=2, reached=2, why=None)
            assert all(ticker(run, name).confirmed for name in (TWO, THREE))
            assert sorted((one.apiserver, one.watch) for one in run.snapshot().streams) == [
                (OWN, "nodes"),
                (OWN, "pods"),
            ]
            assert {kind for name, kind in cluster.asked_at if name in (TWO, THREE)} == {
                "tick",
                "audit",
            }  # one short read a minute

    async def test_all_instances_together_tick_as_often_as_one(self, cluster: Cluster) -> None:
        """There are three of them, one next to each apiserver."""
        async with running(next_to("pods", limits={"auditsPerSecond": 0}), credentials=verified()) as run:
            cluster.asked_at.clear()
            await asyncio.sleep(120)
            ticks = [cluster.asked_at[name, "tick"] for name in (OWN, TWO, THREE)]
            assert ticks == [pytest.approx(80, abs=5)] * 3
            assert ticker(run, OWN).gap == 1.5

    async def test_apiserver_gets_more_ticks_while_a_witness_fails(self, cluster: Cluster) -> None:
        """Two instances still tick through it, and the clock keeps its rate."""
        async with running(next_to("pods", limits={"auditsPerSecond": 0}), credentials=verified()) as run:
            cluster.kill(HOSTS[2])
            await asyncio.sleep(10)
            assert ticker(run, OWN).gap == 1.0
            cluster.asked_at.clear()
            await asyncio.sleep(60)
            assert cluster.asked_at[OWN, "tick"] + cluster.asked_at[TWO, "tick"] == pytest.approx(120, abs=5)

    async def test_witness_never_defines_the_domain(self, cluster: Cluster) -> None:
        """It answers long before the member does, and belongs to another cluster."""
        cluster.elsewhere[HOSTS[1]] = 10**6
        cluster.slow_at[HOSTS[0]] = 0.5
        async with running(next_to("pods", "nodes"), credentials=verified()) as run:
            await create(cluster, 60)
            await asyncio.sleep(10)
            assert not ticker(run, TWO).confirmed
            assert ticker(run, OWN).confirmed
            assert run.stream("pods").membership == "member"
            assert run.stream("pods").track.timespan.total > 500
            assert main(run).resets == 0

    async def test_witness_that_goes_back_in_time_leaves_the_domain(self, cluster: Cluster) -> None:
        cluster.elsewhere[HOSTS[1]] = 0
        async with running(next_to("pods", "nodes"), credentials=verified()) as run:
            await create(cluster, 30)
            assert ticker(run, TWO).confirmed
            cluster.elsewhere[HOSTS[1]] = -200
            await create(cluster, 30)
            assert not ticker(run, TWO).confirmed
            assert main(run).resets == 0
            assert run.stream("pods").track.timespan.total > 500
            cluster.elsewhere[HOSTS[1]] = 0
            await create(cluster, 60)
            assert ticker(run, TWO).confirmed

    async def test_restored_storage_resets_by_the_member(self, cluster: Cluster) -> None:
        async with running(next_to("pods", "nodes"), credentials=verified()) as run:
            await create(cluster, 20)
            cluster.revision = 50
            cluster.history.clear()
            await create(cluster, 60)
            assert main(run).resets == 1
            assert all(ticker(run, name).confirmed for name in (OWN, TWO, THREE))

    async def test_witnesses_are_not_asked_what_to_tick_on(self, cluster: Cluster) -> None:
        """The plan must be one that the watched apiserver can follow."""
        cluster.fail(Reason.FORBIDDEN, "tick", EVENTS.key)
        async with running(next_to("pods", "nodes"), credentials=verified()) as run:
            await create(cluster, 20)
            assert main(run).ticks_on == ("nodes", "pods") or main(run).ticks_on == ("pods", "nodes")

    async def test_dead_member_does_not_end_the_clock(self, cluster: Cluster) -> None:
        async with running(next_to("pods", "nodes"), credentials=verified()) as run:
            cluster.kill(HOSTS[0])
            await create(cluster, 60)
            assert ticker(run, OWN).failure
            assert (ticker(run, TWO).answered_ago or 0.0) < 5.0
            cluster.dead.clear()
            await asyncio.sleep(60)
            assert run.not_ready() == ()

    async def test_paused_daemon_asks_no_witness(self, cluster: Cluster) -> None:
        async with running(next_to("pods"), credentials=verified()) as run:
            run.supervisor.configure(next_to("pods", paused=True))
            await asyncio.sleep(5)
            cluster.asked.clear()
            await asyncio.sleep(2 * REFRESH_SECONDS)
            assert not cluster.asked
            run.supervisor.configure(next_to("pods"))
            await asyncio.sleep(20)
            assert ticker(run, TWO).confirmed


class TestComeAndGo:
    async def test_unreachable_witnesses_are_reported_once(self, cluster: Cluster, log: Log) -> None:
        cluster.dead.update(HOSTS[1:])
        async with running(next_to("pods", "nodes"), credentials=verified()) as run:
            await asyncio.sleep(10 * RETRIED_SECONDS)
            assert witnesses(run) == []
            found = reading(run)
            assert found
            assert (found.announced, found.reached) == (2, 0)
            assert found.why == "The apiserver cannot be reached."
            assert [one.apiserver for one in main(run).tickers] == [OWN]
            assert ticker(run, OWN).gap == 0.5
            assert run.not_ready() == ()
            assert {door.name for door in cluster.doors} == {"service", OWN}
        (entry,) = log.of("witnesses_unreachable")
        assert entry["addresses"] == [f"https://{name}" for name in (TWO, THREE)]

    async def test_witness_joins_once_it_answers(self, cluster: Cluster, log: Log) -> None:
        cluster.dead.add(HOSTS[2])
        async with running(next_to("pods"), credentials=verified()) as run:
            assert witnesses(run) == [TWO]
            cluster.dead.clear()
            await asyncio.sleep(RETRIED_SECONDS)
            assert witnesses(run) == [TWO, THREE]
            assert reading(run) == WitnessReading(announced=2, reached=2, why=None)
            assert ticker(run, THREE).confirmed
        assert len(log.of("recovered")) == 1

    async def test_dead_witness_has_no_ticker_in_the_end(self, cluster: Cluster) -> None:
        async with running(next_to("pods"), credentials=verified()) as run:
            cluster.kill(HOSTS[2])
            await asyncio.sleep(REFRESH_SECONDS + 40)
            assert [one.apiserver for one in main(run).tickers] == [OWN, TWO]
            assert {door.name for door in cluster.doors} == {"service", OWN, TWO}
            cluster.dead.clear()
            await asyncio.sleep(RETRIED_SECONDS)
            assert [one.apiserver for one in main(run).tickers] == [OWN, TWO, THREE]

    async def test_withdrawn_witness_leaves(self, cluster: Cluster) -> None:
        async with running(next_to("pods"), credentials=verified()) as run:
            cluster.announce(*HOSTS[:2])
            await asyncio.sleep(REFRESH_SECONDS + 40)
            assert witnesses(run) == [TWO]
            assert {door.name for door in cluster.doors} == {"service", OWN, TWO}

    async def test_unknown_addresses_are_reported_once(self, cluster: Cluster, log: Log) -> None:
        cluster.fail(Reason.FORBIDDEN, "discovery", SLICES)
        async with running(next_to("pods"), credentials=verified()) as run:
            await asyncio.sleep(3 * RETRIED_SECONDS)
            found = reading(run)
            assert found
            assert (found.announced, found.reached) == (0, 0)
            assert found.why
            cluster.fail(None, "discovery", SLICES)
            await asyncio.sleep(RETRIED_SECONDS)
            assert witnesses(run) == [TWO, THREE]
        assert len(log.of("apiservers_unknown")) == 1

    async def test_mute_witness_does_not_delay_the_start(self, cluster: Cluster) -> None:
        cluster.mute.update(HOSTS[1:])
        async with running(next_to("pods"), start=7, credentials=verified()) as run:
            assert run.not_ready() == ()

    async def test_number_of_witnesses_is_bounded(self, cluster: Cluster) -> None:
        cluster.announce(*(f"10.0.0.{number}" for number in range(1, 30)))
        async with running(next_to("pods"), credentials=verified()) as run:
            assert len(witnesses(run)) == MOST_WITNESSES


class TestWanted:
    """Whether there are witnesses at all."""

    async def test_service_is_watched_next_to_its_apiservers(self, cluster: Cluster) -> None:
        async with running(config("pods"), credentials=verified()) as run:
            await create(cluster, 20)
            assert witnesses(run) == [OWN, TWO, THREE]
            assert created(run.stream("pods")) > 100

    async def test_single_apiserver_behind_the_service_is_no_witness(self, cluster: Cluster) -> None:
        cluster.announce(HOSTS[0])
        async with running(config("pods"), credentials=verified()) as run:
            assert witnesses(run) == []
            assert reading(run) == WitnessReading(announced=0, reached=0, why=None)

    @pytest.mark.parametrize(
        "more",
        [
            {"kubernetes": {"apiservers": [f"https://{OWN}"], "witnesses": "none"}},
            {"kubernetes": {"apiservers": "each"}},
            {"metrics": "proven", "clock": {"interval": "10s"}},
        ],
        ids=["none", "each", "proven"],
    )
    async def test_configuration_without_witnesses_has_none(self, cluster: Cluster, more: dict[str, Any]) -> None:
        async with running(next_to("pods", **more), credentials=verified()) as run:
            assert witnesses(run) == []
            assert reading(run) is None
            if more.get("metrics"):
                assert not any(name in (TWO, THREE) for name, _ in cluster.asked_at)

    async def test_credentials_are_not_sent_without_verification(self, cluster: Cluster) -> None:
        """The announced address may be that of any server."""
        insecure = ssl.create_default_context()
        insecure.check_hostname, insecure.verify_mode = False, ssl.CERT_NONE
        for tls in (insecure, None):
            async with running(next_to("pods"), credentials=credentials(tls)) as run:
                assert reading(run) is None
                assert not any(name in (TWO, THREE) for name, _ in cluster.asked_at)

    async def test_own_address_in_another_form_is_no_witness(self, cluster: Cluster) -> None:
        cluster.announce("fd00::1", "fd00::2")
        own = {"apiservers": ["https://[FD00:0:0::1]:6443"]}
        async with running(next_to("pods", kubernetes=own), credentials=verified()) as run:
            assert witnesses(run) == ["[fd00::2]:6443"]


class TestCreations:
    @pytest.mark.parametrize("changes", [{"leases": 4}, {"dead": {HOSTS[2]}}], ids=["hidden", "unreached"])
    async def test_apiserver_that_is_no_witness_leaves_creations_undated(
        self, cluster: Cluster, changes: dict[str, Any]
    ) -> None:
        vars(cluster).update(changes)
        async with running(next_to("pods"), credentials=verified()) as run:
            await create(cluster, 30)
            assert created(run.stream("pods")) == 0

    async def test_clocks_of_all_apiservers_bound_the_latency(self, cluster: Cluster) -> None:
        """Any of them may have stamped the object; the clock of one is 5 s ahead."""
        cluster.skew_at[HOSTS[2]] = 5.0
        async with running(next_to("pods"), credentials=verified()) as run:
            await create(cluster, 60)
            creators = run.supervisor._apiservers.creators
            assert creators
            assert 5.0 < creators.offset.width < 6.0
