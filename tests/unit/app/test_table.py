import math
from dataclasses import replace

import pytest

from tests.unit.serve import readings
from watchslo.app.table import Line, diagnosis, draw, figures, headline, judge, plain_console, says
from watchslo.history.judgement import P99, Verdict
from watchslo.snapshot import Cause, CauseReading, Confidence, QuantileReading, Snapshot, StreamReading, WindowReading


def stream(p99: QuantileReading | None, events: int = 100) -> StreamReading:
    quantiles = (QuantileReading(0.5, 0.0, 0.002, 0.4, resolved=False), p99) if p99 else ()
    window = WindowReading("1m", 60.0, events, quantiles)
    return replace(readings.TAIL, track=replace(readings.TRACK, windows=(window,)))


def line(lower: float, estimate: float, upper: float, events: int = 100) -> Line:
    made = stream(QuantileReading(P99, lower, estimate, upper, resolved=True), events)
    return judge(snapshot(made), "1m")[0]


def snapshot(*streams: StreamReading) -> Snapshot:
    return replace(readings.SNAPSHOT, streams=streams)


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
    assert line(*bounds, events).verdict is verdict


def test_without_events_nothing_is_measured() -> None:
    (made,) = judge(snapshot(stream(None, 0)), "1m")
    assert made.verdict is Verdict.NOT_MEASURED
    assert figures(made) == ("0", "–", "–", "–")  # noqa: RUF001 - as people see it


def test_lines_are_sorted() -> None:
    names = [made.watch for made in judge(readings.SNAPSHOT, "5m")]
    assert names == sorted(names)


def test_what_is_unresolved_is_said_to_be() -> None:
    assert figures(line(0.1, 0.2, math.inf)) == ("100", "≲ 2 ms", "200 ms", "100 ms … ∞")


def test_says_what_is_wrong() -> None:
    made = line(0.0, 0.1, 0.9)
    assert says(made) == "within"
    down = replace(made, up=False, state="reopening")
    assert says(down) == "within; reopening: the connection was reset"


def test_says_that_a_watch_is_stalled() -> None:
    made = line(0.0, 0.1, 0.9)
    stalled = replace(made, stalled_for=12.0)
    assert says(stalled) == "within; stalled for 12 s"


@pytest.mark.parametrize(
    ("lower", "stalled_for", "verdict"),
    [(0.0, 0.9, Verdict.WITHIN), (0.0, 12.0, Verdict.NOT_MEASURED), (1.1, 12.0, Verdict.BEYOND)],
)
def test_of_a_stalled_watch_only_what_is_beyond_is_known(lower: float, stalled_for: float, verdict: Verdict) -> None:
    made = stream(QuantileReading(P99, lower, lower, max(lower, 0.9), resolved=True))
    (judged,) = judge(snapshot(replace(made, stalled_for=stalled_for)), "1m")
    assert judged.verdict is verdict


def test_draws_what_is_said_as_it_is() -> None:
    made = line(0.0, 0.1, 0.9)
    odd = replace(made, watch="[/bold] :boom:")
    console = plain_console()
    with console.capture() as captured:
        console.print(draw([odd]))
    assert "[/bold] :boom:" in captured.get()


def test_says_where_a_watch_is_unless_one_apiserver_answers_for_all() -> None:
    made = stream(None, 0)
    elsewhere = [replace(made, apiserver=name) for name in ("10.0.0.2:6443", "10.0.0.1:6443")]
    names = [line.name for line in judge(snapshot(*elsewhere, made), "1m")]
    assert names == [f"{made.watch} at 10.0.0.1:6443", f"{made.watch} at 10.0.0.2:6443", made.watch]


def test_says_why_with_what_speaks_for_it() -> None:
    cause = CauseReading(Cause.STORAGE_SLOW, None, None, Confidence.MEDIUM, 0.0, "Reads are slow.", "Look at etcd.")
    assert diagnosis(replace(snapshot(), causes=(cause,))) == ["Reads are slow. (storage_slow, medium confidence)"]
    assert diagnosis(replace(snapshot(), causes=())) == []


def test_a_headline_names_what_is_beyond_the_latest_first() -> None:
    within, none = line(0.0, 0.1, 0.9), replace(line(0.0, 0.1, 0.9), verdict=Verdict.NOT_MEASURED)
    late = [
        replace(line(1.5, late, 9.0), watch=name) for name, late in (("a", 2.0), ("b", 4.0), ("c", 3.0), ("d", 1.6))
    ]
    assert headline(late) == "Beyond the objective: b (P99 4 s), c (P99 3 s), a (P99 2 s) and 1 more."
    assert headline([late[0], none, within]) == "Beyond the objective: a (P99 2 s); of 1 nothing can be said."
    assert headline([within, within, none]) == "Within the objective: 2 watches; of 1 nothing can be said."
    assert headline([within]) == "Within the objective: 1 watch."
    assert headline([none]) == "Nothing can be said of 1 watch."
    assert headline([]) == "Nothing is watched yet."
