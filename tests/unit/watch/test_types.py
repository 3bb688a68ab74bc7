"""The types of events are compared with the objects of an inventory: what the machine notes."""

import pytest

from tests.unit.watch.test_machine import Run, bookmark, change, emitted, facts
from watchslo.snapshot import Guarantee
from watchslo.watch.decode import Added, Deleted, Modified
from watchslo.watch.inventory import Inventory
from watchslo.watch.messages import Begin, Garbage, Listed, ListedObjects, Opened, Output, Sent, TypesChecked, Violated
from watchslo.watch.strategy import PAGED, STREAM


def watching_the_objects(*uids: str) -> Run:
    """A watch with an inventory of objects that were listed at revision 100."""
    run = Run(PAGED)
    run.machine.inventory = Inventory()
    run.feed(Begin())
    objects = ListedObjects(uids, ["7"] * len(uids))
    run.feed(Listed(run.op, 100, items=len(uids), size=200, objects=objects))
    run.feed(Sent(run.op))
    run.feed(Opened(run.op))
    return run


def violations(outputs: list[Output]) -> list[object]:
    return [fact for fact in facts(outputs) if isinstance(fact, Violated)]


def test_events_of_the_right_type_are_counted_as_checked() -> None:
    run = watching_the_objects("a", "b")
    brought = run.bring(change(Modified, 101, uid="a"), change(Added, 102, uid="c"), change(Deleted, 103, uid="b"))
    assert facts(brought) == [TypesChecked(3)]


def test_events_of_a_wrong_type_violate_a_guarantee_and_are_emitted() -> None:
    run = watching_the_objects("a")
    brought = run.bring(change(Added, 101, uid="a"), change(Modified, 102, uid="a"), change(Deleted, 104, uid="b"))
    assert emitted(brought) == [101, 102, 104]
    assert facts(brought) == [TypesChecked(3), Violated(Guarantee.TYPED, 2, 101, 104)]


def test_event_that_comes_twice_is_compared_once() -> None:
    run = watching_the_objects("a")
    brought = run.bring(change(Deleted, 101, uid="a"), change(Deleted, 101, uid="a"))
    assert violations(brought) == [Violated(Guarantee.UNIQUE, 1, 101, 101)]


@pytest.mark.parametrize("revision", [101, "none"])
def test_after_an_unreadable_line_no_type_is_compared(revision: object) -> None:
    run = watching_the_objects("a")
    run.bring(change(Added, revision, uid="c"), garbage=revision == 101)
    assert facts(run.bring(change(Modified, 102, uid="d"))) == []


def test_unreadable_line_of_the_same_chunk_may_have_been_the_missing_event() -> None:
    run = watching_the_objects("a")
    assert facts(run.bring(change(Modified, 102, uid="d"), garbage=1)) == [Garbage(1)]


def test_watch_without_an_inventory_checks_no_type() -> None:
    run = watching_the_objects("a")
    run.machine.inventory = None
    assert facts(run.bring(change(Added, 101, uid="a"))) == []


def streaming_the_objects() -> Run:
    """A watch with an inventory whose streamed list begins."""
    run = Run(STREAM)
    run.machine.inventory = Inventory()
    run.feed(Begin())
    run.feed(Sent(run.op))
    run.feed(Opened(run.op))
    return run


def test_types_are_compared_with_a_streamed_list() -> None:
    run = streaming_the_objects()
    run.bring(change(Added, 7, uid="a"), change(Added, 9, uid="b"), bookmark(100, end="true"))
    brought = run.bring(change(Added, 101, uid="b"), change(Modified, 102, uid="a"))
    assert facts(brought) == [TypesChecked(2), Violated(Guarantee.TYPED, 1, 101, 101)]


def test_streamed_list_with_an_unreadable_line_is_not_compared_with() -> None:
    run = streaming_the_objects()
    run.bring(change(Added, 7, uid="a"), garbage=1)
    run.bring(bookmark(100, end="true"))
    assert facts(run.bring(change(Modified, 101, uid="b"))) == []
