"""Tables, metadata, and whole objects as JSON and as protobuf: forms of the same events."""

import contextlib
from http import HTTPStatus

import pytest

from tests.contract.backend import only
from tests.contract.cluster import Author
from tests.contract.watch import (
    EVERYTHING,
    Event,
    Watch,
    event_of,
    frames,
    now,
    opened,
    revision_of,
    up_to,
    watching,
)
from watchslo.kube import representation as forms
from watchslo.kube.call import Page, Selectors
from watchslo.kube.client import Client
from watchslo.kube.representation import Representation
from watchslo.watch.decode import Bookmark, Error, Frame, ObjectChange
from watchslo.watch.failure import Failure, Reason
from watchslo.watch.messages import ListFailed, ListRequest

STREAMS_LISTS = only(lambda backend: backend.watch_list, "lists are streamed since 1.32, by default")
LABELLED = Selectors(labels="stage=on")
LABELLED_SO = Selectors(labels="stage in (on,late),stage!=off,app notin (other)")
NAMED = Selectors(fields="metadata.name=object")


def in_every_form(client: Client, author: Author, selectors: Selectors = EVERYTHING) -> list[Watch]:
    return [Watch(client, author.resource, author.namespace, selectors, form) for form in Representation]


async def test_events_carry_the_revision_of_their_change_in_every_form(client: Client, any_author: Author) -> None:
    watches = in_every_form(client, any_author)
    async with watching(*watches):
        created = await any_author.create("object")
        changed = await any_author.change("object")
        await any_author.delete("object")
        again = await any_author.create("object")
        for watch in watches:
            await watch.until_seen(again)
    (deleted,) = {watch.events[2].revision for watch in watches}
    assert changed < deleted < again
    for watch in watches:
        assert watch.events == [
            Event("ADDED", created),
            Event("MODIFIED", changed),
            Event("DELETED", deleted),
            Event("ADDED", again),
        ]


async def test_all_forms_except_the_table_have_creation_times(client: Client, any_author: Author) -> None:
    watches = in_every_form(client, any_author)
    async with watching(*watches):
        await any_author.create("object")
        changed = await any_author.change("object")
        for watch in watches:
            await watch.until_seen(changed)
    created = {watch.representation: set(watch.created) for watch in watches}
    assert created[Representation.TABLE] == {None}
    assert created[Representation.METADATA] == created[Representation.PLAIN] == created[Representation.PROTOBUF]
    (stamp,) = created[Representation.PLAIN]
    assert stamp is not None
    assert stamp.endswith("Z")


async def test_object_that_begins_or_ceases_to_match_is_added_or_deleted_at_that_revision(
    client: Client, any_author: Author
) -> None:
    start = await now(client)
    labelled = [*in_every_form(client, any_author, LABELLED), *in_every_form(client, any_author, LABELLED_SO)]
    named = in_every_form(client, any_author, NAMED)
    async with watching(*labelled, *named):
        created = await any_author.create("object", stage="off")
        begun = await any_author.change("object", stage="on")
        stayed = await any_author.change("object", stage="on")
        ceased = await any_author.change("object", stage="off")
        again = await any_author.change("object", stage="on")
        await any_author.delete("object")
        other = await any_author.create("other", stage="on")
        for watch in labelled:
            await watch.until_seen(other)
        for watch in named:
            await watch.until_events(6)
    deleted = named[0].events[-1].revision
    assert again < deleted < other
    matching = [
        Event("ADDED", begun),
        Event("MODIFIED", stayed),
        Event("DELETED", ceased),
        Event("ADDED", again),
        Event("DELETED", deleted),
        Event("ADDED", other),
    ]
    for watch in labelled:
        assert watch.events == matching
    for watch in named:
        modified = [Event("MODIFIED", revision) for revision in (begun, stayed, ceased, again)]
        assert watch.events == [Event("ADDED", created), *modified, Event("DELETED", deleted)]
    for form in Representation:
        async with opened(client, any_author, start, timeout=120, representation=form, selectors=LABELLED) as stream:
            assert [event_of(frame) async for _, frame in up_to(other, stream)] == matching


