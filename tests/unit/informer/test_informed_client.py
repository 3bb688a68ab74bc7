"""A program with informers: when its pages are judged, and which of its caches counts."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.unit.informer.cluster import INGRESS_CLASSES, OF_PODS, OurWatch, page, settle
from watchslo.informer import informed_client
from watchslo.informer.informed_client import STALE_SECONDS, WAITING_SECONDS, InformedClient
from watchslo.informer.page import InformerKey, InformerPage
from watchslo.model import Interval, Resource
from watchslo.snapshot import ClientReading, InformerReading, StoreVerdict

NEVER = {"current": 0, "stale": 0, "unknown": 0}


@pytest.fixture
def ours() -> OurWatch:
    made = OurWatch()
    made.tick(80.0, 30)
    made.deliver(85.0, 40)
    made.tick(90.0, 50)
    return made


@pytest.fixture
def client() -> InformedClient:
    return InformedClient("manager")


def pages(stores: Mapping[InformerKey, int], queued: Mapping[InformerKey, int] | None = None) -> InformerPage:
    return InformerPage(100.0, 100.1, stores, queued or {})


def test_page_is_judged_once_a_tick_has_passed_it(ours: OurWatch, client: InformedClient) -> None:
    client.add(page(45))
    assert settle(client, 101.0, [ours.own]) == ClientReading("manager", NEVER)
    ours.tick(101.0, 50)
    current = InformerReading("", "pods", StoreVerdict.CURRENT, Interval(0.0, 0.0))
    assert settle(client, 102.0, [ours.own]) == ClientReading("manager", NEVER | {"current": 1}, (current,), {})


def test_page_that_no_tick_passes_is_unknown_after_a_minute(ours: OurWatch, client: InformedClient) -> None:
    client.add(page(45))
    found = settle(client, 100.2 + WAITING_SECONDS, [ours.own])
    assert found.reads == NEVER | {"unknown": 1}


def test_worst_cache_counts_for_its_resource_and_for_the_page(ours: OurWatch, client: InformedClient) -> None:
    ours.tick(101.0, 50)
    other = InformerKey("other", "", "v1", "pods")
    third = InformerKey("third", "", "v1", "pods")
    client.add(pages({other: 0, OF_PODS: 35, third: 45}, {OF_PODS: 2, other: 7, third: 3}))
    found = settle(client, 102.0, [ours.own])
    assert found.reads == NEVER | {"stale": 1}
    assert found.unknown == {"empty": 1}
    (informer,) = found.informers
    assert (informer.verdict, informer.queued) == ("stale", 7)
    assert informer.staleness is not None
    assert informer.staleness.lower == pytest.approx(15.0)


@pytest.mark.parametrize(
    ("missed", "reached", "overtaken"), [((40,), 45, True), ((40,), 39, False), ((40, 46), 45, False)]
)
def test_stale_cache_is_overtaken_once_another_has_something_later(
    ours: OurWatch, client: InformedClient, missed: tuple[int, ...], reached: int, *, overtaken: bool
) -> None:
    other = OurWatch()
    other.deliver(85.0, *missed)
    other.tick(101.0, 50)
    ours.tick(101.0, 50)
    quiet = InformerKey("", INGRESS_CLASSES.group, "v1", "ingressclasses")
    client.add(pages({OF_PODS: 39 if len(missed) == 1 else 41, quiet: reached}))
    found = settle(client, 102.0, [other.own, ours.of(INGRESS_CLASSES)])
    assert {informer.resource: informer.overtaken for informer in found.informers}["pods"] is overtaken


def test_cache_of_another_storage_overtakes_none(ours: OurWatch, client: InformedClient) -> None:
    ours.tick(101.0, 50)
    elsewhere = replace(ours.of(INGRESS_CLASSES), domain="events")
    quiet = InformerKey("", INGRESS_CLASSES.group, "v1", "ingressclasses")
    client.add(pages({OF_PODS: 35, quiet: 45}))
    found = settle(client, 102.0, [ours.own, elsewhere])
    assert [(informer.resource, informer.verdict, informer.overtaken) for informer in found.informers] == [
        ("ingressclasses", "current", False),
        ("pods", "stale", False),
    ]


@pytest.mark.parametrize(("before", "now", "waits"), [(2, 3, True), (0, 3, False), (2, 0, False), (None, 3, False)])
def test_items_wait_if_they_are_on_two_pages_in_a_row(
    ours: OurWatch, client: InformedClient, before: int | None, now: int, *, waits: bool
) -> None:
    ours.tick(101.0, 50)
    client.add(page(45, queued=before))
    client.add(page(45, queued=now))
    assert settle(client, 102.0, [ours.own]).informers[0].waits is waits


def test_naive_plural_of_a_resource_is_understood(ours: OurWatch, client: InformedClient) -> None:
    ours.tick(101.0, 50)
    group = "networking.k8s.io"
    naive = InformerKey("", group, "v1", "ingressclasss")
    elsewhere = naive._replace(group="example.com")
    client.add(pages({naive: 45, elsewhere: 45}, {naive: 1, elsewhere: 9}))
    found = settle(client, 102.0, [ours.own, ours.of(INGRESS_CLASSES)])
    assert found.informers == (InformerReading(group, "ingressclasses", StoreVerdict.CURRENT, Interval(0.0, 0.0), 1),)
    assert found.unknown == {"unwatched": 1}


def test_plural_precedes_the_naive_plural_of_another_resource(ours: OurWatch, client: InformedClient) -> None:
    ours.tick(101.0, 50)
    bases, bas = (Resource("example.com", "v1", plural, namespaced=True) for plural in ("bases", "bass"))
    client.add(pages({InformerKey("", "example.com", "v1", "bass"): 45}))
    found = settle(client, 102.0, [ours.of(bas), ours.of(bases)])
    assert [informer.resource for informer in found.informers] == ["bass"]


def test_queue_of_an_informer_without_a_revision_is_shown(ours: OurWatch, client: InformedClient) -> None:
    ours.tick(101.0, 50)
    client.add(page(queued=4))
    found = settle(client, 102.0, [ours.own])
    assert found.informers == (InformerReading("", "pods", StoreVerdict.UNKNOWN, None, 4),)
    assert found.reads == NEVER | {"unknown": 1}


def test_informer_with_selectors_is_named_as_kubectl_names_its_resource(ours: OurWatch) -> None:
    ours.tick(101.0, 50)
    client = InformedClient("scheduler", ["pods"])
    client.add(page(35))
    found = settle(client, 102.0, [ours.own])
    assert found.unknown == {"selected": 1}
    assert found.informers[0].staleness is not None
    assert found.informers[0].staleness.lower == 0.0


def test_failed_read_is_counted_and_the_last_page_becomes_too_old(ours: OurWatch, client: InformedClient) -> None:
    ours.tick(101.0, 50)
    client.add(page(45))
    settle(client, 102.0, [ours.own])
    client.fail()
    assert client.reading(100.1 + STALE_SECONDS, "No answer.").obstacle == "No answer."
    assert client.reading(100.1 + STALE_SECONDS).informers
    gone = client.reading(100.2 + STALE_SECONDS)
    assert (gone.informers, gone.unknown) == ((), {})
    assert gone.reads == NEVER | {"current": 1, "unknown": 1}


def test_series_of_a_client_are_limited(
    ours: OurWatch, client: InformedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informed_client, "MOST_RESOURCES", 2)
    ours.tick(101.0, 50)
    resources = [Resource("", "v1", f"r{number}s", namespaced=True) for number in range(4)]
    client.add(pages({InformerKey("", "", "v1", resource.plural): 45 for resource in resources}))
    found = settle(client, 102.0, [ours.of(resource) for resource in resources])
    assert [informer.resource for informer in found.informers] == ["r0s", "r1s"]
