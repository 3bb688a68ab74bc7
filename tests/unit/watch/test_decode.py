import re

import pytest

from tests.unit.watch.protocol import change
from watchslo.watch.decode import (
    Added,
    ApiStatus,
    Bookmark,
    Deleted,
    Error,
    FrameReader,
    Frames,
    Mark,
    MarkMetadata,
    Modified,
    TableRow,
    decode,
    decode_status,
    parse_revision,
)
from watchslo.watch.guarantees import ReceivedPosition

# Lines of kube-apiserver 1.36.3, with long texts cut.
TABLE = (
    b'{"type":"MODIFIED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"475"},'
    b'"columnDefinitions":[{"name":"Name","type":"string","format":"name","description":"Unique","priority":0}],'
    b'"rows":[{"cells":["web-7d4b9c5f6-x2k41","0/1","Terminating","0","25s","\\u003cnone\\u003e"],"object":null}]}}\n'
    b'{"type":"DELETED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"476"},'
    b'"columnDefinitions":null,"rows":[{"cells":["web-7d4b9c5f6-x2k41","0/1","Terminating"],"object":null}]}}\n'
    b'{"type":"BOOKMARK","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"479"},'
    b'"columnDefinitions":null,"rows":[{"cells":["","0/0","","0","\\u003cunknown\\u003e"],"object":null}]}}\n'
)
METADATA = (
    b'{"type":"ADDED","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"web",'
    b'"namespace":"default","uid":"63a3b155-9975-4cd8-9256-1e84cb35c321","resourceVersion":"475","generation":2,'
    b'"creationTimestamp":"2026-11-21T11:58:25Z","labels":{"app":"web"},"managedFields":[{"manager":"curl"}]}}}\n'
    b'{"type":"BOOKMARK","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{'
    b'"resourceVersion":"480","creationTimestamp":null}}}\n'
)
EXPIRED = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"too old resource version: 1 (395)","reason":"Expired","code":410}}\n'
)
TOO_LARGE = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"Timeout: Too large resource version: 99999, current: 459","reason":"Timeout","details":{"causes":['
    b'{"reason":"ResourceVersionTooLarge","message":"Too large resource version"},{"message":"?"}],'
    b'"retryAfterSeconds":1},"code":504}'
)


def test_decode_tables() -> None:
    modified, deleted = re.findall(rb'"rows":(.*)}}', TABLE)[:2]
    events = [
        change(Modified, "475", rows=modified),
        change(Deleted, "476", rows=deleted),
        Bookmark(object=Mark(metadata=MarkMetadata("479"), rows=[TableRow()])),
    ]
    assert decode(TABLE) == Frames(events)
    assert [event.type for event in events] == ["MODIFIED", "DELETED", "BOOKMARK"]


def test_decode_metadata() -> None:
    events = [
        change(Added, "475", "2026-11-21T11:58:25Z", "63a3b155-9975-4cd8-9256-1e84cb35c321"),
        Bookmark(object=Mark(metadata=MarkMetadata("480"))),
    ]
    assert decode(METADATA) == Frames(events)
    assert events[0].type == "ADDED"


# Bookmarks of kube-apiserver 1.36.3 that end a streamed list: plain, as metadata, and as a Table without objects.
ANNOTATED = b'"metadata":{"resourceVersion":"207","annotations":{"k8s.io/initial-events-end":"true"}}'
ENDS = [
    b'{"kind":"ConfigMap","apiVersion":"v1",' + ANNOTATED + b"}",
    b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",' + ANNOTATED + b"}",
    b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"207"},"columnDefinitions":null,'
    b'"rows":[{"cells":["",0,"\\u003cunknown\\u003e"],"object":{"kind":"PartialObjectMetadata",' + ANNOTATED + b"}}]}",
]


@pytest.mark.parametrize("end", ENDS)
def test_annotated_bookmark_ends_a_streamed_list(end: bytes) -> None:
    [mark] = decode(b'{"type":"BOOKMARK","object":' + end + b"}\n").events
    assert isinstance(mark, Bookmark)
    assert mark.ends_list
    assert mark.object.metadata.resource_version == "207"


def test_other_bookmarks_do_not_end_a_list() -> None:
    other = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"a":"b"}}}}'
    marks = [event for event in decode(TABLE + METADATA + other).events if isinstance(event, Bookmark)]
    assert [mark.ends_list for mark in marks] == [False, False, False]


def test_error_contains_its_status() -> None:
    [error] = decode(EXPIRED).events
    assert isinstance(error, Error)
    assert error.type == "ERROR"
    assert (error.object.code, error.object.reason) == (410, "Expired")
    assert error.object.message == "too old resource version: 1 (395)"
    assert error.object.causes == frozenset()
    assert error.object.retry_after is None


