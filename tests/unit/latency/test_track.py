"""A track from arrivals to readings, with a clock of given latencies."""

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.latency.creators import KnownAges, note
from tests.unit.latency.one_watch import OneWatch
from tests.unit.latency.truth import BINS
from watchslo.latency.histogram import MassHistogram
from watchslo.latency.objective import Objective
from watchslo.latency.track import UNMEASURED
from watchslo.model import Bounds, FloatArray, IntArray, Interval
from watchslo.snapshot import ObjectiveReading, TrackReading, WindowReading

INF = math.inf
START = 1000.25
NO_EVENTS = MassHistogram(BINS).reading()
NONE_UNMEASURED = dict.fromkeys(UNMEASURED, 0)


class Clock:
    """A measure with given (lower, upper) or (lower, upper, proven) for some revisions."""

    def __init__(self, known: Mapping[int, tuple[float, ...]]) -> None:
        self.known = known

    def __call__(self, revisions: IntArray, received: FloatArray) -> Bounds:
        assert (revisions.dtype.name, received.dtype.name) == ("int64", "float64")
        events = [self.known.get(revision, (-1.0, -1.0)) for revision in revisions.tolist()]
        rows = np.array([(*event, event[0])[:3] for event in events]).reshape(-1, 3)
        return Bounds(rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 1], rows[:, 0] >= 0)


@pytest.fixture
def track() -> OneWatch:
    return OneWatch(BINS, Objective(), START)


@pytest.fixture
def clock() -> Clock:
    return Clock({**dict.fromkeys(range(1, 10), (0.0, 0.5)), **dict.fromkeys(range(11, 20), (1.5, 2.5))})


def events_of(track: OneWatch) -> tuple[int, int]:
    one, five, _ = track.reading().windows
    return one.events, five.events


class TestWithoutQuantiles:
    def test_only_events_are_judged(self, clock: Clock) -> None:
        track = OneWatch(BINS, Objective(min_events=1), START, quantiles=False)
        track.record(1000.5, [1, 2])
        track.record(1000.6, [11])
        track.seal(1002.0, 50, clock, 0.001)
        track.evaluate(1200.0)
        reading = track.reading()
        assert reading.windows == ()
        assert reading.judged is None
        assert reading.objective.windows == {}
        assert reading.objective.verdicts == {"within": 2, "beyond": 1, "uncertain": 0}
        assert reading.timespan.total == 3


class TestReading:
    def test_is_empty_at_first(self, track: OneWatch) -> None:
        assert track.reading() == TrackReading(
            timespan=NO_EVENTS,
            windows=(
                WindowReading("1m", 60.0, 0, ()),
                WindowReading("5m", 300.0, 0, ()),
                WindowReading("15s", 15.0, 0, ()),
            ),
            objective=ObjectiveReading(
                threshold=1.0,
                events_target=0.99,
                minutes_target=0.999,
                min_events=100,
                verdicts={"within": 0, "beyond": 0, "uncertain": 0},
                windows={"good": 0, "bad": 0, "undecided": 0, "no_data": 0},
            ),
            unresolved=0,
            unmeasured=NONE_UNMEASURED,
            creation=None,
            judged=WindowReading("1m", 60.0, 0, ()),
        )

    @pytest.mark.parametrize(("q", "window"), [(0.99, 60.0), (0.95, 120.0), (0.5, 300.0)])
    def test_judged_window_has_the_length_and_the_quantile_of_the_objective(
        self, clock: Clock, q: float, window: float
    ) -> None:
        track = OneWatch(BINS, Objective(quantile=q, window=window), START)
        for second, revision in ((1001.5, 1), (1100.5, 11)):
            track.record(second, [revision])
            track.seal(second + 2, 20, clock, 0.0)
            track.evaluate(second + 4)
        reading = track.reading()
        assert (reading.objective.quantile, reading.objective.window) == (q, window)
        assert reading.judged is not None
        assert (reading.judged.length, reading.judged.events) == (window, 1 if window == 60.0 else 2)
        assert {one.q for one in reading.judged.quantiles} == {0.5, 0.9, 0.99, q}
        assert [one.name for one in reading.windows] == ["1m", "5m", "15s"]
        assert (reading.judged in reading.windows) == (window != 120.0)

    def test_changes_only_when_evaluated_and_then_all_at_once(self, track: OneWatch, clock: Clock) -> None:
        before = track.reading()
        track.record(1001.5, [1, 2, 11])
        track.track.unmeasured("tainted", 2)
        track.seal(1003, 20, clock, 0.6)
        assert track.reading() is before
        track.evaluate(1005)
        reading = track.reading()
        counts = reading.timespan.counts
        assert (counts[6:8], counts[9:]) == ((2, 2), (3,) * 5)
        assert reading.objective.verdicts == {"within": 2, "beyond": 1, "uncertain": 0}
        assert reading.unmeasured == {**NONE_UNMEASURED, "tainted": 2}
        assert reading.unresolved == 2
        assert events_of(track) == (3, 3)
        track.track.unmeasured("tainted", 2)
        assert reading.unmeasured["tainted"] == 2


