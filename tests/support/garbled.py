"""Answers of apiservers as a defect on the way may change them: strategies of hypothesis, and an independent reader."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from watchslo.watch.decode import LARGEST_REVISION

DEEP = 20_000
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|\{\}|\[\]')
KEY = re.compile(rb'"\w+":')

ODD_VALUES = (
    b'"9223372036854775807"',
    b'"4611686018427387904"',
    b'"18446744073709551616"',
    b'"-1"',
    b'"1e3"',
    b'"7a"',
    b'""',
    b'"\\u0663"',
    b'"' + b"9" * 5_000 + b'"',
    b'"\xff\xfe"',
    b'"\\ud800"',
    b'"99999-12-31T23:59:59Z"',
    b'"0000-00-00T00:00:00Z"',
    b"9223372036854775807",
    b"9223372036854775808",
    b"-1",
    b"-9223372036854775809",
    b"9" * 400,
    b"9" * 5_000,
    b"1e400",
    b"0.5",
    b"NaN",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b'{"a":{}}',
    b"[null]",
    b"[" * DEEP + b"]" * DEEP,
    b'{"a":' * DEEP,
)
"""JSON values, and some that are none, that replace a value of an answer."""

EVENT_TYPES = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
WEB_PAGE = b"<html><body><h1>502 Bad Gateway</h1></body></html>"

Mutation = Callable[[DrawFn, bytes], bytes]


def flip(draw: DrawFn, body: bytes) -> bytes:
    place = draw(st.integers(0, max(len(body) - 1, 0)))
    return body[:place] + draw(st.binary(min_size=1, max_size=1)) + body[place + 1 :]


def cut(draw: DrawFn, body: bytes) -> bytes:
    return body[: draw(st.integers(0, len(body)))]


def drop(draw: DrawFn, body: bytes) -> bytes:
    place = draw(st.integers(0, len(body)))
    return body[:place] + body[place + draw(st.integers(1, 40)) :]


def insert(draw: DrawFn, body: bytes) -> bytes:
    place = draw(st.integers(0, len(body)))
    return body[:place] + draw(st.binary(max_size=8) | st.sampled_from(ODD_VALUES)) + body[place:]


def replacements(body: bytes) -> Iterator[bytes]:
    """Yield the answer with each of its values, and each of its keys, replaced by each odd value."""
    for token in TOKEN.finditer(body):
        for odd in ODD_VALUES:
            yield body[: token.start()] + odd + body[token.end() :]


def replace_value(draw: DrawFn, body: bytes) -> bytes:
    found = list(TOKEN.finditer(body))
    if not found:
        return body
    token = draw(st.sampled_from(found))
    return body[: token.start()] + draw(st.sampled_from(ODD_VALUES)) + body[token.end() :]


def repeat_key(draw: DrawFn, body: bytes) -> bytes:
    """Add a second value to a key, before or after the first one."""
    found = list(KEY.finditer(body))
    if not found:
        return body
    key = draw(st.sampled_from(found))
    place = draw(st.sampled_from([key.start(), *(end.start() for end in re.finditer(b"}", body))]))
    pair = key[0] + draw(st.sampled_from(ODD_VALUES))
    return body[:place] + (pair + b"," if place == key.start() else b"," + pair) + body[place:]


def replace_all(draw: DrawFn, _: bytes) -> bytes:
    return draw(st.sampled_from([WEB_PAGE, b"", b"[", b"{}", b"[]", b"null"]) | st.binary(max_size=200))


MUTATIONS: tuple[Mutation, ...] = (flip, cut, drop, insert, replace_value, replace_value, repeat_key, replace_all)


@st.composite
def garbled(draw: DrawFn, valid: bytes) -> bytes:
    """Return a valid answer after one to three mutations; now and then it is still valid."""
    body = valid
    for mutate in draw(st.lists(st.sampled_from(MUTATIONS), min_size=1, max_size=3)):
        body = mutate(draw, body)
    return body


def read_leniently(body: bytes, **how: Any) -> Any:
    """Return the JSON of an answer, decoded by another library than watchslo's; None if it is none."""
    try:
        return json.loads(body.decode(errors="replace"), strict=False, parse_int=_integer, **how)
    except (ValueError, RecursionError):
        return None


def revision_in(parsed: Any) -> int | None:
    """Return the revision in the metadata of a list or an object; None if it has none that a storage can have."""
    metadata = parsed.get("metadata") if isinstance(parsed, dict) else None
    return _revision(metadata.get("resourceVersion") if isinstance(metadata, dict) else None)


def may_be_an_event(line: bytes) -> bool:
    """Return True if a reader may take a line for an event of a possible revision, or for the end of its watch.

    Readers differ in which of several values of one key they take.
    """
    parsed = read_leniently(line, object_pairs_hook=list)
    kinds = [kind for kind in _values(parsed, "type") if kind in EVENT_TYPES]
    revisions = [
        text
        for seen in _values(parsed, "object")
        for metadata in _values(seen, "metadata")
        for text in _values(metadata, "resourceVersion")
        if _revision(text) is not None
    ]
    return "ERROR" in kinds or bool(kinds and revisions)


def _values(pairs: Any, key: str) -> list[Any]:
    """Return all values of a key of an object that was read as a list of pairs."""
    if not isinstance(pairs, list):
        return []
    return [pair[1] for pair in pairs if isinstance(pair, tuple) and pair[0] == key]


def _revision(text: Any) -> int | None:
    if not isinstance(text, str) or not re.fullmatch("[0-9]{1,19}", text):
        return None
    return int(text) if 0 < int(text) <= LARGEST_REVISION else None


def _integer(text: str) -> float:
    """Return an integer, or a float if Python refuses so many digits."""
    return int(text) if len(text) < sys.get_int_max_str_digits() else float(text)
