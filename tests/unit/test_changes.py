"""Differences of counters and histograms, also across resets."""

import pytest

from watchslo.changes import CountedIncreases, increase, increases, middle, observations_since, quantile
from watchslo.snapshot import HistogramReading

EDGES = (0.1, 1.0)


def test_increase_after_reset_counts_from_zero() -> None:
    assert increase(3, 10) == 7
    assert increase(10, 3) == 3
    assert increases({"a": 1, "gone": 9}, {"a": 4, "new": 2}) == {"a": 3, "new": 2}


def test_histogram_after_reset_counts_all_observations() -> None:
    before, after = HistogramReading(EDGES, (1, 2, 3), 4.0), HistogramReading(EDGES, (1, 5, 7), 9.0)
    assert observations_since(before, after) == HistogramReading(EDGES, (0, 3, 4), 5.0)
    assert observations_since(None, after) is after
    assert observations_since(after, before) is before


@pytest.mark.parametrize(("q", "seconds"), [(0.1, 0.025), (0.4, 0.1), (0.6, 0.55), (0.8, 1.0), (0.9, 1.0)])
def test_quantiles_lie_between_the_edges(q: float, seconds: float) -> None:
    assert quantile(HistogramReading(EDGES, (4, 8, 10), 9.0), q) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("counts", "total", "seconds"),
    [((0, 10, 10), 3.04, 0.304), ((9, 9, 10), 9.0, 0.1), ((0, 4, 10), 30.0, 3.0), ((1, 9, 10), 0.5, 0.1)],
)
def test_middle_is_the_mean_within_the_bucket_of_the_median(
    counts: tuple[int, ...], total: float, seconds: float
) -> None:
    assert middle(HistogramReading(EDGES, counts, total)) == pytest.approx(seconds)


def test_increases_are_added_up_since_the_first_look() -> None:
    counted: CountedIncreases[str] = CountedIncreases()
    assert [counted.observe(now) for now in ({"a": 7}, {"a": 9, "b": 1}, {"b": 3}, {"a": 4, "b": 2})] == [0, 3, 5, 11]
