"""Differences of counters and histograms, whatever starts anew in between."""

import pytest

from watchslo.diagnose.change import counted, counted_each, observed, quantile
from watchslo.snapshot import HistogramReading

EDGES = (0.1, 1.0)


def test_counts_since() -> None:
    assert counted(3, 10) == 7
    assert counted(10, 3) == 3
    assert counted_each({"a": 1, "gone": 9}, {"a": 4, "new": 2}) == {"a": 3, "new": 2}


def test_histograms_since() -> None:
    before, after = HistogramReading(EDGES, (1, 2, 3), 4.0), HistogramReading(EDGES, (1, 5, 7), 9.0)
    assert observed(before, after) == HistogramReading(EDGES, (0, 3, 4), 5.0)
    assert observed(None, after) is after
    assert observed(after, before) is before


@pytest.mark.parametrize(("q", "seconds"), [(0.1, 0.025), (0.4, 0.1), (0.6, 0.55), (0.8, 1.0), (0.9, 1.0)])
def test_quantiles_lie_between_the_edges(q: float, seconds: float) -> None:
    assert quantile(HistogramReading(EDGES, (4, 8, 10), 9.0), q) == pytest.approx(seconds)
