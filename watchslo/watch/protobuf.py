"""Decode what Kubernetes sends as protobuf: frames of a watch, lists and errors, into the values that JSON becomes.

Only the fields that are needed are read, and what is between them is skipped by its length: a message is fields, each a
key, which has the field's number and kind, and a value (protobuf.dev, "Encoding"). The numbers are those of
`generated.proto` of `k8s.io/apimachinery/pkg/apis/meta/v1` and `pkg/runtime`. Of a field that comes twice the first one
counts, unless it is a list: Go's encoders write every field once, in the order of the numbers.

A frame of a watch has a length of four bytes, the most significant first, and is a `WatchEvent`, whose object has the
form of a whole answer: `k8s`, a zero byte and a `runtime.Unknown`, which has the object.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from watchslo.watch.decode import (
    Added,
    Annotations,
    ApiStatus,
    Bookmark,
    Change,
    ChangedObject,
    Deleted,
    Details,
    Error,
    Frame,
    Frames,
    Mark,
    MarkMetadata,
    Modified,
    ObjectMetadata,
    StatusCause,
    StatusMetadata,
)
from watchslo.watch.lines import DEFAULT_LIMIT_BYTES, LineTooLong

MAGIC = b"k8s\x00"
MOST_FIELDS = 1000  # of a message that are looked at; annotations of 4 MB without content would take eight seconds

_Span = tuple[int, int]
_Message = bytes | bytearray

_NUMBER, _BYTES = 0, 2  # kinds of values: a number of as many bytes as it needs; text, bytes or a message
_LONGEST_NUMBER_BITS = 64
_ALL_BITS, _LARGEST = 2**64 - 1, 2**63 - 1
_LENGTH_BYTES = 4  # of the length before a frame


def _key(number: int, kind: int = _BYTES) -> int:
    """Return the key of a field."""
    return number << 3 | kind


_EVENT_TYPE, _EVENT_OBJECT = _key(1), _key(2)
_RAW_EXTENSION = _key(1)
_UNKNOWN_RAW = _key(2)
_METADATA = _key(1)  # of every object, list and Status
_LIST_ITEM = _key(2)
_UID, _RESOURCE_VERSION, _CREATED, _ANNOTATION = _key(5), _key(6), _key(8), _key(12)  # of ObjectMeta
_SECONDS = _key(1, _NUMBER)  # of Time
_MAP_KEY, _MAP_VALUE = _key(1), _key(2)
_LIST_REVISION, _CONTINUE, _REMAINING = _key(2), _key(3), _key(4, _NUMBER)  # of ListMeta
_MESSAGE, _REASON, _DETAILS, _CODE = _key(3), _key(4), _key(5), _key(6, _NUMBER)  # of Status
_CAUSE, _RETRY_AFTER = _key(4), _key(5, _NUMBER)  # of StatusDetails
_CAUSE_REASON, _CAUSE_FIELD = _key(1), _key(3)  # of StatusCause

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_CHANGES: Mapping[bytes, type[Change]] = {b"ADDED": Added, b"MODIFIED": Modified, b"DELETED": Deleted}
_LONGEST_TIME_BYTES = 22  # two numbers of ten bytes, with their keys
_REMEMBERED_TIMES = 1024  # events of one object have the same creation time


class _MalformedError(ValueError):
    """The bytes are not such a message."""


_GARBAGE = (_MalformedError, LookupError, UnicodeDecodeError)


class ProtobufFrameReader:
    """Decodes the frames of one watch from chunks of any size; no frame may be longer than `longest` bytes."""

    def __init__(self, longest: int = DEFAULT_LIMIT_BYTES) -> None:
        self._longest = longest
        self._partial = bytearray()
        self._missing = _LENGTH_BYTES  # bytes that complete the next length or frame, so that none is looked at twice

    @property
    def is_cut(self) -> bool:
        """Whether the watch would end within a frame."""
        return bool(self._partial)

    def feed(self, chunk: bytes) -> Frames | None:
        """Return the decoded frames that `chunk` completes, or None if it completes none.

        Raises:
            LineTooLong: a frame is too long; close the watch.
        """
        block: _Message = chunk
        if self._partial:
            self._partial += chunk
            block = self._partial
        if len(chunk) < self._missing:
            self._missing -= len(chunk)
            self._partial = block if isinstance(block, bytearray) else bytearray(block)
            return None
        events: list[Frame] = []
        garbage = at = 0
        while (end := self._end_of_frame(block, at)) is not None:
            event = _decode_frame(block, at + _LENGTH_BYTES, end)
            if event is None:
                garbage += 1
            else:
                events.append(event)
            at = end
        self._partial = bytearray(memoryview(block)[at:]) if at < len(block) else bytearray()
        return Frames(events, garbage) if at else None

    def _end_of_frame(self, block: _Message, at: int) -> int | None:
        """Return where the frame at `at` ends, or None if the block does not have all of it."""
        start = end = at + _LENGTH_BYTES
        if start <= len(block):
            length = int.from_bytes(block[at:start])
            if length > self._longest:
                self._partial = bytearray()
                raise LineTooLong(self._longest)
            end += length
        self._missing = max(end - len(block), 0) or _LENGTH_BYTES
        return None if end > len(block) or start > len(block) else end


@dataclass(frozen=True, slots=True)
class ProtobufList:
    """A list: the fields of its metadata, and the uids and revisions of its objects if they were requested."""

    revision: str | None
    continue_token: str | None
    remaining: int | None
    items: int
    uids: list[str | None]
    revisions: list[str | None]


def decode_protobuf_list(body: _Message, *, with_objects: bool) -> ProtobufList | None:
    """Decode the body of a list; return None if it is none."""
    try:
        return _list(body, with_objects=with_objects)
    except _GARBAGE:
        return None


def decode_protobuf_status(body: _Message) -> ApiStatus | None:
    """Decode the body of an HTTP error; return None if it is not a Status."""
    try:
        return _status(body, *_unwrapped(body, 0, len(body)))
    except _GARBAGE:
        return None


def _decode_frame(block: _Message, start: int, end: int) -> Frame | None:
    """Decode one frame of a watch, without its length; return None if it is not an event."""
    try:
        return _event(block, start, end)
    except _GARBAGE:
        return None


def _event(block: _Message, start: int, end: int) -> Frame:
    event = _collect(block, start, end, _EVENT_OBJECT)
    kind_start, kind_end = event[_EVENT_TYPE]
    kind = bytes(block[kind_start:kind_end])
    start, end = _unwrapped(block, *_find(block, *event[_EVENT_OBJECT], _RAW_EXTENSION))
    change = _CHANGES.get(kind)
    if change is not None:
        known = _collect(block, *_find(block, start, end, _METADATA), _CREATED)
        metadata = ObjectMetadata(
            _text(block, known.get(_RESOURCE_VERSION)),
            _created(block, known.get(_CREATED)),
            _text(block, known.get(_UID)),
        )
        return change(ChangedObject(metadata))
    if kind == b"BOOKMARK":
        return Bookmark(Mark(_mark(block, *_find(block, start, end, _METADATA))))
    if kind == b"ERROR":
        return Error(_status(block, start, end))
    raise _MalformedError


def _mark(block: _Message, start: int, end: int) -> MarkMetadata:
    known = _collect(block, start, end, _CREATED)
    entries = [_collect(block, *entry, _MAP_VALUE) for entry in _all(block, start, end, _ANNOTATION)]
    found = {_text(block, entry.get(_MAP_KEY)): _text(block, entry.get(_MAP_VALUE)) for entry in entries}
    return MarkMetadata(
        _text(block, known.get(_RESOURCE_VERSION)),
        _created(block, known.get(_CREATED)),
        _text(block, known.get(_UID)),
        annotations=Annotations(found.get(_INITIAL_EVENTS_END)) if found else None,
    )


def _status(body: _Message, start: int, end: int) -> ApiStatus:
    known = _collect(body, start, end, _CODE)
    metadata, details = known.get(_METADATA), known.get(_DETAILS)
    return ApiStatus(
        metadata=StatusMetadata(_text(body, _collect(body, *metadata, _CONTINUE).get(_CONTINUE))) if metadata else None,
        code=_number(body, known.get(_CODE)),
        reason=_text(body, known.get(_REASON)),
        message=_text(body, known.get(_MESSAGE)),
        details=_details(body, *details) if details else None,
    )


def _details(body: _Message, start: int, end: int) -> Details:
    retry_after = _collect(body, start, end, _RETRY_AFTER).get(_RETRY_AFTER)
    causes = [_collect(body, *cause, _CAUSE_FIELD) for cause in _all(body, start, end, _CAUSE)]
    return Details(
        causes=[
            StatusCause(_text(body, cause.get(_CAUSE_REASON)), _text(body, cause.get(_CAUSE_FIELD))) for cause in causes
        ],
        retry_after_seconds=_number(body, retry_after) or None,
    )


def _list(body: _Message, *, with_objects: bool) -> ProtobufList:
    start, end = _unwrapped(body, 0, len(body))
    head = _collect(body, *_find(body, start, end, _METADATA), _REMAINING)
    items = 0
    uids: list[str | None] = []
    revisions: list[str | None] = []
    for item in _all(body, start, end, _LIST_ITEM, most=len(body)):
        items += 1
        if with_objects:
            known = _collect(body, *_find(body, *item, _METADATA), _RESOURCE_VERSION)
            uids.append(_text(body, known.get(_UID)))
            revisions.append(_text(body, known.get(_RESOURCE_VERSION)))
    return ProtobufList(
        _text(body, head.get(_LIST_REVISION)),
        _text(body, head.get(_CONTINUE)),
        _number(body, head.get(_REMAINING)),
        items,
        uids,
        revisions,
    )


def _unwrapped(data: _Message, start: int, end: int) -> _Span:
    """Return where the object in a whole answer is."""
    if not data.startswith(MAGIC, start, end):
        raise _MalformedError
    return _find(data, start + len(MAGIC), end, _UNKNOWN_RAW)


def _find(data: _Message, at: int, end: int, wanted: int) -> _Span:
    """Return where the value of the first field with this key is.

    The loops of this and `_collect` run a dozen times for an event, so they call no function for short fields.
    """
    for _ in range(MOST_FIELDS):
        if at >= end:
            break
        key, size = data[at], data[at + 1]
        if key & 0x87 == _BYTES and size < 0x80:  # noqa: PLR2004 (both have one byte, as they mostly do)
            at += 2
        else:
            key, at, size = _long_header(data, at)
        stop = at + size
        if stop > end:
            raise _MalformedError
        if key == wanted:
            return at, stop
        at = stop
    raise _MalformedError  # it is missing


def _collect(data: _Message, at: int, end: int, last: int) -> dict[int, _Span]:
    """Return where the value of the first field with each key is, up to the key `last`."""
    found: dict[int, _Span] = {}
    for _ in range(MOST_FIELDS):
        if at >= end:
            return found
        key, size = data[at], data[at + 1]
        if key & 0x87 == _BYTES and size < 0x80:  # noqa: PLR2004 (as in `_find`)
            at += 2
        else:
            key, at, size = _long_header(data, at)
        stop = at + size
        if stop > end:
            raise _MalformedError
        if key > last:
            return found
        if key not in found:
            found[key] = at, stop
        at = stop
    raise _MalformedError  # there are too many


def _all(data: _Message, at: int, end: int, wanted: int, most: int = MOST_FIELDS) -> Iterator[_Span]:
    """Yield where the value of each field with this key is."""
    for _ in range(most):
        if at >= end:
            return
        key, at, size = _long_header(data, at)
        if at + size > end:
            raise _MalformedError
        if key == wanted:
            yield at, at + size
        at += size
    raise _MalformedError  # there are too many


def _long_header(data: _Message, at: int) -> tuple[int, int, int]:
    """Return the key of the field at `at`, where its value begins, and its length in bytes."""
    key, at = _varint(data, at)
    match key & 7:
        case 2:
            size, at = _varint(data, at)
        case 0:
            size = _varint(data, at)[1] - at
        case 1:
            size = 8
        case 5:
            size = 4
        case _:  # there are no others since groups are gone
            raise _MalformedError
    return key, at, size


def _varint(data: _Message, at: int) -> tuple[int, int]:
    """Return the number at `at`, and where it ends: seven bits a byte, the least significant first."""
    number = shift = 0
    while shift < _LONGEST_NUMBER_BITS:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 (the bit that says that more bytes follow)
            return number, at
        shift += 7
    raise _MalformedError


def _number(data: _Message, span: _Span | None) -> int | None:
    """Return a number, which may be negative: an int32 or int64."""
    if span is None:
        return None
    number = _varint(data, span[0])[0] & _ALL_BITS
    return number - _ALL_BITS - 1 if number > _LARGEST else number


def _text(data: _Message, span: _Span | None) -> str | None:
    """Return a text, or None if it is empty: Go's encoders write fields that JSON leaves out as empty ones."""
    return data[span[0] : span[1]].decode() or None if span else None


def _created(data: _Message, span: _Span | None) -> str | None:
    """Return a time as JSON has it, or None for the zero time, which is empty."""
    if span is None or span[1] - span[0] > _LONGEST_TIME_BYTES:
        return None
    return _written(bytes(data[span[0] : span[1]]))


@lru_cache(_REMEMBERED_TIMES)
def _written(time: bytes) -> str | None:
    """Return a Time as JSON has it, or None without seconds or for a year that JSON cannot have."""
    seconds = _number(time, _collect(time, 0, len(time), _SECONDS).get(_SECONDS))
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return None
