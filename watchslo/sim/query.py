"""Parses the query of a request: list options with their validation rules, continue tokens and selectors.

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
    """The ListOptions of a request. Fields are strings where an apiserver distinguishes absent from zero."""

    watch: bool
    revision: str
    match: str
    limit: int
    continue_token: str
    timeout: float | None
    bookmarks: bool
    initial_events: bool | None
    include: str

    @property
    def any_revision(self) -> bool:
        """True if the request accepts any revision, however old."""
        return self.revision == "0"


def parse_options(query: Mapping[str, str]) -> ListOptions:
    """Parse the query of a list or a watch.

    Raises:
        StatusError: 400 for an invalid number.
    """
    return ListOptions(
        watch=_boolean(query, "watch") or False,
        revision=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        limit=max(_integer(query, "limit") or 0, 0),
        continue_token=query.get("continue", ""),
        timeout=_integer(query, "timeoutSeconds"),
        bookmarks=_boolean(query, "allowWatchBookmarks") or False,
        initial_events=_boolean(query, "sendInitialEvents"),
        include=query.get("includeObject") or "Metadata",
    )


def _boolean(query: Mapping[str, str], name: str) -> bool | None:
    """Parse a boolean as apimachinery does: all values but 0 and false are true."""
    return None if name not in query else query[name].lower() not in ("0", "false")


def _integer(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _revision(revision: str, refuse: Callable[[str], status.StatusError]) -> int:
    """Return the number in a resourceVersion, or 0 if it is empty; `refuse` makes the error for an invalid one."""
    if revision and not (revision.isascii() and revision.isdigit()):
        problem = (
            f'resourceVersion: Invalid value: "{revision}": strconv.ParseUint: parsing "{revision}": invalid syntax'
        )
        raise refuse(problem)
    return int(revision or 0)


def list_revision(options: ListOptions) -> int:
    """Return the revision that a list requests, or 0 for none.

    Raises:
        StatusError: 400 for an invalid number, or for a revision together with a continue token, which has its own.
    """
    revision = _revision(options.revision, lambda why: status.bad_request(f"invalid resource version: {why}"))
    if revision and options.continue_token:
        decode_continue(options.continue_token)  # an invalid token is refused first
        raise status.bad_request("specifying resource version is not allowed when using continue")
    return revision


def watch_revision(options: ListOptions) -> int:
    """Return the revision after which a watch starts, or 0 for none.

    Raises:
        StatusError: 500 for an invalid number.
    """
    return _revision(options.revision, status.internal)


_MATCH = "resourceVersionMatch"
_Cause = tuple[str, str, str]


def _forbidden(field: str, message: str) -> _Cause:
    return ("FieldValueForbidden", f"Forbidden: {message}", field)


def _unsupported(match: str, supported: str) -> _Cause:
    return ("FieldValueNotSupported", f'Unsupported value: "{match}": supported values: {supported}', _MATCH)


def check_options(options: ListOptions) -> None:
    """Validate the combination of options.

    Raises:
        StatusError: 422 with a cause for each violated rule.
    """
    rules = _watch_rules(options) if options.watch else _list_rules(options)
    causes = [cause for violated, cause in rules if violated]
    if causes:
        raise status.invalid("ListOptions", causes, group="meta.k8s.io")


def _watch_rules(options: ListOptions) -> list[tuple[bool, _Cause]]:
    """Return each rule's violation and cause, in kube-apiserver's order (ValidateListOptions in apimachinery)."""
    initial, match = options.initial_events is not None, options.match
    alone = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    return [
        (
            initial and match != "NotOlderThan",
            _forbidden(_MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        ),
        (bool(match) and not initial, _forbidden(_MATCH, alone)),
        (match not in ("", "NotOlderThan"), _unsupported(match, '"NotOlderThan"')),
        _match_with_continue(options),
    ]


def _list_rules(options: ListOptions) -> list[tuple[bool, _Cause]]:
    match, revision = options.match, options.revision
    return [
        (
            bool(match and not revision),
            _forbidden(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ),
        _match_with_continue(options),
        (match not in ("", "Exact", "NotOlderThan"), _unsupported(match, '"Exact", "NotOlderThan", ""')),
        (
            match == "Exact" and revision == "0",
            _forbidden(_MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'),
        ),
        (
            options.initial_events is not None,
            _forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"),
        ),
    ]


def _match_with_continue(options: ListOptions) -> tuple[bool, _Cause]:
    message = "resourceVersionMatch is forbidden when continue is provided"
    return bool(options.match and options.continue_token), _forbidden(_MATCH, message)


class _ContinueToken(msgspec.Struct):
    """The content of a continue token: the list's revision (-1: any), and the key to continue at."""

    v: str
    rv: int
    start: str


