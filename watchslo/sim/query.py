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
        decode_continue(options.continue_token)  # what is no token is refused first
        raise status.bad_request("specifying resource version is not allowed when using continue")
    return revision


def watch_revision(options: Options) -> int:
    """The revision a watch starts after, 0 for none.

    Raises:
        StatusError: 500 for what is no number.
    """
    return _revision(options.revision, status.internal)


_MATCH = "resourceVersionMatch"
_Cause = tuple[str, str, str]


def _forbidden(field: str, message: str) -> _Cause:
    return ("FieldValueForbidden", f"Forbidden: {message}", field)


def _unsupported(match: str, supported: str) -> _Cause:
    return ("FieldValueNotSupported", f'Unsupported value: "{match}": supported values: {supported}', _MATCH)


def check_options(options: Options, *, watch_list: bool) -> None:
    """Apply the rules that options have among themselves; `watch_list` is the feature gate of that name.

    Raises:
        StatusError: 422 with a cause for each rule that is broken.
    """
    rules = _watch_rules(options, watch_list) if options.watch else _list_rules(options)
    causes = [cause for broken, cause in rules if broken]
    if causes:
        raise status.invalid("ListOptions", causes, group="meta.k8s.io")


def _watch_rules(options: Options, watch_list: bool) -> list[tuple[bool, _Cause]]:  # noqa: FBT001 - a gate
    """In kube-apiserver's order (ValidateListOptions in apimachinery)."""
    initial, match = options.initial_events is not None, options.match
    gate = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
    alone = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    return [
        (
            initial and match != "NotOlderThan",
            _forbidden(_MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        ),
        (initial and not watch_list, _forbidden("sendInitialEvents", gate)),
        (bool(match) and not initial, _forbidden(_MATCH, alone)),
        (match not in ("", "NotOlderThan"), _unsupported(match, '"NotOlderThan"')),
        _beside_continue(options),
    ]


def _list_rules(options: Options) -> list[tuple[bool, _Cause]]:
    match, revision = options.match, options.revision
    return [
        (
            bool(match and not revision),
            _forbidden(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ),
        _beside_continue(options),
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


def _beside_continue(options: Options) -> tuple[bool, _Cause]:
    message = "resourceVersionMatch is forbidden when continue is provided"
    return bool(options.match and options.continue_token), _forbidden(_MATCH, message)


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
