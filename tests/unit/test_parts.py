"""The parts of a divided watch: every object belongs to exactly one of them."""

import re
from collections.abc import Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from watchslo.config.sections.watch import WatchConfig
from watchslo.model import Resource

PODS = Resource("", "v1", "pods", namespaced=True)
NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,3}[a-z0-9])?", fullmatch=True)
VALUES = st.lists(NAMES, min_size=1, max_size=6, unique=True)
LABELS = st.dictionaries(st.sampled_from(["app", "team"]), NAMES | st.just(""))
UIDS = st.uuids(version=4).map(str)
TERM = re.compile(r"(?P<key>[^!=]+)(?P<operator>!?=)(?P<value>[^!=]*)")
ONE_LABEL = re.compile(r"(?P<key>\w+)(=(?P<value>[\w-]+)| notin \((?P<values>[\w,-]+)\))")
ONE_RANGE = re.compile(r"shardRange\(object\.metadata\.uid, '(?P<start>0x[0-9a-f]+)', '(?P<end>0x[0-9a-f]+)'\)")


def divided(by: str, **keys: object) -> tuple[WatchConfig, ...]:
    watch = {key: keys.pop(key) for key in ("name", "fieldSelector", "labelSelector") if key in keys}
    return WatchConfig.model_validate({"resource": "pods", "divide": {"by": by, **keys}, **watch}).parts


def field_matches(selector: str, fields: Mapping[str, str]) -> bool:
    """Return whether an apiserver selects an object with these fields; an absent field is empty."""
    terms = [TERM.fullmatch(term) for term in selector.split(",")]
    assert all(terms), selector
    return all(
        (fields.get(term["key"], "") == term["value"]) is (term["operator"] == "=")
        for term in terms
        if term is not None
    )


def label_matches(selector: str, labels: Mapping[str, str]) -> bool:
    """Return whether an apiserver selects an object with these labels: `notin` includes objects without the label."""
    found = ONE_LABEL.fullmatch(selector)
    assert found is not None, selector
    if found["value"] is not None:
        return labels.get(found["key"]) == found["value"]
    return labels.get(found["key"]) not in found["values"].split(",")


def fnv1a(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def range_of(part: WatchConfig) -> range:
    found = ONE_RANGE.fullmatch(part.shard_selector or "")
    assert found is not None, part.shard_selector
    return range(int(found["start"], 16), int(found["end"], 16))


@given(VALUES, NAMES)
def test_every_namespace_belongs_to_one_part(values: list[str], namespace: str) -> None:
    for wanted in (namespace, *values):
        fields = {"metadata.namespace": wanted}
        owners = [
            part for part in divided("namespace", values=values) if field_matches(part.field_selector or "", fields)
        ]
        assert len(owners) == 1
        assert (owners[0].label == "pods/rest") is (wanted not in values)


@given(VALUES, LABELS)
@example(["web"], {})
@example(["web"], {"app": ""})
def test_every_set_of_labels_belongs_to_one_part(values: list[str], labels: dict[str, str]) -> None:
    for wanted in (labels, *(labels | {"app": value} for value in values)):
        parts = divided("label", key="app", values=values)
        owners = [part for part in parts if label_matches(part.label_selector or "", wanted)]
        assert len(owners) == 1
        assert (owners[0].label == "pods/rest") is (wanted.get("app") not in values)


@given(VALUES, NAMES | st.just(""))
def test_every_value_of_a_field_belongs_to_one_part(values: list[str], node: str) -> None:
    for wanted in (node, *values):
        parts = divided("field", key="spec.nodeName", values=values)
        owners = [part for part in parts if field_matches(part.field_selector or "", {"spec.nodeName": wanted})]
        assert len(owners) == 1


@given(st.integers(2, 1000), UIDS)
def test_every_uid_belongs_to_one_range(count: int, uid: str) -> None:
    assert len([part for part in divided("shardSelector", parts=count) if fnv1a(uid) in range_of(part)]) == 1


@given(st.integers(2, 1000))
def test_ranges_of_similar_size_cover_all_hashes(count: int) -> None:
    ranges = [range_of(part) for part in divided("shardSelector", parts=count)]
    assert [found.start for found in ranges] == [0, *(found.stop for found in ranges[:-1])]
    assert ranges[-1].stop == 2**64
    assert max(map(_size, ranges)) - min(map(_size, ranges)) <= 1


def _size(found: range) -> int:
    return found.stop - found.start  # too large for len()


def test_parts_are_numbered_after_the_watch() -> None:
    assert [part.label for part in divided("shardSelector", parts=3)] == ["pods/1", "pods/2", "pods/3"]
    assert [part.label for part in divided("namespace", values=["ci"], name="mine")] == ["mine/1", "mine/rest"]


def test_parts_keep_the_selectors_of_the_watch() -> None:
    parts = divided("label", key="app", values=["web"], labelSelector="team=a", fieldSelector="spec.nodeName=b")
    assert [part.label_selector for part in parts] == ["team=a,app=web", "team=a,app notin (web)"]
    assert {part.field_selector for part in parts} == {"spec.nodeName=b"}


def test_watch_that_is_not_divided_is_its_only_part() -> None:
    watch = WatchConfig(resource="pods")
    assert watch.parts == (watch,)


@pytest.mark.parametrize(
    ("keys", "measures"),
    [
        ({"by": "namespace", "values": ["ci"]}, True),
        ({"by": "shardSelector", "parts": 2}, True),
        ({"by": "label", "key": "app", "values": ["web"]}, False),
        ({"by": "field", "key": "spec.nodeName", "values": ["node-1"]}, False),
    ],
)
def test_creation_is_measured_if_no_object_can_move_between_parts(keys: dict[str, object], measures: bool) -> None:  # noqa: FBT001
    assert {part.measures_creation(PODS) for part in divided(**keys)} == {measures}  # type: ignore[arg-type]
