"""Encodes objects, lists, errors and watch events as protobuf, as an apiserver does for its built-in resources.

Metadata are encoded as apiservers do it. The rest of an object is one field of the same size as its JSON: no client of
the simulator decodes it. The module is pure.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

MAGIC = b"k8s\0"
_LONGEST_FRAME_BYTES = 2**32 - 1


def envelope(api_version: str, kind: str, encoded: bytes) -> bytes:
    """Return an encoded object as it stands alone or in an event: a `runtime.Unknown` after the magic bytes."""
    type_meta = _text(1, api_version) + _text(2, kind)
    return MAGIC + _field(1, type_meta) + _field(2, encoded) + _text(3, "") + _text(4, "")


def event(kind: str, obj: bytes) -> bytes:
    """Return the frame of a watch event, whose object is an `envelope`: a `WatchEvent` after its length."""
    return frame(_text(1, kind) + _field(2, _field(1, obj)))


def frame(content: bytes) -> bytes:
    """Return a frame of a watch: its length in four bytes, and its content."""
    return min(len(content), _LONGEST_FRAME_BYTES).to_bytes(4, "big") + content


def encode_object(obj: Mapping[str, Any]) -> bytes:
    """Return an object of any built-in kind: its metadata, and everything else as one field."""
    rest = {key: value for key, value in obj.items() if key not in ("metadata", "kind", "apiVersion")}
    return _field(1, _object_meta(obj["metadata"])) + (_field(2, msgspec.json.encode(rest)) if rest else b"")


def encode_list(metadata: Mapping[str, Any], objects: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a list of objects; `metadata` is the list's."""
    return _field(1, _list_meta(metadata)) + b"".join(_field(2, encode_object(obj)) for obj in objects)


def encode_status(document: Mapping[str, Any]) -> bytes:
    """Return a `Status`."""
    details = document.get("details")
    return b"".join((
        _field(1, _list_meta(document.get("metadata", {}))),
        _text(2, document.get("status", "")),
        _text(3, document.get("message", "")),
        _text(4, document.get("reason", "")),
        b"" if details is None else _field(5, _details(details)),
        _number(6, document.get("code", 0)),
    ))  # fmt: skip  # one row is one field


def _object_meta(metadata: Mapping[str, Any]) -> bytes:
    return b"".join((
        _text(1, metadata.get("name", "")),
        _text(2, metadata.get("generateName", "")),
        _text(3, metadata.get("namespace", "")),
        _text(4, ""),
        _text(5, metadata.get("uid", "")),
        _text(6, metadata.get("resourceVersion", "")),
        _number(7, metadata.get("generation", 0)),
        _field(8, _time(metadata.get("creationTimestamp"))),
        *(_field(11, _entry(*pair)) for pair in sorted(metadata.get("labels", {}).items())),
        *(_field(12, _entry(*pair)) for pair in sorted(metadata.get("annotations", {}).items())),
    ))  # fmt: skip  # as above


def _list_meta(metadata: Mapping[str, Any]) -> bytes:
    remaining = metadata.get("remainingItemCount")
    return b"".join((
        _text(1, ""),
        _text(2, metadata.get("resourceVersion", "")),
        _text(3, metadata.get("continue", "")),
        b"" if remaining is None else _number(4, remaining),
    ))  # fmt: skip  # as above


def _details(details: Mapping[str, Any]) -> bytes:
    return b"".join((
        _text(1, details.get("name", "")),
        _text(2, details.get("group", "")),
        _text(3, details.get("kind", "")),
        *(_field(4, _cause(cause)) for cause in details.get("causes", ())),
        _number(5, details.get("retryAfterSeconds", 0)),
        _text(6, details.get("uid", "")),
    ))  # fmt: skip  # as above


def _cause(cause: Mapping[str, str]) -> bytes:
    return _text(1, cause.get("reason", "")) + _text(2, cause.get("message", "")) + _text(3, cause.get("field", ""))


def _entry(key: str, value: str) -> bytes:
    return _text(1, key) + _text(2, value)


def _time(text: str | None) -> bytes:
    return _number(1, int(datetime.fromisoformat(text).timestamp())) + _number(2, 0) if text else b""


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _field(number: int, content: bytes) -> bytes:
    return _base128(number << 3 | 2) + _base128(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _base128(number << 3) + _base128(value % 2**64)


def _base128(number: int) -> bytes:
    """Return a number of 0 or more with seven bits in each byte, the lowest first; the last byte is less than 128."""
    encoded = bytearray()
    while number >= 128:  # noqa: PLR2004 - explained above
        encoded.append(number % 128 + 128)
        number //= 128
    return bytes((*encoded, number))
