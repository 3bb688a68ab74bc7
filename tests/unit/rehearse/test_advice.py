"""The strategy that is recommended for the results of rehearsals, and the sentences about it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.transcripts import of_states
from tests.unit.rehearse.conftest import PAGED
from watchslo.model import Interval
from watchslo.rehearse.advice import LONG_SECONDS, Advice, advise, headroom_sentence
from watchslo.rehearse.headroom import Headroom
from watchslo.rehearse.options import STARVED_OBJECTS
from watchslo.rehearse.outcome import Outcome, failing, outcomes
from watchslo.rehearse.rehearsal import Rehearsal
from watchslo.watch.failure import Reason, because

TAIL = replace(PAGED, strategy="tail", by="tail", synced=0.005, requests=2, pages=1, objects=0)
PARALLEL = replace(PAGED, strategy="parallel", by="parallel", synced=1.6, events=40, waiting=160_000)
STREAM = replace(PAGED, strategy="stream", by="stream", synced=1.2, requests=1, pages=0, events=12)
CACHE = replace(PAGED, strategy="cache", by="cache", synced=0.9, requests=2, pages=1)
FELL_BACK = replace(STREAM, by="paged", synced=1.6, fell_back=True)
EXPIRED = replace(PAGED, synced=None, expired_watches=3, failure=because(Reason.EXPIRED))
LISTS_EXPIRED = replace(EXPIRED, expired_lists=2, expired_watches=0)
THROTTLED = replace(PARALLEL, synced=None, throttled=3, failure=because(Reason.THROTTLED))
FEW = replace(PAGED, objects=1, pages=1, throttled=1)
HUGE = replace(STREAM, objects=STARVED_OBJECTS)
HEADROOM = Headroom(oldest=1000, revisions=6400, seconds=Interval(127.0, 129.0), complete=False)
OLDER = replace(HEADROOM, seconds=Interval(97.0, float("inf")))


def advice(*runs: Rehearsal) -> Advice:
    return advise(outcomes(runs))


ADVICE = {
    "all strategies sync": (TAIL, PAGED, PARALLEL, STREAM, CACHE),
    "stream alone": (STREAM,),
    "stream, and paged gets a 410": (EXPIRED, STREAM),
    "lists are not streamed, two runs each": (PAGED, PAGED, PARALLEL, PARALLEL, FELL_BACK, FELL_BACK, CACHE, CACHE),
    "paged gets a 410 in one of two runs": (EXPIRED, PAGED, PARALLEL, PARALLEL, FELL_BACK, FELL_BACK),
    "paged is slow": (replace(PAGED, synced=LONG_SECONDS + 12), PARALLEL),
    "paged is slow but alone": (replace(PAGED, synced=LONG_SECONDS + 12),),
    "paged is as slow as it may be": (replace(PAGED, synced=LONG_SECONDS), PARALLEL),
    "paged gets a 410, and cache syncs": (EXPIRED, CACHE),
    "cache alone": (CACHE,),
    "none syncs": (TAIL, LISTS_EXPIRED, THROTTLED),
    "tail alone": (TAIL,),
    "one object, and a 429": (FEW,),
    "no object": (replace(PAGED, objects=0),),
    "as many streamed objects as starve a cache": (HUGE,),
    "one object less": (replace(HUGE, objects=STARVED_OBJECTS - 1),),
}
FAILING = {
    "lists get 410": LISTS_EXPIRED,
    "the watch gets 410": EXPIRED,
    "both get 410": replace(EXPIRED, expired_lists=1),
    "fell back": FELL_BACK,
    "connection reset": replace(PAGED, synced=None, failure=because(Reason.RESET)),
    "another strategy": replace(STREAM, by="paged"),
}
HEADROOMS = {
    "two lists": (HEADROOM, [PAGED, STREAM]),
    "a short list": (HEADROOM, [replace(PAGED, synced=0.1)]),
    "a long list": (HEADROOM, [replace(PAGED, synced=96.0), PAGED]),
    "a list that takes longer": (HEADROOM, [replace(PARALLEL, synced=140.0)]),
    "no list that synced": (HEADROOM, [EXPIRED]),
    "tail": (HEADROOM, [TAIL]),
    "commit times": (replace(HEADROOM, revisions=None), []),
    "complete": (replace(HEADROOM, complete=True), [PAGED]),
    "before the rehearsals": (OLDER, [PAGED, STREAM]),
    "before the rehearsals, and a long list": (OLDER, [replace(PAGED, synced=98.0)]),
    "before the rehearsals, and complete": (replace(OLDER, complete=True), [PAGED]),
}


def test_advice_matches_golden_file(golden: Callable[[str, str], None]) -> None:
    found = {name: advice(*runs) for name, runs in ADVICE.items()}
    golden("rehearse-advice.txt", of_states({name: (f"use {one.strategy}", one.reason) for name, one in found.items()}))


def test_failures_and_headroom_match_golden_file(golden: Callable[[str, str], None]) -> None:
    failures = {f"failing: {name}": [failing(Outcome(run.strategy, (run,)))] for name, run in FAILING.items()}
    reach = {f"headroom: {name}": [headroom_sentence(one, outcomes(runs))] for name, (one, runs) in HEADROOMS.items()}
    golden("rehearse-headroom.txt", of_states(failures | reach))


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
