"""Which events the selectors of a watch select, by the metadata of their objects. Pure.

Label selectors, and field selectors by name and namespace, can be judged. Other fields are not in the metadata.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from watchslo.watch.decode import (
    Added,
    Bookmark,
    ChangedObject,
    Deleted,
    Error,
    FrameDecoder,
    Modified,
    ObjectChange,
    ObjectMetadata,
)

_COMMA = re.compile(r",(?![^()]*\))")
_REQUIREMENT = re.compile(
    r"\s*(?P<absent>!?)\s*(?P<key>[\w./-]+)\s*"
    r"(?:(?P<operator>==?|!=)\s*(?P<value>[\w.:-]*)\s*|(?<=\s)(?P<set>in|notin)\s*\((?P<values>[^()]*)\)\s*)?"
)
"""One requirement of a selector (apimachinery, `labels.Parse`); comparisons by `<` and `>` do not match."""
_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"


class SelectableMetadata(ObjectMetadata, frozen=True, gc=False, rename="camel"):
    """The metadata that selectors look at."""

    name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] | None = None


class SelectableObject(ChangedObject, frozen=True, gc=False):
    """An object with the metadata that selectors look at."""

    metadata: SelectableMetadata


class SelectableAdded(Added, frozen=True, gc=False, tag="ADDED"):
    """The object was created, or began to match the selector."""

    object: SelectableObject


class SelectableModified(Modified, frozen=True, gc=False, tag="MODIFIED"):
    """The object changed."""

    object: SelectableObject


class SelectableDeleted(Deleted, frozen=True, gc=False, tag="DELETED"):
    """The object was deleted, or stopped matching the selector; it is shown as it was before."""

    object: SelectableObject


SELECTABLE: FrameDecoder = msgspec.json.Decoder(
    SelectableAdded | SelectableModified | SelectableDeleted | Bookmark | Error
)
"""Decodes events with the metadata that selectors look at."""


@dataclass(frozen=True, slots=True)
class _SelectorTerm:
    """The value of `key` is one of `values`, or anything with None; `negated`, it is absent or another one."""

    key: str
    values: frozenset[str] | None
    negated: bool

    def holds(self, value: str | None) -> bool:
        is_met = value is not None and (self.values is None or value in self.values)
        return is_met is not self.negated


@dataclass(frozen=True, slots=True)
class Selection:
    """What the selectors of a watch select. If it is not `exact`, they also look at what cannot be judged."""

    exact: bool
    fields: tuple[_SelectorTerm, ...]
    labels: tuple[_SelectorTerm, ...]

    def selects(self, metadata: SelectableMetadata) -> bool:
        """Return False if a requirement that can be judged does not hold."""
        labels = metadata.labels or {}
        return all(term.holds(_field(metadata, term.key)) for term in self.fields) and all(
            term.holds(labels.get(term.key)) for term in self.labels
        )


def selection_of(
    namespace: str | None, fields: str | None, labels: str | None, *, is_exact: bool = True
) -> Selection | None:
    """Return what a namespace and selectors select, or None if nothing of it can be judged.

    Set `is_exact` to False if the watch has other selectors as well.
    """
    of_fields, of_labels = _parse(fields), _parse(labels)
    judged = tuple(term for term in of_fields if term is not None and term.key in (_NAME, _NAMESPACE))
    if namespace is not None:
        judged += (_SelectorTerm(_NAMESPACE, frozenset((namespace,)), negated=False),)
    known = tuple(term for term in of_labels if term is not None)
    if not judged and not known:
        return None
    is_whole = len(known) == len(of_labels) and len(judged) == len(of_fields) + (namespace is not None)
    return Selection(is_exact and is_whole, judged, known)


def _parse(selector: str | None) -> list[_SelectorTerm | None]:
    """Return the requirements of a selector, None for those of another form."""
    return [_parse_one(text) for text in _COMMA.split(selector)] if selector else []


def _parse_one(text: str) -> _SelectorTerm | None:
    found = _REQUIREMENT.fullmatch(text)
    if found is None:
        return None
    key, has_values = found["key"], bool(found["operator"] or found["set"])
    if not has_values:
        return _SelectorTerm(key, None, negated=bool(found["absent"]))
    if found["absent"]:
        return None
    listed = [found["value"]] if found["operator"] else found["values"].split(",")
    is_negated = "!=" in (found["operator"], found["set"]) or found["set"] == "notin"
    return _SelectorTerm(key, frozenset(map(str.strip, listed)), is_negated)


def _field(metadata: SelectableMetadata, key: str) -> str:
    """Return the value of a field, which is empty if it is absent, unlike a label."""
    return (metadata.name if key == _NAME else metadata.namespace) or ""


class _SelectionIndex:
    """Many selections by the values that they require, so that few are tried for an event."""

    def __init__(self, selections: Mapping[int, Selection]) -> None:
        self._fields: dict[str, dict[str, list[tuple[int, Selection]]]] = {}
        self._labels: dict[str, dict[str, list[tuple[int, Selection]]]] = {}
        self._others: list[tuple[int, Selection]] = []
        for number, selection in selections.items():
            self._add(number, selection)

    def _add(self, number: int, selection: Selection) -> None:
        for index, terms in ((self._fields, selection.fields), (self._labels, selection.labels)):
            for term in terms:
                if term.values is not None and not term.negated:
                    for value in term.values:
                        index.setdefault(term.key, {}).setdefault(value, []).append((number, selection))
                    return
        self._others.append((number, selection))

    def selecting(self, metadata: SelectableMetadata) -> Iterator[int]:
        """Yield the numbers of the selections that select an object."""
        labels = metadata.labels or {}
        found = [*self._others]
        for key, by_value in self._fields.items():
            found += by_value.get(_field(metadata, key), ())
        for key, by_value in self._labels.items():
            found += by_value.get(labels[key], ()) if key in labels else ()
        return (number for number, selection in found if selection.selects(metadata))


@dataclass(slots=True)
class SelectedEvents:
    """The events of one audit, by what selectors select: the `own` ones of the watch, and those of watches `within` it.

    `judged` are the revisions of all events, and `excluded` those that the own selectors do not select. `selected` has
    those that the selectors of each watch within select, by its number; deletes are not among them, because the object
    may have stopped matching before.
    """

    own: Selection | None
    within: Mapping[int, Selection]
    judged: set[int] = field(default_factory=set)
    excluded: set[int] = field(default_factory=set)
    selected: dict[int, set[int]] = field(default_factory=dict)
    _index: _SelectionIndex = field(init=False)

    def __post_init__(self) -> None:
        self._index = _SelectionIndex(self.within)

    def add(self, revision: int, event: ObjectChange) -> None:
        """Add an event that `SELECTABLE` decoded."""
        metadata = event.object.metadata
        assert isinstance(metadata, SelectableMetadata)
        self.judged.add(revision)
        if self.own is not None and not self.own.selects(metadata):
            self.excluded.add(revision)
        if not isinstance(event, Deleted):
            for number in self._index.selecting(metadata):
                self.selected.setdefault(number, set()).add(revision)