class TestCounts:
    def test_events_below_the_round_trip(self, track: OneWatch) -> None:
        clock = Clock({1: (0.0, 0.0101), 2: (0.0, 0.0099), 3: (0.005, 0.3)})
        track.record(1001.5, [1, 2, 3])
        track.seal(1003, 10, clock, 0.01)
        track.evaluate(1005)
        assert track.reading().unresolved == 1
        track.record(1006.5, [2, 2])
        track.seal(1008, 10, clock, 0.01)
        track.evaluate(1010)
        assert track.reading().unresolved == 3

    def test_resolved_quantiles_by_the_last_round_trip(self, track: OneWatch, clock: Clock) -> None:
        track.record(1001.5, [11])
        track.seal(1003, 20, clock, 0.01)
        track.seal(1003, 20, clock, 9.0)
        track.evaluate(1005)
        assert not any(quantile.resolved for window in track.reading().windows for quantile in window.quantiles)
        track.record(1006.5, [11])
        track.seal(1008, 20, clock, 0.01)
        track.evaluate(1010)
        assert all(quantile.resolved for window in track.reading().windows for quantile in window.quantiles)


class TestRollingWindows:
    def test_count_right_censored_values_in_one_evaluation(self, track: OneWatch, clock: Clock) -> None:
        track.record(1001.5, [1] * 8)
        track.seal(1003, 20, clock, 0.002)
        track.evaluate(1005, [7.0, 3.0])
        assert events_of(track) == (10, 10)
        assert track.reading().windows[0].quantiles[2].upper == INF
        assert track.reading().windows[0].quantiles[2].estimate > 6.5
        assert track.reading().timespan.total == 8
        track.evaluate(1005)
        assert events_of(track) == (8, 8)
        assert track.reading().windows[0].quantiles[2].upper == 0.5


