"""The editor of watches in bytes of HTTP/1.1, without sockets."""

import json
import math
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchslo.sim.http_framing import HttpFraming, MessageHead, MessagePart
from watchslo.sim.watch_editor import WatchEditor

PATH = "/api/v1/configmaps"


def line(kind: str, revision: int | str, **more: Any) -> bytes:
    """Return the line of an event as kube-apiserver encodes it."""
    metadata = {"name": "a", "resourceVersion": str(revision), "labels": {"a": '{"type":"MODIFIED"'}}
    document = {"type": kind, "object": {"kind": "ConfigMap", "metadata": metadata, **more}}
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def chunked(data: bytes, size: int) -> bytes:
    """Return a body of chunks of this size; no end of a line is an end of a chunk."""
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%X\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def response(body: bytes, *fields: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join((b"HTTP/1.1 " + status, *fields, b"", body))


def request(target: str, method: str = "GET") -> bytes:
    return f"{method} {target} HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n".encode()


JSON_FIELD, CHUNKED_FIELD = b"Content-Type: application/json", b"Transfer-Encoding: chunked"

TYPES = ("ADDED", "MODIFIED", "BOOKMARK", "DELETED", "MODIFIED", "DELETED", "ERROR")
LINES = [line(kind, revision) for revision, kind in enumerate(TYPES, 11)]
WATCH = response(chunked(b"".join(LINES), 90), JSON_FIELD, CHUNKED_FIELD)
LIST = response(chunked(line("MODIFIED", 7), 1000), JSON_FIELD, CHUNKED_FIELD)
EMPTY = response(b"", b"Content-Length: 0", status=b"404 Not Found")
REQUESTS = (
    b"POST /api HTTP/1.1\r\nContent-Length: 7\r\n\r\nwatch=1"
    + request(PATH)
    + request(f"{PATH}?watch=true&resourceVersion=10")
    + request(PATH)
)
BEFORE, AFTER = EMPTY + LIST, LIST
RESPONSES = BEFORE + WATCH + AFTER


class Editing:
    """An editor of a connection on which faults edit every event, with what it has seen and recorded."""

    def __init__(self, *faults: str, requests: bytes = REQUESTS) -> None:
        self.seen = 0
        self.recorded: list[tuple[str, str, int]] = []
        self.editor = WatchEditor(Random(7), self._see, lambda *record: self.recorded.append(record))
        assert b"".join(map(self.editor.observe, (requests[:30], requests[30:]))) == requests
        for fault in faults:
            self.editor.start(fault, 1.0)

    def _see(self) -> None:
        self.seen += 1

    def edit(self, pieces: Iterable[bytes]) -> bytes:
        return b"".join(map(self.editor.edit, pieces))


def body(raw: bytes) -> list[bytes]:
    """Return the lines in the chunks of a response; fail if there are bytes behind it."""
    _, _, rest = raw.partition(b"\r\n\r\n")
    data = b""
    while True:
        size, _, rest = rest.partition(b"\r\n")
        if not int(size, 16):
            assert rest == b"\r\n"
            return data.splitlines(keepends=True)
        data += rest[: int(size, 16)]
        assert rest[int(size, 16) :].startswith(b"\r\n")
        rest = rest[int(size, 16) + 2 :]


def watch_body(edited: bytes) -> list[bytes]:
    """Return the lines of the watch; fail if another response has changed."""
    assert edited.startswith(BEFORE)
    assert edited.endswith(AFTER)
    return body(edited[len(BEFORE) : -len(AFTER)])


def halves(data: bytes, at: int) -> tuple[bytes, bytes]:
    return data[:at], data[at:]


A, M, B, D, M2, D2, E = LINES
CASES = [
    ("lossy", [B, E], [11, 12, 14, 15, 16]),
    ("duplicating", [A, A, M, M, B, D, D, M2, M2, D2, D2, E], [11, 12, 14, 15, 16]),
    ("swapping", [M, A, B, M2, D, D2, E], [11, 14]),
]


@pytest.mark.parametrize(("fault", "lines", "wrong"), CASES)
@given(st.data())
def test_fault_edits_events_in_chunks_and_reads_of_any_size(
    fault: str, lines: list[bytes], wrong: list[int], data: st.DataObject
) -> None:
    watch = response(chunked(b"".join(LINES), data.draw(st.integers(1, 700))), JSON_FIELD, CHUNKED_FIELD)
    size = data.draw(st.integers(1, 700))
    sent = BEFORE + watch + AFTER
    editing = Editing(fault)
    assert watch_body(editing.edit(sent[at : at + size] for at in range(0, len(sent), size))) == lines
    assert [revision for _, _, revision in editing.recorded] == wrong


def test_no_byte_changes_or_waits_without_a_fault() -> None:
    for size in (1, 2, 3, 50, len(RESPONSES)):
        editing = Editing()
        for at in range(0, len(RESPONSES), size):
            assert editing.editor.edit(RESPONSES[at : at + size]) == RESPONSES[at : at + size]
        assert editing.seen == 0


@pytest.mark.parametrize("fault", ["lossy", "swapping"])
def test_fault_can_start_and_stop_at_every_byte(fault: str) -> None:
    for at in range(len(RESPONSES)):
        editing = Editing()
        first, second = halves(RESPONSES, at)
        edited = editing.edit([first])
        assert edited == first
        editing.editor.start(fault, 1.0)
        half = len(second) // 2
        edited += editing.edit([second[:half]])
        editing.editor.stop(fault)
        edited += editing.edit([b"", second[half:]])
        lines = watch_body(edited)
        wrong = [revision for _, _, revision in editing.recorded]
        if fault == "lossy":
            assert lines == [each for revision, each in enumerate(LINES, 11) if revision not in wrong]
        else:
            assert sorted(lines) == sorted(LINES)
            assert (lines == LINES) == (not wrong)
    assert editing.recorded == []  # nothing is left to edit after the last byte


def test_line_that_began_before_the_fault_passes() -> None:
    rest = b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"9"}}}\n'
    start = response(b'D\r\n{"type":"ADDE\r\n', JSON_FIELD, CHUNKED_FIELD)
    editing = Editing(requests=request(f"{PATH}?watch=1"))
    editing.edit([start])
    editing.editor.start("lossy", 1.0)
    assert editing.edit([b"%x\r\n%b\r\n0\r\n\r\n" % (len(rest), rest)]).endswith(b"\r\n" + rest + b"\r\n0\r\n\r\n")
    assert editing.recorded == []