async def test_unknown_form_is_not_acceptable_and_the_next_simpler_form_is_used(
    client: Client, any_author: Author, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "_TABLE", forms._TABLE.replace("v=v1", "v=v0"))
    watch = Watch(client, any_author.resource, any_author.namespace, representation=Representation.TABLE)
    async with watching(watch):
        created = await any_author.create("object")
        await watch.until_seen(created)
    (failed,) = watch.said(ListFailed)
    assert (failed.failure.status, failed.failure.reason) == (406, Reason.NOT_ACCEPTABLE)
    assert watch.representation is Representation.METADATA
    assert watch.events == [Event("ADDED", created)]
    assert watch.created != [None]


async def test_protobuf_has_the_same_metadata_as_plain_objects(client: Client, any_author: Author) -> None:
    start = await now(client)
    await any_author.create("object")
    changed = await any_author.change("object")
    found: dict[Representation, list[Frame]] = {}
    for form in (Representation.PLAIN, Representation.PROTOBUF):
        async with opened(client, any_author, start, timeout=120, representation=form) as stream:
            found[form] = [frame async for _, frame in up_to(changed, stream)]
    changes = {
        form: [(type(one), one.object.metadata) for one in seen if isinstance(one, ObjectChange)]
        for form, seen in found.items()
    }
    assert changes[Representation.PLAIN] == changes[Representation.PROTOBUF]


async def test_list_as_protobuf_is_the_list_as_json(client: Client, any_author: Author) -> None:
    for number in range(3):
        await any_author.create(f"object-{number}")
    pages = {
        form: await client.list_page(
            any_author.resource, any_author.namespace, EVERYTHING, ListRequest(limit=2), form, with_objects=True
        )
        for form in (Representation.PLAIN, Representation.PROTOBUF)
    }
    plain, protobuf = (
        (page.items, page.objects, page.remaining, bool(page.continue_token))
        for page in pages.values()
        if isinstance(page, Page)
    )
    assert plain == protobuf


async def test_refusal_of_a_request_for_protobuf_is_read(client: Client, any_author: Author) -> None:
    request = ListRequest(limit=2, continue_token="garbled")
    refusals = [
        await client.list_page(any_author.resource, any_author.namespace, EVERYTHING, request, form)
        for form in (Representation.PLAIN, Representation.PROTOBUF)
    ]
    plain, protobuf = refusals
    assert isinstance(plain, Failure)
    assert plain.status == HTTPStatus.BAD_REQUEST
    assert "It says: " in plain.message
    assert plain == protobuf


@STREAMS_LISTS
async def test_whole_list_by_a_watch_of_protobuf_ends_with_the_marked_bookmark(
    client: Client, any_author: Author
) -> None:
    created = [await any_author.create(f"object-{number}") for number in range(3)]
    while isinstance((found := await until_bookmark(client, any_author))[-1], Error):  # its cache was late for too long
        assert [frame.object.code for frame in found if isinstance(frame, Error)] == [HTTPStatus.GATEWAY_TIMEOUT]
    *seen, end = found
    assert isinstance(end, Bookmark)
    assert end.ends_list
    assert sorted(map(revision_of, seen)) == created


async def until_bookmark(client: Client, author: Author) -> list[Frame]:
    """Return the frames of a list by a watch of protobuf up to the first bookmark or error."""
    found: list[Frame] = []
    async with (
        opened(client, author, None, timeout=120, representation=Representation.PROTOBUF) as stream,
        contextlib.aclosing(frames(stream)) as arriving,
    ):
        async for _, frame in arriving:
            found.append(frame)
            if isinstance(frame, Bookmark | Error):
                break
    return found
