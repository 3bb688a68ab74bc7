import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.transcripts import of_states
from watchslo.sim import discovery, status
from watchslo.sim.encoding import ObjectEncoder, ObjectForm
from watchslo.sim.kinds import BUILT_IN, Object

CONFIGMAPS, PODS, DEPLOYMENTS = (BUILT_IN[name] for name in ("configmaps", "pods", "deployments.apps"))
OBJECT: Object = {
    "metadata": {"name": "w1", "resourceVersion": "224", "creationTimestamp": "2027-01-15T07:59:58Z"},
    "data": {"k": "v"},
}


def of(form: ObjectForm, include: str = "None") -> ObjectEncoder:
    return ObjectEncoder(CONFIGMAPS, form, include)


def encodings() -> Iterator[tuple[str, list[str]]]:
    """Yield what the encoders of all forms write; protobuf as the text of Python's bytes."""
    bookmark: Object = {"metadata": {"resourceVersion": "226"}}
    protobuf = ObjectEncoder(CONFIGMAPS, ObjectForm.OBJECT, "None", protobuf=True)
    encoders = {
        **{form.name: of(form) for form in ObjectForm},
        "TABLE with metadata": of(ObjectForm.TABLE, "Metadata"),
        "PROTOBUF": protobuf,
    }
    for name, encoder in encoders.items():
        written = {
            "event": encoder.event("DELETED", OBJECT),
            "bookmark": encoder.event("BOOKMARK", bookmark),
            "end of the list": encoder.initial_events_end(226),
            "error": encoder.error_event(status.too_old(5, 236)),
            "object": encoder.body(OBJECT),
            "list": encoder.list_body([OBJECT], {"resourceVersion": "7"}),
            "empty list": encoder.list_body([], {}),
        }
        shown = {what: written[what] for what in (("event",) if "with" in name else written)}
        lines = [f"{what}: {str(data) if encoder is protobuf else data.decode()}" for what, data in shown.items()]
        yield f"{name}: {encoder.media_type}", [line.rstrip() for line in lines]


def documents() -> list[str]:
    found: list[Any] = [
        discovery.aggregated([PODS, DEPLOYMENTS], core=True),
        discovery.aggregated([PODS, DEPLOYMENTS], core=False),
    ]
    return list(map(json.dumps, found))


def test_encodings_match_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("simulated-encodings.txt", of_states({**dict(encodings()), "discovery": documents()}))


AS_PROTOBUF = ObjectEncoder(CONFIGMAPS, ObjectForm.OBJECT, "None", protobuf=True)


def test_stray_line_is_a_frame_of_its_own_unless_it_never_ends() -> None:
    assert AS_PROTOBUF.stray(b"{}\n") == b"\0\0\0\x03{}\n"
    assert AS_PROTOBUF.stray(b"xxxx") == of(ObjectForm.OBJECT).stray(b"xxxx") == b"xxxx"
