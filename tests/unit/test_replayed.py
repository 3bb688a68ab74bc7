"""A replayed exposition is that of the recorded instance, later."""

import urllib.error
import urllib.request

import pytest

from tests.support.replayed import Recording, Replay

EXPOSITION = """\
# HELP events_total Events.
# TYPE events_total counter
events_total{{kind="a b"}} {events}
# TYPE seconds histogram
seconds_bucket{{le="+Inf"}} {events}
seconds_count {events}
# TYPE open gauge
open {open}
# TYPE watchslo_tainted_seconds_total counter
watchslo_tainted_seconds_total 1.0
"""
RECORDING = Recording(EXPOSITION.format(events=10.0, open=2.0), EXPOSITION.format(events=30.0, open=3.0), 10.0)


def samples(text: str) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {series: float(value) for series, _, value in lines}


def test_counters_continue_as_recorded_and_gauges_stay() -> None:
    replayed = samples(RECORDING.after(5.0))
    assert replayed['events_total{kind="a b"}'] == replayed["seconds_count"] == 40.0
    assert replayed['seconds_bucket{le="+Inf"}'] == 40.0
    assert replayed["open"] == 3.0


def test_counters_rise_faster_or_by_given_rates() -> None:
    replayed = samples(RECORDING.after(5.0, 2.0, {"seconds_count": 0.0}))
    assert (replayed['events_total{kind="a b"}'], replayed["seconds_count"]) == (50.0, 30.0)


def test_types_and_help_remain() -> None:
    comments = [line for line in RECORDING.after(5.0).splitlines() if line.startswith("#")]
    assert comments == [line for line in RECORDING.second.splitlines() if line.startswith("#")]


def test_server_answers_for_each_cluster_but_missing_ones() -> None:
    with Replay(RECORDING) as replay:
        replay.missing.add(3)
        replay.overloaded.add(2)
        with urllib.request.urlopen(f"http://{replay.address}/2/metrics", timeout=60) as answer:
            assert samples(answer.read().decode())["watchslo_tainted_seconds_total"] > 1.0
        assert samples(replay.exposition(1))["watchslo_tainted_seconds_total"] == 1.0
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"http://{replay.address}/3/metrics", timeout=60)
