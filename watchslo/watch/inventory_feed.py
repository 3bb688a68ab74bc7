"""What an inventory learns of lists and events, and what it finds: hidden changes, and events of a wrong type."""

from collections.abc import Iterator, Sequence

from watchslo.snapshot import Guarantee
from watchslo.watch.decode import Bookmark, Error, Frame, parse_revision
from watchslo.watch.flaws import Flaws
from watchslo.watch.inventory import Inventory
from watchslo.watch.messages import Batch, ListedObjects, TypesChecked, Unseen, Violated


class InventoryFeed:
    """Feeds the inventory of one watch. Without an inventory, nothing is done and nothing is found."""

    def __init__(self, inventory: Inventory | None) -> None:
        self._inventory = inventory

    def begin(self) -> None:
        """Begin a list of all objects."""
        if self._inventory is not None:
            self._inventory.begin()

    def list(self, objects: ListedObjects | None) -> None:
        """Add the objects of one page."""
        if self._inventory is not None and objects is not None:
            self._inventory.list(objects.uids, objects.revisions)

    def finish(self, until: int, delivered: int | None) -> Iterator[Unseen]:
        """End a list of everything that existed at `until`, and yield what a gap hid."""
        if self._inventory is None:
            return
        assert delivered is not None  # a list that is complete has a revision
        unseen = self._inventory.finish(until, delivered)
        if unseen is not None:
            yield unseen

    @property
    def needs_list(self) -> bool:
        """Return True if the inventory could not hold all events during the last list."""
        return self._inventory is not None and not self._inventory.synced

    def abandon(self) -> None:
        """Give up the list that has begun."""
        if self._inventory is not None:
            self._inventory.abandon()

    def forget(self) -> None:
        """Forget all objects."""
        if self._inventory is not None:
            self._inventory.forget()

    def doubt(self, flaws: Flaws) -> None:
        """Compare no types once a line could not be read: it may have been an event."""
        if self._inventory is not None and (flaws.unparsable or flaws.garbage):
            self._inventory.doubt()

    def deliver(self, batch: Batch, events: Sequence[Frame], flaws: Flaws) -> Iterator[TypesChecked | Violated]:
        """Add a batch, and yield how many types were compared and which are wrong.

        The batch holds those of `events` that are live and have no flaw.
        """
        if self._inventory is None:
            return
        wrong = _apply(self._inventory, batch, [event for event in events if not flaws.has(event)])
        if wrong is not None:
            yield TypesChecked(len(batch.revisions))
        if wrong:
            yield Violated(Guarantee.TYPED, len(wrong), wrong[0], wrong[-1])


def _apply(inventory: Inventory, batch: Batch, events: Sequence[Frame]) -> Sequence[int] | None:
    """Pass the live events to the inventory with their uids: the batch holds those of `events` that were in order.

    Return the revisions of those whose type is wrong, or None if that is not known.
    """
    uids: list[str | None] = []
    for event in events:
        if isinstance(event, Error):
            break
        metadata = event.object.metadata
        is_live = not isinstance(event, Bookmark) and len(uids) < len(batch.revisions)
        if is_live and parse_revision(metadata.resource_version) == batch.revisions[len(uids)]:
            uids.append(metadata.uid)
    return inventory.apply(batch.types, uids, batch.revisions)
