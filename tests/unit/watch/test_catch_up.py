"""Bursts of events after a pause, and whether a watch caught up with them."""

import pytest

from watchslo.watch.catch_up import BurstFinder, EventBurst


def opened() -> BurstFinder:
    """Return the finder of a watch that was opened at 100 s and had an event then."""
    finder = BurstFinder()
    finder.restart(100.0)
    assert finder.add(100.0, [7]) is None
    return finder


def test_events_together_after_a_pause_are_a_burst() -> None:
    finder = opened()
    assert finder.add(103.0, [8, 9, 10, 11, 12]) is None
    assert finder.add(103.1, [13, 14, 15, 16, 17, 18]) is None
    assert finder.add(104.0, [19]) == EventBurst(began=103.0, ended=103.1, oldest=8, newest=18, events=11)
    assert finder.add(104.1, [20]) is None, "it is reported once"


def test_few_events_after_a_pause_are_no_burst() -> None:
    finder = opened()
    finder.add(103.0, [8, 9, 10])
    assert finder.add(105.0, [11]) is None


def test_events_without_a_pause_are_no_burst() -> None:
    finder = opened()
    finder.add(100.9, [*range(8, 30)])
    assert finder.add(103.0, [30]) is None


def test_backlog_of_a_watch_that_was_opened_is_no_burst() -> None:
    finder = opened()
    finder.restart(200.0)
    finder.add(200.01, [*range(8, 30)])
    assert finder.add(203.0, [30]) is None


def test_first_events_of_a_watch_are_no_burst() -> None:
    finder = BurstFinder()
    finder.add(100.0, [*range(8, 30)])
    assert finder.add(103.0, [30]) is None


def test_burst_ends_although_events_continue() -> None:
    finder = opened()
    assert [finder.add(103.0 + 0.2 * number, [8 + number] * 2) for number in range(6)] == [None] * 6
    burst = finder.add(104.2, [20])
    assert burst is not None
    assert (burst.newest, burst.events, burst.ended) == (13, 12, 104.0)


def test_burst_after_a_burst_is_found() -> None:
    finder = opened()
    finder.add(103.0, [*range(8, 30)])
    assert finder.add(106.0, [*range(30, 50)]) == EventBurst(103.0, 103.0, 8, 29, 22)
    assert finder.add(109.0, [50]) == EventBurst(106.0, 106.0, 30, 49, 20)


@pytest.mark.parametrize(
    ("oldest", "newest", "caught_up"), [(3.0, 0.0, True), (3.0, 1.5, True), (3.0, 1.6, False), (0.9, 0.0, False)]
)
def test_watch_has_caught_up_if_only_the_first_events_were_old(
    oldest: float, newest: float, *, caught_up: bool
) -> None:
    assert EventBurst(103.0, 103.0, 8, 29, 22).has_caught_up(oldest, newest) is caught_up
