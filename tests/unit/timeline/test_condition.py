import math
from dataclasses import replace

from tests.unit.serve import readings
from watchslo.snapshot import QuantileReading, StreamReading
from watchslo.timeline.condition import (
    CLOSED_SECONDS,
    FORGIVEN_SECONDS,
    P99,
    RECOVERY_SECONDS,
    Condition,
    Judge,
    WatchCondition,
    WatchVerdict,
    name_of,
    verdict_on,
)
from watchslo.timeline.format import common_percentile, counted, duration, lasting, since, some_of

NOW = 1_700_000_000.0


def stream(lower: float, estimate: float, upper: float, events: int = 100) -> StreamReading:
    quantiles = (QuantileReading(P99, lower, estimate, upper),) if events else ()
    return replace(readings.TAIL, track=readings.judged(events, *quantiles))


WITHIN = stream(0.0, 0.1, 0.9)
LATE = stream(1.5, 2.3, 3.0)
FEW = stream(0.0, 0.1, 1.4, events=9)
UNDECIDED = stream(0.2, 0.3, 1.4)
SILENT = stream(0.0, 0.0, 0.0, events=0)


def lines(*watches: tuple[float, StreamReading]) -> list[WatchCondition]:
    """Return what one judge says of each reading, so many seconds after NOW."""
    judge = Judge()
    return [judge.condition(one, NOW + after) for after, one in watches]


def grown(one: StreamReading, samples: int = 1) -> StreamReading:
    """Return the reading with more samples since the start."""
    track, more = one.track, one.track.timespan
    counts = tuple(count + samples for count in more.counts)
    return replace(one, track=replace(track, timespan=replace(more, counts=counts)))


def condition(one: StreamReading) -> Condition:
    return lines((0.0, one))[0].condition


class TestCondition:
    def test_watch_that_was_undecided_for_a_moment_is_within_only_after_some_evaluations(self) -> None:
        watches = (WITHIN, UNDECIDED, WITHIN, UNDECIDED, WITHIN, WITHIN, WITHIN)
        said = [line.condition for line in lines(*((5.0 * number, one) for number, one in enumerate(watches)))]
        assert said == [Condition.WITHIN, *[Condition.UNDECIDED] * 5, Condition.WITHIN]

    def test_watch_that_was_never_within_before_is_within_at_once(self) -> None:
        _, second = lines((0.0, UNDECIDED), (5.0, WITHIN))
        assert second.condition is Condition.WITHIN

    def test_condition_comes_from_the_window_of_the_objective(self) -> None:
        assert [condition(one) for one in (WITHIN, LATE, UNDECIDED, FEW)] == [
            Condition.WITHIN,
            Condition.LATE,
            Condition.UNDECIDED,
            Condition.FEW_EVENTS,
        ]

    def test_condition_of_a_silent_watch_comes_from_its_audit(self) -> None:
        assert condition(SILENT) is Condition.NOT_MEASURED
        assert condition(readings.changed(SILENT, audit={"result": "idle"})) is Condition.IDLE
        assert condition(readings.changed(SILENT, audit={"stalled_for": 3.0})) is Condition.STALLED

    def test_condition_stalled_overrides_the_last_minute(self) -> None:
        assert condition(readings.changed(LATE, audit={"stalled_for": 3.0})) is Condition.STALLED

    def test_condition_closed_overrides_all_but_late(self) -> None:
        assert condition(replace(WITHIN, up=False)) is Condition.CLOSED
        assert condition(replace(LATE, up=False)) is Condition.LATE

    def test_condition_before_first_evaluation_is_not_measured(self) -> None:
        nothing = replace(readings.TAIL, track=replace(readings.judged(0), judged=None))
        assert condition(nothing) is Condition.NOT_MEASURED


class TestUnresponsive:
    def test_silence_of_the_apiserver_overrides_all(self) -> None:
        silent = replace(readings.changed(LATE, audit={"stalled_for": 3.0}), unresponsive=True, up=False)
        assert condition(silent) is Condition.UNRESPONSIVE


class TestRecovery:
    """What was bad ends with an event, or with the time for an audit, never because late events grow old."""

    def conditions(self, *watches: tuple[float, StreamReading]) -> list[Condition]:
        return [line.condition for line in lines(*watches)]

    def test_late_watch_is_not_within_before_a_newer_sample(self) -> None:
        late, unknown, within = Condition.LATE, Condition.NOT_MEASURED, Condition.WITHIN
        assert self.conditions((0, LATE), (5, WITHIN), (10, WITHIN), (15, grown(WITHIN)), (20, grown(WITHIN))) == [
            late, unknown, unknown, within, within,
        ]  # fmt: skip

    def test_watch_is_not_within_before_a_sample_after_silence(self) -> None:
        silent = replace(WITHIN, unresponsive=True, up=False)
        assert self.conditions((0, silent), (5, WITHIN), (10, grown(WITHIN)))[1:] == [
            Condition.NOT_MEASURED,
            Condition.WITHIN,
        ]

    def test_watch_is_idle_again_once_it_was_audited(self) -> None:
        idle = readings.changed(SILENT, audit={"result": "idle"})
        silent = replace(idle, unresponsive=True, up=False)
        assert self.conditions((0, silent), (5, idle), (RECOVERY_SECONDS, idle), (40, idle))[1:] == [
            Condition.NOT_MEASURED,
            Condition.IDLE,
            Condition.IDLE,
        ]

    def test_watch_that_only_reopened_was_not_bad(self) -> None:
        closed = replace(WITHIN, up=False)
        assert self.conditions((0, closed), (5, WITHIN))[1] is Condition.WITHIN
        assert self.conditions((0, closed), (CLOSED_SECONDS, closed), (15, WITHIN))[2] is Condition.NOT_MEASURED


