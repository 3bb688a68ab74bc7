"""What one watch has delivered recently."""

from watchslo.monitor.protocol.deliveries import RECENT_SECONDS, RECENT_SPACING_SECONDS, Deliveries
from watchslo.watch.audit import DELIVERED, FORGOTTEN, LEAST_DELIVERED
from watchslo.watch.messages import Batch


def delivered(*times: float) -> Deliveries:
    """Return the deliveries of one event at each of these times, with the revisions 1, 2, …."""
    made = Deliveries()
    for revision, time in enumerate(times, start=1):
        made.add(Batch(time, [revision], ["ADDED"], [None]))
    return made


def test_recent_holds_a_minute_of_a_busy_watch() -> None:
    made = delivered(*(number / 64 for number in range(64 * 300)))
    assert len(made.times) == RECENT_SECONDS * 16 + 1 < RECENT_SECONDS / RECENT_SPACING_SECONDS + 1
    assert len(made.revisions) == len(made.times)
    assert made.times[-1] - made.times[0] == RECENT_SECONDS
    minute = 64 * RECENT_SECONDS
    assert minute <= len(made.delivered._revisions) <= minute + 2 * FORGOTTEN


def test_revisions_of_a_minute_are_limited() -> None:
    made = delivered(*(number / 1024 for number in range(1024 * 60)))
    assert DELIVERED <= len(made.delivered._revisions) < DELIVERED + FORGOTTEN


def test_recent_holds_a_minute_of_a_watch_with_few_events() -> None:
    made = delivered(*(10.0 * number for number in range(2000)))
    assert [19_990 - time for time in made.times] == [60, 50, 40, 30, 20, 10, 0]


def test_revisions_of_a_watch_with_few_events_are_limited() -> None:
    made = delivered(*(1.0 * number for number in range(3000)))
    assert LEAST_DELIVERED <= len(made.delivered._revisions) < LEAST_DELIVERED + FORGOTTEN


def test_newest_stays_however_old() -> None:
    made = delivered(0.0, 3600.0)
    assert [*zip(made.times, made.revisions, strict=True)] == [(3600.0, 2)]


def test_since_returns_when_the_first_newer_revision_was_received() -> None:
    made = delivered(1.0, 2.0, 3.0)
    assert [made.since(revision) for revision in range(4)] == [1.0, 2.0, 3.0, None]
    made.forget()
    assert made.since(0) is None
