"""Where the second watch of a quiet watch may begin: after what is proven, and never far in the past."""

import pytest

from watchslo.model import Reading
from watchslo.watch.proven_idle import CONFIRMED_SECONDS, REACH_SECONDS, ProvenIdle

BEGAN = 1000.0
LATER = BEGAN + 2 * REACH_SECONDS


def read(revision: int, sent: float = LATER) -> Reading:
    return Reading("events", sent, sent + 0.01, revision)


def test_second_watch_begins_at_the_newest_revision_if_nothing_else_is_proven() -> None:
    proven = ProvenIdle(BEGAN)
    assert proven.start(7, 0, read(900)) == 7
    assert not proven.has_skipped(7)


def test_second_watch_begins_where_the_last_one_was_empty() -> None:
    proven = ProvenIdle(BEGAN)
    proven.note(read(500))
    assert proven.start(7, 400, read(900)) == 500
    assert proven.start(800, 400, read(900)) == 800
    assert not proven.has_skipped(7)


def test_changes_before_the_reach_are_skipped_until_the_watch_has_passed_them() -> None:
    proven = ProvenIdle(BEGAN)
    assert proven.start(7, 400, read(900)) == 400
    proven.note(read(900))
    assert proven.start(7, 600, read(950)) == 900
    assert proven.has_skipped(399)
    assert not proven.has_skipped(400)


def test_read_of_an_older_revision_means_a_restored_storage() -> None:
    proven = ProvenIdle(BEGAN)
    proven.start(7, 400, read(900))
    proven.note(read(900))
    assert proven.start(7, 0, read(30)) == 7
    assert not proven.has_skipped(7)


def test_forgotten_proofs_begin_again() -> None:
    proven = ProvenIdle(BEGAN)
    proven.start(7, 400, read(900))
    proven.note(read(900))
    proven.forget(LATER)
    assert not proven.has_skipped(7)
    assert proven.start(7, 0, read(950)) == 7
    assert proven.reach(LATER + REACH_SECONDS - 1.0, 900) == 0


@pytest.mark.parametrize(
    ("now", "ticked", "expected"),
    [
        (BEGAN + REACH_SECONDS - 1.0, 300, 0),  # its first revision came from a list, and is no older
        (LATER, 300, 300),
        (LATER, None, None),
    ],
)
def test_reach_without_a_proof_is_that_of_the_ticks(now: float, ticked: int | None, expected: int | None) -> None:
    assert ProvenIdle(BEGAN).reach(now, ticked) == expected


@pytest.mark.parametrize(
    ("age", "ticked", "expected"),
    [(12.0, 300, 300), (12.0, 600, 500), (12.0, None, 500), (REACH_SECONDS, 600, 600), (REACH_SECONDS, None, None)],
)
def test_recent_proof_is_within_reach(age: float, ticked: int | None, expected: int | None) -> None:
    proven = ProvenIdle(BEGAN)
    proven.note(read(500, sent=LATER - age))
    assert proven.reach(LATER, ticked) == expected


def test_confirmation_reaches_further() -> None:
    proven = ProvenIdle(BEGAN)
    proven.note(read(500, sent=LATER - REACH_SECONDS))
    assert proven.reach(LATER, None, CONFIRMED_SECONDS) == 500
