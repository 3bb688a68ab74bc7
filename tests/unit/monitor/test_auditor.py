"""The auditor against a cluster in memory: withheld events are found in time, and idle watches raise no alarm."""

import asyncio
import itertools
import json
import random
import time
from collections.abc import Sequence
from typing import Any, cast

import pytest

from tests.unit.monitor.auditing import (
    HOUR_SECONDS,
    REOPENING_SECONDS,
    Audits,
    FakeWatch,
    Past,
    busy,
    cluster_of,
    when,
)
from tests.unit.monitor.cluster import EVENTS, GONE, NODES, PODS, Log, error, line
from watchslo.clock.tick_schedule import SLOWEST_SECONDS
from watchslo.model import Reading, Resource
from watchslo.monitor.checks.short_watches import MOST_EVENTS
from watchslo.watch.audit import (
    BUSY_INTERVAL_SECONDS,
    DETECTION_SECONDS,
    AuditResult,
    detection_seconds,
)
from watchslo.watch.failure import Failure, Reason
from watchslo.watch.lines import DEFAULT_LIMIT_BYTES
from watchslo.watch.proven_idle import REACH_SECONDS

SEEDS = range(20)
HEALTHY_SECONDS = 4 * BUSY_INTERVAL_SECONDS  # in which each busy watch is searched for lost events four times
UNWELL = (AuditResult.FROZEN, AuditResult.STALLED, AuditResult.LOST)


def many(count: int) -> list[Resource]:
    return [Resource("tests.invalid", "v1", f"things{number}", namespaced=True) for number in range(count)]


async def stalled(stream: FakeWatch) -> float:
    return await when(lambda: stream.stalled)


async def seconds_until_stalled(past: Past, stream: FakeWatch) -> float:
    """Commit a change, and return after how many seconds its watch is known to be stalled."""
    committed = time.monotonic()
    past.commit(stream.resource)
    return await stalled(stream) - committed


async def over(stream: FakeWatch) -> float:
    return await when(lambda: not stream.stalled)


# No false alarm


async def test_crash_of_one_audit_ends_no_other(log: Log) -> None:
    past = Past(PODS, NODES)
    past.streams[0].observe = None  # type: ignore[assignment, method-assign]
    async with Audits(past) as audits:
        await audits.until(AuditResult.IDLE)
        await audits.until(AuditResult.IDLE)
        assert past.streams[1].reads
    assert {crash["task"] for crash in log.of("task_crashed")} == {"('audits', 1)"}


@pytest.mark.parametrize("seed", range(2))
async def test_timely_events_raise_no_alarm(seed: int) -> None:
    """Rare or frequent events, up to 1.5 s late: no stall, and nothing lost."""
    chance, past = random.Random(seed), Past(*many(6))
    loop = asyncio.get_running_loop()

    def deliver(stream: FakeWatch, revision: int) -> None:
        stream.backlog.append(revision)
        stream.deliver()

    for stream in past.streams:  # each late by a time of its own, in order
        late = chance.uniform(0.0, 1.5)
        stream.commit = lambda revision, stream=stream, late=late: loop.call_later(late, deliver, stream, revision)  # type: ignore[method-assign,misc,assignment]
    async with Audits(past, seed) as audits:
        until = time.monotonic() + HEALTHY_SECONDS
        while time.monotonic() < until:
            await asyncio.sleep(chance.expovariate(chance.choice((0.05, 0.5, 5.0))))
            past.commit(chance.choice(past.streams).resource)
        assert not audits.found & set(UNWELL)
        assert audits.verdicts[AuditResult.ALIVE]
        assert not audits.verdicts[AuditResult.FAILED]
    assert not any(stream.health.stalls or stream.violated for stream in past.streams)


# Stalls


async def write(past: Past, chance: random.Random) -> None:
    while True:
        await asyncio.sleep(chance.uniform(0.5, 8.0))
        past.commit()


