"""Domains: the resources that share a revision sequence, and the reads that wait for a late cache."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.contract.backend import Backend, only
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
    RealCluster,
)
from tests.contract.judge import get
from tests.contract.watch import EVERYTHING, Event, Watch, read, starting, watching
from tests.support.writer import crd
from watchslo.clock.domain import Domain, Membership, TickChoice, TickPlan
from watchslo.kube.call import Selectors
from watchslo.kube.client import Client
from watchslo.kube.representation import Representation
from watchslo.model import Resource
from watchslo.watch.failure import Failure, Reason
from watchslo.watch.messages import ListFailed, ListRequest
from watchslo.watch.strategy import CACHE, PAGED, PARALLEL, STRATEGIES, TAIL, Strategy

SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {}}
PROBE_SECONDS = 0.25
LATE_SECONDS = 0.6
BEHIND_SECONDS = 5.0  # an apiserver waits for three seconds for its cache
MOST_TRIES = 5


async def judged(client: Client, tick: Resource, resources: list[Resource], author: Author) -> dict[str, Membership]:
    """Return the membership of resources in the domain of a tick, found while objects are written."""
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
    """Return the resources that the ticker chooses for its ticks."""
    choice = TickChoice(candidates, lambda resource: resource.usually_cached)
    while choice.next:
        choice.observe(await read(client, choice.next))
        await asyncio.sleep(PROBE_SECONDS)
    assert choice.plan
    return choice.plan


async def test_resources_of_one_etcd_form_one_domain_with_ticks_on_events(
    client: Client, author: Author, backend: Backend
) -> None:
    resources = [CONFIGMAPS, LEASES, NAMESPACES, NODES, PODS, SECRETS, *([] if backend.simulated else [DEFINITIONS])]
    found, plan = await asyncio.gather(
        judged(client, EVENTS, resources, author), choice(client, [LEASES, CONFIGMAPS, EVENTS])
    )
    assert set(found.values()) == {Membership.MEMBER}
    assert plan == TickPlan((EVENTS,), blind=False)


async def test_events_in_a_separate_etcd_are_foreign_and_ticks_use_two_cached_resources(
    split_client: Client, author: Author
) -> None:
    found, plan = await asyncio.gather(
        judged(split_client, LEASES, [EVENTS, CONFIGMAPS, NODES], author),
        choice(split_client, [LEASES, CONFIGMAPS, EVENTS]),
    )
    foreign = found.pop(EVENTS.key)
    assert foreign is Membership.FOREIGN
    assert set(found.values()) == {Membership.MEMBER}
    assert plan == TickPlan((LEASES, CONFIGMAPS), blind=False)


# One resource with a late link from etcd


@only(lambda backend: backend.consistent_from_cache, "consistent lists come from the watch cache since 1.31")
async def test_consistent_read_waits_for_a_late_cache_while_other_reads_are_prompt(
    split_cluster: RealCluster, split_client: Client, author: Author
) -> None:
    async with split_cluster.late(LATE_SECONDS):
        began = time.monotonic()
        created = await author.create("object")
        waiting = asyncio.create_task(read(split_client, CONFIGMAPS))
        prompt = [await read(split_client, LEASES) for _ in range(3)]
        late = await waiting
    assert all(reading.revision >= created for reading in (late, *prompt))
    assert late.answered - began > 0.7 * LATE_SECONDS
    # This machine may delay one of them, but not all.
    assert min(reading.round_trip for reading in prompt) < 0.7 * LATE_SECONDS


@only(lambda backend: backend.may_refuse_behind, "only 1.37 has a gate to refuse what a late cache cannot answer")
async def test_consistent_list_that_a_late_cache_cannot_answer_is_refused(
    split_cluster: RealCluster, split_client: Client, author: Author
) -> None:
    """The 429 says that the cache is behind, and is no sign of load."""
    async with split_cluster.late(BEHIND_SECONDS):
        # Only a bookmark tells the cache of config maps that a secret was written.
        await replace(author, resource=SECRETS, body=SECRET).create("later")
        failure = await split_client.list_page(
            CONFIGMAPS, author.namespace, EVERYTHING, ListRequest(), Representation.METADATA
        )
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.status) == (Reason.FUTURE_REVISION, 429)
    assert split_client.not_ready == 1


async def test_read_of_any_revision_from_a_late_cache_is_prompt_and_old(
    split_cluster: RealCluster, author: Author
) -> None:
    path = CONFIGMAPS.path(author.namespace)
    with split_cluster.writer() as reader:
        async with split_cluster.late(LATE_SECONDS):
            for number in range(MOST_TRIES):
                began = time.monotonic()
                created = await author.create(f"object-{number}")
                answer = await get(reader, path, resourceVersion="0")
                if time.monotonic() - began < 0.7 * LATE_SECONDS:  # before the event can have reached the cache
                    break
            else:
                pytest.fail(f"none of {MOST_TRIES} answers was prompt")
    assert int(answer["metadata"]["resourceVersion"]) < created


async def test_events_of_a_late_cache_are_late(
    split_cluster: RealCluster, split_client: Client, author: Author
) -> None:
    watch = Watch(split_client, CONFIGMAPS, author.namespace)
    async with watching(watch), split_cluster.late(LATE_SECONDS):
        began = time.monotonic()
        created = await author.create("object")
        await watch.until_seen(created)
        assert time.monotonic() - began > 0.7 * LATE_SECONDS


# A cache that is not ready, because its resource is new and etcd is slow to fill it


async def watches_of_an_unready_cache(
    split_cluster: RealCluster, split_client: Client, cluster: Cluster, fresh_name: Callable[[], str]
) -> dict[Strategy, Watch]:
    """Return watches of a resource that is being defined, after each has received an event.

    That of `tail` has a selector, and an unready cache refuses each list with one.
    """
    group = f"{fresh_name()}.watchslo.invalid"
    widgets = Resource(group, "v1", "widgets", namespaced=True)
    selected = {TAIL: Selectors("metadata.name=object")}
    watches = {
        strategy: Watch(split_client, widgets, selectors=selected.get(strategy, EVERYTHING), strategy=strategy)
        for strategy in STRATEGIES.values()
    }
    with cluster.writer() as writer:
        author = Author(writer, widgets, "default", {"apiVersion": f"{group}/v1", "kind": "Widget"})
        async with starting(*watches.values()), split_cluster.late(1.0):
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
    """Return the failures of lists after the resource was found."""
    failures = [fact.failure for fact in watch.said(ListFailed)]
    return [failure for failure in failures if failure.reason is not Reason.NOT_FOUND]


@only(lambda backend: backend.refuses_unready, "unready caches refuse since 1.31")
async def test_empty_list_of_an_unready_cache_is_refused_but_a_list_of_one_is_not(
    split_cluster: RealCluster, split_client: Client, cluster: Cluster, fresh_name: Callable[[], str]
) -> None:
    for _ in range(MOST_TRIES):
        watches = await watches_of_an_unready_cache(split_cluster, split_client, cluster, fresh_name)
        if refused(watches[TAIL]) and refused(watches[CACHE]):
            break  # else this machine was paused until the cache was ready
    (failure,) = refused(watches[TAIL])
    assert (failure.status, failure.reason, failure.retry_after) == (429, Reason.INITIALIZING, 1.0)
    assert TAIL.throttled in watches[TAIL].requests
    assert {failure.reason for failure in refused(watches[CACHE])} == {Reason.INITIALIZING}
    assert refused(watches[PAGED]) == refused(watches[PARALLEL]) == []  # a paged list begins with a limit


@only(lambda backend: not backend.refuses_unready, "unready caches let watches wait before 1.31")
async def test_watch_of_an_unready_cache_waits(
    split_cluster: RealCluster, split_client: Client, cluster: Cluster, fresh_name: Callable[[], str]
) -> None:
    watches = await watches_of_an_unready_cache(split_cluster, split_client, cluster, fresh_name)
    for strategy in (TAIL, PAGED, PARALLEL, CACHE):
        assert refused(watches[strategy]) == []
    assert TAIL.throttled not in watches[TAIL].requests
