"""The base of all documents of the API, how they are decoded, and how a part is made from a reading. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from math import isfinite
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from watchslo.documents import decode_document
from watchslo.errors import UNDECODABLE

P = TypeVar("P", bound="ApiPart")
Convert = Callable[[Any], Any]
Time = Annotated[datetime, msgspec.Meta(tz=True)]


class ApiPart(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """A part of an answer: camelCase in JSON as in Kubernetes, times as RFC 3339, durations in seconds.

    An unknown value, and an infinite bound, is null. A reader ignores fields that it does not know, and what an older
    daemon does not send has a default.
    """


@dataclass(frozen=True, slots=True)
class From:
    """Where a field is read from: the path of an attribute of the reading, and what turns its value into the field."""

    path: str
    convert: Convert | None = None


class UnreadableError(Exception):
    """An answer is not the document of a daemon, or of an unknown version of the API."""


def decode(body: bytes, form: type[P]) -> P:
    """Return a document of a daemon without its odd entries; raises UnreadableError."""
    try:
        return decode_document(body, form)
    except UNDECODABLE:
        raise UnreadableError from None


def stated(**schema: Any) -> msgspec.Meta:
    """Return what the schema says of the values of this version; a reader accepts those of newer daemons, too."""
    return msgspec.Meta(extra_json_schema=schema)


def one_of(values: type[Enum]) -> msgspec.Meta:
    """Return that a text is one of these values."""
    return stated(enum=[member.value for member in values])


def part_of(form: type[P], reading: object, **given: object) -> P:
    """Return the part that shows a reading: attributes by name or by `From`, except for the fields that are given.

    Times of readings are Unix seconds, and their infinite values become None.
    """
    return _maker(form, tuple(given))(reading, given)  # type: ignore[no-any-return]


@cache
def _maker(form: type[ApiPart], given: tuple[str, ...]) -> Callable[[Any, dict[str, object]], Any]:
    """Return a function that makes parts of this form from readings and the given fields."""
    hints = get_type_hints(form, include_extras=True)
    fields = [(name, _getter(name, hints[name])) for name in form.__struct_fields__ if name not in given]

    def make(reading: object, given: dict[str, object]) -> Any:
        return form(**{name: get(reading) for name, get in fields}, **given)

    return make


def _getter(name: str, hint: Any) -> Convert:
    """Return what reads a field from a reading."""
    declared = next(
        (annotation for annotation in getattr(hint, "__metadata__", ()) if isinstance(annotation, From)), From(name)
    )
    get, convert = attrgetter(declared.path), declared.convert or _convert(hint)
    return (lambda reading: convert(get(reading))) if convert else get


def _convert(hint: Any) -> Convert | None:
    """Return what turns a value of a reading into this type; None if nothing has to."""
    outer, arguments = get_origin(hint), get_args(hint)
    if outer is Annotated:
        return _convert(arguments[0])
    if outer in (Union, UnionType):
        return _optional(next(argument for argument in arguments if argument is not type(None)))
    if outer is tuple:
        return _each(_convert(arguments[0]))
    return _values(_convert(arguments[1])) if outer is dict else _single(hint)


def _optional(inner: Any) -> Convert | None:
    if inner is float:
        return lambda value: value if value is not None and isfinite(value) else None
    convert = _convert(inner)
    return convert and (lambda value: None if value is None else convert(value))


def _each(convert: Convert | None) -> Convert:
    return (lambda values: tuple(map(convert, values))) if convert else tuple


def _values(convert: Convert | None) -> Convert | None:
    return convert and (lambda values: {key: convert(value) for key, value in values.items()})


def _single(hint: Any) -> Convert | None:
    if hint is datetime:
        return lambda wall: datetime.fromtimestamp(wall, UTC)
    if isinstance(hint, type) and issubclass(hint, ApiPart):
        make = _maker(hint, ())
        return lambda reading: make(reading, {})
    return None
