"""Watches that begin with all objects there are (WatchList): what they bring, how that ends, and who refuses it."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.backend import only
from tests.contract.cluster import SECRETS, Author, Cluster, client_of
from tests.contract.watch import EVERYTHING, narrow_socket, now, opened
from tests.support.writer import Writer
from watchslo.kube import client as kube_client
from watchslo.kube.client import Client, Selectors, Stream
from watchslo.kube.representation import Representation
from watchslo.watch.failure import Failure, Reason
from watchslo.watch.messages import WatchRequest

pytestmark = pytest.mark.patient

ALL_FORMS = pytest.mark.parametrize("representation", list(Representation))
STREAMS_LISTS = only(lambda backend: backend.watch_list, "lists are streamed since 1.32, by default")
MOST_TRIES = 20  # a slow machine needs more than two
END = {"k8s.io/initial-events-end": "true"}

Line = dict[str, Any]


async def lines(stream: Stream) -> AsyncIterator[Line]:
    """What a watch brings, as it stands there."""
    rest = b""
    while not isinstance(arrived := await stream.read(), Failure):
        *whole, rest = (rest + arrived[1]).split(b"\n")
        for line in whole:
            yield json.loads(line)


@contextlib.asynccontextmanager
async def streamed(
    client: Client, author: Author, **how: Any
) -> AsyncIterator[tuple[list[Line], Line, AsyncIterator[Line]]]:
    """The initial events, the bookmark behind them, and what comes then."""
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
    """The same, for who does not stay for what comes then."""
    async with streamed(client, author, **how) as (initial, end, _):
        return initial, end


def is_late(brought: list[Line]) -> bool:
    """Whether nothing came but that the apiserver's cache is late, by more than it waits for it."""
    return [line["object"].get("code") for line in brought] == [504]


def revision_of(line: Line) -> int:
    return int(line["object"]["metadata"]["resourceVersion"])


@STREAMS_LISTS
@ALL_FORMS
async def test_streamed_list_is_what_is_there_then_a_bookmark_that_says_so_then_what_comes(
    client: Client, scribe: Author, representation: Representation
) -> None:
    created = [await scribe.create(f"object-{number}") for number in range(4)]
    changed = await scribe.change("object-0")
    async with streamed(client, scribe, representation=representation) as (initial, end, arriving):
        live = [await scribe.change("object-1"), await scribe.create("another")]
        after = [await anext(arriving) for _ in live]
    assert {line["type"] for line in initial} == {"ADDED"}
    assert sorted(map(revision_of, initial)) == [*created[1:], changed]
    assert live[0] > revision_of(end) >= changed
    assert [(line["type"], revision_of(line)) for line in after] == [("MODIFIED", live[0]), ("ADDED", live[1])]
    marked = end["object"]["rows"][0]["object"] if representation is Representation.TABLE else end["object"]
    assert marked["metadata"]["annotations"] == END


@STREAMS_LISTS
async def test_streamed_list_comes_in_the_order_of_names_not_of_revisions(client: Client, scribe: Author) -> None:
    names = [await scribe.create(f"object-{number}") for number in (2, 0, 1)]
    initial, _ = await whole_list(client, scribe)
    assert [revision_of(line) for line in initial] == [names[1], names[2], names[0]]


@STREAMS_LISTS
async def test_streamed_list_of_nothing_is_a_bookmark_of_this_moment(client: Client, scribe: Author) -> None:
    before = await now(client)
    initial, end = await whole_list(client, scribe)
    assert initial == []
    assert before <= revision_of(end) <= await now(client)


@STREAMS_LISTS
async def test_streamed_list_follows_selectors(client: Client, scribe: Author) -> None:
    await scribe.create("off", stage="off")
    chosen = await scribe.create("on", stage="on")
    initial, end = await whole_list(client, scribe, selectors=Selectors(labels="stage=on"))
    assert [revision_of(line) for line in initial] == [chosen]
    assert revision_of(end) >= chosen


@STREAMS_LISTS
async def test_streamed_list_has_all_that_was_written_before_it_was_asked_for(client: Client, author: Author) -> None:
    for number in range(20):
        created = await author.create(f"object-{number:02}")
        initial, end = await whole_list(client, author)
        assert revision_of(initial[-1]) == created
        assert revision_of(end) >= created


@only(
    lambda backend: backend.watch_list and not backend.simulated,
    "lists are streamed since 1.32, by default, and simulated watches have room for bytes, not for events",
)
async def test_streamed_list_can_end_early_when_more_happens_meanwhile_than_a_watch_has_room_for(
    cluster: Cluster, writer: Writer, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Apiservers send the objects first, and until then give a watch room for a second of events, ten at least. With the
    # bookmark among these, which comes within a second or so, the list is sent to its end: not at each of these tries.
    large = Author(writer, SECRETS, namespace, {"data": {"filling": "eHh4" * 50_000}})
    small = Author(writer, SECRETS, namespace, {"data": {}})
    monkeypatch.setattr(kube_client, "_socket", narrow_socket)
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
    pytest.fail(f"{MOST_TRIES} lists came to their end")


async def refused(client: Client, author: Author, representation: Representation) -> Failure:
    request = WatchRequest(None, 1)
    async with client.watch(author.resource, author.namespace, EVERYTHING, request, representation) as answer:
        assert isinstance(answer, Failure)
        return answer


@ALL_FORMS
async def test_streamed_list_is_invalid_where_the_gate_is_off(
    split_client: Client, beside_author: Author, representation: Representation
) -> None:
    failure = await refused(split_client, beside_author, representation)
    assert (failure.status, failure.reason) == (422, Reason.NO_STREAMED_LISTS)


@only(lambda backend: not backend.watch_list, "lists are not streamed before 1.32, by default")
@ALL_FORMS
async def test_streamed_list_is_invalid_where_it_is_off_by_default(
    client: Client, scribe: Author, representation: Representation
) -> None:
    failure = await refused(client, scribe, representation)
    assert (failure.status, failure.reason) == (422, Reason.NO_STREAMED_LISTS)
