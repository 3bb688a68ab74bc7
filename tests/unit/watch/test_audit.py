"""Audits: an idle watch is never stalled, a watch that withholds events always is, and each stall is found in time."""

import random
from collections.abc import Callable
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchslo.model import Reading
from watchslo.snapshot import Guarantee
from watchslo.watch.audit import (
    CONFIRM_SECONDS,
    DELIVERED,
    DETECTION_SECONDS,
    FORGOTTEN,
    FROZEN_SECONDS,
    LEAST_DELIVERED,
    LOOK_BACK,
    NUDGE_SECONDS,
    QUIET_INTERVAL_SECONDS,
    QUIET_SECONDS,
    REOPEN_BASE_SECONDS,
    REOPEN_CAP_SECONDS,
    REPLAYED,
    SLOW_SECONDS,
    WITHHELD,
    AuditEvidence,
    AuditResult,
    Delivered,
    Findings,
    Freshness,
    Health,
    Nudged,
    Schedule,
    compare,
    detection_seconds,
    judge,
    judge_nudge,
    lists_prove_cache,
    others_answer,
    slot_seconds,
)
from watchslo.watch.failure import Reason, because
from watchslo.watch.messages import Violated

NOTHING = Findings()


def tick(resource: str = "events", sent: float = 10.0, took: float = 0.002) -> Reading:
    return Reading(resource, sent, sent + took, 1)


def half() -> float:
    return 0.5


def delivered(floor: int, *revisions: int) -> Delivered:
    made = Delivered()
    made.begin(floor)
    made.extend(revisions)
    return made


# Nudges


@pytest.mark.parametrize(
    ("answer", "nudged"),
    [
        (tick(took=0.002), Nudged.PROMPT),
        (tick(took=SLOW_SECONDS - 0.1), Nudged.PROMPT),
        (tick(took=SLOW_SECONDS), Nudged.SLOW),
        (because(Reason.TIMEOUT), Nudged.SLOW),
        (because(Reason.SERVER_ERROR), Nudged.SLOW),
        (because(Reason.FUTURE_REVISION), Nudged.SLOW),
        (because(Reason.FORBIDDEN), Nudged.FAILED),
        (because(Reason.THROTTLED), Nudged.FAILED),
        (because(Reason.REFUSED), Nudged.FAILED),
        (because(Reason.RESET), Nudged.FAILED),
    ],
)
def test_judge_nudge_only_slow_answers_suggest_frozen_cache(answer: Reading, nudged: Nudged) -> None:
    assert judge_nudge(answer) is nudged


def test_others_answer_needs_a_later_prompt_read_of_another_resource() -> None:
    assert others_answer([tick()], "pods", 10.0)
    assert others_answer([tick("pods"), tick("nodes")], "pods", 10.0)
    assert not others_answer([], "pods", 10.0)
    assert not others_answer([tick("pods")], "pods", 10.0)
    assert not others_answer([tick(sent=9.9)], "pods", 10.0)
    assert not others_answer([tick(took=1.0)], "pods", 10.0)


@pytest.mark.parametrize(
    ("version", "proves"),
    [
        ("v1.36.3", True),
        ("v1.31.0-alpha.1", True),
        ("v1.31", True),
        ("v2.0.0", True),
        ("v1.30.14", False),
        ("v1.9.1", False),
        ("v1.30.14+k3s1", False),
        ("1.33.2", True),
        ("v1.31+", False),
        ("unknown", False),
        ("", False),
        (None, False),
    ],
)
def test_lists_prove_cache_since_version_1_31(version: str | None, proves: object) -> None:
    assert lists_prove_cache(version) is proves


# Delivered revisions


def test_replay_remembers_the_whole_past_of_a_watch_cache() -> None:
    ring = Delivered(replay=True)
    ring.begin(10)
    ring.extend(range(11, 11 + REPLAYED))
    ring.forget(10 + REPLAYED)
    assert ring.has(11)
    ring.extend(range(11 + REPLAYED, 11 + REPLAYED + FORGOTTEN))
    assert ring.has(11) is None
    assert ring.has(11 + FORGOTTEN)


def test_after_returns_the_last_of_the_next_revisions() -> None:
    ring = delivered(10, 12, 15, 19)
    assert [ring.after(10, 1), ring.after(12, 2), ring.after(12, 3)] == [12, 19, None]


