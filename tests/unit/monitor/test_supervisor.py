import asyncio
import math
import time
from collections import Counter
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
    nowhere,
)
from tests.unit.monitor.inside import BUILD, STARTED_SECONDS, Running, config, keep_writing, running
from watchslo.clock.domain import PROBES_NEEDED
from watchslo.config.model import Config
from watchslo.errors import ConfigError
from watchslo.kube.discovery import NO_ANSWER
from watchslo.kube.reviews import Review
from watchslo.model import Resource
from watchslo.monitor.readiness import StartState
from watchslo.monitor.supervisor import Supervisor
from watchslo.monitor.task_supervisor import TaskSupervisor
from watchslo.snapshot import ShardReading, Snapshot
from watchslo.watch.failure import Failure, Reason

WIDGETS = Resource("", "v1", "widgets", namespaced=True)
GROUPED = Resource("example.com", "v1", "widgets", namespaced=True)


class TestStart:
    async def test_becomes_ready(self, cluster: Cluster, log: Log) -> None:
        async with running(config("pods", "nodes"), start=0.003) as run:
            assert run.not_ready() == ("The cluster is being discovered.",)
            assert run.start() is StartState.OPENING
            await asyncio.sleep(STARTED_SECONDS)
            assert run.not_ready() == ()
            assert run.start() is StartState.DONE
            assert run.labels == ["pods", "nodes"]
            assert run.stream("pods").membership == "member"
            assert run.snapshot().domains[0].ticks_on == ("events",)
            assert run.snapshot().apiservers[0].version == "v1.36.3"
            assert set(log.events) == {"ticking", "audited"}
        assert not cluster.is_open

    @pytest.mark.parametrize(
        ("reason", "state"),
        [
            (Reason.REFUSED, StartState.UNREACHABLE),
            (Reason.UNAUTHORIZED, StartState.REFUSED),
            (Reason.CREDENTIALS, StartState.REFUSED),
            (Reason.TLS, StartState.REFUSED),
        ],
    )
    async def test_cluster_that_never_answered_is_unreachable_or_refuses(
        self, cluster: Cluster, reason: Reason, state: StartState
    ) -> None:
        cluster.fail(reason)
        async with running(config("pods"), start=1) as run:
            assert run.start() is state

    async def test_watches_that_are_all_refused_are_not_waited_for(self, cluster: Cluster) -> None:
        for kind in ("list", "watch", "tick"):
            cluster.fail(Reason.FORBIDDEN, kind)
        async with running(config("pods", "nodes")) as run:
            assert run.not_ready()
            assert run.start() is StartState.REFUSED

    async def test_clock_is_waited_for_while_any_watch_is_open(self, cluster: Cluster) -> None:
        cluster.fail(Reason.FORBIDDEN, "tick")
        cluster.fail(Reason.FORBIDDEN, "list", "nodes")
        async with running(config("pods", "nodes")) as run:
            assert run.start() is StartState.OPENING

    async def test_statistics_are_measured(self, cluster: Cluster) -> None:
        async with running(config("pods")) as run:
            await keep_writing(cluster, PODS)
            await asyncio.sleep(10)
            stream = run.stream("pods")
        assert stream.track.timespan.total == stream.received.events["MODIFIED"] == 600
        minute = next(window for window in stream.track.windows if window.name == "1m")
        assert minute.events > 450
        assert minute.quantiles[0].upper < 1.0

    async def test_each_evaluation_reaches_the_listeners(self) -> None:
        async with running(config("pods"), start=21) as run:  # not at the moment of an evaluation
            seen: list[Snapshot] = []
            run.supervisor.on_evaluation(seen.append)
            await asyncio.sleep(16)
            times = [snapshot.at_wall - seen[0].at_wall for snapshot in seen]
        assert times == [0.0, 5.0, 10.0]
        assert len(seen) == 4  # the last one comes from the shutdown

    async def test_steady_state_sends_two_ticks_a_second(self, cluster: Cluster) -> None:
        async with running(config("pods", "nodes", "configmaps", limits={"auditsPerSecond": 0})):
            cluster.asked.clear()
            await asyncio.sleep(100)
        assert cluster.count("tick") == len(cluster.asked) == pytest.approx(200, abs=1)

    async def test_idle_watches_cost_two_requests_every_few_seconds(self, cluster: Cluster) -> None:
        async with running(config("pods", "nodes", "configmaps")) as run:
            cluster.asked.clear()
            await asyncio.sleep(120)
            assert run.snapshot().apiservers[0].audits["idle"] >= 27
            assert run.snapshot().monitor.stall_detection == 30.0
        assert 27 <= cluster.count("nudge") == cluster.count("audit") <= 33

    async def test_waits_for_a_cluster(self, cluster: Cluster, log: Log) -> None:
        cluster.fail(Reason.REFUSED)
        async with running(config("pods"), start=120) as run:
            assert run.not_ready() == ("The apiserver refuses the connection.",)
            assert len(log.of("discovery_failed")) == 1
            cluster.fail(None)
            await asyncio.sleep(60)
            assert run.not_ready() == ()
            assert len(log.of("recovered")) == 1

    async def test_not_ready_names_the_watch_that_does_not_open(self, cluster: Cluster) -> None:
        cluster.fail(Reason.THROTTLED, "list", "pods")
        async with running(config("pods", "nodes")) as run:
            assert run.not_ready() == (
                "pods has not been opened yet: The apiserver is too busy, or its cache is not ready.",
            )

    async def test_forbidden_resource_does_not_affect_others(self, cluster: Cluster) -> None:
        cluster.fail(Reason.FORBIDDEN, "list", "pods")
        async with running(config("pods", "nodes")) as run:
            assert run.not_ready() == ()
            assert run.stream("pods").session.state == "away"
            assert run.stream("nodes").up

    async def test_not_ready_names_the_clock_that_does_not_tick(self, cluster: Cluster) -> None:
        cluster.fail(Reason.FORBIDDEN, "tick")
        async with running(config("pods")) as run:
            assert run.not_ready() == (
                "The revision clock does not tick: This identity may not list the resource; grant it.",
            )
            cluster.asked.clear()
            await asyncio.sleep(60)
            assert cluster.count("probe") == 0

    async def test_default_resources_that_do_not_exist_are_left_out(self, log: Log) -> None:
        async with running(config()) as run:
            assert run.labels == ["pods", "nodes", "configmaps"]
        assert not log.of("resource_missing")

    async def test_server_without_a_core_group_is_measured(self, cluster: Cluster, log: Log) -> None:
        cluster.served = [GROUPED]
        cluster.fail(Reason.NOT_FOUND, "discovery", "/api")
        async with running(config("*")) as run:
            assert run.labels == ["widgets.example.com"]
            assert run.not_ready() == ()
        assert not log.of("discovery_failed")

    async def test_incomplete_group_is_named_once_in_log_and_status(self, cluster: Cluster, log: Log) -> None:
        cluster.stale = {"metrics.k8s.io"}
        async with running(config("*")) as run:
            await asyncio.sleep(600)
            assert [(one.name, one.why) for one in run.snapshot().monitor.incomplete_groups] == [
                ("metrics.k8s.io/v1", NO_ANSWER)
            ]
            assert [entry["group"] for entry in log.of("api_group_incomplete")] == ["metrics.k8s.io/v1"]
            cluster.stale.clear()
            await asyncio.sleep(200)
            assert run.snapshot().monitor.incomplete_groups == ()
            assert [entry["group"] for entry in log.of("api_group_complete")] == ["metrics.k8s.io/v1"]

    async def test_not_ready_if_nothing_can_be_watched(self, cluster: Cluster) -> None:
        cluster.served = [EVENTS]
        async with running(config()) as run:
            assert run.not_ready() == ("The cluster serves nothing of what is configured.",)

    async def test_not_ready_names_the_group_that_may_have_what_is_configured(self, cluster: Cluster) -> None:
        cluster.stale = {"example.com"}
        async with running(config("widgets.example.com")) as run:
            assert run.not_ready() == (
                "The cluster serves nothing of what is configured.",
                (
                    "The apiserver serves no resource widgets.example.com; it may be in example.com/v1, which does not "
                    "answer now."
                ),
            )


