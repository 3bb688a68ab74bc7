"""The sentences that compare settings of informers with the same strategy without them."""

from dataclasses import replace

import pytest

from tests.unit.app.test_advice import CACHE, EXPIRED, PAGED, STREAM, advice
from watchslo.app.rehearse.plan import STARVED_OBJECTS
from watchslo.kube.client import Selectors
from watchslo.kube.representation import Representation
from watchslo.monitor.apiserver_process import ApiserverCost
from watchslo.monitor.rehearsal import Rehearsal
from watchslo.monitor.variant import Variant

SMALL = replace(PAGED, size=1_800_000)
METADATA = Variant("paged", Representation.METADATA)


def with_(run: Rehearsal, variant: Variant, **changes: object) -> Rehearsal:
    changes = {"representation": variant.representation} | changes
    return replace(run, variant=variant, **changes)  # type: ignore[arg-type]


def said(*runs: Rehearsal) -> tuple[str, ...]:
    return advice(*runs).settings


@pytest.mark.parametrize(
    ("form", "use"),
    [
        (Representation.METADATA, "for clients that need neither spec nor status"),
        (Representation.TABLE, "for clients that need only the columns of kubectl get"),
        (Representation.PROTOBUF, "the same objects, for clients that can decode them"),
    ],
)
def test_representation_is_compared_and_its_clients_are_named(form: Representation, use: str) -> None:
    smaller = with_(SMALL, Variant("paged", form), synced=0.9)
    assert said(PAGED, smaller) == (f"paged, {form}: 1.8 MB instead of 18.0 MB, 900 ms instead of 1.5 s; {use}.",)


def test_representation_that_fell_back_is_named() -> None:
    fell_back = with_(PAGED, METADATA, representation=Representation.PLAIN)
    assert said(PAGED, fell_back) == (
        "paged, metadata: the apiserver does not send this resource so; it was sent as plain.",
    )


@pytest.mark.parametrize(
    ("size", "synced", "judged"),
    [
        (18_000_000, 1.5, "apiservers compress only answers of more than 128 KiB"),
        (1_800_000, 2.5, "it costs time and CPU, and pays only over slow or expensive networks"),
        (1_800_000, 1.6, "it is as fast, and saves bytes"),
    ],
)
def test_gzip_is_judged_by_time_and_bytes(size: int, synced: float, judged: str) -> None:
    (sentence,) = said(PAGED, with_(PAGED, Variant("paged", gzip=True), size=size, synced=synced))
    assert sentence.endswith(f"; {judged}.")


def test_gzip_is_judged_by_the_cpu_of_the_apiserver_if_it_is_known() -> None:
    plain = replace(PAGED, cost=ApiserverCost(cpu=0.09))
    compressed = with_(SMALL, Variant("paged", gzip=True), cost=ApiserverCost(cpu=0.21))
    (sentence,) = said(plain, compressed)
    assert sentence.endswith("; it is as fast, but the apiserver spends 210 ms of CPU instead of 90 ms.")
    for unknown in (None, ApiserverCost(unknown="why")):
        (sentence,) = said(plain, replace(compressed, cost=unknown))
        assert sentence.endswith("; it is as fast, and saves bytes.")


def test_gzip_of_a_representation_is_compared_with_that_representation() -> None:
    metadata = with_(SMALL, METADATA)
    compressed = with_(PAGED, replace(METADATA, gzip=True), size=300_000)
    assert said(PAGED, metadata, compressed)[1].startswith("paged, metadata, gzip: 300.0 kB instead of 1.8 MB in ")


def test_fastest_page_size_is_named_if_it_is_clearly_faster() -> None:
    larger = with_(PAGED, Variant("paged", page_size=2000), pages=3, synced=0.8)
    assert said(PAGED, larger) == (
        "paged, pages of 2,000: 3 pages instead of 10, 800 ms instead of 1.5 s.",
        "Use pages of 2,000: they are the fastest.",
    )
    assert said(PAGED, replace(larger, synced=1.4))[1] == "Pages of 500 are as fast as others."


def test_selector_is_said_to_save_bytes_but_not_the_reading() -> None:
    selected = with_(SMALL, Variant("paged", selectors=Selectors(labels="app=web")), objects=400, synced=1.4)
    (sentence,) = said(PAGED, selected)
    assert sentence == (
        "paged, -l app=web: 400 of 5,000 objects, 1.8 MB instead of 18.0 MB, 1.4 s instead of 1.5 s; the apiserver "
        "reads all objects to select these."
    )
    assert said(PAGED, replace(selected, synced=0.2))[0].endswith("200 ms instead of 1.5 s.")


def test_split_by_namespaces_is_judged_by_time() -> None:
    split = with_(PAGED, Variant("paged", each_namespace=True), informers=40, requests=80, synced=2.0)
    (sentence,) = said(PAGED, split)
    assert sentence == (
        "40 informers, one for each namespace: 80 instead of 11 requests, 2 s instead of 1.5 s; use one informer for "
        "all namespaces."
    )
    assert "it is faster, but keeps a watch open" in said(PAGED, replace(split, synced=0.5))[0]


@pytest.mark.parametrize(
    "runs",
    [
        (PAGED, with_(EXPIRED, METADATA)),  # it failed, which the table shows
        (EXPIRED, with_(PAGED, METADATA)),
        (STREAM, with_(PAGED, METADATA)),  # there is nothing to compare with
        (PAGED, with_(PAGED, replace(METADATA, page_size=9))),  # two settings at once
        (PAGED, STREAM, CACHE),
    ],
)
def test_nothing_is_said_without_a_comparison(runs: tuple[Rehearsal, ...]) -> None:
    assert said(*runs) == ()


def test_settings_do_not_change_which_strategy_is_recommended() -> None:
    assert advice(PAGED, with_(STREAM, replace(METADATA, strategy="stream"))).strategy == "paged"


def test_streamed_list_of_many_objects_has_a_warning() -> None:
    huge = replace(STREAM, objects=STARVED_OBJECTS)
    assert "start such informers one after the other" in advice(huge).reason
    assert "start such informers" not in advice(replace(huge, objects=STARVED_OBJECTS - 1)).reason
