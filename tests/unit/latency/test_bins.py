"""The edges of bins by exact numbers, and the rounding of intervals outward to them."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.latency.truth import BINS
from watchslo.latency.bins import LES, Bins

INF = math.inf


class TestEdges:
    def test_go_from_zero_to_infinity(self) -> None:
        bins = Bins()
        assert (bins.edges[0], bins.edges[-1]) == (0, INF)
        assert (np.diff(bins.edges) > 0).all()
        assert bins.count == len(bins.edges) - 1 == 144

    def test_are_eight_to_a_doubling_from_a_millisecond_to_128_seconds(self) -> None:
        edges = Bins([1.0]).edges
        assert len(edges) == 1 + 17 * 8 + 1 + 1
        assert edges[1:-1] == pytest.approx([2 ** (step / 8) for step in range(-80, 57)], rel=1e-15)
        assert (edges[1], edges[-2]) == (2**-10, 128)

    def test_le_cuts_are_the_indexes_of_the_les(self) -> None:
        bins = Bins()
        assert bins.les == LES
        assert bins.edges[bins.le_cuts].tolist() == list(LES)

    def test_ignore_order_and_repetition_of_les(self) -> None:
        assert Bins([2.0, 1.0, 2.0]).les == (1.0, 2.0)

    @pytest.mark.parametrize(("ratio", "kept"), [(1.0299, False), (1.0301, True), (0.9701, False), (0.9699, True)])
    def test_of_the_grid_within_three_percent_of_a_le_are_dropped(self, ratio: float, *, kept: bool) -> None:
        assert (1.0 in Bins([1 / ratio]).edges) == kept

    def test_may_lie_beyond_the_grid(self) -> None:
        edges = Bins([0.0001, 300.0]).edges
        assert edges[:3].tolist() == [0, 0.0001, 2**-10]
        assert edges[-3:].tolist() == [128, 300, INF]

    def test_have_midpoints_except_in_the_open_bin(self) -> None:
        bins = Bins([1.0])
        assert len(bins.midpoints) == bins.count
        assert bins.midpoints[0] == 2**-11
        assert bins.midpoints[80] == (bins.edges[80] + bins.edges[81]) / 2
        assert bins.midpoints[-1] == 128


class TestCover:
    @pytest.mark.parametrize(("lower", "upper", "expected"), [(-0.5, 1.0, (0, 1.0)), (-2, -1, (0, 2**-10))])
    def test_treats_a_negative_end_as_zero(self, lower: float, upper: float, expected: tuple[float, float]) -> None:
        i, j = BINS.cover(np.array([lower]), np.array([upper]))
        assert (BINS.edges[i[0]], BINS.edges[j[0]]) == expected

    @given(st.floats(0, INF), st.floats(0, INF))
    @example(0.0, 0.0)
    @example(0.25, 1.0)
    @example(1.0, 1.0)
    @example(0.3, 0.3)
    @example(128.0, 128.0)
    @example(500.0, 600.0)
    @example(INF, INF)
    @example(128.0, INF)
    def test_is_the_narrowest_cover(self, one: float, other: float) -> None:
        lower, upper = sorted((one, other))
        (i,), (j,) = BINS.cover(np.array([lower]), np.array([upper]))
        assert 0 <= i < j <= BINS.count
        assert BINS.edges[i] <= lower
        assert upper <= BINS.edges[j]
        assert i == BINS.count - 1 or BINS.edges[i + 1] > lower
        assert j == i + 1 or BINS.edges[j - 1] < upper
