"""When ticks were sent and answered."""

import math

from watchslo.clock.answered import TickTimes
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
