"""The offset of a storage whose revisions are commit times: what bounds it, and when it is unknown."""

import numpy as np
import pytest

from watchslo.clock.commit_offset import CommitOffset
from watchslo.clock.offset import DRIFT
from watchslo.model import FloatArray, IntArray, Interval

UNIX = 1_758_568_538_175_839_001  # a revision seen on GKE


def revisions(*seconds: float) -> IntArray:
    """Return the revisions of commits at these times of the storage's clock, in seconds since `UNIX`."""
    return np.array([UNIX + round(1e9 * one) for one in seconds], dtype=np.int64)


def times(*seconds: float) -> FloatArray:
    return np.array(seconds)


class TestCommitOffset:
    def test_is_unknown_without_evidence(self) -> None:
        offset = CommitOffset()
        assert offset.observe(revisions(), times(), times(), now=5.0)
        assert offset.bounds(5.0) is None
        since, until = offset.narrowed(revisions(0), times(1.0), times(2.0))
        assert (since[0], until[0]) == (1.0, 2.0)

    def test_one_event_bounds_it_by_its_commit_interval(self) -> None:
        offset = CommitOffset()
        assert offset.observe(revisions(0), times(10.0), times(10.5), now=10.5)
        known = offset.bounds(10.5)
        assert known is not None
        assert known.lower == -10.5
        assert known.upper == pytest.approx(-10.0, abs=DRIFT)

    def test_unknown_commits_bound_it_from_below(self) -> None:
        offset = CommitOffset()
        assert offset.observe(revisions(0), times(-np.inf), times(10.5), now=10.5)
        assert offset.bounds(10.5) == Interval(-10.5, np.inf)

    def test_bounds_widen_with_time_by_the_drift(self) -> None:
        offset = CommitOffset()
        offset.observe(revisions(0), times(10.0), times(10.0), now=10.0)
        known = offset.bounds(1010.0)
        assert known is not None
        assert (known.lower, known.upper) == pytest.approx((-10.2, -9.8))

    def test_narrowed_interval_is_that_of_the_offset(self) -> None:
        offset = CommitOffset()
        offset.observe(revisions(0, 1), times(9.9, 10.999), times(10.001, 11.5), now=11.5)
        since, until = offset.narrowed(revisions(1), times(10.5), times(11.5))
        assert (since[0], until[0]) == (pytest.approx(10.999, abs=4 * DRIFT), pytest.approx(11.001, abs=4 * DRIFT))

    def test_old_event_is_dated_less_precisely(self) -> None:
        offset = CommitOffset()
        offset.observe(revisions(0), times(10.0), times(10.0), now=10.0)
        since, until = offset.narrowed(revisions(-600), times(-700.0), times(-500.0))
        assert (since[0], until[0]) == pytest.approx((-590.12, -589.88))

    def test_event_that_contradicts_the_offset_keeps_its_ticks(self) -> None:
        offset = CommitOffset()
        offset.observe(revisions(0), times(10.0), times(10.0), now=10.0)
        since, until = offset.narrowed(revisions(5), times(12.0), times(13.0))
        assert (since[0], until[0]) == (12.0, 13.0)

    @pytest.mark.parametrize("step", [-1.0, 1.0])
    def test_clock_that_is_set_makes_it_unknown_until_later_commits(self, step: float) -> None:
        offset = CommitOffset()
        offset.observe(revisions(0), times(10.0), times(10.1), now=10.1)
        assert not offset.observe(revisions(1 + step), times(11.0), times(11.1), now=11.2)
        assert (offset.steps, offset.bounds(11.2)) == (1, None)
        assert offset.observe(revisions(11 + step), times(21.1), times(21.2), now=21.3)
        assert offset.bounds(21.3) is None, "the clock may still stand still"
        assert offset.observe(revisions(12 + step), times(22.0), times(22.1), now=22.1)
        assert offset.bounds(22.1) is not None
        assert offset.steps == 1
        since, until = offset.narrowed(revisions(1, 13 + step), times(10.9, 22.5), times(11.2, 23.5))
        assert (since[0], until[0]) == (10.9, 11.2), "it was committed before"
        assert (since[1], until[1]) == pytest.approx((23.0, 23.1), abs=0.001)

    def test_counters_are_no_times(self) -> None:
        offset = CommitOffset()
        assert not offset.observe(revisions(0, 1e-9), times(0.0, 30.0), times(1.0, 31.0), now=31.0)
        assert offset.bounds(31.0) is None
