"""What an inventory holds and finds. Objects are letters; told and listed revisions are small numbers."""

from collections.abc import Mapping

import pytest

from watchslo.watch import inventory as module
from watchslo.watch.inventory import CHANGED_SHARE, FEWEST_CHANGES, Inventory
from watchslo.watch.messages import Unseen

NOTHING = Unseen(changed=0, created=0, deleted=0)


class Uid(str):
    """A uid whose hash is known."""

    __slots__ = ()

    def __hash__(self) -> int:
        return int(self)


def show(inventory: Inventory, objects: Mapping[str, int]) -> None:
    inventory.list(list(objects), [str(revision) for revision in objects.values()])


def relist(inventory: Inventory, objects: Mapping[str, int], revision: int) -> Unseen | None:
    inventory.begin()
    show(inventory, objects)
    return inventory.finish(revision, told=revision)


def tell(inventory: Inventory, kind: str, uid: str | None, revision: int) -> None:
    inventory.apply([kind], [uid], [revision])


def synced(**objects: int) -> Inventory:
    inventory = Inventory()
    relist(inventory, objects, 10)
    return inventory


def test_the_first_list_finds_nothing_that_was_unseen() -> None:
    inventory = Inventory()
    assert inventory.nbytes < 100
    assert relist(inventory, {"a": 3, "b": 5}, 10) is None
    assert inventory.synced
    assert len(inventory) == 2
    assert "a" in inventory
    assert "c" not in inventory


def test_what_events_told_is_not_unseen() -> None:
    inventory = synced(a=3, b=5, c=7)
    tell(inventory, "MODIFIED", "a", 11)
    tell(inventory, "DELETED", "b", 12)
    tell(inventory, "ADDED", "d", 13)
    assert len(inventory) == 3
    assert relist(inventory, {"a": 11, "c": 7, "d": 13}, 20) == NOTHING


def test_what_no_event_told_is_unseen() -> None:
    inventory = synced(a=3, b=5, c=7)
    assert relist(inventory, {"a": 11, "c": 7, "d": 13, "e": 14}, 20) == Unseen(changed=1, created=2, deleted=1)
    assert relist(inventory, {"a": 11, "c": 7, "d": 13, "e": 14}, 21) == NOTHING


def test_an_object_that_came_and_went_is_gone() -> None:
    inventory = synced(a=3)
    tell(inventory, "ADDED", "b", 11)
    tell(inventory, "DELETED", "b", 12)
    assert len(inventory) == 1
    assert relist(inventory, {"a": 3}, 20) == NOTHING


def test_lists_come_in_pages() -> None:
    inventory = Inventory()
    inventory.begin()
    show(inventory, {"a": 1})
    show(inventory, {})
    show(inventory, {"b": 2})
    inventory.finish(10, told=10)
    assert len(inventory) == 2


def test_neither_hashes_nor_revisions_are_rounded() -> None:
    inventory = Inventory()
    near, nearer = Uid(2**60), Uid(2**60 + 1)
    inventory.begin()
    show(inventory, {})
    show(inventory, {near: 3, nearer: 5})
    inventory.finish(10, told=10)
    assert len(inventory) == 2
    tell(inventory, "MODIFIED", near, 2**62 + 1)
    assert relist(inventory, {near: 2**62 + 1, nearer: 5}, 2**62 + 2) == NOTHING


def test_columns_are_equally_long() -> None:
    inventory = Inventory()
    with pytest.raises(ValueError, match="zip"):
        inventory.list(["a", "b"], ["1"])
    with pytest.raises(ValueError, match="zip"):
        inventory.apply(["ADDED"], ["a", "b"], [1])


def test_what_has_no_uid_is_not_kept() -> None:
    inventory = Inventory()
    inventory.begin()
    inventory.list([None, "a"], ["1", None])
    inventory.finish(10, told=10)
    inventory.apply(["ADDED", "ADDED"], [None, "b"], [11, 12])
    assert len(inventory) == 2


def test_events_wait_for_the_end_of_a_list() -> None:
    inventory = synced(a=3, b=5, d=7)
    inventory.begin()
    tell(inventory, "MODIFIED", "a", 11)
    tell(inventory, "DELETED", "d", 20)
    tell(inventory, "DELETED", "b", 25)
    tell(inventory, "ADDED", "c", 26)
    assert inventory.held == 4
    show(inventory, {"a": 11, "b": 5})
    assert inventory.finish(20, told=26) == NOTHING
    assert inventory.held == 0
    assert relist(inventory, {"a": 11, "c": 26}, 30) == NOTHING


