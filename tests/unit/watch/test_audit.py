"""Audits: an idle watch is never stalled, a watch that withholds events always is, and each stall is found in time."""

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
    FORGOTTEN,
    FROZEN_SECONDS,
    NUDGE_SECONDS,
    QUIET_INTERVAL_SECONDS,
    QUIET_SECONDS,
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
        *((because(slow), Nudged.SLOW) for slow in (Reason.TIMEOUT, Reason.SERVER_ERROR, Reason.FUTURE_REVISION)),
        *(
            (because(failed), Nudged.FAILED)
            for failed in (Reason.FORBIDDEN, Reason.THROTTLED, Reason.REFUSED, Reason.RESET)
        ),
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
        *((new, True) for new in ("v1.36.3", "v1.31.0-alpha.1", "v1.31", "v2.0.0", "1.33.2")),
        *((old, False) for old in ("v1.30.14", "v1.9.1", "v1.30.14+k3s1")),
        *((odd, False) for odd in ("v1.31+", "unknown", "", None)),
    ],
)
def test_lists_prove_cache_since_version_1_31(version: str | None, proves: object) -> None:
    assert lists_prove_cache(version) is proves


# Delivered revisions


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


def test_stall_keeps_the_oldest_withheld_revisions_up_to_a_limit() -> None:
    health = Health(half)
    health.stalled([(revision, 90.0) for revision in range(3 * WITHHELD, 0, -1)], 0, 100.0)
    assert len(health.withheld(100.0, 0)) == WITHHELD
    assert health.withheld(100.0, WITHHELD) == []


# Detection time


def test_detection_seconds_depends_on_quiet_watches_and_budget() -> None:
    assert detection_seconds(5, 0.0) is None
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
