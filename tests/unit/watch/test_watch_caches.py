"""Which resources have a watch cache, by what refusals say; a wrong "no" would hide the lag of a cache."""

import pytest

from watchslo.model import Resource
from watchslo.watch.headroom import Accepted, Outcome, TooOld
from watchslo.watch.watch_caches import AGAIN_SECONDS, SPACING_SECONDS, WatchCaches

PODS = Resource("", "v1", "pods", namespaced=True)
EVENTS = Resource("", "v1", "events", namespaced=True)
NEW_EVENTS = Resource("events.k8s.io", "v1", "events", namespaced=True)
BY_CACHE, BY_STORAGE = TooOld(236), TooOld(None, by_storage=True)


def found(*outcomes: Outcome | None, resource: Resource = PODS, single: bool = True, bookmarks: bool = False) -> str:
    """Return what is known of the cache of a resource after watches with these outcomes."""
    caches = WatchCaches()
    for outcome in outcomes:
        caches.observe(resource, outcome, is_single=single, bookmarks=bookmarks)
    return ("found" if caches.is_found(resource) else "assumed") + (": yes" if caches.has(resource) else ": no")


@pytest.mark.parametrize(
    ("resource", "outcomes", "expected"),
    [
        (PODS, (), "assumed: yes"),
        (EVENTS, (), "assumed: no"),
        (PODS, (BY_CACHE,), "found: yes"),
        (EVENTS, (BY_CACHE,), "found: yes"),
        (PODS, (BY_STORAGE,), "found: no"),
        (EVENTS, (BY_STORAGE,), "found: no"),
        (PODS, (BY_CACHE, BY_STORAGE), "found: no"),
        (EVENTS, (BY_STORAGE, BY_CACHE), "found: yes"),
        # neither silence nor a failure nor other words prove anything
        *((resource, (outcome,), f"assumed: {usual}") for resource, usual in ((PODS, "yes"), (EVENTS, "no"))
          for outcome in (Accepted(), None, TooOld(None))),
        *((EVENTS, (BY_CACHE, outcome), "found: yes") for outcome in (Accepted(), None, TooOld(None))),
        # but with any doubt, a cache is no longer known to be off
        *((PODS, (BY_STORAGE, outcome), "assumed: yes") for outcome in (Accepted(), None, TooOld(None))),
    ],
)  # fmt: skip
def test_refusal_tells_whether_there_is_a_cache(
    resource: Resource, outcomes: tuple[Outcome | None, ...], expected: str
) -> None:
    assert found(*outcomes, resource=resource) == expected


def test_only_an_address_of_one_apiserver_can_show_that_a_cache_is_off() -> None:
    assert found(BY_STORAGE, single=False) == "assumed: yes"
    assert found(BY_CACHE, BY_STORAGE, resource=EVENTS, single=False) == "found: yes"
    caches = WatchCaches()
    caches.observe(PODS, BY_STORAGE, is_single=True, bookmarks=False)
    caches.observe(PODS, BY_STORAGE, is_single=False, bookmarks=False)
    assert caches.has(PODS), "another apiserver has come, and may have a cache"


def test_bookmarks_prove_a_cache_unless_the_storage_refuses() -> None:
    assert found(Accepted(), resource=EVENTS, bookmarks=True) == "found: yes"
    assert found(None, resource=EVENTS, bookmarks=True) == "found: yes"
    assert found(BY_STORAGE, resource=EVENTS, bookmarks=True) == "found: no"
    assert found(BY_STORAGE, resource=EVENTS, bookmarks=True, single=False) == "found: yes"


def test_events_of_both_groups_share_a_cache() -> None:
    caches = WatchCaches()
    caches.observe(NEW_EVENTS, BY_CACHE, is_single=True, bookmarks=False)
    assert caches.has(EVENTS)
    assert caches.is_found(EVENTS)


def test_known_cache_is_looked_for_each_hour_and_others_at_each_opening() -> None:
    caches = WatchCaches()
    assert caches.look(PODS, 1000.0)
    assert not caches.look(PODS, 1000.0 + SPACING_SECONDS - 0.1), "it opened together with another watch"
    assert caches.look(EVENTS, 1001.0)
    assert caches.look(PODS, 1010.0)
    caches.observe(PODS, BY_CACHE, is_single=True, bookmarks=False)
    caches.observe(EVENTS, BY_STORAGE, is_single=True, bookmarks=False)
    assert caches.look(EVENTS, 1100.0)
    assert not caches.look(PODS, 1010.0 + AGAIN_SECONDS - 0.1)
    assert caches.look(PODS, 1010.0 + AGAIN_SECONDS)


def test_retain_forgets_resources_without_watches() -> None:
    caches = WatchCaches()
    for resource in (PODS, EVENTS):
        caches.look(resource, 1000.0)
        caches.observe(resource, BY_CACHE, is_single=True, bookmarks=False)
    caches.retain([NEW_EVENTS])
    assert (caches.is_found(PODS), caches.is_found(EVENTS)) == (False, True)
    assert caches.look(PODS, 1000.5)
    assert not caches.look(EVENTS, 1010.0)
