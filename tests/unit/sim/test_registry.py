from random import Random

import pytest

from watchslo.sim.kinds import BUILT_IN, Object
from watchslo.sim.registry import Registry, merge
from watchslo.sim.status import StatusError

PODS = BUILT_IN["pods"]
REGISTRY = Registry(Random(7))


def made(**body: object) -> Object:
    return REGISTRY.create(PODS, "default", {"metadata": {"name": "a", "labels": {"x": "y"}}, **body}, wall=0.0)


def test_a_new_object_gets_what_the_server_knows() -> None:
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


def test_what_it_is_called_is_not_stored() -> None:
    assert set(made(kind="Pod", apiVersion="v1", spec={})) == {"metadata", "spec"}


def test_a_name_can_be_generated() -> None:
    obj = REGISTRY.create(BUILT_IN["nodes"], None, {"metadata": {"generateName": "n-"}}, wall=0.0)
    assert obj["metadata"]["name"].startswith("n-")
    assert len(obj["metadata"]["name"]) == 7


@pytest.mark.parametrize(
    ("body", "code"),
    [({}, 422), ({"metadata": {"name": ""}}, 422), ({"metadata": {"name": "a", "namespace": "b"}}, 400)],
)
def test_a_new_object_needs_a_name_and_the_right_namespace(body: Object, code: int) -> None:
    with pytest.raises(StatusError) as refused:
        REGISTRY.create(PODS, "default", body, wall=0.0)
    assert refused.value.code == code


def test_a_new_version_keeps_what_is_fixed() -> None:
    old = made(spec={})
    new = REGISTRY.replace(PODS, old, {"metadata": {"name": "b", "uid": "x"}, "spec": {"a": 1}})
    assert new["metadata"]["name"] == "a"
    assert new["metadata"]["uid"] == old["metadata"]["uid"]
    assert "labels" not in new["metadata"]
    assert new["metadata"]["generation"] == 2


def test_without_a_change_there_is_no_new_version() -> None:
    old = made(spec={})
    assert REGISTRY.replace(PODS, old, {"kind": "Pod", **old}) is old


def test_a_version_based_on_another_is_a_conflict() -> None:
    with pytest.raises(StatusError) as refused:
        REGISTRY.replace(PODS, made(), {"metadata": {"name": "a", "resourceVersion": "1"}})
    assert refused.value.code == 409


def test_merging_follows_rfc_7396() -> None:
    old = {"a": {"b": 1, "c": 2}, "d": [1, 2]}
    assert merge(old, {"a": {"b": None, "e": {"f": None}}, "d": [3]}) == {"a": {"c": 2, "e": {}}, "d": [3]}
    assert merge(old, 5) == 5
    assert old == {"a": {"b": 1, "c": 2}, "d": [1, 2]}
