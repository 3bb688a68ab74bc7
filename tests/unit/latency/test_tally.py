"""Tallies: their counts, merging in any order, and their size."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.latency.truth import BINS, bounds, bounds_of, exponential, simulate, tallied, tally_of
from watchslo.latency.bins import Bins
from watchslo.latency.tally import MOST_PARTS, Blocks, KeyCounts, Periods, Tally, later_than, merge
from watchslo.model import Interval

INF = math.inf


def cuts(counted: Tally) -> dict[tuple[float, float], float]:
    i, j, counts = counted.cuts()
    edges = counted.bins.edges
    return {(edges[a], edges[b]): n for a, b, n in zip(i, j, counts, strict=True)}


def same(one: Tally, other: Tally) -> bool:
    return (
        one.n == other.n
        and np.array_equal(one.keys, other.keys)
        and np.array_equal(one.counts, other.counts)
        and (one.keys.dtype, one.counts.dtype) == (other.keys.dtype, other.counts.dtype)
    )


ends = st.sampled_from([0.0, 0.003, 0.005, 0.02, 0.3, 0.9, 1.0, 1.5, 7.0, 200.0, INF])


@st.composite
def bounded_events(draw: st.DrawFn) -> list[tuple[float, ...]]:
    """Draw events as their lower and upper end, and the proven ones."""
    drawn = draw(st.lists(st.tuples(ends, ends, ends, ends), max_size=12))
    return [(lower, upper, proven, proven_upper) for lower, proven, proven_upper, upper in map(sorted, drawn)]


def tally_events(drawn: list[tuple[float, ...]]) -> Tally:
    return tallied(*drawn) if drawn else merge(BINS, ())


class TestTally:
    def test_counts_distinct_cut_intervals(self) -> None:
        counted = tallied((0.25, 1.0), (0, 0.5), (0.25, 1.0), (0.251, 0.999))
        assert cuts(counted) == {(0.25, 1.0): 3, (0, 0.5): 1}
        assert counted.n == 4

    def test_cuts_have_wide_number_types(self) -> None:
        i, j, counts = tallied((0, 0.5)).cuts()
        assert [part.dtype.name for part in (i, j, counts)] == ["int64", "int64", "float64"]

    def test_counts_proven_ends_separately(self) -> None:
        counted = tallied((0.0, 1.0, 0.5), (0.0, 2.5, 0.25), (0.0, 5.0, 0.1))
        assert cuts(counted) == {(0, 1.0): 1, (0, 2.5): 1, (0, 5.0): 1}
        assert [bounds_of(counted, q) for q in (0.1, 0.5, 0.9)] == [
            Interval(0.1, 1.0),
            Interval(0.25, 2.5),
            Interval(0.5, 5.0),
        ]

    def test_bounds_and_verdicts_use_both_proven_ends(self) -> None:
        counted = tallied((0.0, 5.0, 0.5, 1.0), (0.0, 5.0, 0.25, 2.5))
        assert cuts(counted) == {(0, 5.0): 2}
        assert [bounds_of(counted, q) for q in (0.5, 0.99)] == [Interval(0.25, 1.0), Interval(0.5, 2.5)]
        assert [counted.within(BINS.edge(edge)) for edge in (0.5, 1.0, 2.5)] == [0, 1, 2]
        assert [counted.beyond(BINS.edge(edge)) for edge in (0.25, 0.5, 1.0)] == [2, 1, 0]

    def test_proven_upper_end_is_within_the_cut(self) -> None:
        """An interval of no width would need a bin above its edge."""
        assert bounds_of(tallied((0.5, 1.0, 1.0, 1.0)), 0.5) == Interval(1.0, 1.0)

    def test_accepts_the_widest_cut(self) -> None:
        assert cuts(tallied((0, INF), (200, INF))) == {(0, INF): 1, (128, INF): 1}

    def test_of_nothing_is_empty(self) -> None:
        empty = merge(BINS, ())
        assert (empty.n, len(empty.keys), cuts(empty)) == (0, 0, {})

    def test_is_kept_in_small_integers(self) -> None:
        assert tallied((0, 1)).keys.dtype == np.uint16
        assert tally_of(bounds(*[(0, 1)] * 255)).counts.dtype == np.uint8
        assert tally_of(bounds(*[(0, 1)] * 256)).counts.dtype == np.uint16

    @pytest.mark.parametrize(("edges", "key_type"), [(255, np.uint16), (256, np.uint32)])
    def test_has_room_for_the_largest_key(self, edges: int, key_type: type) -> None:
        bins = Bins([1.0, *range(200, 200 + edges - 139)])
        assert len(bins.edges) == edges
        counted = tallied((0, INF), (INF, INF), bins=bins)
        assert counted.keys.dtype == key_type
        assert counted.keys[-1] == edges * edges + 2 * edges - 1
        assert bounds_of(counted, 0.99).upper == INF

    def test_does_not_grow_with_the_rate(self) -> None:
        slow, fast = (tally_of(simulate(1, exponential(0.3), events, seconds=5).bounds) for events in (5_000, 50_000))
        assert len(fast.keys) < 1.5 * len(slow.keys)
        assert fast.keys.nbytes + fast.counts.nbytes < 4096


class TestLaterThan:
    def test_is_open_to_the_right(self) -> None:
        counted = later_than(BINS, [0.7, 3.0, 3.0])
        assert cuts(counted) == {(2 ** (-5 / 8), INF): 1, (2 ** (12 / 8), INF): 2}
        assert bounds_of(counted, 0.99) == Interval(2 ** (12 / 8), INF)
        assert counted.n == 3


class TestMerge:
    def test_widens_its_counts(self) -> None:
        merged = merge(BINS, [tally_of(bounds(*[(0, 1)] * 200))] * 400)
        assert cuts(merged) == {(0, 1): 80_000}
        assert merged.n == 80_000

    @given(st.lists(bounded_events(), min_size=3, max_size=3))
    def test_adds_up_in_any_order(self, drawn: list[list[tuple[float, ...]]]) -> None:
        a, b, c = map(tally_events, drawn)
        whole = tally_events([event for part in drawn for event in part])
        assert same(whole, merge(BINS, [a, b, c]))
        assert same(whole, merge(BINS, [merge(BINS, [a, b]), c]))
        assert same(whole, merge(BINS, [c, merge(BINS, [b, a])]))


class TestPeriods:
    @pytest.fixture
    def periods(self) -> Periods:
        return Periods(BINS, 100.5, 5.0)

    def test_are_counted_from_the_start(self, periods: Periods) -> None:
        assert [periods.number(time) for time in (100.4, 100.5, 105.4, 105.5, 112)] == [-1, 0, 0, 1, 2]
        assert [periods.end(number) for number in (-1, 0, 1)] == [100.5, 105.5, 110.5]

    def test_add_up_their_events(self, periods: Periods) -> None:
        periods.add([(101, tallied((0, 1.0))), (102, tallied((0, 0.5))), (106, tallied((0, 0.1)))])
        periods.add([(105, tallied((0, 0.25)))])
        assert cuts(periods.tally(0)) == {(0, 1.0): 1, (0, 0.5): 1, (0, 0.25): 1}
        assert cuts(periods.tally(1)) == {(0, 0.1): 1}
        assert periods.tally(2).n == 0

    def test_add_up_any_number_of_tallies(self, periods: Periods) -> None:
        for _ in range(3 * MOST_PARTS):
            periods.add([(101, tallied((0, 1.0)))])
        assert cuts(periods.tally(0)) == {(0, 1.0): 3 * MOST_PARTS}

    def test_can_be_forgotten_once_they_ended(self, periods: Periods) -> None:
        periods.add([(101, tallied((0, 1.0))), (106, tallied((0, 0.5)))])
        periods.forget(105.4)
        assert periods.tally(0).n == 1
        periods.forget(105.5)
        assert [periods.tally(number).n for number in (0, 1)] == [0, 1]
        periods.forget(110.4)
        assert periods.tally(1).n == 1


def upper_ends(parts: tuple[KeyCounts, ...]) -> list[float]:
    """Return the upper ends of the cut intervals, in their order, each as often as it was counted."""
    (part,) = parts
    size = len(BINS.edges)
    known = zip(part.keys.tolist(), part.counts.tolist(), strict=True)
    found = [float(BINS.edges[key % size]) for key, count in known if key < size * size for _ in range(count)]
    assert len(found) == part.n
    return found


class TestBlocks:
    @pytest.fixture
    def blocks(self) -> Blocks:
        return Blocks(BINS)

    def test_are_those_that_end_after_a_time(self, blocks: Blocks) -> None:
        blocks.add([(100, tallied((0, 1.0))), (105, tallied((0, 0.5))), (110, tallied((0, 0.1)))])
        assert upper_ends(blocks.window(404.9, 300)) == [1.0, 0.5, 0.1]
        assert upper_ends(blocks.window(405, 300)) == [0.5, 0.1]
        assert upper_ends(blocks.window(414.9, 300)) == [0.1]
        assert blocks.window(415, 300) == ()

    def test_are_in_order_also_if_an_older_one_is_added_later(self, blocks: Blocks) -> None:
        blocks.add([(100, tallied((0, 1.0))), (110, tallied((0, 0.1)))])
        blocks.add([(105, tallied((0, 0.5), (0, 0.5))), (100, tallied((0, 2.5)))])
        assert upper_ends(blocks.window(400, 300)) == [1.0, 2.5, 0.5, 0.5, 0.1]
        assert upper_ends(blocks.window(405, 300)) == [0.5, 0.5, 0.1]

    def test_are_the_same_objects_until_new_events(self, blocks: Blocks) -> None:
        blocks.add([(100, tallied((0, 1.0))), (105, tallied((0, 1.0)))])
        before = blocks.window(300, 300)
        blocks.add([])
        assert blocks.window(300, 300) == before
        newer = blocks.window(405, 300)
        assert newer != before
        blocks.forget(105)
        assert blocks.window(300, 300) == newer
        blocks.add([(105, tallied((0, 1.0)))])
        assert blocks.window(300, 300) != newer

    def test_can_be_forgotten_once_they_ended(self, blocks: Blocks) -> None:
        blocks.add([(100, tallied((0, 1.0))), (105, tallied((0, 0.5)))])
        blocks.forget(104.9)
        assert upper_ends(blocks.window(300, 300)) == [1.0, 0.5]
        blocks.forget(105.0)
        assert upper_ends(blocks.window(300, 300)) == [0.5]
        blocks.forget(110.0)
        assert blocks.window(300, 300) == ()
