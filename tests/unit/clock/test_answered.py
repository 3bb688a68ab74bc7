"""When ticks were sent and answered."""

import math

import numpy as np
import pytest

from watchslo.clock.answered import HiddenTimes, TickTimes
from watchslo.model import Reading

INF = math.inf


def times_of(*ticks: tuple[float, float]) -> TickTimes:
    times = TickTimes()
    for sent, answered in ticks:
        times.add(Reading("events", sent, answered, 1))
    return times


def between(times: TickTimes, start: float, end: float) -> list[tuple[float, float]]:
    ticks = times.between(start, end)
    assert (ticks.start, ticks.end) == (start, end)
    return list(zip(ticks.sent.tolist(), ticks.answered.tolist(), strict=True))


class TestTickTimes:
    def test_between_returns_the_ticks_of_a_time_and_the_next_one(self) -> None:
        times = times_of((1, 1.5), (2, 2.5), (3, 3.5), (4, 4.5), (5, 5.5))
        assert between(times, 2, 3.5) == [(2, 2.5), (3, 3.5), (4, 4.5)]
        assert between(times, 2.5, 3) == [(3, 3.5)]
        assert between(times, 5, 6) == [(5, 5.5)]

    def test_ticks_are_sorted_by_when_they_were_sent(self) -> None:
        assert between(times_of((3, 3.5), (1, 1.5), (2, 2.5)), 0, 2.5) == [(1, 1.5), (2, 2.5), (3, 3.5)]

    def test_commit_shows_in_the_first_answer_to_what_was_sent_later(self) -> None:
        times = times_of((1, 9), (2, 4), (3, 3.5), (4, 4.5))
        assert between(times, 0, 1.5) == [(1, 3.5), (2, 3.5)]

    def test_prune_drops_the_ticks_before_a_time(self) -> None:
        times = times_of((1, 1.5), (2, 2.5), (3, 3.5))
        times.prune(2)
        assert between(times, 0, 9) == [(2, 2.5), (3, 3.5)]
        times.prune(INF)
        assert between(times, 0, 9) == []


STEADY = [(float(second), second + 0.1) for second in range(11)]
"""Ticks of about 10 s, a tenth of which they are in flight."""


def hidden(*ticks: tuple[float, float]) -> HiddenTimes:
    sent, answered = np.array(ticks).T
    return HiddenTimes(sent, answered)


class TestHiddenTimes:
    @pytest.mark.parametrize(("q", "seconds"), [(0.5, 0.0), (0.9, 0.0), (0.95, 0.05), (0.99, 0.09), (1.0, 0.1)])
    def test_quantile_is_that_of_all_instants(self, q: float, seconds: float) -> None:
        assert hidden(*STEADY).quantile(q) == pytest.approx(seconds, abs=0.01)

    def test_a_long_flight_counts_from_as_much_earlier_as_it_was_longer(self) -> None:
        """The way may have been closed since 4.1 s, when the tick before was answered."""
        stalled = [(at, 7.5 if at == 5 else end) for at, end in STEADY if at not in (6, 7)]
        assert hidden(*stalled).quantile(0.9) == pytest.approx(2.4, abs=0.02)
        assert hidden(*stalled).quantile(1.0) == pytest.approx(3.4)

    def test_a_later_tick_may_be_answered_first(self) -> None:
        times = times_of(*((at, 8.05 if at == 5 else end) for at, end in STEADY))
        assert times.hidden(100.0).quantile(1.0) == pytest.approx(1.1 + 0.9)

    def test_are_those_of_the_fastest_apiserver(self) -> None:
        times = TickTimes()
        for at, end in STEADY:
            times.add(Reading("events", at, end, 1, "near"))
            times.add(Reading("events", at + 0.5, end + 1.5, 1, "far"))
        assert times.hidden(100.0).quantile(1.0) == pytest.approx(0.1)

    def test_are_those_of_what_arrived_in_the_window(self) -> None:
        times = times_of((0, 6), (7, 7.1), (8, 8.1), (9, 9.1), (10, 10.1))
        assert times.hidden(5.0).quantile(1.0) == pytest.approx(6.0)
        assert times.hidden(3.0).quantile(1.0) == pytest.approx(0.1)
        times.add(Reading("events", 20, 21, 1))
        assert times.hidden(3.0).quantile(1.0) == pytest.approx(1.0)

    def test_are_computed_once_for_a_window_until_the_next_tick(self) -> None:
        times = times_of(*STEADY)
        assert times.hidden(60.0) is times.hidden(60.0)
        assert times.hidden(60.0).quantile(0.95) == times.hidden(60.0).quantile(0.95)

    def test_nothing_is_hidden_without_ticks(self) -> None:
        assert TickTimes().hidden(60.0).quantile(0.99) == 0.0