class TestSlowGroups:
    """Without aggregated discovery, the server of a group may hang."""

    @pytest.fixture(autouse=True)
    def _unaggregated(self, cluster: Cluster) -> None:
        cluster.is_aggregated = False
        cluster.served = [*cluster.served, GROUPED]

    async def test_slow_group_is_taken_in_when_it_answers(self, cluster: Cluster, log: Log) -> None:
        cluster.group_seconds = {"/apis/example.com/v1": 50}
        async with running(config("pods", "widgets.example.com"), start=15) as run:
            assert run.labels == ["pods"]
            assert run.not_ready() == ()
            assert [one.name for one in run.snapshot().monitor.incomplete_groups] == ["example.com/v1"]
            assert len(log.of("api_group_incomplete")) == len(log.of("resource_missing")) == 1
            await asyncio.sleep(50)
            assert run.labels == ["pods", "widgets.example.com"]
            assert run.snapshot().monitor.incomplete_groups == ()
            assert cluster.count("discovery", "/apis/example.com/v1") == 2
        assert not log.of("task_crashed")

    async def test_hanging_group_keeps_its_watches(self, cluster: Cluster) -> None:
        async with running(config("pods", "widgets.example.com")) as run:
            cluster.group_seconds = {"/apis/example.com/v1": math.inf}
            await asyncio.sleep(600)
            assert run.labels == ["pods", "widgets.example.com"]
            assert [one.name for one in run.snapshot().monitor.incomplete_groups] == ["example.com/v1"]
            assert all(stream.up for stream in run.snapshot().streams)

    async def test_hanging_groups_are_asked_a_few_at_a_time(self, cluster: Cluster) -> None:
        cluster.served += [Resource(f"group{number}.com", "v1", "widgets", namespaced=True) for number in range(10)]
        cluster.group_seconds = {f"/apis/group{number}.com/v1": math.inf for number in range(10)}
        async with running(config("pods", "widgets.example.com"), start=30) as run:
            assert run.labels == ["pods", "widgets.example.com"]
            assert len(run.snapshot().monitor.incomplete_groups) == 10
            await asyncio.sleep(600)
            assert cluster.most_in_flight == 4
            # Each refresh asks for it once, and perhaps once more with patience.
            assert cluster.count("discovery", "/apis/group0.com/v1") <= 10

    async def test_change_of_the_configuration_does_not_wait_for_a_hanging_group(self, cluster: Cluster) -> None:
        cluster.group_seconds = {"/apis/example.com/v1": math.inf}
        async with running(config("pods"), start=15) as run:
            cluster.served.append(Resource("apps", "v1", "deployments", namespaced=True))
            run.supervisor.configure(config("pods", "deployments.apps"))
            await asyncio.sleep(10)
            assert run.labels == ["pods", "deployments.apps"]