def test_withheld_event_is_sent_when_the_fault_stops() -> None:
    editing = Editing("swapping", requests=request(f"{PATH}?watch=1"))
    head = response(b"", JSON_FIELD, CHUNKED_FIELD)
    assert editing.edit([head, b"%x\r\n%b\r\n" % (len(A), A)]) == head
    assert editing.edit([b""]) == b""
    editing.editor.stop("swapping")
    assert editing.edit([b""]) == b"%x\r\n%b\r\n" % (len(A), A)
    assert editing.recorded == []


def test_withheld_event_and_incomplete_line_are_sent_at_the_end() -> None:
    editing = Editing("swapping", requests=request(f"{PATH}?watch=1"))
    sent = response(chunked(A + b"{", 500), JSON_FIELD, CHUNKED_FIELD)
    assert body(editing.edit([sent])) == [A, b"{"]


def test_share_of_the_events_is_edited() -> None:
    editing = Editing(requests=request(f"{PATH}?watch=1"))
    editing.editor.start("lossy", 0.1)
    editing.editor.start("duplicating", 0.1)
    editing.editor.start("swapping", 0.1)
    editing.edit([response(b"", JSON_FIELD, CHUNKED_FIELD)])
    for revision in range(5000):
        editing.edit([chunked(line("MODIFIED", revision), 500).removesuffix(b"0\r\n\r\n")])
    faults = [fault for _, fault, _ in editing.recorded]
    assert editing.seen == 5000
    assert 350 < faults.count("lossy") < 550
    assert 300 < faults.count("duplicating") < 500
    assert 250 < faults.count("swapping") < 450
    # One fault at most edits an event, and a swap takes two events.
    edited = [
        revision + second for _, fault, revision in editing.recorded for second in range(1 + (fault == "swapping"))
    ]
    assert len(edited) == len(set(edited))


@pytest.mark.parametrize(
    "odd",
    [
        line("MODIFIED", "7a"),
        b'{"type":"MODIFIED","object":{"kind":\n',
        b'{"type":"MODIFIED","object":7}\n',
        b'{"type":"MODIFIED","object":{"metadata":{}}}\n',
        line("RENAMED", 7),
        b"\n",
    ],
)
def test_line_without_type_or_revision_passes_and_no_event_passes_it(odd: bytes) -> None:
    for fault in ("lossy", "swapping"):
        editing = Editing(fault, requests=request(f"{PATH}?watch=1"))
        sent = response(chunked(odd + A + odd + B, 500), JSON_FIELD, CHUNKED_FIELD)
        assert body(editing.edit([sent])) == [odd, *([A] if fault == "swapping" else []), odd, B]