def test_what_is_still_to_be_told_is_not_unseen() -> None:
    inventory = synced(a=3, b=5)
    inventory.begin()
    show(inventory, {"a": 18, "c": 19})  # the watch has told up to 15: of b's end it may yet tell
    assert inventory.finish(20, told=15) == NOTHING
    inventory.begin()
    show(inventory, {"a": 18, "c": 19, "d": 15, "e": 19})
    assert inventory.finish(20, told=15) == Unseen(changed=0, created=1, deleted=0)


def test_a_list_that_is_abandoned_leaves_what_was_known_and_told() -> None:
    inventory = synced(a=3, b=5)
    inventory.begin()
    show(inventory, {"z": 1})
    tell(inventory, "DELETED", "b", 12)
    inventory.abandon()
    assert len(inventory) == 1
    tell(inventory, "ADDED", "c", 13)
    assert relist(inventory, {"a": 3, "c": 13}, 20) == NOTHING


def test_a_first_list_that_is_abandoned_leaves_nothing() -> None:
    inventory = Inventory()
    inventory.begin()
    show(inventory, {"z": 1})
    tell(inventory, "ADDED", "b", 12)
    inventory.abandon()
    assert len(inventory) == 0
    assert not inventory.synced


def test_too_many_events_cost_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HELD", 2)
    inventory = synced(a=3)
    inventory.begin()
    for revision in (11, 12):
        tell(inventory, "MODIFIED", "a", revision)
    assert inventory.held == 2
    for revision in (13, 14):
        tell(inventory, "MODIFIED", "a", revision)
    assert inventory.held == 0
    assert not inventory.synced
    show(inventory, {"a": 12})
    assert inventory.finish(12, told=14) is None
    assert not inventory.synced
    assert relist(inventory, {"a": 14}, 20) is None
    assert relist(inventory, {"a": 15}, 21) == Unseen(changed=1, created=0, deleted=0)


def test_what_is_forgotten_is_listed_as_for_the_first_time() -> None:
    inventory = synced(a=3)
    inventory.begin()
    inventory.forget()
    assert len(inventory) == 0
    assert relist(inventory, {"a": 4}, 20) is None


def test_changes_are_merged_now_and_then() -> None:
    count = FEWEST_CHANGES * CHANGED_SHARE
    inventory = synced(**{f"uid-{number}": 1 for number in range(count)})
    at_rest = inventory.nbytes
    assert at_rest / count < 17
    for number in range(FEWEST_CHANGES):
        tell(inventory, "MODIFIED", f"uid-{number}", 20 + number)
    assert inventory.nbytes / count < 30
    tell(inventory, "ADDED", "uid-new", 20 + FEWEST_CHANGES)
    assert inventory.nbytes <= at_rest + 16
    assert len(inventory) == count + 1


def test_all_that_it_holds_takes_room() -> None:
    inventory = Inventory()
    nothing = inventory.nbytes
    relist(inventory, {"a": 3, "b": 5}, 10)
    assert inventory.nbytes == nothing + 2 * 16
    tell(inventory, "MODIFIED", "a", 11)
    one = inventory.nbytes
    tell(inventory, "MODIFIED", "b", 12)
    assert one > nothing + 2 * 16 + 72
    assert inventory.nbytes == one + 72
    inventory.begin()
    tell(inventory, "ADDED", "c", 13)
    show(inventory, {"a": 11, "b": 12, "c": 13})
    assert inventory.nbytes == nothing + 2 * 16 + 24 + 3 * 16


def test_an_object_takes_less_than_a_hundred_bytes_while_a_list_ends_and_events_wait() -> None:
    count = 10_000
    uids = [f"uid-{number}" for number in range(count)]
    inventory = Inventory()
    for _ in range(2):
        inventory.begin()
        inventory.list(uids, ["7"] * count)
        inventory.apply(["MODIFIED"] * count, uids, range(8, count + 8))
        assert inventory.nbytes / count < 60
        inventory.finish(7, told=count + 8)
    assert len(inventory) == count
