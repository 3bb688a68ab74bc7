"""The delays that this process adds to arrivals."""

import numpy as np
import pytest

from watchslo.latency import own_delay as module
from watchslo.latency.own_delay import OwnDelays


def delays(own: OwnDelays, *received: float) -> list[float]:
    return [round(float(delay), 6) for delay in own.of(np.array(received))]


@pytest.fixture
def own() -> OwnDelays:
    return OwnDelays()


class TestLateReads:
    def test_is_zero_without_a_span(self, own: OwnDelays) -> None:
        assert delays(own, 1.0, 2.0) == [0.0, 0.0]

    def test_is_the_time_since_the_data_may_have_arrived(self, own: OwnDelays) -> None:
        own.add_late_reads(10.0, 10.02, since=9.955)
        assert delays(own, 9.99, 10.0, 10.01, 10.02, 10.03) == [0.0, 0.045, 0.055, 0.065, 0.0]

    def test_of_less_than_a_millisecond_is_not_noted(self, own: OwnDelays) -> None:
        own.add_late_reads(10.0, 10.0009, since=10.0)
        assert delays(own, 10.0005) == [0.0]
        own.add_late_reads(11.0, 11.0009, since=10.9998)
        assert delays(own, 11.0005) == [0.0007]

    def test_of_the_oldest_spans_is_unknown_when_there_are_too_many(
        self, own: OwnDelays, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "SPANS", 4)
        for second in range(1, 6):
            own.add_late_reads(second, second + 0.5, since=second - 0.25)
        assert delays(own, 0.5, 1.5, 2.5, 2.6, 3.5, 5.5) == [np.inf, np.inf, np.inf, 0.0, 0.75, 0.75]


class TestCpuWaits:
    def test_is_added_to_late_reads(self, own: OwnDelays) -> None:
        own.add_late_reads(10.0, 10.02, since=9.955)
        own.add_cpu_wait(9.99, 10.015, 0.01)
        assert delays(own, 9.98, 9.99, 10.01, 10.02) == [0.0, 0.01, 0.065, 0.065]

    def test_of_less_than_a_millisecond_is_not_noted(self, own: OwnDelays) -> None:
        own.add_cpu_wait(9.99, 10.015, 0.0009)
        assert delays(own, 10.0) == [0.0]


class TestStops:
    def test_is_spanned_by_what_was_committed_before_it_and_received_after_it(self, own: OwnDelays) -> None:
        own.add_stop(10.0, 10.05)
        committed = np.array([9.0, 9.9, 10.05, 10.06, 9.0])
        received = np.array([9.9, 10.02, 11.0, 11.0, 11.0])
        assert own.span_stop(committed, received).tolist() == [False, True, True, False, True]

    def test_is_never_spanned_without_one(self, own: OwnDelays) -> None:
        assert own.span_stop(np.array([-np.inf]), np.array([np.inf])).tolist() == [False]

    def test_are_kept_in_a_bounded_number(self, own: OwnDelays) -> None:
        for second in range(100):
            own.add_stop(second, second + 0.1)
        assert len(own._stops) == module.STOPS == 64
