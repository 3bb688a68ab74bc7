"""What the inventory says is there is there; and what it says a gap has hid is what was written meanwhile."""

from typing import Any

import pytest

from tests.contract.cluster import EVENTS, Author, Cluster
from tests.contract.judge import get
from tests.contract.watch import Interrupted, Watch, starting, synced
from tests.support.writer import Writer
from watchslo.kube.client import Client
from watchslo.kube.representation import Representation
from watchslo.watch.inventory import Inventory
from watchslo.watch.messages import Expired, Gap, ListDone, Unseen
from watchslo.watch.strategy import PAGED, PARALLEL, STRATEGIES, TAIL, Strategy

pytestmark = pytest.mark.patient

LISTING = [strategy for strategy in STRATEGIES.values() if strategy is not TAIL]
EVERY_LISTING_STRATEGY = pytest.mark.parametrize("strategy", LISTING, ids=lambda strategy: strategy.name)
PAGED_STRATEGIES = pytest.mark.parametrize("strategy", [PAGED, PARALLEL], ids=lambda strategy: strategy.name)
HOW: dict[str, Any] = {"representation": Representation.METADATA}  # a Table does not say which objects there are


async def create(author: Author, *names: str) -> int:
    """Creates objects, and returns the revision of the last once a list from the cache would have it."""
    newest = [await author.create(name) for name in names][-1]
    await author.until_cached(newest)
    return newest


async def uids(writer: Writer, author: Author) -> dict[str, str]:
    """Of what is there, by name."""
    items = (await get(writer, author.resource.path(author.namespace)))["items"]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}


def expect_just(inventory: Inventory, there: dict[str, str]) -> None:
    assert inventory.synced
    assert len(inventory) == len(there)
    assert {name for name, uid in there.items() if uid in inventory} == there.keys()


@EVERY_LISTING_STRATEGY
async def test_inventory_is_what_is_there_whatever_is_created_changed_and_deleted(
    client: Client, scribe: Author, writer: Writer, strategy: Strategy
) -> None:
    await create(scribe, "a", "b", "c", "d", "e")
    inventory = Inventory()
    watch = Watch(client, scribe.resource, scribe.namespace, strategy=strategy, page_size=2, inventory=inventory, **HOW)
    async with synced(watch):
        await watch.until_in_stock()
        expect_just(inventory, await uids(writer, scribe))
        await scribe.change("b")
        await scribe.delete("c")
        await create(scribe, "f", "g")
        await scribe.delete("f")
        await scribe.delete("a")
        last = await create(scribe, "a")
        await watch.until_seen(last)
        there = await uids(writer, scribe)
    assert there.keys() == {"a", "b", "d", "e", "g"}
    expect_just(inventory, there)
    assert not watch.said(Unseen)


@EVERY_LISTING_STRATEGY
async def test_inventory_tells_what_a_gap_has_hid(
    client: Client, cluster: Cluster, reporter: Author, writer: Writer, strategy: Strategy
) -> None:
    await create(reporter, "a", "b", "c", "d", "e")
    inventory = Inventory()
    watch = Watch(client, EVENTS, reporter.namespace, strategy=strategy, page_size=2, inventory=inventory, **HOW)
    async with synced(watch):
        await watch.until_in_stock()
        seen = await reporter.change("a")
        await watch.until_seen(seen)
        with watch.closed_meanwhile():
            await reporter.change("a")
            await reporter.change("b")
            await reporter.change("b")
            await reporter.delete("c")
            await create(reporter, "f", "g", "h", "i")
            await reporter.delete("i")  # nobody will ever know
            await reporter.delete("d")
            await create(reporter, "d")  # another one of the same name
            await cluster.compact()
        await watch.until_said(Unseen)
        await watch.until_watching()
        live = await reporter.change("e")
        await watch.until_seen(live)
        there = await uids(writer, reporter)
    assert len(watch.said(Expired)) == len(watch.said(Gap)) == 1
    assert watch.said(Unseen) == [Unseen(changed=2, created=4, deleted=2)]
    assert there.keys() == {"a", "b", "d", "e", "f", "g", "h"}
    expect_just(inventory, there)


async def test_parallel_applies_what_happened_during_its_list_after_it(
    client: Client, scribe: Author, writer: Writer
) -> None:
    await create(scribe, "a", "b", "c", "d", "e")
    inventory = Inventory()
    watch = Interrupted(client, scribe, PARALLEL, inventory=inventory, **HOW)
    async with starting(watch):
        await watch.interruption.wait()
        await scribe.delete("a")  # it was on the first page
        await scribe.delete("e")  # it will be on the last
        await scribe.change("d")
        meanwhile = await create(scribe, "f")
        await watch.until_seen(meanwhile)
        assert not inventory.synced
        watch.go_on.set()
        await watch.until_in_stock()
        there = await uids(writer, scribe)
    assert there.keys() == {"b", "c", "d", "f"}
    expect_just(inventory, there)
    assert [done.items for done in watch.said(ListDone)] == [5]
    assert not watch.said(Unseen)


@PAGED_STRATEGIES
async def test_inventory_does_not_trust_the_rest_of_an_expired_list(
    client: Client, cluster: Cluster, reporter: Author, writer: Writer, strategy: Strategy
) -> None:
    await create(reporter, "a", "b", "c", "d", "e")
    inventory = Inventory()
    watch = Interrupted(client, reporter, strategy, inventory=inventory, **HOW)
    async with starting(watch):
        await watch.interruption.wait()
        await reporter.delete("a")  # of which the rest of the list could not tell
        await create(reporter, "f")
        await cluster.compact()
        watch.go_on.set()
        await watch.until_in_stock()
        await watch.until_watching()
        live = await reporter.change("b")
        await watch.until_seen(live)
        there = await uids(writer, reporter)
    assert there.keys() == {"b", "c", "d", "e", "f"}
    expect_just(inventory, there)
    assert not watch.said(Unseen)
