"""Headroom: what a refusal names, what silence means, and the search where no revision is named."""

import asyncio
import math
import time

import pytest

from tests.contract.backend import Backend, real
from tests.contract.cluster import Author, Cluster, RealCluster
from tests.contract.watch import now
from watchslo.kube.client import Client
from watchslo.monitor.apiservers.oldest_revision import SILENT_SECONDS, Found, find_oldest, try_revision
from watchslo.watch.failure import Failure
from watchslo.watch.headroom import FIRST, OPENS, Accepted, Outcome, TooOld

CHANGES = 120
LOOK_SECONDS = 0.1
PROMPT_SECONDS = 0.5


async def at_once() -> None:
    """Wait for no budget."""


async def probed(client: Client, author: Author) -> tuple[Found, int]:
    """Return the headroom of the resource of `author`, and the number of watches that it took to find it."""
    newest = await author.change("object")
    while True:
        before = opens(client)
        found = await find_oldest(client, author.resource, author.namespace, lambda: newest, at_once)
        if isinstance(found, Found):
            return found, opens(client) - before
        await asyncio.sleep(LOOK_SECONDS)


def opens(client: Client) -> int:
    return sum(count for (kind, _), count in client.requests.items() if kind == "headroom")


RESTARTED = real("a simulated apiserver is not restarted")


@pytest.fixture(scope="module")
def restarted() -> dict[Backend, int]:
    """The last revision before the restart of each apiserver that was restarted for this module."""
    return {}


@pytest.fixture
async def young(
    client: Client, cluster: Cluster, backend: Backend, author: Author, restarted: dict[Backend, int]
) -> int:
    """The last revision before a restart of the apiserver, which empties its caches; one restart serves all tests."""
    assert isinstance(cluster, RealCluster)
    created = await author.create("object")
    if backend not in restarted:
        await cluster.restart()
        await cluster.until_ready()
        author.writer.close()  # its connection is to the old process
        await author.change("object")
        await tried(client, author, FIRST)  # an apiserver may say that it is ready before its cache is
        restarted[backend] = created
    return restarted[backend]


async def tried(client: Client, author: Author, revision: int) -> Outcome:
    """Return the outcome of a watch from a revision; after a pause of this machine it is tried again."""
    while True:
        outcome = await try_revision(client, author.resource, author.namespace, revision)
        if not isinstance(outcome, Failure):
            return outcome
        await asyncio.sleep(LOOK_SECONDS)


@RESTARTED
async def test_refusal_names_the_oldest_acceptable_revision(client: Client, author: Author, young: int) -> None:
    found, watches = await probed(client, author)
    assert watches == 1
    assert found.oldest >= young
    assert not found.complete
    assert await tried(client, author, found.oldest - 1) == TooOld(found.oldest)
    assert await tried(client, author, found.oldest) == Accepted()
    assert await tried(client, author, found.oldest + 1) == Accepted()


@RESTARTED
@pytest.mark.usefixtures("young")
async def test_refusal_is_prompt_and_silence_means_acceptance(client: Client, author: Author) -> None:
    took = [math.inf]
    while min(took) >= PROMPT_SECONDS and len(took) < 10:  # this machine may delay some of them, but not all
        began = time.monotonic()
        assert isinstance(await tried(client, author, FIRST), TooOld)
        took.append(time.monotonic() - began)
    assert min(took) < PROMPT_SECONDS
    newest = await author.change("object")
    began = time.monotonic()
    assert await tried(client, author, newest) == Accepted()
    assert time.monotonic() - began >= SILENT_SECONDS


@RESTARTED
@pytest.mark.usefixtures("young")
async def test_search_finds_the_oldest_revision_with_ten_watches_where_none_is_named(
    client: Client, author: Author, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(CHANGES):
        await author.change("object")
    named, _ = await probed(client, author)
    monkeypatch.setattr("watchslo.watch.headroom.parse_oldest", lambda _: None)
    found, watches = await probed(client, author)
    assert 1 < watches <= OPENS
    assert found.oldest >= named.oldest
    assert found.revisions == pytest.approx(named.revisions, rel=0.1)


async def test_headroom_of_an_uncached_resource_ends_at_the_last_compaction(
    client: Client, cluster: Cluster, event_author: Author
) -> None:
    old = await event_author.create("object")
    await event_author.change("object")
    await event_author.change("object")
    await cluster.compact()
    for _ in range(5):
        refused = await tried(client, event_author, old)
        if refused != Accepted():  # it may take longer than the second of the watch
            break
    assert refused == TooOld(None, by_storage=True), "the refusal names no revision"
    assert await tried(client, event_author, await now(client)) == Accepted()


@RESTARTED
async def test_compaction_does_not_shorten_the_headroom_of_a_cache(
    client: Client, cluster: Cluster, author: Author, young: int
) -> None:
    before, _ = await probed(client, author)
    await cluster.compact()
    after, _ = await probed(client, author)
    assert after.oldest == before.oldest >= young