class TestProven:
    MADE = config("pods", "nodes", metrics="proven", clock={"interval": "10s"}, limits={"auditsPerSecond": 0})

    async def test_proven_profile_judges_only_events(self, cluster: Cluster) -> None:
        async with running(self.MADE) as run:
            await keep_writing(cluster, PODS, seconds=120)
            await asyncio.sleep(30)
            track = run.stream("pods").track
            assert sum(track.objective.verdicts.values()) > 1_000
            assert track.objective.verdicts["beyond"] == 0
            assert (track.windows, track.objective.windows) == ((), {})
            assert run.snapshot().causes == ()

    async def test_tick_follows_an_event_and_proves_the_next_one(self, cluster: Cluster) -> None:
        made = config("pods", "nodes", metrics="proven", clock={"interval": "30s"}, limits={"auditsPerSecond": 0})
        async with running(made, start=600) as run:
            cluster.asked.clear()
            cluster.write(PODS)
            await asyncio.sleep(0.2)
            assert cluster.count("tick") == 1
            cluster.write(PODS)
            await asyncio.sleep(5)
            assert cluster.count("tick") == 2, "one follows the second event, and none follows no event"
            await asyncio.sleep(90)
            assert run.stream("pods").track.objective.verdicts == {"within": 1, "beyond": 0, "uncertain": 1}

    async def test_no_tick_follows_an_event_where_quantiles_are_estimated(self, cluster: Cluster) -> None:
        slow = config("pods", "nodes", clock={"interval": "5s"}, objective={"threshold": "10s"})
        async with running(slow, start=100):
            cluster.asked.clear()
            await keep_writing(cluster, PODS, seconds=60, gap=2)
            assert cluster.count("tick") == pytest.approx(12, abs=1)

    async def test_probes_wait_for_the_next_tick(self, cluster: Cluster) -> None:
        async with running(self.MADE, start=200) as run:
            assert [stream.membership for stream in run.snapshot().streams] == ["member", "member"]
            assert cluster.count("probe") <= 2 * (PROBES_NEEDED + 2)

    async def test_discovery_is_rare_without_quantiles(self, cluster: Cluster) -> None:
        async with running(self.MADE, start=200):
            cluster.asked.clear()
            await asyncio.sleep(600)
            asked = Counter(kind for _, kind, _ in cluster.asked)
        assert 50 <= asked["tick"] <= 70
        assert asked.total() - asked["tick"] == 0

    async def test_probes_are_off_without_quantiles(self, cluster: Cluster) -> None:
        """Above all not of an overloaded apiserver, by each of thousands of nodes."""
        async with running(self.MADE) as run:
            await keep_writing(cluster, PODS, seconds=60)
            cluster.asked.clear()
            cluster.fail(Reason.THROTTLED, "tick")
            await keep_writing(cluster, PODS, seconds=300)
            assert run.not_ready() != ()
        assert {kind for kind in ("probe_cache", "history") if cluster.count(kind)} == set()


