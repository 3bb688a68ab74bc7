"""Parses the query of a request: list options, continue tokens and selectors. It refuses only what it cannot read.

The module is pure.
"""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from watchslo.sim import status
from watchslo.sim.kinds import Object, ResourceKind
from watchslo.sim.store import StoredChange


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The ListOptions of a request. `revision` is 0 for any revision, however old, and None if none is requested."""

    watch: bool
    revision: int | None
    match: str
    limit: int
    continue_token: str
    timeout: int
    bookmarks: bool
    initial_events: bool
    include: str

    @property
    def is_exact(self) -> bool:
        """True if a list requests an exact revision; a limit with a revision implies it (legacy rule)."""
        return self.match == "Exact" or bool(self.limit and self.revision and not self.match)


def parse_options(query: Mapping[str, str]) -> ListOptions:
    """Parse the query of a list or a watch.

    Raises:
        StatusError: 400 for an invalid number.
    """
    return ListOptions(
        watch=_boolean(query, "watch"),
        revision=_integer(query, "resourceVersion"),
        match=query.get("resourceVersionMatch", ""),
        limit=_integer(query, "limit") or 0,
        continue_token=query.get("continue", ""),
        timeout=_integer(query, "timeoutSeconds") or 0,
        bookmarks=_boolean(query, "allowWatchBookmarks"),
        initial_events=_boolean(query, "sendInitialEvents"),
        include=query.get("includeObject") or "Metadata",
    )


def _boolean(query: Mapping[str, str], name: str) -> bool:
    """Parse a boolean as apimachinery does: all values but 0 and false are true."""
    return query.get(name, "0").lower() not in ("0", "false")


def _integer(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise status.bad_request(f"{name}: {text!r} is not a number")
    return int(text)


def encode_continue(revision: int, last_key: str) -> str:
    """Return the token that continues after a key."""
    return base64.urlsafe_b64encode(msgspec.json.encode((revision, last_key + "\0"))).decode()


def decode_continue(token: str) -> tuple[int, str]:
    """Return the revision of a continue token, and the key to continue at.

    Raises:
        StatusError: 400 for an invalid token.
    """
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token), type=tuple[int, str])
    except ValueError as problem:  # the base of binascii and msgspec errors
        raise status.bad_request(f"invalid continue token: {problem}") from None


Predicate = Callable[[Object], bool]

_SEPARATOR = re.compile(r",(?![^(]*\))")
"""A comma outside parentheses."""
_REQUIREMENT = re.compile(r"(?P<key>[^\s!=,()]+)\s*(?P<operator>!=|==?|\bin\b|\bnotin\b)\s*\(?(?P<values>[^()]*)\)?")


def _predicates(selector: str, value_at: Callable[[Object, str], object]) -> list[Predicate]:
    """Return one predicate for each requirement of a selector; `value_at` returns the value at a key of an object."""
    return [_predicate(text, value_at) for text in _SEPARATOR.split(selector) if text]


def _predicate(text: str, value_at: Callable[[Object, str], object]) -> Predicate:
    match = _REQUIREMENT.fullmatch(text.strip())
    if not match:
        raise status.bad_request(f"unable to parse requirement: {text!r}")
    key, is_negated = match["key"], match["operator"] in ("!=", "notin")
    values = frozenset(value.strip() for value in match["values"].split(","))
    return lambda obj: (value_at(obj, key) in values) != is_negated


def _label(obj: Object, key: str) -> object:
    return obj["metadata"].get("labels", {}).get(key)


def _field(obj: Object, path: str) -> object:
    """Return the value at a path; an empty text if there is none."""
    value: Any = obj
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return "" if value is None else value


@dataclass(frozen=True, slots=True)
class ObjectSelector:
    """Selects objects of a resource by namespace (empty for all) and by selectors."""

    namespace: str
    key: str
    """The only key that can match; empty if there may be others, as there are for one name in all namespaces."""
    predicates: Sequence[Predicate]

    @property
    def prefix(self) -> str:
        return f"{self.namespace}/" if self.namespace else ""

    def matches(self, key: str, obj: Object) -> bool:
        return key.startswith(self.prefix) and all(predicate(obj) for predicate in self.predicates)

    def transition(self, change: StoredChange) -> str | None:
        """Return the type of the event that a watch with this selector receives; None for no event."""
        if not self.predicates:
            return change.type if change.key.startswith(self.prefix) else None
        before = change.previous is not None and self.matches(change.key, change.previous)
        after = change.type != "DELETED" and self.matches(change.key, change.object)
        return _TRANSITIONS[before, after]


_TRANSITIONS = {(False, False): None, (False, True): "ADDED", (True, True): "MODIFIED", (True, False): "DELETED"}
_ONE_NAME = re.compile(r"(?:^|,)metadata\.name==?([^,]+)")


def parse_selector(kind: ResourceKind, namespace: str | None, query: Mapping[str, str]) -> ObjectSelector:
    """Parse the namespace and the selectors of a request.

    Raises:
        StatusError: 400 for an invalid selector.
    """
    fields, labels = query.get("fieldSelector", ""), query.get("labelSelector", "")
    name = _ONE_NAME.search(fields)
    key = kind.object_key(namespace, name[1]) if name and (namespace or not kind.namespaced) else ""
    return ObjectSelector(namespace or "", key, [*_predicates(fields, _field), *_predicates(labels, _label)])