def test_delivered_before_the_watch_is_unknown() -> None:
    ring = delivered(10, 12, 15)
    assert [ring.has(revision) for revision in (9, 10, 11, 12, 13, 15, 16)] == [
        None,
        None,
        False,
        True,
        False,
        True,
        False,
    ]


def test_delivered_remembers_a_limited_number_of_revisions() -> None:
    ring = delivered(0, *range(1, DELIVERED + FORGOTTEN))
    assert ring.has(1) is True
    ring.extend([DELIVERED + FORGOTTEN])
    assert ring.has(1) is None


def test_delivered_forgets_old_revisions_beyond_the_least_number() -> None:
    ring = delivered(0, *range(1, LEAST_DELIVERED + FORGOTTEN))
    ring.forget(LEAST_DELIVERED)
    assert ring.has(1) is True, "there are not enough newer ones"
    ring.extend([LEAST_DELIVERED + FORGOTTEN])
    ring.forget(FORGOTTEN)
    assert ring.has(1) is True, "not all of them are old"
    ring.forget(FORGOTTEN + 1)
    assert ring.has(FORGOTTEN) is None
    assert ring.has(FORGOTTEN + 1) is True
    assert ring.before(LEAST_DELIVERED) == FORGOTTEN


def test_delivered_between_returns_the_revisions_after_one_and_up_to_another() -> None:
    ring = delivered(10, 12, 15, 15, 19)
    assert [*ring.between(12, 19)] == [15, 15, 19]
    assert [*ring.between(0, 14)] == [12]
    assert [*ring.between(19, 30)] == []


def test_delivered_first_is_that_of_the_epoch() -> None:
    ring = delivered(10)
    firsts = [ring.first]
    for batch in ([12, 15], [16]):
        ring.extend(batch)
        firsts.append(ring.first)
    ring.begin(16)
    assert [*firsts, ring.first] == [None, 12, 12, None]


def test_delivered_start_before_shows_a_known_event_first() -> None:
    ring = delivered(10)
    assert ring.start_before(12) == 12
    ring.extend([12, 15])
    assert [ring.start_before(revision) for revision in (10, 11, 12, 14, 15, 20)] == [10, 11, 11, 11, 14, 14]
    ring.begin(20)
    assert ring.start_before(20) == 14
    ring.begin(25)
    assert ring.start_before(25) == 14
    ring.extend([27])
    ring.begin(30, listed=True)
    assert ring.start_before(30) == 30, "what was before the list may be out of reach"
    ring.begin(3)  # the storage was restored
    assert ring.start_before(3) == 3


@pytest.mark.parametrize("by_bookmark", [False, True])
def test_delivered_after_an_unreadable_line_is_known_from_the_next_one(by_bookmark: bool) -> None:  # noqa: FBT001
    ring = delivered(10, 12)
    ring.begin_later()
    assert [ring.has(revision) for revision in (12, 13, 1000)] == [None] * 3
    assert [*ring.between(0, 1000)] == []
    if by_bookmark:
        ring.mark(20)
    else:
        ring.extend([20, 22])
    assert [ring.has(revision) for revision in (13, 20)] == [None, None]
    assert ring.has(22) is (not by_bookmark)
    ring.mark(30)
    assert ring.has(25) is False


def test_delivered_begin_starts_an_empty_epoch() -> None:
    ring = delivered(10, 12)
    epoch = ring.epoch
    ring.begin(12)
    assert ring.epoch != epoch
    assert ring.has(12) is None
    assert ring.has(13) is False