class TestDelay:
    async def test_no_request_is_sent_during_the_delay(self, cluster: Cluster, log: Log) -> None:
        async with running(config("pods"), start=59, delay=60) as run:
            assert run.not_ready() == ("The first request waits for 1 s more, as `startDelay` says.",)
            assert cluster.asked == []
            await asyncio.sleep(1 + STARTED_SECONDS)
            assert run.not_ready() == ()
        assert [entry["seconds"] for entry in log.of("start_delayed")] == [60.0]

    async def test_stop_during_the_delay(self, cluster: Cluster) -> None:
        async with running(config("pods"), start=10, delay=60):
            pass
        assert cluster.asked == []

    async def test_pause_during_the_delay(self, cluster: Cluster) -> None:
        async with running(config("pods"), start=10, delay=60) as run:
            run.supervisor.configure(config("pods", paused=True))
            await asyncio.sleep(1)
            assert run.not_ready() == ("Watching is paused.",)
            await asyncio.sleep(120)
            assert cluster.asked == []
            run.supervisor.configure(config("pods"))
            await asyncio.sleep(STARTED_SECONDS)
            assert run.not_ready() == ()


class TestShards:
    NAMES = ("pods", "nodes", "configmaps")

    def sharded(self, index: int) -> Config:
        return config(*self.NAMES, shard={"index": index, "count": 4})

    async def test_shards_together_watch_everything_once(self, cluster: Cluster, log: Log) -> None:
        found = []
        for index in range(4):
            async with running(self.sharded(index)) as run:
                monitor = run.snapshot().monitor
                assert run.not_ready() == ()
                assert len(cluster.open_watches()) == len(run.labels)
                assert monitor.shard == ShardReading(index, 4, len(self.NAMES) - len(run.labels))
                found += run.labels
        assert sorted(found) == sorted(self.NAMES)
        assert [entry["index"] for entry in log.of("sharded")] == [0, 1, 2, 3]

    async def test_empty_shard_is_ready_and_sends_few_requests(self, cluster: Cluster) -> None:
        empty = next(index for index in range(4) if not any(self.sharded(index).shard.has(name) for name in self.NAMES))
        async with running(self.sharded(empty)) as run:
            assert run.not_ready() == ()
            assert run.start() is StartState.DONE
            cluster.asked.clear()
            await asyncio.sleep(60)
            assert cluster.count("tick") == 0

    async def test_changed_shard_index_moves_the_watches(self, cluster: Cluster, log: Log) -> None:
        everything = config(*self.NAMES)
        async with running(everything) as run:
            before = {watch.resource.key: watch for watch in cluster.open_watches()}
            mine = [name for name in self.NAMES if self.sharded(2).shard.has(name)]
            assert 0 < len(mine) < len(self.NAMES)
            run.supervisor.configure(self.sharded(2))
            await asyncio.sleep(1)
            assert run.labels == mine
            assert cluster.open_watches() == [before[name] for name in mine]
            run.supervisor.configure(everything)
            await asyncio.sleep(STARTED_SECONDS)
            assert sorted(run.labels) == sorted(self.NAMES)
        assert [entry["elsewhere"] for entry in log.of("sharded")] == [len(self.NAMES) - len(mine), 0]


