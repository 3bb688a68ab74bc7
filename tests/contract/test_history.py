"""How far back an apiserver remembers: what a refusal names, what silence means, and what is found out without."""

import asyncio
import time

import pytest

from tests.contract.cluster import Author, Cluster
from tests.contract.watch import now
from watchslo.kube.client import Client
from watchslo.monitor.historian import SILENT_SECONDS, Found, find_oldest, try_revision
from watchslo.watch.failure import Failure
from watchslo.watch.history import FIRST, OPENS, Accepted, Outcome, TooOld

CHANGES = 120
LOOK_SECONDS = 0.1
PROMPT_SECONDS = 0.5


async def at_once() -> None:
    """Without a budget."""


async def remembered(client: Client, author: Author) -> tuple[Found, int]:
    """Where history begins of what `author` writes, and how many watches that took."""
    newest = await author.change("object")
    while True:
        before = opens(client)
        found = await find_oldest(client, author.resource, author.namespace, lambda: newest, at_once)
        if isinstance(found, Found):
            return found, opens(client) - before
        await asyncio.sleep(LOOK_SECONDS)


def opens(client: Client) -> int:
    return sum(count for (kind, _), count in client.requests.items() if kind == "history")


@pytest.fixture
async def young(client: Client, cluster: Cluster, author: Author) -> int:
    """The newest change of config maps before the apiserver began anew, and with it its caches."""
    before = await author.create("object")
    await cluster.restart()
    await cluster.until_ready()
    author.writer.close()  # it speaks to the apiserver that was
    await author.change("object")
    await tried(client, author, FIRST)  # it may say that it is ready before its cache is
    return before


async def tried(client: Client, author: Author, revision: int) -> Outcome:
    """What comes of a watch from there; a machine that stands still meanwhile cannot tell, and asks again."""
    while True:
        outcome = await try_revision(client, author.resource, author.namespace, revision)
        if not isinstance(outcome, Failure):
            return outcome
        await asyncio.sleep(LOOK_SECONDS)


async def test_a_refusal_names_the_oldest_revision_that_is_acceptable(
    client: Client, author: Author, young: int
) -> None:
    found, watches = await remembered(client, author)
    assert watches == 1
    assert found.oldest >= young
    assert not found.complete
    assert await tried(client, author, found.oldest - 1) == TooOld(found.oldest)
    assert await tried(client, author, found.oldest) == Accepted()
    assert await tried(client, author, found.oldest + 1) == Accepted()


@pytest.mark.usefixtures("young")
async def test_a_refusal_is_prompt_and_silence_lasts(client: Client, author: Author) -> None:
    took = []
    for _ in range(3):  # this machine may hold up one of them, and not all
        began = time.monotonic()
        assert isinstance(await tried(client, author, FIRST), TooOld)
        took.append(time.monotonic() - began)
    assert min(took) < PROMPT_SECONDS
    newest = await author.change("object")
    began = time.monotonic()
    assert await tried(client, author, newest) == Accepted()
    assert time.monotonic() - began >= SILENT_SECONDS


@pytest.mark.usefixtures("young")
async def test_where_no_revision_is_named_ten_watches_find_it(
    client: Client, author: Author, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(CHANGES):
        await author.change("object")
    named, _ = await remembered(client, author)
    monkeypatch.setattr("watchslo.monitor.historian.parse_oldest", lambda _: None)
    found, watches = await remembered(client, author)
    assert 1 < watches <= OPENS
    assert found.oldest >= named.oldest
    assert found.revisions == pytest.approx(named.revisions, rel=0.1)


async def test_what_is_not_cached_goes_back_to_the_last_compaction(
    client: Client, cluster: Cluster, reporter: Author
) -> None:
    old = await reporter.create("object")
    await reporter.change("object")
    await reporter.change("object")
    await cluster.compact()
    assert await tried(client, reporter, old) == TooOld(None), "and it does not say how far"
    assert await tried(client, reporter, await now(client)) == Accepted()


async def test_a_cache_does_not_forget_with_etcd(client: Client, cluster: Cluster, author: Author, young: int) -> None:
    before, _ = await remembered(client, author)
    await cluster.compact()
    after, _ = await remembered(client, author)
    assert after.oldest == before.oldest >= young
