"""The cache clock: bounds of when revisions reached a cache, contradictions, and how far a cache is behind."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from watchslo.clock.cache import CacheClock
from watchslo.model import Bounds, FloatArray, IntArray, Interval, Reading

INF = math.inf
TRIP = 0.01


def read(clock: CacheClock, sent: float, revision: int, took: float = TRIP) -> None:
    clock.add(Reading("pods", sent, sent + took, revision, "10.0.0.1:6443"))


def locate(clock: CacheClock, *events: tuple[int, float]) -> list[tuple[float, float]]:
    """Locate events given as (revision, received)."""
    revisions, received = zip(*events, strict=True)
    start, end = clock.locate(np.array(revisions), np.array(received, dtype=np.float64))
    return list(zip(start.tolist(), end.tolist(), strict=True))


class TestLocate:
    def test_accepts_no_events(self) -> None:
        clock = CacheClock()
        read(clock, 1.0, 10)
        start, end = clock.locate(np.array([], dtype=np.int64), np.array([]))
        assert len(start) == len(end) == 0

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