class TestCreation:
    @pytest.fixture
    def track(self, clock: Clock) -> OneWatch:
        """Return a track on which all events are sealed at once."""
        track = OneWatch(BINS, Objective(), START, creation=True)
        track.seal(10_000.0, 20, clock, 0.002)
        return track

    def test_has_its_own_histogram(self, track: OneWatch) -> None:
        creators = KnownAges()
        assert track.reading().creation == NO_EVENTS
        note(track, creators, 1001.5, [1, 2], [Interval(0.0, 0.5), Interval(1.5, 2.5)])
        note(track, creators, 1001.6, [3], [Interval(-0.25, 0.75)])
        track.evaluate(1005, creators=creators)
        reading = track.reading()
        assert reading.creation is not None
        assert reading.creation.counts[7:] == (2, 3, 3, 3, 3, 3, 3)
        assert reading.timespan.total == 0
        assert events_of(track) == (0, 0)

    def test_waits_for_sealing_for_a_while(self, clock: Clock) -> None:
        track, creators = OneWatch(BINS, Objective(), START, creation=True), KnownAges()
        note(track, creators, 1001.5, [1], [Interval(0.0, 0.5)])
        track.evaluate(1005, creators=creators)
        assert created(track) == 0
        track.seal(1002.5, 20, clock, 0.002)
        track.evaluate(1010, creators=creators)
        assert created(track) == 1
        note(track, creators, 1011.5, [2], [Interval(0.0, 0.5)])
        track.evaluate(1041.5, creators=creators)
        assert created(track) == 1
        track.evaluate(1041.625, creators=creators)
        assert created(track) == 2

    def test_leaves_out_what_was_committed_while_the_watch_waited_for_its_turn(self, clock: Clock) -> None:
        """Both events were created 1.5 s before they arrived; the first one while this process did not yet ask."""
        track, creators = OneWatch(BINS, Objective(), START, creation=True), KnownAges()
        for received, revision in ((1002.6, 11), (1004.6, 12)):
            note(track, creators, received, [revision], [Interval(1.5, 2.5)])
            track.record(received, [revision])
        track.queue_waits.add(1000.5, 1001.0)
        track.seal(1006.0, 20, clock, 0.002)
        track.evaluate(1010, creators=creators)
        assert track.reading().unmeasured["own_queue"] == 1
        assert created(track) == 1

    def test_divides_by_the_events_of_the_last_five_minutes(self, track: OneWatch) -> None:
        """An event with a wide interval is counted where the others were; after five minutes these are forgotten."""
        creators = KnownAges()
        note(track, creators, 1001.5, range(100), [Interval(0.06, 0.08)] * 100)
        track.evaluate(1005, creators=creators)
        note(track, creators, 1240.5, range(100), [Interval(0.0, 2.5)] * 100)
        track.evaluate(1250, creators=creators)
        reading = track.reading().creation
        assert reading is not None
        assert reading.counts[4] >= 198
        ages = [Interval(0.06, 0.07)] * 9 + [Interval(0.2, 0.22)] * 91 + [Interval(0.0, 2.5)] * 100
        note(track, creators, 1590.5, range(200), ages)
        track.evaluate(1600, creators=creators)
        later = track.reading().creation
        assert later is not None
        assert later.counts[4] - reading.counts[4] < 30

    def test_is_off_by_default(self) -> None:
        track = OneWatch(BINS, Objective(), START)
        with pytest.raises(AssertionError):
            track.track.note_creations(1001.5, [1], [1000.0])
        track.evaluate(1005, creators=KnownAges())
        assert track.reading().creation is None


def created(track: OneWatch) -> int:
    reading = track.reading().creation
    assert reading is not None
    return reading.total


class TestLife:
    @settings(max_examples=25)
    @given(st.data())
    def test_every_event_is_counted_once_and_counters_never_decrease(self, data: st.DataObject) -> None:
        """In any order of calls, each event is measured, unmeasured for one reason, or provisional."""
        clock = Clock({1: (0.0, 0.5), 2: (0.5, 1.5), 3: (2.0, INF)})
        track = OneWatch(BINS, Objective(min_events=1, window=10.0), 0.0)
        now, recorded, last = 0.0, 0, track.reading()
        deed = st.sampled_from(["record", "seal", "evaluate", "drop"])
        for what in data.draw(st.lists(deed, max_size=25)):
            now += data.draw(st.floats(0.0, 30.0))
            if what == "record":
                revisions = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
                track.record(now, revisions)
                recorded += len(revisions)
            elif what == "seal":
                track.seal(now, 4, clock, 0.002)
            elif what == "drop":
                track.drop()
            else:
                track.evaluate(
                    now, data.draw(st.lists(st.floats(0, 100), max_size=2)), unjudgeable=data.draw(st.booleans())
                )
                reading = track.reading()
                measured = reading.timespan.total + sum(reading.unmeasured.values())
                assert measured + track.pending == recorded
                assert counters(reading) >= counters(last)
                assert all(new >= old for new, old in zip(counters(reading), counters(last), strict=True))
                last = reading


def counters(reading: TrackReading) -> list[float]:
    return [
        *reading.timespan.counts,
        reading.timespan.sum,
        *reading.objective.verdicts.values(),
        *reading.objective.windows.values(),
        *reading.unmeasured.values(),
        reading.unresolved,
    ]
