"""The condition of one watch now: judged by its last minute and by the state of its connection. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from watchslo.model import SERVICE
from watchslo.snapshot import QuantileReading, StreamReading, WindowReading

LAST_MINUTE = WindowReading("1m", 60.0, 0, ())  # used until a window was evaluated
P50, P99 = 0.5, 0.99
FORGIVEN_SECONDS = 60.0  # a condition that returns within this time never ended: too few events came in between
IDLE = "idle"  # the result of an audit of a watch that has nothing to deliver


class P99Verdict(StrEnum):
    """The verdict on the P99 of a window. Bounds prove it with any number of events; an estimate needs many."""

    WITHIN = "within"
    BEYOND = "beyond"
    FEW_EVENTS = "few events"
    NOT_MEASURED = "not measured"


class Condition(StrEnum):
    """The condition of a watch; the worst comes first."""

    STALLED = "stalled"
    LATE = "late"
    CLOSED = "closed"
    NOT_MEASURED = "not measured"
    FEW_EVENTS = "few events"
    IDLE = "idle"
    WITHIN = "within"


_CONDITIONS = {
    P99Verdict.BEYOND: Condition.LATE,
    P99Verdict.WITHIN: Condition.WITHIN,
    P99Verdict.FEW_EVENTS: Condition.FEW_EVENTS,
    P99Verdict.NOT_MEASURED: Condition.NOT_MEASURED,
}
BAD = frozenset({Condition.STALLED, Condition.LATE, Condition.CLOSED})


@dataclass(frozen=True, slots=True)
class WatchCondition:
    """One watch now: the window of its last minute, P50 and P99 of that window, its condition, and since when."""

    stream: StreamReading
    window: WindowReading
    p50: QuantileReading | None
    p99: QuantileReading | None
    condition: Condition
    since_wall: float

    @property
    def name(self) -> str:
        return name_of(self.stream)


def name_of(stream: StreamReading) -> str:
    """Return the name of the watch, with its apiserver if there are several."""
    return placed(stream.watch, stream.apiserver)


def placed(watch: str, apiserver: str) -> str:
    """Return `WATCH`, or `WATCH at APISERVER` if the apiserver is not the service."""
    return watch if apiserver == SERVICE else f"{watch} at {apiserver}"


def window_of(stream: StreamReading, name: str) -> WindowReading | None:
    """Return the rolling window of that name, such as `1m`."""
    return next((window for window in stream.track.windows if window.name == name), None)


def quantile_of(window: WindowReading, q: float) -> QuantileReading | None:
    """Return a quantile of the window, or None if the window has none."""
    return next((quantile for quantile in window.quantiles if quantile.q == q), None)


def judge(stream: StreamReading, window: WindowReading) -> P99Verdict:
    """Return the verdict on the P99 of the window, by the objective of the watch."""
    objective = stream.track.objective
    p99 = quantile_of(window, P99)
    return verdict_on(p99, window.events, objective.threshold, stream.audit.stalled_for, objective.min_events)


def verdict_on(
    p99: QuantileReading | None, events: int, threshold: float, stalled_for: float | None, min_events: int
) -> P99Verdict:
    """Return the verdict on a P99; the estimate is used from `min_events` events.

    `threshold` and `stalled_for` are seconds. During a stall, earlier events prove nothing about now, unless they were
    late already.
    """
    verdict = _of_window(p99, events, threshold, min_events)
    if (stalled_for or 0.0) > threshold and verdict is not P99Verdict.BEYOND:
        return P99Verdict.NOT_MEASURED
    return verdict


def _of_window(p99: QuantileReading | None, events: int, threshold: float, min_events: int) -> P99Verdict:
    if p99 is None:
        return P99Verdict.NOT_MEASURED
    if p99.upper <= threshold:
        return P99Verdict.WITHIN
    if p99.lower > threshold:
        return P99Verdict.BEYOND
    if events < min_events:
        return P99Verdict.FEW_EVENTS
    return P99Verdict.WITHIN if p99.estimate <= threshold else P99Verdict.BEYOND


class Judge:
    """Judges one watch at each evaluation, and remembers since when each condition lasts."""

    def __init__(self) -> None:
        self._spans: dict[Condition, tuple[float, float]] = {}  # when each condition began, and when it was last seen

    def condition(self, stream: StreamReading, now_wall: float) -> WatchCondition:
        """Return the condition of the watch now. `within` ends every other condition; a short interruption does not."""
        window = window_of(stream, LAST_MINUTE.name) or LAST_MINUTE
        condition = _condition(stream, window)
        began, seen = self._spans.get(condition, (now_wall, now_wall))
        if now_wall - seen > FORGIVEN_SECONDS:
            began = now_wall
        self._spans = {} if condition is Condition.WITHIN else self._spans
        self._spans.pop(Condition.WITHIN, None)
        self._spans[condition] = began, now_wall
        p50, p99 = quantile_of(window, P50), quantile_of(window, P99)
        return WatchCondition(stream, window, p50, p99, condition, began)


def _condition(stream: StreamReading, window: WindowReading) -> Condition:
    if stream.audit.stalled_for is not None:
        return Condition.STALLED
    condition = _CONDITIONS[judge(stream, window)]
    if condition is Condition.LATE:
        return condition
    if not stream.up:
        return Condition.CLOSED
    return Condition.IDLE if not window.events and stream.audit.result == IDLE else condition