@pytest.mark.parametrize("seed", SEEDS)
async def test_dead_watch_is_reopened_and_delivers_everything(seed: int, log: Log) -> None:
    chance = random.Random(seed)
    past, stream = cluster_of(*many(7), PODS)
    async with Audits(past, seed) as audits:
        await asyncio.sleep(chance.uniform(0.0, 60.0))
        past.commit()
        await asyncio.sleep(chance.uniform(0.0, 20.0))
        stream.stuck = True
        writing = asyncio.create_task(write(past, chance))
        assert await seconds_until_stalled(past, stream) <= DETECTION_SECONDS
        assert await over(stream) - stream.reopened[0] <= REOPENING_SECONDS + 0.1
        writing.cancel()
        assert stream.revision == past.revision
        await asyncio.sleep(60.0)
        assert audits.verdicts[AuditResult.STALLED] == 1
        assert stream.health.verdict is AuditResult.IDLE
    assert (stream.health.stalls, stream.violated, len(stream.reopened)) == (1, {}, 1)
    assert log.of("watch_stalled") == [{"event": "watch_stalled", "watch": stream.label, "verdict": "stalled"}]
    assert [entry["watch"] for entry in log.of("stall_over")] == [stream.label]


# Frozen caches


@pytest.mark.parametrize("seed", SEEDS)
async def test_frozen_cache_is_found_and_its_end_too(seed: int, log: Log) -> None:
    chance = random.Random(seed)
    past, stream = cluster_of(*many(7), PODS)
    async with Audits(past, seed) as audits:
        await asyncio.sleep(chance.uniform(0.0, 60.0))
        past.freeze(PODS)
        await asyncio.sleep(chance.uniform(0.0, 3.0))
        assert await seconds_until_stalled(past, stream) <= DETECTION_SECONDS
        assert stream.health.stalled_for(time.monotonic(), stream.revision) == pytest.approx(11.0, abs=0.2)
        await asyncio.sleep(40.0)
        past.thaw(PODS)
        thawed = time.monotonic()
        assert await over(stream) - thawed <= DETECTION_SECONDS
        assert not audits.found & {AuditResult.STALLED, AuditResult.FAILED}
    assert stream.health.stalls == 1
    assert not stream.reopened
    assert not any(other.health.stalls for other in past.streams[:-1])
    assert [entry["verdict"] for entry in log.of("watch_stalled")] == ["frozen"]
    await asyncio.sleep(0.0)


async def test_many_quiet_watches_are_audited_within_the_stated_time() -> None:
    past = Past(*many(80), PODS)
    promised = detection_seconds(len(past.streams), 1.0)
    assert promised
    async with Audits(past, budget=1.0):
        await asyncio.sleep(100.0)
        past.freeze(PODS)
        assert await seconds_until_stalled(past, past.streams[-1]) <= promised


async def keep_hearing(stream: FakeWatch, seconds: int) -> None:
    """Let a watch be heard each second, so that it is audited as a busy one."""
    for _ in range(seconds):
        stream.last_heard = time.monotonic()
        await asyncio.sleep(1.0)


def with_a_past() -> tuple[Past, FakeWatch]:
    """Return a cluster with 300 changes of pods, and a watch that reads them again."""
    past, stream = cluster_of(PODS)
    stream.replay = True
    for _ in range(300):
        past.commit()
    return past, stream


async def keep_marking(past: Past, stream: FakeWatch) -> None:
    """Bring a bookmark every minute, of a revision that a tick dated half a minute before, until the watch is stuck."""
    while not stream.stuck:
        past.revision += 50  # of other resources
        stream.mark(past.revision)
        stream.complete_until = time.monotonic() - 30.0
        await asyncio.sleep(60.0)


@pytest.mark.parametrize(
    ("budget", "unproven", "least", "most"), [(0.01, None, 5, 8), (0.01, "kine", 25, 37), (0.5, None, 240, 330)]
)
async def test_bookmarks_replace_audits_only_where_audits_are_rare(
    budget: float, unproven: str | None, least: int, most: int
) -> None:
    past = Past(PODS)
    past.apiserver.unproven = unproven
    async with Audits(past, budget=budget) as audits:
        marking = asyncio.create_task(keep_marking(past, past.streams[0]))
        await asyncio.sleep(HOUR_SECONDS)
        marking.cancel()
        assert least <= audits.verdicts.total() <= most
        assert audits.auditor.quiet <= 1


@pytest.mark.parametrize("seed", range(5))
async def test_stall_is_found_within_the_stated_time_though_bookmarks_came(seed: int) -> None:
    past = Past(PODS)
    (stream,) = past.streams
    promised = detection_seconds(1, 0.01)
    assert promised
    async with Audits(past, seed, budget=0.01):
        marking = asyncio.create_task(keep_marking(past, stream))
        await asyncio.sleep(1000.0 + 17.0 * seed)
        stream.stuck = True
        assert await seconds_until_stalled(past, stream) <= promised
        marking.cancel()


