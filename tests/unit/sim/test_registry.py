from random import Random

import pytest

from watchslo.sim.kinds import BUILT_IN, Object
from watchslo.sim.registry import Registry, merge
from watchslo.sim.status import StatusError

PODS = BUILT_IN["pods"]
REGISTRY = Registry(Random(7))


def made(**body: object) -> Object:
    return REGISTRY.create(PODS, "default", {"metadata": {"name": "a", "labels": {"x": "y"}}, **body}, wall=0.0)


def test_create_sets_server_side_metadata() -> None:
    metadata = made(kind="Pod", apiVersion="v1", spec={})["metadata"]
    assert list(metadata) == [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "labels",
    ]
    assert (metadata["namespace"], metadata["generation"]) == ("default", 1)
    assert metadata["creationTimestamp"] == "1970-01-01T00:00:00Z"
    assert metadata["uid"] != made()["metadata"]["uid"]


def test_create_drops_kind_and_api_version() -> None:
    assert set(made(kind="Pod", apiVersion="v1", spec={})) == {"metadata", "spec"}


def test_create_generates_a_name() -> None:
    obj = REGISTRY.create(BUILT_IN["nodes"], None, {"metadata": {"generateName": "n-"}}, wall=0.0)
    assert obj["metadata"]["name"].startswith("n-")
    assert len(obj["metadata"]["name"]) == 7


@pytest.mark.parametrize(
    ("body", "code"),
    [({}, 422), ({"metadata": {"name": ""}}, 422), ({"metadata": {"name": "a", "namespace": "b"}}, 400)],
)
def test_create_refuses_a_missing_name_or_another_namespace(body: Object, code: int) -> None:
    with pytest.raises(StatusError) as refused:
        REGISTRY.create(PODS, "default", body, wall=0.0)
    assert refused.value.code == code


def test_replace_keeps_immutable_metadata() -> None:
    old = made(spec={})
    new = REGISTRY.replace(PODS, old, {"metadata": {"name": "b", "uid": "x"}, "spec": {"a": 1}})
    assert new["metadata"]["name"] == "a"
    assert new["metadata"]["uid"] == old["metadata"]["uid"]
    assert "labels" not in new["metadata"]
    assert new["metadata"]["generation"] == 2


def test_replace_without_a_change_returns_the_old_object() -> None:
    old = made(spec={})
    assert REGISTRY.replace(PODS, old, {"kind": "Pod", **old}) is old


def test_replace_of_another_version_is_a_conflict() -> None:
    with pytest.raises(StatusError) as refused:
        REGISTRY.replace(PODS, made(), {"metadata": {"name": "a", "resourceVersion": "1"}})
    assert refused.value.code == 409


def test_merge_follows_rfc_7396() -> None:
    old = {"a": {"b": 1, "c": 2}, "d": [1, 2]}
    assert merge(old, {"a": {"b": None, "e": {"f": None}}, "d": [3]}) == {"a": {"c": 2, "e": {}}, "d": [3]}
    assert merge(old, 5) == 5
    assert old == {"a": {"b": 1, "c": 2}, "d": [1, 2]}
