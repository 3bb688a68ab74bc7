import asyncio
import math
import time

import pytest

from tests.unit.monitor.cluster import (
    CONFIGMAPS,
    NODES,
    PODS,
    Cluster,
    Log,
    nowhere,
)
from tests.unit.monitor.inside import BUILD, Running, config, keep_writing, running
from watchslo.errors import ConfigError
from watchslo.kube.reviews import Review
from watchslo.model import Resource
from watchslo.monitor.supervisor import Supervisor
from watchslo.monitor.tasks.task_supervisor import TaskSupervisor
from watchslo.snapshot import Snapshot
from watchslo.watch.failure import Failure, Reason


class TestStart:
    async def test_each_evaluation_reaches_the_listeners(self) -> None:
        async with running(config("pods"), start=21) as run:  # not at the moment of an evaluation
            seen: list[Snapshot] = []
            run.supervisor.on_evaluation(seen.append)
            await asyncio.sleep(16)
            times = [snapshot.at_wall - seen[0].at_wall for snapshot in seen]
        assert times == [0.0, 5.0, 10.0]
        assert len(seen) == 4  # the last one comes from the shutdown


async def test_groups_that_hang_are_asked_a_few_at_a_time(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without aggregated discovery, the server of a group may hang."""
    monkeypatch.setattr("watchslo.monitor.supervisor.REFRESH_SECONDS", 60.0)
    groups = [f"group{number}.com" for number in range(10)]
    cluster.is_aggregated = False
    cluster.served += [Resource(group, "v1", "widgets", namespaced=True) for group in ("example.com", *groups)]
    cluster.group_seconds = {f"/apis/{group}/v1": math.inf for group in groups}
    async with running(config("pods", "widgets.example.com"), start=30) as run:
        assert run.labels == ["pods", "widgets.example.com"]
        assert len(run.snapshot().monitor.incomplete_groups) == 10
        await asyncio.sleep(200)
        assert cluster.most_in_flight == 4
        # Each refresh asks for it once, and perhaps once more with patience.
        assert cluster.count("discovery", "/apis/group0.com/v1") <= 10


async def test_delay_is_logged_with_its_seconds(log: Log) -> None:
    async with running(config("pods"), start=10, delay=60):
        assert [entry["seconds"] for entry in log.of("start_delayed")] == [60.0]


class TestMissing:
    async def test_missing_resource_is_an_error_at_start(self, cluster: Cluster) -> None:
        run = Running(config("pods", "podz"))
        with pytest.raises(ConfigError, match="no resource podz; did you mean pods"):
            await run.supervisor.run(run.stop)
        assert not cluster.is_open


class TestReload:
    async def test_reload_rejects_a_new_threshold(self) -> None:
        async with running(config("pods")) as run:
            with pytest.raises(ConfigError, match="a threshold of 700ms needs a bucket of its own; restart"):
                run.supervisor.configure(config("nodes", objective={"threshold": "700ms"}))
            await asyncio.sleep(1)
            assert run.labels == ["pods"]

    async def test_reload_leaves_nothing_of_ended_watches(self) -> None:
        async with running(config("pods")) as run:
            tasks = len(asyncio.all_tasks())
            for _ in range(5):
                run.supervisor.configure(config("pods", "nodes"))
                await asyncio.sleep(5)
                run.supervisor.configure(config("pods"))
                await asyncio.sleep(5)
            assert len(asyncio.all_tasks()) == tasks


class TestPaused:
    async def test_pause_ends_a_running_audit(self, cluster: Cluster) -> None:
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


class TestShutdown:
    async def test_shutdown_evaluates_once_more_and_names_close_reasons(self, cluster: Cluster) -> None:
        async with running(config("pods"), start=21) as run:
            await keep_writing(cluster, PODS, seconds=2.4)
            assert run.stream("pods").track.timespan.total == 0
        assert run.stream("pods").track.timespan.total > 5
        assert run.stream("pods").outcomes.closed == {("own", "shutdown"): 1}
        assert run.stream("pods").session.state == "halted"


class TestReview:
    async def test_review_asks_the_cluster(self, cluster: Cluster) -> None:
        async with running(config("pods")) as run:
            assert await run.supervisor.review("token", "/metrics") is Review.ALLOWED
            cluster.reviews["access_review"] = {"allowed": False}
            assert await run.supervisor.review("token", "/metrics") is Review.FORBIDDEN
            cluster.reviews["token_review"] = {}
            assert await run.supervisor.review("token", "/metrics") is Review.UNKNOWN

    async def test_review_works_while_paused(self) -> None:
        async with running(config("pods", paused=True)) as run:
            assert await run.supervisor.review("token", "/metrics") is Review.ALLOWED

    async def test_review_asks_the_next_apiserver_if_one_is_gone(self, cluster: Cluster) -> None:
        cluster.announce("10.0.0.1", "10.0.0.2")
        async with running(config("pods", kubernetes={"apiservers": ["https://10.0.0.1", "https://10.0.0.2"]})) as run:
            cluster.kill("10.0.0.1")
            answers = [await run.supervisor.review("token", "/metrics") for _ in range(3)]
            assert isinstance(answers[0], Failure)
            assert answers[1:] == [Review.ALLOWED] * 2

    async def test_review_fails_before_and_after_the_run(self) -> None:
        async with running(config("pods")) as run:
            supervisor = run.supervisor
        for one in (supervisor, Supervisor(config("pods"), nowhere(), BUILD)):
            failure = await one.review("token", "/metrics")
            assert isinstance(failure, Failure)
            assert failure.reason is Reason.UNREACHABLE


@pytest.mark.usefixtures("cluster")
async def test_hanging_loop_and_ended_tasks_are_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(config("pods")) as run:
        assert run.supervisor.unhealthy() is None
        monkeypatch.setattr(TaskSupervisor, "ended", ["evaluation", "configuration"])
        assert run.supervisor.unhealthy() == "2 of the tasks that measure have ended: evaluation, configuration"
        monkeypatch.setattr(run.supervisor.lag, "_last", time.monotonic() - 7.25)
        assert run.supervisor.unhealthy() == "the last heartbeat was 7.2 s ago"


class TestSnapshot:
    async def test_snapshot_is_made_once_a_second(self) -> None:
        async with running(config("pods")) as run:
            await asyncio.sleep(1)
            first = run.snapshot()
            await asyncio.sleep(0.9)
            assert run.snapshot() is first
            await asyncio.sleep(0.2)
            assert run.snapshot() is not first

    async def test_snapshot_shows_an_evaluation_at_once(self) -> None:
        async with running(config("pods"), start=24.9) as run:
            first = run.snapshot()
            await asyncio.sleep(0.2)
            assert run.snapshot() is not first

    async def test_scrapes_read_no_watch_between_evaluations(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with running(config("pods"), start=25.1) as run:
            read: list[float] = []
            with monkeypatch.context() as patched:
                patched.setattr("watchslo.monitor.readings.read_watch", lambda *_: read.append(time.monotonic()))
                first = await run.supervisor.evaluated()
                ticks = first.domains[0].tickers[0].ticks["ok"]
                for _ in range(4):
                    cluster.write(PODS)
                    await asyncio.sleep(1.1)
                    later = await run.supervisor.evaluated()
                    assert later.watches is first.watches
                    assert later.at_wall == first.at_wall
                assert later.domains[0].tickers[0].ticks["ok"] >= ticks + 8
                assert read == []
            await asyncio.sleep(5)
            (stream,) = (await run.supervisor.evaluated()).watches
            assert stream.received.events["MODIFIED"] == 4

    async def test_evaluated_before_the_first_evaluation_is_the_newest(self) -> None:
        async with running(config("pods"), start=1.0) as run:
            assert await run.supervisor.evaluated() is run.snapshot()

    async def test_first_watches_are_shown_before_they_are_evaluated(self) -> None:
        async with running(config("pods"), start=30.5, delay=30) as run:
            assert [stream.watch for stream in (await run.supervisor.evaluated()).watches] == ["pods"]

    async def test_snapshot_is_not_affected_by_wall_clock_steps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async with running(config("pods"), start=21) as run:
            first = run.snapshot()
            with monkeypatch.context() as patched:
                patched.setattr(time, "time", lambda: 0.0)
                await asyncio.sleep(0.5)
                assert run.snapshot() is first


async def test_overloaded_process_judges_no_window(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(config("pods")) as run:
        with monkeypatch.context() as patched:
            patched.setattr("watchslo.monitor.tasks.lag.LATE_SECONDS", -1.0)  # every beat is late
            await keep_writing(cluster, PODS, seconds=130)
        stream = run.stream("pods")
        assert stream.track.unmeasured["tainted"] > 1000
        assert stream.track.objective.windows["bad"] == 0
        assert run.snapshot().monitor.tainted_seconds > 120


async def test_crash_of_one_watch_does_not_affect_others(
    cluster: Cluster, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(config("pods", "nodes", "configmaps")) as run:
        await keep_writing(cluster, PODS, CONFIGMAPS, NODES, seconds=1)
        with monkeypatch.context() as patched:
            patched.setattr("watchslo.watch.decode.decode", lambda *_: 1 / 0)
            cluster.write(PODS)
            await asyncio.sleep(1)
            assert not run.stream("pods").up
            assert run.stream("nodes").up
        await asyncio.sleep(10)
        assert run.stream("pods").up
        assert run.stream("pods").received.events["MODIFIED"] == 10
        assert run.stream("pods").lists.relists["errors"] == 1
    assert [entry["error"].split()[0] for entry in log.of("task_crashed")] == ["ZeroDivisionError"]