@pytest.mark.parametrize(
    ("line", "revision"),
    [
        (b'{"type":"ADDED","object":{"reason":7,"code":"no","details":[],"metadata":{"resourceVersion":"9"}}}', "9"),
        (b'{"object":{"metadata":{"resourceVersion":"7"}},"type":"ADDED"}', "7"),
        (b'{"type":"ADDED","object":{"metadata":{}}}', None),
    ],
    ids=["with fields of a status", "type after the object", "without a revision"],
)
def test_unusual_event_is_decoded(line: bytes, revision: str | None) -> None:
    assert decode(line + b"\n") == Frames([change(Added, revision)])


@pytest.mark.parametrize("block", [b"", b"\n", b"\n \r\n\n"])
def test_empty_lines_are_skipped(block: bytes) -> None:
    assert decode(block) == Frames([], garbage=0)


@pytest.mark.parametrize(
    "line",
    [
        b"<html><body>Please log in</body></html>",
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"7"',
        b'{"type":"RENAMED","object":{"metadata":{"resourceVersion":"7"}}}',
        b'{"object":{"metadata":{"resourceVersion":"7"}}}',
        b'{"type":"ADDED"}',
        b'{"type":"ADDED","object":{}}',
        b'{"type":"ADDED","object":null}',
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":7}}}',
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"\xff"}}}',
        b'{"type":"ADDED","object":{"deep":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b'{"type":"ERROR","object":"gone"}',
        b'"ADDED"',
        b"[" * 100_000,
        b"\xff\xfe\x00",
    ],
)
def test_bad_line_does_not_affect_other_lines(line: bytes) -> None:
    before = b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"7"}}}\n\n'
    after = b'{"type":"DELETED","object":{"metadata":{"resourceVersion":"8"}}}\n'
    assert decode(before + line + b"\n" + after) == Frames([change(Added, "7"), change(Deleted, "8")], garbage=1)


@pytest.mark.parametrize(
    ("body", "code", "causes", "retry_after"),
    [
        (TOO_LARGE, 504, {"ResourceVersionTooLarge"}, 1),
        *(
            (b'{"code":500,"reason":"Timeout","details":%b}' % details, 500, set(), None)
            for details in (b"null", b"{}", b'{"causes":null}', b'{"causes":[]}')
        ),
        (
            b'{"code":504,"reason":"Timeout","details":{"causes":[7,{"reason":7},{"reason":"Too"}]}}',
            504,
            {"Too"},
            None,
        ),
    ],
)
def test_decode_status_reads_the_body_of_an_http_error(
    body: bytes, code: int, causes: set[str], retry_after: int | None
) -> None:
    status = decode_status(body)
    assert status is not None
    assert (status.code, status.reason, {*status.causes}, status.retry_after) == (code, "Timeout", causes, retry_after)


@pytest.mark.parametrize("body", [b"404 page not found\n", b"", b"[]", b'{"code":"many"}', b'{"x":' + b"[" * 100_000])
def test_decode_status_of_another_body_is_none(body: bytes) -> None:
    assert decode_status(body) is None


def test_decode_status_of_other_json_is_an_empty_status() -> None:
    assert decode_status(b'{"error":"bad gateway"}') == ApiStatus()


@pytest.mark.parametrize(
    ("text", "revision"),
    [
        ("42", 42),
        ("007", 7),
        ("4611686018427387903", 2**62 - 1),
        *((odd, None) for odd in ("0", "", None, "-1", "+1", "1.0", "1e3", "1_000", " 1", "٣", "²", "abc")),
        *((str(large), None) for large in (2**62, 2**63 - 1, 2**63, 10**19)),
        ("1" * 10_000, None),
    ],
)
def test_parse_revision_accepts_only_numbers_that_a_storage_can_have(text: str | None, revision: int | None) -> None:
    assert parse_revision(text) == revision


def test_reader_decodes_the_lines_that_a_chunk_completes() -> None:
    reader = FrameReader()
    assert reader.feed(TABLE[:10]) is None
    assert reader.is_cut
    assert reader.feed(TABLE[10:]) == decode(TABLE)
    assert not reader.is_cut


def test_position_keeps_no_event() -> None:
    """A row refers to the bytes of its whole chunk."""
    position = ReceivedPosition()
    changed, *_ = decode(TABLE).events
    assert isinstance(changed, Modified)
    position.move(475, changed)
    assert all(isinstance(one, int | str) for one in position._objects)
