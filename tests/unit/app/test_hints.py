"""Problems and doubts of a measurement, as sentences with a remedy."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.support.transcripts import of_states
from tests.unit.serve import readings
from watchslo.app.hints import hints, problems, unready
from watchslo.app.terminal import View, view_of
from watchslo.snapshot import FailureReading, QuantileReading, WatchReading

GOOD = QuantileReading(0.99, 0.0, 0.1, 0.6)
UNDECIDED = QuantileReading(0.99, 0.0, 0.2, 1.4)
BELOW = QuantileReading(0.99, 0.0, 0.001, 0.5, resolution=0.3)  # the round trip


def stream(p99: QuantileReading | None = GOOD, events: int = 500, tainted: int = 0, **other: Any) -> WatchReading:
    objective = replace(readings.TRACK.objective, min_events=100)
    track = replace(readings.TRACK, objective=objective, unmeasured={"tainted": tainted})
    judged = readings.judged(events, *([p99] if p99 else []), track=track)
    return readings.changed(readings.TAIL, track=judged, **other)


def closed(reason: str, **other: Any) -> WatchReading:
    session = {"last_failure": FailureReading(reason, "No, wait.", 0.0)}
    return stream(None, 0, up=False, session=session, **other)


def quiet(names: str) -> list[WatchReading]:
    return [readings.changed(undated(watch=name), received={"events": {}}) for name in names]


def undated(unmeasured: Mapping[str, int] | None = None, **other: Any) -> WatchReading:
    """Return a watch of which no event is a sample."""
    made = stream(None, 0, **other)
    objective = replace(made.track.objective, verdicts={})
    return replace(made, track=replace(made.track, objective=objective, unmeasured=unmeasured or {}))


def view(*streams: WatchReading, seconds: float = 60.0, tainted: float = 0.0, **parts: Any) -> View:
    """A view of a measurement of `seconds`; watchslo itself was late for `tainted` seconds."""
    began = readings.SNAPSHOT.at_wall - seconds
    monitor = replace(
        readings.MONITOR, started_wall=began, tainted_seconds=tainted, not_ready=parts.pop("not_ready", ())
    )
    made: dict[str, Any] = {"monitor": monitor, "apiservers": (readings.SERVICE,), "watches": streams} | parts
    return view_of(replace(readings.SNAPSHOT, **made))


def ticking(trip: float) -> list[Any]:
    return [replace(domain, resolution=trip) for domain in readings.SNAPSHOT.domains]


UNTICKED = replace(readings.DOMAIN, tickers=(replace(readings.TICKER, failure="You may not list it; grant it."),))
CLOSED_FOR_TWO_REASONS = view(
    *(closed(reason, watch=name) for name, reason in zip("abcd", ("forbidden", "throttled") * 2, strict=True)),
    not_ready=("b has not been opened yet: No, wait.", "The revision clock does not tick: no."),
)
VIEWS = {
    "sound": view(stream()),
    "many events are tainted": view(stream(tainted=100)),
    "few events are tainted": view(stream(tainted=1)),
    "more than a tenth of the time is tainted": view(stream(), tainted=6.5),
    "less than a tenth of the time is tainted": view(stream(), tainted=6.5, seconds=100.0),
    "forbidden": view(closed("forbidden")),
    "unauthorized": view(closed("unauthorized")),
    "throttled": view(closed("throttled")),
    "closed for two reasons": CLOSED_FOR_TWO_REASONS,
    "frozen": view(stream(audit={"stalled_for": 12.0, "result": "frozen"})),
    "stalled": view(stream(audit={"stalled_for": 12.0, "result": "stalled"})),
    "clock not proven": view(stream(membership="pending")),
    "revisions are no numbers": view(stream(membership="unparsable")),
    "set aside": view(closed("unparsable", membership="unparsable")),
    "unproven apiserver": view(stream(), apiservers=(readings.OTHER,)),
    "no events at all": view(*quiet("a")),
    "no events of two of three": view(stream(), *quiet("db")),
    "no events of many": view(stream(), *quiet("abcdef")),
    "events of another sequence": view(undated({"initial": 90, "domain": 85, "tainted": 1}), *quiet("d")),
    "events of a clock that does not tick": view(undated(membership="pending"), domains=[UNTICKED]),
    "events that may be of another sequence": view(undated(membership="pending")),
    "events of a moment ago": view(undated(), undated(watch="b")),
    "one event too few": view(stream(UNDECIDED, 99)),
    "too few events in the longest measurement": view(stream(UNDECIDED, 9), seconds=300.0),
    "enough events, but undecided": view(stream(UNDECIDED, 100)),
    "resolution of a fifth of the threshold": view(stream(BELOW), domains=ticking(0.2)),
    "resolution of a tenth of the threshold": view(stream(BELOW), domains=ticking(0.1)),
}


def lines(seen: View) -> list[str]:
    """Return what is said; the problems are the first of the hints."""
    found = problems(seen)
    assert hints(seen)[: len(found)] == found
    assert all(sentence.endswith(".") for sentence in hints(seen))
    doubts = (f"doubt: {sentence}" for sentence in hints(seen)[len(found) :])
    return [*(f"not ready: {one}" for one in unready(seen)), *(f"problem: {one}" for one in found), *doubts]


def test_hints_match_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("hints.txt", of_states({name: lines(seen) for name, seen in VIEWS.items()}))