@pytest.mark.parametrize(
    ("requested", "answered"),
    [
        (request(PATH), WATCH),
        (request(f"{PATH}?watch=false"), WATCH),
        (request(f"{PATH}?watch=1", "HEAD"), response(b"", JSON_FIELD, CHUNKED_FIELD)),
        (request(f"{PATH}?watch=1"), response(chunked(A, 9), JSON_FIELD, CHUNKED_FIELD, b"Content-Encoding: gzip")),
        (request(f"{PATH}?watch=1"), response(chunked(A, 9), b"Content-Type: text/html", CHUNKED_FIELD)),
        (request(f"{PATH}?watch=1"), response(chunked(A, 9), JSON_FIELD, CHUNKED_FIELD, status=b"410 Gone")),
        (request(f"{PATH}?watch=1"), response(A, JSON_FIELD, b"Content-Length: %d" % len(A))),
        (request(f"{PATH}?watch=1"), response(b"", JSON_FIELD, status=b"204 No Content")),
        (b"", WATCH),
    ],
)
def test_other_responses_pass_and_the_watch_after_them_is_edited(requested: bytes, answered: bytes) -> None:
    watched = request(f"{PATH}?watch=1") if requested else b""
    for at in range(len(answered)):
        editing = Editing("lossy", requests=requested + watched)
        edited = editing.edit(halves(answered, at)) + (editing.edit([WATCH]) if watched else b"")
        assert edited.startswith(answered)
        if watched:
            assert body(edited[len(answered) :]) == [B, E]


def test_informational_response_answers_no_request() -> None:
    editing = Editing("lossy", requests=request(f"{PATH}?watch=1"))
    going_on = response(b"", status=b"100 Continue")
    edited = editing.edit([going_on, WATCH])
    assert edited.startswith(going_on)
    assert body(edited[len(going_on) :]) == [B, E]


@pytest.mark.parametrize(
    ("requested", "answered"),
    [
        (b"\x16\x03\x01" + bytes(range(256)) * 300, bytes(range(256)) * 300),
        (request(f"/a?watch=1&{'x' * 70_000}"), WATCH),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0\0\x12\4\n\n" + WATCH),
        (request("/exec?watch=1"), response(WATCH, b"Upgrade: SPDY/3.1", status=b"101 Switching Protocols")),
        (request("/a?watch=1"), response(WATCH, b"Content-Length: many")),
        (request("/a?watch=1"), response(WATCH, b"Content-Length: -5")),
        (request("/a?watch=1"), response(b"".join(LINES), JSON_FIELD)),
    ],
)
def test_other_protocols_pass_unchanged(requested: bytes, answered: bytes) -> None:
    editing = Editing("lossy", requests=requested + request("/b?watch=1"))
    assert editing.edit(answered[at : at + 1000] for at in range(0, len(answered), 1000)) == answered


@pytest.mark.parametrize("size", [b"size\r\n", b"-5\r\n"])
def test_bytes_after_an_invalid_chunk_size_pass_unchanged(size: bytes) -> None:
    editing = Editing("swapping", requests=request(f"{PATH}?watch=1"))
    head = response(b"", JSON_FIELD, CHUNKED_FIELD)
    event = b"%x\r\n%b\r\n" % (len(A), A)
    assert editing.edit([head, event, size, event]) == head + event + event


def test_framing_names_every_part_of_a_message() -> None:
    begun: list[MessageHead] = []

    def begin(head: MessageHead) -> float | None:
        begun.append(head)
        return head.body_length(math.inf)

    framing = HttpFraming(begin)
    sent = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n"
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi"
    )
    parts = list(framing.parts(sent))
    assert b"".join(piece for _, piece in parts) == sent
    others = [part for part in parts if part[0] is not MessagePart.OTHER]
    assert others == [
        (MessagePart.CHUNK, b"5;a=b\r\n"),
        (MessagePart.DATA, b"hello"),
        (MessagePart.FRAMING, b"\r\n"),
        (MessagePart.CHUNK, b"0\r\n"),
        (MessagePart.LAST, b""),
    ]
    assert [head.fields for head in begun] == [{"transfer-encoding": "chunked"}, {"content-length": "2"}]
