"""The bounds of the revision clock: against their definitions, and each boundary by exact numbers."""

import math
import pickle
from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


class TestTicks:
    def test_commit_lies_between_the_start_of_one_tick_and_the_end_of_a_later_one(self) -> None:
        clock = clock_of(tick(10, 10.5, 100), tick(11, 11.25, 110))
        assert one(clock, 101, 12) == (0.75, 0.75, 2)
        assert one(clock, 110, 12) == (0.75, 0.75, 2)
        assert one(clock, 111, 12) == (0, 0, 1)

    def test_commit_is_never_after_the_arrival(self) -> None:
        clock = clock_of(tick(10, 10.5, 100), tick(11, 11.25, 110))
        assert one(clock, 105, 11.125) == (0, 0, 1.125)
        assert one(clock, 105, 11.25) == (0, 0, 1.25)

    def test_revisions_up_to_the_first_tick_are_not_measurable(self) -> None:
        clock = clock_of(tick(10, 10.5, 100), tick(11, 11.25, 110))
        assert one(clock, 100, 12) is None
        assert one(clock, 99, 12) is None
        bounds = measure(clock, (100, 12))
        assert (bounds.lower[0], bounds.upper[0]) == (1.5, INF)

    def test_nothing_is_measurable_without_ticks(self) -> None:
        assert one(RevisionClock(), 1, 12) is None
        assert not measure(RevisionClock()).measurable.size

    def test_first_revision_is_the_oldest_in_any_order_of_ticks(self) -> None:
        clock = clock_of(tick(11, 11.25, 110), tick(10, 11.5, 100))
        assert one(clock, 100, 12) is None
        assert one(clock, 101, 12) == (0.75, 0.75, 2)

    def test_measure_without_ignores_the_ticks_of_one_source(self) -> None:
        clock = clock_of(
            tick(10, 10.25, 100, "pods"),
            tick(11, 11.25, 110, "nodes"),
            tick(12, 12.25, 120, "pods"),
            tick(13, 13.25, 130, "nodes"),
        )
        assert one(clock, 115, 14) == (1.75, 1.75, 3)
        assert one(clock, 115, 14, without="leases") == (1.75, 1.75, 3)
        assert one(clock, 115, 14, without="pods") == (0.75, 1.75, 3)
        assert one(clock, 115, 14, without="nodes") == (1.75, 1.75, 4)
        assert measure(clock, (115, 14), without="nodes").proven_upper[0] == 3
        assert one(clock, 105, 14, without="pods") is None
        assert one(clock, 105, 14) == (2.75, 2.75, 4)

    def test_tick_around_an_arrival_still_gives_a_lower_bound(self) -> None:
        clock = clock_of(tick(10, 10.25, 100))
        assert one(clock, 105, 11.5) == (0, 0, 1.5)
        clock.tick(tick(11, 12, 104))
        assert one(clock, 105, 11.5) == (0, 0, 0.5)

    def test_ticks_with_equal_revisions_keep_the_tightest_bounds(self) -> None:
        clock = clock_of(*(tick(t, t + 0.25, 100) for t in range(10, 20)))
        assert one(clock, 101, 20) == (0, 0, 1)
        bounds = measure(clock, (100, 20))
        assert bounds.lower[0] == 9.75

    def test_contradicting_ticks_make_events_unmeasurable(self) -> None:
        clock = clock_of(tick(10, 10.25, 100), tick(11, 11.25, 120), tick(12, 12.25, 110))
        assert one(clock, 115, 13) is None
        bounds = measure(clock, (115, 13))
        assert (bounds.lower[0], bounds.proven[0], bounds.upper[0]) == (1.75, 1.75, INF)
        assert one(clock, 110, 13) == (1.75, 1.75, 3)
        assert one(clock, 121, 13) == (0, 0, 1)

    def test_event_that_arrived_before_a_tick_without_it_is_not_measurable(self) -> None:
        clock = clock_of(tick(10, 10.25, 100), tick(11, 11.25, 110))
        assert one(clock, 111, 10.75) is None
        assert one(clock, 111, 11) == (0, 0, 0)

    @pytest.mark.parametrize("kept", [0, 1])
    def test_more_precise_tick_of_two_equal_revisions_is_kept(self, kept: int) -> None:
        later_and_longer = [tick(11, 12, 110), tick(11.5, 11.75, 110)]
        clock = clock_of(tick(10, 10.25, 100), later_and_longer[kept], later_and_longer[1 - kept])
        assert one(clock, 110, 13) == (1.25, 1.25, 3)
        assert one(clock, 111, 13) == (0, 0, 1.5)


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


