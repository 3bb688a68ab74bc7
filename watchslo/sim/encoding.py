"""Encodes objects, lists and watch events as JSON, in the three forms that a client can request, or as protobuf.

The module is pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import msgspec

from watchslo.sim import protobuf, status
from watchslo.sim.kinds import Object, ResourceKind

_CELL = "unknown"
"""The content of all cells except names, about as long as real ones: clients of the simulator read none."""
_encoder = msgspec.json.Encoder()
_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


def dump(document: Any) -> bytes:
    """Encode a document as Go's encoder does: compact, with a newline, and with `<`, `>` and `&` escaped."""
    encoded = _encoder.encode(document)
    for character, escaped in _ESCAPES:
        if character in encoded:
            encoded = encoded.replace(character, escaped)
    return encoded + b"\n"


_ESCAPES = ((b"<", rb"\u003c"), (b">", rb"\u003e"), (b"&", rb"\u0026"))


class ObjectForm(StrEnum):
    """The form in which objects are sent."""

    OBJECT = "object"
    METADATA = "metadata"
    TABLE = "table"


JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True, slots=True)
class ObjectEncoder:
    """Encodes objects of a kind in the requested form; `include` (None or Metadata) is the content of rows.

    With `protobuf`, answers and events are protobuf and not JSON; the simulator has it for whole objects only.
    """

    kind: ResourceKind
    form: ObjectForm
    include: str
    protobuf: bool = False

    @property
    def media_type(self) -> str:
        """The type of an answer that is not a watch."""
        return PROTOBUF if self.protobuf else JSON

    @property
    def watch_type(self) -> str:
        """The type of a watch."""
        return f"{PROTOBUF};stream=watch" if self.protobuf else JSON

    def plain(self, obj: Object) -> Object:
        """Return the object with its kind and API version."""
        return {"kind": self.kind.kind, "apiVersion": self.kind.api_version, **obj}

    def _row(self, obj: Object) -> dict[str, Any]:
        cells = [obj["metadata"].get("name", ""), *[_CELL] * (len(self.kind.columns) - 1)]
        return {"cells": cells, "object": None if self.include == "None" else partial(obj)}

    def table(self, objects: Sequence[Object], metadata: dict[str, Any], *, head: bool) -> dict[str, Any]:
        """Return objects as a table; those of an answer have a `head`, the column definitions."""
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": [_column(name) for name in self.kind.columns] if head else None,
            "rows": [self._row(obj) for obj in objects],
        }

    def document(self, obj: Object, *, head: bool) -> Object:
        """Return the document of one object for a get or a watch event."""
        if self.form is ObjectForm.OBJECT:
            return self.plain(obj)
        if self.form is ObjectForm.METADATA:
            return partial(obj)
        return self.table([obj], {"resourceVersion": obj["metadata"]["resourceVersion"]}, head=head)

    def body(self, obj: Object) -> bytes:
        """Return the body of an answer with one object."""
        return self._enveloped(obj) if self.protobuf else dump(self.document(obj, head=True))

    def list_body(self, objects: Sequence[Object], metadata: dict[str, Any]) -> bytes:
        """Return the body of a list; `metadata` is the list's."""
        if self.protobuf:
            return self._envelope(f"{self.kind.kind}List", protobuf.encode_list(metadata, objects))
        return dump(self.list_document(objects, metadata))

    def list_document(self, objects: Sequence[Object], metadata: dict[str, Any]) -> Object:
        """Return the document of a list; `metadata` is the list's."""
        if self.form is ObjectForm.TABLE:
            return self.table(objects, metadata, head=True)
        if self.form is ObjectForm.METADATA:
            items = [partial(obj) for obj in objects]
            head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
            return {**head, "items": items or None}
        head = {"kind": f"{self.kind.kind}List", "apiVersion": self.kind.api_version}
        return {**head, "metadata": metadata, "items": objects}

    def event(self, kind: str, obj: Object) -> bytes:
        """Return the line, or the frame, of a watch event."""
        if self.protobuf:
            return protobuf.event(kind, self._enveloped(obj))
        return dump({"type": kind, "object": self.document(obj, head=False)})

    def initial_events_end(self, revision: int) -> bytes:
        """Return the line of the bookmark that ends the initial events: the watch has sent all up to this revision."""
        metadata = {"resourceVersion": str(revision), "annotations": _INITIAL_EVENTS_END}
        encoder = replace(self, include="Metadata")  # in a Table, the annotation needs it
        return encoder.event("BOOKMARK", {"metadata": metadata})

    def error_event(self, error: status.StatusError) -> bytes:
        """Return the line, or the frame, of an error event, after which a watch ends."""
        if self.protobuf:
            return protobuf.event("ERROR", error_body(error, PROTOBUF))
        return dump({"type": "ERROR", "object": error.document()})

    def stray(self, line: bytes) -> bytes:
        """Return a line that a fault sends as the watch carries it: in protobuf, a whole line is a whole frame."""
        return protobuf.frame(line) if self.protobuf and line.endswith(b"\n") else line

    def _enveloped(self, obj: Object) -> bytes:
        return self._envelope(self.kind.kind, protobuf.encode_object(obj))

    def _envelope(self, kind: str, encoded: bytes) -> bytes:
        return protobuf.envelope(self.kind.api_version, kind, encoded)