# Where audits begin


def uncached() -> tuple[Past, FakeWatch]:
    """Return a cluster with one watch of a resource without a watch cache, dated by two ticks a second."""
    past = Past(EVENTS)
    past.apiserver.version = "v1.30.14"
    past.streams[0].ticked = past.ticked
    return past, past.streams[0]


async def test_restored_storage_is_audited_from_its_revision() -> None:
    """A second watch from a revision of the future would show nothing until that is reached."""
    past, stream = uncached()
    async with Audits(past, changing=NODES) as audits:
        await asyncio.sleep(60.0)
        past.revision -= 200
        stream.revision = past.revision
        del past.times[-200:]
        await asyncio.sleep(15.0)
        audits.auditor.forget_revisions(cast("Any", stream))
        stream.stuck = True
        past.commit(EVENTS)
        await audits.until(AuditResult.STALLED)


async def test_search_of_an_uncached_watch_does_not_begin_far_in_the_past() -> None:
    past, stream = uncached()
    async with Audits(past, changing=NODES) as audits:
        for _ in range(300):
            past.commit(EVENTS)
            await asyncio.sleep(4.0)
        assert audits.verdicts[AuditResult.ALIVE] >= 2
        since = past.changes[EVENTS.key][0]
        asked = len(past.since)
        assert await audits.auditor.replay(cast("Any", stream), [since]) is None
        assert len(past.since) == asked
        stream.ticked = lambda _: None
        await asyncio.sleep(1.0)
        assert audits.auditor._search_from(cast("Any", stream)) == stream.revision
    assert max(past.past_seconds) < REACH_SECONDS + 1.0


# Failed audits


@pytest.mark.parametrize("reason", [Reason.FORBIDDEN, Reason.THROTTLED, Reason.REFUSED, Reason.RESET, Reason.TIMEOUT])
@pytest.mark.parametrize("kind", ["nudge", "audit"])
async def test_failed_audits_prove_nothing(kind: str, reason: Reason) -> None:
    past = Past(PODS)
    past.ticking = False
    past.streams[0].stuck = True
    past.commit()
    past.fail(reason, kind)
    async with Audits(past) as audits:
        await asyncio.sleep(60.0)
        expected = AuditResult.FORBIDDEN if reason is Reason.FORBIDDEN else AuditResult.FAILED
        assert audits.found == {expected}
        past.fail(None, kind)
        await audits.until(AuditResult.STALLED)


# Overloaded apiservers


@pytest.mark.parametrize("reason", [Reason.THROTTLED, Reason.SERVER_ERROR, Reason.REFUSED])
@pytest.mark.parametrize("kind", ["nudge", "audit"])
async def test_overloaded_apiserver_is_audited_less_often(kind: str, reason: Reason) -> None:
    """At 2 audits a second it would get 240 requests in two minutes, as many as a healthy apiserver."""
    past = Past(*many(40))
    past.fail(reason, kind)
    async with Audits(past) as audits:
        await asyncio.sleep(60.0)
        before = past.count("nudge")
        await asyncio.sleep(120.0)
        assert (
            120.0 / (1.5 * SLOWEST_SECONDS) - 1 <= past.count("nudge") - before <= 120.0 / (0.5 * SLOWEST_SECONDS) + 1
        )
        past.fail(None, kind)
        await asyncio.sleep(2 * 1.5 * SLOWEST_SECONDS)
        assert AuditResult.IDLE in audits.found
        before = past.count("nudge")
        await asyncio.sleep(60.0)
        assert past.count("nudge") - before >= 110


