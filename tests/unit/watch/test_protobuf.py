"""Protobuf becomes the values that the same JSON becomes, and whatever is malformed becomes counted garbage."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.garbled import cut, drop, flip, insert
from tests.support.protobuf import POD, STATUS, error, event, field, pod, pods, status, wrapped
from watchslo.sim.protobuf import frame
from watchslo.watch.decode import Error, Frames, decode, decode_status, parse_revision
from watchslo.watch.lines import LineTooLong
from watchslo.watch.protobuf import MOST_FIELDS, ProtobufFrameReader, decode_protobuf_list, decode_protobuf_status

LONGEST = 4000
CHANGES = ("ADDED", "MODIFIED", "DELETED")
MARK = {"metadata": {"resourceVersion": "480"}}
OTHER = {"metadata": {"resourceVersion": "480", "annotations": {"a": "true"}}}
END = {"metadata": {"resourceVersion": "480", "annotations": {"a": "b", "k8s.io/initial-events-end": "true"}}}
META = 1
FIXED = b"\x79" + b"\x01" * 8 + b"\x7d" + b"\x01" * 4  # field 15 as eight bytes, and as four
VARINT = b"\x78\xff\xff\xff\xff\x0f"  # field 15 as a number
MANY = b"\x62\x00" * (MOST_FIELDS + 1)  # empty annotations


def read(data: bytes) -> Frames | None:
    return ProtobufFrameReader(LONGEST).feed(data)


def as_line(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def one(content: bytes) -> Any:
    """Return the event of a frame with this content, or None if it is garbage."""
    frames = read(frame(content))
    assert frames is not None
    assert frames.garbage == 1 - len(frames.events)
    return frames.events[0] if frames.events else None


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        *((kind, POD) for kind in CHANGES),
        *(("BOOKMARK", mark) for mark in (MARK, OTHER, END)),
        ("ERROR", STATUS),
    ],
)
def test_event_is_the_same_value_as_from_json(kind: str, obj: dict[str, Any]) -> None:
    assert read(error(obj) if kind == "ERROR" else event(kind, obj)) == decode(as_line(kind, obj))


def test_body_of_an_error_is_the_same_value_as_from_json() -> None:
    assert decode_protobuf_status(status(STATUS)) == decode_status(json.dumps(STATUS).encode())


def test_status_without_details_has_none() -> None:
    found = decode_protobuf_status(status({"message": "no", "code": -1}))
    assert found is not None
    assert (found.code, found.message, found.reason) == (-1, "no", None)
    assert (found.retry_after, found.causes) == (None, frozenset())


def test_status_without_any_field_is_empty() -> None:
    found = decode_protobuf_status(b"k8s\0" + field(2, b""))
    assert found is not None
    assert (found.code, found.message, found.continue_token) == (None, None, None)


@pytest.mark.parametrize("body", [b"404 page not found", b"k8s\0"])
def test_body_that_is_no_status_is_none(body: bytes) -> None:
    assert decode_protobuf_status(body) is None


def test_list_has_metadata_and_the_number_of_its_objects() -> None:
    found = decode_protobuf_list(
        pods({"resourceVersion": "42", "continue": "more", "remainingItemCount": 7}, pod(1), pod(2)), with_objects=False
    )
    assert found is not None
    assert (found.revision, found.continue_token, found.remaining, found.items) == ("42", "more", 7, 2)
    assert found.uids == found.revisions == []


def test_list_has_uids_and_revisions_on_request() -> None:
    body = pods({"resourceVersion": "42"}, pod(40, uid="a"), pod(41, uid="b"))
    found = decode_protobuf_list(bytearray(body), with_objects=True)
    assert found is not None
    assert (found.uids, found.revisions) == (["a", "b"], ["40", "41"])
    assert (found.continue_token, found.remaining) == (None, None)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{}", b"k8s\0", b"k8s\0" + field(2, b""), b"k8s\0" + field(2, field(2, b""))),
        b"k8s\0" + field(2, field(1, field(2, b"42")) + b"\x12\x7f"),  # an object that is longer than the list
    ],
)
def test_body_that_is_no_list_is_none(body: bytes) -> None:
    assert decode_protobuf_list(body, with_objects=False) is None


def test_listed_object_without_metadata_is_no_list_with_objects() -> None:
    body = b"k8s\0" + field(2, field(1, field(2, b"42")) + field(2, field(2, b"")))
    assert decode_protobuf_list(body, with_objects=True) is None
    found = decode_protobuf_list(body, with_objects=False)
    assert found is not None
    assert (found.revision, found.items) == ("42", 1)


def test_fields_of_all_kinds_are_skipped() -> None:
    metadata = FIXED + VARINT + field(5, b"a") + field(15, b"x" * 40) + field(6, b"7")
    changed = one(wrapped("MODIFIED", FIXED + VARINT + field(META, field(5, b"a") + field(6, b"7"))))
    assert (changed.object.metadata.uid, changed.object.metadata.resource_version) == ("a", "7")
    after_a_larger_number = one(wrapped("MODIFIED", field(META, metadata)))
    assert after_a_larger_number.object.metadata.resource_version is None  # Go writes fields in order
    marked = one(wrapped("BOOKMARK", field(META, field(6, b"7") + VARINT + field(12, VARINT + field(1, b"a")))))
    assert marked.object.metadata.resource_version == "7"


def test_of_a_field_that_comes_twice_the_first_one_counts() -> None:
    changed = one(wrapped("MODIFIED", field(META, field(6, b"7") + field(6, b"8"))))
    assert changed.object.metadata.resource_version == "7"


def test_field_of_another_kind_is_not_taken_for_it() -> None:
    changed = one(wrapped("MODIFIED", field(META, b"\x30\x37" + b"\x40\x05")))  # a number in place of text and Time
    assert (changed.object.metadata.resource_version, changed.object.metadata.creation_timestamp) == (None, None)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (b"", None),
        (b"\x10\x05", None),
        (b"\x08\x00", "1970-01-01T00:00:00Z"),
        (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "1969-12-31T23:59:59Z"),
        (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", None),
        (b"\x08\x01" + field(15, b"x" * 40), None),
    ],
)
def test_creation_time_is_written_as_in_json(time: bytes, expected: str | None) -> None:
    changed = one(wrapped("ADDED", field(META, field(6, b"7") + field(8, time))))
    assert changed.object.metadata.creation_timestamp == expected


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"{}",
        event("MODIFIED", POD)[4:-1],
        event("RENAMED", POD)[4:],
        field(1, b"ADDED"),
        field(2, field(1, b"k8s\0")),
        field(1, b"ADDED") + field(2, b""),
        field(1, b"ADDED") + field(2, field(1, b"json" + field(2, field(1, field(6, b"7"))))),
        field(1, b"ADDED") + field(2, field(1, b"k8s\0" + field(2, field(3, b"")))),
        wrapped("ADDED", field(META, field(6, b"\xff\xfe"))),
        wrapped("ADDED", field(META, b"\x32\x7f7")),
        wrapped("ADDED", field(META, b"\x33\x01")),
        wrapped("ADDED", field(META, b"\x30" + b"\xff" * 11)),
        wrapped("BOOKMARK", field(META, field(6, b"7") + b"\x62\x7f")),
        wrapped("BOOKMARK", field(META, field(6, b"7") + field(12, b"\x0a\x09"))),
        wrapped("ERROR", field(5, b"\x22\x09")),
        wrapped("BOOKMARK", field(META, field(6, b"7") + MANY)),
        wrapped("BOOKMARK", MANY + field(META, field(6, b"7"))),
        wrapped("ADDED", field(META, b"\x0a\x00" * (MOST_FIELDS + 1) + field(6, b"7"))),
        wrapped("ERROR", field(5, b"\x22\x00" * (MOST_FIELDS + 1)) + field(6, b"")),
    ],
    ids=range(21),
)
def test_malformed_frame_is_garbage_and_the_others_are_events(content: bytes) -> None:
    """So is one of too many fields: Python needs a microsecond for each, eight seconds for 4 MB of them."""
    frames = read(event("ADDED", pod(1)) + frame(content) + event("ADDED", pod(2)))
    assert frames is not None
    assert [changed.object.metadata.resource_version for changed in frames.events] == ["1", "2"]  # type: ignore[union-attr]
    assert frames.garbage == 1


@given(sizes=st.lists(st.integers(1, 700), min_size=1, max_size=20))
def test_chunks_of_any_size_bring_the_same_frames(sizes: list[int]) -> None:
    data = b"".join(event(kind, pod(revision)) for revision, kind in enumerate(CHANGES)) + frame(b"x")
    reader = ProtobufFrameReader(LONGEST)
    events = []
    garbage = at = turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        chunk = data[at : at + size]
        at, turn = at + len(chunk), turn + 1
        whole = reader.feed(chunk)
        if whole is not None:
            assert whole.events or whole.garbage
            events += whole.events
            garbage += whole.garbage
        assert reader.is_cut == (at not in _ends(data))
    assert events == [found for kind in enumerate(CHANGES) for found in decode(as_line(kind[1], pod(kind[0]))).events]
    assert garbage == 1


def _ends(data: bytes) -> set[int]:
    ends, at = {0}, 0
    while at < len(data):
        at += 4 + int.from_bytes(data[at : at + 4])
        ends.add(at)
    return ends


def test_frame_that_is_too_long_raises_as_soon_as_its_length_is_known() -> None:
    reader = ProtobufFrameReader(LONGEST)
    assert reader.feed(frame(b"x" * LONGEST)) == Frames([], 1)
    assert reader.feed(b"\0\0") is None
    with pytest.raises(LineTooLong):
        reader.feed((LONGEST + 1).to_bytes(4)[2:])
    assert not reader.is_cut


def test_list_may_have_any_number_of_objects() -> None:
    many = pods({"resourceVersion": "42"}, *[pod(1)] * (MOST_FIELDS + 1))
    found = decode_protobuf_list(many, with_objects=True)
    assert found is not None
    assert found.items == MOST_FIELDS + 1


MUTATIONS = st.lists(st.sampled_from([flip, cut, drop, insert]), min_size=1, max_size=3)
CONTENTS = st.sampled_from([event("MODIFIED", pod(7))[4:], event("BOOKMARK", END)[4:], error(STATUS)[4:]])


@given(data=st.data(), content=CONTENTS, mutations=MUTATIONS)
def test_garbled_frame_is_an_event_or_garbage(data: st.DataObject, content: bytes, mutations: list[Any]) -> None:
    for mutate in mutations:
        content = data.draw(st.composite(lambda draw, how=mutate, body=content: how(draw, body))())
    frames = ProtobufFrameReader().feed(event("ADDED", pod(1)) + frame(content) + event("ADDED", pod(2)))
    assert frames is not None
    assert len(frames.events) + frames.garbage == 3
    first, *between, last = frames.events
    assert [parse_revision(known.object.metadata.resource_version) for known in (first, last)] == [1, 2]  # type: ignore[union-attr]
    for found in between:
        if isinstance(found, Error):
            assert found.object.causes is not None
        else:
            revision = parse_revision(found.object.metadata.resource_version)
            assert revision is None or revision >= 0


@given(data=st.data(), mutations=MUTATIONS)
def test_garbled_list_and_status_are_values_or_none(data: st.DataObject, mutations: list[Any]) -> None:
    listed, refused = pods({"resourceVersion": "42"}, pod(40), pod(41)), status(STATUS)
    for mutate in mutations:
        listed, refused = (
            data.draw(st.composite(lambda draw, how=mutate, whole=body: how(draw, whole))())
            for body in (listed, refused)
        )
    for with_objects in (False, True):
        found = decode_protobuf_list(listed, with_objects=with_objects)
        assert found is None or len(found.uids) == len(found.revisions) == (found.items if with_objects else 0)
    known = decode_protobuf_status(refused)
    assert known is None or known.code is None or isinstance(known.code, int)
