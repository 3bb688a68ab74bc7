"""Which ticks contradict the two inequalities of the revision clock."""

from dataclasses import astuple

import pytest

from tests.inequalities.judging import (
    CommitBounds,
    Contradictions,
    TickRecord,
    included_too_early,
    latencies,
    missing_too_late,
    out_of_order,
)
from tests.support.writer import Write


def write(revision: int, before: float, after: float) -> Write:
    return Write("POST", "/api/v1/namespaces/default/configmaps", before, after, revision)


def bounds(*writes: Write) -> CommitBounds:
    return CommitBounds.of(writes, {}, {})


class TestCommitBounds:
    def test_rows_ascend_by_revision(self) -> None:
        commits = bounds(write(12, 2.0, 3.0), write(11, 1.0, 2.5))
        assert commits.revisions.tolist() == [11, 12]
        assert (commits.first.tolist(), commits.last.tolist()) == ([1.0, 2.0], [2.5, 3.0])

    def test_sighting_and_commit_time_narrow_the_bounds(self) -> None:
        commits = CommitBounds.of([write(11, 1.0, 2.0)], {11: 1.75}, {11: 1.5})
        assert (commits.first.tolist(), commits.last.tolist()) == ([1.5], [1.75])

    def test_sighting_after_the_answer_changes_nothing(self) -> None:
        commits = CommitBounds.of([write(11, 1.0, 2.0)], {11: 9.0}, {11: 0.5})
        assert (commits.first.tolist(), commits.last.tolist()) == ([1.0], [2.0])

    def test_deletion_without_a_revision_is_left_out(self) -> None:
        deletion = Write("DELETE", "/api/v1/namespaces/default/configmaps/a", 3.0, 4.0, None)
        assert bounds(write(11, 1.0, 2.0), deletion).revisions.tolist() == [11]


COMMITS = bounds(write(10, 1.0, 1.1), write(11, 5.0, 5.1), write(12, 2.0, 2.1))
"""Revision 11 is committed long after 12."""


class TestIncludedTooEarly:
    @pytest.mark.parametrize(
        ("tick", "expected"),
        [
            pytest.param(TickRecord(2.5, 3.0, 12), (1, 2.0), id="12 vouches for 11, written 2 s later"),
            pytest.param(TickRecord(2.5, 3.0, 10), (0, 0.0), id="only 10 is included"),
            pytest.param(TickRecord(2.5, 3.0, 9), (0, 0.0), id="nothing is included"),
            pytest.param(TickRecord(4.9, 5.0, 12), (0, 0.0), id="11 may be committed just in time"),
        ],
    )
    def test_change_written_after_the_answer_contradicts(self, tick: TickRecord, expected: tuple[int, float]) -> None:
        assert astuple(included_too_early(COMMITS, [tick])) == pytest.approx(expected)


class TestMissingTooLate:
    @pytest.mark.parametrize(
        ("tick", "expected"),
        [
            pytest.param(TickRecord(3.0, 3.1, 10), (1, 0.9), id="12 was answered before"),
            pytest.param(TickRecord(3.0, 3.1, 12), (0, 0.0), id="everything is included"),
            pytest.param(TickRecord(1.5, 3.1, 10), (0, 0.0), id="11 and 12 came later"),
        ],
    )
    def test_change_answered_before_the_sending_contradicts(
        self, tick: TickRecord, expected: tuple[int, float]
    ) -> None:
        assert astuple(missing_too_late(COMMITS, [tick])) == pytest.approx(expected)

    def test_ticks_are_counted_and_the_worst_is_kept(self) -> None:
        ticks = [TickRecord(3.0, 3.1, 9), TickRecord(4.0, 4.1, 9), TickRecord(1.0, 1.1, 9)]
        assert astuple(missing_too_late(COMMITS, ticks)) == pytest.approx((2, 2.9))


class TestOutOfOrder:
    def test_bounds_that_overlap_prove_nothing(self) -> None:
        assert out_of_order(bounds(write(10, 1.0, 2.0), write(11, 0.5, 1.5)), {}) == Contradictions(0, 0.0)

    def test_bounds_apart_prove_the_order(self) -> None:
        assert astuple(out_of_order(COMMITS, {})) == pytest.approx((1, 2.9))

    def test_commit_times_prove_the_order_of_overlapping_writes(self) -> None:
        commits = bounds(write(10, 1.0, 2.0), write(11, 0.5, 1.5))
        assert astuple(out_of_order(commits, {10: 1.9, 11: 1.4})) == pytest.approx((1, 0.5))


def test_latencies_start_at_the_earliest_commit_and_skip_what_did_not_arrive() -> None:
    assert latencies(COMMITS, {10: 1.5, 12: 4.0}, [10, 11, 12]).tolist() == [0.5, 2.0]


def test_contradictions_are_written_as_a_count_with_the_worst() -> None:
    assert [str(Contradictions(0, 0.0)), str(Contradictions(1200, 0.0685))] == ["0", "1,200, up to 68.5 ms"]
