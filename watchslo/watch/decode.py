"""Decode the lines of a watch: the event type and the few metadata fields that are needed.

Tables, partial metadata and plain objects all have `metadata.resourceVersion` in the same place, so one struct decodes
every representation. msgspec skips the other fields without building them.
"""

from typing import ClassVar

import msgspec

from watchslo.documents import decode_document
from watchslo.errors import UNDECODABLE
from watchslo.watch.lines import DEFAULT_LIMIT_BYTES, LineSplitter

LARGEST_REVISION = 2**62 - 1  # no counter gets there, and as nanoseconds of Unix time it is the year 2116
_MOST_DIGITS = len(str(LARGEST_REVISION))


def parse_revision(text: str | None) -> int | None:
    """Return the revision of a resourceVersion, or None if it is no number (which KEP-5504 permits), or garbage.

    Nor is 0 a revision: in requests it stands for any.
    """
    if not text or len(text) > _MOST_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    revision = int(text)
    return revision if 0 < revision <= LARGEST_REVISION else None


class ObjectMetadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The metadata of an object or of its Table; a Table has neither creation timestamp nor uid."""

    resource_version: str | None = None
    creation_timestamp: str | None = None
    uid: str | None = None


class EventObject(msgspec.Struct, frozen=True, gc=False):
    """The object of an event: a Table, a PartialObjectMetadata or the object itself."""

    metadata: ObjectMetadata


class ChangedObject(EventObject, frozen=True, gc=False):
    """The object of a change; the `rows` of a Table are not decoded. They refer to the bytes of the whole block."""

    rows: msgspec.Raw = msgspec.Raw()


class ObjectChange(msgspec.Struct, frozen=True, gc=False, tag_field="type"):
    """A change of an object, with its revision."""

    object: ChangedObject
    type: ClassVar[str]


class Added(ObjectChange, frozen=True, gc=False, tag="ADDED"):
    """The object was created, or began to match the selector."""

    type: ClassVar[str] = "ADDED"


class Modified(ObjectChange, frozen=True, gc=False, tag="MODIFIED"):
    """The object changed."""

    type: ClassVar[str] = "MODIFIED"


class Deleted(ObjectChange, frozen=True, gc=False, tag="DELETED"):
    """The object was deleted, or stopped matching the selector; it has the revision of that change."""

    type: ClassVar[str] = "DELETED"


class Annotations(msgspec.Struct, frozen=True, gc=False):
    """The annotation of the bookmark that ends a streamed list."""

    initial_events_end: str | None = msgspec.field(name="k8s.io/initial-events-end", default=None)


class MarkMetadata(ObjectMetadata, frozen=True, gc=False, rename="camel"):
    """The metadata of a bookmark, the only event whose annotations are decoded."""

    annotations: Annotations | None = None


class TableRow(msgspec.Struct, frozen=True, gc=False):
    """A row of a bookmark's Table: it has the bookmark's metadata even if objects were excluded from the Table."""

    object: "Mark | None" = None


class Mark(EventObject, frozen=True, gc=False):
    """The object of a bookmark: a Table, a PartialObjectMetadata or an object with a revision and annotations only."""

    metadata: MarkMetadata
    rows: list[TableRow] | None = None

    @property
    def ends_list(self) -> bool:
        annotations = self.metadata.annotations
        if annotations is not None:
            return annotations.initial_events_end == "true"
        return any(row.object.ends_list for row in self.rows or () if row.object)


class Bookmark(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="BOOKMARK"):
    """Progress without a change: all events up to this revision have been sent."""

    object: Mark
    type: ClassVar[str] = "BOOKMARK"

    @property
    def ends_list(self) -> bool:
        """Return True if all objects of a streamed list have been sent."""
        return self.object.ends_list


class StatusCause(msgspec.Struct, frozen=True):
    """An entry of `Status.details.causes`."""

    reason: str | None = None
    field: str | None = None


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of `Status.details` that decide what to do."""

    causes: list[StatusCause] | None = None
    retry_after_seconds: int | None = None


class StatusMetadata(msgspec.Struct, frozen=True):
    """`Status.metadata`: the 410 for an expired continue token contains a new token."""

    continue_token: str | None = msgspec.field(name="continue", default=None)


class ApiStatus(msgspec.Struct, frozen=True):
    """A metav1.Status: why the apiserver refused a request or ended a watch."""

    metadata: StatusMetadata | None = None
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: Details | None = None

    @property
    def causes(self) -> frozenset[str]:
        """The reasons of the causes, e.g. `ResourceVersionTooLarge`."""
        return frozenset(cause.reason for cause in self._causes if cause.reason)

    @property
    def fields(self) -> frozenset[str]:
        """The parameters that were rejected, e.g. `sendInitialEvents`."""
        return frozenset(cause.field for cause in self._causes if cause.field)

    @property
    def _causes(self) -> list[StatusCause]:
        return (self.details.causes if self.details else None) or []

    @property
    def continue_token(self) -> str | None:
        """The token that continues a list whose own token has expired, or None; `""` is no token."""
        return (self.metadata.continue_token if self.metadata else None) or None

    @property
    def retry_after(self) -> int | None:
        """The seconds to wait before the next request, or None."""
        return self.details.retry_after_seconds if self.details else None


class Error(msgspec.Struct, frozen=True, tag_field="type", tag="ERROR"):
    """The watch failed after it opened."""

    object: ApiStatus
    type: ClassVar[str] = "ERROR"


Change = Added | Modified | Deleted
Frame = Change | Bookmark | Error


class Frames(msgspec.Struct, frozen=True):
    """The events of a block in their order, and the number of lines that were not events."""

    events: list[Frame]
    garbage: int = 0


FrameDecoder = msgspec.json.Decoder[Frame]
FRAME: FrameDecoder = msgspec.json.Decoder(Frame)


def decode(block: bytes, decoder: FrameDecoder = FRAME) -> Frames:
    """Decode a block of whole lines. An invalid line does not affect the others; empty lines are skipped."""
    try:
        return Frames(decoder.decode_lines(block))
    except UNDECODABLE:
        return _decode_each(block.split(b"\n"), decoder)


class FrameReader:
    """Decodes the frames of one watch from chunks of any size; no line may be longer than `longest_line` bytes."""

    def __init__(self, longest_line: int = DEFAULT_LIMIT_BYTES, decoder: FrameDecoder = FRAME) -> None:
        self._lines = LineSplitter(longest_line)
        self._decoder = decoder

    @property
    def is_cut(self) -> bool:
        """Whether the watch would end within a line."""
        return self._lines.partial

    def feed(self, chunk: bytes) -> Frames | None:
        """Return the decoded lines that `chunk` completes, or None if it completes none.

        Raises:
            LineTooLong: a line is too long; close the watch.
        """
        block = self._lines.feed(chunk)
        return decode(block, self._decoder) if block else None


def _decode_each(lines: list[bytes], decoder: FrameDecoder) -> Frames:
    events: list[Frame] = []
    garbage = 0
    for line in lines:
        try:
            events += decoder.decode_lines(line)
        except UNDECODABLE:
            garbage += 1
    return Frames(events, garbage)


def decode_status(body: bytes) -> ApiStatus | None:
    """Decode the body of an HTTP error; return None if it is not a Status, such as `404 page not found`."""
    try:
        return decode_document(body, ApiStatus)
    except UNDECODABLE:
        return None
