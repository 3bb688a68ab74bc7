"""What there is to show of a status in a terminal: of ours, or of what a daemon answers. Pure.

Commands that measure by themselves show their own status: what they say is what a daemon would.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from watchslo.history.chronicle import Account
from watchslo.history.judgement import P99, Verdict, placed, verdict_on
from watchslo.serve.status import encode
from watchslo.snapshot import QuantileReading, Snapshot

WINDOW = "1m"


class UnreadableError(Exception):
    """What answers is no daemon of ours, or speaks another version of the API."""


@dataclass(frozen=True, slots=True)
class Line:
    """One watch: the quantiles of its window by q, what keeps events away, and the verdict on its P99.

    `failure` is the last one in words and `reason` in one, `tainted` the share of its events that came while we were
    late.
    """

    watch: str
    apiserver: str
    resource: str
    group: str
    state: str
    up: bool
    membership: str
    audit: str | None
    stalled_for: float | None
    failure: str | None
    reason: str | None
    tainted: float
    threshold: float
    min_events: int
    events: int
    quantiles: Mapping[float, QuantileReading]
    verdict: Verdict

    @property
    def name(self) -> str:
        """The watch, and where: that goes without saying where one apiserver answers for all."""
        return placed(self.watch, self.apiserver)

    @property
    def p99(self) -> QuantileReading | None:
        return self.quantiles.get(P99)


@dataclass(frozen=True, slots=True)
class View:
    """One status: `at_wall` is when it was taken, `seconds` for how long it had been measured by then.

    `verdict` and `trust` say whether watches are late, since when, and whether that may be watchslo itself; None where
    nothing is remembered yet. `lines` are in the order of their names. Sentences are `causes`, the surest first,
    `unproven`: which revisions cannot be trusted, and `not_ready`. We were late for `tainted_seconds` in all; an answer
    takes `round_trip` seconds at worst.
    """

    at_wall: float
    verdict: str | None
    trust: str | None
    seconds: float
    cluster: str | None
    lines: tuple[Line, ...]
    causes: tuple[str, ...]
    unproven: tuple[str, ...]
    not_ready: tuple[str, ...]
    tainted_seconds: float
    round_trip: float | None

    @property
    def starting(self) -> bool:
        """Whether some watch is not open yet, or not yet known to belong to a clock."""
        return bool(self.not_ready) or any(line.up and line.membership == "pending" for line in self.lines)


# The part of /api/v1/status that is shown; what it says besides is passed over.


class _Part(msgspec.Struct, rename="camel"):
    pass


class _Quantile(_Part):
    q: float
    lower: float
    estimate: float | None
    upper: float | None
    resolved: bool


class _Window(_Part):
    name: str
    events: int
    quantiles: list[_Quantile]


class _Objective(_Part):
    threshold: float
    min_events: int


class _Latency(_Part):
    unmeasured: dict[str, int]
    windows: list[_Window]
    objective: _Objective


class _Failure(_Part):
    reason: str
    message: str


class _Stream(_Part):
    watch: str
    apiserver: str
    resource: str
    group: str
    state: str
    up: bool
    membership: str
    events: dict[str, int]
    last_audit: str | None
    stalled_for: float | None
    last_failure: _Failure | None
    latency: _Latency


class _Cause(_Part):
    cause: str
    confidence: str
    evidence: str
    next: str


class _Apiserver(_Part):
    unproven: str | None


class _Domain(_Part):
    median_round_trip: float | None


class _Verdict(_Part):
    text: str
    figures: str


class _Check(_Part):
    name: str
    text: str


class _Monitor(_Part):
    cluster: str | None
    started_at: datetime
    tainted_seconds: float
    not_ready: list[str]


class _Status(_Part):
    at: datetime
    monitor: _Monitor
    causes: list[_Cause]
    apiservers: list[_Apiserver]
    domains: list[_Domain]
    streams: list[_Stream]
    verdict: _Verdict | None = None
    trust: _Check | None = None


def view_of(snapshot: Snapshot, window: str = WINDOW, account: Account | None = None) -> View:
    """The view of a measurement of our own."""
    return read(encode(snapshot, account).body, window)


def read(body: bytes, window: str = WINDOW) -> View:
    """The view of a status, by the window of this name; raises UnreadableError."""
    try:
        status = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UnreadableError from None
    causes = (f"{one.evidence} ({one.cause}, {one.confidence} confidence) {one.next}" for one in status.causes)
    trips = (one.median_round_trip for one in status.domains if one.median_round_trip)
    return View(
        at_wall=status.at.timestamp(),
        verdict=_printable(_sentence(status.verdict)) if status.verdict else None,
        trust=_printable(f"{status.trust.name} {status.trust.text}") if status.trust else None,
        seconds=max(0.0, (status.at - status.monitor.started_at).total_seconds()),  # the wall clock may be set
        cluster=status.monitor.cluster and _printable(status.monitor.cluster),
        lines=tuple(sorted((_line(one, window) for one in status.streams), key=lambda one: (one.watch, one.apiserver))),
        causes=tuple(map(_printable, causes)),
        unproven=tuple(_printable(f"Unproven: {one.unproven}.") for one in status.apiservers if one.unproven),
        not_ready=tuple(map(_printable, status.monitor.not_ready)),
        tainted_seconds=status.monitor.tainted_seconds,
        round_trip=max(trips, default=None),
    )


def _sentence(verdict: _Verdict) -> str:
    parts = (part.rstrip(".") for part in (verdict.text, verdict.figures) if part)
    return f"{'; '.join(parts)}."


def _printable(text: str) -> str:
    """Without what a terminal would obey instead of showing it: a status may come from anybody."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _line(stream: _Stream, name: str) -> Line:
    window = next((one for one in stream.latency.windows if one.name == name), _Window(name, 0, []))
    quantiles = {one.q: _quantile(one) for one in window.quantiles}
    objective, failure = stream.latency.objective, stream.last_failure
    return Line(
        watch=_printable(stream.watch),
        apiserver=_printable(stream.apiserver),
        resource=_printable(stream.resource),
        group=_printable(stream.group),
        state=_printable(stream.state),
        up=stream.up,
        membership=stream.membership,
        audit=stream.last_audit,
        stalled_for=stream.stalled_for,
        failure=_printable(failure.message) if failure else None,
        reason=failure.reason if failure else None,
        tainted=stream.latency.unmeasured.get("tainted", 0) / max(1, sum(stream.events.values())),
        threshold=objective.threshold,
        min_events=objective.min_events,
        events=window.events,
        quantiles=quantiles,
        verdict=verdict_on(
            quantiles.get(P99), window.events, objective.threshold, stream.stalled_for, objective.min_events
        ),
    )


def _quantile(one: _Quantile) -> QuantileReading:
    return QuantileReading(one.q, one.lower, _finite(one.estimate), _finite(one.upper), resolved=one.resolved)


def _finite(seconds: float | None) -> float:
    """What JSON has no word for is null there."""
    return math.inf if seconds is None else seconds
