"""The status as JSON: its stable shape and its special values."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.unit.serve import readings
from watchslo.serve.document import PIECE_SIZE
from watchslo.serve.status import StatusDocument, StatusEncoder
from watchslo.snapshot import Snapshot
from watchslo.timeline.timeline import Account, Timeline


def shown(snapshot: Snapshot, account: Account | None = None) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(StatusEncoder().encode(snapshot, account).body, parse_constant=refuse)


def test_status_matches_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("status.json", json.dumps(shown(readings.SNAPSHOT, Timeline().observe(readings.SNAPSHOT)), indent=2) + "\n")


def test_infinite_bound_is_null() -> None:
    p99 = shown(readings.SNAPSHOT)["streams"][0]["latency"]["windows"][0]["quantiles"][-1]
    assert p99 == {"q": 0.99, "lower": 0.01, "estimate": 0.0625, "upper": None, "resolved": True, "rough": False}


def test_not_ready_has_the_reasons() -> None:
    assert shown(readings.EMPTY)["monitor"]["notReady"] == list(readings.EMPTY.monitor.not_ready)


def test_inventory_fields_are_null_without_inventory() -> None:
    tail, _, stalled = shown(readings.SNAPSHOT)["streams"]
    assert (tail["unseenChanges"], tail["inventoryObjects"], tail["stalledFor"]) == (None, None, None)
    assert stalled["unseenChanges"] == {"changed": 3, "created": 2, "deleted": 1}


def test_history_fits_compares_headroom_with_list() -> None:
    tail, idle, stalled = shown(readings.SNAPSHOT)["streams"]
    assert (tail["history"]["seconds"], tail["history"]["fits"]) == ({"lower": 95.5, "upper": 96.25}, True)
    assert idle["history"] is None
    assert stalled["history"]["seconds"] == {"lower": 600.0, "upper": None}


def test_causes_are_sorted_by_confidence() -> None:
    assert [cause["confidence"] for cause in shown(readings.SNAPSHOT)["causes"]] == ["high", "medium"]
    assert shown(readings.EMPTY)["causes"] == []


def test_encoder_writes_what_pydantic_writes_of_the_whole_document() -> None:
    for snapshot in (readings.EMPTY, readings.SNAPSHOT, readings.many(100)):
        whole = StatusDocument.model_validate(snapshot).model_dump_json(by_alias=True)
        assert StatusEncoder().encode(snapshot).body == whole.encode()


def test_encoder_writes_large_documents_in_small_pieces() -> None:
    document = StatusEncoder().encode(readings.many(100))
    assert len(document.pieces) > 3
    assert max(map(len, document.pieces)) < 2 * PIECE_SIZE


def test_encoder_replaces_watches_at_each_evaluation() -> None:
    encoder = StatusEncoder()
    for streams in ((readings.TAIL,), (readings.changed(readings.TAIL, up=False), readings.IDLE), ()):
        snapshot = replace(readings.SNAPSHOT, streams=streams)
        body = encoder.encode(snapshot).body
        assert body == StatusEncoder().encode(snapshot).body
        newer = encoder.encode(replace(snapshot, monitor=replace(readings.MONITOR, paused=True)))
        assert newer.body == body.replace(b'"paused":false', b'"paused":true')
