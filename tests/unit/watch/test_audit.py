"""What audits prove: never a stall of what is idle, always a stall of what is withheld, and nobody waits too long."""

import random
from collections.abc import Callable
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchslo.model import Reading
from watchslo.watch.audit import (
    CONFIRM_SECONDS,
    DELIVERED,
    DETECTION_SECONDS,
    FROZEN_SECONDS,
    LOOK_BACK,
    NUDGE_SECONDS,
    QUIET_INTERVAL_SECONDS,
    QUIET_SECONDS,
    REOPEN_BASE_SECONDS,
    REOPEN_CAP_SECONDS,
    SLOW_SECONDS,
    WITHHELD,
    Delivered,
    Evidence,
    Findings,
    Freshness,
    Health,
    Nudged,
    Schedule,
    Verdict,
    compare,
    detection_seconds,
    judge,
    judge_nudge,
    lists_prove_cache,
    others_answer,
    slot_seconds,
)
from watchslo.watch.failure import Reason, because

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
def test_only_slow_nudges_suggest_a_frozen_cache(answer: Reading, nudged: Nudged) -> None:
    assert judge_nudge(answer) is nudged


def test_others_answer_if_a_later_tick_on_another_resource_was_prompt() -> None:
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
def test_lists_prove_caches_since_1_31(version: str | None, proves: object) -> None:
    assert lists_prove_cache(version) is proves


# What a stream has delivered


def test_what_came_before_the_watch_is_unknown() -> None:
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


def test_so_many_revisions_are_known() -> None:
    ring = delivered(0, *range(1, DELIVERED + 1))
    assert ring.has(1) is True
    ring.extend([DELIVERED + 1])
    assert ring.has(1) is None


def test_a_new_watch_is_a_new_epoch_in_which_nothing_is_known() -> None:
    ring = delivered(10, 12)
    epoch = ring.epoch
    ring.begin(12)
    assert ring.epoch != epoch
    assert ring.has(12) is None
    assert ring.has(13) is False


