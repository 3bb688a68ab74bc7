"""What selectors select, judged by the metadata of objects."""

import json

import msgspec
import pytest

from watchslo.watch.decode import Frames, ObjectChange, decode
from watchslo.watch.selection import SELECTABLE, SelectableMetadata, SelectedEvents, Selection, selection_of

WEB = SelectableMetadata(name="web-0", namespace="shop", labels={"app": "web", "tier": "1"})


def found(namespace: str | None, fields: str | None, labels: str | None) -> Selection:
    selection = selection_of(namespace, fields, labels)
    assert selection is not None
    return selection


@pytest.mark.parametrize(
    ("namespace", "fields", "selected"),
    [
        ("shop", None, True),
        ("other", None, False),
        (None, "metadata.name=web-0", True),
        (None, "metadata.name!=web-0", False),
        ("shop", "metadata.name=web-1", False),
        (None, "metadata.namespace=shop,metadata.name==web-0", True),
        (None, "metadata.name=system:web-0", False),
        (None, "metadata.namespace!=", True),
    ],
)
def test_selection_by_namespace_and_fields(namespace: str | None, fields: str | None, *, selected: bool) -> None:
    selection = found(namespace, fields, None)
    assert selection.exact
    assert selection.selects(WEB) is selected


MATCHING = (
    *("app=web", "app==web", "app = web , tier=1", "app!=db", "app", "!zone", "app in (db, web)"),
    *("app notin (db,cache)", "zone notin (a)", "app in (db,web),tier!=2,!zone"),
    "zone!=a",  # an absent label is not equal to anything
)
OTHERS = ("app=db", "app!=web", "zone", "! app", "app in (db),tier", "app notin (web)", "tier=")


@pytest.mark.parametrize("labels", MATCHING + OTHERS)
def test_selection_by_labels(labels: str) -> None:
    selection = found(None, None, labels)
    assert selection.exact
    assert selection.selects(WEB) is (labels in MATCHING)


@pytest.mark.parametrize(
    ("fields", "labels", "selected"),
    [("metadata.namespace=", None, True), (None, "zone=", False), (None, "tier=", True)],
)
def test_absent_field_is_empty_and_an_absent_label_is_not(
    fields: str | None, labels: str | None, *, selected: bool
) -> None:
    assert found(None, fields, labels).selects(SelectableMetadata(name="node-1", labels={"tier": ""})) is selected


@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        ("spec.nodeName=n,metadata.namespace=shop", None),
        ("metadata.namespace=shop", "tier>0"),
        ("status.phase=Running", "app=web"),
    ],
)
def test_what_cannot_be_judged_makes_a_selection_inexact(fields: str, labels: str | None) -> None:
    selection = found(None, fields, labels)
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
    selected = SelectedEvents(found("shop", None, None), {7: found(None, None, "app=web")})
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
