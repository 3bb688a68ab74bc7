"""Verdicts on events and on windows."""

import math

import numpy as np
import pytest

from tests.unit.latency.truth import BINS, bounds, tallied, tally_of
from watchslo.clock.revision import RevisionClock
from watchslo.latency.bins import Bins
from watchslo.latency.objective import EventVerdict, Objective, Windows, judge_events
from watchslo.latency.tally import Slot
from watchslo.model import AnsweredTicks, Reading
from watchslo.snapshot import WindowVerdict

INF = math.inf
FAST, SLOW, WIDE = (0.1, 0.4), (1.5, 2.0), (0.1, 2.0)


def regular(start: float, end: float, gap: float = 0.5) -> AnsweredTicks:
    """Return ticks at equal gaps, without round trips."""
    sent = np.arange(start, end + gap, gap)
    return AnsweredTicks(start, end, sent, sent)


def windows(
    threshold: float = 1.0, window: float = 60.0, min_events: int = 100, quantile: float = 0.99, start: float = 1000.0
) -> Windows:
    return Windows(BINS, Objective(threshold=threshold, window=window, min_events=min_events, quantile=quantile), start)


def verdicts(judged: Windows) -> tuple[int, int, int]:
    """Return the numbers of windows that are good, bad and without data; none may be undecided."""
    good, bad, undecided, no_data = (judged.verdicts[verdict] for verdict in WindowVerdict)
    assert not undecided
    return good, bad, no_data


def add(judged: Windows, slots: list[Slot]) -> None:
    """Add tallies, as of the moment of the start, which changes nothing else."""
    judged.note(judged._noted, slots, [], unjudgeable=False)


def judge(judged: Windows, now: float, sealed: float) -> None:
    judged.judge(now, sealed, regular)


class TestObjective:
    def test_default_is_the_objective_of_kubernetes(self) -> None:
        assert Objective() == Objective(
            threshold=1.0, events_target=0.99, quantile=0.99, window=60.0, minutes_target=0.999, min_events=100
        )


class TestEvents:
    def test_are_judged_by_proven_bounds(self) -> None:
        events = bounds((0, 1.0, 0.5), (0, 1.1, 0.9), (0, 2.0, 1.1), (0, 2.0, 0.5), (3, INF))
        judged = judge_events(tally_of(events), 1.0)
        assert judged == {EventVerdict.WITHIN: 1, EventVerdict.UNCERTAIN: 2, EventVerdict.BEYOND: 2}

    def test_are_judged_by_the_threshold(self) -> None:
        events = bounds((0.5, 0.75), (0.6, 0.7), (0.9, 1.5))
        judged = judge_events(tally_of(events, Bins([0.7])), 0.7)
        assert judged == {EventVerdict.WITHIN: 1, EventVerdict.UNCERTAIN: 1, EventVerdict.BEYOND: 1}


