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


def test_first_list_finds_no_unseen_changes() -> None:
    inventory = Inventory()
    assert inventory.nbytes < 100
    assert relist(inventory, {"a": 3, "b": 5}, 10) is None
    assert inventory.synced
    assert len(inventory) == 2
    assert "a" in inventory
    assert "c" not in inventory


def test_delivered_changes_are_not_unseen() -> None:
    inventory = synced(a=3, b=5, c=7)
    deliver(inventory, "MODIFIED", "a", 11)
    deliver(inventory, "DELETED", "b", 12)
    deliver(inventory, "ADDED", "d", 13)
    assert len(inventory) == 3
    assert relist(inventory, {"a": 11, "c": 7, "d": 13}, 20) == NOTHING


def test_undelivered_changes_are_unseen() -> None:
    inventory = synced(a=3, b=5, c=7)
    assert relist(inventory, {"a": 11, "c": 7, "d": 13, "e": 14}, 20) == Unseen(changed=1, created=2, deleted=1)
    assert relist(inventory, {"a": 11, "c": 7, "d": 13, "e": 14}, 21) == NOTHING


def wrong(inventory: Inventory, *events: tuple[str, str, int]) -> tuple[int, ...] | None:
    """Apply events in one batch, and return the revisions of those with a wrong type."""
    kinds, uids, revisions = zip(*events, strict=True)
    return inventory.apply(kinds, uids, revisions)


@pytest.mark.parametrize("merged", [False, True])
def test_type_must_agree_with_the_objects(merged: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    monkeypatch.setattr(module, "FEWEST_CHANGES", 0 if merged else FEWEST_CHANGES)
    inventory = synced(a=3, b=5)
    assert wrong(inventory, ("MODIFIED", "a", 11), ("ADDED", "c", 12), ("DELETED", "b", 13)) == ()
    assert wrong(inventory, ("ADDED", "a", 14)) == (14,)
    assert wrong(inventory, ("MODIFIED", "b", 15), ("MODIFIED", "b", 16)) == (15,)
    assert wrong(inventory, ("DELETED", "c", 17), ("DELETED", "c", 18), ("MODIFIED", "c", 19)) == (18, 19)
    assert wrong(inventory, ("DELETED", "a", 20), ("ADDED", "a", 21)) == ()


def test_event_without_uid_has_no_wrong_type() -> None:
    assert synced(a=3).apply(["ADDED", "MODIFIED", "MODIFIED"], ["a", None, ""], [11, 12, 13]) == (11,)


def test_no_type_is_compared_unless_all_objects_are_known() -> None:
    inventory = Inventory()
    assert wrong(inventory, ("MODIFIED", "a", 5)) is None  # no list yet
    inventory.begin()
    assert wrong(inventory, ("MODIFIED", "b", 6)) is None  # during the list
    show(inventory, {"a": 5, "b": 6})
    inventory.finish(6, delivered=6)
    assert wrong(inventory, ("ADDED", "a", 7)) == (7,)
    inventory.doubt()
    assert wrong(inventory, ("ADDED", "a", 8)) is None  # an event may have been missed
    relist(inventory, {"a": 8, "b": 6}, 8)
    assert wrong(inventory, ("ADDED", "b", 9)) == (9,)
    inventory.begin()
    inventory.doubt()  # a line of a streamed list could not be read
    show(inventory, {"a": 8})
    inventory.finish(9, delivered=9)
    assert wrong(inventory, ("MODIFIED", "b", 10)) is None


def test_no_type_is_wrong_before_the_watch_has_reached_the_list() -> None:
    inventory = Inventory()
    relist(inventory, {"a": 18}, 20)
    assert wrong(inventory, ("ADDED", "a", 18), ("ADDED", "b", 19), ("DELETED", "b", 20), ("ADDED", "b", 21)) == ()
    assert wrong(inventory, ("ADDED", "a", 22)) == (22,)


def test_no_type_is_compared_after_an_abandoned_list() -> None:
    inventory = synced(a=3)
    inventory.begin()
    inventory.abandon()
    assert inventory.synced
    assert wrong(inventory, ("ADDED", "a", 11)) is None


def test_created_and_deleted_object_is_not_kept() -> None:
    inventory = synced(a=3)
    deliver(inventory, "ADDED", "b", 11)
    deliver(inventory, "DELETED", "b", 12)
    assert len(inventory) == 1
    assert relist(inventory, {"a": 3}, 20) == NOTHING


def test_list_may_have_several_pages() -> None:
    inventory = Inventory()
    inventory.begin()
    show(inventory, {"a": 1})
    show(inventory, {})
    show(inventory, {"b": 2})
    inventory.finish(10, delivered=10)
    assert len(inventory) == 2


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


def test_events_are_held_until_the_end_of_a_list() -> None:
    inventory = synced(a=3, b=5, d=7)
    inventory.begin()
    deliver(inventory, "MODIFIED", "a", 11)
    deliver(inventory, "DELETED", "d", 20)
    deliver(inventory, "DELETED", "b", 25)
    deliver(inventory, "ADDED", "c", 26)
    assert inventory.held == 4
    show(inventory, {"a": 11, "b": 5})
    assert inventory.finish(20, delivered=26) == NOTHING
    assert inventory.held == 0
    assert relist(inventory, {"a": 11, "c": 26}, 30) == NOTHING


def test_changes_newer_than_delivered_are_not_unseen() -> None:
    inventory = synced(a=3, b=5)
    inventory.begin()
    show(inventory, {"a": 18, "c": 19})  # the watch has delivered up to 15: the DELETED of b may still come
    assert inventory.finish(20, delivered=15) == NOTHING
    inventory.begin()
    show(inventory, {"a": 18, "c": 19, "d": 15, "e": 19})
    assert inventory.finish(20, delivered=15) == Unseen(changed=0, created=1, deleted=0)


def test_abandoned_list_keeps_known_objects_and_held_events() -> None:
    inventory = synced(a=3, b=5)
    inventory.begin()
    show(inventory, {"z": 1})
    deliver(inventory, "DELETED", "b", 12)
    inventory.abandon()
    assert len(inventory) == 1
    deliver(inventory, "ADDED", "c", 13)
    assert relist(inventory, {"a": 3, "c": 13}, 20) == NOTHING


def test_abandoned_first_list_leaves_nothing() -> None:
    inventory = Inventory()
    inventory.begin()
    show(inventory, {"z": 1})
    deliver(inventory, "ADDED", "b", 12)
    inventory.abandon()
    assert len(inventory) == 0
    assert not inventory.synced


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


def test_forget_makes_the_next_list_the_first_one() -> None:
    inventory = synced(a=3)
    inventory.begin()
    inventory.forget()
    assert len(inventory) == 0
    assert relist(inventory, {"a": 4}, 20) is None


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
