from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchslo.timeline import day as module
from watchslo.timeline.day import MINUTES, DayHistory, Minute
from watchslo.timeline.series import Key

PODS: Key = ("service", "pods")
NODES: Key = ("service", "nodes")
NOON = 1_700_000_000.0 // 86_400 * 86_400 + 43_200
DELAY = 6.0  # from a window's end to its verdict


class Judged:
    """A watch whose windows of a minute are judged one after the other."""

    def __init__(self, first: float = NOON) -> None:
        self.day = DayHistory()
        self.counts = {"good": 0, "bad": 0, "undecided": 0, "no_data": 0}
        self.now = first
        self.day.add(self.now, {PODS: dict(self.counts)})

    def judge(self, *verdicts: str, length: float = 60.0) -> None:
        for verdict in verdicts:
            for _ in range(round(length / 60) - 1):
                self.now += 60
                self.day.add(self.now, {PODS: dict(self.counts)})
            self.now += 60
            self.counts[verdict] += 1
            self.day.add(self.now, {PODS: dict(self.counts)})

    def seen(self, key: Key = PODS) -> str:
        """What is not without data, from the first of it to the last."""
        return "".join(map(str, self.day.of(key))).strip("0")


def test_verdict_marks_its_minute() -> None:
    judged = Judged()
    judged.judge("good", "undecided", "bad", "no_data", "good")
    assert judged.seen() == "12301"
    assert judged.day.overall().tolist() == judged.day.of(PODS).tolist()


def test_newest_bad_minute_is_known_for_a_day() -> None:
    judged = Judged()
    assert judged.day.last_bad_wall is None
    judged.judge("good", "bad", "bad", "good")
    newest = MINUTES - 1 - max(np.flatnonzero(judged.day.overall() == Minute.BAD))
    assert judged.day.last_bad_wall == judged.day.last_minute_wall - 60.0 * newest
    judged.judge(*["good"] * MINUTES)
    assert judged.day.last_bad_wall is None


def test_newest_minute_is_last() -> None:
    judged = Judged(NOON + DELAY + 30)
    judged.judge("bad")
    day = judged.day.of(PODS)
    assert len(day) == MINUTES
    assert judged.day.last_minute_wall == NOON + 60
    assert day[-2:].tolist() == [Minute.BAD, Minute.NO_DATA]


@given(st.lists(st.floats(0, 5), min_size=30, max_size=30), st.floats(0, 60))
def test_every_minute_is_marked_exactly_once(jitters: Iterable[float], first: float) -> None:
    """Though evaluations come when they come, and windows begin at any second."""
    judged = Judged(NOON + first)
    at = judged.now
    for number, jitter in enumerate(jitters, 1):
        judged.counts["bad" if number % 2 else "good"] += 1
        judged.day.add(at + 60 * number + jitter, {PODS: dict(judged.counts)})
    seen = judged.seen()
    assert "0" not in seen
    assert 28 <= len(seen) <= 31


def test_long_window_marks_all_its_minutes() -> None:
    judged = Judged()
    judged.judge("good", "bad", length=300.0)
    assert judged.seen() == "1" * 5 + "3" * 5


def test_worst_of_several_verdicts_marks_the_minute() -> None:
    judged = Judged()
    judged.counts = {"good": 1, "bad": 1, "undecided": 1, "no_data": 1}
    judged.day.add(NOON + 60, {PODS: judged.counts})
    assert judged.seen() == "3"


def test_minutes_and_watches_expire_after_a_day() -> None:
    judged = Judged()
    judged.judge("bad", *["no_data"] * (MINUTES - 1))
    assert judged.seen() == ""
    judged = Judged()
    judged.judge("bad")
    judged.day.add(judged.now + 60, {})
    assert judged.day.overall().any()
    judged.day.add(judged.now + 86_400, {})
    assert not judged.day.overall().any()


def test_time_in_which_the_machine_was_suspended_has_no_verdict() -> None:
    judged = Judged()
    judged.judge("good", "good")
    judged.now += 5 * 3600.0
    judged.day.add(judged.now, {PODS: dict(judged.counts)})
    judged.judge("bad")
    assert judged.seen() == "11" + "0" * 300 + "3"


def test_time_in_which_a_watch_was_absent_has_no_verdict() -> None:
    judged = Judged()
    judged.judge("good")
    for _ in range(30):
        judged.now += 60
        judged.day.add(judged.now, {})
    judged.counts = {"good": 0, "bad": 0, "undecided": 0, "no_data": 0}
    judged.now += 60
    judged.day.add(judged.now, {PODS: dict(judged.counts)})
    judged.judge("bad")
    assert judged.seen() == "1" + "0" * 31 + "3"


def test_days_of_watches_that_left_are_kept_in_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ABSENT", 100)
    day, now = DayHistory(), NOON
    for number in range(300):
        key = ("gone", str(number))
        day.add(now, {PODS: {}, key: {}})
        now += 60
        day.add(now, {PODS: {}, key: {"bad" if number == 0 else "good": 1}})
        assert len(day._minutes) == len(day._judged) <= 102
        assert {*day._counts} == {PODS, key}
    assert "".join(map(str, day.overall())).strip("0") == "3" + "1" * 299, "also of those that are not kept"
    day.add(now + 86_400, {PODS: {}})
    assert [*day._minutes] == [*day._judged] == [PODS]
    assert not day.overall().any()


def test_overall_minute_has_the_worst_verdict_of_any_watch() -> None:
    day = DayHistory()
    day.add(NOON, {PODS: {}, NODES: {}})
    day.add(NOON + 60, {PODS: {"good": 1}, NODES: {"bad": 1}})
    day.add(NOON + 120, {PODS: {"good": 2}, NODES: {"bad": 1, "no_data": 1}})
    day.add(NOON + 180, {PODS: {"good": 3}, NODES: {"undecided": 1, "bad": 1, "no_data": 1}})
    assert "".join(map(str, day.overall())).strip("0") == "312"


def test_counter_reset_is_not_a_verdict() -> None:
    judged = Judged()
    judged.judge("bad", "bad")
    judged.counts = {"good": 0, "bad": 0, "undecided": 0, "no_data": 0}
    judged.day.add(judged.now + 60, {PODS: judged.counts})
    assert judged.seen() == "33"


def test_wall_clock_set_back_clears_nothing() -> None:
    judged = Judged()
    judged.judge("bad")
    before = judged.day.of(PODS)
    judged.day.add(NOON - 7200, {PODS: dict(judged.counts)})
    assert np.array_equal(judged.day.of(PODS), before)
