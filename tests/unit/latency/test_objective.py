"""Verdicts on events and on windows."""

import math

from tests.unit.latency.truth import BINS, bounds, lognormal, mostly, normal, simulate, tallied, tally_of
from watchslo.latency.objective import EventVerdict, Objective, Windows, WindowVerdict, judge_events

INF = math.inf
FAST, SLOW = (0.1, 0.4), (1.5, 2.0)


def windows(
    threshold: float = 1.0, window: float = 60.0, min_events: int = 100, quantile: float = 0.99, start: float = 1000.0
) -> Windows:
    return Windows(BINS, Objective(threshold=threshold, window=window, min_events=min_events, quantile=quantile), start)


def verdicts(judged: Windows) -> tuple[int, int, int]:
    """Return the numbers of windows that are good, bad and without data."""
    return tuple(judged.verdicts[verdict] for verdict in WindowVerdict)  # type: ignore[return-value]  # there are three


class TestObjective:
    def test_default_is_the_objective_of_kubernetes(self) -> None:
        assert Objective() == Objective(
            threshold=1.0, events_target=0.99, quantile=0.99, window=60.0, minutes_target=0.999, min_events=100
        )


class TestEvents:
    def test_are_judged_by_proven_bounds(self) -> None:
        events = bounds((0, 1.0, 0.5), (0, 1.01, 1.0), (0, 2.0, 1.01), (0, 2.0, 0.5), (3, INF))
        judged = judge_events(events.upper, events.proven, 1.0)
        assert judged == {EventVerdict.WITHIN: 1, EventVerdict.UNCERTAIN: 2, EventVerdict.BEYOND: 2}

    def test_are_judged_by_the_threshold(self) -> None:
        events = bounds((0.5, 0.75), (0.6, 0.7), (0.9, 1.5))
        judged = judge_events(events.upper, events.proven, 0.7)
        assert judged == {EventVerdict.WITHIN: 1, EventVerdict.UNCERTAIN: 1, EventVerdict.BEYOND: 1}


