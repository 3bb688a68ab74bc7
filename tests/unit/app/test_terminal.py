import json
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.serve import readings
from watchslo.api.part import UnreadableError, part_of
from watchslo.api.status import QuantileStatus
from watchslo.app.terminal import View, read, view_of
from watchslo.model import InstanceName
from watchslo.serve.status import StatusEncoder
from watchslo.snapshot import (
    OverallVerdict,
    QuantileReading,
    ShardReading,
    WatchReading,
    WindowReading,
    WindowVerdict,
)
from watchslo.timeline.condition import P99, WatchVerdict
from watchslo.timeline.headline import Headline
from watchslo.timeline.timeline import Timeline
from watchslo.timeline.verdict import Level


def status(**changed: Any) -> Any:
    return json.loads(StatusEncoder().encode(replace(readings.SNAPSHOT, **changed)).body)


def view(**changed: Any) -> View:
    """The view of a snapshot, which is the same if it comes from a daemon's status."""
    snapshot = replace(readings.SNAPSHOT, **changed)
    remote = read(StatusEncoder().encode(snapshot).body)
    assert remote == view_of(snapshot)
    return remote


def measured(p99: QuantileReading | None, events: int = 100, **other: Any) -> WatchReading:
    """A watch with this P99, and that many events in its minute."""
    track = readings.judged(events, *([p99] if p99 else []))
    return readings.changed(readings.TAIL, track=track, **other)


def test_line_has_the_values_of_the_snapshot() -> None:
    (line,) = view(watches=(readings.TAIL,)).lines
    (window,) = (window for window in readings.TRACK.windows if window.name == "1m")
    assert (line.watch, line.apiserver, line.resource) == ("pods", "service", "pods")
    assert (line.reason, line.failure) == ("reset", "the connection was reset")
    assert (line.events, line.threshold) == (window.events, readings.TRACK.objective.threshold)
    assert line.quantiles == {quantile.q: part_of(QuantileStatus, quantile) for quantile in window.quantiles}


def test_view_has_the_verdict_and_the_self_check_in_a_sentence() -> None:
    account = Timeline().observe(readings.SNAPSHOT)
    said = Headline(OverallVerdict.LATE, Level.BAD, "pods: late since 14:02 UTC", "for 4 min; P99 2.3 s")
    changed = replace(account, headline=said)
    seen = view_of(readings.SNAPSHOT, account=changed)
    assert seen.verdict == "pods: late since 14:02 UTC; for 4 min; P99 2.3 s."
    assert seen.trust == f"Can I trust this? {account.trust.text}"
    whole = replace(account, headline=Headline(OverallVerdict.GOOD, Level.GOOD, "All 3 watches are within 1 s."))
    assert view_of(readings.SNAPSHOT, account=whole).verdict == "All 3 watches are within 1 s."


def test_view_without_account_has_no_verdict() -> None:
    seen = view_of(readings.SNAPSHOT)
    assert (seen.verdict, seen.trust) == (None, None)


def test_lines_are_sorted_by_name() -> None:
    assert [line.watch for line in view().lines] == sorted(stream.watch for stream in readings.SNAPSHOT.watches)


def test_line_is_judged_by_the_quantile_and_the_window_of_the_objective() -> None:
    quantiles = tuple(QuantileReading(q, 0.0, q, 2.0) for q in (0.5, 0.95))
    judged = WindowReading("objective", 120.0, 700, quantiles)
    objective = replace(readings.TRACK.objective, quantile=0.95, window=120.0)
    track = replace(readings.TRACK, judged=judged, objective=objective, verdict=WindowVerdict.UNDECIDED)
    (line,) = view(watches=(replace(readings.TAIL, track=track),)).lines
    assert (line.quantile, line.events, line.verdict) == (0.95, 700, WatchVerdict.UNDECIDED)
    assert line.judged == part_of(QuantileStatus, quantiles[1])


def test_watch_that_is_down_is_beyond_and_a_stalled_one_is_not_measured() -> None:
    within = measured(QuantileReading(P99, 0.0, 0.1, 0.9))
    stalled = readings.changed(within, watch="stalled", audit={"stalled_for": 12.0})
    lines = view(watches=(replace(within, watch="down", down_for=1.1), stalled)).lines
    assert [line.verdict for line in lines] == [WatchVerdict.BEYOND, WatchVerdict.NOT_MEASURED]


def test_name_has_the_apiserver_unless_it_is_the_service() -> None:
    made = measured(None, 0)
    elsewhere = [replace(made, apiserver=name) for name in ("10.0.0.2:6443", "10.0.0.1:6443")]
    names = [line.name for line in view(watches=(*elsewhere, made)).lines]
    assert names == [f"{made.watch} at 10.0.0.1:6443", f"{made.watch} at 10.0.0.2:6443", made.watch]


def test_condition_is_that_of_the_page() -> None:
    account = Timeline().observe(readings.SNAPSHOT)
    expected = {line.watch.watch: line.condition.value for line in account.lines}
    assert {line.watch: line.condition for line in view().lines} == expected
    quiet = readings.changed(measured(None, 0), audit={"result": "idle"})
    assert [line.condition for line in view(watches=(quiet,)).lines] == ["idle"]


def test_watch_without_window_has_no_events() -> None:
    young = replace(readings.TAIL, track=replace(readings.judged(0), judged=None))
    (line,) = view(watches=(young,)).lines
    assert (line.events, line.verdict) == (0, WatchVerdict.NOT_MEASURED)


def test_unproven_and_not_ready_are_sentences() -> None:
    seen = view()
    assert (seen.at_wall, seen.seconds, seen.cluster) == (readings.SNAPSHOT.at_wall, 10_001.0, "prod-eu")
    assert seen.unproven == ("Unproven: its storage is kine, not etcd.",)
    assert seen.not_ready == ()
    assert view_of(readings.EMPTY).not_ready == ("the clock has not ticked yet", "no stream has started")


def test_control_characters_are_replaced() -> None:
    evil = replace(readings.TAIL, watch="pods\x1b]0;owned\x07")
    assert [line.watch for line in view(watches=(evil,)).lines] == ["pods?]0;owned?"]


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"at": 3}', b'"\xff"'])
def test_other_answers_are_unreadable(body: bytes) -> None:
    with pytest.raises(UnreadableError):
        read(body)


def test_view_names_cluster_and_part() -> None:
    instance = InstanceName("3f2a9c1e", "shard 2 of 3")
    shard = ShardReading(index=1, count=3, elsewhere=24)
    seen = view(monitor=replace(readings.MONITOR, cluster=None, instance=instance, shard=shard))
    assert (seen.cluster, seen.part, seen.elsewhere) == ("3f2a9c1e", "shard 2 of 3", 24)


def test_status_that_lacks_newer_parts_has_the_configured_cluster() -> None:
    older = status()
    for key in ("instance", "shard"):
        del older["monitor"][key]
    seen = read(json.dumps(older).encode())
    assert (seen.cluster, seen.part, seen.elsewhere) == ("prod-eu", None, 0)
