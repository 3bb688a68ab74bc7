"""Two estimates of the same events."""

import pytest

from tests.unit.latency.truth import BINS, tallied
from watchslo.latency.compared import Comparison
from watchslo.latency.estimate import solve
from watchslo.latency.tally import Slot


def slot(block: float, lower: float, upper: float, n: int = 100) -> Slot:
    return block, tallied(*[(lower, upper)] * n)


def evaluate(comparison: Comparison, now: float, combined: list[Slot], alone: list[Slot]) -> None:
    solve(comparison.update(now, combined, alone, 0.5))
    comparison.publish()


def medians(comparison: Comparison) -> list[float]:
    return [window.quantiles[0].estimate for window in (comparison.combined, comparison.alone)]


def test_alone_is_measured_by_the_ticks_of_one_apiserver() -> None:
    comparison = Comparison(BINS)
    evaluate(comparison, 5.0, [slot(0.0, 0.29, 0.31)], [slot(0.0, 0.009, 0.011)])
    assert medians(comparison) == [pytest.approx(0.3, abs=0.03), pytest.approx(0.01, abs=0.003)]
    assert comparison.combined.events == comparison.alone.events == 100


def test_events_older_than_a_minute_are_forgotten() -> None:
    comparison = Comparison(BINS)
    evaluate(comparison, 5.0, [slot(0.0, 0.29, 0.31)], [slot(0.0, 0.29, 0.31)])
    evaluate(comparison, 65.0, [slot(60.0, 0.009, 0.011)], [slot(60.0, 0.009, 0.011)])
    assert comparison.combined.events == 100
    assert medians(comparison) == [pytest.approx(0.01, abs=0.003)] * 2
    evaluate(comparison, 200.0, [], [])
    assert comparison.combined.events == comparison.alone.events == 0
