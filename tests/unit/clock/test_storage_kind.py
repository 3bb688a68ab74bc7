"""The kind of a storage is found from its ticks, soon and never wrongly."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchslo.clock.storage_kind import LEAST_TIMESTAMP, MOST_COUNTED, KindDetector
from watchslo.model import Reading
from watchslo.snapshot import StorageKind

UNIX = 1_753_647_547_040_015_001  # a revision seen on GKE
TICKS_A_SECOND = 2


def kinds(revision_at: Callable[[float], float], seconds: float) -> list[StorageKind]:
    """Return the kind that is known after each tick."""
    detector, found = KindDetector(), []
    for number in range(round(seconds * TICKS_A_SECOND)):
        sent = number / TICKS_A_SECOND
        detector.observe(Reading("events", sent, sent + 0.002, int(revision_at(sent))))
        found.append(detector.kind)
    return found


@given(st.integers(1, MOST_COUNTED // 2), st.floats(0.0, 1e6))
def test_counter_is_a_sequence_from_the_first_tick(start: int, rate: float) -> None:
    assert set(kinds(lambda at: start + rate * at, 60)) == {StorageKind.SEQUENCE}


@given(st.floats(-1e9, 1e9), st.floats(-200e-6, 200e-6))
def test_timestamps_are_known_within_a_minute_and_stay(ahead: float, fast: float) -> None:
    found = kinds(lambda at: UNIX + 1e9 * (ahead / 1e3 + at * (1.0 + fast)), 3600)
    assert StorageKind.SEQUENCE not in found
    assert set(found[22 * TICKS_A_SECOND :]) == {StorageKind.TIMESTAMP}


@pytest.mark.parametrize("every", [1.0, 4.0, 30.0])
def test_last_commits_are_timestamps_however_rare(every: float) -> None:
    """The first one may be old, and then the next one is further ahead."""
    found = kinds(lambda at: UNIX + 1e9 * every * (at // every) - (40e9 if at < every else 0), 600)
    assert StorageKind.SEQUENCE not in found
    assert set(found[round(60 + 2 * every) * TICKS_A_SECOND :]) == {StorageKind.TIMESTAMP}


@pytest.mark.parametrize("rate", [0.0, 1e3, 1e6, 2e9])
def test_large_revisions_that_do_not_grow_as_time_are_unknown(rate: float) -> None:
    assert set(kinds(lambda at: LEAST_TIMESTAMP + rate * at, 3600)) == {StorageKind.UNKNOWN}


def test_numbers_between_counters_and_timestamps_are_unknown() -> None:
    assert set(kinds(lambda at: MOST_COUNTED + 1 + at, 60)) == {StorageKind.UNKNOWN}


def test_storage_clock_that_is_set_ahead_is_proven_again() -> None:
    found = kinds(lambda at: UNIX + 1e9 * (at if at < 60 else at + 10), 180)
    assert found[59 * TICKS_A_SECOND] is StorageKind.TIMESTAMP
    assert found[60 * TICKS_A_SECOND] is StorageKind.UNKNOWN
    assert found[-1] is StorageKind.TIMESTAMP
