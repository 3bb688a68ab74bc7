"""The search for the headroom of an apiserver, with and without a revision in the message of a 410."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchslo.watch.headroom import (
    OPENS,
    PRECISION,
    Accepted,
    Outcome,
    Search,
    TooOld,
    estimate_list,
    parse_oldest,
    replay_start,
)

BILLION = 10**9


@pytest.mark.parametrize(
    ("message", "refusal"),
    [
        ("too old resource version: 1 (236)", TooOld(236)),
        ("The apiserver no longer has this revision. It says: too old resource version: 1 (236)", TooOld(236)),
        ("too old resource version: 1", TooOld(None)),
        ("too old resource version: 1 (99999999999999999999)", TooOld(None)),
        ("The resourceVersion for the provided watch is too old.", TooOld(None, by_storage=True)),
        ("It is gone. It says: The resourceVersion for the provided watch is too old.", TooOld(None, by_storage=True)),
        ("The resourceVersion for the provided list is too old.", TooOld(None)),
        ("", TooOld(None)),
        (None, TooOld(None)),
    ],
)
def test_parse_reads_the_message_of_a_410(message: str | None, refusal: TooOld) -> None:
    assert TooOld.parse(message) == refusal
    assert parse_oldest(message) == refusal.oldest


def look(search: Search, answer: Callable[[int], Outcome]) -> list[int]:
    """Open watches until the search ends; return their revisions."""
    opened = []
    while (revision := search.next) is not None:
        opened.append(revision)
        search.observe(revision, answer(revision))
    return opened


def silent_about(oldest: int) -> Callable[[int], Outcome]:
    """Return the answers of an apiserver whose 410 names no revision."""
    return lambda revision: Accepted() if revision >= oldest else TooOld(None)


@given(newest=st.integers(2, BILLION), share=st.floats(0.0, 1.0))
def test_search_finds_the_headroom_within_ten_percent_by_ten_watches(newest: int, share: float) -> None:
    distance = min(max(round(newest**share), 1), newest - 1)
    oldest = newest + 1 - distance
    search = Search(newest)
    opened = look(search, silent_about(oldest))
    assert len(opened) <= OPENS
    assert len(set(opened)) == len(opened)
    if search.oldest is None:
        assert distance <= 2, "only the nearest revisions are never tried"
        return
    assert search.oldest >= oldest
    assert not search.complete
    assert newest + 1 - search.oldest >= distance / 1.1 - 1


def test_search_stops_at_the_precision() -> None:
    search = Search(newest=120)
    assert len(look(search, silent_about(20))) < OPENS
    assert search.oldest is not None
    assert 101 / (121 - search.oldest) <= PRECISION


def test_search_is_correct_while_revisions_are_dropped() -> None:
    """Revisions are dropped during the search: the result lies between the first and the last true value."""
    chance = random.Random(1)
    for _ in range(200):
        newest, distance = chance.randrange(10**5, 10**7), chance.randrange(1000, 50_000)
        first = last = newest + 1 - distance
        search = Search(newest)
        while (revision := search.next) is not None:
            search.observe(revision, silent_about(last)(revision))
            last += chance.randrange(100)
        assert search.oldest is not None
        assert first <= search.oldest <= last + 0.1 * distance


@pytest.mark.parametrize(
    ("took", "remaining", "seconds"), [(0.1, 0, 0.1), (0.1, 1, 0.2), (0.1, 500, 0.2), (0.1, 501, 0.3), (2.0, 9500, 40)]
)
def test_estimate_list_adds_up_the_pages(took: float, remaining: int, seconds: float) -> None:
    assert estimate_list(took, remaining) == pytest.approx(seconds)


def test_replay_begins_at_the_oldest_revision_and_later_if_that_expired() -> None:
    assert replay_start(100, 1100, expired=0) == 100
    assert [replay_start(100, 1100, expired=count) for count in range(1, 9)] == [
        *(120, 140, 180, 260, 420, 740, 1100, 1100)
    ]
    assert replay_start(100, 90, expired=3) == 100