class TestWindows:
    def test_of_fast_events_are_good_and_of_slow_ones_bad(self) -> None:
        judged = windows()
        judged.periods.add([(1000, tallied(*[FAST] * 100)), (1060, tallied(*[SLOW] * 100))])
        judged.judge(1125, sealed=1120)
        assert verdicts(judged) == (1, 1, 0)

    def test_wait_for_their_last_second_to_be_sealed(self) -> None:
        judged = windows()
        judged.periods.add([(1000, tallied(*[FAST] * 100))])
        judged.judge(1070, sealed=1059)
        assert verdicts(judged) == (0, 0, 0)
        judged.judge(1070, sealed=1060)
        assert verdicts(judged) == (1, 0, 0)

    def test_are_judged_once(self) -> None:
        judged = windows()
        judged.periods.add([(1000, tallied(*[FAST] * 100))])
        for _ in range(3):
            judged.judge(1065, sealed=1064)
        assert verdicts(judged) == (1, 0, 0)
        judged.periods.add([(1059, tallied(*[SLOW] * 100))])
        judged.judge(1066, sealed=1065)
        assert verdicts(judged) == (1, 0, 0)

    def test_keep_no_judged_tallies(self) -> None:
        judged = windows()
        judged.periods.add([(1000, tallied(FAST)), (1060, tallied(FAST)), (1120, tallied(FAST))])
        judged.judge(1125, sealed=1124)
        assert [judged.periods.tally(number).n for number in range(3)] == [0, 0, 1]

    def test_need_the_minimum_of_events(self) -> None:
        judged = windows(min_events=3)
        judged.periods.add([(1000, tallied(*[SLOW] * 2)), (1060, tallied(*[SLOW] * 3))])
        judged.judge(1185, sealed=1180)
        assert verdicts(judged) == (0, 1, 2)

    def test_are_judged_by_the_estimate_of_their_quantile(self) -> None:
        """The bounds alone decide no window: the upper bound of the second is beyond the threshold."""
        mode = mostly(lognormal(0.02, 0.2), normal(3.0, 0.1), 0.02)
        slow = tally_of(simulate(1, mode, 3000).bounds)
        fast = tally_of(simulate(1, normal(0.6, 0.1), 3000).bounds)
        assert fast.bounds(0.99).upper > 1.0 > fast.bounds(0.99).lower
        for quantile, expected in ((0.99, (1, 1, 0)), (0.95, (2, 0, 0))):
            judged = windows(quantile=quantile)
            judged.periods.add([(1000, slow), (1060, fast)])
            judged.judge(1125, sealed=1120)
            assert verdicts(judged) == expected

    def test_are_judged_by_their_threshold(self) -> None:
        for threshold, expected in ((1.0, (1, 0, 0)), (0.5, (1, 0, 0)), (0.25, (0, 1, 0))):
            judged = windows(threshold=threshold)
            judged.periods.add([(1000, tallied(*[(0.3, 0.5)] * 100))])
            judged.judge(1065, sealed=1064)
            assert verdicts(judged) == expected

    def test_with_the_quantile_at_the_threshold_are_good(self) -> None:
        judged = windows()
        judged.periods.add([(1000, tallied(*[(0.0, 1.0, 1.0)] * 100))])  # certainly no less than a second
        judged.judge(1065, sealed=1064)
        assert verdicts(judged) == (1, 0, 0)

    def test_may_have_any_length(self) -> None:
        judged = windows(window=12.5, min_events=1)
        judged.periods.add([(1000, tallied(FAST)), (1012.4, tallied(FAST)), (1012.5, tallied(SLOW))])
        judged.judge(1030, sealed=1025)
        assert verdicts(judged) == (1, 1, 0)

    def test_unsealed_for_ten_minutes_have_no_data(self) -> None:
        judged = windows()
        judged.periods.add([(1000, tallied(*[SLOW] * 200))])
        judged.judge(1659.9, sealed=1030)
        assert verdicts(judged) == (0, 0, 0)
        judged.judge(1660, sealed=1030)
        assert verdicts(judged) == (0, 0, 1)
        judged.judge(1665, sealed=1664)
        assert verdicts(judged) == (0, 0, 11)

    def test_with_a_withheld_event_are_bad_with_any_number_of_events(self) -> None:
        judged = windows()
        judged.note(1050, [0.3, 1.5, 1.2], unjudgeable=False)
        judged.judge(1065, sealed=1064)
        assert verdicts(judged) == (0, 1, 0)
        judged.judge(1125, sealed=1124)
        assert verdicts(judged) == (0, 1, 1)

    def test_with_a_withheld_event_are_bad_even_if_unsealed(self) -> None:
        judged = windows()
        judged.note(1050, [5.0], unjudgeable=False)
        judged.judge(1700, sealed=1030)
        assert verdicts(judged) == (0, 1, 0)

    def test_with_an_event_withheld_within_the_threshold_are_not_bad(self) -> None:
        judged = windows()
        judged.note(1050, [1.0], unjudgeable=False)
        judged.judge(1065, sealed=1064)
        assert verdicts(judged) == (0, 0, 1)

    def test_without_withheld_events_are_not_bad(self) -> None:
        judged = windows(threshold=0.5)
        judged.note(1050, [], unjudgeable=False)
        judged.judge(1065, sealed=1064)
        assert verdicts(judged) == (0, 0, 1)

    def test_are_bad_while_an_event_was_late_in_them(self) -> None:
        """At 1125 an event has been withheld for 70 s: it has been late since 1056, in three windows."""
        judged = windows()
        judged.note(1125, [70.0], unjudgeable=False)
        judged.judge(1250, sealed=1240)
        assert verdicts(judged) == (0, 3, 1)

    def test_before_an_event_was_late_are_not_bad(self) -> None:
        judged = windows()
        judged.note(1125, [65.5], unjudgeable=False)
        judged.judge(1250, sealed=1240)
        assert verdicts(judged) == (0, 2, 2)

    def test_already_judged_do_not_change(self) -> None:
        judged = windows()
        judged.judge(1065, sealed=1060)
        judged.note(1065, [30.0], unjudgeable=False)
        judged.judge(1185, sealed=1180)
        assert verdicts(judged) == (0, 1, 2)

    def test_have_no_data_during_an_overload(self) -> None:
        judged = windows()
        judged.periods.add([(time, tallied(*[SLOW] * 100)) for time in (1000, 1060, 1120, 1180)])
        judged.note(1059, [], unjudgeable=False)
        judged.note(1064, [9.0], unjudgeable=True)
        judged.note(1120, [], unjudgeable=False)
        judged.judge(1245, sealed=1240)
        assert verdicts(judged) == (0, 2, 2)

    def test_have_no_data_during_an_overload_since_the_start(self) -> None:
        judged = windows(min_events=1)
        judged.periods.add([(time, tallied(FAST)) for time in (1000, 1060, 1120)])
        judged.note(1061, [], unjudgeable=True)
        judged.judge(1185, sealed=1180)
        assert verdicts(judged) == (1, 0, 2)
