"""The choice of resources to tick on, for different assignments of candidates to etcds."""

from collections.abc import Callable, Mapping

import pytest

from watchslo.clock.domain import TickChoice, TickPlan, plan_ticks
from watchslo.model import Reading, Resource

EVENTS = Resource("", "v1", "events", namespaced=True)
PODS = Resource("", "v1", "pods", namespaced=True)
NODES = Resource("", "v1", "nodes", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", namespaced=True)
ALL = (EVENTS, PODS, NODES, LEASES)


def together(time: float) -> int:
    return 100 + int(4 * time)


def apart(time: float) -> int:
    return 7000 + int(8 * time)


def elsewhere(time: float) -> int:
    return 20 + int(time)


def usual(resource: Resource) -> bool:
    return resource.usually_cached


def chosen(
    candidates: tuple[Resource, ...],
    etcds: Mapping[Resource, Callable[[float], int]],
    is_cached: Callable[[Resource], bool] = usual,
) -> tuple[TickPlan, list[str]]:
    """Drive a choice twice per second, and return its plan and reads; resources not in `etcds` cannot be read."""
    choice = TickChoice(candidates, is_cached)
    reads: list[str] = []
    while (resource := choice.next) is not None:
        assert choice.plan is None
        assert len(reads) < 50
        now = len(reads) / 2
        reads.append(resource.plural)
        if resource in etcds:
            choice.observe(Reading(resource.key, now, now + 0.125, etcds[resource](now)))
        else:
            choice.pass_over(resource)
    assert choice.plan is not None
    return choice.plan, reads


def test_choice_prefers_events_that_share_revisions() -> None:
    plan, reads = chosen(ALL, dict.fromkeys(ALL, together))
    assert plan == TickPlan((EVENTS,), blind=False)
    assert reads == ["pods", "events"] * 3 + ["pods"]


def test_choice_takes_two_cached_resources_that_share_revisions() -> None:
    plan, reads = chosen(ALL, {**dict.fromkeys(ALL, together), EVENTS: apart})
    assert plan == TickPlan((PODS, NODES), blind=False)
    assert reads == ["pods", "events", "pods"] + ["pods", "nodes"] * 3 + ["pods"]


def test_choice_finds_any_pair_that_shares_revisions() -> None:
    plan, _ = chosen(ALL, {EVENTS: apart, PODS: elsewhere, NODES: together, LEASES: together})
    assert plan == TickPlan((NODES, LEASES), blind=False)


@pytest.mark.parametrize("resource", [EVENTS, PODS])
def test_choice_passes_over_unreadable_resources(resource: Resource) -> None:
    etcds = {candidate: together for candidate in ALL if candidate != resource}
    plan, reads = chosen(ALL, etcds)
    assert plan == TickPlan((PODS, NODES) if resource == EVENTS else (EVENTS,), blind=False)
    assert reads.count(resource.plural) == 1


def test_choice_without_shared_revisions_is_blind() -> None:
    plan, _ = chosen((EVENTS, PODS, NODES), {EVENTS: apart, PODS: together, NODES: elsewhere})
    assert plan == TickPlan((PODS,), blind=True)


def test_choice_of_a_single_candidate() -> None:
    assert chosen((PODS,), {}) == (TickPlan((PODS,), blind=True), [])
    assert chosen((EVENTS,), {}) == (TickPlan((EVENTS,), blind=False), [])
    assert chosen((EVENTS, PODS), {EVENTS: together})[0] == TickPlan((EVENTS,), blind=False)


def test_choice_without_readable_candidates_is_empty() -> None:
    assert chosen((), {})[0] == TickPlan((), blind=False)
    assert chosen((PODS, NODES), {NODES: together})[0] == TickPlan((NODES,), blind=True)


def test_choice_rejects_pairs_whose_revisions_go_backwards() -> None:
    def falling(time: float) -> int:
        return 100 - int(time)

    plan, reads = chosen((PODS, NODES), {PODS: falling, NODES: falling})
    assert plan == TickPlan((PODS,), blind=True)
    assert reads == ["pods", "nodes", "pods"]


@pytest.mark.parametrize(
    ("resources", "chosen_ones", "blind"),
    [
        ((), (), False),
        ((PODS,), (PODS,), True),
        ((PODS, NODES, LEASES), (PODS, NODES), False),
        ((PODS, EVENTS), (EVENTS,), False),
        ((EVENTS,), (EVENTS,), False),
    ],
)
def test_plan_prefers_an_uncached_resource_then_two_cached_ones(
    resources: tuple[Resource, ...], chosen_ones: tuple[Resource, ...], *, blind: bool
) -> None:
    assert plan_ticks(resources, usual) == TickPlan(chosen_ones, blind=blind)


def test_choice_goes_by_the_caches_that_there_are() -> None:
    together_all = dict.fromkeys(ALL, together)
    assert chosen(ALL, together_all, lambda _: True)[0] == TickPlan((EVENTS, PODS), blind=False)
    assert chosen((EVENTS,), together_all, lambda _: True)[0] == TickPlan((EVENTS,), blind=True)
    assert chosen(ALL, together_all, lambda resource: resource != LEASES)[0] == TickPlan((LEASES,), blind=False)


def test_choice_without_any_cache_ticks_on_what_shares_revisions() -> None:
    plan, reads = chosen(ALL, {**dict.fromkeys(ALL, together), EVENTS: apart}, lambda _: False)
    assert plan == TickPlan((PODS,), blind=False)
    assert reads[:4] == ["events", "pods", "events", "events"]
