"""Edits the events of watches in the bytes of one HTTP/1.1 connection, by which link faults break their guarantees.

The module is pure: bytes in, bytes out. It parses every connection from its first byte on, so that a fault can start
in the middle of a watch. It changes only bodies of watches in chunks of JSON lines without a content encoding, and only
while a fault is on; all other bytes pass as they are. A connection that does not speak HTTP/1.1 is not parsed.
"""

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from random import Random

import msgspec

from watchslo.sim import event_edits
from watchslo.sim.event_edits import EventEdit, EventEditor, WatchEvent
from watchslo.sim.http_framing import HttpFraming, MessageHead, MessagePart

LINE_EDITS: dict[str, EventEdit] = {
    "lossy": event_edits.LOSE,
    "duplicating": event_edits.DUPLICATE,
    "swapping": event_edits.SWAP,
}
"""The edits by the names of their link faults."""

_WATCH = re.compile(r"[?&]watch=(1|true)(&|$)")
_EVENT = re.compile(rb'\{"type":"(ADDED|MODIFIED|DELETED)"')
_SWITCHING_PROTOCOLS = 101
_FIRST_FINAL_STATUS = 200
_OK = 200
_STATUSES_WITHOUT_BODY = (204, 304)


class WatchEditor:
    """Edits the watches of one connection. `observe` needs all bytes to the server, and `edit` all bytes to the client.

    `seen` is called for each event that a fault could have edited. `record` is called for each edit, with the path of
    the watch, the name of the fault, and the revision of the event; of two events that are swapped, the first one.
    Bookmarks and errors are never edited, and no event passes them.
    """

    def __init__(self, random: Random, seen: Callable[[], None], record: Callable[[str, str, int], None]) -> None:
        self._random = random
        self._seen = seen
        self._shares: dict[str, float] = {}
        self._requests: deque[list[str]] = deque()
        self._request_framing = HttpFraming(self._begin_request)
        self._response_framing = HttpFraming(self._begin_response)
        self._path = ""
        self._editor = EventEditor(lambda fault, revision: record(self._path, fault, revision))
        self._rewrites = False
        self._partial = bytearray()
        self._in_line = False

    def start(self, name: str, share: float) -> None:
        """Edit a share of the events, drawn at random. An event is edited by one fault at most."""
        self._shares[name] = share

    def stop(self, name: str) -> None:
        """Edit no more events by this fault. The next call of `edit` returns what the fault withholds."""
        self._shares.pop(name, None)

    def observe(self, data: bytes) -> bytes:
        """Return these bytes of requests unchanged."""
        for _ in self._request_framing.parts(data):
            pass
        return data

    def edit(self, data: bytes) -> bytes:
        """Return the bytes of responses that replace these ones.

        The edited part of a body has one line in each chunk. Bytes of an incomplete line wait for the rest of it.
        """
        output = [_chunk(line) for line in self._release(LINE_EDITS.keys() - self._shares.keys())]
        for part, piece in self._response_framing.parts(data):
            if part is MessagePart.CHUNK and not self._partial and not self._editor.withholds:
                self._rewrites = bool(self._path and self._shares)
            if self._rewrites:
                output.extend(self._rewritten(part, piece))
            else:
                output.append(piece)
                if part is MessagePart.DATA:
                    self._in_line = not piece.endswith(b"\n")
        return b"".join(output)

    def _begin_request(self, head: MessageHead) -> float | None:
        self._requests.append(head.start)
        return head.body_length(default=0)

    def _begin_response(self, head: MessageHead) -> float | None:
        """Note whether the response is a watch, and return the length of its body."""
        status = int(head.start[1])
        if status < _FIRST_FINAL_STATUS:
            return math.inf if status == _SWITCHING_PROTOCOLS else 0
        method, target, *_ = self._requests.popleft() if self._requests else ("", "")
        self._path, self._in_line = "", False
        if method == "HEAD" or status in _STATUSES_WITHOUT_BODY:
            return 0
        length = head.body_length(default=math.inf)
        is_json = head.fields.get("content-type", "").startswith("application/json")
        is_plain = length is None and is_json and "content-encoding" not in head.fields
        if status == _OK and is_plain and _WATCH.search(target):
            self._path = target.partition("?")[0]
        return length

    def _rewritten(self, part: MessagePart, piece: bytes) -> Iterator[bytes]:
        """Yield the bytes that replace some bytes of a body."""
        if part is MessagePart.DATA:
            self._partial += piece
            if b"\n" in piece:
                *lines, rest = bytes(self._partial).split(b"\n")
                self._partial = bytearray(rest)
                for line in lines:
                    yield from map(_chunk, self._edited(line + b"\n"))
        elif part in (MessagePart.LAST, MessagePart.OTHER):  # OTHER only after invalid bytes
            self._rewrites = False
            yield from map(_chunk, self._release(LINE_EDITS))
            if self._partial:
                yield _chunk(bytes(self._partial))
                self._partial.clear()
            yield b"0\r\n" if part is MessagePart.LAST else piece

    def _edited(self, line: bytes) -> Iterable[bytes]:
        """Return the lines to send now that this line is due."""
        match = None if self._in_line else _EVENT.match(line)  # the line may have begun before the fault
        self._in_line = False
        if not match:
            return [*self._release(LINE_EDITS), line]
        self._seen()
        name = None if self._editor.armed else self._drawn()
        if not (name or self._editor.armed):
            return [line]
        revision = _revision(line)
        if revision is None:
            return [*self._release(LINE_EDITS), line]
        if name:
            self._editor.arm(name, LINE_EDITS[name])
        return [event.content for event in self._editor.edited(WatchEvent(match[1].decode(), revision, line))]

    def _drawn(self) -> str | None:
        """Return the fault that edits an event; None for most events."""
        return next((name for name, share in self._shares.items() if self._random.random() < share), None)

    def _release(self, names: Iterable[str]) -> list[bytes]:
        """End the edits by these faults, and return the lines that they withhold."""
        return [event.content for name in names for event in self._editor.disarm(name)]


def _chunk(line: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(line), line)


def _revision(line: bytes) -> int | None:
    """Return the revision of the event in a line; None if the line has no number there."""
    try:
        return int(msgspec.json.decode(line)["object"]["metadata"]["resourceVersion"])
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError):
        return None
