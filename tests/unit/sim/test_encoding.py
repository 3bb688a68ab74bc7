import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.transcripts import of_states
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


def of(form: ObjectForm, include: str = "None") -> ObjectEncoder:
    return ObjectEncoder(CONFIGMAPS, "v1", form, include)


def encodings() -> Iterator[tuple[str, list[str]]]:
    """Yield what the encoders of all forms write; protobuf as the text of Python's bytes."""
    bookmark: Object = {"metadata": {"resourceVersion": "226"}}
    protobuf = ObjectEncoder(CONFIGMAPS, "v1", ObjectForm.OBJECT, "None", protobuf=True)
    encoders = {
        **{form.name: of(form) for form in ObjectForm},
        "TABLE with metadata": of(ObjectForm.TABLE, "Metadata"),
        "TABLE with objects": of(ObjectForm.TABLE, "Object"),
        "OBJECT of a custom resource": ObjectEncoder(WIDGETS, "v1beta1", ObjectForm.OBJECT, "None"),
        "PROTOBUF": protobuf,
    }
    for name, encoder in encoders.items():
        written = {
            "first event": encoder.event("ADDED", OBJECT, WALL, head=True),
            "event": encoder.event("DELETED", OBJECT, WALL, head=False),
            "bookmark": encoder.event("BOOKMARK", bookmark, WALL, head=False),
            "end of the list": encoder.initial_events_end(226, WALL, head=False),
            "error": encoder.error_event(status.too_old(5, 236)),
            "object": encoder.body(OBJECT, WALL),
            "list": encoder.list_body([OBJECT], {"resourceVersion": "7"}, WALL),
            "empty list": encoder.list_body([], {}, WALL),
        }
        shown = {what: written[what] for what in (("event",) if "with" in name else written)}
        lines = [f"{what}: {str(data) if encoder is protobuf else data.decode()}" for what, data in shown.items()]
        yield f"{name}: {encoder.media_type}", [line.rstrip() for line in lines]


def documents() -> list[str]:
    found: list[Any] = [
        discovery.group([WIDGETS], "example.com"),
        discovery.group([WIDGETS], "example.org"),
        discovery.resource_list([WIDGETS], "example.com", "v1"),
        discovery.resource_list([WIDGETS], "example.com", "v9"),
        discovery.resource_list([BUILT_IN["pods"]], "", "v1"),
        discovery.aggregated([WIDGETS], "v2", core=False, stale=()),
        discovery.aggregated([WIDGETS], "v2", core=False, stale={"example.com"}),
    ]
    return list(map(json.dumps, found))


def test_encodings_match_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("simulated-encodings.txt", of_states({**dict(encodings()), "discovery": documents()}))


def test_dump_escapes_html_characters_as_go_does() -> None:
    assert dump({"a": "<b> & c"}) == rb'{"a":"\u003cb\u003e \u0026 c"}' + b"\n"


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


AS_PROTOBUF = ObjectEncoder(CONFIGMAPS, "v1", ObjectForm.OBJECT, "None", protobuf=True)


def test_stray_line_is_a_frame_of_its_own_unless_it_never_ends() -> None:
    assert AS_PROTOBUF.stray(b"{}\n") == b"\0\0\0\x03{}\n"
    assert AS_PROTOBUF.stray(b"xxxx") == of(ObjectForm.OBJECT).stray(b"xxxx") == b"xxxx"


def test_negotiate_refuses_mismatched_metadata_forms_with_406() -> None:
    assert negotiate(METADATA_LIST, CONFIGMAPS, "v1", "None", listed=True).form is ObjectForm.METADATA
    for accept, listed in ((METADATA, True), (METADATA_LIST, False), ("text/html", True)):
        with pytest.raises(StatusError) as refused:
            negotiate(accept, CONFIGMAPS, "v1", "None", listed=listed)
        assert refused.value.code == 406


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
