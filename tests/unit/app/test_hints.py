from dataclasses import replace
from typing import Any

import pytest

from tests.unit.serve import readings
from watchslo.app.hints import hints, troubles, unready
from watchslo.app.view import View, view_of
from watchslo.snapshot import FailureReading, QuantileReading, StreamReading, WindowReading

GOOD = QuantileReading(0.99, 0.0, 0.1, 0.6, resolved=True)


def stream(p99: QuantileReading | None = GOOD, events: int = 500, tainted: int = 0, **other: Any) -> StreamReading:
    window = WindowReading("1m", 60.0, events, (p99,) if p99 else ())
    objective = replace(readings.TRACK.objective, min_events=100)
    track = replace(readings.TRACK, windows=(window,), objective=objective, unmeasured={"tainted": tainted})
    return replace(readings.TAIL, track=track, **other)


def found(*streams: StreamReading, seconds: float = 60.0, **parts: Any) -> list[str]:
    return hints(view(*streams, seconds=seconds, **parts))


def view(*streams: StreamReading, seconds: float = 60.0, tainted: float = 0.0, **parts: Any) -> View:
    """What was measured for so many seconds, while we were late for some."""
    began = readings.SNAPSHOT.at_wall - seconds
    monitor = replace(
        readings.MONITOR, started_wall=began, tainted_seconds=tainted, not_ready=parts.pop("not_ready", ())
    )
    made: dict[str, Any] = {"monitor": monitor, "apiservers": (readings.SERVICE,), "streams": streams} | parts
    return view_of(replace(readings.SNAPSHOT, **made))


def failure(reason: str) -> FailureReading:
    return FailureReading(reason, "No, wait.", 0.0)


def test_all_is_well() -> None:
    assert found(stream()) == []


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (
            stream(tainted=100),
            "The machine that measures was too busy for 0 ms, and what arrived then is left out: end what",
        ),
        (
            stream(None, 0, up=False, last_failure=failure("forbidden")),
            "This identity may not list and watch pods: grant it these two verbs",
        ),
        (stream(None, 0, up=False, last_failure=failure("unauthorized")), "The credentials were refused for pods:"),
        (stream(None, 0, up=False, last_failure=failure("throttled")), "Not open: pods. No, wait."),
        (stream(stalled_for=12.0, audit="frozen"), "pods has told nothing of what happened for 12 s: the apiserver's"),
        (stream(stalled_for=12.0, audit="stalled"), "pods has told nothing of what happened for 12 s: look at the con"),
        (stream(membership="pending"), "It is not known yet whether the clock's revisions are those of pods"),
        (stream(membership="unparsable"), "The revisions of pods are no numbers"),
        (stream(None, 0), "Nothing happened to pods: watch what changes, such as leases.coordination.k8s.io"),
        (
            stream(QuantileReading(0.99, 0.0, 0.2, 1.4, resolved=True), 99),
            "There were fewer than 100 events of pods, too few for a verdict: measure for longer",
        ),
        (
            stream(QuantileReading(0.99, 0.0, 0.2, 1.4, resolved=True), 100),
            "The verdict on pods is an estimate and no proof",
        ),
        (
            stream(QuantileReading(0.99, 0.0, 0.001, 0.5, resolved=False)),
            "The P99 of pods is less than the round trip of 1.7 ms to the apiserver",
        ),
    ],
)
def test_what_is_odd_is_said_with_a_remedy(of: StreamReading, said: str) -> None:
    (sentence,) = found(of)
    assert sentence.startswith(said)
    assert sentence.endswith(".")


def test_a_machine_that_was_late_for_a_tenth_of_the_time() -> None:
    assert found(stream(), tainted=6.5)[0].startswith("The machine that measures was too busy for 6.5 s,")
    assert found(stream(), tainted=6.5, seconds=100.0) == []


def test_an_apiserver_whose_revisions_cannot_be_trusted() -> None:
    assert found(stream(), apiservers=(readings.OTHER,)) == ["Unproven: its storage is kine, not etcd."]


def test_what_keeps_several_away_is_said_once_for_each_reason() -> None:
    away = [
        stream(None, 0, watch=name, up=False, last_failure=failure(reason))
        for name, reason in (("a", "forbidden"), ("b", "throttled"), ("c", "forbidden"), ("d", "throttled"))
    ]
    seen = view(*away, not_ready=("b has not been opened yet: No, wait.", "The revision clock does not tick: no."))
    rights, busy = troubles(seen)
    assert rights.startswith("This identity may not list and watch a and c:")
    assert busy == "Not open: b and d. No, wait."
    assert unready(seen) == ["The revision clock does not tick: no."], "what is said of b above is enough"


def test_a_screen_is_not_filled_with_doubts() -> None:
    assert troubles(view(stream(None, 0))) == []


def test_what_was_measured_for_five_minutes_needs_busier_watches() -> None:
    few = stream(QuantileReading(0.99, 0.0, 0.2, 1.4, resolved=True), 9)
    assert found(few, seconds=300.0)[0].endswith("too few for a verdict: watch busier ones.")


def test_quiet_ones_beside_busy_ones() -> None:
    quiet = [stream(None, 0, watch=name) for name in ("d", "b")]
    assert found(stream(), *quiet) == ["Nothing happened to b and d, and only what happens is measured."]


def test_of_many_only_some_are_named() -> None:
    quiet = [stream(None, 0, watch=name) for name in "abcdef"]
    assert found(stream(), *quiet)[0].startswith("Nothing happened to a, b, c and 3 more,")