class TestProvenOnly:
    """Without quantiles, a watch is late for a minute after each event that was proven late."""

    def proven(self, beyond: int, **changes: object) -> StreamReading:
        track = replace(readings.judged(0), judged=None, windows=(), proven_only=True)
        objective = replace(track.objective, verdicts={"within": 30, "beyond": beyond, "uncertain": 900})
        return replace(SILENT, track=replace(track, objective=objective), **changes)  # type: ignore[arg-type]

    def test_open_watch_is_connected_until_an_event_is_proven_late(self) -> None:
        found = lines(
            (0, self.proven(7)), (5, self.proven(8)), (60, self.proven(8)), (65, self.proven(8)), (96, self.proven(8))
        )
        late, connected = Condition.LATE, Condition.CONNECTED
        assert [line.condition for line in found] == [connected, late, late, Condition.NOT_MEASURED, connected]

    def test_closed_watch_is_closed(self) -> None:
        assert condition(self.proven(0, up=False)) is Condition.CLOSED

    def test_with_quantiles_single_late_events_do_not_matter(self) -> None:
        def counted_late(beyond: int) -> StreamReading:
            objective = replace(WITHIN.track.objective, verdicts={"beyond": beyond})
            return replace(WITHIN, track=replace(WITHIN.track, objective=objective))

        assert [line.condition for line in lines((0, counted_late(0)), (5, counted_late(3)))] == [Condition.WITHIN] * 2


class TestSince:
    def test_since_is_when_the_condition_began(self) -> None:
        assert [line.since_wall - NOW for line in lines((0, WITHIN), (5, LATE), (10, LATE), (15, LATE))] == [0, 5, 5, 5]

    def test_since_survives_a_short_time_without_data(self) -> None:
        assert [line.since_wall - NOW for line in lines((0, LATE), (5, FEW), (10, LATE))] == [0, 5, 0]

    def test_since_starts_again_after_within(self) -> None:
        assert [line.since_wall - NOW for line in lines((0, LATE), (5, grown(WITHIN)), (10, LATE))] == [0, 5, 10]

    def test_since_starts_again_after_a_long_time_without_data(self) -> None:
        later = FORGIVEN_SECONDS + 6
        assert [line.since_wall - NOW for line in lines((0, LATE), (5, SILENT), (later, LATE))] == [0, 5, later]


def test_name_contains_apiserver_if_there_are_several() -> None:
    assert name_of(readings.TAIL) == "pods"
    assert name_of(replace(readings.TAIL, apiserver="10.0.0.1:6443")) == "pods at 10.0.0.1:6443"


class TestWords:
    def test_durations_have_three_digits(self) -> None:
        said = [duration(one) for one in (0.0, 0.00085, 0.0123, 0.99949, 0.9995, 1.25, 99.94, 128.0, math.inf)]
        assert said == ["0 ms", "0.85 ms", "12.3 ms", "999 ms", "1 s", "1.25 s", "99.9 s", "128 s", "∞"]

    def test_lasting_prints_the_two_largest_units(self) -> None:
        said = [lasting(one) for one in (0.0, 59.0, 60.0, 3599.0, 3600.0, 11_100.0, 86_400.0, 187_200.0)]
        assert said == ["0 s", "59 s", "1 min", "59 min", "1 h", "3 h 5 min", "1 d", "2 d 4 h"]

    def test_since_prints_the_date_of_another_day(self) -> None:
        assert since(NOW, NOW + 60) == "since 22:13 UTC"
        assert since(NOW, NOW + 86_400) == "since 2023-11-14 22:13 UTC"

    def test_counted_uses_singular_for_one(self) -> None:
        assert [counted(1, "watch"), counted(16, "watch"), counted(4210, "event")] == [
            "1 watch",
            "16 watches",
            "4,210 events",
        ]

    def test_some_of_names_three_and_counts_the_rest(self) -> None:
        assert some_of(["a", "b", "c"]) == "a, b and c"
        assert some_of(["a"]) == "a"
        assert some_of(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_down_watch_is_beyond_and_stalled_one_is_not_measured() -> None:
    within, beyond, unmeasured = WatchVerdict.WITHIN, WatchVerdict.BEYOND, WatchVerdict.NOT_MEASURED
    for before, stalled_for, down_for, verdict in (
        (within, None, None, within),
        (within, 1.0, 1.0, within),
        (within, None, 1.1, beyond),
        (within, 1.1, None, unmeasured),
        (beyond, 1.1, None, beyond),
    ):
        assert verdict_on(before, 1.0, stalled_for=stalled_for, down_for=down_for) is verdict


def test_common_percentile_names_the_only_quantile() -> None:
    assert common_percentile([0.999, 0.999]) == "P99.9"
    assert common_percentile([0.999, 0.99]) == "Quantile"
    assert common_percentile([]) == "P99"
