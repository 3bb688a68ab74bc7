"""Divided watches: each event of the resource arrives in exactly one part, or the parts are refused."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.contract.backend import CURRENT, Backend, only
from tests.contract.cluster import CONFIGMAPS, DEFINITIONS, Author, RealCluster, client_of, new_namespace
from tests.contract.watch import Event, Watch, starting, watching
from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane
from tests.support.writer import crd
from watchslo.config.sections.watch import WatchConfig
from watchslo.kube.call import Selectors
from watchslo.kube.client import Client
from watchslo.kube.representation import Representation
from watchslo.model import Resource
from watchslo.watch.failure import Reason
from watchslo.watch.messages import GaveUp, WatchOpened
from watchslo.watch.strategy import PAGED, STREAM, TAIL, Strategy

OBJECTS = 12
PARTS = 3
LOOK_SECONDS = 0.05
SHARDED = {"by": "shardSelector", "parts": PARTS}


def parts_of(client: Client, resource: Resource, divide: dict[str, Any], **how: Any) -> list[Watch]:
    """Return one watch for each part, as the daemon would open them."""
    config = WatchConfig.model_validate({"resource": resource.key, "divide": divide})
    selectors = [Selectors(part.field_selector, part.label_selector, part.shard_selector) for part in config.parts]
    return [Watch(client, resource, selectors=found, **how) for found in selectors]


async def until_past(watches: list[Watch], revision: int, write: Callable[[], Awaitable[object]]) -> None:
    """Write on until each watch has brought an event later than `revision`, and so all its earlier ones."""
    while not all(watch.events and watch.events[-1].revision > revision for watch in watches):
        await write()
        await asyncio.sleep(LOOK_SECONDS)


def events_of(watches: list[Watch], first: int, last: int) -> list[Event]:
    """Return the events of a range of revisions, in the order of revisions."""
    found = (event for watch in watches for event in watch.events if first <= event.revision <= last)
    return sorted(found, key=lambda event: event.revision)


def reasons(watches: list[Watch]) -> set[Reason]:
    """Return why watches gave up."""
    return {fact.failure.reason for watch in watches for fact in watch.said(GaveUp)}


async def test_each_event_arrives_in_the_part_of_its_namespace(
    client: Client, author: Author, fresh_name: Callable[[], str]
) -> None:
    another = Author(author.writer, CONFIGMAPS, new_namespace(author.writer, fresh_name()))
    parts = parts_of(client, CONFIGMAPS, {"by": "namespace", "values": [author.namespace]})
    async with watching(*parts):
        written = [[await one.create("object"), await one.change("object")] for one in (author, another)]
        newest = written[-1][-1]
        authors = itertools.cycle([author, another])
        await until_past(parts, newest, lambda: next(authors).change("object"))
    for watch, revisions in zip(parts, written, strict=True):
        found = [event.revision for event in events_of([watch], written[0][0], newest)]
        assert found == revisions


async def test_each_event_arrives_in_the_part_of_its_label(client: Client, author: Author) -> None:
    web, rest = parts = parts_of(client, CONFIGMAPS, {"by": "label", "key": "app", "values": ["web"]})
    async with watching(*parts):
        created = [await author.create("a", app="web"), await author.create("b", app="api"), await author.create("c")]
        moved = await author.change("a", app="api")
        values = itertools.cycle(["web", None])
        await until_past(parts, moved, lambda: author.change("b", app=next(values)))
    assert events_of([web], created[0], moved) == [Event("ADDED", created[0]), Event("DELETED", moved)]
    assert events_of([rest], created[0], moved) == [
        *(Event("ADDED", one) for one in created[1:]),
        Event("ADDED", moved),
    ]


@pytest.mark.parametrize("strategy", [TAIL, PAGED, STREAM], ids=lambda strategy: strategy.name)
async def test_shard_selector_that_is_ignored_is_refused(client: Client, author: Author, strategy: Strategy) -> None:
    parts = parts_of(client, CONFIGMAPS, SHARDED, strategy=strategy)
    async with starting(*parts):
        await author.create("object")
        for watch in parts:
            await watch.until_said(GaveUp)
    assert all(watch.events == [] for watch in parts)
    assert reasons(parts) == {Reason.SELECTOR_UNCONFIRMED}


# An apiserver with the feature gate, which is alpha: a second one of the first one's etcd


@pytest.fixture(scope="session")
def sharded_control_plane(
    control_plane: ControlPlane, assets: Assets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    flags = ["--feature-gates=ShardedListAndWatch=true"]
    folder = tmp_path_factory.mktemp("sharded")
    with ControlPlane(folder, assets.kube_apiserver, control_plane.etcd, flags=flags) as plane:
        yield plane


@pytest.fixture
async def sharding_client(request: pytest.FixtureRequest, backend: Backend) -> AsyncIterator[Client]:
    plane: ControlPlane = request.getfixturevalue("sharded_control_plane")
    async with client_of(RealCluster(backend, plane).access()) as client:
        yield client


SHARDS = only(lambda backend: backend is CURRENT, "watches are sharded since 1.36, behind an alpha feature gate")


@SHARDS
@pytest.mark.parametrize("representation", list(Representation))
@pytest.mark.parametrize("strategy", [PAGED, STREAM], ids=lambda strategy: strategy.name)
async def test_each_event_arrives_in_one_shard(
    sharding_client: Client, any_author: Author, representation: Representation, strategy: Strategy
) -> None:
    names = (f"another-{number}" for number in itertools.count())
    parts = parts_of(sharding_client, any_author.resource, SHARDED, representation=representation, strategy=strategy)
    async with watching(*parts):
        created = [await any_author.create(f"object-{number}") for number in range(OBJECTS)]
        changed = [await any_author.change(f"object-{number}") for number in range(OBJECTS)]
        for number in range(OBJECTS):
            await any_author.delete(f"object-{number}")
        newest = await any_author.create("last")
        await until_past(parts, newest, lambda: any_author.create(next(names)))
    found = events_of(parts, created[0], newest)  # an apiserver may also change config maps of its own
    events = [event for event in found if event.type != "MODIFIED" or event.revision in changed]
    revisions = [event.revision for event in events]
    assert len(revisions) == len(set(revisions)) == 3 * OBJECTS + 1
    assert [event.type for event in events] == ["ADDED"] * OBJECTS + ["MODIFIED"] * OBJECTS + ["DELETED"] * OBJECTS + [
        "ADDED"
    ]
    assert revisions[: 2 * OBJECTS] == created + changed


@SHARDS
async def test_shards_of_a_custom_resource_are_refused_because_1_36_does_not_confirm_them(
    sharding_client: Client, author: Author, fresh_name: Callable[[], str]
) -> None:
    group = f"{fresh_name()}.watchslo.invalid"
    await asyncio.to_thread(author.writer.create, DEFINITIONS.path(), crd("widgets", "Widget", group))
    parts = parts_of(sharding_client, Resource(group, "v1", "widgets", namespaced=True), SHARDED)
    async with starting(*parts):
        for watch in parts:
            while Reason.SELECTOR_UNCONFIRMED not in reasons([watch]):  # at first it may not be served yet
                await watch.until_said(GaveUp, times=len(watch.said(GaveUp)) + 1)
            assert watch.said(WatchOpened) == []
