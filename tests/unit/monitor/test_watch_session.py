"""One watch against a cluster in memory, with a clock that the test ticks."""

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.monitor.cluster import PODS, Cluster, Log, Watch, line, nowhere
from watchslo.clock.burst import Burst, BurstBudget
from watchslo.clock.domain import Domain
from watchslo.clock.storage_kind import ApiserverStorage
from watchslo.clock.tick_schedule import TickSchedule
from watchslo.config.model import WatchConfig
from watchslo.kube.client import Page
from watchslo.kube.limiter import Limiter, RequestClass
from watchslo.latency.bins import Bins
from watchslo.latency.estimate import solve
from watchslo.latency.objective import Objective
from watchslo.latency.track import Track
from watchslo.model import Interval, Reading
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.desired import DesiredWatch
from watchslo.monitor.domain_clock import DomainClock
from watchslo.monitor.evaluator import update_watch
from watchslo.monitor.lag import Lag
from watchslo.monitor.monitored_watch import MonitoredWatch
from watchslo.monitor.peers import PeerComparison
from watchslo.monitor.readings import read_apiserver, read_watch
from watchslo.monitor.sealer import Sealer
from watchslo.monitor.watch_identity import WatchIdentity
from watchslo.monitor.watch_session import WatchSession
from watchslo.monitor.watch_statistics import WatchStatistics
from watchslo.snapshot import ApiserverRole, GuaranteeReading, StreamReading
from watchslo.watch.audit import Health
from watchslo.watch.closes import SETTLE_SECONDS
from watchslo.watch.failure import Failure, Reason, because
from watchslo.watch.machine import HEALTHY_SECONDS
from watchslo.watch.messages import Batch
from watchslo.watch.transitions import State

MEBIBYTE = 2**20
ERROR_410 = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
MEASURES_CREATION = {"representation": "metadata", "creation": True}


class Parts:
    """A watch of pods and its parts; the test ticks its clock."""

    def __init__(self, **watch: Any) -> None:
        made = WatchConfig.model_validate({"resource": "pods", "creation": False, **watch})
        self.apiserver = Apiserver("service", nowhere(), Limiter(1000))
        self.lag = Lag(time.monotonic())
        schedule = TickSchedule(lambda: 0.5, Burst(BurstBudget(10.0, 0.0)))
        self.clock = DomainClock(
            "main",
            lambda: 0.5,
            schedule,
            self._new_sealer,
            lambda *_: None,
            lambda *_: None,
            lambda *_: asyncio.sleep(0),
        )
        self.clock.join("service", lambda resource: self.apiserver.client.read_nothing(resource, "default", "tick"))
        self.track = Track(Bins(), Objective(), time.monotonic(), self.lag.own_delays, creation=bool(made.creation))
        self.opened = asyncio.Event()
        identity = WatchIdentity(1, "mine", made, PODS, self.apiserver, MEBIBYTE, "default")
        self.statistics = WatchStatistics(identity, self.track, self.clock, self.lag, lambda: self.apiserver.dating)
        self.session = WatchSession(identity, self.statistics, lambda: 0.5, self.opened.set)
        self.health = Health(lambda: 0.5, self.session.deliveries.delivered)
        desired = DesiredWatch(made, PODS, Objective(), MEBIBYTE)
        self.watch = MonitoredWatch(identity, desired, self.session, self.statistics)

    def _new_sealer(self, domain: Domain) -> Sealer:
        return Sealer(domain, Bins(), self.lag.own_delays, lambda _: None, lambda _: ApiserverStorage())

    async def tick(self, revision: int) -> None:
        now = time.monotonic()
        await self.clock._arrived(Reading("events", now - 0.002, now, revision))

    async def join(self, cluster: Cluster) -> None:
        """Make the watch a member of the domain."""
        for _ in range(4):
            await self.tick(cluster.revision)
            await asyncio.sleep(0.6)
            now = time.monotonic()
            self.clock.domain.probe(Reading("pods", now - 0.002, now, cluster.revision))
            await asyncio.sleep(0.1)
        assert self.statistics.measured

    def failure(self) -> str | None:
        return self.session.failure

    def reading(self) -> StreamReading:
        watches = SimpleNamespace(
            health=lambda _: self.health,
            headroom=lambda _: None,
            cache_prober=SimpleNamespace(clock_of=lambda _: None),
            peers=PeerComparison(lambda _: None),
            metrics_reader=SimpleNamespace(reading=lambda _: None),
        )
        return read_watch(self.watch, cast("Any", watches))

    def start_over(self) -> None:
        self.health.forget(0.0)
        self.session.start_over()

    def evaluate(self) -> None:
        deque(self.statistics.clock.sealer.collect(), maxlen=0)
        solve(update_watch(self.watch, self.health, time.monotonic(), unjudgeable=False))
        self.statistics.publish()

    def unmeasured(self) -> dict[str, int]:
        self.evaluate()
        return {reason: count for reason, count in self.reading().track.unmeasured.items() if count}


