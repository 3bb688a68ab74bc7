"""The content and the findings of an inventory. Objects are letters; revisions are small numbers."""

from collections.abc import Mapping

import pytest

from watchslo.watch import inventory as module
from watchslo.watch.inventory import CHANGED_SHARE, FEWEST_CHANGES, Inventory
from watchslo.watch.messages import Unseen

NOTHING = Unseen(changed=0, created=0, deleted=0)


class Uid(str):
    """A uid with a fixed hash."""

    __slots__ = ()

    def __hash__(self) -> int:
        return int(self)


def show(inventory: Inventory, objects: Mapping[str, int]) -> None:
    inventory.list(list(objects), [str(revision) for revision in objects.values()])


def relist(inventory: Inventory, objects: Mapping[str, int], revision: int) -> Unseen | None:
    inventory.begin()
    show(inventory, objects)
    return inventory.finish(revision, delivered=revision)


def deliver(inventory: Inventory, kind: str, uid: str | None, revision: int) -> None:
    inventory.apply([kind], [uid], [revision])


def synced(**objects: int) -> Inventory:
    inventory = Inventory()
    relist(inventory, objects, 10)
    return inventory


def test_event_without_uid_has_no_wrong_type() -> None:
    assert synced(a=3).apply(["ADDED", "MODIFIED", "MODIFIED"], ["a", None, ""], [11, 12, 13]) == (11,)


def test_hashes_and_revisions_are_not_rounded() -> None:
    inventory = Inventory()
    near, nearer = Uid(2**60), Uid(2**60 + 1)
    inventory.begin()
    show(inventory, {})
    show(inventory, {near: 3, nearer: 5})
    inventory.finish(10, delivered=10)
    assert len(inventory) == 2
    deliver(inventory, "MODIFIED", near, 2**61 + 1)
    assert relist(inventory, {near: 2**61 + 1, nearer: 5}, 2**61 + 2) == NOTHING


def test_columns_of_different_lengths_are_refused() -> None:
    inventory = Inventory()
    with pytest.raises(ValueError, match="zip"):
        inventory.list(["a", "b"], ["1"])
    with pytest.raises(ValueError, match="zip"):
        inventory.apply(["ADDED"], ["a", "b"], [1])


def test_objects_without_uid_are_not_kept() -> None:
    inventory = Inventory()
    inventory.begin()
    inventory.list([None, "a"], ["1", None])
    inventory.finish(10, delivered=10)
    inventory.apply(["ADDED", "ADDED"], [None, "b"], [11, 12])
    assert len(inventory) == 2
    assert "a" in inventory
    assert "c" not in inventory


def test_too_many_held_events_drop_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HELD", 2)
    inventory = synced(a=3)
    inventory.begin()
    for revision in (11, 12):
        deliver(inventory, "MODIFIED", "a", revision)
    assert inventory.held == 2
    for revision in (13, 14):
        deliver(inventory, "MODIFIED", "a", revision)
    assert inventory.held == 0
    assert not inventory.synced
    show(inventory, {"a": 12})
    assert inventory.finish(12, delivered=14) is None
    assert not inventory.synced
    assert relist(inventory, {"a": 14}, 20) is None
    assert relist(inventory, {"a": 15}, 21) == Unseen(changed=1, created=0, deleted=0)


def test_changes_are_merged_after_a_limit() -> None:
    count = FEWEST_CHANGES * CHANGED_SHARE
    inventory = synced(**{f"uid-{number}": 1 for number in range(count)})
    at_rest = inventory.nbytes
    assert at_rest / count < 17
    for number in range(FEWEST_CHANGES):
        deliver(inventory, "MODIFIED", f"uid-{number}", 20 + number)
    assert inventory.nbytes / count < 30
    deliver(inventory, "ADDED", "uid-new", 20 + FEWEST_CHANGES)
    assert inventory.nbytes <= at_rest + 16
    assert len(inventory) == count + 1


def test_nbytes_counts_objects_changes_lists_and_held_events() -> None:
    inventory = Inventory()
    nothing = inventory.nbytes
    relist(inventory, {"a": 3, "b": 5}, 10)
    assert inventory.nbytes == nothing + 2 * 16
    deliver(inventory, "MODIFIED", "a", 11)
    one = inventory.nbytes
    deliver(inventory, "MODIFIED", "b", 12)
    assert one > nothing + 2 * 16 + 72
    assert inventory.nbytes == one + 72
    inventory.begin()
    deliver(inventory, "ADDED", "c", 13)
    show(inventory, {"a": 11, "b": 12, "c": 13})
    assert inventory.nbytes == nothing + 2 * 16 + 24 + 3 * 16


def test_nbytes_per_object_stays_small_while_a_list_ends() -> None:
    count = 10_000
    uids = [f"uid-{number}" for number in range(count)]
    inventory = Inventory()
    for _ in range(2):
        inventory.begin()
        inventory.list(uids, ["7"] * count)
        inventory.apply(["MODIFIED"] * count, uids, range(8, count + 8))
        assert inventory.nbytes / count < 60
        inventory.finish(7, delivered=count + 8)
    assert len(inventory) == count
