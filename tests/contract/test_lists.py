"""Lists in pages, compressed or not, during writes and compactions."""

from dataclasses import replace

import pytest

from tests.contract.backend import Backend, real
from tests.contract.cluster import CONFIGMAPS, EVENTS, Author, Cluster
from tests.contract.judge import get, refusal
from tests.contract.watch import EVERYTHING
from tests.support.writer import Writer
from watchslo.kube.call import Page
from watchslo.kube.client import Client
from watchslo.kube.representation import Representation
from watchslo.model import Resource
from watchslo.watch.failure import Failure, Reason
from watchslo.watch.messages import ListRequest

ALL_FORMS = pytest.mark.parametrize("representation", list(Representation))


async def page(
    client: Client,
    resource: Resource,
    namespace: str,
    request: ListRequest,
    representation: Representation = Representation.TABLE,
) -> Page | Failure:
    return await client.list_page(resource, namespace, EVERYTHING, request, representation)


async def first_page(client: Client, resource: Resource, namespace: str) -> Page:
    first = await page(client, resource, namespace, ListRequest(limit=2))
    assert isinstance(first, Page)
    assert first.continue_token
    return first


async def create(author: Author, count: int) -> int:
    """Create `count` objects and return the revision of the last one."""
    return [await author.create(f"object-{number}") for number in range(count)][-1]


@ALL_FORMS
async def test_all_pages_of_a_list_have_one_revision(
    client: Client, author: Author, representation: Representation
) -> None:
    newest = await create(author, 5)
    pages: list[Page] = []
    token = None
    while not pages or token:
        request = ListRequest(limit=2, continue_token=token)
        answer = await page(client, CONFIGMAPS, author.namespace, request, representation)
        assert isinstance(answer, Page)
        pages.append(answer)
        token = answer.continue_token
        await author.create(f"zzz-later-{len(pages)}")
    assert [one.items for one in pages] == [2, 2, 1]
    assert len({one.revision for one in pages}) == 1
    assert pages[0].revision is not None
    assert pages[0].revision >= newest


@ALL_FORMS
async def test_list_from_the_cache_is_a_single_page(
    client: Client, any_author: Author, representation: Representation
) -> None:
    newest = await create(any_author, 5)
    await any_author.until_cached(newest)
    request = ListRequest(from_cache=True)
    answer = await page(client, any_author.resource, any_author.namespace, request, representation)
    assert isinstance(answer, Page)
    assert (answer.items, answer.continue_token) == (5, None)
    assert answer.revision is not None
    assert answer.revision >= newest


async def test_list_of_any_revision_without_a_cache_comes_in_pages(client: Client, event_author: Author) -> None:
    newest = await create(event_author, 5)
    answer = await page(client, EVENTS, event_author.namespace, ListRequest(limit=2, from_cache=True))
    assert isinstance(answer, Page)
    assert answer.revision is not None
    assert answer.revision >= newest
    assert answer.items == 2
    request = ListRequest(limit=2, continue_token=answer.continue_token)
    following = await page(client, EVENTS, event_author.namespace, request)
    assert isinstance(following, Page)
    assert (following.items, following.revision) == (2, answer.revision)


@ALL_FORMS
async def test_page_names_its_objects_except_as_a_table(
    client: Client, any_author: Author, writer: Writer, representation: Representation
) -> None:
    await create(any_author, 3)
    answer = await client.list_page(
        any_author.resource, any_author.namespace, EVERYTHING, ListRequest(limit=2), representation, with_objects=True
    )
    assert isinstance(answer, Page)
    assert answer.items == 2
    if representation is Representation.TABLE:
        assert answer.objects is None
        return
    there = (await get(writer, any_author.resource.path(any_author.namespace)))["items"][:2]
    assert answer.objects is not None
    assert answer.objects.uids == [item["metadata"]["uid"] for item in there]
    assert answer.objects.revisions == [item["metadata"]["resourceVersion"] for item in there]