class TestTenMinutes:
    def test_event_older_than_the_oldest_tick_has_no_upper_bound(self) -> None:
        clock = clock_of(tick(10, 10.5, 100), tick(20, 20.5, 110), tick(30, 30.5, 120))
        assert one(clock, 115, 40) == (9.5, 9.5, 20)
        clock.tick(tick(629, 629.75, 130))
        assert one(clock, 115, 640) == (609.5, 609.5, 620)
        clock.tick(tick(629, 630, 131))
        assert one(clock, 115, 640) == (609.5, 609.5, INF)
        assert one(clock, 121, 640) == (10.25, 10.25, 610)
        assert one(clock, 110, 640) == (619.5, 619.5, INF)
        assert one(clock, 100, 640) is None

    def test_newest_expired_point_is_kept(self) -> None:
        clock = clock_of(tick(10, 10.5, 100), tick(5000, 5000.5, 100), tick(9000, 9000.5, 110))
        bounds = measure(clock, (100, 9001))
        assert bounds.lower[0] == 9001 - 10.5
        assert one(clock, 101, 9001) == (0.5, 0.5, 4001)

    def test_ticks_of_every_resource_are_pruned(self) -> None:
        clock = clock_of(tick(10, 10.5, 100, "pods"), tick(11, 11.5, 110, "pods"), tick(12, 12.5, 115, "nodes"))
        assert one(clock, 105, 13) == (1.5, 1.5, 3)
        clock.tick(tick(700, 700.5, 120, "nodes"))
        assert one(clock, 105, 701) == (689.5, 689.5, INF)


