"""Verdicts on events and on windows."""

import math

import numpy as np

from tests.unit.latency.test_transcripts import JudgedWindows
from tests.unit.latency.truth import bounds, regular, tallied, tally_of
from watchslo.clock.revision import RevisionClock
from watchslo.latency.bins import Bins
from watchslo.latency.objective import EventVerdict, Objective, judge_events
from watchslo.model import AnsweredTicks, Reading

INF = math.inf
SLOW = (1.5, 2.0)


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
    def test_of_ten_minutes_are_judged_by_the_ticks_of_all_of_them(self) -> None:
        judged, clock = JudgedWindows(window=600.0), RevisionClock()
        for sent in np.arange(990.0, 1605.0, 0.5).tolist():
            clock.tick(Reading("events", sent, sent + 0.002, 1))
        judged.events(1000, "980*fast", "20*0.4-1.1")
        judged.judge(1605, 1600, clock.times.between)
        assert judged.said == "1 good"

    def test_are_judged_by_the_ticks_since_the_first_commit_that_can_be_in_time(self) -> None:
        judged, asked = JudgedWindows(), []

        def ticks(start: float, end: float) -> AnsweredTicks:
            asked.append((start, end))
            return regular(start, end)

        judged.events(1000, "100*wide")
        judged.judge(1065, 1060, ticks)
        assert asked == [(999.0, 1060.0)]

    def test_keep_nothing_of_judged_windows(self) -> None:
        """A bad day, with a withheld event and an overload in each minute."""
        judged = JudgedWindows()
        for now in range(1060, 1000 + 86_400, 60):
            judged.note(now, [(now - 60, tallied(SLOW))], [5.0], unjudgeable=True)
            judged.judged(now, sealed=now - 2)
        assert len(judged._unjudgeable) <= 2
        assert len(judged._late) <= 2
        assert len(judged._periods._tallies) <= 2

    def test_keep_ten_minutes_while_nothing_is_sealed(self) -> None:
        """A day without a tick, with windows of ten seconds, and one event that is withheld all the time."""
        judged = JudgedWindows(window=10.0)
        for now in range(1005, 1000 + 86_400, 5):
            judged.overloaded(now, now - 1000.0)
            judged.judged(now)
            assert len(judged._unjudgeable) <= 61
            assert len(judged._late) <= 61
        assert judged.said == f"{8580 - 1} no_data"

    def test_keep_ten_minutes_after_an_evaluation_that_came_hours_late(self) -> None:
        judged = JudgedWindows(window=10.0)
        judged.overloaded(1000 + 86_400, 86_000.0)
        judged.judged(1000 + 86_400, sealed=1030)
        assert len(judged._unjudgeable) == len(judged._late) == 61

    def test_keep_nothing_of_samples_that_come_after_the_verdict(self) -> None:
        judged = JudgedWindows(window=10.0)
        for now in range(1010, 1000 + 7200, 10):
            judged.note(now, [(now - 400, tallied(SLOW))], [], unjudgeable=False)
            judged.judged(now, sealed=now)
        assert len(judged._periods._tallies) <= 1
