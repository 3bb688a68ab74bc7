"""Which guarantee a late event of a Table breaks; `tests/golden/machine/guarantees.txt` has events with a uid."""

import json
from collections.abc import Sequence

import pytest

from watchslo.snapshot import Guarantee
from watchslo.watch.decode import Added, decode
from watchslo.watch.guarantees import ReceivedPosition
from watchslo.watch.live_events import LiveChunk, sort_live

START = 100


def table(kind: str, revision: int, name: str = "a") -> str:
    """Return an event as a Table without objects has it: the cells of one row say what is known of the object."""
    metadata = {"resourceVersion": str(revision)}
    return json.dumps(
        {"type": kind, "object": {"kind": "Table", "metadata": metadata, "rows": [{"cells": [name, "5s"]}]}}
    )


def arrive(*chunks: Sequence[str]) -> list[LiveChunk]:
    """Return what chunks of lines bring to a watch from START."""
    position, newest, brought = ReceivedPosition(), START, []
    for lines in chunks:
        brought.append(sort_live(decode("\n".join((*lines, "")).encode()), 0.0, newest, position))
        newest = brought[-1].newest
    return brought


def violations(chunks: Sequence[LiveChunk]) -> list[tuple[Guarantee, int]]:
    return [(one.guarantee, one.oldest) for chunk in chunks for one in chunk.flaws.violations]


def emitted(chunks: Sequence[LiveChunk]) -> list[int]:
    return [revision for chunk in chunks for revision in chunk.batch.revisions]


def test_row_that_comes_twice_is_the_same_event() -> None:
    chunks = arrive([table("ADDED", 101)], [table("ADDED", 101), table("ADDED", 101, "b")])
    assert violations(chunks) == [(Guarantee.UNIQUE, 101)]
    assert emitted(chunks) == [101, 101]


def test_equal_rows_of_deleted_objects_are_those_of_several_namespaces() -> None:
    chunks = arrive([table("DELETED", 105), table("DELETED", 105)])
    assert violations(chunks) == []
    assert emitted(chunks) == [105, 105]


@pytest.mark.parametrize("rows", ["[]", "null"])
def test_table_without_rows_identifies_nothing(rows: str) -> None:
    empty = '{"type":"ADDED","object":{"metadata":{"resourceVersion":"105"},"rows":%s}}' % rows  # noqa: UP031 - braces
    assert violations(arrive([empty, empty])) == []


def test_object_without_an_identity_is_another_one() -> None:
    nameless = '{"type":"DELETED","object":{"metadata":{"resourceVersion":"105"}}}'
    chunks = arrive([nameless, nameless])
    assert violations(chunks) == []
    assert emitted(chunks) == [105, 105]


def test_position_keeps_no_event() -> None:
    """A row refers to the bytes of its whole chunk."""
    position = ReceivedPosition()
    (change,) = decode((table("ADDED", 101) + "\n").encode()).events
    assert isinstance(change, Added)
    position.move(101, change)
    assert all(isinstance(one, int | str) for one in position._objects)