class TestSightings:
    @pytest.fixture
    def clock(self) -> RevisionClock:
        return clock_of(tick(10, 10.25, 100))

    def test_sighting_counts_after_a_later_tick_reached_its_revision(self, clock: RevisionClock) -> None:
        clock.sight(10.5, 105, 1)
        assert one(clock, 105, 12) == (0, 0, 2)
        clock.tick(tick(11, 11.25, 105))
        assert one(clock, 104, 12) == (0.75, 1.5, 2)
        assert one(clock, 105, 12) == (0.75, 1.5, 2)
        assert one(clock, 106, 12) == (0, 0, 1)

    def test_sighting_waits_for_a_tick_sent_after_its_arrival(self, clock: RevisionClock) -> None:
        clock.sight(10.5, 105, 1)
        assert clock.tick(tick(10.5, 11.25, 110)) == frozenset()
        assert one(clock, 105, 12) == (0.75, 0.75, 2)
        assert clock.tick(tick(10.75, 11.5, 110)) == frozenset()
        assert one(clock, 105, 12) == (0.75, 1.5, 2)

    def test_earlier_tick_does_not_revoke_a_confirmation(self, clock: RevisionClock) -> None:
        clock.sight(10.5, 105, 1)
        clock.tick(tick(11, 11.25, 110))
        clock.tick(tick(10.375, 11.5, 102))
        assert one(clock, 105, 12) == (0.75, 1.5, 1.625)

    def test_proven_time_is_never_after_the_arrival(self, clock: RevisionClock) -> None:
        clock.sight(10.5, 105, 1)
        clock.tick(tick(11, 11.25, 110))
        assert one(clock, 103, 10.375) == (0, 0, 0.375)

    def test_watch_ahead_of_a_later_tick_is_of_another_sequence(self, clock: RevisionClock) -> None:
        clock.sight(10.5, 105, 1)
        clock.sight(10.75, 106, 2)
        assert clock.tick(tick(11, 11.25, 105)) == {2}
        assert one(clock, 105, 12) == (0.75, 1.5, 2)
        assert one(clock, 106, 12) == (0, 0, 1)
        assert clock.tick(tick(13, 13.25, 110)) == frozenset()
        assert one(clock, 106, 14) == (0.75, 0.75, 3)

    def test_violation_drops_confirmed_sightings_too(self, clock: RevisionClock) -> None:
        clock.sight(10.5, 105, 2)
        clock.sight(10.625, 106, 1)
        clock.tick(tick(11, 11.25, 110))
        assert one(clock, 105, 12) == (0.75, 1.5, 2)
        clock.sight(11.5, 900, 2)
        clock.sight(11.625, 901, 3)
        assert clock.tick(tick(12, 12.25, 120)) == {2, 3}
        assert one(clock, 105, 12) == (0.75, 1.375, 2)

    def test_slow_tick_reveals_a_confirmed_violator(self, clock: RevisionClock) -> None:
        clock.sight(10.5, 105, 1)
        assert clock.tick(tick(11, 11.25, 110)) == frozenset()
        assert clock.tick(tick(10.75, 11.5, 104)) == {1}
        assert one(clock, 103, 12) == (0.75, 0.75, 2)

    def test_sighting_that_contradicts_the_ticks_proves_nothing(self, clock: RevisionClock) -> None:
        clock.tick(tick(11, 11.25, 101))
        clock.sight(10.5, 105, 1)  # added too late to be checked against the tick before
        clock.tick(tick(12, 12.25, 110))
        assert one(clock, 101, 13) == (1.75, 2.5, 3)
        assert one(clock, 105, 13) == (0.75, 0.75, 2)

    def test_sighting_at_the_start_of_a_tick_without_it_is_exact(self, clock: RevisionClock) -> None:
        clock.tick(tick(10.5, 10.75, 104))
        clock.sight(10.5, 105, 1)
        clock.tick(tick(11, 11.25, 110))
        assert one(clock, 105, 12) == (0.75, 1.5, 1.5)

    def test_older_sightings_are_ignored(self, clock: RevisionClock) -> None:
        clock.sight(10.5, 105, 1)
        clock.sight(10.75, 105, 2)
        clock.sight(10.75, 104, 2)
        clock.forget(1)
        clock.tick(tick(11, 11.25, 110))
        assert one(clock, 104, 12) == (0.75, 0.75, 2)

    def test_older_sightings_are_ignored_after_a_tick_too(self, clock: RevisionClock) -> None:
        clock.sight(10.5, 105, 1)
        clock.tick(tick(11, 11.25, 110))
        clock.sight(11.5, 104, 2)
        clock.tick(tick(12, 12.25, 120))
        assert one(clock, 105, 13) == (1.75, 2.5, 3)

    def test_revisions_are_compared_in_all_64_bits(self, clock: RevisionClock) -> None:
        even, odd = 2**53, 2**53 + 1  # the first two integers that are equal as floats
        clock.sight(10.5, even, even)
        clock.sight(10.75, odd, odd)
        clock.tick(tick(11, 11.25, odd))
        assert one(clock, odd, 12) == (0.75, 1.25, 2)
        clock.forget(even)
        assert one(clock, odd, 12) == (0.75, 1.25, 2)

    def test_one_sighting_per_two_milliseconds_is_kept(self) -> None:
        clock = clock_of(tick(-1, -0.75, 100))
        clock.sight(0.0, 105, 1)
        clock.sight(0.0019, 106, 1)
        clock.sight(0.002, 107, 1)
        clock.tick(tick(1, 1.25, 110))
        assert one(clock, 106, 2) == (0.75, 2 - 0.002, 3)
        assert one(clock, 105, 2) == (0.75, 2, 3)

    def test_forgotten_watch_has_no_sightings_and_blocks_no_others(self, clock: RevisionClock) -> None:
        clock.sight(10.5, 105, 1)
        clock.sight(10.75, 900, 2)
        clock.forget(2)
        clock.sight(10.7509, 106, 3)
        clock.forget(4)
        assert clock.tick(tick(11, 11.25, 110)) == frozenset()
        assert one(clock, 105, 12) == (0.75, 1.5, 2)
        assert one(clock, 106, 12) == (0.75, 12 - 10.7509, 2)

    def test_one_sighting_per_two_milliseconds_is_kept_after_forget(self, clock: RevisionClock) -> None:
        clock.sight(10.5, 105, 1)
        clock.forget(2)
        clock.sight(10.501, 106, 1)
        clock.tick(tick(11, 11.25, 110))
        assert one(clock, 106, 12) == (0.75, 0.75, 2)

    def test_forget_drops_confirmed_sightings(self, clock: RevisionClock) -> None:
        clock.sight(10.5, 104, 1)
        clock.sight(10.625, 105, 2)
        clock.tick(tick(11, 11.25, 110))
        clock.sight(11.5, 111, 1)
        clock.forget(1)
        assert one(clock, 104, 12) == (0.75, 1.375, 2)
        clock.forget(2)
        assert one(clock, 104, 12) == (0.75, 0.75, 2)
        clock.sight(11.5, 111, 3)
        clock.tick(tick(12, 12.25, 112))
        assert one(clock, 111, 13) == (0.75, 1.5, 2)


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

    def test_read_of_another_resource_cuts(self) -> None:
        clock = clock_of(tick(10, 10.25, 100), tick(13, 13.25, 130))
        clock.add_read(tick(11, 11.25, 110, "nodes"))
        clock.add_read(tick(12, 12.25, 120, "nodes"))
        assert one(clock, 115, 14, without="pods") == (1.75, 1.75, 3)

    def test_read_through_its_own_cache_bounds_but_does_not_cut(self) -> None:
        clock = clock_of(tick(10, 10.25, 100), tick(13, 13.25, 130))
        clock.add_read(tick(11, 11.25, 110, "pods"))
        clock.add_read(tick(12, 12.25, 120, "pods"))
        assert one(clock, 115, 14, without="pods") == (0.75, 1.75, 4)
        assert measure(clock, (115, 14), without="pods").proven_upper[0] == 3
        assert one(clock, 115, 14) == (1.75, 1.75, 3), "of a resource that is not cached"

    def test_resources_of_one_bucket_share_what_is_left_out(self) -> None:
        clock = clock_of(tick(10, 10.25, 100), tick(13, 13.25, 130))
        clock.add_read(tick(11, 11.25, 110, "configmaps"))
        assert one(clock, 115, 14, without="pods") == (0.75, 0.75, 4)
        assert one(clock, 115, 14, without="nodes") == (0.75, 0.75, 3)

    def test_read_is_no_evidence_of_an_apiserver_alone(self) -> None:
        clock = clock_of(tick(10, 10.25, 100), tick(13, 13.25, 130))
        clock.add_read(tick(11, 11.25, 110, "nodes"))
        assert one(clock, 115, 14, only=SERVICE) == (0.75, 0.75, 4)

    def test_read_changes_no_round_trip_and_no_latest_tick(self) -> None:
        clock = clock_of(tick(10, 10.25, 100), tick(13, 13.25, 130))
        before = clock.median_round_trip, clock.latest, clock.newest, clock.interval, clock.newest_before(20)
        clock.add_read(tick(14, 14.75, 140, "nodes"))
        assert (clock.median_round_trip, clock.latest, clock.newest, clock.interval, clock.newest_before(20)) == before

    def test_evidence_that_contradicts_itself_proves_nothing(self) -> None:
        clock = clock_of(tick(10, 10.25, 100), tick(13, 13.25, 130))
        clock.add_read(tick(12, 12.25, 110, "pods"))
        clock.add_read(tick(11, 11.25, 120, "pods"))
        bounds = measure(clock, (115, 14), without="pods")
        assert (bounds.proven[0], bounds.proven_upper[0]) == (0.75, 4)

    def test_reads_expire_with_the_ticks(self) -> None:
        clock = clock_of(tick(10, 10.25, 100))
        for number in range(100):
            clock.add_read(tick(20 + number, 20.25 + number, 110 + number, "nodes"))
        clock.tick(tick(1200, 1200.25, 300))
        new = clock_of(tick(10, 10.25, 100), tick(1200, 1200.25, 300))
        new.add_read(tick(20, 20.25, 110, "nodes"))
        assert len(pickle.dumps(clock)) < len(pickle.dumps(new)) + 200

    def test_latest_tick_of_each_apiserver_is_known_until_it_leaves(self) -> None:
        late, latest = tick(11, 11.5, 110, apiserver="a"), tick(12, 12.25, 120, apiserver="a")
        clock = clock_of(latest, late, tick(13, 13.25, 130, apiserver="b"))
        assert clock.latest_of("a") == latest
        clock.leave("a")
        assert clock.latest_of("a") is None


