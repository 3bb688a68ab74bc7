"""Objects, lists and watch events as bytes, in the three representations a client can ask for."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from watchslo.sim import status
from watchslo.sim.kinds import Kind, Object

_encoder = msgspec.json.Encoder()
_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


def dump(document: Any) -> bytes:
    """A document as Go's encoder writes it: compact, with a newline, `<`, `>` and `&` escaped."""
    encoded = _encoder.encode(document)
    for character, escaped in _ESCAPES:
        if character in encoded:
            encoded = encoded.replace(character, escaped)
    return encoded + b"\n"


_ESCAPES = ((b"<", rb"\u003c"), (b">", rb"\u003e"), (b"&", rb"\u0026"))


class Form(StrEnum):
    """What is sent for an object."""

    OBJECT = "object"
    METADATA = "metadata"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Representation:
    """How a client wants its objects; `include` is what a table's rows carry: None, Metadata or Object."""

    kind: Kind
    version: str
    form: Form
    include: str

    def plain(self, obj: Object) -> Object:
        """The object itself, under the version that was asked for."""
        return {"kind": self.kind.kind, "apiVersion": self.kind.api_version(self.version), **obj}

    def rows(self, objects: Sequence[Object], wall: float) -> list[dict[str, Any]]:
        return [
            {"cells": [column.cell(obj, wall) for column in self.kind.columns], "object": self._included(obj)}
            for obj in objects
        ]

    def table(self, objects: Sequence[Object], metadata: dict[str, Any], wall: float, *, head: bool) -> dict[str, Any]:
        """Objects as a table; only the first of a stream has a `head`, its column definitions."""
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": [column.definition() for column in self.kind.columns] if head else None,
            "rows": self.rows(objects, wall),
        }

    def document(self, obj: Object, wall: float, *, head: bool = True) -> Object:
        """One object, as a get or a watch event shows it."""
        if self.form is Form.OBJECT:
            return self.plain(obj)
        if self.form is Form.METADATA:
            return partial(obj)
        return self.table([obj], {"resourceVersion": obj["metadata"]["resourceVersion"]}, wall, head=head)

    def list_document(self, objects: Sequence[Object], metadata: dict[str, Any], wall: float) -> Object:
        """Many objects, as a list shows them; `metadata` is the list's."""
        if self.form is Form.TABLE:
            return self.table(objects, metadata, wall, head=True)
        if self.form is Form.METADATA:
            items = [partial(obj) for obj in objects]
            head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
            return {**head, "items": items or None}
        api_version = self.kind.api_version(self.version)
        head = {"kind": f"{self.kind.kind}List", "apiVersion": api_version}
        if self.kind.custom:  # their items say what they are, and their lists always have a continue
            metadata = {"continue": "", **metadata}
            return {**head, "metadata": metadata, "items": [self.plain(obj) for obj in objects]}
        return {**head, "metadata": metadata, "items": objects}

    def event(self, kind: str, obj: Object, wall: float, *, head: bool) -> bytes:
        """A line of a watch; `head` as for tables."""
        return dump({"type": kind, "object": self.document(obj, wall, head=head)})

    def bookmark(self, revision: int, wall: float, *, head: bool, end_of_initial: bool = False) -> bytes:
        """A line that says: everything up to this revision has been sent."""
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if end_of_initial:
            metadata["annotations"] = _INITIAL_EVENTS_END
        representation = self if not end_of_initial or self.include != "None" else self._with_metadata()
        return representation.event("BOOKMARK", {"metadata": metadata}, wall, head=head)

    def _with_metadata(self) -> "Representation":
        """The end of the initial events is said on a row's object, whatever was to be included."""
        return Representation(self.kind, self.version, self.form, "Metadata")

    def _included(self, obj: Object) -> Object | None:
        return {"None": lambda _obj: None, "Metadata": partial, "Object": self.plain}[self.include](obj)


def error_event(error: status.StatusError) -> bytes:
    """The line by which a watch says that it cannot go on."""
    return dump({"type": "ERROR", "object": error.document()})


def partial(obj: Object) -> Object:
    """An object's metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


_JSON = ("application/json", "application/*", "*/*")
_FORMS = {"PartialObjectMetadata": Form.METADATA, "PartialObjectMetadataList": Form.METADATA, "Table": Form.TABLE}
UNACCEPTABLE = (
    "only the following media types are accepted: "
    "application/json, application/yaml, application/vnd.kubernetes.protobuf"
)


def negotiate(accept: str, kind: Kind, version: str, include: str, *, listed: bool) -> Representation:
    """The first representation of an Accept header that can be had, for a list or for single objects.

    Raises:
        StatusError: 406 when there is none.
    """
    for media_type, parameters in accepted(accept):
        name = parameters.get("as", "")
        if media_type not in _JSON or (name and not _known(parameters)):
            continue
        if name.startswith("PartialObjectMetadata") and listed != name.endswith("List"):
            what = f"a list (*core.{kind.kind}List)" if listed else f"not a list (*core.{kind.kind})"
            raise status.not_acceptable(f"you requested {name}, but the requested object is {what}")
        return Representation(kind, version, _FORMS.get(name, Form.OBJECT), include)
    raise status.not_acceptable(UNACCEPTABLE)


def _known(parameters: dict[str, str]) -> bool:
    group, version = parameters.get("g"), parameters.get("v")
    return parameters["as"] in _FORMS and group == "meta.k8s.io" and version in ("v1", "v1beta1")


def accepted(accept: str) -> list[tuple[str, dict[str, str]]]:
    """The clauses of an Accept header in their order: media type and parameters."""
    clauses = []
    for clause in (accept or "*/*").split(","):
        media_type, *parameters = (part.strip() for part in clause.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        clauses.append((media_type, {name: value for name, _, value in pairs}))
    return clauses
