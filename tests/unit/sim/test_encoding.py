import json
from typing import Any

import pytest

from watchslo.sim import discovery, status
from watchslo.sim.encoding import PROTOBUF, ObjectEncoder, ObjectForm, dump, error_body, error_type, negotiate
from watchslo.sim.kinds import BUILT_IN, Object, custom_kind
from watchslo.sim.status import StatusError

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


def of(form: ObjectForm, include: str = "None") -> ObjectEncoder:
    return ObjectEncoder(CONFIGMAPS, "v1", form, include)


def test_dump_escapes_html_characters_as_go_does() -> None:
    assert dump({"a": "<b> & c"}) == rb'{"a":"\u003cb\u003e \u0026 c"}' + b"\n"


def test_event_is_encoded_in_three_forms() -> None:
    assert as_json(of(ObjectForm.OBJECT).event("ADDED", OBJECT, WALL, head=False)) == {
        "type": "ADDED",
        "object": {"kind": "ConfigMap", "apiVersion": "v1", **OBJECT},
    }
    assert as_json(of(ObjectForm.METADATA).event("DELETED", OBJECT, WALL, head=False)) == {
        "type": "DELETED",
        "object": {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": OBJECT["metadata"],
        },
    }
    assert of(ObjectForm.TABLE).event("MODIFIED", OBJECT, WALL, head=False) == (
        b'{"type":"MODIFIED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1",'
        b'"metadata":{"resourceVersion":"224"},"columnDefinitions":null,'
        b'"rows":[{"cells":["w1",1,"2s"],"object":null}]}}\n'
    )


def test_table_head_carries_column_definitions() -> None:
    table = as_json(of(ObjectForm.TABLE).event("ADDED", OBJECT, WALL, head=True))["object"]
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]


def test_rows_include_the_requested_object_form() -> None:
    assert of(ObjectForm.TABLE, "Metadata").rows([OBJECT], WALL)[0]["object"]["kind"] == "PartialObjectMetadata"
    assert of(ObjectForm.TABLE, "Object").rows([OBJECT], WALL)[0]["object"]["kind"] == "ConfigMap"


def test_bookmark_is_encoded_as_table_and_metadata() -> None:
    bookmark = {"metadata": {"resourceVersion": "226"}}
    assert of(ObjectForm.TABLE).event("BOOKMARK", bookmark, WALL, head=False) == (
        b'{"type":"BOOKMARK","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1",'
        b'"metadata":{"resourceVersion":"226"},"columnDefinitions":null,'
        b'"rows":[{"cells":["",0,"\\u003cunknown\\u003e"],"object":null}]}}\n'
    )
    assert as_json(of(ObjectForm.METADATA).event("BOOKMARK", bookmark, WALL, head=False))["object"]["metadata"] == {
        "resourceVersion": "226"
    }


@pytest.mark.parametrize("form", list(ObjectForm))
def test_the_end_of_the_initial_events_is_annotated(form: ObjectForm) -> None:
    bookmark = as_json(of(form).initial_events_end(226, WALL, head=False))["object"]
    carrier = bookmark["rows"][0]["object"] if form is ObjectForm.TABLE else bookmark
    assert carrier["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_list_is_encoded_in_three_forms() -> None:
    metadata = {"resourceVersion": "7"}
    assert of(ObjectForm.OBJECT).list_document([OBJECT], metadata, WALL) == {
        "kind": "ConfigMapList",
        "apiVersion": "v1",
        "metadata": metadata,
        "items": [OBJECT],
    }
    assert of(ObjectForm.METADATA).list_document([], metadata, WALL) == {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "items": None,
    }
    table = of(ObjectForm.TABLE).list_document([OBJECT], metadata, WALL)
    assert (table["metadata"], len(table["rows"])) == (metadata, 1)


def test_custom_resource_list_items_have_kind_and_api_version() -> None:
    listed = ObjectEncoder(WIDGETS, "v1beta1", ObjectForm.OBJECT, "None").list_document([OBJECT], {}, WALL)
    assert listed["metadata"] == {"continue": ""}
    assert listed["items"][0]["apiVersion"] == "example.com/v1beta1"


def test_error_event_carries_a_status() -> None:
    assert of(ObjectForm.OBJECT).error_event(status.too_old(5, 236)) == (
        b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        b'"message":"too old resource version: 5 (236)","reason":"Expired","code":410}}\n'
    )


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", ObjectForm.OBJECT),
        ("*/*", ObjectForm.OBJECT),
        (TABLE, ObjectForm.TABLE),
        (METADATA, ObjectForm.METADATA),
        ("application/vnd.kubernetes.protobuf, application/json", ObjectForm.OBJECT),
        ("application/json;as=Table;g=meta.k8s.io;v=v9,application/json", ObjectForm.OBJECT),
    ],
)
def test_negotiate_takes_the_first_supported_clause(accept: str, form: ObjectForm) -> None:
    assert negotiate(accept, CONFIGMAPS, "v1", "None", listed=False).form is form


