"""Waits in this process, of the requests to open a watch."""

import numpy as np

from tests.unit.latency.truth import bounds
from watchslo.latency.own_delay import LATE_SECONDS, NOTED_SECONDS
from watchslo.latency.queue_waits import QueueWaits, queue_delays
from watchslo.model import FloatArray


def waits(*spans: tuple[float, float]) -> QueueWaits:
    made = QueueWaits()
    for since, until in spans:
        made.add(since, until)
    return made


def delays(made: QueueWaits, received: float, *latency: float) -> tuple[bool, float]:
    """Return what `queue_delays` says of one event, whose latency has these bounds."""
    times: FloatArray = np.array([received])
    during, delayed = queue_delays([made], np.array([0]), times, bounds(latency))
    return bool(during[0]), float(delayed[0])


def test_imperceptible_wait_is_not_noted() -> None:
    assert len(waits((100.0, 100.0 + NOTED_SECONDS / 2))) == 0
    assert len(waits((100.0, 100.0 + 2 * NOTED_SECONDS))) == 1


def test_event_newer_than_all_waits_is_not_delayed() -> None:
    assert delays(waits((100.0, 101.0)), 102.0, 0.1, 0.5) == (False, 0.0)


def test_event_before_a_wait_is_delayed_by_it() -> None:
    assert delays(waits((100.0, 101.0)), 101.5, 1.75, 2.0) == (False, 1.0)


def test_event_during_a_long_wait_is_no_sample() -> None:
    assert delays(waits((100.0, 101.0)), 101.5, 0.75, 1.0) == (True, 1.0)
    short = LATE_SECONDS / 2
    assert delays(waits((100.0, 100.0 + short)), 101.5, 1.45, 1.5)[0] is False
