"""The bounds of the revision clock: against their definitions, and each boundary by exact numbers."""

import math
import pickle
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import GOLDEN
from tests.support.transcripts import Step, calls, replay
from watchslo.clock.revision import SIGHTINGS, Origins, RevisionClock
from watchslo.clock.staircase import AFTER_ALL, BEFORE_ALL, Ends, Starts
from watchslo.model import SERVICE, Bounds, Reading

INF = math.inf


def tick(sent: float, answered: float, revision: int, resource: str = "events", apiserver: str = SERVICE) -> Reading:
    return Reading(resource, sent, answered, revision, apiserver)


def clock_of(*readings: Reading) -> RevisionClock:
    clock = RevisionClock()
    for reading in readings:
        assert clock.tick(reading) == frozenset()
    return clock


def measure(
    clock: RevisionClock, *events: tuple[int, float], without: str | None = None, only: str | None = None
) -> Bounds:
    revisions = np.array([revision for revision, _ in events], dtype=np.int64)
    source = only or SERVICE, without or "watched"
    origins = Origins(np.zeros(len(events), dtype=np.int64), [source], [without is not None])
    return clock.measure(revisions, np.array([received for _, received in events]), origins, alone=only is not None)


def one(
    clock: RevisionClock, revision: int, received: float, without: str | None = None, only: str | None = None
) -> tuple[float, float, float] | None:
    """Return (lower, proven, upper) of one event, or None if it is not measurable."""
    bounds = measure(clock, (revision, received), without=without, only=only)
    if not bounds.measurable[0]:
        return None
    return float(bounds.lower[0]), float(bounds.proven[0]), float(bounds.upper[0])


class DrivenClock:
    """A revision clock whose readings are written as words."""

    def __init__(self) -> None:
        self.clock = RevisionClock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.clock, name)

    def tick(
        self, sent: float, answered: float, revision: int, resource: str = "events", apiserver: str = SERVICE
    ) -> frozenset[int]:
        return self.clock.tick(tick(sent, answered, revision, resource, apiserver))

    def read(self, sent: float, answered: float, revision: int, resource: str) -> None:
        self.clock.add_read(tick(sent, answered, revision, resource))

    def one(self, revision: int, received: float, without: str | None = None, only: str | None = None) -> str:
        """Return lower, proven, proven upper and upper."""
        bounds = measure(self.clock, (revision, received), without=without, only=only)
        ends = (bounds.lower, bounds.proven, bounds.proven_upper, bounds.upper)
        known = "" if bounds.measurable[0] else "not measurable, "
        return known + " ".join(f"{float(end[0]):g}" for end in ends)


def begin(_: str) -> Step:
    driven = calls(DrivenClock())

    def step(text: str) -> str | None:
        outcome = driven(text)
        return None if outcome in (None, "nothing") else _named(outcome)

    return step


def _named(outcome: str) -> str:
    return outcome.replace(str(BEFORE_ALL), "before all").replace(str(AFTER_ALL), "after all")


def test_clock_does_what_its_transcripts_say(golden: Callable[[str, str], None]) -> None:
    golden("revision-clock.txt", replay((GOLDEN / "revision-clock.txt").read_text(), begin))


class TestStaircases:
    """A point that adds no information to another one, of the same revision or the same time, is not kept."""

    def test_starts_keep_only_informative_points(self) -> None:
        starts = Starts()
        for revision, time in ((100, 11.0), (100, 10.0), (110, 12.0), (105, 12.0)):
            starts.add(revision, time)
        assert starts._revisions.tolist() == [BEFORE_ALL, 100, 105, AFTER_ALL]
        assert starts._times.tolist() == [-INF, 11, 12, INF]

    def test_ends_keep_only_informative_points(self) -> None:
        ends = Ends()
        for revision, time in ((110, 11.0), (100, 11.0), (110, 10.5)):
            ends.add(revision, time)
        assert ends._revisions.tolist() == [BEFORE_ALL, 110, AFTER_ALL]
        assert ends._times.tolist() == [-INF, 10.5, INF]


class TestSightings:
    def test_revisions_are_compared_in_all_64_bits(self) -> None:
        clock = clock_of(tick(10, 10.25, 100))
        even, odd = 2**53, 2**53 + 1  # the first two integers that are equal as floats
        clock.sight(10.5, even, even)
        clock.sight(10.75, odd, odd)
        clock.tick(tick(11, 11.25, odd))
        assert one(clock, odd, 12) == (0.75, 1.25, 2)
        clock.forget(even)
        assert one(clock, odd, 12) == (0.75, 1.25, 2)