class TestMissing:
    async def test_missing_resource_is_an_error_at_start(self, cluster: Cluster) -> None:
        run = Running(config("pods", "podz"))
        with pytest.raises(ConfigError, match="no resource podz; did you mean pods"):
            await run.supervisor.run(run.stop)
        assert not cluster.is_open

    async def test_missing_resource_is_logged_once_if_a_group_does_not_answer(
        self, cluster: Cluster, log: Log, refresh: float
    ) -> None:
        cluster.stale.add("widgets.example.com")
        async with running(config("pods", "widgets.widgets.example.com"), start=2 * refresh) as run:
            assert run.labels == ["pods"]
        assert len(log.of("resource_missing")) == 1

    async def test_missing_resource_is_logged_once_after_the_start(
        self, cluster: Cluster, log: Log, refresh: float
    ) -> None:
        async with running(config("pods")) as run:
            run.supervisor.configure(config("pods", "widgets"))
            await asyncio.sleep(3 * refresh)
            assert len(log.of("resource_missing")) == 1
            cluster.served.append(WIDGETS)
            await asyncio.sleep(1.2 * refresh)
            assert run.labels == ["pods", "widgets"]
            cluster.served.remove(WIDGETS)
            await asyncio.sleep(1.2 * refresh)
            assert run.labels == ["pods"]
            assert len(log.of("resource_missing")) == 2


class TestEverything:
    async def test_wildcard_follows_the_cluster(self, cluster: Cluster, refresh: float) -> None:
        async with running(config("*", exclude=["nodes"])) as run:
            assert run.labels == ["pods", "configmaps", "events"]
            cluster.served.append(WIDGETS)
            await asyncio.sleep(1.2 * refresh)
            assert run.labels[-1] == "widgets"
            cluster.fail(Reason.REFUSED, "discovery")
            await asyncio.sleep(1.2 * refresh)
            assert run.labels[-1] == "widgets"

    async def test_wildcard_keeps_to_the_limit_and_logs_it_once(
        self, cluster: Cluster, log: Log, refresh: float
    ) -> None:
        made = Config.model_validate(
            {"watch": [{"resource": "*"}, {"resource": "nodes", "name": "mine"}], "limits": {"watches": 2}}
        )
        async with running(made, start=2 * refresh) as run:
            assert run.labels == ["mine", "pods"]
            assert len(cluster.open_watches()) == 2
            assert [entry["left_out"] for entry in log.of("watches_limited")] == [3]


