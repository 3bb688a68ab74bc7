from dataclasses import replace
from typing import Any

import pytest

from tests.unit.serve import readings
from watchslo.app.hints import hints, problems, unready
from watchslo.app.view import View, view_of
from watchslo.snapshot import FailureReading, QuantileReading, StreamReading

GOOD = QuantileReading(0.99, 0.0, 0.1, 0.6, resolved=True)


def stream(p99: QuantileReading | None = GOOD, events: int = 500, tainted: int = 0, **other: Any) -> StreamReading:
    objective = replace(readings.TRACK.objective, min_events=100)
    track = replace(readings.TRACK, objective=objective, unmeasured={"tainted": tainted})
    judged = readings.judged(events, *([p99] if p99 else []), track=track)
    return readings.changed(readings.TAIL, track=judged, **other)


def found(*streams: StreamReading, seconds: float = 60.0, **parts: Any) -> list[str]:
    return hints(view(*streams, seconds=seconds, **parts))


def view(*streams: StreamReading, seconds: float = 60.0, tainted: float = 0.0, **parts: Any) -> View:
    """A view of a measurement of `seconds`; watchslo itself was late for `tainted` seconds."""
    began = readings.SNAPSHOT.at_wall - seconds
    monitor = replace(
        readings.MONITOR, started_wall=began, tainted_seconds=tainted, not_ready=parts.pop("not_ready", ())
    )
    made: dict[str, Any] = {"monitor": monitor, "apiservers": (readings.SERVICE,), "streams": streams} | parts
    return view_of(replace(readings.SNAPSHOT, **made))


def failure(reason: str) -> FailureReading:
    return FailureReading(reason, "No, wait.", 0.0)


def test_sound_measurement_has_no_hints() -> None:
    assert found(stream()) == []


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (
            stream(tainted=100),
            "This machine was too busy to measure for 0 ms, and events of that time are left out: stop other",
        ),
        (
            stream(None, 0, up=False, session={"last_failure": failure("forbidden")}),
            "This identity may not list and watch pods: grant it these two verbs (`watchslo rbac` writes the role)",
        ),
        (
            stream(None, 0, up=False, session={"last_failure": failure("unauthorized")}),
            "The apiserver rejects the credentials for",
        ),
        (stream(None, 0, up=False, session={"last_failure": failure("throttled")}), "Not open: pods. No, wait."),
        (
            stream(audit={"stalled_for": 12.0, "result": "frozen"}),
            "pods has withheld events for 12 s: its watch cache in",
        ),
        (
            stream(audit={"stalled_for": 12.0, "result": "stalled"}),
            "pods has withheld events for 12 s: check the connection",
        ),
        (stream(membership="pending"), "It is not proven yet that the revision clock applies to pods"),
        (stream(membership="unparsable"), "The revisions of pods are not numbers"),
        (stream(None, 0), "No events for pods: watch a resource that changes, such as leases.coordination.k8s.io"),
        (
            stream(QuantileReading(0.99, 0.0, 0.2, 1.4, resolved=True), 99),
            "Too few events of pods for a verdict, which needs 100: measure for longer",
        ),
        (
            stream(QuantileReading(0.99, 0.0, 0.2, 1.4, resolved=True), 100),
            "pods cannot be judged, because the threshold lies between the proven bounds",
        ),
    ],
)
def test_each_hint_is_a_sentence_with_a_remedy(of: StreamReading, said: str) -> None:
    (sentence,) = found(of)
    assert sentence.startswith(said)
    assert sentence.endswith(".")


@pytest.mark.parametrize(("trip", "said"), [(0.2, "The P99 of pods is less than the round trip of 200 ms"), (0.1, "")])
def test_resolution_is_a_doubt_if_it_is_a_large_part_of_the_threshold(trip: float, said: str) -> None:
    """A P99 below a round trip of milliseconds is the best that a cluster can show."""
    below = stream(QuantileReading(0.99, 0.0, 0.001, 0.5, resolved=False))
    domains = [replace(domain, resolution=trip) for domain in readings.SNAPSHOT.domains]
    sentences = found(below, domains=domains)
    assert [sentence.startswith(said) for sentence in sentences] == [True] * bool(said)


def test_taint_over_a_tenth_of_the_time_is_a_problem() -> None:
    assert found(stream(), tainted=6.5)[0].startswith("This machine was too busy to measure for 6.5 s,")
    assert found(stream(), tainted=6.5, seconds=100.0) == []


def test_unproven_apiserver_is_named() -> None:
    assert found(stream(), apiservers=(readings.OTHER,)) == ["Unproven: its storage is kine, not etcd."]


def test_closed_watches_are_grouped_by_reason() -> None:
    away = [
        stream(None, 0, watch=name, up=False, session={"last_failure": failure(reason)})
        for name, reason in (("a", "forbidden"), ("b", "throttled"), ("c", "forbidden"), ("d", "throttled"))
    ]
    seen = view(*away, not_ready=("b has not been opened yet: No, wait.", "The revision clock does not tick: no."))
    rights, busy = problems(seen)
    assert rights.startswith("This identity may not list and watch a and c:")
    assert busy == "Not open: b and d. No, wait."
    assert unready(seen) == ["The revision clock does not tick: no."], "b is mentioned above"


def test_problems_leave_out_doubts() -> None:
    assert problems(view(stream(None, 0))) == []


def test_few_events_in_five_minutes_need_busier_resources() -> None:
    few = stream(QuantileReading(0.99, 0.0, 0.2, 1.4, resolved=True), 9)
    assert found(few, seconds=300.0)[0].endswith("for a verdict, which needs 100: watch busier resources.")


def test_quiet_watches_among_busy_ones_are_named() -> None:
    quiet = [stream(None, 0, watch=name) for name in ("d", "b")]
    assert found(stream(), *quiet) == ["No events for b and d: how late they would be is unknown."]


def test_hint_names_only_some_of_many_watches() -> None:
    quiet = [stream(None, 0, watch=name) for name in "abcdef"]
    assert found(stream(), *quiet)[0].startswith("No events for a, b, c and 3 more:")
