import math
from dataclasses import replace

from tests.unit.serve import readings
from watchslo.history.judgement import FORGIVEN_SECONDS, P99, Condition, Judge, Line, name_of
from watchslo.history.words import counted, duration, lasting, since, some_of
from watchslo.snapshot import QuantileReading, StreamReading, WindowReading

NOW = 1_700_000_000.0


def stream(lower: float, estimate: float, upper: float, events: int = 100) -> StreamReading:
    quantiles = (QuantileReading(P99, lower, estimate, upper, resolved=True),) if events else ()
    track = replace(readings.TRACK, windows=(WindowReading("1m", 60.0, events, quantiles),))
    return replace(readings.TAIL, track=track)


WITHIN = stream(0.0, 0.1, 0.9)
LATE = stream(1.5, 2.3, 3.0)
FEW = stream(0.0, 0.1, 1.4, events=9)
SILENT = stream(0.0, 0.0, 0.0, events=0)


def lines(*watches: tuple[float, StreamReading]) -> list[Line]:
    """What one judge says, told so many seconds after the beginning."""
    judge = Judge()
    return [judge.line(one, NOW + after) for after, one in watches]


def condition(one: StreamReading) -> Condition:
    return lines((0.0, one))[0].condition


class TestCondition:
    def test_is_that_of_the_last_minute(self) -> None:
        assert [condition(one) for one in (WITHIN, LATE, FEW)] == [
            Condition.WITHIN,
            Condition.LATE,
            Condition.FEW_EVENTS,
        ]

    def test_of_silence_is_told_by_the_audit(self) -> None:
        assert condition(SILENT) is Condition.NOT_MEASURED
        assert condition(replace(SILENT, audit="idle")) is Condition.IDLE
        assert condition(replace(SILENT, stalled_for=3.0)) is Condition.STALLED

    def test_of_a_stall_goes_before_what_came_before_it(self) -> None:
        assert condition(replace(LATE, stalled_for=3.0)) is Condition.STALLED

    def test_of_a_closed_watch_goes_before_that_of_its_minute_unless_late(self) -> None:
        assert condition(replace(WITHIN, up=False)) is Condition.CLOSED
        assert condition(replace(LATE, up=False)) is Condition.LATE

    def test_before_the_first_evaluation_is_unknown(self) -> None:
        nothing = replace(readings.TAIL, track=replace(readings.TRACK, windows=()))
        assert condition(nothing) is Condition.NOT_MEASURED


class TestSince:
    def test_is_when_it_began(self) -> None:
        assert [line.since_wall - NOW for line in lines((0, WITHIN), (5, LATE), (10, LATE), (15, LATE))] == [0, 5, 5, 5]

    def test_survives_a_moment_of_not_knowing(self) -> None:
        assert [line.since_wall - NOW for line in lines((0, LATE), (5, FEW), (10, LATE))] == [0, 5, 0]

    def test_ends_with_being_well(self) -> None:
        assert [line.since_wall - NOW for line in lines((0, LATE), (5, WITHIN), (10, LATE))] == [0, 5, 10]

    def test_ends_with_a_long_time_of_not_knowing(self) -> None:
        later = FORGIVEN_SECONDS + 6
        assert [line.since_wall - NOW for line in lines((0, LATE), (5, SILENT), (later, LATE))] == [0, 5, later]


def test_a_watch_is_named_with_its_apiserver_where_there_are_several() -> None:
    assert name_of(readings.TAIL) == "pods"
    assert name_of(replace(readings.TAIL, apiserver="10.0.0.1:6443")) == "pods at 10.0.0.1:6443"


class TestWords:
    def test_durations_have_three_digits(self) -> None:
        said = [duration(one) for one in (0.0, 0.00085, 0.0123, 0.99949, 0.9995, 1.25, 99.94, 128.0, math.inf)]
        assert said == ["0 ms", "0.85 ms", "12.3 ms", "999 ms", "1 s", "1.25 s", "99.9 s", "128 s", "∞"]

    def test_what_lasts_is_said_as_people_do(self) -> None:
        said = [lasting(one) for one in (0.0, 59.0, 60.0, 3599.0, 3600.0, 11_100.0, 86_400.0, 187_200.0)]
        assert said == ["0 s", "59 s", "1 min", "59 min", "1 h", "3 h 5 min", "1 d", "2 d 4 h"]

    def test_another_day_is_named(self) -> None:
        assert since(NOW, NOW + 60) == "since 22:13 UTC"
        assert since(NOW, NOW + 86_400) == "since 2023-11-14 22:13 UTC"

    def test_one_is_no_plural(self) -> None:
        assert [counted(1, "watch"), counted(16, "watch"), counted(4210, "event")] == [
            "1 watch",
            "16 watches",
            "4,210 events",
        ]

    def test_only_some_are_named(self) -> None:
        assert some_of(["a", "b", "c"]) == "a, b and c"
        assert some_of(["a"]) == "a"
        assert some_of(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
