"""The editor of watches in bytes of HTTP/1.1, without sockets."""

import json
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchslo.sim.watch_editor import WatchEditor

PATH = "/api/v1/configmaps"
FIELDS = b"Content-Type: application/json\r\nTransfer-Encoding: chunked"


def line(kind: str, revision: int | str, **more: Any) -> bytes:
    """Return the line of an event as kube-apiserver encodes it."""
    metadata = {"name": "a", "resourceVersion": str(revision), "labels": {"a": '{"type":"MODIFIED"'}}
    document = {"type": kind, "object": {"kind": "ConfigMap", "metadata": metadata, **more}}
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def chunked(data: bytes, size: int) -> bytes:
    """Return chunks of this size without the last one; no end of a line is an end of a chunk."""
    return b"".join(b"%X\r\n%b\r\n" % (len(piece), piece) for piece in cut(data, size))


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def response(*chunks: bytes, fields: bytes = FIELDS, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\n%b\r\n\r\n%b" % (status, fields, b"".join(chunks))


def request(target: str, method: str = "GET") -> bytes:
    return f"{method} {target} HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n".encode()


WATCHED, LISTED = request(f"{PATH}?watch=1&resourceVersion=10"), request(PATH)
END = b"0\r\n\r\n"
TYPES = ("ADDED", "MODIFIED", "BOOKMARK", "DELETED", "MODIFIED", "DELETED", "ERROR")
LINES = [line(kind, revision) for revision, kind in enumerate(TYPES, 11)]
A, M, B, D, M2, D2, E = LINES
BODY = b"".join(LINES)


class Editing:
    """An editor of a connection on which faults edit every event, with what it has seen and recorded."""

    def __init__(self, *faults: str) -> None:
        self.seen = 0
        self.recorded: list[str] = []
        self.editor = WatchEditor(Random(7), self._see, self.recorded.append)
        for fault in faults:
            self.editor.start(fault, 1.0)

    def _see(self) -> None:
        self.seen += 1

    def exchange(self, requested: bytes, pieces: Iterable[bytes]) -> bytes:
        assert self.editor.observe(requested) == requested
        return b"".join(map(self.editor.edit, pieces))


def lines_of(edited: bytes) -> list[bytes]:
    """Return the data of each chunk of a response, which has an end."""
    _, _, rest = edited.partition(b"\r\n\r\n")
    found = []
    while rest != END:
        size, _, rest = rest.partition(b"\r\n")
        found.append(rest[: int(size, 16)])
        rest = rest[int(size, 16) + 2 :]
    return found


@pytest.mark.parametrize(
    ("fault", "lines", "edits"),
    [
        (None, LINES, 0),
        ("lossy", [B, E], 5),
        ("duplicating", [A, A, M, M, B, D, D, M2, M2, D2, D2, E], 5),
        ("swapping", [M, A, B, M2, D, D2, E], 2),
    ],
)
@given(st.integers(1, 700), st.integers(1, 700))
def test_events_are_edited_in_chunks_and_reads_of_any_size(
    fault: str | None, lines: list[bytes], edits: int, chunk: int, read: int
) -> None:
    editing = Editing(*([fault] if fault else []))
    head, body = response(), chunked(BODY, chunk) + END
    assert lines_of(editing.exchange(WATCHED, [head, *cut(body, read)])) == lines
    assert editing.recorded == [fault] * edits


def test_watch_between_other_responses_is_edited() -> None:
    editing, listed = Editing("lossy"), response(chunked(M, 1000), END)
    for _ in range(2):
        assert editing.exchange(LISTED, [listed]) == listed
        assert lines_of(editing.exchange(WATCHED, [response(chunked(BODY, 90), END)])) == [B, E]


@pytest.mark.parametrize("fault", ["lossy", "swapping"])
def test_fault_can_start_and_stop_in_a_watch(fault: str) -> None:
    sent = chunked(BODY, 90) + END
    for at in range(len(sent)):
        editing = Editing()
        edited = editing.exchange(WATCHED, [response(), sent[:at]])
        editing.editor.start(fault, 1.0)
        half = at + (len(sent) - at) // 2
        edited += editing.editor.edit(sent[at:half])
        editing.editor.stop(fault)
        lines = lines_of(edited + editing.editor.edit(b"") + editing.editor.edit(sent[half:]))
        if fault == "lossy":
            assert len(lines) == len(LINES) - len(editing.recorded)
        else:
            assert sorted(lines) == sorted(LINES)
            assert (lines == LINES) == (not editing.recorded)


def test_withheld_event_is_sent_when_the_fault_stops() -> None:
    editing, event = Editing("swapping"), b"%x\r\n%b\r\n" % (len(A), A)
    assert editing.exchange(WATCHED, [response(), event]) == response()
    editing.editor.stop("swapping")
    assert editing.editor.edit(b"") == event
    assert editing.recorded == []


def test_withheld_event_and_incomplete_line_are_sent_at_the_end() -> None:
    edited = Editing("swapping").exchange(WATCHED, [response(chunked(A + b"{", 500), END)])
    assert lines_of(edited) == [A, b"{"]


def test_share_of_the_events_is_edited() -> None:
    editing = Editing()
    for fault in ("lossy", "duplicating", "swapping"):
        editing.editor.start(fault, 0.1)
    editing.exchange(WATCHED, [response(), *(chunked(line("MODIFIED", revision), 500) for revision in range(5000))])
    assert editing.seen == 5000
    assert 350 < editing.recorded.count("lossy") < 550
    assert 300 < editing.recorded.count("duplicating") < 500
    assert 250 < editing.recorded.count("swapping") < 450


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
    sent = response(chunked(odd + A + odd + B, 500), END)
    assert lines_of(Editing("lossy").exchange(WATCHED, [sent])) == [odd, odd, B]
    assert lines_of(Editing("swapping").exchange(WATCHED, [sent])) == [odd, A, odd, B]


@pytest.mark.parametrize(
    ("requested", "answered"),
    [
        (request(f"{PATH}?watch=false"), response(chunked(BODY, 90), END)),
        (request(f"{PATH}?watch=1", "HEAD"), response()),
        (WATCHED, response(chunked(A, 9), END, fields=FIELDS + b"\r\nContent-Encoding: gzip")),
        (WATCHED, response(chunked(A, 9), END, fields=FIELDS.replace(b"application/json", b"text/html"))),
        (WATCHED, response(chunked(A, 9), END, status=b"410 Gone")),
        (WATCHED, response(A, fields=b"Content-Type: application/json\r\nContent-Length: %d" % len(A))),
        (b"\x16\x03\x01" + bytes(range(256)), bytes(range(256)) * 300),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0\0\x12\4\n\n" + response(chunked(BODY, 90))),
    ],
)
def test_other_responses_and_protocols_pass_unchanged(requested: bytes, answered: bytes) -> None:
    assert Editing("lossy").exchange(requested, cut(answered, 1000)) == answered


@pytest.mark.parametrize("size", [b"size\r\n", b"-5\r\n"])
def test_bytes_after_an_invalid_chunk_size_pass_unchanged(size: bytes) -> None:
    event = b"%x\r\n%b\r\n" % (len(A), A)
    edited = Editing("swapping").exchange(WATCHED, [response(), event, size, event, event])
    assert edited == response() + event + size + event + event