class TestManySightings:
    """A full store is thinned: it keeps the last ten seconds, and one sighting per 50 ms of the last ten minutes."""

    def filled(self, spacing: float) -> tuple[RevisionClock, float]:
        clock = clock_of(tick(-1, -0.75, 0))
        for number in range(SIGHTINGS):
            clock.sight(number * spacing, number + 1, 1)
        end = SIGHTINGS * spacing
        clock.tick(tick(end, end + 5, SIGHTINGS))
        return clock, end

    def proven(self, clock: RevisionClock, received: float) -> list[float]:
        bounds = measure(clock, *((number + 1, received) for number in range(SIGHTINGS)))
        return [received - late for late in bounds.proven.tolist()]

    def test_nothing_is_thinned_before_the_store_is_full(self) -> None:
        clock, end = self.filled(1 / 256)
        assert end == 78.125
        assert self.proven(clock, 128.0) == [number / 256 for number in range(SIGHTINGS)]

    def test_older_dense_sightings_are_thinned_first(self) -> None:
        clock, end = self.filled(1 / 256)
        clock.sight(end, SIGHTINGS + 1, 1)
        times = [number / 256 for number in range(SIGHTINGS)]
        last_of_span = {int(time // 0.05): time for time in times}.values()
        kept = sorted({*last_of_span, *(time for time in times if time >= end - 10)})
        assert self.proven(clock, 128.0) == [kept[bisect_left(kept, time)] for time in times]
        assert len(kept) == 2560 + 1362

    def test_last_sighting_before_a_silence_is_kept(self) -> None:
        clock, end = self.filled(1 / 256)
        clock.sight(end + 20, SIGHTINGS + 1, 1)
        assert self.proven(clock, 128.0)[-1] == end - 1 / 256

    def test_sightings_older_than_ten_minutes_are_dropped(self) -> None:
        clock, end = self.filled(1 / 16)
        clock.sight(end, SIGHTINGS + 1, 1)
        expected = [max(number / 16, end - 600) for number in range(SIGHTINGS)]
        assert self.proven(clock, 2048.0) == expected

    def test_full_store_accepts_new_sightings(self) -> None:
        clock, end = self.filled(1 / 256)
        for number in range(SIGHTINGS):
            clock.sight(end + number / 256, SIGHTINGS + number + 1, 2)
        clock.tick(tick(200, 200.25, 3 * SIGHTINGS))
        bounds = measure(clock, (SIGHTINGS + 1, 201), (2 * SIGHTINGS, 201))
        assert 201 - end - bounds.proven[0] <= 0.05
        assert bounds.proven[1] == 201 - end - (SIGHTINGS - 1) / 256
        clock.forget(1)
        clock.forget(2)
        bounds = measure(clock, (SIGHTINGS + 1, 201))
        assert bounds.proven[0] == 0.75

    def test_thinned_sightings_stay_unconfirmed(self) -> None:
        clock = clock_of(tick(-1, -0.75, 0))
        for number in range(SIGHTINGS + 1):
            clock.sight(number / 256, number + 1, 1 + number % 2)
        assert one(clock, 1, 128) == (0, 0, 129)
        assert clock.tick(tick(100, 101, 10)) == {1, 2}
        assert one(clock, 1, 128) == (27, 27, 129)


class TestReads:
    """Reads that are no ticks."""

    def test_reads_expire_with_the_ticks(self) -> None:
        clock = clock_of(tick(10, 10.25, 100))
        for number in range(100):
            clock.add_read(tick(20 + number, 20.25 + number, 110 + number, "nodes"))
        clock.tick(tick(1200, 1200.25, 300))
        new = clock_of(tick(10, 10.25, 100), tick(1200, 1200.25, 300))
        new.add_read(tick(20, 20.25, 110, "nodes"))
        assert len(pickle.dumps(clock)) < len(pickle.dumps(new)) + 200


class TestHealth:
    def test_median_round_trip_is_of_the_last_minute(self) -> None:
        clock = clock_of(*(tick(t, t + 0.5, 100) for t in range(60)), *(tick(t, t + 0.25, 100) for t in range(60, 90)))
        assert clock.median_round_trip == 0.5
        clock.tick(tick(90, 90.25, 100))
        assert clock.median_round_trip == 0.25


class TestApiservers:
    """Ticks through several apiservers: the fast ones see the delay that the slow one hides."""

    def clock(self) -> RevisionClock:
        slow = [tick(t, t + 0.5, 100 + int(20 * (t - 10 + 0.5)), apiserver="slow") for t in (10, 11, 12)]
        fast = [tick(t, t + 0.125, 100 + int(20 * (t - 10)), apiserver="fast") for t in (10.25, 11.25, 12.25)]
        return clock_of(*sorted(slow + fast, key=lambda reading: reading.sent))

    def test_measure_without_ignores_one_resource_of_one_apiserver(self) -> None:
        clock = clock_of(tick(10, 10.5, 100, "pods", "one"), tick(11, 11.5, 110, "pods", "other"))
        clock.tick(tick(12, 12.5, 120, "pods", "one"))
        origins = Origins(
            np.array([0, 1, 2]), [("one", "pods"), ("one", "pods"), ("other", "nodes")], [True, False, True]
        )
        bounds = clock.measure(np.array([115] * 3), np.array([13.0] * 3), origins)
        assert bounds.lower.tolist() == [0, 0.5, 0.5]
        assert bounds.upper.tolist() == [2, 2, 2]
        assert bounds.measurable.all()

    def test_measure_alone_ignores_the_watched_cache_and_other_apiservers(self) -> None:
        clock = clock_of(tick(10, 10.5, 100, "pods", "one"), tick(11, 11.5, 110, "nodes", "one"))
        clock.tick(tick(12, 12.5, 120, "pods", "one"))
        clock.tick(tick(12.5, 12.75, 120, "pods", "other"))
        origins = Origins(np.array([0, 1, 2]), [("one", "pods"), ("one", "nodes"), ("third", "pods")], [True] * 3)
        bounds = clock.measure(np.array([115] * 3), np.array([13.0] * 3), origins, alone=True)
        assert bounds.measurable.tolist() == [True, True, False]
        assert bounds.lower[:2].tolist() == [0, 0.5]
        assert bounds.upper[:2].tolist() == [2, 3]

    def test_bounds_stay_the_same_after_an_apiserver_has_left(self) -> None:
        clock, same = self.clock(), self.clock()
        clock.leave("fast")
        assert clock.newest_before(11.5) == same.newest_before(11.5) == 125
        assert clock.oldest_after(11.125) == same.oldest_after(11.125) == 125
        for revision in range(98, 142):
            assert one(clock, revision, 13) == one(same, revision, 13)

    def test_source_that_was_not_ticked_on_for_ten_minutes_joins_the_former_ones(self) -> None:
        clock = clock_of(tick(10, 10.5, 100, "pods"), tick(11, 11.5, 110, "nodes"))
        clock.tick(tick(611, 611.25, 120, "events"))
        assert set(clock._ticks) == {(SERVICE, "nodes"), (SERVICE, "events")}
        assert one(clock, 115, 612, without="pods") == (0.75, 0.75, 601)
        assert one(clock, 105, 612, without="pods") == (600.5, 600.5, 602)

    def test_hundred_former_apiservers_leave_one_staircase(self) -> None:
        clock, time = clock_of(tick(0, 0.125, 100)), 0.0
        for number in range(100):
            for _ in range(10):
                time += 0.5
                clock.tick(tick(time, time + 0.125, 100 + int(20 * time), apiserver=f"10.0.0.{number}"))
            clock.leave(f"10.0.0.{number}")
        assert set(clock._ticks) == {(SERVICE, "events")}
        assert one(clock, 201, 500) == (494.375, 494.375, 495)
        clock.tick(tick(2000, 2000.125, 50_000))
        new = clock_of(tick(0, 0.125, 100), tick(2000, 2000.125, 50_000))
        assert len(pickle.dumps(clock)) < len(pickle.dumps(new)) + 200


eighths = st.integers(0, 64).map(lambda n: n / 8)
readings = st.builds(
    lambda resource, sent, took, revision: Reading(resource, sent, sent + took, revision),
    st.sampled_from(["pods", "nodes"]),
    eighths,
    eighths,
    st.integers(90, 110),
)


@given(st.lists(readings, max_size=12), st.lists(st.tuples(st.integers(88, 112), eighths), max_size=8))
def test_bounds_match_the_definition_for_any_ticks(ticks: list[Reading], events: list[tuple[int, float]]) -> None:
    clock = RevisionClock()
    for reading in ticks:
        clock.tick(reading)
    for without in (None, "pods", "nodes"):
        bounds = measure(clock, *events, without=without)
        used = [reading for reading in ticks if reading.resource != without]
        for k, (revision, received) in enumerate(events):
            start = max((reading.sent for reading in used if reading.revision < revision), default=-INF)
            end = min([received, *(reading.answered for reading in used if reading.revision >= revision)])
            assert bounds.lower[k] == received - end
            assert bounds.upper[k] == (received - start if start <= end else INF)
            assert bounds.measurable[k] == (-INF < start <= end)
            since = max([start, *(reading.sent for reading in ticks if reading.revision < revision)])
            until = min([end, *(reading.answered for reading in ticks if reading.revision >= revision)])
            if bounds.measurable[k]:
                expected = (since, until) if since <= until else (start, end)
                assert (received - bounds.proven_upper[k], received - bounds.proven[k]) == expected


@given(st.lists(readings, max_size=12), st.lists(readings, max_size=12))
def test_merged_staircases_equal_one_of_all_points(some: list[Reading], others: list[Reading]) -> None:
    every, revisions = Starts(), np.arange(88, 113)
    starts, ends, ends_of_all = Starts(), Ends(), Ends()
    other_starts, other_ends = Starts(), Ends()
    for readings_of, its_starts, its_ends in ((some, starts, ends), (others, other_starts, other_ends)):
        for reading in readings_of:
            for start in (its_starts, every):
                start.add(reading.revision, reading.sent)
            for end in (its_ends, ends_of_all):
                end.add(reading.revision, reading.answered)
    starts.merge(other_starts)
    ends.merge(other_ends)
    assert starts.at(revisions).tolist() == every.at(revisions).tolist()
    assert ends.at(revisions).tolist() == ends_of_all.at(revisions).tolist()
    assert len(pickle.dumps((starts, ends))) == len(pickle.dumps((every, ends_of_all)))


@given(st.lists(readings, max_size=12), eighths)
def test_newest_before_and_oldest_after_match_the_definition(ticks: list[Reading], time: float) -> None:
    clock = RevisionClock()
    for reading in ticks:
        clock.tick(reading)
    before = [reading.revision for reading in ticks if reading.answered < time]
    after = [reading.revision for reading in ticks if reading.sent > time]
    assert clock.newest_before(time) == max(before, default=BEFORE_ALL)
    assert clock.oldest_after(time) == min(after, default=AFTER_ALL)


@given(st.lists(readings, max_size=6), st.lists(st.tuples(eighths, st.integers(90, 112), st.integers(1, 2))), readings)
def test_bounds_are_ordered_for_any_input(
    ticks: list[Reading], sightings: list[tuple[float, int, int]], last: Reading
) -> None:
    clock = RevisionClock()
    for reading in ticks:
        clock.tick(reading)
    for received, revision, stream in sightings:
        clock.sight(received, revision, stream)
    clock.tick(last)
    bounds = measure(clock, *((revision, n / 4) for revision in range(88, 114) for n in range(36)))
    assert np.all(bounds.lower >= 0)
    assert np.all(bounds.lower <= bounds.proven)
    assert np.all(bounds.proven <= bounds.upper)


class TestTimes:
    def test_has_the_ticks_of_the_longest_window_until_it_is_given_up(self) -> None:
        clock = clock_of(tick(10, 10.5, 100), tick(600, 600.5, 110), tick(1312, 1312.5, 120))
        assert clock.times.between(0, 1400).sent.tolist() == [600, 1312]

    def test_shows_what_ticks_hid(self) -> None:
        clock = clock_of(*(tick(at, at + 0.1, 100) for at in range(10)), tick(10, 13, 100))
        assert clock.hidden(60.0, 0.5) == 0.0
        assert clock.hidden(60.0, 1.0) == pytest.approx(3.9)

    def test_is_empty_after_a_reset(self) -> None:
        clock = clock_of(tick(10, 10.5, 100))
        clock.clear()
        assert not len(clock.times.between(0, 700).sent)
