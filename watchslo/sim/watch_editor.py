"""Edits the events of watches in the bytes of one HTTP/1.1 connection, by which link faults break their guarantees.

The module is pure: bytes in, bytes out. It follows bodies of watches in chunks of JSON lines without a content
encoding, and sends each line of them as one chunk. All other bytes pass as they are, and so does a response whose head
does not arrive at once.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from random import Random

import msgspec

from watchslo.sim import event_edits
from watchslo.sim.event_edits import EventEdit, EventEditor, WatchEvent

LINE_EDITS: dict[str, EventEdit] = {
    "lossy": event_edits.LOSE,
    "duplicating": event_edits.DUPLICATE,
    "swapping": event_edits.SWAP,
}
"""The edits by the names of their link faults."""

_REQUEST = re.compile(rb"[A-Z]+ \S+ HTTP/1\.1\r\n")
_WATCH = re.compile(rb"GET \S+[?&]watch=(1|true)[& ]")
_STATUS = b"HTTP/1.1 200 OK\r\n"
_SIZE = re.compile(rb"([0-9a-fA-F]+)(;[^\r\n]*)?\r\n")
_MAX_SIZE_BYTES = 100
"""A longer line is no size of a chunk."""
_EVENT = re.compile(rb'\{"type":"(ADDED|MODIFIED|DELETED)"')


class WatchEditor:
    """Edits the watches of one connection. `observe` needs all bytes to the server, and `edit` all bytes to the client.

    `seen` is called for each event that a fault could have edited. `record` is called with the name of the fault for
    each edit. Bookmarks and errors are never edited, and no event passes them.
    """

    def __init__(self, random: Random, seen: Callable[[], None], record: Callable[[str], None]) -> None:
        self._random = random
        self._seen = seen
        self._shares: dict[str, float] = {}
        self._editor = EventEditor(lambda fault, _revision: record(fault))
        self._requested = False  # the last request was one for a watch
        self._following = False
        self._bytes = bytearray()  # of a chunk that is not complete
        self._partial = bytearray()  # of a line that is not complete

    def start(self, name: str, share: float) -> None:
        """Edit a share of the events, drawn at random. An event is edited by one fault at most."""
        self._shares[name] = share

    def stop(self, name: str) -> None:
        """Edit no more events by this fault. The next call of `edit` returns what the fault withholds."""
        self._shares.pop(name, None)

    def observe(self, data: bytes) -> bytes:
        """Return these bytes of requests unchanged."""
        if _REQUEST.match(data):
            self._requested = bool(_WATCH.match(data))
        return data

    def edit(self, data: bytes) -> bytes:
        """Return the bytes of responses that replace these ones. An incomplete line waits for the rest of it."""
        released = b"".join(map(_chunk, self._release(LINE_EDITS.keys() - self._shares.keys())))
        if self._following:
            return released + self._edited(data)
        head, end, body = data.partition(b"\r\n\r\n")
        if not (self._requested and end and _has_lines(head)):
            return data
        self._following = True
        return head + end + self._edited(body)

    def _edited(self, data: bytes) -> bytes:
        self._bytes += data
        return b"".join(self._chunks())

    def _chunks(self) -> Iterator[bytes]:
        """Yield the chunks that replace the complete ones, and all bytes as they are once the body has ended."""
        while size := _SIZE.match(self._bytes):
            length, start = int(size[1], 16), size.end()
            if not length:
                break
            if len(self._bytes) < start + length + 2:
                return
            piece = bytes(self._bytes[start : start + length])
            del self._bytes[: start + length + 2]
            self._partial += piece
            if b"\n" in piece:
                *lines, rest = bytes(self._partial).split(b"\n")
                self._partial = bytearray(rest)
                for line in lines:
                    yield from map(_chunk, self._lines(line + b"\n"))
        if size or len(self._bytes) > _MAX_SIZE_BYTES:
            yield from map(_chunk, [*self._release(LINE_EDITS), *([bytes(self._partial)] if self._partial else [])])
            yield bytes(self._bytes)
            self._bytes.clear()
            self._partial.clear()
            self._following = self._requested = False

    def _lines(self, line: bytes) -> Iterable[bytes]:
        """Return the lines to send now that this line is due."""
        if not (self._shares or self._editor.armed):
            return [line]
        match = _EVENT.match(line)
        revision = _revision(line) if match else None
        if not match or revision is None:
            return [*self._release(LINE_EDITS), line]
        self._seen()
        if not self._editor.armed:
            name = next((name for name, share in self._shares.items() if self._random.random() < share), None)
            if name is None:
                return [line]
            self._editor.arm(name, LINE_EDITS[name])
        return [event.content for event in self._editor.edited(WatchEvent(match[1].decode(), revision, line))]

    def _release(self, names: Iterable[str]) -> list[bytes]:
        """End the edits by these faults, and return the lines that they withhold."""
        return [event.content for name in names for event in self._editor.disarm(name)]


def _has_lines(head: bytes) -> bool:
    """Return True if the head is that of a body of JSON in chunks."""
    fields = head.lower()
    is_plain = b"\r\ncontent-encoding:" not in fields and b"\r\ncontent-type: application/json" in fields
    return head.startswith(_STATUS) and is_plain and b"\r\ntransfer-encoding: chunked" in fields


def _chunk(line: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(line), line)


def _revision(line: bytes) -> int | None:
    """Return the revision of the event in a line; None if the line has no number there."""
    try:
        return int(msgspec.json.decode(line)["object"]["metadata"]["resourceVersion"])
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError):
        return None
