"""The status as JSON: its stable shape and its special values."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from tests.unit.serve import readings
from watchslo.api.part import decode
from watchslo.api.status import StatusDocument
from watchslo.serve.document import PIECE_SIZE
from watchslo.serve.status import StatusEncoder, status_of
from watchslo.snapshot import Snapshot
from watchslo.timeline.timeline import Account, Timeline


def shown(snapshot: Snapshot, account: Account | None = None) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(StatusEncoder().encode(snapshot, account).body, parse_constant=refuse)


def test_status_matches_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("status.json", json.dumps(shown(readings.SNAPSHOT, Timeline().observe(readings.SNAPSHOT)), indent=2) + "\n")


def test_not_ready_has_the_reasons() -> None:
    assert shown(readings.EMPTY)["monitor"]["notReady"] == list(readings.EMPTY.monitor.not_ready)


def test_pieces_are_the_whole_document() -> None:
    for snapshot in (readings.EMPTY, readings.SNAPSHOT, readings.many(100)):
        body = StatusEncoder().encode(snapshot).body
        assert body == msgspec.json.encode(status_of(snapshot))
        assert decode(body, StatusDocument) == status_of(snapshot), "a reader of JSON sees what one in the process sees"


def test_encoder_writes_large_documents_in_small_pieces() -> None:
    document = StatusEncoder().encode(readings.many(100))
    assert len(document.pieces) > 3
    assert max(map(len, document.pieces)) < 2 * PIECE_SIZE


def test_encoder_replaces_watches_at_each_evaluation() -> None:
    encoder = StatusEncoder()
    for streams in ((readings.TAIL,), (readings.changed(readings.TAIL, up=False), readings.IDLE), ()):
        snapshot = replace(readings.SNAPSHOT, watches=streams)
        body = encoder.encode(snapshot).body
        assert body == StatusEncoder().encode(snapshot).body
        newer = encoder.encode(replace(snapshot, monitor=replace(readings.MONITOR, paused=True)))
        assert newer.body == body.replace(b'"paused":false', b'"paused":true')