class TestWindows:
    def test_of_fast_events_are_good_and_of_slow_ones_bad(self) -> None:
        judged = windows()
        add(judged, [(1000, tallied(*[FAST] * 100)), (1060, tallied(*[SLOW] * 100))])
        judge(judged, 1125, sealed=1120)
        assert verdicts(judged) == (1, 1, 0)

    def test_of_ten_minutes_are_judged_by_the_ticks_of_all_of_them(self) -> None:
        judged, clock = windows(window=600.0), RevisionClock()
        for sent in np.arange(990.0, 1605.0, 0.5).tolist():
            clock.tick(Reading("events", sent, sent + 0.002, 1))
        add(judged, [(1000, tallied(*[FAST] * 980, *[(0.4, 1.1)] * 20))])
        judged.judge(1605, 1600, clock.times.between)
        assert verdicts(judged) == (1, 0, 0)

    def test_with_the_threshold_between_their_bounds_are_undecided(self) -> None:
        judged = windows()
        add(judged, [(1000, tallied(*[WIDE] * 100)), (1060, tallied(*[FAST] * 98, *[WIDE] * 2))])
        judged.judge(1125, 1120, lambda start, end: regular(start, end, gap=1.5))
        assert judged.verdicts[WindowVerdict.UNDECIDED] == 2

    def test_are_good_if_the_times_of_the_ticks_show_it(self) -> None:
        judged = windows()
        add(judged, [(1000, tallied(*[(0.3, 1.2)] * 100))])
        judge(judged, 1065, sealed=1060)
        assert verdicts(judged) == (1, 0, 0)

    def test_are_judged_by_the_ticks_since_the_first_commit_that_can_be_in_time(self) -> None:
        judged, asked = windows(), []

        def ticks(start: float, end: float) -> AnsweredTicks:
            asked.append((start, end))
            return regular(start, end)

        add(judged, [(1000, tallied(*[WIDE] * 100))])
        judged.judge(1065, 1060, ticks)
        assert asked == [(999.0, 1060.0)]

    def test_wait_for_their_last_second_to_be_sealed(self) -> None:
        judged = windows()
        add(judged, [(1000, tallied(*[FAST] * 100))])
        judge(judged, 1070, sealed=1059)
        assert verdicts(judged) == (0, 0, 0)
        judge(judged, 1070, sealed=1060)
        assert verdicts(judged) == (1, 0, 0)

    def test_are_judged_once(self) -> None:
        judged = windows()
        add(judged, [(1000, tallied(*[FAST] * 100))])
        for _ in range(3):
            judge(judged, 1065, sealed=1064)
        assert verdicts(judged) == (1, 0, 0)
        add(judged, [(1059, tallied(*[SLOW] * 100))])
        judge(judged, 1066, sealed=1065)
        assert verdicts(judged) == (1, 0, 0)

    def test_keep_nothing_of_judged_windows(self) -> None:
        """A bad day, with a withheld event and an overload in each minute."""
        judged = windows()
        for now in range(1060, 1000 + 86_400, 60):
            judged.note(now, [(now - 60, tallied(SLOW))], [5.0], unjudgeable=True)
            judge(judged, now, sealed=now - 2)
        assert len(judged._unjudgeable) <= 2
        assert len(judged._late) <= 2
        assert len(judged._periods._tallies) <= 2

    def test_keep_ten_minutes_while_nothing_is_sealed(self) -> None:
        """A day without a tick, with windows of ten seconds, and one event that is withheld all the time."""
        judged = windows(window=10.0)
        for now in range(1005, 1000 + 86_400, 5):
            judged.note(now, [], [now - 1000.0], unjudgeable=True)
            judge(judged, now, sealed=-INF)
            assert len(judged._unjudgeable) <= 61
            assert len(judged._late) <= 61
        assert verdicts(judged) == (0, 0, 8580 - 1)

    def test_keep_ten_minutes_after_an_evaluation_that_came_hours_late(self) -> None:
        judged = windows(window=10.0)
        judged.note(1000 + 86_400, [], [86_000.0], unjudgeable=True)
        judge(judged, 1000 + 86_400, sealed=1030)
        assert len(judged._unjudgeable) == len(judged._late) == 61

    def test_keep_nothing_of_samples_that_come_after_the_verdict(self) -> None:
        judged = windows(window=10.0)
        for now in range(1010, 1000 + 7200, 10):
            judged.note(now, [(now - 400, tallied(SLOW))], [], unjudgeable=False)
            judge(judged, now, sealed=now)
        assert len(judged._periods._tallies) <= 1

    def test_with_few_events_are_judged_if_their_bounds_decide(self) -> None:
        judged = windows()
        add(judged, [(1000, tallied(FAST)), (1060, tallied(*[SLOW] * 99)), (1120, tallied(*[WIDE] * 99))])
        judge(judged, 1185, sealed=1180)
        assert verdicts(judged) == (1, 1, 1)

    def test_are_judged_by_their_quantile(self) -> None:
        for quantile, expected in ((0.99, (0, 1, 0)), (0.95, (1, 0, 0))):
            judged = windows(quantile=quantile)
            add(judged, [(1000, tallied(*[FAST] * 96, *[SLOW] * 4))])
            judge(judged, 1065, sealed=1060)
            assert verdicts(judged) == expected

    @pytest.mark.parametrize("late", [7, 8])
    def test_rank_of_the_quantile_is_not_rounded_up(self, late: int) -> None:
        """0.93 * 100 is a little more than 93 in binary: rank 93 is meant, so seven events may be late."""
        judged = windows(quantile=0.93)
        add(judged, [(1000, tallied(*[FAST] * (100 - late), *[SLOW] * late))])
        judge(judged, 1065, sealed=1060)
        assert verdicts(judged) == ((1, 0, 0) if late == 7 else (0, 1, 0))

    def test_are_judged_by_their_threshold(self) -> None:
        for threshold, expected in ((1.0, (1, 0, 0)), (0.5, (1, 0, 0)), (0.25, (0, 1, 0))):
            judged = windows(threshold=threshold)
            add(judged, [(1000, tallied(*[(0.3, 0.5)] * 100))])
            judge(judged, 1065, sealed=1064)
            assert verdicts(judged) == expected

    def test_with_the_quantile_at_the_threshold_are_good(self) -> None:
        judged = windows()
        add(judged, [(1000, tallied(*[(0.0, 1.0, 1.0)] * 100))])  # certainly no less than a second
        judge(judged, 1065, sealed=1064)
        assert verdicts(judged) == (1, 0, 0)

    def test_have_the_configured_length(self) -> None:
        judged = windows(window=15.0)
        add(judged, [(1000, tallied(FAST)), (1010, tallied(FAST)), (1015, tallied(SLOW))])
        judge(judged, 1035, sealed=1030)
        assert verdicts(judged) == (1, 1, 0)

    def test_begin_with_the_first_block_after_the_start(self) -> None:
        judged = windows(window=15.0, start=1001.0)
        add(judged, [(1000, tallied(SLOW)), (1005, tallied(FAST)), (1015, tallied(FAST)), (1020, tallied(SLOW))])
        judge(judged, 1040, sealed=1035)
        assert verdicts(judged) == (1, 1, 0)

    def test_unsealed_for_ten_minutes_have_no_data(self) -> None:
        judged = windows()
        add(judged, [(1000, tallied(*[SLOW] * 200))])
        judge(judged, 1659.9, sealed=1030)
        assert verdicts(judged) == (0, 0, 0)
        judge(judged, 1660, sealed=1030)
        assert verdicts(judged) == (0, 0, 1)
        judge(judged, 1665, sealed=1664)
        assert verdicts(judged) == (0, 0, 11)

    def test_with_a_withheld_event_are_bad_with_any_number_of_events(self) -> None:
        judged = windows()
        judged.note(1050, [], [0.3, 1.5, 1.2], unjudgeable=False)
        judge(judged, 1065, sealed=1064)
        assert verdicts(judged) == (0, 1, 0)
        judge(judged, 1125, sealed=1124)
        assert verdicts(judged) == (0, 1, 1)

    def test_with_a_withheld_event_are_bad_even_if_unsealed(self) -> None:
        judged = windows()
        judged.note(1050, [], [5.0], unjudgeable=False)
        judge(judged, 1700, sealed=1030)
        assert verdicts(judged) == (0, 1, 0)

    def test_with_an_event_withheld_within_the_threshold_are_not_bad(self) -> None:
        judged = windows()
        judged.note(1050, [], [1.0], unjudgeable=False)
        judge(judged, 1065, sealed=1064)
        assert verdicts(judged) == (0, 0, 1)

    def test_without_withheld_events_are_not_bad(self) -> None:
        judged = windows(threshold=0.5)
        judged.note(1050, [], [], unjudgeable=False)
        judge(judged, 1065, sealed=1064)
        assert verdicts(judged) == (0, 0, 1)

    def test_are_bad_while_an_event_was_late_in_them(self) -> None:
        """At 1125 an event has been withheld for 70 s: it has been late since 1056, in three windows."""
        judged = windows()
        judged.note(1125, [], [70.0], unjudgeable=False)
        judge(judged, 1250, sealed=1240)
        assert verdicts(judged) == (0, 3, 1)

    def test_before_an_event_was_late_are_not_bad(self) -> None:
        judged = windows()
        judged.note(1125, [], [65.5], unjudgeable=False)
        judge(judged, 1250, sealed=1240)
        assert verdicts(judged) == (0, 2, 2)

    def test_already_judged_do_not_change(self) -> None:
        judged = windows()
        judge(judged, 1065, sealed=1060)
        judged.note(1065, [], [30.0], unjudgeable=False)
        judge(judged, 1185, sealed=1180)
        assert verdicts(judged) == (0, 1, 2)

    def test_have_no_data_during_an_overload(self) -> None:
        judged = windows()
        add(judged, [(time, tallied(*[SLOW] * 100)) for time in (1000, 1060, 1120, 1180)])
        judged.note(1059, [], [], unjudgeable=False)
        judged.note(1064, [], [9.0], unjudgeable=True)
        judged.note(1120, [], [], unjudgeable=False)
        judge(judged, 1245, sealed=1240)
        assert verdicts(judged) == (0, 2, 2)

    def test_have_no_data_during_an_overload_since_the_start(self) -> None:
        judged = windows()
        add(judged, [(time, tallied(FAST)) for time in (1000, 1060, 1120)])
        judged.note(1061, [], [], unjudgeable=True)
        judge(judged, 1185, sealed=1180)
        assert verdicts(judged) == (1, 0, 2)
