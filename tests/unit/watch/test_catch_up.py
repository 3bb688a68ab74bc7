"""Bursts of events after a pause, and whether a watch caught up with them."""

import pytest

from watchslo.watch.catch_up import EventBurst


@pytest.mark.parametrize(
    ("oldest", "newest", "caught_up"), [(3.0, 0.0, True), (3.0, 1.5, True), (3.0, 1.6, False), (0.9, 0.0, False)]
)
def test_watch_has_caught_up_if_only_the_first_events_were_old(
    oldest: float, newest: float, *, caught_up: bool
) -> None:
    assert EventBurst(103.0, 103.0, 8, 29, 22).has_caught_up(oldest, newest) is caught_up