@pytest.mark.parametrize("reason", [Reason.FORBIDDEN, Reason.NOT_FOUND, Reason.EXPIRED])
async def test_unavailable_resource_does_not_delay_other_audits(reason: Reason) -> None:
    past = Past(*many(39), PODS)
    past.fail(reason, "*", PODS.key)
    past.freeze(past.streams[0].resource)
    async with Audits(past):
        await asyncio.sleep(120.0)
        assert past.count("nudge") >= 220


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"said": GONE}, AuditResult.FAILED),
        ({"silent": True}, AuditResult.FAILED),
        ({"said": b"x" * (DEFAULT_LIMIT_BYTES + 1)}, AuditResult.FAILED),
        ({"said": b""}, AuditResult.IDLE),
        ({"said": b"garbage\n"}, AuditResult.IDLE),
        ({"said": json.dumps({"type": "BOOKMARK"}).encode()}, AuditResult.IDLE),
        ({"said": line("BOOKMARK", 900) + line("MODIFIED", "unparsable")}, AuditResult.IDLE),
    ],
    ids=[
        "expired",
        "no answer",
        "endless line",
        "nothing",
        "garbage",
        "empty bookmark",
        "bookmark and unparsable event",
    ],
)
async def test_audit_with_an_answer_without_events_is_idle_or_failed(
    changed: dict[str, object], found: AuditResult
) -> None:
    past = Past(PODS)
    for name, value in changed.items():
        setattr(past, name, value)
    async with Audits(past) as audits:
        await asyncio.sleep(120.0)
        assert audits.found == {found}
        assert audits.verdicts[found] >= 6


# Lost events


async def test_event_that_only_one_audit_shows_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    past, stream = cluster_of(PODS)
    async with Audits(past) as audits:
        await busy(past, 30.0)
        past.lose()
        invented = past.changes[PODS.key].pop()
        shown = [invented]

        def changes(_: Resource, after: int) -> list[int]:
            return sorted(one for one in [*past.changes[PODS.key], *(shown and [shown.pop()])] if one > after)

        monkeypatch.setattr(past, "shown", changes)
        await busy(past, 2 * BUSY_INTERVAL_SECONDS)
        assert not shown
        assert audits.found == {AuditResult.ALIVE}
    assert not stream.violated


async def test_lost_event_whose_confirmation_fails_is_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    past, stream = cluster_of(PODS)
    async with Audits(past) as audits:
        await busy(past, 30.0)
        past.lose()
        replay = audits.auditor.replay
        failing = [None]

        async def fail_once(*arguments: Any) -> Sequence[int] | None:
            return failing.pop() if failing else await replay(*arguments)

        monkeypatch.setattr(audits.auditor, "replay", fail_once)
        await busy(past, 3 * BUSY_INTERVAL_SECONDS)
        assert not failing
    assert stream.violated == {"reliable": 1}


@pytest.mark.parametrize("calm", [False, True])
async def test_each_event_is_read_a_second_time_where_that_is_wanted(calm: bool) -> None:  # noqa: FBT001
    """Also of a watch that is quiet most of the time."""
    past, stream = cluster_of(PODS)
    async with Audits(past, replays=True) as audits:
        for number in range(60):
            await busy(past, 5.0)
            if number == 20:
                lost = past.lose()
            await asyncio.sleep(20.0 if calm else 0.0)
        await asyncio.sleep(30.0)
        assert audits.found <= {AuditResult.ALIVE, AuditResult.LOST, AuditResult.IDLE}
    reading = stream.guarantees.reading(0)
    assert stream.violated == {"reliable": 1}
    assert reading.checked["reliable"] == len(past.changes[PODS.key])
    assert stream.health._lost[0] == lost


async def test_events_after_a_compaction_are_read_a_second_time() -> None:
    """Of a resource without a watch cache: the 410 does not say where the storage begins now."""
    past, stream = cluster_of(PODS)
    async with Audits(past, replays=True):
        await busy(past, 30.0)
        before = stream.guarantees.reading(0).checked["reliable"]
        past.revision += 1000
        past.compacted = past.revision
        await busy(past, 30.0)
        await asyncio.sleep(30.0)
    assert stream.guarantees.reading(0).checked["reliable"] >= before + 30
    assert not stream.violated


async def test_second_watch_that_ends_too_early_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    past = Past(PODS)
    stream = cast("Any", past.streams[0])
    async with Audits(past) as audits:
        revisions = [past.commit() for _ in range(50)]
        assert await audits.auditor.replay(stream, revisions[30:32]) == revisions[30:32]
        shown = past.shown
        monkeypatch.setattr(past, "shown", lambda *arguments: [one for one in shown(*arguments) if one < revisions[20]])
        assert await audits.auditor.replay(stream, revisions[30:32]) is None


