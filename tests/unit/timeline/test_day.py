"""The minutes of a day: `tests/golden/days.txt` has what is judged and what is remembered."""

from collections.abc import Callable, Iterable
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import GOLDEN
from tests.support.transcripts import Step, calls, replay
from watchslo.timeline import day as module
from watchslo.timeline.day import MINUTES, DayHistory, Minute
from watchslo.timeline.series import Key

PODS: Key = ("service", "pods")
NODES: Key = ("service", "nodes")
NOON = 1_700_000_000.0 // 86_400 * 86_400 + 43_200


class Judged:
    """A watch whose windows of a minute are judged one after the other."""

    def __init__(self, first: float = NOON) -> None:
        self.day = DayHistory()
        self.counts = {"good": 0, "bad": 0, "undecided": 0, "no_data": 0}
        self.now = first
        self.day.add(self.now, {PODS: dict(self.counts)})

    def judge(self, *verdicts: str, length: float = 60.0) -> None:
        """Judge windows of this length."""
        for verdict in verdicts:
            for _ in range(round(length / 60) - 1):
                self.wait()
            self.judge_at_once(verdict)

    def judge_at_once(self, *verdicts: str) -> None:
        for verdict in verdicts:
            self.counts[verdict] += 1
        self.wait()

    def judge_a_day(self, first: str, others: str) -> None:
        self.judge(first, *[others] * (MINUTES - 1))

    def wait(self, minutes: int = 1) -> None:
        """Let time pass in which nothing is judged, as when the machine is suspended."""
        self.now += 60 * minutes
        self.day.add(self.now, {PODS: dict(self.counts)})

    def leave(self, minutes: int) -> None:
        """Let each minute pass without the watch."""
        for _ in range(minutes):
            self.now += 60
            self.day.add(self.now, {})

    def start_again(self) -> None:
        self.counts = dict.fromkeys(self.counts, 0)
        self.wait()

    def set_back(self, hours: int) -> None:
        self.day.add(self.now - 3600 * hours, {PODS: dict(self.counts)})

    def seen(self) -> str:
        """Return what is not without data, from the first of it to the last."""
        return named("".join(map(str, self.day.overall())).strip("0"))

    def newest(self) -> str:
        """Return the newest two minutes, and when the last one is, in seconds after noon."""
        assert len(self.day.of(PODS)) == MINUTES
        return f"{named(map(str, self.day.of(PODS)[-2:]))} at {self.day.last_minute_wall - NOON:g}"

    def last_bad(self) -> str:
        """Return when the newest bad minute is, in minutes before the last minute."""
        if self.day.last_bad_wall is None:
            return "none"
        return f"{(self.day.last_minute_wall - self.day.last_bad_wall) / 60:g}"


def named(minutes: Iterable[str]) -> str:
    """Return equal minutes in a row as one word."""
    runs = ((Minute(int(digit)).name.lower(), len([*run])) for digit, run in groupby(minutes))
    return ", ".join(f"{count} {name}" for name, count in runs) or "nothing"


def test_minutes_are_those_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    def begin(seconds_after_noon: str) -> Step:
        return calls(Judged(NOON + float(seconds_after_noon)))

    golden("days.txt", replay((GOLDEN / "days.txt").read_text(), begin))


@given(st.lists(st.floats(0, 5), min_size=30, max_size=30), st.floats(0, 60))
def test_every_minute_is_marked_exactly_once(jitters: Iterable[float], first: float) -> None:
    """Though evaluations come when they come, and windows begin at any second."""
    judged = Judged(NOON + first)
    at = judged.now
    for number, jitter in enumerate(jitters, 1):
        judged.counts["bad" if number % 2 else "good"] += 1
        judged.day.add(at + 60 * number + jitter, {PODS: dict(judged.counts)})
    minutes = "".join(map(str, judged.day.of(PODS))).strip("0")
    assert "0" not in minutes
    assert 28 <= len(minutes) <= 31


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
