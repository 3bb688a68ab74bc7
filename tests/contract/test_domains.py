"""Who shares a revision sequence, and whose lateness hides behind which read."""

import asyncio
import time
from collections.abc import Callable

import pytest

from tests.contract.backend import only
from tests.contract.cluster import (
    CONFIGMAPS,
    DEFINITIONS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    Author,
    Cluster,
)
from tests.contract.judge import get
from tests.contract.watch import Event, Watch, read, starting, watching
from tests.support.writer import crd
from watchslo.clock.domain import Domain, Membership, TickChoice, TickPlan
from watchslo.kube.client import Client
from watchslo.model import Resource
from watchslo.watch.failure import Failure, Reason
from watchslo.watch.messages import ListFailed, ListRequest
from watchslo.watch.strategy import CACHE, PAGED, PARALLEL, STRATEGIES, TAIL, Strategy

PROBE_SECONDS = 0.25
LATE_SECONDS = 0.6
MOST_TRIES = 5


async def judged(client: Client, tick: Resource, resources: list[Resource], author: Author) -> dict[str, Membership]:
    """What the domain of a tick says of resources, while somebody writes."""
    domain = Domain("tested")
    await author.create("object")
    sources = {resource: (client.name, resource.key) for resource in resources}
    while any(domain.membership(source) is Membership.PENDING for source in sources.values()):
        assert domain.tick(await read(client, tick)), "the revisions went backwards"
        for resource in resources:
            await author.change("object")
            domain.probe(await read(client, resource))
        assert domain.tick(await read(client, tick)), "the revisions went backwards"
        await asyncio.sleep(PROBE_SECONDS)
    return {resource.key: domain.membership(source) for resource, source in sources.items()}


async def choice(client: Client, candidates: list[Resource]) -> TickPlan:
    """What the ticker decides to tick on."""
    choice = TickChoice(candidates)
    while choice.next:
        choice.observe(await read(client, choice.next))
        await asyncio.sleep(PROBE_SECONDS)
    assert choice.plan
    return choice.plan


async def test_all_resources_of_one_etcd_are_members_of_one_domain_and_the_ticks_are_on_events(
    client: Client, author: Author
) -> None:
    resources = [CONFIGMAPS, LEASES, NAMESPACES, NODES, PODS, SECRETS, DEFINITIONS]
    found, plan = await asyncio.gather(
        judged(client, EVENTS, resources, author), choice(client, [LEASES, CONFIGMAPS, EVENTS])
    )
    assert set(found.values()) == {Membership.MEMBER}
    assert plan == TickPlan((EVENTS,), blind=False)


async def test_events_in_an_etcd_of_their_own_are_foreign_and_the_ticks_are_on_two_cached_resources(
    split_client: Client, beside_author: Author
) -> None:
    found, plan = await asyncio.gather(
        judged(split_client, LEASES, [EVENTS, CONFIGMAPS, NODES], beside_author),
        choice(split_client, [LEASES, CONFIGMAPS, EVENTS]),
    )
    foreign = found.pop(EVENTS.key)
    assert foreign is Membership.FOREIGN
    assert set(found.values()) == {Membership.MEMBER}
    assert plan == TickPlan((LEASES, CONFIGMAPS), blind=False)


# One resource whose way from etcd is long


@only(lambda backend: backend.serves_from_cache, "consistent lists come from the watch cache since 1.31")
async def test_consistent_read_of_a_late_cache_waits_for_it_while_others_are_prompt(
    split_cluster: Cluster, split_client: Client, beside_author: Author
) -> None:
    async with split_cluster.late(LATE_SECONDS):
        began = time.monotonic()
        created = await beside_author.create("object")
        waiting = asyncio.create_task(read(split_client, CONFIGMAPS))
        prompt = [await read(split_client, LEASES) for _ in range(3)]
        late = await waiting
    assert all(reading.revision >= created for reading in (late, *prompt))
    assert late.answered - began > 0.7 * LATE_SECONDS
    # This machine may hold up one of them, and not all.
    assert min(reading.round_trip for reading in prompt) < 0.7 * LATE_SECONDS


