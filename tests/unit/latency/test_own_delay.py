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
    def test_of_the_oldest_spans_is_unknown_when_there_are_too_many(
        self, own: OwnDelays, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "SPANS", 4)
        for second in range(1, 6):
            own.add_late_reads(second, second + 0.5, since=second - 0.25)
        assert delays(own, 0.5, 1.5, 2.5, 2.6, 3.5, 5.5) == [np.inf, np.inf, np.inf, 0.0, 0.75, 0.75]


class TestStops:
    def test_are_kept_in_a_bounded_number(self, own: OwnDelays) -> None:
        for second in range(100):
            own.add_stop(second, second + 0.1)
        assert len(own._stops) == module.STOPS == 64
