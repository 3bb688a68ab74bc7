"""The strategy that is recommended for the results of rehearsals, and the sentences that explain it."""

from dataclasses import replace

import pytest

from watchslo.app.rehearse.advice import LONG_SECONDS, Advice, advise, headroom_sentence
from watchslo.app.rehearse.outcome import Outcome, failing, outcomes
from watchslo.model import Interval
from watchslo.monitor.rehearsal import Rehearsal
from watchslo.monitor.rehearsal_headroom import Headroom
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


def test_stream_is_recommended_if_the_apiserver_streams_lists() -> None:
    assert advice(TAIL, PAGED, PARALLEL, STREAM, CACHE) == Advice(
        "stream",
        "One watch brought 5,000 objects in 1.2 s and continues from there: no revision can expire in between "
        "(paged: 10 pages, 1.5 s).",
    )


def test_stream_alone_is_recommended_without_comparison() -> None:
    assert advice(STREAM).reason.endswith("no revision can expire in between.")


def test_stream_is_recommended_if_paged_gets_410() -> None:
    assert advice(EXPIRED, STREAM) == Advice(
        "stream",
        "One watch brought 5,000 objects in 1.2 s and continues from there: no revision can expire in between "
        "(paged: 410 when the watch opened).",
    )


def test_paged_is_recommended_if_lists_are_not_streamed() -> None:
    assert advice(PAGED, PAGED, PARALLEL, PARALLEL, FELL_BACK, FELL_BACK, CACHE, CACHE) == Advice(
        "paged",
        "5,000 objects came in 10 pages in 1.5 s, and the watch could start from the list's revision in 2 of 2 runs "
        "(stream: fell back to pages, as the apiserver streams no lists).",
    )


def test_parallel_is_recommended_if_paged_gets_410() -> None:
    assert advice(EXPIRED, PAGED, PARALLEL, PARALLEL, FELL_BACK, FELL_BACK) == Advice(
        "parallel",
        "5,000 objects came in 10 pages in 1.6 s, and its watch opens at the first page, before the revision can "
        "expire (paged: 410 when the watch opened in 1 of 2 runs) "
        "(stream: fell back to pages, as the apiserver streams no lists).",
    )


def test_parallel_is_recommended_if_paged_is_slow() -> None:
    slow = replace(PAGED, synced=LONG_SECONDS + 12)
    found = advice(slow, PARALLEL)
    assert found.strategy == "parallel"
    assert "paged needs its revision for 42 s, while apiservers aim to keep only 75 s of changes" in found.reason
    assert advice(slow).strategy == "paged"


def test_cache_is_recommended_if_nothing_else_holds() -> None:
    assert advice(EXPIRED, CACHE) == Advice(
        "cache",
        "Only this strategy worked (paged did not): 5,000 objects came in one answer in 900 ms. But the cache of an "
        "apiserver may be out of date, especially if there are several apiservers.",
    )
    assert advice(CACHE).reason.startswith("This strategy worked: ")


def test_no_strategy_is_recommended_if_none_holds() -> None:
    lists = replace(EXPIRED, expired_lists=2, expired_watches=0)
    throttled = replace(PARALLEL, synced=None, throttled=3, failure=because(Reason.THROTTLED))
    assert advice(TAIL, lists, throttled) == Advice(
        None,
        "No strategy synced in each run without a 410. "
        "The apiserver answered 429 3 times: it was busy, or its cache was not ready. Rehearse again later.",
    )


def test_tail_alone_is_never_recommended() -> None:
    found = advice(TAIL)
    assert found.strategy is None
    assert found.reason.startswith("tail lists no objects")


def test_reason_mentions_few_objects_and_429s() -> None:
    few = replace(PAGED, objects=1, pages=1, throttled=1)
    assert advice(few).reason == (
        "1 object came in 1 page in 1.5 s, and the watch could start from the list's revision. "
        "With so few objects, all strategies cost about the same. "
        "The apiserver answered 429 once: it was busy, or its cache was not ready. Rehearse again later."
    )
    assert "so few" not in advice(replace(PAGED, objects=0)).reason


def test_outcome_with_fallback_does_not_hold() -> None:
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
def test_typical_run_is_the_median(runs: list[float | None], synced: float | None) -> None:
    assert Outcome("paged", tuple(replace(PAGED, synced=run) for run in runs)).typical.synced == synced


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (FELL_BACK, "fell back to pages, as the apiserver streams no lists"),
        (EXPIRED, "410 when the watch opened"),
        (replace(EXPIRED, expired_lists=1), "410 during the list"),
        (replace(PAGED, synced=None, failure=because(Reason.RESET)), "The connection was reset"),
        (replace(STREAM, by="paged"), "paged was used instead"),
    ],
)
def test_failing_states_why_a_strategy_does_not_hold(run: Rehearsal, said: str) -> None:
    assert failing(Outcome(run.strategy, (run,))) == said


# Headroom

HEADROOM = Headroom(oldest=1000, revisions=6400, seconds=Interval(14.0, float("inf")), about=128.0, complete=False)


@pytest.mark.parametrize(
    ("headroom", "runs", "said"),
    [
        (HEADROOM, [PAGED, STREAM], " gets a 410. The longest list took 1.5 s, 1% of that."),
        (HEADROOM, [replace(PAGED, synced=0.1)], " gets a 410. The longest list took 100 ms, less than 1% of that."),
        (HEADROOM, [replace(PAGED, synced=96.0), PAGED], " gets a 410. The longest list took 96 s, 75% of that."),
        (
            HEADROOM,
            [replace(PARALLEL, synced=140.0)],
            " gets a 410. The longest list took 140 s: a watch that opens after it gets a 410.",
        ),
        (HEADROOM, [EXPIRED], " gets a 410."),
        (HEADROOM, [TAIL], " gets a 410."),
    ],
)
def test_headroom_is_compared_with_longest_list(headroom: Headroom, runs: list[Rehearsal], said: str) -> None:
    away = "A client that is disconnected for more than about 128 s (6,400 revisions)"
    assert headroom_sentence(headroom, outcomes(runs)) == away + said


def test_headroom_of_commit_times_is_stated_in_seconds() -> None:
    said = headroom_sentence(replace(HEADROOM, revisions=None), {})
    assert said == "A client that is disconnected for more than about 128 s gets a 410."


def test_complete_headroom_still_grows() -> None:
    assert headroom_sentence(replace(HEADROOM, complete=True), outcomes([PAGED])) == (
        "The headroom is about 128 s (6,400 revisions) and still grows: the apiserver dropped no change during the "
        "rehearsals."
    )


def test_headroom_without_changes_states_lower_bound() -> None:
    said = headroom_sentence(replace(HEADROOM, about=None, revisions=1), outcomes([PAGED]))
    assert said == "The headroom is at least 14 s (1 revision)."
