import json
import math
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.serve import readings
from watchslo.app.view import UnreadableError, View, read, view_of
from watchslo.history.chronicle import Chronicle
from watchslo.history.headline import Headline, Level
from watchslo.history.judgement import P99, Verdict
from watchslo.serve.status import encode
from watchslo.snapshot import QuantileReading, StreamReading, WindowReading


def status(**changed: Any) -> Any:
    return json.loads(encode(replace(readings.SNAPSHOT, **changed)).body)


def view(**changed: Any) -> View:
    return read(encode(replace(readings.SNAPSHOT, **changed)).body)


def measured(p99: QuantileReading | None, events: int = 100, **other: Any) -> StreamReading:
    """A watch with this P99, and that many events in its minute."""
    window = WindowReading("1m", 60.0, events, (p99,) if p99 else ())
    return replace(readings.TAIL, track=replace(readings.TRACK, windows=(window,)), **other)


def test_a_line_says_what_the_snapshot_does() -> None:
    (line,) = view(streams=(readings.TAIL,)).lines
    (window,) = (window for window in readings.TRACK.windows if window.name == "1m")
    assert (line.watch, line.apiserver, line.resource) == ("pods", "service", "pods")
    assert (line.reason, line.failure) == ("reset", "the connection was reset")
    assert (line.events, line.threshold) == (window.events, readings.TRACK.objective.threshold)
    assert line.quantiles == {quantile.q: quantile for quantile in window.quantiles}


def test_the_verdict_is_that_of_the_page_in_a_sentence_and_whether_it_may_be_us() -> None:
    account = Chronicle().observe(readings.SNAPSHOT)
    told = replace(account, headline=Headline(Level.BAD, "pods: late since 14:02 UTC", "for 4 min; P99 2.3 s"))
    seen = view_of(readings.SNAPSHOT, account=told)
    assert seen.verdict == "pods: late since 14:02 UTC; for 4 min; P99 2.3 s."
    assert seen.trust == f"Can I trust this? {account.trust.text}"
    whole = replace(account, headline=Headline(Level.GOOD, "All 3 watches are within 1 s."))
    assert view_of(readings.SNAPSHOT, account=whole).verdict == "All 3 watches are within 1 s."


def test_without_a_history_there_is_no_verdict_yet() -> None:
    seen = view_of(readings.SNAPSHOT)
    assert (seen.verdict, seen.trust) == (None, None)


def test_lines_are_sorted_by_their_names_and_of_the_window_that_is_named() -> None:
    seen = view_of(readings.SNAPSHOT, "5m")
    assert [line.watch for line in seen.lines] == sorted(stream.watch for stream in readings.SNAPSHOT.streams)
    (five,) = (window for window in readings.TRACK.windows if window.name == "5m")
    assert next(line.events for line in seen.lines if line.watch == "pods") == five.events


@pytest.mark.parametrize(
    ("bounds", "events", "verdict"),
    [
        ((0.0, 0.1, 0.9), 1, Verdict.WITHIN),
        ((1.1, 1.2, math.inf), 1, Verdict.BEYOND),
        ((0.0, 0.1, 1.4), 49, Verdict.FEW_EVENTS),
        ((0.0, 0.1, 1.4), 50, Verdict.WITHIN),
        ((0.0, 1.2, 1.4), 50, Verdict.BEYOND),
    ],
)
def test_proof_needs_no_number_of_events_and_estimates_do(
    bounds: tuple[float, float, float], events: int, verdict: Verdict
) -> None:
    (line,) = view(streams=(measured(QuantileReading(P99, *bounds, resolved=True), events),)).lines
    assert line.verdict is verdict


@pytest.mark.parametrize(
    ("lower", "stalled_for", "verdict"),
    [(0.0, 0.9, Verdict.WITHIN), (0.0, 12.0, Verdict.NOT_MEASURED), (1.1, 12.0, Verdict.BEYOND)],
)
def test_of_a_stalled_watch_only_what_is_beyond_is_known(lower: float, stalled_for: float, verdict: Verdict) -> None:
    p99 = QuantileReading(P99, lower, lower, max(lower, 0.9), resolved=True)
    (line,) = view(streams=(measured(p99, stalled_for=stalled_for),)).lines
    assert line.verdict is verdict


def test_says_where_a_watch_is_unless_one_apiserver_answers_for_all() -> None:
    made = measured(None, 0)
    elsewhere = [replace(made, apiserver=name) for name in ("10.0.0.2:6443", "10.0.0.1:6443")]
    names = [line.name for line in view(streams=(*elsewhere, made)).lines]
    assert names == [f"{made.watch} at 10.0.0.1:6443", f"{made.watch} at 10.0.0.2:6443", made.watch]


def test_what_is_infinite_is_null_on_the_way() -> None:
    (pods,) = (line for line in view().lines if line.watch == "pods")
    assert pods.p99 is not None
    assert pods.p99.upper == math.inf


def test_a_watch_that_was_not_evaluated_yet_has_no_events() -> None:
    young = replace(readings.TAIL, track=replace(readings.TRACK, windows=()))
    (line,) = view(streams=(young,)).lines
    assert (line.events, line.verdict) == (0, Verdict.NOT_MEASURED)


def test_causes_and_doubts_are_sentences() -> None:
    seen = view()
    assert (seen.at_wall, seen.seconds, seen.cluster) == (readings.SNAPSHOT.at_wall, 10_001.0, "prod-eu")
    assert seen.causes[1] == (
        "The watch of jobs has said nothing for 33.5 s. (stalled_stream, medium confidence) "
        "Look at what is between here and service."
    )
    assert seen.unproven == ("Unproven: its storage is kine, not etcd.",)
    assert seen.not_ready == ()
    assert not view(streams=(readings.TAIL,)).starting
    assert view(streams=(replace(readings.TAIL, membership="pending"),)).starting
    assert view_of(readings.EMPTY).starting
    assert view_of(readings.EMPTY).not_ready == ("the clock has not ticked yet", "no stream has started")


def test_a_terminal_is_given_no_orders() -> None:
    evil = replace(readings.TAIL, watch="pods\x1b]0;owned\x07")
    assert [line.watch for line in view(streams=(evil,)).lines] == ["pods?]0;owned?"]


def test_what_a_newer_daemon_says_besides_is_passed_over() -> None:
    document = status()
    document["streams"][0]["new"] = {"b": 1}
    assert read(json.dumps(document).encode()) == view()


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"at": 3}', b'"\xff"'])
def test_what_is_no_status(body: bytes) -> None:
    with pytest.raises(UnreadableError):
        read(body)
