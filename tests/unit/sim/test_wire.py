import json
from typing import Any

import pytest

from watchslo.sim import discovery, status
from watchslo.sim.kinds import BUILT_IN, Object, custom_kind
from watchslo.sim.status import StatusError
from watchslo.sim.wire import Form, Representation, dump, error_event, negotiate

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

CONFIGMAPS = BUILT_IN["configmaps"]
WALL = 1_800_000_000.0
OBJECT: Object = {
    "metadata": {"name": "w1", "resourceVersion": "224", "creationTimestamp": "2027-01-15T07:59:58Z"},
    "data": {"k": "v"},
}
WIDGETS = custom_kind(
    {
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": name, "served": True} for name in ("v1alpha1", "v1", "v1beta1")],
        }
    }
)


def as_json(line: bytes) -> Any:
    assert line.endswith(b"\n")
    return json.loads(line)


def of(form: Form, include: str = "None") -> Representation:
    return Representation(CONFIGMAPS, "v1", form, include)


def test_go_escapes_what_html_would_mistake() -> None:
    assert dump({"a": "<b> & c"}) == rb'{"a":"\u003cb\u003e \u0026 c"}' + b"\n"


def test_an_event_in_three_forms() -> None:
    assert as_json(of(Form.OBJECT).event("ADDED", OBJECT, WALL, head=False)) == {
        "type": "ADDED",
        "object": {"kind": "ConfigMap", "apiVersion": "v1", **OBJECT},
    }
    assert as_json(of(Form.METADATA).event("DELETED", OBJECT, WALL, head=False)) == {
        "type": "DELETED",
        "object": {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": OBJECT["metadata"],
        },
    }
    assert of(Form.TABLE).event("MODIFIED", OBJECT, WALL, head=False) == (
        b'{"type":"MODIFIED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1",'
        b'"metadata":{"resourceVersion":"224"},"columnDefinitions":null,'
        b'"rows":[{"cells":["w1",1,"2s"],"object":null}]}}\n'
    )


def test_only_a_head_says_what_the_columns_are() -> None:
    table = as_json(of(Form.TABLE).event("ADDED", OBJECT, WALL, head=True))["object"]
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]


def test_rows_include_what_was_asked_for() -> None:
    assert of(Form.TABLE, "Metadata").rows([OBJECT], WALL)[0]["object"]["kind"] == "PartialObjectMetadata"
    assert of(Form.TABLE, "Object").rows([OBJECT], WALL)[0]["object"]["kind"] == "ConfigMap"


def test_bookmarks() -> None:
    assert of(Form.TABLE).bookmark(226, WALL, head=False) == (
        b'{"type":"BOOKMARK","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1",'
        b'"metadata":{"resourceVersion":"226"},"columnDefinitions":null,'
        b'"rows":[{"cells":["",0,"\\u003cunknown\\u003e"],"object":null}]}}\n'
    )
    assert as_json(of(Form.METADATA).bookmark(226, WALL, head=False))["object"]["metadata"] == {
        "resourceVersion": "226"
    }


@pytest.mark.parametrize("form", list(Form))
def test_the_end_of_the_initial_events_is_annotated(form: Form) -> None:
    bookmark = as_json(of(form).bookmark(226, WALL, head=False, end_of_initial=True))["object"]
    carrier = bookmark["rows"][0]["object"] if form is Form.TABLE else bookmark
    assert carrier["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_lists_in_three_forms() -> None:
    metadata = {"resourceVersion": "7"}
    assert of(Form.OBJECT).list_document([OBJECT], metadata, WALL) == {
        "kind": "ConfigMapList",
        "apiVersion": "v1",
        "metadata": metadata,
        "items": [OBJECT],
    }
    assert of(Form.METADATA).list_document([], metadata, WALL) == {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "items": None,
    }
    table = of(Form.TABLE).list_document([OBJECT], metadata, WALL)
    assert (table["metadata"], len(table["rows"])) == (metadata, 1)


def test_custom_resources_say_what_they_are_in_lists() -> None:
    listed = Representation(WIDGETS, "v1beta1", Form.OBJECT, "None").list_document([OBJECT], {}, WALL)
    assert listed["metadata"] == {"continue": ""}
    assert listed["items"][0]["apiVersion"] == "example.com/v1beta1"


def test_an_error_in_a_stream_is_a_status() -> None:
    assert error_event(status.too_old(5, 236)) == (
        b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        b'"message":"too old resource version: 5 (236)","reason":"Expired","code":410}}\n'
    )


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form.OBJECT),
        ("*/*", Form.OBJECT),
        (TABLE, Form.TABLE),
        (METADATA, Form.METADATA),
        ("application/vnd.kubernetes.protobuf, application/json", Form.OBJECT),
        ("application/json;as=Table;g=meta.k8s.io;v=v9,application/json", Form.OBJECT),
    ],
)
def test_the_first_form_that_can_be_had_is_taken(accept: str, form: Form) -> None:
    assert negotiate(accept, CONFIGMAPS, "v1", "None", listed=False).form is form


def test_lists_of_metadata_have_a_name_of_their_own() -> None:
    assert negotiate(METADATA_LIST, CONFIGMAPS, "v1", "None", listed=True).form is Form.METADATA
    for accept, listed in ((METADATA, True), (METADATA_LIST, False), ("text/html", True)):
        with pytest.raises(StatusError) as refused:
            negotiate(accept, CONFIGMAPS, "v1", "None", listed=listed)
        assert refused.value.code == 406


def test_discovery_names_the_preferred_version_first() -> None:
    assert discovery.group([WIDGETS], "example.com") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "example.com",
        "versions": [
            {"groupVersion": f"example.com/{version}", "version": version} for version in ("v1", "v1beta1", "v1alpha1")
        ],
        "preferredVersion": {"groupVersion": "example.com/v1", "version": "v1"},
    }
    assert discovery.group([WIDGETS], "example.org") is None


def test_the_resources_of_a_version_come_with_their_subresources() -> None:
    listed = discovery.resource_list(BUILT_IN.values(), "apps", "v1")
    assert listed is not None
    assert [entry["name"] for entry in listed["resources"]][:2] == ["deployments", "deployments/status"]
    assert discovery.resource_list(BUILT_IN.values(), "apps", "v9") is None


def test_a_stale_group_is_named_without_its_resources() -> None:
    document = discovery.aggregated([WIDGETS], "v2", core=False, stale={"example.com"})
    assert [version["freshness"] for version in document["items"][0]["versions"]] == ["Stale"] * 3
    fresh = discovery.aggregated([WIDGETS], "v2", core=False, stale=())
    assert fresh["items"][0]["versions"][0]["resources"][0]["singularResource"] == "widget"


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        (discovery.AGGREGATED.format("v2"), "v2"),
        (f"{discovery.AGGREGATED.format('v9')},application/json", None),
        ("", None),
    ],
)
def test_aggregated_discovery_is_for_those_who_ask(accept: str, version: str | None) -> None:
    assert discovery.aggregated_version(accept, ("v2",)) == version


def test_who_accepts_nothing_that_is_offered_gets_nothing() -> None:
    with pytest.raises(LookupError):
        discovery.aggregated_version("text/html", ("v2",))
