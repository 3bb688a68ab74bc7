"""What a request asks for: list options with their rules, and selectors."""

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from watchslo.sim import status
from watchslo.sim.kinds import Kind, Object, at
from watchslo.sim.store import Change


@dataclass(frozen=True, slots=True)
class Options:
    """ListOptions as they came: strings where an apiserver tells absent from zero."""

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
        """Whether any revision will do, however old."""
        return self.revision == "0"


def parse_options(query: Mapping[str, str]) -> Options:
    """Read the query of a list or a watch.

    Raises:
        StatusError: 400 for a number that is none.
    """
    return Options(
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
    """As apimachinery reads it: whatever is not 0 or false is true."""
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
    """The number in a resourceVersion, 0 for none; what is no number is refused, by lists and watches differently."""
    if revision and not (revision.isascii() and revision.isdigit()):
        problem = (
            f'resourceVersion: Invalid value: "{revision}": strconv.ParseUint: parsing "{revision}": invalid syntax'
        )
        raise refuse(problem)
    return int(revision or 0)


def list_revision(options: Options) -> int:
    """The revision a list asks for, 0 for none.

    Raises:
        StatusError: 400 for what is no number, or for one beside a continue token, which has its own.
    """
    revision = _revision(options.revision, lambda why: status.bad_request(f"invalid resource version: {why}"))
    if revision and options.continue_token:
        raise status.bad_request("specifying resource version is not allowed when using continue")
    return revision


def watch_revision(options: Options) -> int:
    """The revision a watch starts after, 0 for none.

    Raises:
        StatusError: 500 for what is no number.
    """
    return _revision(options.revision, status.internal)


_FORBIDDEN = "FieldValueForbidden"
_MATCHES = ("", "Exact", "NotOlderThan")


def _forbidden(field: str, message: str) -> tuple[str, str, str]:
    return (_FORBIDDEN, f"Forbidden: {message}", field)


def check_options(options: Options, *, watch_list: bool) -> None:
    """Apply the rules that options have among themselves; `watch_list` is the feature gate of that name.

    Raises:
        StatusError: 422 with a cause for each rule that is broken.
    """
    causes = _watch_problems(options, watch_list) if options.watch else _list_problems(options)
    if causes:
        raise status.invalid("ListOptions", causes, group="meta.k8s.io")


def _watch_problems(options: Options, watch_list: bool) -> list[tuple[str, str, str]]:  # noqa: FBT001 - a gate
    field = "resourceVersionMatch"
    if options.initial_events is None:
        message = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        return [_forbidden(field, message)] if options.match else []
    if not watch_list:
        message = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        return [_forbidden("sendInitialEvents", message)]
    if options.match != "NotOlderThan":
        return [_forbidden(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")]
    return []


def _list_problems(options: Options) -> list[tuple[str, str, str]]:
    field = "resourceVersionMatch"
    causes = []
    if options.match not in _MATCHES:
        supported = '"Exact", "NotOlderThan", ""'
        message = f'Unsupported value: "{options.match}": supported values: {supported}'
        causes.append(("FieldValueNotSupported", message, field))
    elif options.match and not options.revision:
        causes.append(_forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
    elif options.match == "Exact" and options.revision == "0":
        causes.append(_forbidden(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if options.initial_events is not None:
        causes.append(_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return causes


class _Token(msgspec.Struct):
    """What a continue token says: the revision of the list (-1: any), and where to go on."""

    v: str
    rv: int
    start: str


def encode_continue(revision: int, last_key: str) -> str:
    """The token to go on after a key."""
    token = msgspec.json.encode(_Token("meta.k8s.io/v1", revision, last_key + "\0"))
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def decode_continue(token: str) -> tuple[int, str]:
    """The revision of a continue token, -1 for an inconsistent one, and the key to start at.

    Raises:
        StatusError: 400 for what is no token.
    """
    try:
        parsed = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)), type=_Token)
    except ValueError as problem:  # binascii and msgspec errors both are
        raise status.bad_request(f"invalid continue token: continue key is not valid: {problem}") from None
    return parsed.rv, parsed.start


Predicate = Callable[[Object], bool]

_REQUIREMENTS = (
    re.compile(r"(?P<key>[^\s!=,()]+)\s*(?P<operator>==|=|!=)\s*(?P<values>[^\s!=,()]*)"),
    re.compile(r"(?P<key>[^\s!=,()]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)"),
    re.compile(r"(?P<operator>!?)\s*(?P<key>[^\s!=,()]+)(?P<values>)"),
)

_OPERATORS: dict[str, Callable[[str | None, frozenset[str]], bool]] = {
    "=": lambda value, wanted: value in wanted,
    "==": lambda value, wanted: value in wanted,
    "in": lambda value, wanted: value in wanted,
    "!=": lambda value, wanted: value not in wanted,
    "notin": lambda value, wanted: value not in wanted,
    "": lambda value, _wanted: value is not None,
    "!": lambda value, _wanted: value is None,
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


def _field_predicate(kind: Kind, text: str) -> Predicate:
    match = _FIELD.fullmatch(text)
    if not match:
        raise status.bad_request(f"invalid selector: {text!r}; can't understand {text!r}")
    if match["key"] not in (*_COMMON_FIELDS, *kind.fields):
        raise status.bad_request(_unknown_field(kind, match["key"]))
    value, wanted, negated = at(match["key"]), match["value"], match["operator"] == "!="
    return lambda obj: (value(obj, 0.0) == wanted) != negated


def _unknown_field(kind: Kind, field: str) -> str:
    if kind.fields:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects of a resource are meant: a namespace (empty for all) and selectors."""

    namespace: str
    name: str
    """The only name that can match, where the selectors say so."""
    predicates: tuple[Predicate, ...]

    @property
    def prefix(self) -> str:
        return f"{self.namespace}/" if self.namespace else ""

    @property
    def selective(self) -> bool:
        return bool(self.predicates)

    def matches(self, key: str, obj: Object) -> bool:
        return key.startswith(self.prefix) and all(predicate(obj) for predicate in self.predicates)

    def transition(self, change: Change) -> str | None:
        """The type of the event that watchers of this scope get; None for none."""
        if not self.predicates:
            return change.type if change.key.startswith(self.prefix) else None
        before = change.previous is not None and self.matches(change.key, change.previous)
        after = change.type != "DELETED" and self.matches(change.key, change.object)
        return _TRANSITIONS[before, after]


_TRANSITIONS = {(False, False): None, (False, True): "ADDED", (True, True): "MODIFIED", (True, False): "DELETED"}


def parse_scope(kind: Kind, namespace: str | None, query: Mapping[str, str]) -> Scope:
    """The scope of a request.

    Raises:
        StatusError: 400 for a selector that cannot be read or is not supported.
    """
    fields = [text for text in query.get("fieldSelector", "").split(",") if text]
    labels = [text for text in _COMMA_OUTSIDE_PARENTHESES.split(query.get("labelSelector", "")) if text]
    names = [match["value"] for text in fields if (match := _EXACT_NAME.fullmatch(text))]
    predicates = [_field_predicate(kind, text) for text in fields] + [_label_predicate(text) for text in labels]
    return Scope(namespace or "", names[0] if names else "", tuple(predicates))


_EXACT_NAME = re.compile(r"metadata\.name==?(?P<value>.+)")