@settings(max_examples=20)
@given(st.lists(st.integers(1, 3 * DELIVERED), min_size=1, max_size=4), st.integers(1, 3))
def test_delivered_drops_the_oldest_and_reports_them_unknown(sizes: list[int], step: int) -> None:
    ring, newest = delivered(0), 0
    for size in sizes:
        batch = range(newest + step, newest + step * size + 1, step)
        newest = batch[-1]
        ring.extend(batch)
    kept = len(ring._revisions)
    assert min(newest // step, DELIVERED) <= kept < DELIVERED + FORGOTTEN
    oldest = newest - step * (kept - 1)
    assert ring.before(kept - 1) == oldest or kept == 1
    assert ring.before(kept) == oldest - step
    assert ring.has(oldest - step) is None
    assert ring.has(oldest) is True
    assert ring.has(newest) is True
    assert ring.has(newest + 1) is False


def test_delivered_before_returns_start_of_last_revisions() -> None:
    assert delivered(10).before(2) == 10
    assert delivered(10, 12, 15).before(2) == 10
    assert delivered(10, 12, 15, 19).before(2) == 12


# Missing revisions


@given(st.sets(st.integers(1, 60)), st.integers(0, 60), st.data())
def test_compare_finds_all_withheld_and_only_skipped_as_lost(
    committed: set[int], floor: int, data: st.DataObject
) -> None:
    """The watch delivers its events up to some revision, except lost ones; the audit sees any part of all events."""
    newest = data.draw(st.integers(floor, 61))
    after_floor = {revision for revision in committed if floor < revision}
    lost = data.draw(st.sets(st.sampled_from(sorted(after_floor) or [0])))
    brought = sorted(revision for revision in after_floor - lost if revision <= newest)
    seen = data.draw(st.sets(st.sampled_from(sorted(committed) or [0]))) & committed
    found = compare(seen, delivered(floor, *brought), newest)
    assert set(found.withheld) == {revision for revision in seen if revision > newest}
    assert set(found.lost) == {revision for revision in seen & lost if revision <= newest}


@pytest.mark.parametrize(
    ("missing", "found"), [(4, Findings(lost=(4,))), (5, Findings(lost=(5,))), (6, Findings(withheld=(6,)))]
)
def test_compare_revision_up_to_a_bookmark_is_lost(missing: int, found: Findings) -> None:
    assert compare([missing], delivered(3), newest=5) == found


@given(st.lists(st.sampled_from("caso"), max_size=60), st.sampled_from(Freshness))
def test_judge_watch_that_delivers_in_time_is_never_stalled(happens: list[str], freshness: Freshness) -> None:
    """Interleave commits (c), events of the audit (a), events of the watch (s), and new openings (o) in any order.

    Each watch brings all events in their order, and the watch has delivered all of them after the grace.
    """
    committed, streamed, audited = 0, 0, 0
    ring, seen = delivered(0), []
    for happened in happens:
        if happened == "c":
            committed += 1
        elif happened == "a" and audited < committed:
            audited += 1
            seen.append(audited)
        elif happened == "s" and streamed < committed:
            streamed += 1
            ring.extend([streamed])
        elif happened == "o":
            ring.begin(streamed)
    ring.extend(range(streamed + 1, committed + 1))
    found = compare(seen, ring, committed)
    assert found == NOTHING
    verdict = judge(AuditEvidence(freshness, complete=True, moved=bool(seen), delivered=bool(seen), findings=found))
    assert verdict not in (AuditResult.STALLED, AuditResult.LOST)
    assert (verdict is AuditResult.IDLE) == (freshness is Freshness.FRESH and not seen)


# Verdicts


def test_judge_every_combination_of_evidence() -> None:
    withheld, lost = Findings(withheld=(5,)), Findings(lost=(4,))
    nothing, bookmark, event = (False, False), (True, False), (True, True)
    for freshness, complete, (moved, delivered), findings in product(
        Freshness, (False, True), (nothing, bookmark, event), (NOTHING, withheld, lost, Findings((5,), (4,)))
    ):
        verdict = judge(AuditEvidence(freshness, complete, moved, delivered, findings))
        if freshness is Freshness.FROZEN:
            assert verdict is (AuditResult.ALIVE if moved else AuditResult.FROZEN)
        elif not complete:
            assert verdict is AuditResult.FAILED
        elif findings.withheld:
            assert verdict is AuditResult.STALLED
        elif findings.lost:
            assert verdict is AuditResult.LOST
        elif delivered or (moved and freshness is not Freshness.FRESH):
            assert verdict is AuditResult.ALIVE
        else:
            assert (verdict is AuditResult.IDLE) == (freshness is Freshness.FRESH)
            assert (verdict is AuditResult.UNPROVEN) == (freshness is Freshness.UNPROVEN)


# The health of one watch


def test_health_of_new_watch_has_no_stall() -> None:
    health = Health(half)
    assert not health.verdict
    assert health.withheld(10.0, 5) == []
    assert health.stalled_for(10.0, 5) is None
    assert health.stalled_for(10.0, None) is None
    assert health.search_from() == 0
    health.found(AuditResult.IDLE)
    assert (health.verdict, health.stalls) == (AuditResult.IDLE, 0)


def test_stall_lasts_until_withheld_revisions_are_passed() -> None:
    health = Health(half)
    assert health.stalled([(8, 95.0), (7, 93.0)], 5, 100.0)
    assert health.verdict is AuditResult.STALLED
    assert health.withheld(103.0, 5) == [10.0, 8.0]
    assert health.stalled_for(103.0, 5) == 10.0
    assert health.withheld(103.0, 7) == [8.0]
    assert health.stalled_for(104.0, 8) is None
    assert health.stalls == 1


def test_stall_is_counted_once_and_reopened_at_growing_intervals() -> None:
    health, now, reopened = Health(half), 100.0, []
    for _ in range(400):
        if health.stalled([(8, 95.0)], 5, now):
            reopened.append(now)
        now += 1.0
    gaps = [later - earlier for earlier, later in pairwise(reopened)]
    assert health.stalls == 1
    assert gaps[0] >= REOPEN_BASE_SECONDS
    assert all(later > 1.5 * earlier for earlier, later in pairwise(gaps))
    assert len(gaps) >= 3


def test_long_stall_is_reopened_every_few_minutes() -> None:
    health = Health(half)
    reopened = [now for now in range(4000) if health.stalled([(8, 0.0)], 5, float(now))]
    assert reopened[:2] == [0, 23]  # 22.5 s later
    assert reopened[-1] - reopened[-2] == 1.5 * REOPEN_CAP_SECONDS
    assert health.stalled([(8, 0.0)], 5, reopened[-1] + 1.5 * REOPEN_CAP_SECONDS)


@pytest.mark.parametrize(("healthy", "again"), [(599.0, False), (601.0, True)])
def test_reopening_interval_resets_after_ten_healthy_minutes(healthy: float, again: object) -> None:
    health = Health(half)
    health.stalled([(8, 95.0)], 5, 100.0)
    now = 122.5 + healthy
    assert health.stalled([(9, now)], 8, now)
    assert health.stalled([(9, now)], 8, now + 30.0) is again


def test_second_stall_is_counted_but_not_reopened_at_once() -> None:
    health = Health(half)
    assert health.stalled([(8, 95.0)], 5, 100.0)
    assert not health.stalled([(9, 101.0)], 8, 103.0)
    assert health.stalls == 2


def test_stall_keeps_the_oldest_withheld_revisions_up_to_a_limit() -> None:
    health = Health(half)
    health.stalled([(revision, 90.0) for revision in range(3 * WITHHELD, 0, -1)], 0, 100.0)
    assert len(health.withheld(100.0, 0)) == WITHHELD
    assert health.withheld(100.0, WITHHELD) == []


@pytest.mark.parametrize("revision", [None, 2])
def test_withheld_revisions_are_void_after_the_storage_went_back(revision: int | None) -> None:
    health = Health(half)
    health.stalled([(8, 95.0)], 5, 100.0)
    assert health.stalled_for(101.0, revision) is None
    assert health.withheld(101.0, 6) == []


def test_lost_revisions_are_void_after_forget() -> None:
    health = Health(half)
    assert health.lose([8], None) == [Violated(Guarantee.RELIABLE, 1, 8, 8)]
    assert health.compare([8]) == 1
    health.stalled([(9, 95.0)], 5, 100.0)
    health.forget(100.0)
    assert health.search_from() == 0
    assert health.lose([7], None) == [Violated(Guarantee.RELIABLE, 1, 7, 7)]
    assert health.compare([7]) == 1
    assert health.stalled_for(101.0, 6) is None


def test_frozen_cache_is_a_stall_until_an_audit_succeeds() -> None:
    health = Health(half)
    health.froze(90.0, 5)
    health.froze(105.0, 5)
    assert (health.verdict, health.stalls) == (AuditResult.FROZEN, 1)
    assert health.withheld(110.0, 5) == []
    assert health.stalled_for(110.0, 5) == 20.0
    health.found(AuditResult.FAILED)
    assert health.stalled_for(111.0, 5) == 21.0
    health.found(AuditResult.ALIVE)
    assert health.stalled_for(112.0, 5) is None


def test_single_failed_audit_leaves_the_verdict() -> None:
    """A watch that reopens during an audit makes it fail, which happens to each watch every few minutes."""
    health = Health(half)
    for _ in range(2):
        health.found(AuditResult.IDLE)
        health.found(AuditResult.FAILED)
        assert health.verdict is AuditResult.IDLE
    health.found(AuditResult.FAILED)
    assert health.verdict is AuditResult.FAILED
    health.found(AuditResult.FAILED)
    assert health.verdict is AuditResult.FAILED


def test_audit_without_a_right_replaces_the_verdict_at_once_and_ends_no_stall() -> None:
    health = Health(half)
    health.found(AuditResult.IDLE)
    health.found(AuditResult.FORBIDDEN)
    assert health.verdict is AuditResult.FORBIDDEN
    health.froze(90.0, 5)
    health.found(AuditResult.FORBIDDEN)
    assert health.stalled_for(111.0, 5) == 21.0


@pytest.mark.parametrize("frozen", [True, False])
def test_single_failed_audit_leaves_a_stall_after_earlier_failures(frozen: bool) -> None:  # noqa: FBT001 - a parameter
    health = Health(half)
    health.found(AuditResult.FAILED)
    if frozen:
        health.froze(90.0, 5)
    else:
        health.stalled([(9, 95.0)], 5, 100.0)
    before = health.verdict
    health.found(AuditResult.FAILED)
    assert health.verdict is before


def test_failed_audit_of_a_new_watch_is_its_verdict() -> None:
    health = Health(half)
    health.found(AuditResult.FAILED)
    assert health.verdict is AuditResult.FAILED


def test_verdict_before_audits_were_off_is_forgotten() -> None:
    health = Health(half)
    health.found(AuditResult.IDLE)
    health.suspend()
    health.found(AuditResult.FAILED)
    assert health.verdict is AuditResult.FAILED


def test_stall_after_a_frozen_cache_is_the_same_stall() -> None:
    health = Health(half)
    health.froze(90.0, 5)
    health.stalled([(8, 95.0)], 5, 100.0)
    assert health.stalls == 1
    assert health.stalled_for(100.0, 5) == 5.0


def test_frozen_cache_after_a_stall_is_the_same_stall() -> None:
    health = Health(half)
    health.stalled([(8, 95.0)], 5, 100.0)
    health.froze(105.0, 5)
    assert health.stalls == 1
    assert health.stalled_for(106.0, 5) == 11.0


def test_suspend_keeps_withheld_revisions_and_drops_the_frozen_cache() -> None:
    health = Health(half)
    health.froze(90.0, 5)
    health.suspend()
    assert not health.verdict
    assert health.stalled_for(100.0, 5) is None
    health.stalled([(8, 95.0)], 5, 100.0)
    health.suspend()
    assert health.stalled_for(101.0, 5) == 6.0


def test_lost_events_are_counted_once() -> None:
    health = Health(half)
    health.delivered.begin(10)
    assert health.search_from() == 10
    assert health.lose([12, 14], None) == [Violated(Guarantee.RELIABLE, 2, 12, 14)]
    assert health.lose([12, 14], None) == []
    assert health.lose([11, 14, 15], None) == [Violated(Guarantee.RELIABLE, 2, 11, 15)]
    assert health.lose([], None) == []


def test_search_begins_where_the_last_one_ended_and_not_too_far_back() -> None:
    health = Health(half)
    health.delivered.begin(10)
    health.searched(15)
    health.searched(12)
    assert health.search_from() == 15
    health.delivered.extend(range(20, 21 + LOOK_BACK))
    assert health.search_from() == 20
    assert health.search_from(look_back=1) == 19 + LOOK_BACK
    assert health.search_from(look_back=10 * LOOK_BACK) == 15


def test_events_lost_before_the_first_one_are_those_of_a_resume() -> None:
    health = Health(half)
    assert health.lose([11, 12, 14], 13) == [
        Violated(Guarantee.RESUMABLE, 2, 11, 12),
        Violated(Guarantee.RELIABLE, 1, 14, 14),
    ]
    assert health.lose([23], 22) == [Violated(Guarantee.RELIABLE, 1, 23, 23)]
    assert health.lose([24], None) == [Violated(Guarantee.RELIABLE, 1, 24, 24)]


def test_revision_that_runs_ahead_is_new_once() -> None:
    health = Health(half)
    assert [health.runs_ahead(revision) for revision in (12, 12, 14, 12)] == [True, False, True, True]


def test_compared_events_are_counted_once() -> None:
    health = Health(half)
    assert health.compare([12, 14]) == 2
    assert health.compare([12, 14, 15]) == 1
    assert health.compare([]) == 0


# Detection time


def test_detection_seconds_without_a_budget_is_none() -> None:
    assert detection_seconds(5, 0.0) is None


def test_detection_seconds_depends_on_quiet_watches_and_budget() -> None:
    assert detection_seconds(0, 2.0) == DETECTION_SECONDS
    assert detection_seconds(26, 2.0) == DETECTION_SECONDS
    assert detection_seconds(200, 2.0) == QUIET_SECONDS + 201 / 2.0 + FROZEN_SECONDS
    assert detection_seconds(200, 1e6) == DETECTION_SECONDS
    assert FROZEN_SECONDS == 2 * NUDGE_SECONDS + CONFIRM_SECONDS


LONGEST_SECONDS = FROZEN_SECONDS  # longer than a prompt nudge, an audit and the grace of a threshold of 1 s
SIMULATED_SECONDS = 300.0


def starts(streams: int, budget: float, random: Callable[[], float], silent_since: float) -> list[list[float]]:
    """Return when each watch is audited within some minutes; all are quiet, or fall silent at `silent_since`."""
    schedule, slot, now = Schedule(random), slot_seconds(budget), 0.0
    audited: list[list[float]] = [[] for _ in range(streams)]
    under_way: dict[int, float] = {}
    while now < SIMULATED_SECONDS:
        at = now + slot * random()
        under_way = {number: end for number, end in under_way.items() if end > at}
        is_quiet = at < silent_since - 60.0 or at >= silent_since + QUIET_SECONDS
        intervals = dict.fromkeys(range(streams), QUIET_INTERVAL_SECONDS if is_quiet else 300.0)
        if (chosen := schedule.choose(intervals, under_way, at)) is not None:
            audited[chosen].append(at)
            under_way[chosen] = at + 4.0 + (LONGEST_SECONDS - 4.0) * random()
        now += slot
    return audited


@pytest.mark.parametrize(("streams", "budget"), [(1, 2.0), (8, 2.0), (26, 2.0), (40, 2.0), (150, 2.0), (10, 0.5)])
@pytest.mark.parametrize("silent_since", [60.0, 120.0])
def test_schedule_finds_each_stall_within_detection_seconds(streams: int, budget: float, silent_since: float) -> None:
    """Events withheld from any moment on are found by the next audit that begins, at the latest as a frozen cache."""
    promised = detection_seconds(streams, budget)
    assert promised
    for seed in range(4):
        for audits in starts(streams, budget, random.Random(seed).random, silent_since):
            withheld = silent_since
            for began in [start for start in audits if start >= silent_since]:
                assert began + LONGEST_SECONDS - withheld <= promised, (seed, withheld, began)
                withheld = began  # the worst moment for the next stall is right after an audit began
            assert SIMULATED_SECONDS - withheld <= promised


@pytest.mark.parametrize("budget", [0.5, 2.0, 7.0])
def test_schedule_never_exceeds_the_budget(budget: float) -> None:
    begun = sorted(start for audits in starts(100, budget, random.Random(1).random, 60.0) for start in audits)
    for first in range(0, len(begun) - 10, 7):
        assert begun[first + 10] - begun[first] >= 9 / budget


def test_slot_seconds_has_a_lower_limit() -> None:
    assert slot_seconds(1e9) == 0.05


def test_schedule_audits_at_irregular_times() -> None:
    """Daemons that start together, and the watches of one daemon, are not audited together."""
    firsts = {round(starts(1, 2.0, random.Random(seed).random, 120.0)[0][0], 1) for seed in range(20)}
    assert len(firsts) > 12
    audits = starts(1, 2.0, random.Random(1).random, 0.0)[0]
    gaps = {round(later - earlier, 1) for earlier, later in pairwise(audits)}
    assert len(gaps) > 8


def test_schedule_audits_quiet_watches_before_busy_ones() -> None:
    schedule = Schedule(lambda: 1.0)  # all new watches are due
    assert schedule.choose({1: 300.0, 2: 12.0}, (), 0.0) == 2
    assert schedule.choose({1: 300.0, 2: 12.0}, (), 0.0) == 1
    assert schedule.choose({1: 300.0, 2: 12.0}, (), 14.3) is None
    assert schedule.choose({1: 300.0, 2: 12.0}, {2}, 14.5) is None
    assert schedule.choose({1: 300.0, 2: 12.0}, (), 14.5) == 2
    assert schedule.choose({1: 300.0}, (), 359.0) is None
    assert schedule.choose({1: 300.0}, (), 361.0) == 1
    assert schedule.choose({1: 12.0}, (), 376.0) == 1
    assert schedule.choose({}, (), 400.0) is None