@asynccontextmanager
async def open_watch(cluster: Cluster, **watch: Any) -> AsyncIterator[tuple[Parts, Watch]]:
    """Run a watch; return its parts and the open connection."""
    parts = Parts(**watch)
    task = asyncio.create_task(parts.session.run())
    await asyncio.sleep(0.1)
    try:
        yield parts, cluster.watches[0]
        parts.session.halt(Reason.SHUTDOWN)
        async with asyncio.timeout(0.1):
            await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert not cluster.open_watches()
    assert parts.session.state is State.HALTED


class TestRun:
    async def test_watch_begins_at_the_revision_of_a_list(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, watch):
            assert parts.session.up
            assert parts.session.started
            assert parts.opened.is_set()
            assert watch.revision == 100
            assert watch.representation == "table"

    async def test_halt_before_the_run_sends_no_request(self, cluster: Cluster) -> None:
        parts = Parts()
        parts.session.halt(Reason.RELOAD)
        await parts.session.run()
        assert not cluster.asked

    @pytest.mark.parametrize("kind", ["list", "watch"])
    async def test_halt_during_a_request(self, cluster: Cluster, kind: str) -> None:
        cluster.hanging.add(kind)
        parts = Parts()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(parts.session.run())
            await asyncio.sleep(10)
            parts.session.halt(Reason.PAUSED)
        assert parts.session.state is State.HALTED

    async def test_halt_during_a_backoff(self, cluster: Cluster) -> None:
        cluster.fail(Reason.REFUSED)
        parts = Parts()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(parts.session.run())
            await asyncio.sleep(10)
            asked = len(cluster.asked)
            assert 3 < asked < 8
            parts.session.halt(Reason.PAUSED)
            await asyncio.sleep(60)
        assert len(cluster.asked) == asked

    async def test_error_while_it_wakes_up_ends_the_run(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cluster.fail(Reason.REFUSED)
        parts = Parts()
        task = asyncio.create_task(parts.session.run())
        await asyncio.sleep(0.1)
        monkeypatch.setattr("watchslo.watch.machine.Machine._wake_up", lambda *_: 1 / 0)
        async with asyncio.timeout(60):
            with pytest.raises(ExceptionGroup):
                await task

    async def test_events_received_before_a_command_are_taken_in_before_it(self, cluster: Cluster) -> None:
        parts = Parts()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(parts.session.run())
            await asyncio.sleep(0.1)
            cluster.watches[0].kept += [line("MODIFIED", 10**6), line("MODIFIED", 10**6 + 1)]
            parts.session.reopen(Reason.ROTATED)
            await asyncio.sleep(2)
            assert cluster.watches[1].revision == 10**6 + 1
            parts.session.halt(Reason.RELOAD)
        assert parts.reading().received.events["MODIFIED"] == 2

    async def test_run_after_a_crash_starts_over(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        parts = Parts()
        task = asyncio.create_task(parts.session.run())
        await asyncio.sleep(0.1)
        cluster.write(PODS)
        await asyncio.sleep(0.1)
        with monkeypatch.context() as patched:
            patched.setattr("watchslo.watch.decode.decode", lambda _: 1 / 0)
            cluster.write(PODS)
            with pytest.raises(ExceptionGroup):
                await task
        assert not cluster.open_watches()
        assert parts.session.state is State.NEW
        parts.start_over()
        parts.session.halt(Reason.RELOAD)
        await parts.session.run()
        assert len(cluster.watches) == 1
        assert parts.reading().received.events["MODIFIED"] == 1

    async def test_crash_is_followed_by_a_gap(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        parts = Parts()
        task = asyncio.create_task(parts.session.run())
        await asyncio.sleep(0.1)
        with monkeypatch.context() as patched:
            patched.setattr("watchslo.watch.decode.decode", lambda _: 1 / 0)
            cluster.write(PODS)
            with pytest.raises(ExceptionGroup):
                await task
        assert not parts.apiserver.open_watches
        await asyncio.sleep(5.0)
        cluster.write(PODS)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(parts.session.run())
            await asyncio.sleep(0.1)
            parts.session.halt(Reason.RELOAD)
        reading = parts.reading()
        assert reading.gaps.revisions == 2
        assert reading.gaps.seconds == pytest.approx(5.0, abs=0.1)
        assert (reading.lists.relists["start"], reading.lists.relists["errors"]) == (1, 1)

    async def test_ended_watch_is_resumed(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, watch):
            cluster.write(PODS)
            await asyncio.sleep(HEALTHY_SECONDS)
            watch.send()
            await asyncio.sleep(0.1)
            assert cluster.watches[1].revision == 101
            assert not parts.reading().outcomes.closed
            parts.apiserver.closes.settle(time.monotonic() + SETTLE_SECONDS)
            reading = parts.reading()
            assert reading.outcomes.closed == {("server", "forced"): 1}
            assert reading.outcomes.lifetimes.total == 1
            assert reading.outcomes.opens.total == 2

    async def test_minutes_of_a_watch_that_cannot_be_reopened_are_bad(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, watch):
            assert parts.reading().down_for is None
            cluster.fail(Reason.REFUSED, "watch")
            watch.send()
            for _ in range(30):
                await asyncio.sleep(5)
                await parts.tick(cluster.revision)
                parts.evaluate()
            reading = parts.reading()
            assert reading.down_for == pytest.approx(150, abs=0.2)
            assert reading.track.objective.windows["bad"] == 2
            cluster.fail(None, "watch")
            await asyncio.sleep(60)
            assert parts.session.up
            assert parts.reading().down_for is None

    async def test_minutes_of_a_watch_without_a_right_have_no_data(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, watch):
            cluster.fail(Reason.FORBIDDEN, "watch")
            watch.send()
            for _ in range(30):
                await asyncio.sleep(5)
                await parts.tick(cluster.revision)
                parts.evaluate()
            assert parts.reading().down_for is None
            assert parts.reading().track.objective.windows["bad"] == 0
            cluster.fail(None, "watch")
            await asyncio.sleep(600)

    async def test_watch_closed_while_behind_is_a_slow_consumer(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, watch):
            await parts.join(cluster)
            late = cluster.revision + 1
            cluster.revision += 1
            for _ in range(4):
                await parts.tick(cluster.revision)
                await asyncio.sleep(0.6)
            cluster.send(PODS, line("MODIFIED", late))
            watch.send()
            await asyncio.sleep(0.1)
            parts.apiserver.closes.give_up()
            assert parts.reading().outcomes.closed == {("server", "slow_consumer"): 1}

    async def test_start_over_forgets_all_revisions(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, _):
            parts.health.searched(500)
            parts.session.deliveries.add(Batch(time.monotonic(), [500], ["ADDED"], [None]))
            parts.start_over()
            assert parts.session.deliveries.since(7) is None, "what was is no reason to call a peer late"
            assert not parts.session.up
            assert parts.health.search_from() == 100
            cluster.revision = 7
            await asyncio.sleep(11)
            assert cluster.watches[1].revision == 7
            assert parts.reading().lists.relists["domain_reset"] == 1

    async def test_pages_are_counted(self, cluster: Cluster) -> None:
        async with open_watch(cluster, list="paged") as (parts, _):
            reading = parts.reading()
        assert (reading.lists.pages, reading.lists.items, reading.lists.bytes) == (2, 6, 2000)
        assert reading.outcomes.lists["paged"].total == 1
        assert read_apiserver(parts.apiserver, ApiserverRole.MEMBER, None).outcomes.lists["paged"].total == 1

    async def test_list_durations_begin_at_0_for_the_strategies_of_the_watches(self) -> None:
        """A rate does not see the first list of a series that begins with it; no other strategy has series."""
        parts = Parts(list="stream")
        apiserver = read_apiserver(parts.apiserver, ApiserverRole.MEMBER, None)
        for outcomes in (apiserver.outcomes, parts.reading().outcomes):
            assert {name: lists.total for name, lists in outcomes.lists.items()} == {"stream": 0, "paged": 0}
        witness = Apiserver("10.0.0.2:6443", nowhere(), Limiter(1000))
        assert not read_apiserver(witness, ApiserverRole.WITNESS, None).outcomes.lists

    async def test_streamed_lists_that_fail_after_their_headers_are_counted(self, cluster: Cluster) -> None:
        """After the fifth in a row, the list is requested in pages."""
        async with open_watch(cluster, list="stream") as (parts, _):
            for cut in range(1, 6):
                cluster.watches[-1].send(line("ADDED", 40))
                cluster.watches[-1].send(because(Reason.RESET))
                while len(cluster.watches) == cut:  # noqa: ASYNC110 (the time is fake)
                    await asyncio.sleep(1)
            assert parts.session.up
            apiserver = read_apiserver(parts.apiserver, ApiserverRole.MEMBER, None)
            for outcomes in (parts.reading().outcomes, apiserver.outcomes):
                assert outcomes.failed_lists == {("stream", "reset"): 5}
                assert (outcomes.fallbacks, outcomes.initial_events) == (1, 5)
                assert outcomes.lists["paged"].total == 1
            assert not parts.reading().outcomes.closed

    async def test_list_that_is_given_up_is_no_failed_list(self, cluster: Cluster) -> None:
        async with open_watch(cluster, list="stream") as (parts, _):
            parts.session.start_over()
            assert not parts.reading().outcomes.failed_lists

    async def test_representation_falls_back_to_what_the_server_supports(self, cluster: Cluster) -> None:
        cluster.fail(Reason.NOT_ACCEPTABLE, "watch")
        parts = Parts()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(parts.session.run())
            await asyncio.sleep(0.5)
            assert parts.reading().session.representation == "metadata"
            await asyncio.sleep(60)
            assert parts.reading().session.representation == "plain"
            cluster.fail(None, "watch")
            await asyncio.sleep(90)
            assert parts.session.up
            parts.session.halt(Reason.RELOAD)


class TestEvents:
    async def test_events_are_counted_and_measured(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, _):
            await parts.join(cluster)
            parts.lag.resume(time.monotonic())
            for type_ in ("ADDED", "MODIFIED", "DELETED"):
                cluster.write(PODS, type_)
            await asyncio.sleep(1.1)
            await parts.tick(cluster.revision)
            assert parts.unmeasured() == {}
            reading = parts.reading()
        assert reading.track.timespan.total == 3
        assert reading.received.events == {"ADDED": 1, "MODIFIED": 1, "DELETED": 1, "ERROR": 0}
        assert reading.received.revision == 103
        assert reading.received.last_wall is not None
        assert reading.received.bytes > 100

    async def test_events_wait_until_the_domain_is_known(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, _):
            assert parts.reading().membership == "pending"
            await parts.tick(cluster.revision)
            cluster.write(PODS)
            await asyncio.sleep(0.1)
            assert parts.unmeasured() == {}
            assert parts.reading().track.timespan.total == 0
            await parts.join(cluster)
            await parts.tick(cluster.revision)
            assert parts.unmeasured() == {}
            assert parts.reading().track.timespan.total == 1

    async def test_events_of_another_domain_are_unmeasured(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, _):
            parts.clock.domain.expel(("service", "pods"))
            cluster.write(PODS)
            await asyncio.sleep(0.1)
            assert parts.unmeasured() == {"domain": 1}

    async def test_wait_of_each_request_is_noted_and_no_duration(self, cluster: Cluster) -> None:
        """Two requests are refused, and the third is given up while it waits."""
        async with open_watch(cluster) as (parts, watch):
            cluster.limiter = Limiter(10, 0.1, asyncio.get_running_loop().time)
            cluster.fail(Reason.THROTTLED, "watch")
            cut = time.monotonic()
            watch.send()
            await cluster.limiter.acquire(RequestClass.RESUME)
            await asyncio.sleep(25)
            parts.session.reopen(Reason.ROTATED)
            cluster.fail(None, "watch")
            await asyncio.sleep(30)
            assert parts.session.up
            noted = parts.statistics.queue_waits
            waits = [noted.wait(number) for number in reversed(range(len(noted)))]
            assert [since - cut for since, _ in waits] == pytest.approx([1.2, 12.4, 24.8, 25.8], abs=0.01)
            assert [until - cut for _, until in waits] == pytest.approx([10.0, 20.0, 25.0, 30.0], abs=0.01)
            assert parts.session.outcomes.opens.reading().sum < 0.01

    @pytest.mark.parametrize(("reason", "noted"), [(Reason.UNAUTHORIZED, 1), (Reason.SERVER_ERROR, 0)], ids=str)
    async def test_time_without_a_right_is_noted_until_the_watch_is_open(
        self, cluster: Cluster, reason: Reason, noted: int
    ) -> None:
        """Other clients received in time what this one could not."""
        async with open_watch(cluster) as (parts, watch):
            cluster.fail(reason, "watch")
            watch.send()
            await asyncio.sleep(40)
            cluster.fail(None, "watch")
            await asyncio.sleep(120)
            assert parts.session.up
            waits = parts.statistics.queue_waits
            lasted = [until - since for since, until in (waits.wait(number) for number in range(len(waits)))]
            assert [seconds > 30 for seconds in lasted] == [True] * noted

    async def test_age_of_a_revision_from_before_a_suspend_has_no_upper_bound(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, _):
            await parts.join(cluster)
            revision = cluster.write(PODS)
            await asyncio.sleep(1)
            await parts.tick(cluster.revision)
            now = time.monotonic()
            before = parts.statistics.commit_bounds(revision, now)
            assert before
            assert 1.0 <= before.upper < 2.0
            parts.lag.own_delays.add_stop(now - 0.05, now)
            assert parts.statistics.commit_bounds(revision, now) == Interval(before.lower, math.inf)

    async def test_tainted_events_are_unmeasured(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, _):
            await parts.join(cluster)
            parts.lag.beat(time.monotonic(), 0.0, 0.0)
            await asyncio.sleep(0.2)
            cluster.write(PODS)
            await asyncio.sleep(0.1)
            assert parts.unmeasured() == {"tainted": 1}

    async def test_bookmarks_are_counted_and_dated(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, watch):
            assert parts.reading().received.bookmark_age is None
            watch.send(line("BOOKMARK", 200))
            await asyncio.sleep(3)
            reading = parts.reading()
        assert reading.received.bookmarks == 1
        assert reading.received.bookmark_age == pytest.approx(3)
        assert reading.received.revision == 200

    async def test_violations_are_counted_and_logged_at_most_once_a_minute(self, cluster: Cluster, log: Log) -> None:
        async with open_watch(cluster) as (parts, watch):
            await parts.join(cluster)
            for revision in (50, 60, 70):
                watch.send(line("MODIFIED", revision))
                await asyncio.sleep(0.1)
            violated = parts.reading().guarantees.violations
            assert {name: count for name, count in violated.items() if count} == {"resumable": 3}
            await asyncio.sleep(60)
            watch.send(line("MODIFIED", 80))
            await asyncio.sleep(0.1)
        place = {"watch": "mine", "resource": "pods", "apiserver": "service", "guarantee": "resumable"}
        lines = [{**place, **found} for found in ({"count": 1, "oldest": 50}, {"count": 3, "oldest": 80})]
        assert log.of("guarantee_violated") == [
            {"event": "guarantee_violated", **found, "newest": found["oldest"]} for found in lines
        ]

    async def test_only_unknown_late_events_end_what_is_known_of_deliveries(self, cluster: Cluster) -> None:
        def row(revision: int) -> bytes:
            metadata = {"resourceVersion": str(revision)}
            found = {"kind": "Table", "metadata": metadata, "rows": [{"cells": ["a"]}]}
            return json.dumps({"type": "MODIFIED", "object": found}).encode() + b"\n"

        async with open_watch(cluster) as (parts, watch):
            await parts.join(cluster)
            delivered = parts.session.deliveries.delivered
            watch.send(row(201) + row(202) + row(202))
            await asyncio.sleep(0.1)
            assert (delivered.has(201), delivered.floor) == (True, 100)
            watch.send(row(150))
            await asyncio.sleep(0.1)
            assert (delivered.has(201), delivered.floor) == (None, 202)
            found = parts.reading().guarantees.violations
            assert {name for name, count in found.items() if count} == {"unique", "ordered"}

    async def test_checks_of_guarantees_are_counted(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, watch):
            await parts.join(cluster)
            watch.send(b"".join(line(*each) for each in (("MODIFIED", 201), ("MODIFIED", 202), ("BOOKMARK", 203))))
            watch.send(line("MODIFIED", 203))
            await asyncio.sleep(0.1)
            assert parts.reading().guarantees == GuaranteeReading(
                {"ordered": 3, "unique": 3, "bookmarkable": 4, "resumable": 1, "reliable": 0},
                {"ordered": 0, "unique": 0, "bookmarkable": 1, "resumable": 0, "reliable": 0},
            )

    async def test_types_are_checked_with_an_inventory_and_selectors_where_they_can_be_judged(
        self, cluster: Cluster
    ) -> None:
        options = {"list": "paged", "inventory": True, "namespace": "default"}
        async with open_watch(cluster, **options) as (parts, watch):
            await parts.join(cluster)
            watch.send(line("MODIFIED", 201))
            await asyncio.sleep(0.1)
            checked = parts.reading().guarantees.checked
            assert (checked["ordered"], checked["typed"], checked["filtered"]) == (1, 1, 0)

    async def test_garbage_lines_are_counted(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, watch):
            watch.send(b"<html>\n" + line("MODIFIED", "abc") + line("RENAMED", 101))
            await asyncio.sleep(0.1)
            assert parts.reading().received.events["ERROR"] == 2
            assert parts.unmeasured() == {"unparsable": 1}
            assert parts.session.up

    async def test_expired_error_event_causes_a_relist(self, cluster: Cluster, log: Log) -> None:
        async with open_watch(cluster) as (parts, watch):
            cluster.revision += 1
            watch.send(ERROR_410 + line("MODIFIED", 101))
            await asyncio.sleep(15)
            reading = parts.reading()
            assert parts.session.up
        assert reading.lists.expired["stream"] == reading.lists.relists["expired"] == 1
        assert not watch.open
        assert log.of("relist")[0]["reason"] == "expired"

    async def test_endless_line_closes_the_watch(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, watch):
            for _ in range(5):
                watch.send(b"x" * (MEBIBYTE // 4))
            await asyncio.sleep(0.1)
            assert parts.reading().outcomes.closed == {("server", "oversize"): 1}

    async def test_cut_line_is_an_early_eof(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, watch):
            watch.send(line("MODIFIED", 101)[:20])
            watch.send()
            await asyncio.sleep(0.1)
            assert parts.reading().outcomes.closed == {("network", "early_eof"): 1}

    async def test_list_from_the_past_is_time_travel(self, cluster: Cluster) -> None:
        async with open_watch(cluster) as (parts, watch):
            cluster.write(PODS)
            await asyncio.sleep(0.1)
            cluster.revision = 50
            watch.send(ERROR_410)
            await asyncio.sleep(13)
            assert read_apiserver(parts.apiserver, ApiserverRole.MEMBER, None).time_travel.count > 0
            last = parts.reading().session.last_failure
            assert last
            assert last.reason == "time_travel"

    async def test_non_numeric_revision_is_unparsable(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cluster, "revision_of", lambda _: None)
        parts = Parts()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(parts.session.run())
            await asyncio.sleep(5)
            assert parts.reading().membership == "unparsable"
            assert parts.session.started
            parts.session.halt(Reason.RELOAD)


class TestFailures:
    async def test_failures_are_logged_once_and_resolved_when_the_watch_stays_open(
        self, cluster: Cluster, log: Log
    ) -> None:
        async with open_watch(cluster) as (parts, _):
            for _ in range(600):  # it opens and closes repeatedly
                cluster.revision += 1
                cluster.send(PODS, ERROR_410)
                await asyncio.sleep(0.2)
                parts.unmeasured()
            assert not log.of("recovered")
            await asyncio.sleep(90)
            assert parts.session.up
            assert parts.failure() == "The apiserver no longer has this revision."
            parts.unmeasured()
            assert parts.failure() is None
            assert parts.reading().session.last_failure is not None
        assert [entry["reason"] for entry in log.of("watch_closed")] == ["expired", "shutdown"]
        assert log.of("recovered")[0]["failures"] == parts.reading().lists.expired["stream"] > 3

    async def test_failures_last_while_a_parallel_list_fails(self, cluster: Cluster, log: Log) -> None:
        answer = cluster.list_page

        async def refuse_the_rest(*question: Any, **options: Any) -> Page | Failure:
            page = await answer(*question, **options)
            return because(Reason.SERVER_ERROR) if question[3].continue_token else page

        cluster.list_page = refuse_the_rest  # type: ignore[method-assign]
        async with open_watch(cluster, list="parallel") as (parts, _):
            for _ in range(120):
                await asyncio.sleep(5)
                parts.unmeasured()
            assert parts.session.up
            assert not log.of("recovered")
            assert len(log.of("list_failed")) == 1
            cluster.list_page = answer  # type: ignore[method-assign]
            await asyncio.sleep(90)
            parts.unmeasured()
            assert len(log.of("recovered")) == 1


class TestCreation:
    async def test_creation_is_measured_by_the_apiservers_clock(self, cluster: Cluster) -> None:
        cluster.date_skew = 3600.0
        async with open_watch(cluster, **MEASURES_CREATION) as (parts, _):
            parts.apiserver.peers = 1
            await self.wait(parts, 10)
            cluster.write(PODS, "ADDED", _stamp(cluster.wall() - 2))
            cluster.write(PODS, "MODIFIED", _stamp(cluster.wall()))
            assert (await self.total(parts)) == 1
            creation = parts.reading().track.creation
        assert creation
        assert 0.5 < creation.sum < 4

    @pytest.mark.parametrize("step", [3600.0, -3600.0])
    async def test_creation_is_unmeasured_while_the_apiservers_clock_is_set(
        self, cluster: Cluster, step: float
    ) -> None:
        cluster.date_skew = 0.0
        async with open_watch(cluster, **MEASURES_CREATION) as (parts, _):
            parts.apiserver.peers = 1
            await self.wait(parts, 10)
            cluster.date_skew = step
            cluster.write(PODS, "ADDED", _stamp(cluster.wall()))
            assert (await self.total(parts)) == 0
            cluster.write(PODS, "ADDED", _stamp(cluster.wall() - step))  # an object from before the step
            assert (await self.total(parts)) == 0
            await self.wait(parts, 3600)
            cluster.write(PODS, "ADDED", _stamp(cluster.wall()))
            assert (await self.total(parts)) == 1

    async def wait(self, parts: Parts, seconds: float) -> None:
        """Let time pass in which this process is never late."""
        await asyncio.sleep(seconds)
        parts.lag.resume(time.monotonic())

    async def total(self, parts: Parts) -> int:
        """Return how many creations are measured once the apiserver's clock has been read again."""
        await self.wait(parts, 60)
        await parts.apiserver.client.read_nothing(PODS, "default", "tick")
        parts.unmeasured()
        creation = parts.reading().track.creation
        assert creation
        return creation.total

    @pytest.mark.parametrize("peers", [None, 3])
    async def test_creation_is_unmeasured_if_others_may_stamp(self, cluster: Cluster, peers: int | None) -> None:
        cluster.date_skew = 0.0
        async with open_watch(cluster, **MEASURES_CREATION) as (parts, _):
            parts.apiserver.peers = peers
            cluster.write(PODS, "ADDED", _stamp(time.time()))
            await asyncio.sleep(0.1)
            parts.unmeasured()
            creation = parts.reading().track.creation
            assert (read_apiserver(parts.apiserver, ApiserverRole.MEMBER, None).offset is None) == (peers == 3)
        assert creation
        assert creation.total == 0

    @pytest.mark.parametrize("created", ["yesterday", "2024-13-01T00:00:00Z", "9999999-01-01T00:00:00Z", "2024-01-01"])
    async def test_malformed_creation_timestamp_is_ignored(self, cluster: Cluster, created: str) -> None:
        cluster.date_skew = 0.0
        async with open_watch(cluster, **MEASURES_CREATION) as (parts, watch):
            parts.apiserver.peers = 1
            cluster.write(PODS, "ADDED", created)
            await asyncio.sleep(0.1)
            assert watch.open
            assert parts.unmeasured() == {}


def _stamp(wall: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(wall))
