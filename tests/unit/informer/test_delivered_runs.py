"""The first event after a revision is found among the runs of events that are remembered."""

import pytest

from watchslo.informer import delivered_runs
from watchslo.informer.delivered_runs import DeliveredRuns, MissedEvent


@pytest.fixture
def delivered() -> DeliveredRuns:
    made = DeliveredRuns()
    made.begin(10)
    return made


def test_event_of_its_own_run_is_known_exactly(delivered: DeliveredRuns) -> None:
    delivered.add(1.0, [15])
    delivered.add(2.0, [20])
    assert delivered.after(10) == delivered.after(14) == MissedEvent(15, 15, 1.0)
    assert delivered.after(15) == MissedEvent(20, 20, 2.0)
    assert delivered.after(20) is None


def test_event_within_a_run_is_known_by_the_ends_of_what_is_left_of_it(delivered: DeliveredRuns) -> None:
    delivered.add(1.0, [15, 17])
    delivered.add(1.0625, [19])
    assert delivered.after(16) == MissedEvent(17, 19, 1.0625)
    assert delivered.after(12) == MissedEvent(15, 15, 1.0)


def test_event_before_the_watch_began_is_unknown(delivered: DeliveredRuns) -> None:
    assert delivered.after(9) is None
    delivered.add(1.0, [15])
    assert delivered.after(9) == MissedEvent(None, 15, 1.0)


def test_watch_that_missed_something_knows_what_comes_after_its_next_event(delivered: DeliveredRuns) -> None:
    delivered.add(1.0, [15])
    delivered.begin_later()
    assert delivered.after(12) is None
    delivered.add(2.0, [20, 21])
    assert delivered.floor == 20
    assert delivered.after(18) == MissedEvent(None, 20, 2.0)
    assert delivered.after(20) == MissedEvent(21, 21, 2.0)


def test_bookmark_shows_from_where_on_everything_is_known(delivered: DeliveredRuns) -> None:
    delivered.begin_later()
    delivered.mark(30)
    delivered.mark(40)
    assert delivered.floor == 30


def test_oldest_runs_are_forgotten(delivered: DeliveredRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivered_runs, "MOST_RUNS", 4)
    monkeypatch.setattr(delivered_runs, "FORGOTTEN_RUNS", 2)
    for second in range(5):
        delivered.add(float(second), [20 + second])
    assert delivered.floor == 21
    assert delivered.after(10) == MissedEvent(None, 22, 2.0)
    assert delivered.after(21) == MissedEvent(22, 22, 2.0)