def _column(name: str) -> dict[str, Any]:
    return {"name": name, "type": "string", "format": "", "description": "", "priority": 0}


def error_body(error: status.StatusError, media_type: str = JSON) -> bytes:
    """Return the body of a refusal."""
    document = error.document()
    if media_type == PROTOBUF:
        return protobuf.envelope("v1", "Status", protobuf.encode_status(document))
    return dump(document)


def error_type(accept: str) -> str:
    """Return the media type of a refusal: that of the first supported clause of the Accept header, or JSON."""
    supported = (name for name, _ in parse_accept(accept) if name in _JSON or name == PROTOBUF)
    return PROTOBUF if next(supported, JSON) == PROTOBUF else JSON


def partial(obj: Object) -> Object:
    """Return the PartialObjectMetadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


_JSON = ("application/json", "application/*", "*/*")
_FORMS = {
    "PartialObjectMetadata": ObjectForm.METADATA,
    "PartialObjectMetadataList": ObjectForm.METADATA,
    "Table": ObjectForm.TABLE,
}
_UNACCEPTABLE = (
    "only the following media types are accepted: "
    "application/json, application/yaml, application/vnd.kubernetes.protobuf"
)


def negotiate(accept: str, kind: ResourceKind, include: str) -> ObjectEncoder:
    """Return the encoder for the first supported clause of an Accept header.

    Raises:
        StatusError: 406 if no clause is supported.
    """
    for media_type, parameters in parse_accept(accept):
        name = parameters.get("as", "")
        if media_type == PROTOBUF and not name:
            return ObjectEncoder(kind, ObjectForm.OBJECT, include, protobuf=True)
        if media_type not in _JSON or (name and not _is_known_form(parameters)):
            continue
        return ObjectEncoder(kind, _FORMS.get(name, ObjectForm.OBJECT), include)
    raise status.not_acceptable(_UNACCEPTABLE)


def _is_known_form(parameters: dict[str, str]) -> bool:
    group, version = parameters.get("g"), parameters.get("v")
    return parameters["as"] in _FORMS and group == "meta.k8s.io" and version in ("v1", "v1beta1")


def parse_accept(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Return the clauses of an Accept header in order, each as media type and parameters."""
    clauses = []
    for clause in (accept or "*/*").split(","):
        media_type, *parameters = (part.strip() for part in clause.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        clauses.append((media_type, {name: value for name, _, value in pairs}))
    return clauses
