"""The strategy that is recommended for the results of rehearsals, and the sentences about it and its settings."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.transcripts import of_states
from watchslo.kube.client import Selectors
from watchslo.kube.representation import Representation
from watchslo.model import Interval
from watchslo.rehearse.advice import LONG_SECONDS, Advice, advise, headroom_sentence
from watchslo.rehearse.apiserver_process import ApiserverCost
from watchslo.rehearse.headroom import Headroom
from watchslo.rehearse.outcome import Outcome, failing, outcomes
from watchslo.rehearse.plan import STARVED_OBJECTS
from watchslo.rehearse.rehearsal import Rehearsal
from watchslo.rehearse.variant import Variant
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
LISTS_EXPIRED = replace(EXPIRED, expired_lists=2, expired_watches=0)
THROTTLED = replace(PARALLEL, synced=None, throttled=3, failure=because(Reason.THROTTLED))
FEW = replace(PAGED, objects=1, pages=1, throttled=1)
HUGE = replace(STREAM, objects=STARVED_OBJECTS)
HEADROOM = Headroom(oldest=1000, revisions=6400, seconds=Interval(127.0, 129.0), complete=False)
OLDER = replace(HEADROOM, seconds=Interval(97.0, float("inf")))

SMALL = replace(PAGED, size=1_800_000)
METADATA, GZIP = Variant("paged", Representation.METADATA), Variant("paged", gzip=True)
WITH_CPU = replace(PAGED, cost=ApiserverCost(cpu=0.09))


def advice(*runs: Rehearsal) -> Advice:
    return advise(outcomes(runs))


def with_(run: Rehearsal, variant: Variant, **changes: object) -> Rehearsal:
    changes = {"representation": variant.representation} | changes
    return replace(run, variant=variant, **changes)  # type: ignore[arg-type]


LARGER_PAGES = with_(PAGED, Variant("paged", page_size=2000), pages=3, synced=0.8)
SELECTED = with_(SMALL, Variant("paged", selectors=Selectors(labels="app=web")), objects=400, synced=1.4)
SPLIT = with_(PAGED, Variant("paged", each_namespace=True), informers=40, requests=80, synced=2.0)
COMPRESSED = with_(SMALL, GZIP, cost=ApiserverCost(cpu=0.21))

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
SETTINGS = {
    "metadata": (PAGED, with_(SMALL, METADATA, synced=0.9)),
    "table": (PAGED, with_(SMALL, Variant("paged", Representation.TABLE), synced=0.9)),
    "protobuf": (PAGED, with_(SMALL, Variant("paged", Representation.PROTOBUF), synced=0.9)),
    "metadata that fell back": (PAGED, with_(PAGED, METADATA, representation=Representation.PLAIN)),
    "gzip that saves no bytes": (PAGED, with_(PAGED, GZIP)),
    "gzip that is slower": (PAGED, with_(SMALL, GZIP, synced=2.5)),
    "gzip that is as fast": (PAGED, with_(SMALL, GZIP, synced=1.6)),
    "gzip that costs CPU": (WITH_CPU, COMPRESSED),
    "gzip whose CPU is not read": (WITH_CPU, replace(COMPRESSED, cost=None)),
    "gzip whose CPU is unknown": (WITH_CPU, replace(COMPRESSED, cost=ApiserverCost(unknown="why"))),
    "metadata, and metadata with gzip": (
        PAGED,
        with_(SMALL, METADATA),
        with_(PAGED, replace(METADATA, gzip=True), size=300_000),
    ),
    "larger pages that are faster": (PAGED, LARGER_PAGES),
    "larger pages that are as fast": (PAGED, replace(LARGER_PAGES, synced=1.4)),
    "selector that is as slow": (PAGED, SELECTED),
    "selector that is faster": (PAGED, replace(SELECTED, synced=0.2)),
    "split by namespaces that is slower": (PAGED, SPLIT),
    "split by namespaces that is faster": (PAGED, replace(SPLIT, synced=0.5)),
    "metadata that failed, which the table shows": (PAGED, with_(EXPIRED, METADATA)),
    "metadata, but its strategy without it failed": (EXPIRED, with_(PAGED, METADATA)),
    "metadata, but its strategy without it was not rehearsed": (STREAM, with_(PAGED, METADATA)),
    "two settings at once": (PAGED, with_(PAGED, replace(METADATA, page_size=9))),
    "no settings": (PAGED, STREAM, CACHE),
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


def test_sentences_on_settings_match_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("rehearse-settings.txt", of_states({name: advice(*runs).settings for name, runs in SETTINGS.items()}))


def test_failures_and_headroom_match_golden_file(golden: Callable[[str, str], None]) -> None:
    failures = {f"failing: {name}": [failing(Outcome(run.strategy, (run,)))] for name, run in FAILING.items()}
    reach = {f"headroom: {name}": [headroom_sentence(one, outcomes(runs))] for name, (one, runs) in HEADROOMS.items()}
    golden("rehearse-headroom.txt", of_states(failures | reach))


def test_settings_do_not_change_which_strategy_is_recommended() -> None:
    assert advice(PAGED, with_(STREAM, replace(METADATA, strategy="stream"))).strategy == "paged"


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
