"""Which guarantee a late event breaks."""

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


def partial(kind: str, revision: int, uid: str) -> str:
    """Return an event as PartialObjectMetadata."""
    return json.dumps({"type": kind, "object": {"metadata": {"resourceVersion": str(revision), "uid": uid}}})


def bookmark(revision: int) -> str:
    return json.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(revision)}}})


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


CASES = {
    "nothing": ([table("ADDED", 101), bookmark(101), table("MODIFIED", 102), bookmark(102)], None),
    "older than an event": ([table("ADDED", 103), table("ADDED", 102)], (Guarantee.ORDERED, 102)),
    "older than an event and a bookmark": (
        [bookmark(105), table("ADDED", 107), table("ADDED", 104)],
        (Guarantee.ORDERED, 104),
    ),
    "twice": ([table("ADDED", 101), table("ADDED", 101)], (Guarantee.UNIQUE, 101)),
    "twice, once before others": (
        [table("ADDED", 101), table("ADDED", 102), table("ADDED", 101)],
        (Guarantee.ORDERED, 101),
    ),
    "twice, by uid": ([partial("DELETED", 101, "u"), partial("DELETED", 101, "u")], (Guarantee.UNIQUE, 101)),
    "at a bookmark": ([table("ADDED", 101), bookmark(102), table("ADDED", 102)], (Guarantee.BOOKMARKABLE, 102)),
    "below a bookmark": ([bookmark(109), table("ADDED", 102)], (Guarantee.BOOKMARKABLE, 102)),
    "of the newest event, below a bookmark": (
        [table("DELETED", 101, "a"), bookmark(103), table("DELETED", 101, "b")],
        (Guarantee.BOOKMARKABLE, 101),
    ),
    "a bookmark that goes back": ([bookmark(105), bookmark(104)], (Guarantee.BOOKMARKABLE, 104)),
    "a bookmark below an event": ([table("ADDED", 105), bookmark(104)], (Guarantee.BOOKMARKABLE, 104)),
    "a bookmark below the start": ([bookmark(99)], (Guarantee.BOOKMARKABLE, 99)),
    "at the start": ([table("ADDED", 100)], (Guarantee.RESUMABLE, 100)),
    "before the start": ([table("ADDED", 42)], (Guarantee.RESUMABLE, 42)),
}


@pytest.mark.parametrize("together", [True, False], ids=["one chunk", "a chunk for each line"])
@pytest.mark.parametrize("case", CASES)
def test_late_event_breaks_its_guarantee(case: str, together: bool) -> None:  # noqa: FBT001
    lines, expected = CASES[case]
    chunks = arrive(lines) if together else arrive(*([line] for line in lines))
    assert violations(chunks) == ([expected] if expected else [])
    assert emitted(chunks) == sorted(set(emitted(chunks)))


@pytest.mark.parametrize("together", [True, False], ids=["one chunk", "a chunk for each line"])
def test_several_objects_deleted_at_one_revision_are_no_violation(together: bool) -> None:  # noqa: FBT001
    """As etcd does with the keys of a lease."""
    deleted = [partial("DELETED", 105, name) for name in "abc"]
    lines = [*deleted, bookmark(105), deleted[0], table("ADDED", 106)]
    chunks = arrive(lines) if together else arrive(*([line] for line in lines))
    assert violations(chunks) == [(Guarantee.UNIQUE, 105)]
    assert emitted(chunks) == [105, 105, 105, 106]


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


def test_violations_of_a_chunk_are_added_up_by_guarantee() -> None:
    (chunk,) = arrive([table("ADDED", 110), *(table("ADDED", revision) for revision in (110, 107, 103, 105))])
    assert [(one.guarantee, one.count, one.oldest, one.newest) for one in chunk.flaws.violations] == [
        (Guarantee.ORDERED, 3, 103, 107),
        (Guarantee.UNIQUE, 1, 110, 110),
    ]


def test_position_keeps_no_event() -> None:
    """A row refers to the bytes of its whole chunk."""
    position = ReceivedPosition()
    (change,) = decode((table("ADDED", 101) + "\n").encode()).events
    assert isinstance(change, Added)
    position.move(101, change)
    assert all(isinstance(one, int | str) for one in position._objects)
