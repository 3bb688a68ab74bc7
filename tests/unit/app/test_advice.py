"""What is recommended, by what rehearsals have shown."""

from dataclasses import replace

import pytest

from watchslo.app.advice import LONG_SECONDS, Advice, Outcome, advise, failing, outcomes, remembers
from watchslo.model import Interval
from watchslo.monitor.rehearsal import Headroom, Rehearsal
from watchslo.watch.failure import Reason, because

PAGED = Rehearsal(
    strategy="paged",
    by="paged",
    synced=1.5,
    requests=11,
    pages=10,
    objects=5000,
    size=18_000_000,
    events=0,
    waiting=0,
    throttled=0,
    expired_lists=0,
    expired_watches=0,
    fell_back=False,
    failure=None,
)
TAIL = replace(PAGED, strategy="tail", by="tail", synced=0.005, requests=2, pages=1, objects=0)
PARALLEL = replace(PAGED, strategy="parallel", by="parallel", synced=1.6, events=40, waiting=160_000)
STREAM = replace(PAGED, strategy="stream", by="stream", synced=1.2, requests=1, pages=0, events=12)
CACHE = replace(PAGED, strategy="cache", by="cache", synced=0.9, requests=2, pages=1)
FELL_BACK = replace(STREAM, by="paged", synced=1.6, fell_back=True)
EXPIRED = replace(PAGED, synced=None, expired_watches=3, failure=because(Reason.EXPIRED))


def advice(*runs: Rehearsal) -> Advice:
    return advise(outcomes(runs))


def test_stream_where_the_apiserver_streams_lists() -> None:
    assert advice(TAIL, PAGED, PARALLEL, STREAM, CACHE) == Advice(
        "stream",
        "One watch brought 5,000 objects in 1.2 s and goes on from there: no revision can expire in between "
        "(paged: 10 pages, 1.5 s).",
    )


def test_stream_beside_nothing_else() -> None:
    assert advice(STREAM).reason.endswith("no revision can expire in between.")


def test_stream_where_paged_loses_its_revision() -> None:
    assert advice(EXPIRED, STREAM) == Advice(
        "stream",
        "One watch brought 5,000 objects in 1.2 s and goes on from there: no revision can expire in between "
        "(paged: 410 when the watch should start).",
    )


def test_paged_where_it_holds_and_lists_are_not_streamed() -> None:
    assert advice(PAGED, PAGED, PARALLEL, PARALLEL, FELL_BACK, FELL_BACK, CACHE, CACHE) == Advice(
        "paged",
        "5,000 objects came in 10 pages in 1.5 s, and the watch could start from the list's revision in 2 of 2 runs "
        "(stream: fell back to pages, as the apiserver streams no lists).",
    )


def test_parallel_where_paged_loses_its_revision() -> None:
    assert advice(EXPIRED, PAGED, PARALLEL, PARALLEL, FELL_BACK, FELL_BACK) == Advice(
        "parallel",
        "5,000 objects came in 10 pages in 1.6 s, and its watch opens at the first page, before the revision can "
        "expire (paged: 410 when the watch should start in 1 of 2 runs) "
        "(stream: fell back to pages, as the apiserver streams no lists).",
    )


def test_parallel_where_paged_takes_long() -> None:
    slow = replace(PAGED, synced=LONG_SECONDS + 12)
    found = advice(slow, PARALLEL)
    assert found.strategy == "parallel"
    assert "paged holds its revision for 42 s, and apiservers try to keep changes for 75 s only" in found.reason
    assert advice(slow).strategy == "paged"


def test_cache_where_nothing_else_holds() -> None:
    assert advice(EXPIRED, CACHE) == Advice(
        "cache",
        "It is the only one that held (paged did not): 5,000 objects came at once in 900 ms. But the cache of an "
        "apiserver may answer from the past, above all where there are several of them.",
    )
    assert advice(CACHE).reason.startswith("It held: ")


