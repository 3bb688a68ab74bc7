"""What reads of a watch cache say of when revisions reached it, and what they must not be taken for."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchslo.clock.cache import (
    DISTRUST_SECONDS,
    KEPT_SECONDS,
    RECENT_SECONDS,
    WIDEST_SECONDS,
    CacheClock,
)
from watchslo.model import Bounds, FloatArray, IntArray, Interval, Reading

INF = math.inf
TRIP = 0.01


def clock_of(*reads: tuple[float, int]) -> CacheClock:
    """Of reads sent at those times, which found those revisions."""
    clock = CacheClock()
    for sent, revision in reads:
        read(clock, sent, revision)
    return clock


def read(clock: CacheClock, sent: float, revision: int, took: float = TRIP) -> None:
    clock.add(Reading("pods", sent, sent + took, revision, "10.0.0.1:6443"))


def locate(clock: CacheClock, *events: tuple[int, float]) -> list[tuple[float, float]]:
    """Of events given as (revision, received)."""
    revisions, received = zip(*events, strict=True)
    start, end = clock.locate(np.array(revisions), np.array(received, dtype=np.float64))
    return list(zip(start.tolist(), end.tolist(), strict=True))


def unknown(located: list[tuple[float, float]]) -> list[bool]:
    return [start == -INF for start, _ in located]


class TestLocate:
    @pytest.mark.parametrize(
        ("revision", "received", "start", "end"),
        [
            (11, 9.0, 1.0, 1.2 + TRIP),
            (12, 9.0, 1.0, 1.2 + TRIP),
            (13, 9.0, 1.2, 1.4 + TRIP),
            (15, 9.0, 1.2, 1.4 + TRIP),
            (15, 1.405, 1.2, 1.405),  # it was delivered before that read was answered
            (16, 1.9, 1.4, 1.9),  # no read has it yet
            (10, 1.0, -INF, 1.0),  # it was there before the first read
            (3, 0.5, -INF, 0.5),
        ],
    )
    def test_between_the_last_read_without_it_and_the_first_with_it(
        self, revision: int, received: float, start: float, end: float
    ) -> None:
        clock = clock_of((1.0, 10), (1.2, 12), (1.4, 15))
        assert locate(clock, (revision, received)) == [(start, end)]

    def test_nothing_without_reads(self) -> None:
        assert locate(CacheClock(), (7, 1.5)) == [(-INF, 1.5)]

    def test_no_events(self) -> None:
        start, end = clock_of((1.0, 10)).locate(np.array([], dtype=np.int64), np.array([]))
        assert len(start) == len(end) == 0

    @pytest.mark.parametrize(("gap", "is_unknown"), [(WIDEST_SECONDS - 0.1, False), (WIDEST_SECONDS + 0.1, True)])
    def test_not_where_reads_are_far_apart(self, gap: float, *, is_unknown: bool) -> None:
        clock = clock_of((1.0, 10), (1.0 + gap, 12))
        assert unknown(locate(clock, (12, 60.0))) == [is_unknown]

    def test_forgets_after_ten_minutes(self) -> None:
        clock = clock_of((1.0, 10), (1.2, 12), (1.4, 15), (0.9 + KEPT_SECONDS, 16))
        assert unknown(locate(clock, (11, 1.3), (13, 1.5))) == [False, False]
        read(clock, 1.5 + KEPT_SECONDS, 17)
        assert unknown(locate(clock, (11, 1.3), (13, 1.5), (15, 1.5))) == [True, True, True]

    @given(
        st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=30),
        st.lists(st.tuples(st.floats(0.0, 0.4), st.floats(0.0, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=30),
    )
    def test_is_never_wrong(self, events: list[tuple[float, float]], reads: list[tuple[float, float, float]]) -> None:
        """Events a gap after one another, each so long in the cache before it is delivered; reads that overlap."""
        cached = np.cumsum([gap for gap, _ in events])
        received = np.maximum.accumulate(cached + [wait for _, wait in events])
        sent = np.cumsum([gap for gap, _, _ in reads])
        answers = [
            Reading("pods", at, at + took, int(cached.searchsorted(at + took * share, side="right")))
            for at, (_, took, share) in zip(sent.tolist(), reads, strict=True)
        ]
        clock = CacheClock()
        for answer in sorted(answers, key=lambda answer: answer.answered):
            clock.add(answer)
        start, end = clock.locate(np.arange(1, len(events) + 1), received)
        assert clock.contradictions == 0
        assert (start <= cached).all()
        assert (cached <= end).all()
        assert (end <= received).all()


class TestContradictions:
    def test_a_cache_that_goes_back_is_forgotten_and_not_believed_for_a_while(self) -> None:
        clock = clock_of((1.0, 10), (1.2, 20), (1.4, 15))
        assert clock.contradictions == 1
        assert unknown(locate(clock, (12, 9.0), (16, 1.5), (21, 1.5))) == [True, True, True]
        believed = 1.4 + TRIP + DISTRUST_SECONDS
        read(clock, believed - 0.1, 30)
        read(clock, believed + 0.1, 32)
        read(clock, believed + 0.3, 40)
        located = locate(clock, (31, INF), (33, INF))
        assert unknown(located) == [True, False]
        assert located[1] == pytest.approx((believed + 0.1, believed + 0.3 + TRIP))
        assert clock.contradictions == 1

    def test_each_one_counts(self) -> None:
        clock = clock_of((1.0, 20), (1.2, 10), (1.4, 21), (1.6, 11))
        assert clock.contradictions == 2

    def test_reads_that_overlap_may_answer_in_either_order(self) -> None:
        clock = CacheClock()
        read(clock, 1.1, 12, took=0.1)
        read(clock, 1.0, 11, took=0.5)
        assert clock.contradictions == 0
        (located,) = locate(clock, (12, 9.0))
        assert located == pytest.approx((1.0, 1.2))

    def test_an_event_delivered_before_the_cache_had_it_comes_from_another_cache(self) -> None:
        clock = clock_of((1.0, 10), (1.2, 12), (1.4, 15))
        assert unknown(locate(clock, (11, 1.1), (14, 1.19))) == [True, True]
        assert clock.contradictions == 1
        assert unknown(locate(clock, (11, 1.1))) == [True]
        assert clock.contradictions == 1


class TestRoundTrip:
    def test_is_the_median_of_the_last_reads(self) -> None:
        clock = CacheClock()
        assert clock.median_round_trip == 0.0
        for sent, took in ((1.0, 5.0), (2.0, 5.0), (20.0, 0.1), (20.2, 0.3), (20.4, 0.2)):
            read(clock, sent, 10, took)
        assert clock.median_round_trip == pytest.approx(0.2)

    def test_forgets_what_contradicts(self) -> None:
        clock = clock_of((1.0, 20))
        read(clock, 2.0, 10, took=0.5)
        assert clock.median_round_trip == pytest.approx(0.5)


class Commits:
    """Tells of revision r that it was committed between the times written there; of others, nothing."""

    def __init__(self, known: dict[int, tuple[float, float]]) -> None:
        self._known = known

    def __call__(self, revisions: IntArray, received: FloatArray) -> Bounds:
        rows = np.array([self._known.get(revision, (-1.0, -1.0)) for revision in revisions.tolist()]).reshape(-1, 2)
        later, earlier = received - rows[:, 1], received - rows[:, 0]
        return Bounds(later - 0.0, earlier, later, rows[:, 1] >= 0)


def behind(clock: CacheClock, commits: dict[int, tuple[float, float]], now: float, *more: int) -> Interval | None:
    known = np.array(sorted((*commits, *more)), dtype=np.int64)
    return clock.behind(known, Commits(commits), now)


class TestBehind:
    def test_is_not_known_without_reads(self) -> None:
        assert behind(CacheClock(), {5: (1.0, 1.1)}, 2.0) is None

    def test_is_not_known_of_long_ago(self) -> None:
        clock = clock_of((1.0, 10))
        assert behind(clock, {}, 1.0 + TRIP + RECENT_SECONDS) == Interval(0.0, 0.0)
        assert behind(clock, {}, 1.0 + TRIP + RECENT_SECONDS + 0.1) is None

    def test_a_cache_that_has_all_is_not_behind(self) -> None:
        clock = clock_of((1.0, 10), (1.2, 12))
        assert behind(clock, {10: (0.5, 0.6), 12: (1.05, 1.1)}, 2.0) == Interval(0.0, 0.0)

    def test_an_idle_resource_is_not_behind_however_old_its_cache(self) -> None:
        clock = clock_of((5000.0, 10), (5000.2, 10), (5000.4, 10))
        assert behind(clock, {10: (1.0, 1.1)}, 5001.0) == Interval(0.0, 0.0)
        assert behind(clock, {}, 5001.0) == Interval(0.0, 0.0)

    def test_is_not_made_of_what_was_committed_after_the_read(self) -> None:
        clock = clock_of((1.0, 10))
        assert behind(clock, {11: (1.5, 1.6)}, 2.0) == Interval(0.0, 0.0)

    def test_is_the_age_of_the_oldest_change_that_it_lacks(self) -> None:
        clock = clock_of((5.0, 10))
        found = behind(clock, {9: (1.0, 1.1), 11: (3.0, 3.5), 12: (4.0, 4.1)}, 6.0)
        assert found is not None
        assert (found.lower, found.upper) == pytest.approx((1.5, 2.0 + TRIP))

    def test_is_that_of_the_worst_read(self) -> None:
        clock = clock_of((5.0, 10), (6.0, 10), (6.2, 12))
        found = behind(clock, {11: (3.0, 3.5), 12: (4.0, 4.1)}, 7.0)
        assert found is not None
        assert (found.lower, found.upper) == pytest.approx((2.5, 3.0 + TRIP))

    def test_may_have_no_upper_end(self) -> None:
        found = behind(clock_of((5.0, 10)), {11: (-INF, 3.5)}, 6.0)
        assert found is not None
        assert (found.lower, found.upper) == pytest.approx((1.5, INF))

    def test_leaves_out_what_the_clock_cannot_date(self) -> None:
        assert behind(clock_of((5.0, 10)), {}, 6.0, 11) is None
        found = behind(clock_of((4.9, 10), (5.0, 11)), {12: (4.0, 4.1)}, 6.0, 11)
        assert found is not None
        assert found.lower == pytest.approx(0.9)

    def test_is_not_told_while_the_cache_is_not_believed(self) -> None:
        clock = clock_of((1.0, 20), (1.2, 10))
        assert behind(clock, {11: (0.5, 0.6)}, 2.0) is None
