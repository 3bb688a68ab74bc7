import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.monitor.cluster import (
    CONFIGMAPS,
    EVENTS,
    NODES,
    PODS,
    Cluster,
    Log,
    because_of,
)
from tests.unit.monitor.inside import STARTED_SECONDS, Running, config, keep_writing, running
from watchslo.config import Config
from watchslo.errors import ConfigError
from watchslo.model import Resource
from watchslo.monitor.supervisor import REFRESH_SECONDS
from watchslo.snapshot import Snapshot
from watchslo.watch.failure import Reason

WIDGETS = Resource("", "v1", "widgets", namespaced=True)


class TestStart:
    async def test_becomes_ready(self, cluster: Cluster, log: Log) -> None:
        async with running(config("pods", "nodes"), start=0.003) as run:
            assert run.not_ready() == ("The cluster is being discovered.",)
            assert run.starting()
            await asyncio.sleep(STARTED_SECONDS)
            assert run.not_ready() == ()
            assert not run.starting()
            assert run.labels == ["pods", "nodes"]
            assert run.stream("pods").membership == "member"
            assert run.supervisor.snapshot().domains[0].ticks_on == ("events",)
            assert run.supervisor.snapshot().apiservers[0].version == "v1.36.3"
            assert set(log.events) == {"ticking", "audited"}
        assert not cluster.is_open

    async def test_measures(self, cluster: Cluster) -> None:
        async with running(config("pods")) as run:
            await keep_writing(cluster, PODS)
            await asyncio.sleep(10)
            stream = run.stream("pods")
        assert stream.track.timespan.total == stream.events["MODIFIED"] == 600
        minute = next(window for window in stream.track.windows if window.name == "1m")
        assert minute.events > 450
        assert minute.quantiles[0].upper < 1.0

    async def test_each_evaluation_is_handed_on(self) -> None:
        async with running(config("pods")) as run:
            told: list[Snapshot] = []
            run.supervisor.on_evaluation(told.append)
            await asyncio.sleep(12)
            times = [snapshot.at_wall - told[0].at_wall for snapshot in told]
        assert times == [0.0, 5.0, 10.0]
        assert len(told) == 4  # the last one is made at the end

    async def test_steady_state_costs_two_ticks_a_second(self, cluster: Cluster) -> None:
        async with running(config("pods", "nodes", "configmaps", limits={"auditsPerSecond": 0})):
            cluster.asked.clear()
            await asyncio.sleep(100)
        assert cluster.count("tick") == 200
        assert len(cluster.asked) == 200

    async def test_idle_streams_cost_two_requests_each_every_few_seconds(self, cluster: Cluster) -> None:
        async with running(config("pods", "nodes", "configmaps")) as run:
            cluster.asked.clear()
            await asyncio.sleep(120)
            assert run.supervisor.snapshot().apiservers[0].audits["idle"] >= 27
            assert run.supervisor.snapshot().monitor.stall_detection == 30.0
        assert 27 <= cluster.count("nudge") == cluster.count("audit") <= 33

    async def test_waits_for_a_cluster(self, cluster: Cluster, log: Log) -> None:
        cluster.fail(Reason.REFUSED)
        async with running(config("pods"), start=120) as run:
            assert run.not_ready() == ("The cluster is being discovered. The apiserver refuses the connection.",)
            assert len(log.of("discovery_failed")) == 1
            cluster.fail(None)
            await asyncio.sleep(60)
            assert run.not_ready() == ()
            assert len(log.of("recovered")) == 1

    async def test_says_what_does_not_start(self, cluster: Cluster) -> None:
        cluster.fail(Reason.THROTTLED, "list", "pods")
        async with running(config("pods", "nodes")) as run:
            assert run.not_ready() == (
                "pods has not been opened yet: The apiserver is too busy, or its cache is not ready.",
            )

    async def test_what_is_forbidden_hurts_nobody_else(self, cluster: Cluster) -> None:
        cluster.fail(Reason.FORBIDDEN, "list", "pods")
        async with running(config("pods", "nodes")) as run:
            assert run.not_ready() == ()
            assert run.stream("pods").state == "away"
            assert run.stream("nodes").up

    async def test_the_clock_that_does_not_tick_is_named(self, cluster: Cluster) -> None:
        cluster.fail(Reason.FORBIDDEN, "tick")
        async with running(config("pods")) as run:
            assert run.not_ready() == (
                "The revision clock does not tick: This identity may not list the resource; grant it.",
            )
            cluster.asked.clear()
            await asyncio.sleep(60)
            assert cluster.count("probe") == 0

    async def test_defaults_are_what_the_cluster_has(self, log: Log) -> None:
        async with running(config()) as run:
            assert run.labels == ["pods", "nodes", "configmaps"]
        assert not log.of("resource_missing")

    async def test_nothing_that_can_be_watched(self, cluster: Cluster) -> None:
        cluster.served = [EVENTS]
        async with running(config()) as run:
            assert run.not_ready() == ("The cluster serves nothing of what is configured.",)


