"""What the terminal shows of a daemon, made from its status: pure, so that the screen only has to draw it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from watchslo.app.table import Line
from watchslo.history.judgement import P99, Verdict, verdict_on
from watchslo.history.words import counted
from watchslo.snapshot import QuantileReading

WINDOW = "1m"
GRAVITY = {Verdict.BEYOND: 4.0, Verdict.FEW_EVENTS: 2.0, Verdict.WITHIN: 1.0, Verdict.NOT_MEASURED: 0.0}
BROKEN = 3.0  # what brings no events is worse than one of which nothing is known


class UnreadableError(Exception):
    """What answers is no daemon of ours, or speaks another version of the API."""


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
    windows: list[_Window]
    objective: _Objective


class _Failure(_Part):
    message: str


class _Stream(_Part):
    watch: str
    apiserver: str
    resource: str
    group: str
    state: str
    up: bool
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


class _Monitor(_Part):
    cluster: str | None
    not_ready: list[str]


class _Status(_Part):
    at: datetime
    monitor: _Monitor
    causes: list[_Cause]
    apiservers: list[_Apiserver]
    streams: list[_Stream]


@dataclass(frozen=True, slots=True)
class View:
    """One status: `at_wall` is when it was taken, `ready` whether every watch was opened and the clock ticks.

    `causes` are sentences, the surest first, and so are `notes`: why it is not ready, or not to be trusted.
    """

    at_wall: float
    cluster: str | None
    ready: bool
    lines: tuple[Line, ...]
    causes: tuple[str, ...]
    notes: tuple[str, ...]


def read(body: bytes) -> View:
    """The view of a status; raises UnreadableError."""
    try:
        status = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UnreadableError from None
    causes = (f"{one.evidence} ({one.cause}, {one.confidence} confidence) {one.next}" for one in status.causes)
    unproven = (f"Unproven: {one.unproven}." for one in status.apiservers if one.unproven)
    return View(
        at_wall=status.at.timestamp(),
        cluster=status.monitor.cluster and _printable(status.monitor.cluster),
        ready=not status.monitor.not_ready,
        lines=tuple(map(_line, status.streams)),
        causes=tuple(map(_printable, causes)),
        notes=tuple(map(_printable, (*unproven, *status.monitor.not_ready))),
    )


def _printable(text: str) -> str:
    """Without what a terminal would obey instead of showing it: a status may come from anybody."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _line(stream: _Stream) -> Line:
    window = next((one for one in stream.latency.windows if one.name == WINDOW), _Window(WINDOW, 0, []))
    quantiles = {one.q: _quantile(one) for one in window.quantiles}
    objective = stream.latency.objective
    return Line(
        watch=_printable(stream.watch),
        apiserver=_printable(stream.apiserver),
        resource=_printable(stream.resource),
        group=_printable(stream.group),
        state=_printable(stream.state),
        up=stream.up,
        stalled_for=stream.stalled_for,
        failure=_printable(stream.last_failure.message) if stream.last_failure else None,
        threshold=objective.threshold,
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


# What is chosen of it, and in which order


def _p50(line: Line) -> float | None:
    return line.quantiles[0.5].estimate if 0.5 in line.quantiles else None  # noqa: PLR2004 - the median


def _gravity(line: Line) -> float:
    broken = line.stalled_for is not None or not line.up
    return max(GRAVITY[line.verdict], BROKEN if broken else 0.0)


def _p99(line: Line) -> float | None:
    return line.p99.estimate if line.p99 else None


def _bounds(line: Line) -> tuple[float, float] | None:
    return (line.p99.upper, line.p99.lower) if line.p99 else None


KEYS: tuple[Callable[[Line], object], ...] = (
    lambda line: line.name,
    lambda line: line.events,
    _p50,
    _p99,
    _bounds,
    lambda line: (_gravity(line), _p99(line) or 0.0),
)
"""What each column of the table is sorted by; None where there is nothing to sort by."""
BY_NAME, BY_VERDICT = 0, len(KEYS) - 1


@dataclass(frozen=True, slots=True)
class Choice:
    """Which watches are shown, by a part of their name or verdict, and by which column they are sorted."""

    column: int = BY_VERDICT
    descending: bool = True
    wanted: str = ""

    def sorted_by(self, column: int) -> "Choice":
        """By this column, the largest first, but names from A; the same one again turns the order round."""
        descending = not self.descending if column == self.column else column != BY_NAME
        return replace(self, column=column, descending=descending)

    def containing(self, wanted: str) -> "Choice":
        """Only watches whose name or verdict contains this."""
        return replace(self, wanted=wanted)

    def of(self, lines: Sequence[Line]) -> list[Line]:
        """The lines to show. Those that have nothing to sort by stand at the end."""
        wanted = self.wanted.casefold()
        shown = sorted(
            (line for line in lines if wanted in f"{line.name} {line.verdict}".casefold()), key=lambda line: line.name
        )
        key = KEYS[self.column]
        known = [line for line in shown if key(line) is not None]
        return [
            *sorted(known, key=key, reverse=self.descending),  # type: ignore[arg-type]
            *(line for line in shown if key(line) is None),
        ]


@dataclass(frozen=True, slots=True)
class Link:
    """Whether the daemon answers: since when it does not, in Unix seconds, and why."""

    since_wall: float | None = None
    why: str = ""

    def failed(self, why: str, wall: float) -> "Link":
        """Another failure, of the same outage."""
        return Link(self.since_wall or wall, why)

    def says(self, view: View | None, wall: float) -> str:
        """Nothing while it answers; else since when it does not, and how old that makes what is shown."""
        if self.since_wall is None:
            return ""
        lasted = counted(round(wall - self.since_wall), "second")
        shown = f" What is shown is of {clock(view.at_wall)}." if view else ""
        return f"Disconnected since {clock(self.since_wall)} ({lasted}): {self.why}.{shown}"


def clock(wall: float) -> str:
    """The time of day, here."""
    return datetime.fromtimestamp(wall).astimezone().strftime("%H:%M:%S")
