"""One watch against a cluster in memory, with a clock that ticks as told."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog

from tests.unit.monitor.cluster import PODS, Cluster, Log, Watch, line, nowhere
from watchslo.config import WatchConfig
from watchslo.kube.client import Page
from watchslo.kube.limiter import Limiter
from watchslo.latency.bins import Bins
from watchslo.latency.objective import Objective
from watchslo.latency.track import Track
from watchslo.model import Reading
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.lag import Lag
from watchslo.monitor.stream import Stream
from watchslo.monitor.timekeeper import Timekeeper
from watchslo.watch.closes import SETTLE_SECONDS
from watchslo.watch.failure import Failure, Reason, because
from watchslo.watch.machine import HEALTHY_SECONDS, State

MEBIBYTE = 2**20
ERROR_410 = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
MEASURES_CREATION = {"representation": "metadata", "creation": True}


class Parts:
    """A stream of pods and what it needs; its clock ticks when told to."""

    def __init__(self, **watch: Any) -> None:
        made = WatchConfig.model_validate({"resource": "pods", "creation": False, **watch})
        self.apiserver = Apiserver("service", nowhere(), Limiter(1000))
        self.lag = Lag(time.monotonic(), 0.0)
        log = structlog.get_logger()
        self.home = Timekeeper("main", Bins(), 0.5, lambda: 0.5, log, lambda *_: None, lambda _: None)
        self.track = Track(Bins(), Objective(), time.monotonic(), creation=bool(made.creation))
        self.stream = Stream(
            number=1,
            label="mine",
            watch=made,
            resource=PODS,
            apiserver=self.apiserver,
            creators=lambda: self.apiserver.dating,
            track=self.track,
            home=self.home,
            lag=self.lag,
            random=lambda: 0.5,
            longest_line=MEBIBYTE,
            nudged_in="default",
        )
        self.home.attach(self.stream)

    def tick(self, revision: int) -> None:
        now = time.monotonic()
        self.home._arrived(Reading("events", now - 0.002, now, revision))

    async def join(self, cluster: Cluster) -> None:
        """Becomes a member of the domain."""
        for _ in range(4):
            self.tick(cluster.revision)
            await asyncio.sleep(0.6)
            now = time.monotonic()
            self.home.domain.probe(Reading("pods", now - 0.002, now, cluster.revision))
            await asyncio.sleep(0.1)
        assert self.stream.measured

    def trouble(self) -> str | None:
        return self.stream.trouble

    def unmeasured(self) -> dict[str, int]:
        self.stream.evaluate(time.monotonic(), overloaded=False)
        return {reason: count for reason, count in self.stream.reading().track.unmeasured.items() if count}


@asynccontextmanager
async def open_stream(cluster: Cluster, **watch: Any) -> AsyncIterator[tuple[Parts, Watch]]:
    """A stream that runs, and its watch."""
    parts = Parts(**watch)
    task = asyncio.create_task(parts.stream.run())
    await asyncio.sleep(0.1)
    try:
        yield parts, cluster.watches[0]
        parts.stream.halt(Reason.SHUTDOWN)
        async with asyncio.timeout(0.1):
            await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert not cluster.open_watches()
    assert parts.stream.state is State.HALTED


class TestRun:
    async def test_watches_from_the_revision_of_a_list(self, cluster: Cluster) -> None:
        async with open_stream(cluster) as (parts, watch):
            assert parts.stream.up
            assert parts.stream.started
            assert parts.stream.renewed.is_set()
            assert watch.revision == 100
            assert watch.representation == "table"

    async def test_halted_before_it_runs_asks_nothing(self, cluster: Cluster) -> None:
        parts = Parts()
        parts.stream.halt(Reason.RELOAD)
        await parts.stream.run()
        assert not cluster.asked

    @pytest.mark.parametrize("kind", ["list", "watch"])
    async def test_halts_while_a_request_is_out(self, cluster: Cluster, kind: str) -> None:
        cluster.hanging.add(kind)
        parts = Parts()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(parts.stream.run())
            await asyncio.sleep(10)
            parts.stream.halt(Reason.PAUSED)
        assert parts.stream.state is State.HALTED

    async def test_halts_while_it_waits(self, cluster: Cluster) -> None:
        cluster.fail(Reason.REFUSED)
        parts = Parts()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(parts.stream.run())
            await asyncio.sleep(10)
            asked = len(cluster.asked)
            assert 3 < asked < 8
            parts.stream.halt(Reason.PAUSED)
            await asyncio.sleep(60)
        assert len(cluster.asked) == asked

    async def test_starts_over_after_a_crash(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        parts = Parts()
        task = asyncio.create_task(parts.stream.run())
        await asyncio.sleep(0.1)
        cluster.write(PODS)
        await asyncio.sleep(0.1)
        with monkeypatch.context() as patched:
            patched.setattr("watchslo.monitor.driver.decode", lambda _: 1 / 0)
            cluster.write(PODS)
            with pytest.raises(ExceptionGroup):
                await task
        assert not cluster.open_watches()
        assert parts.stream.state is State.NEW
        parts.stream.start_over()
        parts.stream.halt(Reason.RELOAD)
        await parts.stream.run()
        assert len(cluster.watches) == 1
        assert parts.stream.reading().events["MODIFIED"] == 1

    async def test_what_a_crash_misses_is_a_gap(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        parts = Parts()
        task = asyncio.create_task(parts.stream.run())
        await asyncio.sleep(0.1)
        with monkeypatch.context() as patched:
            patched.setattr("watchslo.monitor.driver.decode", lambda _: 1 / 0)
            cluster.write(PODS)
            with pytest.raises(ExceptionGroup):
                await task
        assert not parts.apiserver.open_streams
        await asyncio.sleep(5.0)
        cluster.write(PODS)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(parts.stream.run())
            await asyncio.sleep(0.1)
            parts.stream.halt(Reason.RELOAD)
        reading = parts.stream.reading()
        assert reading.gap_revisions == 2
        assert reading.gap_seconds == pytest.approx(5.0, abs=0.1)
        assert (reading.relists["start"], reading.relists["errors"]) == (1, 1)

    async def test_resumes_a_watch_that_ends(self, cluster: Cluster) -> None:
        async with open_stream(cluster) as (parts, watch):
            cluster.write(PODS)
            await asyncio.sleep(HEALTHY_SECONDS)
            watch.send()
            await asyncio.sleep(0.1)
            assert cluster.watches[1].revision == 101
            assert not parts.stream.reading().closed
            parts.apiserver.closes.settle(time.monotonic() + SETTLE_SECONDS)
            reading = parts.stream.reading()
            assert reading.closed == {("server", "forced"): 1}
            assert reading.watch_duration.total == 1
            assert reading.watch_open.total == 2

    async def test_a_watch_that_is_closed_while_it_is_behind_was_too_slow(self, cluster: Cluster) -> None:
        async with open_stream(cluster) as (parts, watch):
            await parts.join(cluster)
            late = cluster.revision + 1
            cluster.revision += 1
            for _ in range(4):
                parts.tick(cluster.revision)
                await asyncio.sleep(0.6)
            cluster.send(PODS, line("MODIFIED", late))
            watch.send()
            await asyncio.sleep(0.1)
            parts.apiserver.closes.give_up()
            assert parts.stream.reading().closed == {("server", "slow_consumer"): 1}

    async def test_starts_over_when_the_storage_went_back(self, cluster: Cluster) -> None:
        async with open_stream(cluster) as (parts, _):
            parts.stream.health.lose([500])
            parts.stream.recent.append((time.monotonic(), 500))
            parts.stream.start_over()
            assert not [*parts.stream.newer_than(7)], "what was is no reason to call a peer late"
            assert not parts.stream.up
            assert parts.stream.health.search_from() == 100
            cluster.revision = 7
            await asyncio.sleep(11)
            assert cluster.watches[1].revision == 7
            assert parts.stream.reading().relists["domain_reset"] == 1

    async def test_pages_are_counted(self, cluster: Cluster) -> None:
        async with open_stream(cluster, list="paged") as (parts, _):
            reading = parts.stream.reading()
        assert (reading.list_pages, reading.list_items, reading.list_bytes) == (2, 6, 2000)
        assert reading.list_duration["paged"].total == 1
        assert parts.apiserver.reading(None, watched=True).list_duration["paged"].total == 1

    async def test_falls_back_to_what_the_server_knows(self, cluster: Cluster) -> None:
        cluster.fail(Reason.NOT_ACCEPTABLE, "watch")
        parts = Parts()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(parts.stream.run())
            await asyncio.sleep(0.5)
            assert parts.stream.reading().representation == "metadata"
            await asyncio.sleep(60)
            assert parts.stream.reading().representation == "plain"
            cluster.fail(None, "watch")
            await asyncio.sleep(90)
            assert parts.stream.up
            parts.stream.halt(Reason.RELOAD)


class TestEvents:
    async def test_are_counted_and_measured(self, cluster: Cluster) -> None:
        async with open_stream(cluster) as (parts, _):
            await parts.join(cluster)
            parts.lag.resume(time.monotonic(), 0.0)
            for type_ in ("ADDED", "MODIFIED", "DELETED"):
                cluster.write(PODS, type_)
            await asyncio.sleep(1.1)
            parts.tick(cluster.revision)
            assert parts.unmeasured() == {}
            reading = parts.stream.reading()
        assert reading.track.timespan.total == 3
        assert reading.events == {"ADDED": 1, "MODIFIED": 1, "DELETED": 1, "ERROR": 0}
        assert reading.revision == 103
        assert reading.last_received_wall is not None
        assert reading.bytes > 100

    async def test_are_unmeasured_until_the_domain_is_known(self, cluster: Cluster) -> None:
        async with open_stream(cluster) as (parts, _):
            assert parts.stream.reading().membership == "pending"
            cluster.write(PODS)
            await asyncio.sleep(0.1)
            assert parts.unmeasured() == {"domain": 1}

    async def test_are_unmeasured_if_we_may_have_been_late(self, cluster: Cluster) -> None:
        async with open_stream(cluster) as (parts, _):
            await parts.join(cluster)
            parts.lag.beat(time.monotonic(), 0.0)
            cluster.write(PODS)
            await asyncio.sleep(0.1)
            assert parts.unmeasured() == {"tainted": 1}

    async def test_bookmarks(self, cluster: Cluster) -> None:
        async with open_stream(cluster) as (parts, watch):
            assert parts.stream.reading().bookmark_age is None
            watch.send(line("BOOKMARK", 200))
            await asyncio.sleep(3)
            reading = parts.stream.reading()
        assert reading.bookmarks == 1
        assert reading.bookmark_age == pytest.approx(3)
        assert reading.revision == 200

    async def test_out_of_order_are_counted_and_said_once(self, cluster: Cluster, log: Log) -> None:
        async with open_stream(cluster) as (parts, watch):
            for revision in (50, 60, 70):
                watch.send(line("MODIFIED", revision))
                await asyncio.sleep(0.1)
            assert parts.stream.reading().order_violations == 3
        assert len(log.of("out_of_order")) == 1

    async def test_that_are_none_are_counted(self, cluster: Cluster) -> None:
        async with open_stream(cluster) as (parts, watch):
            watch.send(b"<html>\n" + line("MODIFIED", "abc") + line("RENAMED", 101))
            await asyncio.sleep(0.1)
            assert parts.stream.reading().events["ERROR"] == 2
            assert parts.unmeasured() == {"unparsable": 1}
            assert parts.stream.up

    async def test_expired_on_the_stream(self, cluster: Cluster, log: Log) -> None:
        async with open_stream(cluster) as (parts, watch):
            cluster.revision += 1
            watch.send(ERROR_410 + line("MODIFIED", 101))
            await asyncio.sleep(15)
            reading = parts.stream.reading()
            assert parts.stream.up
        assert reading.expired["stream"] == reading.relists["expired"] == 1
        assert not watch.open
        assert log.of("relist")[0]["reason"] == "expired"

    async def test_a_line_that_never_ends(self, cluster: Cluster) -> None:
        async with open_stream(cluster) as (parts, watch):
            for _ in range(5):
                watch.send(b"x" * (MEBIBYTE // 4))
            await asyncio.sleep(0.1)
            assert parts.stream.reading().closed == {("server", "oversize"): 1}

    async def test_a_line_that_is_cut(self, cluster: Cluster) -> None:
        async with open_stream(cluster) as (parts, watch):
            watch.send(line("MODIFIED", 101)[:20])
            watch.send()
            await asyncio.sleep(0.1)
            assert parts.stream.reading().closed == {("network", "early_eof"): 1}

    async def test_a_list_from_the_past(self, cluster: Cluster) -> None:
        async with open_stream(cluster) as (parts, watch):
            cluster.write(PODS)
            await asyncio.sleep(0.1)
            cluster.revision = 50
            watch.send(ERROR_410)
            await asyncio.sleep(13)
            assert parts.apiserver.reading(None, watched=True).time_travel > 0
            last = parts.stream.reading().last_failure
            assert last
            assert last.reason == "time_travel"

    async def test_a_revision_that_is_no_number(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cluster, "revision_of", lambda _: None)
        parts = Parts()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(parts.stream.run())
            await asyncio.sleep(5)
            assert parts.stream.reading().membership == "unparsable"
            assert parts.stream.started
            parts.stream.halt(Reason.RELOAD)


class TestTrouble:
    async def test_is_said_once_and_over_when_the_watch_stays_open(self, cluster: Cluster, log: Log) -> None:
        async with open_stream(cluster) as (parts, _):
            for _ in range(600):  # it opens and closes, again and again
                cluster.revision += 1
                cluster.send(PODS, ERROR_410)
                await asyncio.sleep(0.2)
                parts.unmeasured()
            assert not log.of("recovered")
            await asyncio.sleep(90)
            assert parts.stream.up
            assert parts.trouble() == "The apiserver no longer has this revision."
            parts.unmeasured()
            assert parts.trouble() is None
            assert parts.stream.reading().last_failure is not None
        assert [entry["reason"] for entry in log.of("watch_closed")] == ["expired", "shutdown"]
        assert log.of("recovered")[0]["failures"] == parts.stream.reading().expired["stream"] > 3

    async def test_lasts_while_a_list_beside_the_watch_fails(self, cluster: Cluster, log: Log) -> None:
        answer = cluster.list_page

        async def refuse_the_rest(*question: Any, **options: Any) -> Page | Failure:
            page = await answer(*question, **options)
            return because(Reason.SERVER_ERROR) if question[3].continue_token else page

        cluster.list_page = refuse_the_rest  # type: ignore[method-assign]
        async with open_stream(cluster, list="parallel") as (parts, _):
            for _ in range(120):
                await asyncio.sleep(5)
                parts.unmeasured()
            assert parts.stream.up
            assert not log.of("recovered")
            assert len(log.of("list_failed")) == 1
            cluster.list_page = answer  # type: ignore[method-assign]
            await asyncio.sleep(90)
            parts.unmeasured()
            assert len(log.of("recovered")) == 1


class TestCreation:
    async def test_is_measured_by_the_apiservers_clock(self, cluster: Cluster) -> None:
        cluster.date_skew = 3600.0
        async with open_stream(cluster, **MEASURES_CREATION) as (parts, _):
            parts.apiserver.peers = 1
            await self.wait(parts, 10)
            cluster.write(PODS, "ADDED", _stamp(cluster.wall() - 2))
            cluster.write(PODS, "MODIFIED", _stamp(cluster.wall()))
            assert (await self.total(parts)) == 1
            creation = parts.stream.reading().track.creation
        assert creation
        assert 0.5 < creation.sum < 4

    @pytest.mark.parametrize("step", [3600.0, -3600.0])
    async def test_is_not_measured_while_the_apiservers_clock_is_set(self, cluster: Cluster, step: float) -> None:
        cluster.date_skew = 0.0
        async with open_stream(cluster, **MEASURES_CREATION) as (parts, _):
            parts.apiserver.peers = 1
            await self.wait(parts, 10)
            cluster.date_skew = step
            cluster.write(PODS, "ADDED", _stamp(cluster.wall()))
            assert (await self.total(parts)) == 0
            cluster.write(PODS, "ADDED", _stamp(cluster.wall() - step))  # of before
            assert (await self.total(parts)) == 0
            await self.wait(parts, 3600)
            cluster.write(PODS, "ADDED", _stamp(cluster.wall()))
            assert (await self.total(parts)) == 1

    async def wait(self, parts: Parts, seconds: float) -> None:
        """We are never late meanwhile."""
        await asyncio.sleep(seconds)
        parts.lag.resume(time.monotonic(), 0.0)

    async def total(self, parts: Parts) -> int:
        """How many creations have been measured, once the apiserver's clock has been looked at again."""
        await self.wait(parts, 60)
        await parts.apiserver.client.read_nothing(PODS, "default", "tick")
        parts.unmeasured()
        creation = parts.stream.reading().track.creation
        assert creation
        return creation.total

    @pytest.mark.parametrize("peers", [None, 3])
    async def test_is_not_measured_where_others_may_stamp(self, cluster: Cluster, peers: int | None) -> None:
        cluster.date_skew = 0.0
        async with open_stream(cluster, **MEASURES_CREATION) as (parts, _):
            parts.apiserver.peers = peers
            cluster.write(PODS, "ADDED", _stamp(time.time()))
            await asyncio.sleep(0.1)
            parts.unmeasured()
            creation = parts.stream.reading().track.creation
            assert (parts.apiserver.reading(None, watched=True).offset is None) == (peers == 3)
        assert creation
        assert creation.total == 0

    @pytest.mark.parametrize("created", ["yesterday", "2024-13-01T00:00:00Z", "9999999-01-01T00:00:00Z", "2024-01-01"])
    async def test_a_timestamp_that_is_none_is_passed_over(self, cluster: Cluster, created: str) -> None:
        cluster.date_skew = 0.0
        async with open_stream(cluster, **MEASURES_CREATION) as (parts, watch):
            parts.apiserver.peers = 1
            cluster.write(PODS, "ADDED", created)
            await asyncio.sleep(0.1)
            assert watch.open
            assert parts.unmeasured() == {"domain": 1}


def _stamp(wall: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(wall))