class TestMissing:
    async def test_is_refused_at_start(self, cluster: Cluster) -> None:
        run = Running(config("pods", "podz"))
        with pytest.raises(ConfigError, match="no resource podz; did you mean pods"):
            await run.supervisor.run(run.stop)
        assert not cluster.is_open

    async def test_is_said_once_while_a_group_does_not_answer(self, cluster: Cluster, log: Log) -> None:
        cluster.stale.add("widgets.example.com")
        async with running(config("pods", "widgets.widgets.example.com"), start=2 * REFRESH_SECONDS) as run:
            assert run.labels == ["pods"]
        assert len(log.of("resource_missing")) == 1

    async def test_is_said_once_after_the_start(self, cluster: Cluster, log: Log) -> None:
        async with running(config("pods")) as run:
            run.supervisor.configure(config("pods", "widgets"))
            await asyncio.sleep(3 * REFRESH_SECONDS)
            assert len(log.of("resource_missing")) == 1
            cluster.served.append(WIDGETS)
            await asyncio.sleep(1.2 * REFRESH_SECONDS)
            assert run.labels == ["pods", "widgets"]
            cluster.served.remove(WIDGETS)
            await asyncio.sleep(1.2 * REFRESH_SECONDS)
            assert run.labels == ["pods"]
            assert len(log.of("resource_missing")) == 2


class TestEverything:
    async def test_follows_the_cluster(self, cluster: Cluster) -> None:
        async with running(config("*", exclude=["nodes"])) as run:
            assert run.labels == ["pods", "configmaps", "events"]
            cluster.served.append(WIDGETS)
            await asyncio.sleep(1.2 * REFRESH_SECONDS)
            assert run.labels[-1] == "widgets"
            cluster.fail(Reason.REFUSED, "discovery")
            await asyncio.sleep(1.2 * REFRESH_SECONDS)
            assert run.labels[-1] == "widgets"

    async def test_keeps_to_the_limit_and_says_so_once(self, cluster: Cluster, log: Log) -> None:
        made = Config.model_validate(
            {"watch": [{"resource": "*"}, {"resource": "nodes", "name": "mine"}], "limits": {"watches": 2}}
        )
        async with running(made, start=2 * REFRESH_SECONDS) as run:
            assert run.labels == ["mine", "pods"]
            assert len(cluster.open_watches()) == 2
            assert [entry["left_out"] for entry in log.of("watches_limited")] == [3]