@settings(max_examples=20)
@given(st.lists(st.integers(1, 3 * DELIVERED), min_size=1, max_size=4), st.integers(1, 3))
def test_a_ring_forgets_the_oldest_and_knows_that(sizes: list[int], step: int) -> None:
    ring, newest = delivered(0), 0
    for size in sizes:
        batch = range(newest + step, newest + step * size + 1, step)
        newest = batch[-1]
        ring.extend(batch)
    kept = len(ring._revisions)
    assert min(newest // step, DELIVERED // 2) <= kept <= DELIVERED
    oldest = newest - step * (kept - 1)
    assert ring.before(kept - 1) == oldest or kept == 1
    assert ring.before(kept) == oldest - step
    assert ring.has(oldest - step) is None
    assert ring.has(oldest) is True
    assert ring.has(newest) is True
    assert ring.has(newest + 1) is False


def test_where_to_look_back_from() -> None:
    assert delivered(10).before(2) == 10
    assert delivered(10, 12, 15).before(2) == 10
    assert delivered(10, 12, 15, 19).before(2) == 12


# What is missing


@given(st.sets(st.integers(1, 60)), st.integers(0, 60), st.data())
def test_what_is_withheld_is_always_found_and_lost_is_only_what_was_passed_over(
    committed: set[int], floor: int, data: st.DataObject
) -> None:
    """The stream delivers its events up to some point but for those that are lost; the audit sees any part of all."""
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
def test_what_is_no_newer_than_a_bookmark_was_passed_over(missing: int, found: Findings) -> None:
    assert compare([missing], delivered(3), newest=5) == found


@given(st.lists(st.sampled_from("caso"), max_size=60), st.sampled_from(Freshness))
def test_a_stream_that_delivers_in_time_is_never_stalled(happens: list[str], freshness: Freshness) -> None:
    """However commits (c), the audit's events (a), the stream's (s), and new watches (o) interleave.

    Each watch brings all events in their order, and the stream has all of them once the grace is over.
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
    verdict = judge(Evidence(freshness, complete=True, moved=bool(seen), findings=found))
    assert verdict not in (Verdict.STALLED, Verdict.LOST)
    assert (verdict is Verdict.IDLE) == (freshness is Freshness.FRESH and not seen)


# Verdicts


def test_every_verdict() -> None:
    withheld, lost = Findings(withheld=(5,)), Findings(lost=(4,))
    for freshness, complete, moved, findings in product(
        Freshness, (False, True), (False, True), (NOTHING, withheld, lost, Findings((5,), (4,)))
    ):
        verdict = judge(Evidence(freshness, complete, moved, findings))
        if freshness is Freshness.FROZEN:
            assert verdict is (Verdict.ALIVE if moved else Verdict.FROZEN)
        elif not complete:
            assert verdict is Verdict.FAILED
        elif findings.withheld:
            assert verdict is Verdict.STALLED
        elif findings.lost:
            assert verdict is Verdict.LOST
        elif moved:
            assert verdict is Verdict.ALIVE
        else:
            assert (verdict is Verdict.IDLE) == (freshness is Freshness.FRESH)
            assert (verdict is Verdict.UNPROVEN) == (freshness is Freshness.UNPROVEN)


# The health of one stream


def test_a_healthy_stream_withholds_nothing() -> None:
    health = Health(half)
    assert not health.verdict
    assert health.withheld(10.0, 5) == []
    assert health.stalled_for(10.0, 5) is None
    assert health.stalled_for(10.0, None) is None
    assert health.search_from() == 0
    health.found(Verdict.IDLE)
    assert (health.verdict, health.stalls, health.lost) == (Verdict.IDLE, 0, 0)


def test_a_stall_lasts_until_what_was_withheld_is_passed() -> None:
    health = Health(half)
    assert health.stalled([(8, 95.0), (7, 93.0)], 5, 100.0)
    assert health.verdict is Verdict.STALLED
    assert health.withheld(103.0, 5) == [10.0, 8.0]
    assert health.stalled_for(103.0, 5) == 10.0
    assert health.withheld(103.0, 7) == [8.0]
    assert health.stalled_for(104.0, 8) is None
    assert health.stalls == 1


def test_a_stall_is_counted_once_and_reopened_ever_more_seldom() -> None:
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


def test_a_stall_that_lasts_is_reopened_every_few_minutes() -> None:
    health = Health(half)
    reopened = [now for now in range(4000) if health.stalled([(8, 0.0)], 5, float(now))]
    assert reopened[:2] == [0, 23]  # 22.5 s later
    assert reopened[-1] - reopened[-2] == 1.5 * REOPEN_CAP_SECONDS
    assert health.stalled([(8, 0.0)], 5, reopened[-1] + 1.5 * REOPEN_CAP_SECONDS)


@pytest.mark.parametrize(("healthy", "again"), [(599.0, False), (601.0, True)])
def test_after_ten_minutes_without_a_stall_it_begins_as_at_first(healthy: float, again: object) -> None:
    health = Health(half)
    health.stalled([(8, 95.0)], 5, 100.0)
    now = 122.5 + healthy
    assert health.stalled([(9, now)], 8, now)
    assert health.stalled([(9, now)], 8, now + 30.0) is again


def test_a_stream_that_stalls_again_at_once_is_counted_again_but_not_reopened_at_once() -> None:
    health = Health(half)
    assert health.stalled([(8, 95.0)], 5, 100.0)
    assert not health.stalled([(9, 101.0)], 8, 103.0)
    assert health.stalls == 2


def test_a_stall_keeps_so_many_revisions_and_the_oldest_of_them() -> None:
    health = Health(half)
    health.stalled([(revision, 90.0) for revision in range(3 * WITHHELD, 0, -1)], 0, 100.0)
    assert len(health.withheld(100.0, 0)) == WITHHELD
    assert health.withheld(100.0, WITHHELD) == []


@pytest.mark.parametrize("revision", [None, 2])
def test_what_was_withheld_means_nothing_once_the_storage_went_back(revision: int | None) -> None:
    health = Health(half)
    health.stalled([(8, 95.0)], 5, 100.0)
    assert health.stalled_for(101.0, revision) is None
    assert health.withheld(101.0, 6) == []


def test_what_was_lost_means_nothing_once_the_storage_went_back() -> None:
    health = Health(half)
    assert health.lose([8]) == 1
    health.stalled([(9, 95.0)], 5, 100.0)
    health.forget()
    assert health.search_from() == 0
    assert health.lose([7]) == 1
    assert health.lost == 2
    assert health.stalled_for(101.0, 6) is None


def test_a_frozen_cache_is_a_stall_until_it_answers() -> None:
    health = Health(half)
    health.froze(90.0, 5)
    health.froze(105.0, 5)
    assert (health.verdict, health.stalls) == (Verdict.FROZEN, 1)
    assert health.withheld(110.0, 5) == []
    assert health.stalled_for(110.0, 5) == 20.0
    health.found(Verdict.FAILED)
    assert health.stalled_for(111.0, 5) == 21.0
    health.found(Verdict.ALIVE)
    assert health.stalled_for(112.0, 5) is None


def test_a_stall_behind_a_frozen_cache_is_the_same_stall() -> None:
    health = Health(half)
    health.froze(90.0, 5)
    health.stalled([(8, 95.0)], 5, 100.0)
    assert health.stalls == 1
    assert health.stalled_for(100.0, 5) == 5.0


def test_a_frozen_cache_behind_a_stall_is_the_same_stall() -> None:
    health = Health(half)
    health.stalled([(8, 95.0)], 5, 100.0)
    health.froze(105.0, 5)
    assert health.stalls == 1
    assert health.stalled_for(106.0, 5) == 11.0


def test_what_is_withheld_is_so_without_audits_too_and_of_the_cache_nothing_is_known() -> None:
    health = Health(half)
    health.froze(90.0, 5)
    health.rest()
    assert not health.verdict
    assert health.stalled_for(100.0, 5) is None
    health.stalled([(8, 95.0)], 5, 100.0)
    health.rest()
    assert health.stalled_for(101.0, 5) == 6.0


def test_lost_events_are_counted_once() -> None:
    health = Health(half)
    health.delivered.begin(10)
    assert health.search_from() == 10
    assert health.lose([12, 14]) == 2
    assert health.lose([12, 14]) == 0
    assert health.lose([14, 15]) == 1
    assert health.lose([]) == 0
    assert health.lost == 3
    assert health.search_from() == 15
    health.delivered.extend(range(20, 21 + LOOK_BACK))
    assert health.search_from() == 20


# How soon


def test_without_a_budget_nothing_is_ever_found() -> None:
    assert detection_seconds(5, 0.0) is None


def test_what_is_promised() -> None:
    assert detection_seconds(0, 2.0) == DETECTION_SECONDS
    assert detection_seconds(26, 2.0) == DETECTION_SECONDS
    assert detection_seconds(200, 2.0) == QUIET_SECONDS + 201 / 2.0 + FROZEN_SECONDS
    assert detection_seconds(200, 1e6) == DETECTION_SECONDS
    assert FROZEN_SECONDS == 2 * NUDGE_SECONDS + CONFIRM_SECONDS


LONGEST_SECONDS = FROZEN_SECONDS  # and more than a prompt nudge, an audit and the grace of a threshold of 1 s
SIMULATED_SECONDS = 300.0


def starts(streams: int, budget: float, random: Callable[[], float], silent_since: float) -> list[list[float]]:
    """When each stream is audited in some minutes; they are quiet, or all of them fall silent at one moment."""
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
def test_a_stall_is_found_in_time(streams: int, budget: float, silent_since: float) -> None:
    """Whatever is withheld from some moment on, the next audit to begin finds it, at the latest as a frozen cache."""
    promised = detection_seconds(streams, budget)
    assert promised
    for seed in range(4):
        for audits in starts(streams, budget, random.Random(seed).random, silent_since):
            withheld = silent_since
            for began in [start for start in audits if start >= silent_since]:
                assert began + LONGEST_SECONDS - withheld <= promised, (seed, withheld, began)
                withheld = began  # the worst moment for the next one is right after the look
            assert SIMULATED_SECONDS - withheld <= promised


@pytest.mark.parametrize("budget", [0.5, 2.0, 7.0])
def test_no_more_audits_begin_than_the_budget_permits(budget: float) -> None:
    begun = sorted(start for audits in starts(100, budget, random.Random(1).random, 60.0) for start in audits)
    for first in range(0, len(begun) - 10, 7):
        assert begun[first + 10] - begun[first] >= 9 / budget


def test_a_budget_however_large_costs_little() -> None:
    assert slot_seconds(1e9) == 0.05


def test_audits_come_at_irregular_times() -> None:
    """Not all daemons that start together, nor all streams of one, ask together."""
    firsts = {round(starts(1, 2.0, random.Random(seed).random, 120.0)[0][0], 1) for seed in range(20)}
    assert len(firsts) > 12
    audits = starts(1, 2.0, random.Random(1).random, 0.0)[0]
    gaps = {round(later - earlier, 1) for earlier, later in pairwise(audits)}
    assert len(gaps) > 8


def test_busy_streams_are_searched_now_and_then_and_after_quiet_ones() -> None:
    schedule = Schedule(lambda: 1.0)  # all that is new is due
    assert schedule.choose({1: 300.0, 2: 12.0}, (), 0.0) == 2
    assert schedule.choose({1: 300.0, 2: 12.0}, (), 0.0) == 1
    assert schedule.choose({1: 300.0, 2: 12.0}, (), 14.3) is None
    assert schedule.choose({1: 300.0, 2: 12.0}, {2}, 14.5) is None
    assert schedule.choose({1: 300.0, 2: 12.0}, (), 14.5) == 2
    assert schedule.choose({1: 300.0}, (), 359.0) is None
    assert schedule.choose({1: 300.0}, (), 361.0) == 1
    assert schedule.choose({1: 12.0}, (), 376.0) == 1
    assert schedule.choose({}, (), 400.0) is None