class TestReload:
    async def test_reload_keeps_unchanged_watches(self, cluster: Cluster) -> None:
        async with running(config("pods", "nodes")) as run:
            before = cluster.open_watches(NODES)
            run.supervisor.configure(config("nodes", "configmaps"))
            await asyncio.sleep(1)
            assert run.labels == ["nodes", "configmaps"]
            assert [watch.resource.key for watch in cluster.open_watches()] == ["nodes", "configmaps"]
            assert cluster.open_watches(NODES) == before

    async def test_checks_of_ended_watches_are_kept_by_their_apiserver(self, cluster: Cluster) -> None:
        async with running(config("pods", "nodes")) as run:
            await keep_writing(cluster, PODS, seconds=1)
            before = run.stream("pods").guarantees.checked
            assert before["ordered"] == 10
            run.supervisor.configure(config("nodes"))
            await asyncio.sleep(STARTED_SECONDS)
            assert run.labels == ["nodes"]
            (apiserver,) = (await run.supervisor.snapshot()).apiservers
            assert {name: apiserver.checked[name] for name in ("ordered", "resumable")} == {
                "ordered": 10,
                "resumable": 1,
            }

    async def test_reload_of_hops_keeps_the_watch_and_its_statistics(self, cluster: Cluster) -> None:
        """The setting is for finding out where a watch is late now."""
        async with running(config("pods")) as run:
            await keep_writing(cluster, PODS, seconds=10)
            (opened,) = cluster.open_watches()
            run.supervisor.configure(Config.model_validate({"watch": [{"resource": "pods", "hops": True}]}))
            await asyncio.sleep(10)
            assert cluster.open_watches() == [opened]
            assert run.stream("pods").track.timespan.total == 100
            assert run.stream("pods").cache.probed
            run.supervisor.configure(config("pods"))
            await asyncio.sleep(80)
            assert not run.stream("pods").cache.probed

    async def test_reload_of_the_objective_keeps_the_watch(self, cluster: Cluster, log: Log) -> None:
        plain = {"resource": "pods"}
        async with running(Config.model_validate({"watch": [plain]})) as run:
            await keep_writing(cluster, PODS, seconds=10)
            assert run.stream("pods").track.timespan.total > 0
            run.supervisor.configure(Config.model_validate({"watch": [{**plain, "objective": {"threshold": "500ms"}}]}))
            await asyncio.sleep(1)
            stream = run.stream("pods")
        assert stream.received.events["MODIFIED"] == 100
        assert stream.track.timespan.total == 0
        assert stream.track.objective.threshold == 0.5
        assert len(cluster.watches) == 1
        assert len(log.of("objective_changed")) == 1

    @pytest.mark.parametrize(
        "changed", [{"limits": {"maxLine": "1Mi"}}, {"watch": [{"resource": "pods", "namespace": "a"}]}]
    )
    async def test_reload_reopens_watches_with_another_request(self, cluster: Cluster, changed: dict[str, Any]) -> None:
        async with running(config("pods")) as run:
            run.supervisor.configure(config("pods").model_validate({"watch": [{"resource": "pods"}], **changed}))
            await asyncio.sleep(STARTED_SECONDS)
            assert run.not_ready() == ()
        assert len(cluster.watches) == 2

    async def test_reload_rejects_a_new_threshold(self) -> None:
        async with running(config("pods")) as run:
            with pytest.raises(ConfigError, match="a threshold of 700ms needs a bucket of its own; restart"):
                run.supervisor.configure(config("nodes", objective={"threshold": "700ms"}))
            await asyncio.sleep(1)
            assert run.labels == ["pods"]

    async def test_reload_discovers_at_once(self, cluster: Cluster) -> None:
        async with running(config("pods")) as run:
            cluster.served.append(WIDGETS)
            run.supervisor.configure(config("pods", "widgets"))
            await asyncio.sleep(1)
            assert run.labels == ["pods", "widgets"]

    async def test_does_not_wait_for_a_hanging_apiserver(self, cluster: Cluster, refresh: float) -> None:
        async with running(config("pods", "nodes")) as run:
            cluster.hanging.add("discovery")
            await asyncio.sleep(1.2 * refresh)
            run.supervisor.configure(config("nodes"))
            await asyncio.sleep(0.1)
            assert run.labels == ["nodes"]

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
    @pytest.mark.parametrize("hanging", [(), ("discovery",), ("list", "watch", "tick", "probe")])
    async def test_pause_closes_everything_at_once(
        self, cluster: Cluster, hanging: tuple[str, ...], refresh: float
    ) -> None:
        async with running(config("pods", "nodes")) as run:
            cluster.hanging.update(hanging)
            await asyncio.sleep(1.2 * refresh)
            run.supervisor.configure(config("pods", "nodes", paused=True))
            await asyncio.sleep(0.1)
            assert not cluster.open_watches()
            assert cluster.hung_up > 0
            assert run.snapshot().domains == ()
            cluster.asked.clear()
            await asyncio.sleep(600)
            assert run.not_ready() == ("Watching is paused.",)
            assert not cluster.asked

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

    async def test_paused_from_the_start(self, cluster: Cluster, log: Log) -> None:
        async with running(config("podz", paused=True)) as run:
            assert not cluster.asked
            run.supervisor.configure(config("podz", "pods"))
            await asyncio.sleep(STARTED_SECONDS)
            assert run.labels == ["pods"]
            assert len(log.of("resource_missing")) == 1