class TestReload:
    async def test_leaves_alone_what_is_the_same(self, cluster: Cluster) -> None:
        async with running(config("pods", "nodes")) as run:
            before = cluster.open_watches(NODES)
            run.supervisor.configure(config("nodes", "configmaps"))
            await asyncio.sleep(1)
            assert run.labels == ["nodes", "configmaps"]
            assert [watch.resource.key for watch in cluster.open_watches()] == ["nodes", "configmaps"]
            assert cluster.open_watches(NODES) == before

    async def test_asking_for_hops_keeps_the_stream_and_its_statistics(self, cluster: Cluster) -> None:
        """Whoever asks wants to know where it is late now."""
        async with running(config("pods")) as run:
            await keep_writing(cluster, PODS, seconds=10)
            (opened,) = cluster.open_watches()
            run.supervisor.configure(Config.model_validate({"watch": [{"resource": "pods", "hops": True}]}))
            await asyncio.sleep(10)
            assert cluster.open_watches() == [opened]
            assert run.stream("pods").track.timespan.total == 100
            assert run.stream("pods").probed
            run.supervisor.configure(config("pods"))
            await asyncio.sleep(80)
            assert not run.stream("pods").probed

    async def test_a_new_objective_keeps_the_stream(self, cluster: Cluster, log: Log) -> None:
        plain = {"resource": "pods"}
        async with running(Config.model_validate({"watch": [plain]})) as run:
            await keep_writing(cluster, PODS, seconds=10)
            assert run.stream("pods").track.timespan.total > 0
            run.supervisor.configure(Config.model_validate({"watch": [{**plain, "objective": {"threshold": "500ms"}}]}))
            await asyncio.sleep(1)
            stream = run.stream("pods")
        assert stream.events["MODIFIED"] == 100
        assert stream.track.timespan.total == 0
        assert stream.track.objective.threshold == 0.5
        assert len(cluster.watches) == 1
        assert len(log.of("objective_changed")) == 1

    @pytest.mark.parametrize(
        "changed", [{"limits": {"maxLine": "1Mi"}}, {"watch": [{"resource": "pods", "namespace": "a"}]}]
    )
    async def test_what_is_asked_differently_is_reopened(self, cluster: Cluster, changed: dict[str, Any]) -> None:
        async with running(config("pods")) as run:
            run.supervisor.configure(config("pods").model_validate({"watch": [{"resource": "pods"}], **changed}))
            await asyncio.sleep(STARTED_SECONDS)
            assert run.not_ready() == ()
        assert len(cluster.watches) == 2

    async def test_a_new_threshold_needs_a_restart(self) -> None:
        async with running(config("pods")) as run:
            with pytest.raises(ConfigError, match="a threshold of 700ms needs a bucket of its own; restart"):
                run.supervisor.configure(config("nodes", objective={"threshold": "700ms"}))
            await asyncio.sleep(1)
            assert run.labels == ["pods"]

    async def test_discovers_at_once(self, cluster: Cluster) -> None:
        async with running(config("pods")) as run:
            cluster.served.append(WIDGETS)
            run.supervisor.configure(config("pods", "widgets"))
            await asyncio.sleep(1)
            assert run.labels == ["pods", "widgets"]

    async def test_does_not_wait_for_an_apiserver_that_hangs(self, cluster: Cluster) -> None:
        async with running(config("pods", "nodes")) as run:
            cluster.hanging.add("discovery")
            await asyncio.sleep(1.2 * REFRESH_SECONDS)
            run.supervisor.configure(config("nodes"))
            await asyncio.sleep(0.1)
            assert run.labels == ["nodes"]

    async def test_leaves_nothing_of_what_ended(self) -> None:
        async with running(config("pods")) as run:
            tasks = len(asyncio.all_tasks())
            for _ in range(5):
                run.supervisor.configure(config("pods", "nodes"))
                await asyncio.sleep(5)
                run.supervisor.configure(config("pods"))
                await asyncio.sleep(5)
            assert len(asyncio.all_tasks()) == tasks


class TestPaused:
    @pytest.mark.parametrize("hanging", [(), ("discovery",), ("list", "watch", "tick", "probe")])
    async def test_closes_everything_at_once(self, cluster: Cluster, hanging: tuple[str, ...]) -> None:
        async with running(config("pods", "nodes")) as run:
            cluster.hanging.update(hanging)
            await asyncio.sleep(1.2 * REFRESH_SECONDS)
            run.supervisor.configure(config("pods", "nodes", paused=True))
            await asyncio.sleep(0.1)
            assert not cluster.open_watches()
            assert run.supervisor.snapshot().domains == ()
            cluster.asked.clear()
            await asyncio.sleep(600)
            assert run.not_ready() == ("Watching is paused.",)
            assert not cluster.asked

    async def test_ends_the_audit_that_is_under_way(self, cluster: Cluster) -> None:
        async with running(config("pods", "nodes")) as run:
            cluster.frozen.add("pods")
            cluster.asked.clear()
            while not cluster.count("nudge", "pods"):  # noqa: ASYNC110 - a slow answer, which a second one is to confirm
                await asyncio.sleep(0.1)
            run.supervisor.configure(config("pods", "nodes", paused=True))
            await asyncio.sleep(0.1)
            cluster.asked.clear()
            await asyncio.sleep(60)
            assert not cluster.asked

    async def test_goes_on(self) -> None:
        async with running(config("pods")) as run:
            for paused in (True, False):
                run.supervisor.configure(config("pods", paused=paused))
                await asyncio.sleep(STARTED_SECONDS)
            assert run.not_ready() == ()
            assert run.stream("pods").membership == "member"

    async def test_from_the_start(self, cluster: Cluster, log: Log) -> None:
        async with running(config("podz", paused=True)) as run:
            assert not cluster.asked
            run.supervisor.configure(config("podz", "pods"))
            await asyncio.sleep(STARTED_SECONDS)
            assert run.labels == ["pods"]
            assert len(log.of("resource_missing")) == 1


