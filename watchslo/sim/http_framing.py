"""Follows the framing of HTTP/1.1 messages in one direction of a connection (RFC 9112).

The module is pure. It only finds out what the bytes of a connection are, and changes none.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

_START_LINE = re.compile(rb"[A-Z]+ \S+ HTTP/1\.[01]|HTTP/1\.[01] \d{3}( .*)?")
_MAX_LINE_BYTES = 64 << 10
"""A longer line is no line of HTTP: kube-apiserver refuses longer heads."""


class MessagePart(Enum):
    """What some bytes of a connection are."""

    CHUNK = "the first bytes of the size line of a chunk"
    FRAMING = "other bytes around the data of chunks"
    DATA = "data of a chunk"
    LAST = "no bytes: the size line of the last chunk has ended"
    OTHER = "all else: heads, bodies without chunks, trailers, other protocols"


class _ExpectedLine(Enum):
    HEAD = "head"
    SIZE = "size"
    CHUNK_END = "chunk end"
    TRAILER = "trailer"


@dataclass(frozen=True, slots=True)
class MessageHead:
    """The words of the first line of a message, and its header fields by their names in lower case."""

    start: list[str]
    fields: dict[str, str]

    def body_length(self, default: float) -> float | None:
        """Return the length of the body in bytes, `default` if the head names none; None if it has chunks.

        Raises:
            ValueError: if the length is not a number.
        """
        if self.fields.get("transfer-encoding", "").lower() == "chunked":
            return None
        return _number(self.fields["content-length"], 10) if "content-length" in self.fields else default


def _number(text: str | bytes, base: int) -> int:
    """Return a number of bytes.

    Raises:
        ValueError: if this is no number of 0 or more.
    """
    number = int(text, base)
    if number < 0:
        raise ValueError(text)
    return number


def _parse_head(lines: list[bytes]) -> MessageHead:
    first, *others = (line.decode("latin-1") for line in lines)
    pairs = (line.partition(":") for line in others)
    return MessageHead(first.split(" "), {name.lower(): value.strip() for name, _, value in pairs})


class HttpFraming:
    """Splits the bytes of one direction of a connection into parts of messages.

    `begin` is called with each head; it returns the length of the body, infinite up to the end of the connection, or
    None for chunks. Bytes that are not HTTP/1.1, and all bytes after them, are `OTHER`.
    """

    def __init__(self, begin: Callable[[MessageHead], float | None]) -> None:
        self._begin = begin
        self._expected = _ExpectedLine.HEAD
        self._line = bytearray()
        self._head: list[bytes] = []
        self._left = 0.0

    def parts(self, data: bytes) -> Iterator[tuple[MessagePart, bytes]]:
        """Yield all of these bytes, which follow those of earlier calls, with what they are."""
        at = 0
        while at < len(data):
            if self._left:
                end = at + int(min(self._left, len(data) - at))
                self._left -= end - at
                yield MessagePart.DATA if self._expected is _ExpectedLine.CHUNK_END else MessagePart.OTHER, data[at:end]
            else:
                end = data.find(b"\n", at) + 1 or len(data)
                yield self._part_of_line(), data[at:end]
                self._line += data[at:end]
                if len(self._line) > _MAX_LINE_BYTES:
                    self._stop_parsing()
                elif self._line.endswith(b"\n") and self._end_line():
                    yield MessagePart.LAST, b""
            at = end

    def _part_of_line(self) -> MessagePart:
        if self._expected is _ExpectedLine.SIZE and not self._line:
            return MessagePart.CHUNK
        if self._expected in (_ExpectedLine.SIZE, _ExpectedLine.CHUNK_END):
            return MessagePart.FRAMING
        return MessagePart.OTHER

    def _end_line(self) -> bool:
        """Process a line; return True after the size line of the last chunk."""
        line = bytes(self._line).rstrip(b"\r\n")
        self._line.clear()
        try:
            if self._expected is _ExpectedLine.HEAD:
                self._end_head_line(line)
            elif self._expected is _ExpectedLine.SIZE:
                self._left = _number(line.partition(b";")[0], 16)
                self._expected = _ExpectedLine.CHUNK_END if self._left else _ExpectedLine.TRAILER
                return not self._left
            elif self._expected is _ExpectedLine.CHUNK_END:
                self._expected = _ExpectedLine.SIZE
            elif not line:
                self._expected = _ExpectedLine.HEAD
        except ValueError:
            self._stop_parsing()
        return False

    def _end_head_line(self, line: bytes) -> None:
        if line:
            self._head.append(line)
            if not _START_LINE.fullmatch(self._head[0]):
                self._stop_parsing()
        elif self._head:
            length = self._begin(_parse_head(self._head))
            self._head.clear()
            if length is None:
                self._expected = _ExpectedLine.SIZE
            else:
                self._left = length

    def _stop_parsing(self) -> None:
        self._expected, self._left = _ExpectedLine.HEAD, math.inf
        self._line.clear()