async def test_event_that_each_watch_skips_at_its_start_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Second watches skip their first event too."""
    past, stream = cluster_of(PODS)
    async with Audits(past, replays=True) as audits:
        await busy(past, 30.0)
        stream.close()
        lost = past.commit()
        stream.backlog.clear()
        stream.open()
        shown = past.shown

        def all_but_the_first(resource: Resource, after: int) -> Sequence[int]:
            return shown(resource, after)[1:]

        monkeypatch.setattr(past, "shown", all_but_the_first)
        await busy(past, 60.0)
        assert audits.found == {AuditResult.ALIVE, AuditResult.LOST}
    assert stream.violated == {"resumable": 1}
    assert stream.health._lost[0] == lost


async def test_search_is_limited_to_most_events() -> None:
    past = Past(PODS)
    past.commit()
    async with Audits(past) as audits:
        past.said = b"".join(line("MODIFIED", revision) for revision in range(101, 101 + 2 * MOST_EVENTS))
        past.streams[0].health.delivered.extend(range(102, 101 + 2 * MOST_EVENTS))
        past.streams[0].revision = 100 + 2 * MOST_EVENTS
        while not audits.found:
            past.streams[0].last_heard = time.monotonic()
            await asyncio.sleep(1.0)
        assert audits.found == {AuditResult.ALIVE}


# Bookmarks


async def test_bookmark_that_one_read_contradicts_is_none_of_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member of etcd was behind."""
    past = Past(PODS)
    past.streams[0].mark(past.revision + 7)
    read = past.read_nothing

    async def read_and_catch_up(*arguments: Any) -> Reading | Failure:
        answer = await read(*arguments)
        past.revision = max(past.revision, past.streams[0].revision or 0)
        return answer

    monkeypatch.setattr(past, "read_nothing", read_and_catch_up)
    async with Audits(past):
        await asyncio.sleep(60.0)
    assert not past.streams[0].violated


# What the storage no longer has


async def test_second_watch_begins_later_if_the_earlier_event_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    past, stream = cluster_of(PODS)
    async with Audits(past, replays=True):
        await busy(past, 20.0)
        stream.close()
        stream.open()
        floor, said = past.revision, past.shown

        def expired(resource: Resource, after: int) -> Sequence[int]:
            past.said = GONE if after < floor else None
            return said(resource, after)

        monkeypatch.setattr(past, "shown", expired)
        past.commit()
        past.commit()
        stream.delivered._revisions.pop()
        await busy(past, 60.0)
    assert stream.violated == {"reliable": 1}


@pytest.mark.parametrize("named", [True, False])
async def test_past_that_the_apiserver_drops_is_searched_from_the_oldest_revision_in_reach(
    named: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a 410 does not name it, the last events of one search are searched."""
    monkeypatch.setattr("watchslo.monitor.checks.auditor.MOST_EVENTS", 200)
    past, stream = with_a_past()
    oldest, shown = past.revision - 250, past.shown
    message = f"too old resource version: 1 ({oldest})" if named else "too old"

    def expired(resource: Resource, after: int) -> Sequence[int]:
        past.said = error(410, "Expired", message) if after < oldest else None
        return shown(resource, after)

    monkeypatch.setattr(past, "shown", expired)
    async with Audits(past, replays=True):
        await busy(past, 60.0)
    assert stream.violated == {}
    compared = stream.guarantees.reading(0).checked["reliable"]
    assert compared >= len(past.changes[PODS.key]) - (50 if named else 110) - 50
    assert compared <= len(past.changes[PODS.key]) - 50


async def test_second_watch_that_ends_before_it_has_shown_all_continues_there(monkeypatch: pytest.MonkeyPatch) -> None:
    past, stream = with_a_past()
    shown = past.shown
    monkeypatch.setattr(past, "shown", lambda resource, after: shown(resource, after)[:100])
    async with Audits(past, replays=True):
        await keep_hearing(stream, 60)
    assert stream.guarantees.reading(0).checked["reliable"] == 300


async def test_oldest_revision_that_expires_before_the_search_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look drops the oldest event, as a busy cache does."""
    past, stream = with_a_past()
    oldest, shown = itertools.count(past.revision - 250), past.shown

    def expired(resource: Resource, after: int) -> Sequence[int]:
        now = next(oldest)
        past.said = error(410, "Expired", f"too old resource version: 1 ({now})") if after < now else None
        return shown(resource, after)

    monkeypatch.setattr(past, "shown", expired)
    async with Audits(past, replays=True):
        await keep_hearing(stream, 30)
    assert stream.guarantees.reading(0).checked["reliable"] >= 240