def test_negotiate_gives_protobuf_to_built_in_resources_only() -> None:
    accept = f"{PROTOBUF},application/json"
    found = [negotiate(accept, kind, "v1", "None", listed=True) for kind in (CONFIGMAPS, WIDGETS)]
    assert [encoder.protobuf for encoder in found] == [True, False]
    assert [encoder.media_type for encoder in found] == [PROTOBUF, "application/json"]
    assert [encoder.watch_type for encoder in found] == [f"{PROTOBUF};stream=watch", "application/json"]
    with pytest.raises(StatusError, match="406"):
        negotiate(PROTOBUF, WIDGETS, "v1", "None", listed=True)


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", "application/json"),
        ("text/html", "application/json"),
        (f"{PROTOBUF}, */*", PROTOBUF),
        (f"application/json,{PROTOBUF}", "application/json"),
    ],
)
def test_refusal_has_the_first_supported_media_type(accept: str, media_type: str) -> None:
    assert error_type(accept) == media_type
    is_protobuf = error_body(status.unauthorized(), error_type(accept)).startswith(b"k8s\0")
    assert is_protobuf == (media_type == PROTOBUF)


SMALL: Object = {"metadata": {"name": "w1", "resourceVersion": "224", "creationTimestamp": "1970-01-01T00:00:05Z"}}
AS_PROTOBUF = ObjectEncoder(CONFIGMAPS, "v1", ObjectForm.OBJECT, "None", protobuf=True)
TYPE_META = b"\x0a\x02v1\x12\x09ConfigMap"
META = b"\x0a\x02w1\x12\x00\x1a\x00\x22\x00\x2a\x00\x32\x03224\x38\x00\x42\x04\x08\x05\x10\x00"


def test_object_is_encoded_as_protobuf_in_an_envelope() -> None:
    obj = b"\x0a%c%b" % (len(META), META)
    envelope = b"k8s\0\x0a%c%b\x12%c%b\x1a\x00\x22\x00" % (len(TYPE_META), TYPE_META, len(obj), obj)
    assert AS_PROTOBUF.body(SMALL, WALL) == envelope
    raw = b"\x0a%c%b" % (len(envelope), envelope)
    event = b"\x0a\x05ADDED\x12%c%b" % (len(raw), raw)
    assert AS_PROTOBUF.event("ADDED", SMALL, WALL, head=False) == len(event).to_bytes(4, "big") + event


def test_stray_line_is_a_frame_of_its_own_unless_it_never_ends() -> None:
    assert AS_PROTOBUF.stray(b"{}\n") == b"\0\0\0\x03{}\n"
    assert AS_PROTOBUF.stray(b"xxxx") == of(ObjectForm.OBJECT).stray(b"xxxx") == b"xxxx"


def test_negotiate_refuses_mismatched_metadata_forms_with_406() -> None:
    assert negotiate(METADATA_LIST, CONFIGMAPS, "v1", "None", listed=True).form is ObjectForm.METADATA
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


def test_resource_list_includes_subresources() -> None:
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
def test_aggregated_version_is_the_first_requested_and_offered(accept: str, version: str | None) -> None:
    assert discovery.aggregated_version(accept, ("v2",)) == version


def test_aggregated_version_raises_if_nothing_is_acceptable() -> None:
    with pytest.raises(LookupError):
        discovery.aggregated_version("text/html", ("v2",))