class TestShutdown:
    @pytest.mark.parametrize("kind", ["discovery", "version", "list", "watch", "tick", "probe"])
    async def test_does_not_wait_for_an_apiserver_that_hangs(self, cluster: Cluster, kind: str) -> None:
        cluster.hanging.add(kind)
        async with running(config("pods"), start=3):
            pass
        assert not cluster.is_open

    async def test_evaluates_once_more_and_says_why_watches_closed(self, cluster: Cluster) -> None:
        async with running(config("pods"), start=21) as run:
            await keep_writing(cluster, PODS, seconds=2.4)
            assert run.stream("pods").track.timespan.total == 0
        assert run.stream("pods").track.timespan.total > 5
        assert run.stream("pods").closed == {("own", "shutdown"): 1}
        assert run.stream("pods").state == "halted"


class TestStorage:
    async def test_that_is_not_etcd_is_said_once(self, cluster: Cluster, log: Log) -> None:
        cluster.git_version = "v1.30.0+k3s1"
        async with running(config("pods"), start=2 * REFRESH_SECONDS) as run:
            (apiserver,) = run.supervisor.snapshot().apiservers
            assert apiserver.unproven
            assert apiserver.unproven.startswith("k3s keeps")
        assert len(log.of("storage_unproven")) == 1

    async def test_is_not_forgotten_when_the_version_is_not_told(self, cluster: Cluster) -> None:
        cluster.git_version = "v1.30.0+k3s1"
        async with running(config("pods")) as run:
            cluster.failures["version", ""] = because_of(Reason.TIMEOUT)
            await asyncio.sleep(1.2 * REFRESH_SECONDS)
            assert run.supervisor.snapshot().apiservers[0].unproven


class TestSnapshot:
    async def test_is_made_once_a_second(self) -> None:
        async with running(config("pods")) as run:
            await asyncio.sleep(1)
            first = run.supervisor.snapshot()
            await asyncio.sleep(0.9)
            assert run.supervisor.snapshot() is first
            await asyncio.sleep(0.2)
            assert run.supervisor.snapshot() is not first

    async def test_shows_an_evaluation_at_once(self) -> None:
        async with running(config("pods"), start=24.9) as run:
            first = run.supervisor.snapshot()
            await asyncio.sleep(0.2)
            assert run.supervisor.snapshot() is not first

    async def test_does_not_mind_a_clock_that_is_set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async with running(config("pods"), start=21) as run:
            first = run.supervisor.snapshot()
            with monkeypatch.context() as patched:
                patched.setattr(time, "time", lambda: 0.0)
                await asyncio.sleep(0.5)
                assert run.supervisor.snapshot() is first


async def test_blames_no_window_that_it_was_late_in_itself(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu: Callable[[], float] = time.monotonic  # of all the time
    async with running(config("pods")) as run:
        with monkeypatch.context() as patched:
            patched.setattr(time, "thread_time", cpu)
            await keep_writing(cluster, PODS, seconds=130)
        stream = run.stream("pods")
        assert stream.track.unmeasured["tainted"] > 1000
        assert stream.track.objective.windows["bad"] == 0
        assert run.supervisor.snapshot().monitor.tainted_seconds > 120


async def test_a_crash_of_one_stream_hurts_no_other(
    cluster: Cluster, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(config("pods", "nodes", "configmaps")) as run:
        await keep_writing(cluster, PODS, CONFIGMAPS, NODES, seconds=1)
        with monkeypatch.context() as patched:
            patched.setattr("watchslo.monitor.driver.decode", lambda _: 1 / 0)
            cluster.write(PODS)
            await asyncio.sleep(1)
            assert not run.stream("pods").up
            assert run.stream("nodes").up
        await asyncio.sleep(10)
        assert run.stream("pods").up
        assert run.stream("pods").events["MODIFIED"] == 10
        assert run.stream("pods").relists["errors"] == 1
    assert [entry["error"].split()[0] for entry in log.of("task_crashed")] == ["ZeroDivisionError"]
