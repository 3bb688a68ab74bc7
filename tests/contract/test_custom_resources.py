"""Custom resources: defined, changed and deleted while they are watched."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.contract.backend import only, real
from tests.contract.cluster import DEFINITIONS, Author
from tests.contract.watch import Event, Watch, starting, watching
from tests.support.process import PATIENCE_SECONDS
from tests.support.writer import DEAD_WEBHOOK, Writer, crd
from watchslo.kube.client import Client
from watchslo.kube.discovery import Catalogue, Discovery
from watchslo.kube.representation import Representation
from watchslo.model import Resource
from watchslo.watch.failure import Phase, Reason
from watchslo.watch.messages import Expired, GaveUp, ListFailed, WatchClosed
from watchslo.watch.transitions import State

pytestmark = real("a simulated cluster has no custom resources")


class Definition:
    """A custom resource for one test."""

    def __init__(self, writer: Writer, group: str) -> None:
        self.resource = Resource(group, "v1", "widgets", namespaced=True)
        self.body = {"apiVersion": f"{group}/v1", "kind": "Widget", "size": 1}
        self._writer = writer
        self._path = f"{DEFINITIONS.path()}/widgets.{group}"

    async def create(self) -> None:
        definition = crd("widgets", "Widget", self.resource.group)
        await asyncio.to_thread(self._writer.create, DEFINITIONS.path(), definition)

    async def change(self) -> None:
        """Change the schema. Changed names would give the resource a second new cache when they are accepted."""
        (version,) = crd("widgets", "Widget", self.resource.group)["spec"]["versions"]
        version["schema"]["openAPIV3Schema"]["description"] = "Changed."
        await asyncio.to_thread(self._writer.patch, self._path, {"spec": {"versions": [version]}})

    async def convert_by_a_dead_webhook(self) -> None:
        """Serve a second version, into which no stored object can be converted."""
        (version,) = crd("widgets", "Widget", self.resource.group)["spec"]["versions"]
        second = {**version, "name": "v2", "storage": False}
        spec = {"versions": [version, second], "conversion": DEAD_WEBHOOK}
        await asyncio.to_thread(self._writer.patch, self._path, {"spec": spec})

    async def delete(self) -> None:
        await asyncio.to_thread(self._writer.delete, self._path)


@pytest.fixture
def definition(writer: Writer, fresh_name: Callable[[], str]) -> Definition:
    return Definition(writer, f"{fresh_name()}.watchslo.invalid")


async def test_watch_follows_a_crd_through_creation_change_and_deletion(
    client: Client, writer: Writer, namespace: str, definition: Definition
) -> None:
    author = Author(writer, definition.resource, namespace, definition.body)
    watches = [Watch(client, definition.resource, representation=form) for form in Representation]
    async with starting(*watches):
        for watch in watches:
            await watch.until_state(State.AWAY)
        await definition.create()
        for watch in watches:
            await watch.until_watching()
        created = await author.create("object")
        for watch in watches:
            await watch.until_seen(created)
        known = {watch: len(watch.facts) for watch in watches}
        expired = {watch: len(watch.said(Expired)) for watch in watches}  # a new cache may be older than the list
        await definition.change()
        for watch in watches:
            await watch.until_said(Expired, expired[watch] + 1)
            await watch.until_watching()
        changed = await author.change("object")
        for watch in watches:
            await watch.until_seen(changed)
        await definition.delete()
        for watch in watches:
            await watch.until_state(State.AWAY)
    for watch in watches:
        assert {fact.failure.reason for fact in watch.said(GaveUp)} == {Reason.NOT_FOUND}
        deleted = watch.events[-1].revision
        assert deleted > changed
        assert watch.events == [Event("ADDED", created), Event("MODIFIED", changed), Event("DELETED", deleted)]
        later = watch.facts[known[watch] :]
        opened = [fact for fact in later if isinstance(fact, WatchClosed) and fact.lived is not None]
        assert opened[0].failure.reason is Reason.FORCED  # when the definition changed
        assert [fact for fact in later if isinstance(fact, Expired)] == [Expired(Phase.STREAM)]


@only(lambda backend: backend.refuses_unready, "older versions wait for a cache")
async def test_watch_names_a_dead_conversion_webhook(
    client: Client, writer: Writer, namespace: str, definition: Definition
) -> None:
    """The apiserver says with a 429 that its cache is not ready; that is no sign of load."""
    await definition.create()
    author = Author(writer, definition.resource, namespace, definition.body)
    async with watching(Watch(client, definition.resource)):
        await author.create("object")
    await definition.convert_by_a_dead_webhook()
    watch = Watch(client, replace(definition.resource, version="v2"))
    async with starting(watch):
        await watch.until_said(WatchClosed, 2)
    *_, last = watch.said(WatchClosed)
    assert last.failure.reason is Reason.CONVERSION
    assert "127.0.0.1" not in last.failure.message  # it may be the name of a service


async def test_custom_resource_has_no_protobuf_and_is_watched_as_plain_objects(
    client: Client, writer: Writer, namespace: str, definition: Definition
) -> None:
    await definition.create()
    author = Author(writer, definition.resource, namespace, definition.body)
    watch = Watch(client, definition.resource, representation=Representation.PROTOBUF)
    async with watching(watch):
        created = await author.create("object")
        await watch.until_seen(created)
    assert watch.representation is Representation.PLAIN
    reasons = [failed.failure.reason for failed in watch.said(ListFailed)]  # others: the definition was too new
    assert reasons.count(Reason.NOT_ACCEPTABLE) == 1


async def test_discovery_adds_created_and_removes_deleted_crds(client: Client, definition: Definition) -> None:
    discovery = Discovery(lambda: client)

    async def until_served(*, served: bool) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                catalogue = await discovery.refresh()
                assert isinstance(catalogue, Catalogue)
                if (definition.resource in catalogue.expand()) is served:
                    return
                await asyncio.sleep(0.05)

    await until_served(served=False)
    await definition.create()
    await until_served(served=True)
    await definition.delete()
    await until_served(served=False)