async def test_any_revision_of_a_late_cache_comes_at_once_and_is_old(
    split_cluster: Cluster, beside_author: Author
) -> None:
    path = CONFIGMAPS.path(beside_author.namespace)
    with split_cluster.writer() as reader:
        async with split_cluster.late(LATE_SECONDS):
            for number in range(MOST_TRIES):
                began = time.monotonic()
                created = await beside_author.create(f"object-{number}")
                answer = await get(reader, path, resourceVersion="0")
                if time.monotonic() - began < 0.7 * LATE_SECONDS:  # before the cache can have heard of it
                    break
            else:
                pytest.fail(f"none of {MOST_TRIES} answers came at once")
    assert int(answer["metadata"]["resourceVersion"]) < created


async def test_events_of_a_late_cache_are_late(
    split_cluster: Cluster, split_client: Client, beside_author: Author
) -> None:
    watch = Watch(split_client, CONFIGMAPS, beside_author.namespace)
    async with watching(watch), split_cluster.late(LATE_SECONDS):
        began = time.monotonic()
        created = await beside_author.create("object")
        await watch.until_seen(created)
        assert time.monotonic() - began > 0.7 * LATE_SECONDS


# A cache that is not ready, because its resource is new and etcd is slow to fill it


async def watches_of_an_unready_cache(
    cluster: Cluster, client: Client, beside: Cluster, fresh_name: Callable[[], str]
) -> dict[Strategy, Watch]:
    """Watches of a resource that is just being defined, and what they did until they saw an event."""
    group = f"{fresh_name()}.watchslo.invalid"
    widgets = Resource(group, "v1", "widgets", namespaced=True)
    watches = {strategy: Watch(client, widgets, strategy=strategy) for strategy in STRATEGIES.values()}
    with beside.writer() as writer:
        author = Author(writer, widgets, "default", {"apiVersion": f"{group}/v1", "kind": "Widget"})
        async with starting(*watches.values()), cluster.late(1.0):
            await asyncio.to_thread(writer.create, DEFINITIONS.path(), crd("widgets", "Widget", group))
            for watch in watches.values():
                await watch.until_watching()
            created = await author.create("object")
            for watch in watches.values():
                await watch.until_seen(created)
    for watch in watches.values():
        assert watch.events == [Event("ADDED", created)]
    return watches


def refused(watch: Watch) -> list[Failure]:
    """Why lists failed after the resource was found."""
    failures = [fact.failure for fact in watch.said(ListFailed)]
    return [failure for failure in failures if failure.reason is not Reason.NOT_FOUND]


@only(lambda backend: backend.refuses_unready, "unready caches refuse since 1.31")
async def test_list_of_nothing_is_refused_while_the_cache_is_not_ready_but_not_a_list_of_one(
    split_cluster: Cluster, split_client: Client, beside: Cluster, fresh_name: Callable[[], str]
) -> None:
    for _ in range(MOST_TRIES):
        watches = await watches_of_an_unready_cache(split_cluster, split_client, beside, fresh_name)
        if refused(watches[TAIL]) and refused(watches[CACHE]):
            break  # else this machine stood still until the cache was ready
    (failure,) = refused(watches[TAIL])
    assert (failure.status, failure.reason, failure.retry_after) == (429, Reason.THROTTLED, 1.0)
    assert ListRequest(limit=1) in watches[TAIL].requests
    assert {failure.reason for failure in refused(watches[CACHE])} == {Reason.THROTTLED}
    assert refused(watches[PAGED]) == refused(watches[PARALLEL]) == []  # so it is with pages


@only(lambda backend: not backend.refuses_unready, "unready caches let watches wait before 1.31")
async def test_watch_waits_while_the_cache_is_not_ready(
    split_cluster: Cluster, split_client: Client, beside: Cluster, fresh_name: Callable[[], str]
) -> None:
    watches = await watches_of_an_unready_cache(split_cluster, split_client, beside, fresh_name)
    for strategy in (TAIL, PAGED, PARALLEL, CACHE):
        assert refused(watches[strategy]) == []
    assert ListRequest(limit=1) not in watches[TAIL].requests