class TestHealth:
    def test_empty_clock_has_no_figures(self) -> None:
        clock = RevisionClock()
        assert (clock.latest, clock.newest, clock.interval, clock.median_round_trip) == (None, None, None, None)
        assert (clock.newest_before(1e9), clock.oldest_after(-1e9)) == (BEFORE_ALL, AFTER_ALL)

    def test_one_tick_gives_no_interval(self) -> None:
        clock = clock_of(tick(10, 10.25, 100))
        assert (clock.latest, clock.newest, clock.interval) == (tick(10, 10.25, 100), 100, None)
        assert clock.median_round_trip == 0.25

    def test_interval_spans_the_last_two_ticks(self) -> None:
        clock = clock_of(tick(10, 10.25, 100), tick(11, 11.5, 110), tick(10.5, 12, 120))
        assert clock.latest == tick(11, 11.5, 110)
        assert clock.newest == 120
        assert clock.interval == 1
        clock.tick(tick(12, 12.25, 119, "pods"))
        assert clock.interval == 1.25
        assert clock.newest == 120

    def test_median_round_trip_is_of_the_last_minute(self) -> None:
        clock = clock_of(*(tick(t, t + 0.5, 100) for t in range(60)), *(tick(t, t + 0.25, 100) for t in range(60, 90)))
        assert clock.median_round_trip == 0.5
        clock.tick(tick(90, 90.25, 100))
        assert clock.median_round_trip == 0.25

    def test_median_round_trip_is_one_of_them(self) -> None:
        assert clock_of(tick(1, 1.25, 100), tick(2, 2.5, 100)).median_round_trip == 0.25

    def test_median_round_trip_of_rare_ticks_is_of_the_last_eleven(self) -> None:
        ticks = (
            [tick(30 * t, 30 * t + 0.5, 100) for t in range(6)],
            [tick(30 * t, 30 * t + 0.25, 100) for t in range(6, 11)],
        )
        clock = clock_of(*ticks[0], *ticks[1])
        assert clock.median_round_trip == 0.5
        clock.tick(tick(330, 330.25, 100))
        assert clock.median_round_trip == 0.25

    def test_recent_round_trip_follows_a_change_after_three_ticks(self) -> None:
        clock = clock_of(*(tick(t, t + 0.125, 100) for t in range(60)))
        assert clock.recent_round_trip_of("elsewhere") is None
        found = []
        for t in range(60, 64):
            clock.tick(tick(t, t + 0.5, 100))
            found.append((clock.recent_round_trip_of(SERVICE), clock.median_round_trip_of(SERVICE)))
        assert found == [(0.125, 0.125)] * 2 + [(0.5, 0.125)] * 2

    def test_newest_before_and_oldest_after_a_moment(self) -> None:
        clock = clock_of(tick(10, 10.5, 100, "pods"), tick(11, 11.5, 110, "nodes"), tick(12, 12.5, 120, "pods"))
        assert [clock.newest_before(t) for t in (10.5, 10.75, 11.5, 11.75, 13)] == [BEFORE_ALL, 100, 100, 110, 120]
        assert [clock.oldest_after(t) for t in (9, 10, 10.75, 11, 12)] == [100, 110, 110, 120, AFTER_ALL]

    def test_cleared_clock_equals_a_new_one(self) -> None:
        clock = clock_of(tick(10, 10.25, 100))
        clock.sight(10.5, 105, 1)
        clock.tick(tick(11, 11.25, 110))
        clock.clear()
        assert (clock.latest, clock.newest, clock.median_round_trip) == (None, None, None)
        clock.tick(tick(12, 12.5, 50))
        assert clock.median_round_trip == 0.5
        clock.tick(tick(13, 13.25, 107))
        assert one(clock, 105, 14) == (0.75, 0.75, 2)


