"""Where an apiserver's memory begins: what a 410 says of it, and what is found out where it says nothing."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchslo.watch.history import (
    FIRST,
    OPENS,
    PRECISION,
    Accepted,
    Outcome,
    Search,
    TooOld,
    estimate_list,
    parse_oldest,
)

BILLION = 10**9


@pytest.mark.parametrize(
    ("message", "oldest"),
    [
        ("too old resource version: 1 (236)", 236),
        ("The apiserver no longer has this revision. It says: too old resource version: 1 (236)", 236),
        ("too old resource version: 1", None),
        ("too old resource version: 1 (99999999999999999999)", None),
        ("The resourceVersion for the provided watch is too old.", None),
        ("", None),
        (None, None),
    ],
)
def test_a_410_may_name_the_oldest_revision(message: str | None, oldest: int | None) -> None:
    assert parse_oldest(message) == oldest


def look(search: Search, answer: Callable[[int], Outcome]) -> list[int]:
    """Opens watches to the end of the search; returns from where."""
    opened = []
    while (revision := search.next) is not None:
        opened.append(revision)
        search.observe(revision, answer(revision))
    return opened


def silent_about(oldest: int) -> Callable[[int], Outcome]:
    """An apiserver that names no revision when it refuses one."""
    return lambda revision: Accepted() if revision >= oldest else TooOld(None)


def test_one_watch_is_enough_where_the_refusal_names_the_revision() -> None:
    search = Search(newest=5000)
    assert look(search, lambda _: TooOld(236)) == [FIRST]
    assert (search.oldest, search.complete) == (236, False)


def test_a_cache_that_began_after_the_newest_event_is_believed() -> None:
    search = Search(newest=100)
    look(search, lambda _: TooOld(5000))
    assert search.oldest == 5000


def test_silence_means_that_nothing_was_dropped() -> None:
    search = Search(newest=5000)
    assert look(search, lambda _: Accepted()) == [FIRST]
    assert (search.oldest, search.complete) == (FIRST, True)


@pytest.mark.parametrize("named", [None, 0, FIRST])
def test_a_number_that_cannot_be_is_none(named: int | None) -> None:
    search = Search(newest=5000)
    assert len(look(search, lambda revision: Accepted() if revision > 4000 else TooOld(named))) > 1


def test_a_number_that_comes_later_ends_the_search() -> None:
    answers = iter([TooOld(None), TooOld(4999)])
    search = Search(newest=5000)
    assert len(look(search, lambda _: next(answers))) == 2
    assert search.oldest == 4999


@given(newest=st.integers(2, BILLION), share=st.floats(0.0, 1.0))
def test_the_distance_is_found_within_a_tenth_by_ten_watches(newest: int, share: float) -> None:
    distance = min(max(round(newest**share), 1), newest - 1)
    oldest = newest + 1 - distance
    search = Search(newest)
    opened = look(search, silent_about(oldest))
    assert len(opened) <= OPENS
    assert len(set(opened)) == len(opened)
    if search.oldest is None:
        assert distance <= 2, "only what is nearest of all is never tried"
        return
    assert search.oldest >= oldest
    assert not search.complete
    assert newest + 1 - search.oldest >= distance / 1.1 - 1


def test_no_more_watches_than_precision_asks_for() -> None:
    search = Search(newest=120)
    assert len(look(search, silent_about(20))) < OPENS
    assert search.oldest is not None
    assert 101 / (121 - search.oldest) <= PRECISION


@pytest.mark.parametrize("newest", [-5, 0, 1, 2])
def test_where_there_are_hardly_any_revisions_nothing_is_found_and_nothing_breaks(newest: int) -> None:
    search = Search(newest)
    assert look(search, lambda _: TooOld(None)) == [FIRST]
    assert search.oldest is None


def test_what_was_never_accepted_is_not_said_to_be() -> None:
    search = Search(newest=BILLION)
    look(search, lambda _: TooOld(None))
    assert search.oldest is None


def test_history_that_goes_on_meanwhile_does_not_confuse() -> None:
    """While it is searched, revisions are dropped: the answer lies between the first truth and the last."""
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
def test_a_list_takes_as_long_as_its_pages(took: float, remaining: int, seconds: float) -> None:
    assert estimate_list(took, remaining) == pytest.approx(seconds)
