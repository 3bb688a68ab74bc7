"""The inventory agrees with the objects that exist, and with the writes inside a gap."""

from typing import Any

import pytest

from tests.contract.cluster import EVENTS, Author, Cluster
from tests.contract.judge import get
from tests.contract.watch import Watch, synced
from tests.support.writer import Writer
from watchslo.kube.client import Client
from watchslo.kube.representation import Representation
from watchslo.watch.inventory import Inventory
from watchslo.watch.messages import Expired, Gap, Unseen
from watchslo.watch.strategy import PAGED, PARALLEL, STRATEGIES, TAIL, Strategy

LISTING = [strategy for strategy in STRATEGIES.values() if strategy is not TAIL]
EVERY_LISTING_STRATEGY = pytest.mark.parametrize("strategy", LISTING, ids=lambda strategy: strategy.name)
PAGED_STRATEGIES = pytest.mark.parametrize("strategy", [PAGED, PARALLEL], ids=lambda strategy: strategy.name)
HOW: dict[str, Any] = {"representation": Representation.METADATA}  # a Table does not identify its objects


async def create(author: Author, *names: str) -> int:
    """Create objects, and return the revision of the last one when the watch cache has reached it."""
    newest = [await author.create(name) for name in names][-1]
    await author.until_cached(newest)
    return newest


async def uids(writer: Writer, author: Author) -> dict[str, str]:
    """Return the UIDs of all objects by name."""
    items = (await get(writer, author.resource.path(author.namespace)))["items"]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}


def expect_exactly(inventory: Inventory, existing: dict[str, str]) -> None:
    assert inventory.synced
    assert len(inventory) == len(existing)
    assert {name for name, uid in existing.items() if uid in inventory} == existing.keys()


@EVERY_LISTING_STRATEGY
async def test_inventory_agrees_with_a_list_after_creations_changes_and_deletions(
    client: Client, any_author: Author, writer: Writer, strategy: Strategy
) -> None:
    await create(any_author, "a", "b", "c", "d", "e")
    inventory = Inventory()
    watch = Watch(
        client, any_author.resource, any_author.namespace, strategy=strategy, page_size=2, inventory=inventory, **HOW
    )
    async with synced(watch):
        await watch.until_in_stock()
        expect_exactly(inventory, await uids(writer, any_author))
        await any_author.change("b")
        await any_author.delete("c")
        await create(any_author, "f", "g")
        await any_author.delete("f")
        await any_author.delete("a")
        last = await create(any_author, "a")
        await watch.until_seen(last)
        existing = await uids(writer, any_author)
    assert existing.keys() == {"a", "b", "d", "e", "g"}
    expect_exactly(inventory, existing)
    assert not watch.said(Unseen)


@EVERY_LISTING_STRATEGY
async def test_inventory_counts_the_changes_inside_a_gap(
    client: Client, cluster: Cluster, event_author: Author, writer: Writer, strategy: Strategy
) -> None:
    await create(event_author, "a", "b", "c", "d", "e")
    inventory = Inventory()
    watch = Watch(client, EVENTS, event_author.namespace, strategy=strategy, page_size=2, inventory=inventory, **HOW)
    async with synced(watch):
        await watch.until_in_stock()
        seen = await event_author.change("a")
        await watch.until_seen(seen)
        with watch.while_closed():
            await event_author.change("a")
            await event_author.change("b")
            await event_author.change("b")
            await event_author.delete("c")
            await create(event_author, "f", "g", "h", "i")
            await event_author.delete("i")  # neither event is visible after the gap
            await event_author.delete("d")
            await create(event_author, "d")  # another object of the same name
            await cluster.compact()
        await watch.until_said(Unseen)
        await watch.until_watching()
        live = await event_author.change("e")
        await watch.until_seen(live)
        existing = await uids(writer, event_author)
    assert len(watch.said(Expired)) == len(watch.said(Gap)) == 1
    assert watch.said(Unseen) == [Unseen(changed=2, created=4, deleted=2)]
    assert existing.keys() == {"a", "b", "d", "e", "f", "g", "h"}
    expect_exactly(inventory, existing)
