"""Requests that are made for a revision alone: the apiserver fetches no object for them, however many there are."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest

from tests.contract.backend import real
from tests.contract.cluster import CONFIGMAPS, EVENTS, NAMESPACES, Author, event
from tests.contract.watch import EVERYTHING
from tests.support.writer import Writer
from watchslo.kube.call import Page, Selectors
from watchslo.kube.client import Client
from watchslo.kube.representation import Representation
from watchslo.model import Reading, Resource
from watchslo.monitor.apiservers.oldest_revision import try_revision
from watchslo.watch.failure import Failure
from watchslo.watch.headroom import FIRST
from watchslo.watch.messages import ListRequest, WatchRequest
from watchslo.watch.strategy import TAIL

OBJECTS = 50
FETCHED = ("apiserver_cache_list_fetched_objects_total", "apiserver_storage_list_fetched_objects_total")
SELECTED = Selectors(labels="app=web")
HALF = Selectors(shard="shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')")

pytestmark = real("a simulated apiserver serves no /metrics")

Request = Callable[[Client, Resource], Awaitable[object]]


async def listed(
    client: Client,
    resource: Resource,
    request: ListRequest | None,
    selectors: Selectors = EVERYTHING,
    form: Representation = Representation.TABLE,
) -> Page | Failure:
    assert request is not None
    return await client.list_page(resource, None, selectors, request, form)


async def opened(client: Client, resource: Resource, selectors: Selectors = EVERYTHING) -> object:
    """Return a watch of the next changes after its headers, or why it did not open."""
    newest = await client.read_nothing(resource, "default", "audit")
    assert isinstance(newest, Reading)
    request = WatchRequest(newest.revision, 1, bookmarks=False)
    async with client.watch(resource, None, selectors, request, Representation.TABLE) as answer:
        return answer


async def read_again(client: Client, resource: Resource) -> object:
    newest = await client.read_nothing(resource, "default", "tick")
    assert isinstance(newest, Reading)
    return await client.read_nothing(resource, "default", "detect_storage", at=newest.revision)


ALL: Mapping[str, Request] = {
    "tail": lambda client, resource: listed(client, resource, TAIL.first),
    "tail with selectors": lambda client, resource: listed(client, resource, TAIL.first, SELECTED),
    "tail of whole objects": lambda client, resource: listed(
        client, resource, TAIL.first, form=Representation.PROTOBUF
    ),
    "tick, nudge or membership probe": lambda client, resource: client.read_nothing(resource, "default", "tick"),
    "read of an exact revision": read_again,
    "cache probe": lambda client, resource: client.read_cache(resource, "default"),
    "search of the headroom or of a cache": lambda client, resource: try_revision(client, resource, "default", FIRST),
    "watch or audit": opened,
}
NAMESPACED: Mapping[str, Request] = {
    **ALL,
    "tail after a 429": lambda client, resource: listed(client, resource, TAIL.throttled),
    "tail with selectors after a 429": lambda client, resource: listed(client, resource, TAIL.throttled, SELECTED),
}


async def fetched(writer: Writer, resource: Resource) -> float:
    """Return how many objects of a resource the apiserver has fetched for lists, from its cache and from etcd.

    Caches have the label `resource`, or before 1.33 `resource_prefix`.
    """
    page = await asyncio.to_thread(lambda: writer.text("/metrics"))
    of = (f'resource="{resource.plural}"', f'resource_prefix="/{resource.plural}"')
    lines = [line for line in page.splitlines() if line.startswith(FETCHED) and any(label in line for label in of)]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


async def growth(writer: Writer, client: Client, resource: Resource, ask: Request) -> float:
    """Return how many objects were fetched for a request, which must succeed."""
    before = await fetched(writer, resource)
    answer = await ask(client, resource)
    assert not isinstance(answer, Failure), answer
    return await fetched(writer, resource) - before


@pytest.mark.parametrize("resource", [CONFIGMAPS, EVENTS], ids=["cached", "uncached"])
async def test_nothing_is_fetched_of_a_resource_with_namespaces(
    writer: Writer, client: Client, namespace: str, resource: Resource
) -> None:
    author = Author(writer, resource, namespace, event(namespace) if resource is EVENTS else {})
    for number in range(OBJECTS):
        await author.create(f"object-{number}")
    assert await growth(writer, client, resource, everything) >= OBJECTS
    grown = {name: await growth(writer, client, resource, ask) for name, ask in NAMESPACED.items()}
    assert grown == dict.fromkeys(NAMESPACED, 0)


async def test_nothing_is_fetched_of_a_resource_without_namespaces(
    writer: Writer, client: Client, namespace: str
) -> None:
    assert namespace
    assert await growth(writer, client, NAMESPACES, everything) > 0
    grown = {name: await growth(writer, client, NAMESPACES, ask) for name, ask in ALL.items()}
    assert grown == dict.fromkeys(ALL, 0)


async def test_nothing_is_fetched_to_confirm_a_shard_selector(writer: Writer, client: Client, author: Author) -> None:
    await author.create("object")
    before = await fetched(writer, CONFIGMAPS)
    await opened(client, CONFIGMAPS, HALF)
    assert client.requests["confirm_selector", "200"] == 1
    assert await fetched(writer, CONFIGMAPS) == before


async def everything(client: Client, resource: Resource) -> object:
    return await listed(client, resource, ListRequest())