class TestApiservers:
    """Ticks through several apiservers: the fast ones see the delay that the slow one hides."""

    def clock(self) -> RevisionClock:
        slow = [tick(t, t + 0.5, 100 + int(20 * (t - 10 + 0.5)), apiserver="slow") for t in (10, 11, 12)]
        fast = [tick(t, t + 0.125, 100 + int(20 * (t - 10)), apiserver="fast") for t in (10.25, 11.25, 12.25)]
        return clock_of(*sorted(slow + fast, key=lambda reading: reading.sent))

    def test_bounds_are_the_tightest_over_all_apiservers(self) -> None:
        assert one(self.clock(), 126, 13) == (13 - 11.5, 13 - 11.5, 13 - 11.25)
        assert one(self.clock(), 126, 13, only="fast") == (13 - 12.375, 13 - 12.375, 13 - 11.25)
        assert one(self.clock(), 126, 13, only="slow") == (13 - 11.5, 13 - 11.5, 13 - 10)
        assert one(self.clock(), 126, 13, only="other") is None

    def test_measure_only_ignores_sightings(self) -> None:
        clock = self.clock()
        clock.sight(11.375, 126, 1)
        clock.tick(tick(13, 13.125, 160, apiserver="fast"))
        assert one(clock, 126, 13) == (13 - 11.5, 13 - 11.375, 13 - 11.25)
        assert one(clock, 126, 13, only="slow") == (13 - 11.5, 13 - 11.5, 13 - 10)

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

    def test_median_round_trip_is_that_of_the_fastest_apiserver(self) -> None:
        clock = self.clock()
        assert clock.median_round_trip == clock.median_round_trip_of("fast") == 0.125
        assert clock.median_round_trip_of("slow") == 0.5
        clock.leave("fast")
        assert clock.median_round_trip == 0.5
        assert clock.median_round_trip_of("fast") is None
        clock.leave("fast")

    def test_bounds_stay_the_same_after_an_apiserver_has_left(self) -> None:
        clock, same = self.clock(), self.clock()
        clock.leave("fast")
        assert clock.newest_before(11.5) == same.newest_before(11.5) == 125
        assert clock.oldest_after(11.125) == same.oldest_after(11.125) == 125
        for revision in range(98, 142):
            assert one(clock, revision, 13) == one(same, revision, 13)

    def test_event_is_not_measured_alone_by_ticks_of_a_former_apiserver(self) -> None:
        clock = self.clock()
        clock.leave("fast")
        assert one(clock, 115, 13, only="fast") is None
        assert one(clock, 115, 13, only="slow") == one(self.clock(), 115, 13, only="slow")

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
