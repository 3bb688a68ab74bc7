"""Watch lines to values: the type and the few fields of metadata that we need, whatever the representation.

Tables, partial metadata and plain objects all carry `metadata.resourceVersion` in the same place, so one struct serves
them; msgspec skips the rest without building it.
"""

from typing import ClassVar

import msgspec

NEWEST_INT64 = 2**63 - 1  # etcd counts revisions in an int64
_MOST_DIGITS = len(str(NEWEST_INT64))


def parse_revision(text: str | None) -> int | None:
    """Return the revision that a resourceVersion stands for, or None where it is no such number (KEP-5504 permits)."""
    if not text or len(text) > _MOST_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    revision = int(text)
    return revision if revision <= NEWEST_INT64 else None


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Of an object or of its Table; a Table has neither creation timestamp nor uid."""

    resource_version: str | None = None
    creation_timestamp: str | None = None
    uid: str | None = None


class Object(msgspec.Struct, frozen=True, gc=False):
    """What changed: a Table, a PartialObjectMetadata or the object itself."""

    metadata: Metadata


class Change(msgspec.Struct, frozen=True, gc=False, tag_field="type"):
    """An event that carries a revision."""

    object: Object
    type: ClassVar[str]


class Added(Change, frozen=True, gc=False, tag="ADDED"):
    """The object began to exist, or to match the selector."""

    type: ClassVar[str] = "ADDED"


class Modified(Change, frozen=True, gc=False, tag="MODIFIED"):
    """The object changed."""

    type: ClassVar[str] = "MODIFIED"


class Deleted(Change, frozen=True, gc=False, tag="DELETED"):
    """The object ceased to exist, or to match the selector; it carries the revision of that change."""

    type: ClassVar[str] = "DELETED"


class Annotations(msgspec.Struct, frozen=True, gc=False):
    """The one that ends a streamed list."""

    initial_events_end: str | None = msgspec.field(name="k8s.io/initial-events-end", default=None)


class MarkMetadata(Metadata, frozen=True, gc=False, rename="camel"):
    """Of a bookmark: only here are annotations decoded."""

    annotations: Annotations | None = None


class Row(msgspec.Struct, frozen=True, gc=False):
    """Of a bookmark's Table: it carries the metadata of the bookmark even where no objects are asked for."""

    object: "Mark | None" = None


class Mark(Object, frozen=True, gc=False):
    """A Table, a PartialObjectMetadata or an object, empty but for its revision and annotations."""

    metadata: MarkMetadata
    rows: list[Row] | None = None

    @property
    def ends_list(self) -> bool:
        annotations = self.metadata.annotations
        if annotations is not None:
            return annotations.initial_events_end == "true"
        return any(row.object.ends_list for row in self.rows or () if row.object)


class Bookmark(Change, frozen=True, gc=False, tag="BOOKMARK"):
    """No change: all up to this revision has been sent."""

    object: Mark
    type: ClassVar[str] = "BOOKMARK"

    @property
    def ends_list(self) -> bool:
        """Whether all objects of a streamed list have come."""
        return self.object.ends_list


class Cause(msgspec.Struct, frozen=True):
    """One of `Status.details.causes`."""

    reason: str | None = None
    field: str | None = None


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """`Status.details`, as far as it says what to do."""

    causes: list[Cause] | None = None
    retry_after_seconds: int | None = None


class StatusMetadata(msgspec.Struct, frozen=True):
    """`Status.metadata`: the 410 of an old continue token comes with a new one."""

    continue_token: str | None = msgspec.field(name="continue", default=None)


class Status(msgspec.Struct, frozen=True):
    """A metav1.Status: why the apiserver does not do what it was asked."""

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
        """The parameters that are objected to, e.g. `sendInitialEvents`."""
        return frozenset(cause.field for cause in self._causes if cause.field)

    @property
    def _causes(self) -> list[Cause]:
        return (self.details.causes if self.details else None) or []

    @property
    def continue_token(self) -> str | None:
        """Where to go on with a list whose token has expired; `""` is none."""
        return (self.metadata.continue_token if self.metadata else None) or None

    @property
    def retry_after(self) -> int | None:
        """Seconds the apiserver asks us to wait."""
        return self.details.retry_after_seconds if self.details else None


class Error(msgspec.Struct, frozen=True, tag_field="type", tag="ERROR"):
    """The watch failed after it had been opened."""

    object: Status
    type: ClassVar[str] = "ERROR"


Frame = Added | Modified | Deleted | Bookmark | Error


class Frames(msgspec.Struct, frozen=True):
    """The events of a block in their order, and how many of its lines were none."""

    events: list[Frame]
    garbage: int = 0


_FRAME = msgspec.json.Decoder(Frame)
_STATUS = msgspec.json.Decoder(Status)
_UNDECODABLE = (ValueError, RecursionError)  # malformed, of another shape, not UTF-8; nested a thousand deep


def decode(block: bytes) -> Frames:
    """Decode a block of whole lines. A line that is no event costs only itself; empty lines are nothing."""
    try:
        return Frames(_FRAME.decode_lines(block))
    except _UNDECODABLE:
        return _decode_each(block.split(b"\n"))


def _decode_each(lines: list[bytes]) -> Frames:
    events: list[Frame] = []
    garbage = 0
    for line in lines:
        try:
            events += _FRAME.decode_lines(line)
        except _UNDECODABLE:
            garbage += 1
    return Frames(events, garbage)


def decode_status(body: bytes) -> Status | None:
    """Decode the body of an HTTP error; None where it is no Status, as `404 page not found` is none."""
    try:
        return _STATUS.decode(body)
    except _UNDECODABLE:
        return None