@ALL_FORMS
async def test_empty_list_has_a_revision(client: Client, author: Author, representation: Representation) -> None:
    newest = await create(author, 2)
    answer = await page(client, CONFIGMAPS, author.namespace, ListRequest(absent_name=True), representation)
    assert isinstance(answer, Page)
    assert (answer.items, answer.continue_token) == (0, None)
    assert answer.revision is not None
    assert answer.revision >= newest


async def current_page(client: Client, author: Author, request: ListRequest) -> Page:
    """Return a list that is not older than a revision; ask again if its cache is late for more than three seconds."""
    while True:
        answer = await page(client, author.resource, author.namespace, request)
        if isinstance(answer, Page):
            return answer
        assert answer.reason is Reason.FUTURE_REVISION


async def test_list_that_is_not_older_is_a_single_page(client: Client, any_author: Author) -> None:
    newest = await create(any_author, 5)
    answer = await current_page(client, any_author, ListRequest(not_older_than=newest))
    assert (answer.items, answer.continue_token) == (5, None)
    assert answer.revision is not None
    assert answer.revision >= newest


async def test_list_that_is_not_older_comes_in_pages_of_one_revision_if_it_states_its_match(
    client: Client, any_author: Author
) -> None:
    newest = await create(any_author, 5)
    request = ListRequest(limit=2, not_older_than=newest, states_match=True)
    first = await current_page(client, any_author, request)
    assert first.items == 2
    assert first.revision is not None
    assert first.revision >= newest
    await any_author.create("zzz-later")
    request = replace(request, limit=500, continue_token=first.continue_token)
    rest = await page(client, any_author.resource, any_author.namespace, request)
    assert isinstance(rest, Page)
    assert (rest.items, rest.revision, rest.continue_token) == (3, first.revision, None)


async def continued_after_compaction(client: Client, cluster: Cluster, author: Author) -> tuple[Page, Page | Failure]:
    """Return the first page of a list, and its rest, which is requested after the revision was compacted."""
    await create(author, 5)
    first = await first_page(client, author.resource, author.namespace)
    await author.until_cached(await author.create("zzz-later"))
    await cluster.compact()
    request = ListRequest(continue_token=first.continue_token)
    return first, await page(client, author.resource, author.namespace, request)


async def test_continue_token_expires_with_its_revision_unless_pages_come_from_the_cache(
    client: Client, cluster: Cluster, backend: Backend, any_author: Author
) -> None:
    first, rest = await continued_after_compaction(client, cluster, any_author)
    if backend.pages_from_cache and any_author.resource == CONFIGMAPS:
        assert isinstance(rest, Page)
        assert (rest.items, rest.revision) == (3, first.revision)
    else:
        assert isinstance(rest, Failure)
        assert (rest.status, rest.reason) == (410, Reason.EXPIRED)


@real("a simulated apiserver offers no token for the remaining objects")
async def test_expired_continue_token_is_refused_with_a_token_for_the_remaining_objects_at_the_current_revision(
    client: Client, cluster: Cluster, event_author: Author
) -> None:
    first, expired = await continued_after_compaction(client, cluster, event_author)
    assert isinstance(expired, Failure)
    assert expired.continue_token
    newest = await event_author.create("zzz-latest")
    request = ListRequest(limit=3, continue_token=expired.continue_token)
    rest = await page(client, EVENTS, event_author.namespace, request)
    assert isinstance(rest, Page)
    assert rest.items == 3
    assert rest.revision is not None
    assert rest.revision >= newest  # apiservers write, too
    assert first.revision is not None
    assert first.revision < newest
    await event_author.create("zzz-too-late")
    request = ListRequest(limit=3, continue_token=rest.continue_token)
    last = await page(client, EVENTS, event_author.namespace, request)
    assert isinstance(last, Page)
    assert (last.items, last.revision) == (2, rest.revision)  # from here on, all pages have one revision again


async def test_exact_revision_of_an_uncached_resource_expires(
    cluster: Cluster, writer: Writer, event_author: Author
) -> None:
    old = await create(event_author, 2)
    await event_author.create("zzz-later")
    await cluster.compact()
    path = EVENTS.path(event_author.namespace)
    failure = await refusal(writer, path, resourceVersion=str(old), resourceVersionMatch="Exact")
    assert (failure.status, failure.reason) == (410, Reason.EXPIRED)