def test_nothing_where_nothing_holds() -> None:
    lists = replace(EXPIRED, expired_lists=2, expired_watches=0)
    throttled = replace(PARALLEL, synced=None, throttled=3, failure=because(Reason.THROTTLED))
    assert advice(TAIL, lists, throttled) == Advice(
        None,
        "By no strategy was each start synced without a 410. "
        "The apiserver answered 429 3 times: it was busy, or its cache not ready; rehearse again later.",
    )


def test_nothing_for_those_who_need_objects_by_tail() -> None:
    found = advice(TAIL)
    assert found.strategy is None
    assert found.reason.startswith("tail knows no objects")


def test_remarks() -> None:
    few = replace(PAGED, objects=1, pages=1, throttled=1)
    assert advice(few).reason == (
        "1 object came in 1 page in 1.5 s, and the watch could start from the list's revision. "
        "With so few objects all of them cost about the same. "
        "The apiserver answered 429 once: it was busy, or its cache not ready; rehearse again later."
    )
    assert "so few" not in advice(replace(PAGED, objects=0)).reason


def test_another_strategy_that_stands_in_proves_nothing() -> None:
    assert not Outcome("stream", (replace(STREAM, by="paged"),)).holds


@pytest.mark.parametrize(
    ("runs", "synced"),
    [
        ([3.0, 1.0, 2.0], 2.0),
        ([4.0, 3.0, 1.0, 2.0], 2.0),
        ([None, 3.0, None], 3.0),
        ([None, None], None),
    ],
)
def test_the_typical_run_is_the_median(runs: list[float | None], synced: float | None) -> None:
    assert Outcome("paged", tuple(replace(PAGED, synced=run) for run in runs)).typical.synced == synced


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (FELL_BACK, "fell back to pages, as the apiserver streams no lists"),
        (EXPIRED, "410 when the watch should start"),
        (replace(EXPIRED, expired_lists=1), "410 while it was listed"),
        (replace(PAGED, synced=None, failure=because(Reason.RESET)), "The connection was reset"),
        (replace(STREAM, by="paged"), "paged had to stand in"),
    ],
)
def test_what_did_not_hold(run: Rehearsal, said: str) -> None:
    assert failing(Outcome(run.strategy, (run,))) == said


# How long one may be away

HEADROOM = Headroom(oldest=1000, revisions=6400, seconds=Interval(14.0, float("inf")), about=128.0, complete=False)


@pytest.mark.parametrize(
    ("headroom", "runs", "said"),
    [
        (HEADROOM, [PAGED, STREAM], " gets 410. The longest list took 1.5 s, 1% of that."),
        (HEADROOM, [replace(PAGED, synced=0.1)], " gets 410. The longest list took 100 ms, less than 1% of that."),
        (HEADROOM, [replace(PAGED, synced=96.0), PAGED], " gets 410. The longest list took 96 s, 75% of that."),
        (
            HEADROOM,
            [replace(PARALLEL, synced=140.0)],
            " gets 410. The longest list took 140 s: a watch that opens after it is too late.",
        ),
        (HEADROOM, [EXPIRED], " gets 410."),
        (HEADROOM, [TAIL], " gets 410."),
    ],
)
def test_how_long_one_may_be_away(headroom: Headroom, runs: list[Rehearsal], said: str) -> None:
    away = "A client that is away for more than about 128 s (6,400 revisions)"
    assert remembers(headroom, outcomes(runs)) == away + said


def test_what_drops_nothing_remembers_ever_more() -> None:
    assert remembers(replace(HEADROOM, complete=True), outcomes([PAGED])) == (
        "The apiserver dropped no change meanwhile: it remembers about 128 s (6,400 revisions), and ever more."
    )


def test_without_changes_only_what_is_proven_is_said() -> None:
    said = remembers(replace(HEADROOM, about=None, revisions=1), outcomes([PAGED]))
    assert said == "The apiserver remembers at least 14 s (1 revision)."
