from dataclasses import replace

import numpy as np
import pytest

from tests.unit.serve import readings
from tests.unit.timeline.test_condition import LATE, SILENT, WITHIN
from watchslo.snapshot import QuantileReading, WatchReading
from watchslo.timeline import series as module
from watchslo.timeline.condition import Judge, WatchCondition
from watchslo.timeline.series import COLUMNS, LEAST_USUAL, POINTS, Key, Series
from watchslo.timeline.timeline import Timeline

PODS: Key = ("service", "pods")
NODES: Key = ("service", "nodes")
STEP = 5.0


def line(stream: WatchReading) -> WatchCondition:
    return Judge().condition(stream, 0.0)


def test_series_keeps_the_last_hour_in_order() -> None:
    series = Series()
    for number in range(POINTS + 10):
        series.add(number * STEP, {PODS: line(WITHIN)})
    hour = series.figures(PODS, 0.0)
    assert hour.at_wall[0] == 10 * STEP
    assert np.all(np.diff(hour.at_wall) == STEP)
    assert hour.values.shape == (POINTS, len(COLUMNS))


def test_figures_start_at_the_requested_time() -> None:
    series = Series()
    for number, stream in enumerate((WITHIN, LATE, SILENT)):
        series.add(number * STEP, {PODS: line(stream)})
    assert series.figures(PODS, 0.0).at_wall.tolist() == [0.0, STEP, 2 * STEP]
    recent = series.figures(PODS, STEP)
    assert recent.at_wall.tolist() == [STEP, 2 * STEP]
    assert np.isnan(recent.values[0, 0])
    assert recent.values[0, 1:].tolist() == [np.float16(2.3), 1.5, 3.0, 100]
    assert np.isnan(recent.values[1, :4]).all()
    assert recent.values[1, 4] == 0


def test_figures_are_a_copy() -> None:
    series = Series()
    series.add(0.0, {PODS: line(LATE)})
    before = series.figures(PODS, 0.0)
    for number in range(1, POINTS + 1):
        series.add(number * STEP, {PODS: line(WITHIN)})
    assert before.values[0, 1] == np.float16(2.3)


def test_figures_of_an_absent_watch_are_nan() -> None:
    series = Series()
    series.add(0.0, {PODS: line(LATE)})
    series.add(STEP, {NODES: line(LATE)})
    assert np.isnan(series.figures(NODES, 0.0).values[0]).all()
    assert np.isnan(series.figures(PODS, 0.0).values[1]).all()


def test_series_memory_is_fixed_and_absent_watches_expire() -> None:
    series = Series()
    series.add(0.0, {PODS: line(WITHIN), NODES: line(WITHIN)})
    size = series.nbytes
    assert size <= POINTS * (8 + 2 * 12)
    for number in range(1, POINTS):
        series.add(number * STEP, {PODS: line(WITHIN)})
        assert series.nbytes == size
    series.add(POINTS * STEP, {PODS: line(WITHIN)})
    assert series.nbytes == size - POINTS * 12


def test_watches_that_left_are_kept_in_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ABSENT", 100)
    series = Series()
    for number in range(300):
        series.add(number * STEP, {PODS: line(WITHIN), ("gone", str(number)): line(WITHIN)})
        assert len(series._rings) == len(series._seen) <= 102
    assert ("gone", "299") in series._rings
    assert ("gone", "199") in series._rings
    assert ("gone", "198") not in series._rings


def test_usual_p50_is_the_median_of_what_was_measured_before() -> None:
    series, measured = Series(), readings.judged(100, QuantileReading(0.5, 0.0, 0.004, 0.1))
    slow = readings.judged(100, QuantileReading(0.5, 0.0, 0.06, 0.1))
    for number in range(LEAST_USUAL):
        assert series.usual_p50(PODS, 1e9) is None if number else True
        series.add(number * STEP, {PODS: line(replace(WITHIN, track=measured))})
    series.add(LEAST_USUAL * STEP, {PODS: line(SILENT)})
    series.add((LEAST_USUAL + 1) * STEP, {PODS: line(replace(WITHIN, track=slow))})
    assert series.usual_p50(PODS, 1e9) == pytest.approx(0.004, rel=0.01)
    assert series.usual_p50(PODS, STEP) is None


def test_headline_compares_with_the_hour_before_the_last_five_minutes() -> None:
    timeline, p99 = Timeline(), QuantileReading(0.99, 0.0, 0.1, 0.5)
    for number in range(132):
        p50 = QuantileReading(0.5, 0.0, 0.004 if number < 70 else 0.06, 0.5)
        watch = replace(WITHIN, apiserver="10.0.0.1:6443", track=readings.judged(100, p50, p99))
        account = timeline.observe(replace(readings.SNAPSHOT, watches=(watch,), causes=(), at_wall=1e9 + number * STEP))
    assert "10.0.0.1 takes 15 times as long as usual" in account.headline.figures