class TestShutdown:
    @pytest.mark.parametrize("kind", ["discovery", "version", "list", "watch", "tick", "probe"])
    async def test_does_not_wait_for_a_hanging_apiserver(self, cluster: Cluster, kind: str) -> None:
        cluster.hanging.add(kind)
        async with running(config("pods"), start=3):
            pass
        assert not cluster.is_open

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


class TestStorage:
    async def test_storage_other_than_etcd_is_logged_once(self, cluster: Cluster, log: Log, refresh: float) -> None:
        cluster.git_version, cluster.compacted = "v1.30.0+k3s1", 0
        async with running(config("pods"), start=2 * refresh) as run:
            (apiserver,) = run.snapshot().apiservers
            assert apiserver.unproven
            assert apiserver.unproven.startswith("k3s stores objects in etcd or in kine")
        assert len(log.of("storage_unproven")) == 1

    async def test_storage_is_remembered_if_the_version_is_unknown(self, cluster: Cluster, refresh: float) -> None:
        cluster.git_version, cluster.compacted = "v1.30.0+k3s1", 0
        async with running(config("pods")) as run:
            cluster.failures["version", ""] = because_of(Reason.TIMEOUT)
            await asyncio.sleep(1.2 * refresh)
            assert run.snapshot().apiservers[0].unproven


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
                    assert later.streams is first.streams
                    assert later.at_wall == first.at_wall
                assert later.domains[0].tickers[0].ticks["ok"] >= ticks + 8
                assert read == []
            await asyncio.sleep(5)
            (stream,) = (await run.supervisor.evaluated()).streams
            assert stream.received.events["MODIFIED"] == 4

    async def test_evaluated_before_the_first_evaluation_is_the_newest(self) -> None:
        async with running(config("pods"), start=1.0) as run:
            assert await run.supervisor.evaluated() is run.snapshot()

    async def test_first_watches_are_shown_before_they_are_evaluated(self) -> None:
        async with running(config("pods"), start=30.5, delay=30) as run:
            assert [stream.watch for stream in (await run.supervisor.evaluated()).streams] == ["pods"]

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
            patched.setattr("watchslo.monitor.lag.LATE_SECONDS", -1.0)  # every beat is late
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
