"""What selectors select, judged by the metadata of objects."""

import json

import msgspec
import pytest

from watchslo.watch.decode import Frames, ObjectChange, decode
from watchslo.watch.selection import SELECTABLE, SelectableMetadata, SelectedEvents, selection_of

WEB = SelectableMetadata(name="web-0", namespace="shop", labels={"app": "web", "tier": "1"})


@pytest.mark.parametrize(
    ("namespace", "fields", "labels", "selected"),
    [
        ("shop", None, None, True),
        ("other", None, None, False),
        (None, "metadata.name=web-0", None, True),
        (None, "metadata.name!=web-0", None, False),
        ("shop", "metadata.name=web-1", None, False),
        (None, "metadata.namespace=shop,metadata.name==web-0", None, True),
        (None, "metadata.name=system:web-0", None, False),
        (None, "metadata.namespace!=", None, True),
        (None, None, "app=web", True),
        (None, None, "app==web", True),
        (None, None, "app = web , tier=1", True),
        (None, None, "app=db", False),
        (None, None, "app!=db", True),
        (None, None, "app!=web", False),
        (None, None, "zone!=a", True),  # an absent label is not equal to anything
        (None, None, "app", True),
        (None, None, "zone", False),
        (None, None, "!zone", True),
        (None, None, "! app", False),
        (None, None, "app in (db, web)", True),
        (None, None, "app in (db),tier", False),
        (None, None, "app notin (db,cache)", True),
        (None, None, "zone notin (a)", True),
        (None, None, "app notin (web)", False),
        (None, None, "tier=", False),
        (None, None, "app in (db,web),tier!=2,!zone", True),
    ],
)
def test_selection_by_namespace_fields_and_labels(
    namespace: str | None, fields: str | None, labels: str | None, *, selected: bool
) -> None:
    selection = selection_of(namespace, fields, labels)
    assert selection is not None
    assert selection.exact
    assert selection.selects(WEB) is selected


@pytest.mark.parametrize(
    ("fields", "labels", "selected"),
    [("metadata.namespace=", None, True), (None, "zone=", False), (None, "tier=", True)],
)
def test_absent_field_is_empty_and_an_absent_label_is_not(
    fields: str | None, labels: str | None, *, selected: bool
) -> None:
    selection = selection_of(None, fields, labels)
    assert selection is not None
    assert selection.selects(SelectableMetadata(name="node-1", labels={"tier": ""})) is selected


@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        ("spec.nodeName=n,metadata.namespace=shop", None),
        ("metadata.namespace=shop", "tier>0"),
        ("status.phase=Running", "app=web"),
    ],
)
def test_what_cannot_be_judged_makes_a_selection_inexact(fields: str, labels: str | None) -> None:
    selection = selection_of(None, fields, labels)
    assert selection is not None
    assert not selection.exact
    assert selection.selects(WEB)


@pytest.mark.parametrize(
    ("fields", "labels"),
    [(None, None), ("spec.nodeName=n", None), (None, "tier>0"), (None, "!app=web"), (r"metadata.name=a\,b", None)],
)
def test_nothing_to_judge_is_no_selection(fields: str | None, labels: str | None) -> None:
    assert selection_of(None, fields, labels) is None


def test_another_selector_makes_a_selection_inexact() -> None:
    selection = selection_of("shop", None, None, is_exact=False)
    assert selection is not None
    assert not selection.exact


def line(kind: str, revision: int, **metadata: object) -> bytes:
    return json.dumps({"type": kind, "object": {"metadata": {"resourceVersion": str(revision), **metadata}}}).encode()


def read(selected: SelectedEvents, *lines: bytes) -> Frames:
    frames = decode(b"\n".join(lines), SELECTABLE)
    for event in frames.events:
        assert isinstance(event, ObjectChange)
        assert event.object.metadata.resource_version is not None
        selected.add(int(event.object.metadata.resource_version), event)
    return frames


def test_events_are_sorted_by_what_selectors_select() -> None:
    own, web = selection_of("shop", None, None), selection_of(None, None, "app=web")
    assert own is not None
    assert web is not None
    selected = SelectedEvents(own, {7: web})
    frames = read(
        selected,
        line("ADDED", 11, namespace="shop", labels={"app": "web"}),
        line("MODIFIED", 12, namespace="shop", labels={"app": "db"}),
        b"not an event",
        line("DELETED", 13, namespace="shop", labels={"app": "web"}),
        line("MODIFIED", 14, namespace="other"),
    )
    assert frames.garbage == 1
    assert selected.judged == {11, 12, 13, 14}
    assert selected.excluded == {14}
    assert selected.selected == {7: {11}}  # a delete may be that of an object which stopped matching before


def test_each_of_many_selections_is_found() -> None:
    """They are indexed by the values that they require."""
    wanted = [
        selection_of(namespace, fields, labels)
        for namespace in (None, "shop", "other")
        for fields in (None, "metadata.name=web-0", "metadata.name!=web-0")
        for labels in (None, "app=web", "app in (db,web),tier", "app notin (web)", "!zone", "zone=a")
    ]
    selections = {number: selection for number, selection in enumerate(wanted) if selection is not None}
    objects = [
        {"name": name, "namespace": namespace, "labels": labels}
        for name in ("web-0", "web-1")
        for namespace in ("shop", "other")
        for labels in (None, {"app": "web"}, {"app": "web", "tier": "1"}, {"app": "db", "zone": "a"})
    ]
    selected = SelectedEvents(None, selections)
    read(selected, *(line("MODIFIED", revision, **made) for revision, made in enumerate(objects, 1)))
    for number, selection in selections.items():
        expected = {
            revision
            for revision, made in enumerate(objects, 1)
            if selection.selects(msgspec.convert(made, SelectableMetadata))
        }
        assert selected.selected.get(number, set()) == expected, selection


def test_watch_without_selectors_excludes_nothing() -> None:
    selected = SelectedEvents(None, {})
    read(selected, line("ADDED", 11, namespace="shop"))
    assert (selected.judged, selected.excluded, selected.selected) == ({11}, set(), {})
