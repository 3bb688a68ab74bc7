"""The status: JSON that any program can read, in a form that is kept."""

import json
from collections.abc import Callable
from typing import Any

from tests.unit.serve import readings
from watchslo.history.chronicle import Account, Chronicle
from watchslo.serve.status import encode
from watchslo.snapshot import Snapshot


def shown(snapshot: Snapshot, account: Account | None = None) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(encode(snapshot, account).body, parse_constant=refuse)


def test_is_what_programs_expect(golden: Callable[[str, str], None]) -> None:
    golden("status.json", json.dumps(shown(readings.SNAPSHOT, Chronicle().observe(readings.SNAPSHOT)), indent=2) + "\n")


def test_an_infinite_bound_is_null() -> None:
    p99 = shown(readings.SNAPSHOT)["streams"][0]["latency"]["windows"][0]["quantiles"][-1]
    assert p99 == {"q": 0.99, "lower": 0.01, "estimate": 0.0625, "upper": None, "resolved": True}


def test_says_why_it_is_not_ready() -> None:
    assert shown(readings.EMPTY)["monitor"]["notReady"] == list(readings.EMPTY.monitor.not_ready)


def test_what_an_inventory_knows_is_null_without_one() -> None:
    tail, _, stalled = shown(readings.SNAPSHOT)["streams"]
    assert (tail["unseenChanges"], tail["inventoryObjects"], tail["stalledFor"]) == (None, None, None)
    assert stalled["unseenChanges"] == {"changed": 3, "created": 2, "deleted": 1}


def test_a_history_says_whether_a_list_fits() -> None:
    tail, idle, stalled = shown(readings.SNAPSHOT)["streams"]
    assert (tail["history"]["seconds"], tail["history"]["fits"]) == ({"lower": 95.5, "upper": 96.25}, True)
    assert idle["history"] is None
    assert stalled["history"]["seconds"] == {"lower": 600.0, "upper": None}


def test_the_surest_cause_comes_first() -> None:
    assert [cause["confidence"] for cause in shown(readings.SNAPSHOT)["causes"]] == ["high", "medium"]
    assert shown(readings.EMPTY)["causes"] == []
