"""Two estimates of the same events."""

import numpy as np
import pytest

from watchslo.latency.bins import Bins
from watchslo.latency.compared import Comparison
from watchslo.model import Bounds

BINS = Bins()


def bounds(lower: float, upper: float, *, measurable: bool = True, n: int = 100) -> Bounds:
    low = np.full(n, lower)
    return Bounds(low, np.full(n, upper), low, np.full(n, measurable))


def at(second: float, n: int = 100) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.full(n, second)


def medians(comparison: Comparison) -> list[float]:
    return [window.quantiles[0].estimate for window in (comparison.combined, comparison.alone)]


def test_alone_is_measured_by_the_ticks_of_one_apiserver() -> None:
    comparison = Comparison(BINS, 0.0)
    comparison.add(at(3.0), bounds(0.29, 0.31), bounds(0.009, 0.011))
    comparison.evaluate(5.0)
    assert medians(comparison) == [pytest.approx(0.3, abs=0.03), pytest.approx(0.01, abs=0.003)]
    assert comparison.combined.events == comparison.alone.events == 100


def test_only_events_that_both_can_measure_are_compared() -> None:
    comparison = Comparison(BINS, 0.0)
    comparison.add(at(3.0), bounds(0.29, 0.31), bounds(0.009, 0.011, measurable=False))
    comparison.add(at(3.0), bounds(0.29, 0.31, measurable=False), bounds(0.009, 0.011))
    comparison.evaluate(5.0)
    assert (comparison.combined.events, comparison.alone.events) == (0, 0)
    some = bounds(0.1, 0.2)
    some.measurable[:40] = False
    comparison.add(at(4.0), some, bounds(0.1, 0.2))
    comparison.evaluate(10.0)
    assert (comparison.combined.events, comparison.alone.events) == (60, 60)


def test_single_event_is_compared() -> None:
    comparison = Comparison(BINS, 0.0)
    comparison.add(at(3.0, n=1), bounds(0.29, 0.31, n=1), bounds(0.009, 0.011, n=1))
    comparison.evaluate(5.0)
    assert (comparison.combined.events, comparison.alone.events) == (1, 1)


def test_events_older_than_a_minute_are_forgotten() -> None:
    comparison = Comparison(BINS, 0.0)
    comparison.add(at(3.0), bounds(0.29, 0.31), bounds(0.29, 0.31))
    comparison.add(at(62.0), bounds(0.009, 0.011), bounds(0.009, 0.011))
    comparison.evaluate(65.0)
    assert comparison.combined.events == 100
    assert medians(comparison) == [pytest.approx(0.01, abs=0.003)] * 2
    comparison.evaluate(200.0)
    assert comparison.combined.events == comparison.alone.events == 0
