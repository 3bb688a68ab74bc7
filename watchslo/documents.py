"""Decodes JSON documents from elsewhere entry by entry: an odd entry of a list costs only itself. Pure.

`msgspec` refuses a whole document for a single wrong value, so a document that it refuses is read again: entries that
do not have their form are left out, and `null` is an empty list. A list of which no entry has its form is odd itself,
so that a document of another kind does not become an empty one. A list of numbers is a column next to others, so none
of them is left out.
"""

from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec

from watchslo.errors import UNDECODABLE

T = TypeVar("T")
_NUMBERS = frozenset({int, float})
Document = bytes | bytearray | msgspec.Raw


def decode_document(body: Document, form: type[T]) -> T:
    """Return a document in this form without its odd entries; raises one of UNDECODABLE."""
    try:
        return msgspec.json.decode(body, type=form)
    except UNDECODABLE:
        return without_odd_entries(body, form)


def without_odd_entries(body: Document, form: type[T]) -> T:
    """Return what is left of a document with odd entries; raises one of UNDECODABLE."""
    return _converted(_pruned(msgspec.json.decode(body), form), form)


def _pruned(value: Any, form: Any) -> Any:
    """Return a value without the entries of its lists, at any depth, that do not have their form."""
    outer, arguments = get_origin(form), get_args(form)
    for alternative in _alternatives(form):
        value = _pruned(value, alternative)
    if outer is list or (outer is tuple and arguments[1:] == (...,)):
        return _pruned_list(value, arguments[0])
    if isinstance(form, type) and issubclass(form, msgspec.Struct) and isinstance(value, dict):
        for field in msgspec.structs.fields(form):
            if field.encode_name in value:
                value[field.encode_name] = _pruned(value[field.encode_name], field.type)
    return value


def _alternatives(form: Any) -> tuple[Any, ...]:
    return get_args(form) if get_origin(form) in (Union, UnionType) else ()


def _pruned_list(value: Any, form: Any) -> Any:
    """Return a list without its odd entries; the value itself if it is no list, or has none that is right."""
    if value is None:
        return []
    if not isinstance(value, list) or not _NUMBERS.isdisjoint((form, *_alternatives(form))):
        return value
    kept = [entry for entry in (_pruned(entry, form) for entry in value) if _has(entry, form)]
    return kept or value


def _has(value: Any, form: Any) -> bool:
    try:
        _converted(value, form)
    except UNDECODABLE:
        return False
    return True


def _converted(value: Any, form: type[T]) -> T:
    """Return a value in this form, by way of JSON: only so do parts that are kept as JSON have it."""
    return msgspec.json.decode(msgspec.json.encode(value), type=form)