def encode_continue(revision: int, last_key: str) -> str:
    """Return the token that continues after a key."""
    token = msgspec.json.encode(_ContinueToken("meta.k8s.io/v1", revision, last_key + "\0"))
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def decode_continue(token: str) -> tuple[int, str]:
    """Return the revision of a continue token (-1 for an inconsistent list) and the key to continue at.

    Raises:
        StatusError: 400 for an invalid token.
    """
    try:
        parsed = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)), type=_ContinueToken)
    except ValueError as problem:  # the base of binascii and msgspec errors
        raise status.bad_request(f"invalid continue token: continue key is not valid: {problem}") from None
    return parsed.rv, parsed.start


Predicate = Callable[[Object], bool]

_REQUIREMENTS = (
    re.compile(r"(?P<key>[^\s!=,()]+)\s*(?P<operator>==|=|!=)\s*(?P<values>[^\s!=,()]*)"),
    re.compile(r"(?P<key>[^\s!=,()]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)"),
    re.compile(r"(?P<operator>!?)\s*(?P<key>[^\s!=,()]+)(?P<values>)"),
)

_OPERATORS: dict[str, Callable[[str | None, frozenset[str]], bool]] = {
    "=": lambda value, values: value in values,
    "==": lambda value, values: value in values,
    "in": lambda value, values: value in values,
    "!=": lambda value, values: value not in values,
    "notin": lambda value, values: value not in values,
    "": lambda value, _values: value is not None,
    "!": lambda value, _values: value is None,
}


def _label_predicate(text: str) -> Predicate:
    match = next((found for pattern in _REQUIREMENTS if (found := pattern.fullmatch(text.strip()))), None)
    if not match:
        raise status.bad_request(f"unable to parse requirement: {text!r}")
    key, operator = match["key"], _OPERATORS[match["operator"]]
    values = frozenset(value.strip() for value in match["values"].split(","))
    return lambda obj: operator(obj["metadata"].get("labels", {}).get(key), values)


_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")
_FIELD = re.compile(r"(?P<key>[^=!]+)(?P<operator>==|!=|=)(?P<value>.*)")
_COMMON_FIELDS = ("metadata.name", "metadata.namespace")


def _field_predicate(kind: ResourceKind, text: str) -> Predicate:
    match = _FIELD.fullmatch(text)
    if not match:
        raise status.bad_request(f"invalid selector: {text!r}; can't understand {text!r}")
    if match["key"] not in (*_COMMON_FIELDS, *kind.fields):
        raise status.bad_request(_unknown_field(kind, match["key"]))
    keys, expected, negated = match["key"].split("."), match["value"], match["operator"] == "!="
    return lambda obj: (_value(obj, keys) == expected) != negated


def _value(obj: Any, keys: Sequence[str]) -> Any:
    """Return the value at a path; an empty text if there is none."""
    for key in keys:
        obj = obj.get(key) if isinstance(obj, Mapping) else None
    return "" if obj is None else obj


def _unknown_field(kind: ResourceKind, field: str) -> str:
    if kind.fields:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'


@dataclass(frozen=True, slots=True)
class ObjectSelector:
    """Selects objects of a resource by namespace (empty for all) and by selectors."""

    namespace: str
    key: str
    """The only key that can match; empty if there may be others, as there are for one name in all namespaces."""
    predicates: tuple[Predicate, ...]

    @property
    def prefix(self) -> str:
        return f"{self.namespace}/" if self.namespace else ""

    @property
    def has_predicates(self) -> bool:
        return bool(self.predicates)

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


def parse_selector(kind: ResourceKind, namespace: str | None, query: Mapping[str, str]) -> ObjectSelector:
    """Parse the namespace and the selectors of a request.

    Raises:
        StatusError: 400 for an invalid or unsupported selector.
    """
    fields = [text for text in query.get("fieldSelector", "").split(",") if text]
    labels = [text for text in _COMMA_OUTSIDE_PARENTHESES.split(query.get("labelSelector", "")) if text]
    names = [match["value"] for text in fields if (match := _EXACT_NAME.fullmatch(text))]
    predicates = [_field_predicate(kind, text) for text in fields] + [_label_predicate(text) for text in labels]
    one_key = names and (namespace or not kind.namespaced)
    return ObjectSelector(namespace or "", kind.object_key(namespace, names[0]) if one_key else "", tuple(predicates))


_EXACT_NAME = re.compile(r"metadata\.name==?(?P<value>.+)")
