"""Streamed lists (WatchList): their events, their end, and the apiservers that refuse them."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.backend import only
from tests.contract.cluster import SECRETS, Author, Cluster, client_of
from tests.contract.watch import narrow_socket, now, opened
from tests.support.writer import Writer
from watchslo.kube import connections
from watchslo.kube.call import Selectors
from watchslo.kube.client import Client
from watchslo.kube.representation import Representation
from watchslo.kube.watch_response import WatchResponse
from watchslo.watch.failure import Failure

ALL_FORMS = pytest.mark.parametrize("representation", list(Representation))
JSON_FORMS = pytest.mark.parametrize("representation", [form for form in Representation if form != "protobuf"])
STREAMS_LISTS = only(lambda backend: backend.watch_list, "lists are streamed since 1.34, by default, and by 1.32")
MOST_TRIES = 20  # a slow machine needs more than two
END = {"k8s.io/initial-events-end": "true"}

Line = dict[str, Any]


async def lines(stream: WatchResponse) -> AsyncIterator[Line]:
    """Yield the lines of a watch as JSON."""
    rest = b""
    while not isinstance(arrived := await stream.read(), Failure):
        *whole, rest = (rest + arrived[1]).split(b"\n")
        for line in whole:
            yield json.loads(line)


@contextlib.asynccontextmanager
async def streamed(
    client: Client, author: Author, **how: Any
) -> AsyncIterator[tuple[list[Line], Line, AsyncIterator[Line]]]:
    """Give the initial events, the bookmark after them, and the lines that follow."""
    while True:
        async with opened(client, author, None, timeout=120, **how) as stream:
            arriving = lines(stream)
            initial: list[Line] = []
            async for line in arriving:
                if line["type"] == "BOOKMARK":
                    yield initial, line, arriving
                    return
                initial.append(line)
        assert is_late(initial), initial


async def whole_list(client: Client, author: Author, **how: Any) -> tuple[list[Line], Line]:
    """Return the initial events and the bookmark after them."""
    async with streamed(client, author, **how) as (initial, end, _):
        return initial, end


def is_late(brought: list[Line]) -> bool:
    """Return whether the only line is a 504: the cache of the apiserver was late for too long."""
    return [line["object"].get("code") for line in brought] == [504]


async def next_event(arriving: AsyncIterator[Line]) -> Line:
    """Return the next event: a bookmark may come about a second after the list."""
    while (line := await anext(arriving))["type"] == "BOOKMARK":
        pass
    return line


def revision_of(line: Line) -> int:
    return int(line["object"]["metadata"]["resourceVersion"])


@STREAMS_LISTS
@JSON_FORMS
async def test_streamed_list_brings_objects_then_a_bookmark_then_live_events(
    client: Client, any_author: Author, representation: Representation
) -> None:
    created = [await any_author.create(f"object-{number}") for number in range(4)]
    changed = await any_author.change("object-0")
    async with streamed(client, any_author, representation=representation) as (initial, end, arriving):
        live = [await any_author.change("object-1"), await any_author.create("another")]
        after = [await next_event(arriving) for _ in live]
    assert {line["type"] for line in initial} == {"ADDED"}
    assert sorted(map(revision_of, initial)) == [*created[1:], changed]
    assert live[0] > revision_of(end) >= changed
    assert [(line["type"], revision_of(line)) for line in after] == [("MODIFIED", live[0]), ("ADDED", live[1])]
    marked = end["object"]["rows"][0]["object"] if representation is Representation.TABLE else end["object"]
    assert marked["metadata"]["annotations"] == END


@STREAMS_LISTS
async def test_empty_streamed_list_is_a_bookmark_of_the_current_revision(client: Client, any_author: Author) -> None:
    before = await now(client)
    initial, end = await whole_list(client, any_author)
    assert initial == []
    assert before <= revision_of(end) <= await now(client)


@STREAMS_LISTS
async def test_streamed_list_follows_selectors(client: Client, any_author: Author) -> None:
    await any_author.create("off", stage="off")
    chosen = await any_author.create("on", stage="on")
    initial, end = await whole_list(client, any_author, selectors=Selectors(labels="stage=on"))
    assert [revision_of(line) for line in initial] == [chosen]
    assert revision_of(end) >= chosen


@STREAMS_LISTS
async def test_streamed_list_has_all_writes_from_before_its_request(client: Client, author: Author) -> None:
    for number in range(20):
        created = await author.create(f"object-{number:02}")
        initial, end = await whole_list(client, author)
        assert revision_of(initial[-1]) == created
        assert revision_of(end) >= created


@only(
    lambda backend: backend.watch_list and not backend.simulated,
    "lists are streamed since 1.34, by default, and by 1.32, and simulated watches limit bytes, not events",
)
async def test_streamed_list_ends_early_when_concurrent_events_overflow_its_queue(
    cluster: Cluster, writer: Writer, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Apiservers send the objects first, and queue at least ten events, or those of a second, in the meantime. If the
    # bookmark comes before the queue is full, within about a second, the list is sent to its end: hence several tries.
    large = Author(writer, SECRETS, namespace, {"data": {"filling": "eHh4" * 50_000}})
    small = Author(writer, SECRETS, namespace, {"data": {}})
    monkeypatch.setattr(connections, "_socket", narrow_socket)
    there = [await large.create(f"object-{number:02}") for number in range(60)]
    await small.create("small")
    async with client_of(cluster.access()) as client:
        for _ in range(MOST_TRIES):
            async with opened(client, large, None, timeout=2, representation=Representation.PLAIN) as stream:
                for _ in range(50):
                    await small.change("small")
                brought = [line async for line in lines(stream)]
            if len(brought) < len(there) and not is_late(brought):
                assert {*map(revision_of, brought)} < {*there}
                return
    pytest.fail(f"{MOST_TRIES} lists were complete")
