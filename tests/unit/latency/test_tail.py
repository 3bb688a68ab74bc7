"""The longest latencies, one by one: the truth lies inside, and a quantile of the tail has the bounds of its sample."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.latency.truth import BINS, TICKS, bounds, tallied
from watchslo.latency import tail as module
from watchslo.latency.estimate import RollingEstimate, solve
from watchslo.latency.pending import SampleCounts
from watchslo.latency.tail import Tail
from watchslo.latency.tally import Blocks, Tally, later_than
from watchslo.model import FloatArray, Interval
from watchslo.snapshot import QuantileReading

INF = math.inf
WIDTH = 0.004  # of what is known of each sample


def tail_of(*latencies: float, width: float = 0.0) -> Tail:
    return Tail.of(np.array(latencies), np.array(latencies) + width)


def with_tail(latencies: FloatArray, width: float = WIDTH) -> Tally:
    """Count latencies, of each of which an interval of this width is known."""
    counts = SampleCounts(BINS)
    events = bounds(*((one - width / 4, one + 3 * width / 4) for one in latencies.tolist()))
    counts.add(np.zeros(len(latencies), np.int64), np.full(len(latencies), 7.0), events, singly=True)
    ((_, (_, tally)),) = counts.take_each()
    return tally


def readings(*tallies: Tally, q: float = 0.99) -> dict[float, QuantileReading]:
    rolling = RollingEstimate(BINS, "1m", 60.0, q)
    solve(rolling.update(tallies, TICKS))
    rolling.publish()
    return {one.q: one for one in rolling.reading.quantiles}


class TestTail:
    def test_has_the_bounds_of_each_rank(self) -> None:
        tail = tail_of(0.5, 2.0, 1.0, width=0.25)
        assert [tail.bounds(rank).lower for rank in (1, 2, 3)] == pytest.approx([2.0, 1.0, 0.5])
        assert [tail.bounds(rank).width for rank in (1, 2, 3)] == pytest.approx([0.25] * 3, abs=1e-6)
        assert tail.bounds(4) == Interval(0.0, INF)

    def test_rounds_outward_to_32_bits(self) -> None:
        exact = 0.1 + 1e-12
        known = tail_of(exact).bounds(1)
        assert known.lower < exact < known.upper < known.lower + 1e-7

    def test_never_has_negative_ends(self) -> None:
        assert tail_of(-0.001).bounds(1).lower == 0.0

    @given(st.lists(st.lists(st.floats(0, 9), min_size=1, max_size=9), min_size=1, max_size=6), st.integers(1, 6))
    def test_the_truth_of_each_rank_is_inside_whatever_was_left_out(self, parts: list[list[float]], kept: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "KEPT", kept)
            tail = tail_of(*parts[0], width=0.5)
            for part in parts[1:]:
                tail = Tail.joined((tail, tail_of(*part, width=0.5))).cut()
            assert len(tail.upper) <= kept
            for rank, truth in enumerate(sorted((one for part in parts for one in part), reverse=True), 1):
                known = tail.bounds(rank)
                assert known.lower <= truth <= known.upper
            assert tail.bounds(1).upper < INF

    def test_what_may_be_missing_has_no_upper_bound(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "KEPT", 2)
        tail = Tail.joined((tail_of(9.0, 8.0, 7.5), tail_of(5.0, 4.0)))
        assert [round(tail.bounds(rank).upper, 3) for rank in (1, 2, 3)] == [9.0, 8.0, INF]
        assert tail.bounds(3).lower == pytest.approx(5.0), "at least that many are longer"


class TestQuantiles:
    def test_of_the_tail_are_those_of_the_samples(self) -> None:
        latencies = np.random.default_rng(1).lognormal(math.log(0.02), 0.5, 6000)
        found = readings(*(with_tail(part) for part in np.split(latencies, 12)))
        for q in (0.99, 0.999, 1.0):
            truth = np.sort(latencies)[math.ceil(round(q * 6000, 6)) - 1]
            assert found[q].lower <= truth <= found[q].upper
            assert found[q].lower <= found[q].estimate <= found[q].upper
            assert found[q].upper - found[q].lower == pytest.approx(WIDTH, abs=1e-6)
            assert not found[q].rough
        assert found[0.99].estimate <= found[0.999].estimate <= found[1.0].estimate

    def test_beyond_the_kept_samples_are_those_of_the_bins(self) -> None:
        latencies = np.linspace(0.01, 0.02, 1000)
        exact, binned = readings(with_tail(latencies))[0.5], readings(replace(with_tail(latencies), tail=None))[0.5]
        assert (exact.lower, exact.upper) == (binned.lower, binned.upper)

    def test_of_a_few_samples_are_all_exact(self) -> None:
        found = readings(with_tail(np.array([0.1, 0.2, 0.3])))
        assert found[0.5].lower <= 0.2 <= found[0.5].upper
        assert found[0.5].upper - found[0.5].lower < 0.005

    def test_without_the_tail_of_a_part_there_are_none(self) -> None:
        found = readings(with_tail(np.array([0.1, 0.2])), tallied((0.1, 0.2)))
        assert [*found] == [0.5, 0.9, 0.99]

    def test_of_an_objective_are_not_repeated(self) -> None:
        assert [*readings(with_tail(np.array([0.1, 0.2])), q=0.999)] == [0.5, 0.9, 0.99, 0.999, 1.0]

    def test_withheld_events_are_the_longest(self) -> None:
        found = readings(with_tail(np.array([0.1, 0.2])), later_than(BINS, [7.0]))
        assert found[1.0].lower == pytest.approx(7.0)
        assert found[1.0].estimate >= found[0.99].estimate
        assert found[1.0].upper == INF
        assert found[1.0].rough

    def test_of_withheld_events_alone_there_are_none(self) -> None:
        assert [*readings(later_than(BINS, [7.0]))] == [0.5, 0.9, 0.99]

    def test_below_the_resolution_are_unresolved(self) -> None:
        found = readings(with_tail(np.array([0.0001]), width=0.0001))
        assert not found[1.0].resolved


class TestSampleCounts:
    def test_keep_the_longest_of_each_row_and_block(self) -> None:
        counts = SampleCounts(BINS)
        for lower in (0.1, 0.2):
            events = bounds(*((lower + place / 100, lower + place / 100) for place in range(3)))
            counts.add(np.array([1, 2, 1]), np.array([7.0, 7.0, 11.0]), events, singly=True)
        longest = {
            (row, time): [tally.tail.bounds(rank).lower for rank in (1, 2, 3)]
            for row, (time, tally) in counts.take_each()
            if tally.tail
        }
        assert longest == {
            (1, 5.0): pytest.approx([0.2, 0.1, 0.0]),
            (1, 10.0): pytest.approx([0.22, 0.12, 0.0]),
            (2, 5.0): pytest.approx([0.21, 0.11, 0.0]),
        }
        assert not counts._tails

    @pytest.mark.parametrize("singly", [(False,), (False, True), (True, False), (True, False, True)])
    def test_of_samples_that_are_not_all_known_singly_have_no_tail(self, singly: tuple[bool, ...]) -> None:
        counts = SampleCounts(BINS)
        for one in (*singly, None, True):
            if one is None:
                assert [tally.tail for _, (_, tally) in counts.take_each()] == [None]
            else:
                counts.add(np.array([1]), np.array([7.0]), bounds((0.1, 0.2)), singly=one)
        assert [tally.tail is None for _, (_, tally) in counts.take_each()] == [False]


class TestBlocks:
    def test_have_the_longest_of_a_window(self) -> None:
        blocks = Blocks(BINS)
        blocks.add([(100, with_tail(np.array([1.0]))), (105, with_tail(np.array([0.5])))])
        blocks.add([(100, with_tail(np.array([2.0])))])
        assert self.longest(blocks) == pytest.approx([2.0, 1.0, 0.5], abs=WIDTH)
        blocks.forget(105)
        assert self.longest(blocks) == pytest.approx([0.5], abs=WIDTH)
        assert len(blocks._tails) == 1

    def test_with_other_samples_have_none_until_these_are_old(self) -> None:
        blocks = Blocks(BINS)
        blocks.add([(100, tallied((0.1, 0.2))), (105, with_tail(np.array([0.5])))])
        blocks.add([(100, with_tail(np.array([0.5])))])
        assert self.longest(blocks) == []
        blocks.forget(105)
        assert len(self.longest(blocks)) == 1
        blocks.add([(105, tallied((0.1, 0.2)))])
        assert self.longest(blocks) == []

    @staticmethod
    def longest(blocks: Blocks) -> list[float]:
        (counts,) = blocks.window(400, 300)
        return counts.tail.lower.tolist() if counts.tail else []
