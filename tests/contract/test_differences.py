"""The same writes cause the same events at every apiserver."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.contract.backend import Backend
from tests.contract.cluster import CONFIGMAPS, DEFINITIONS, EVENTS, Author, Cluster, client_of, event, new_namespace
from tests.contract.judge import get
from tests.contract.watch import EVERYTHING, Event, Watch, event_of, now, opened, up_to, watching
from tests.support.process import PATIENCE_SECONDS
from tests.support.writer import StatusError, Writer, configmap, crd
from watchslo.kube.call import Page, Selectors
from watchslo.kube.client import Client
from watchslo.kube.representation import Representation
from watchslo.model import Resource
from watchslo.watch.failure import Failure
from watchslo.watch.messages import ListRequest

WRITES, SEED = 80, 14  # with this seed every kind of write occurs, in every scope: 47 combinations
NAMES = ("a", "b", "c", "d")
LABELS = {"color": ("red", "blue", None), "shape": ("round", "square", None)}
SCOPES = {
    "all": EVERYTHING,
    "one name": Selectors(fields="metadata.name=a"),
    "one label": Selectors(labels="color=red"),
    "several labels": Selectors(labels="color in (red,blue),shape!=round"),
}
IN_EVERY_SCOPE = ("a", {"color": "red", "shape": "square"})
WIDGETS = Resource("differences.watchslo.invalid", "v1", "widgets", namespaced=True)
BODIES: dict[Resource, Callable[[str], dict[str, Any]]] = {
    CONFIGMAPS: lambda _: configmap(""),
    EVENTS: event,
    WIDGETS: lambda _: {"apiVersion": f"{WIDGETS.group}/v1", "kind": "Widget", "size": 1},
}


Labels = dict[str, str | None]
Place = tuple[str, Representation]


class Step(NamedTuple):
    """One write: a create, patch or delete of an object of this name."""

    verb: str
    name: str
    labels: Labels


def script() -> list[Step]:
    """Return random writes, some of which fail; the last one creates an object that is in every scope."""
    random = Random(SEED)
    verbs = random.choices(("create", "patch", "delete"), weights=(4, 5, 2), k=WRITES)
    steps = [
        Step(verb, random.choice(NAMES), {key: random.choice(values) for key, values in LABELS.items()})
        for verb in verbs
    ]
    name, labels = IN_EVERY_SCOPE
    return [*steps, Step("delete", name, {}), Step("create", name, {**labels})]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a script: the answers to its writes, and the events of each watch, live and replayed.

    Each revision is replaced by its rank among the revisions of the script.
    """

    answers: list[int]
    live: dict[Place, list[Event]]
    again: dict[Place, list[Event]]
    objects: dict[Place, int]


def write(writer: Writer, collection: str, body: dict[str, Any], step: Step) -> int:
    """Do one step and return the status code."""
    path = f"{collection}/{step.name}"
    try:
        match step.verb:
            case "create":
                labels = {key: value for key, value in step.labels.items() if value}
                writer.create(collection, body | {"metadata": {"name": step.name, "labels": labels}})
            case "patch":
                writer.patch(path, {"metadata": {"labels": step.labels}})
            case "delete":
                writer.delete(path)
    except StatusError as error:
        return error.code
    return 200


async def define(client: Client, writer: Writer) -> None:
    """Define widgets unless they are defined, and wait until they are served."""
    with contextlib.suppress(StatusError):
        await asyncio.to_thread(writer.create, DEFINITIONS.path(), crd("widgets", "Widget", WIDGETS.group))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while isinstance(await client.read_nothing(WIDGETS, "default", "tick"), Failure):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.05)


async def perform(cluster: Cluster, resource: Resource, namespace: str, steps: list[Step]) -> Outcome:
    async with client_of(cluster.access()) as client:
        with cluster.writer() as writer:
            new_namespace(writer, namespace)
            if resource == WIDGETS:
                await define(client, writer)
            return await observe(client, Author(writer, resource, namespace, BODIES[resource](namespace)), steps)


def forms(resource: Resource) -> list[Representation]:
    """Return the representations that a resource has: custom ones have no protobuf."""
    return [form for form in Representation if form is not Representation.PROTOBUF or resource != WIDGETS]


async def observe(client: Client, author: Author, steps: list[Step]) -> Outcome:
    resource, namespace = author.resource, author.namespace
    collection = resource.path(namespace)
    watches = {
        (scope, form): Watch(client, resource, namespace, selectors, form)
        for scope, selectors in SCOPES.items()
        for form in forms(resource)
    }
    async with watching(*watches.values()):
        start = await now(client)  # after these, the cache exists
        answers = [await asyncio.to_thread(write, author.writer, collection, author.body, step) for step in steps]
        last = await get(author.writer, f"{collection}/{steps[-1].name}")
        end = int(last["metadata"]["resourceVersion"])
        for watch in watches.values():
            await watch.until_seen(end)
    again = {(scope, form): await replay(client, author, start, end, scope, form) for scope, form in watches}
    objects = {(scope, form): await count(client, author, scope, form) for scope, form in watches}
    live = {place: watch.events for place, watch in watches.items()}
    ranks = {event.revision: rank for rank, event in enumerate(live["all", Representation.PLAIN])}
    return Outcome(answers, ranked(live, ranks), ranked(again, ranks), objects)


async def replay(client: Client, author: Author, start: int, end: int, scope: str, form: Representation) -> list[Event]:
    """Return the events of a watch from `start` that is opened after all writes."""
    async with opened(client, author, start, timeout=120, representation=form, selectors=SCOPES[scope]) as stream:
        return [event_of(frame) async for _, frame in up_to(end, stream)]


async def count(client: Client, author: Author, scope: str, form: Representation) -> int:
    page = await client.list_page(author.resource, author.namespace, SCOPES[scope], ListRequest(), form)
    assert isinstance(page, Page), page
    return page.items


def ranked(events: dict[Place, list[Event]], ranks: dict[int, int]) -> dict[Place, list[Event]]:
    return {place: [Event(type_, ranks[revision]) for type_, revision in seen] for place, seen in events.items()}


@pytest.mark.parametrize("resource", BODIES, ids=lambda resource: resource.plural)
async def test_same_writes_cause_same_events_at_all_backends(
    clusters: Callable[[Backend], Cluster],
    backends: tuple[Backend, ...],
    fresh_name: Callable[[], str],
    resource: Resource,
) -> None:
    """A simulated cluster has no custom resources."""
    namespace, steps = fresh_name(), script()
    backends = tuple(backend for backend in backends if resource != WIDGETS or not backend.simulated)
    outcomes = await asyncio.gather(*(perform(clusters(backend), resource, namespace, steps) for backend in backends))
    *others, expected = outcomes
    for form in forms(resource):
        for scope in SCOPES:
            assert (
                expected.live[scope, form] == expected.again[scope, form] == expected.live[scope, Representation.PLAIN]
            )
    for backend, outcome in zip(backends, others, strict=False):
        assert outcome == expected, backend
