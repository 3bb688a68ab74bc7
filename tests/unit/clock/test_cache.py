"""The cache clock: bounds of when revisions reached a cache, contradictions, and how far a cache is behind."""

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
    """Return a clock with reads given as (sent, revision)."""
    clock = CacheClock()
    for sent, revision in reads:
        read(clock, sent, revision)
    return clock


def read(clock: CacheClock, sent: float, revision: int, took: float = TRIP) -> None:
    clock.add(Reading("pods", sent, sent + took, revision, "10.0.0.1:6443"))


def locate(clock: CacheClock, *events: tuple[int, float]) -> list[tuple[float, float]]:
    """Locate events given as (revision, received)."""
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
            (15, 1.405, 1.2, 1.405),  # delivered before that read was answered
            (16, 1.9, 1.4, 1.9),  # in no read yet
            (10, 1.0, -INF, 1.0),  # in the first read already
            (3, 0.5, -INF, 0.5),
        ],
    )
    def test_lies_between_the_last_read_without_and_the_first_with_the_revision(
        self, revision: int, received: float, start: float, end: float
    ) -> None:
        clock = clock_of((1.0, 10), (1.2, 12), (1.4, 15))
        assert locate(clock, (revision, received)) == [(start, end)]

    def test_is_unknown_without_reads(self) -> None:
        assert locate(CacheClock(), (7, 1.5)) == [(-INF, 1.5)]

    def test_accepts_no_events(self) -> None:
        start, end = clock_of((1.0, 10)).locate(np.array([], dtype=np.int64), np.array([]))
        assert len(start) == len(end) == 0

    @pytest.mark.parametrize(("gap", "is_unknown"), [(WIDEST_SECONDS - 0.1, False), (WIDEST_SECONDS + 0.1, True)])
    def test_is_unknown_if_reads_are_far_apart(self, gap: float, *, is_unknown: bool) -> None:
        clock = clock_of((1.0, 10), (1.0 + gap, 12))
        assert unknown(locate(clock, (12, 60.0))) == [is_unknown]

    def test_is_unknown_after_ten_minutes(self) -> None:
        clock = clock_of((1.0, 10), (1.2, 12), (1.4, 15), (0.9 + KEPT_SECONDS, 16))
        assert unknown(locate(clock, (11, 1.3), (13, 1.5))) == [False, False]
        read(clock, 1.5 + KEPT_SECONDS, 17)
        assert unknown(locate(clock, (11, 1.3), (13, 1.5), (15, 1.5))) == [True, True, True]

    @given(
        st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=30),
        st.lists(st.tuples(st.floats(0.0, 0.4), st.floats(0.0, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=30),
    )
    def test_always_contains_the_true_time(
        self, events: list[tuple[float, float]], reads: list[tuple[float, float, float]]
    ) -> None:
        """Events are given as (gap, time in the cache before the delivery); reads may overlap."""
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
    def test_cache_that_goes_back_is_cleared_and_distrusted_for_a_while(self) -> None:
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

    def test_each_contradiction_is_counted(self) -> None:
        clock = clock_of((1.0, 20), (1.2, 10), (1.4, 21), (1.6, 11))
        assert clock.contradictions == 2

    def test_overlapping_reads_may_answer_in_any_order(self) -> None:
        clock = CacheClock()
        read(clock, 1.1, 12, took=0.1)
        read(clock, 1.0, 11, took=0.5)
        assert clock.contradictions == 0
        (located,) = locate(clock, (12, 9.0))
        assert located == pytest.approx((1.0, 1.2))

    def test_event_delivered_before_the_cache_had_it_is_a_contradiction(self) -> None:
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

    def test_forgets_reads_before_a_contradiction(self) -> None:
        clock = clock_of((1.0, 20))
        read(clock, 2.0, 10, took=0.5)
        assert clock.median_round_trip == pytest.approx(0.5)


class Commits:
    """A measure that knows between which times some revisions were committed."""

    def __init__(self, known: dict[int, tuple[float, float]]) -> None:
        self._known = known

    def __call__(self, revisions: IntArray, received: FloatArray) -> Bounds:
        rows = np.array([self._known.get(revision, (-1.0, -1.0)) for revision in revisions.tolist()]).reshape(-1, 2)
        later, earlier = received - rows[:, 1], received - rows[:, 0]
        return Bounds(later - 0.0, earlier, later, earlier, rows[:, 1] >= 0)


def behind(clock: CacheClock, commits: dict[int, tuple[float, float]], now: float, *more: int) -> Interval | None:
    known = np.array(sorted((*commits, *more)), dtype=np.int64)
    return clock.behind(known, Commits(commits), now)


class TestBehind:
    def test_is_unknown_without_recent_reads(self) -> None:
        assert behind(CacheClock(), {5: (1.0, 1.1)}, 2.0) is None

    def test_is_unknown_if_all_reads_are_old(self) -> None:
        clock = clock_of((1.0, 10))
        assert behind(clock, {}, 1.0 + TRIP + RECENT_SECONDS) == Interval(0.0, 0.0)
        assert behind(clock, {}, 1.0 + TRIP + RECENT_SECONDS + 0.1) is None

    def test_complete_cache_is_not_behind(self) -> None:
        clock = clock_of((1.0, 10), (1.2, 12))
        assert behind(clock, {10: (0.5, 0.6), 12: (1.05, 1.1)}, 2.0) == Interval(0.0, 0.0)

    def test_old_cache_of_an_idle_resource_is_not_behind(self) -> None:
        clock = clock_of((5000.0, 10), (5000.2, 10), (5000.4, 10))
        assert behind(clock, {10: (1.0, 1.1)}, 5001.0) == Interval(0.0, 0.0)
        assert behind(clock, {}, 5001.0) == Interval(0.0, 0.0)

    def test_ignores_commits_after_the_read(self) -> None:
        clock = clock_of((1.0, 10))
        assert behind(clock, {11: (1.5, 1.6)}, 2.0) == Interval(0.0, 0.0)

    def test_is_the_age_of_the_oldest_missing_change(self) -> None:
        clock = clock_of((5.0, 10))
        found = behind(clock, {9: (1.0, 1.1), 11: (3.0, 3.5), 12: (4.0, 4.1)}, 6.0)
        assert found is not None
        assert (found.lower, found.upper) == pytest.approx((1.5, 2.0 + TRIP))

    def test_is_the_maximum_over_recent_reads(self) -> None:
        clock = clock_of((5.0, 10), (6.0, 10), (6.2, 12))
        found = behind(clock, {11: (3.0, 3.5), 12: (4.0, 4.1)}, 7.0)
        assert found is not None
        assert (found.lower, found.upper) == pytest.approx((2.5, 3.0 + TRIP))

    def test_may_have_no_upper_end(self) -> None:
        found = behind(clock_of((5.0, 10)), {11: (-INF, 3.5)}, 6.0)
        assert found is not None
        assert (found.lower, found.upper) == pytest.approx((1.5, INF))

    def test_ignores_reads_whose_missing_change_cannot_be_dated(self) -> None:
        assert behind(clock_of((5.0, 10)), {}, 6.0, 11) is None
        found = behind(clock_of((4.9, 10), (5.0, 11)), {12: (4.0, 4.1)}, 6.0, 11)
        assert found is not None
        assert found.lower == pytest.approx(0.9)

    def test_is_unknown_while_the_cache_is_distrusted(self) -> None:
        clock = clock_of((1.0, 20), (1.2, 10))
        assert behind(clock, {11: (0.5, 0.6)}, 2.0) is None
