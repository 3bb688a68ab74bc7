"""Is a watch well now? By its last minute, and by what is known of its connection."""

from dataclasses import dataclass
from enum import StrEnum

from watchslo.model import SERVICE
from watchslo.snapshot import QuantileReading, StreamReading, WindowReading

LAST_MINUTE = WindowReading("1m", 60.0, 0, ())  # until one has been evaluated
P50, P99 = 0.5, 0.99
FORGIVEN_SECONDS = 60.0  # lateness that is seen again within this has not ended: between, too few events came to tell
IDLE = "idle"  # what an audit says of a watch that has nothing to deliver


class Verdict(StrEnum):
    """Of one watch and one window. What is proven needs no number of events; what is estimated does."""

    WITHIN = "within"
    BEYOND = "beyond"
    FEW_EVENTS = "few events"
    NOT_MEASURED = "not measured"


class Condition(StrEnum):
    """How a watch is; the worst first."""

    STALLED = "stalled"
    LATE = "late"
    CLOSED = "closed"
    NOT_MEASURED = "not measured"
    FEW_EVENTS = "few events"
    IDLE = "idle"
    WITHIN = "within"


_CONDITIONS = {
    Verdict.BEYOND: Condition.LATE,
    Verdict.WITHIN: Condition.WITHIN,
    Verdict.FEW_EVENTS: Condition.FEW_EVENTS,
    Verdict.NOT_MEASURED: Condition.NOT_MEASURED,
}
BAD = frozenset({Condition.STALLED, Condition.LATE, Condition.CLOSED})


@dataclass(frozen=True, slots=True)
class Line:
    """One watch now: its last minute, the quantiles of it that are shown, its condition, and since when it is so."""

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
    """The watch, and where: that goes without saying where one apiserver answers for all."""
    return placed(stream.watch, stream.apiserver)


def placed(watch: str, apiserver: str) -> str:
    """A watch, and where, by both their names."""
    return watch if apiserver == SERVICE else f"{watch} at {apiserver}"


def window_of(stream: StreamReading, name: str) -> WindowReading | None:
    """The rolling window of that name."""
    return next((window for window in stream.track.windows if window.name == name), None)


def quantile_of(window: WindowReading, q: float) -> QuantileReading | None:
    """A quantile of the window, if it has one."""
    return next((quantile for quantile in window.quantiles if quantile.q == q), None)


def judge(stream: StreamReading, window: WindowReading) -> Verdict:
    """The verdict on the window's P99, by the objective of the watch."""
    objective = stream.track.objective
    p99 = quantile_of(window, P99)
    return verdict_on(p99, window.events, objective.threshold, stream.stalled_for, objective.min_events)


def verdict_on(
    p99: QuantileReading | None, events: int, threshold: float, stalled_for: float | None, min_events: int
) -> Verdict:
    """What is known of a watch; an estimate counts from `min_events` events on.

    What came before a stall says nothing of now, unless it was late already.
    """
    verdict = _of_window(p99, events, threshold, min_events)
    if (stalled_for or 0.0) > threshold and verdict is not Verdict.BEYOND:
        return Verdict.NOT_MEASURED
    return verdict


def _of_window(p99: QuantileReading | None, events: int, threshold: float, min_events: int) -> Verdict:
    if p99 is None:
        return Verdict.NOT_MEASURED
    if p99.upper <= threshold:
        return Verdict.WITHIN
    if p99.lower > threshold:
        return Verdict.BEYOND
    if events < min_events:
        return Verdict.FEW_EVENTS
    return Verdict.WITHIN if p99.estimate <= threshold else Verdict.BEYOND


class Judge:
    """Judges one watch again and again, and knows since when it is as it is."""

    def __init__(self) -> None:
        self._spans: dict[Condition, tuple[float, float]] = {}  # when each began, and was seen last

    def line(self, stream: StreamReading, now_wall: float) -> Line:
        """The watch now. Being well ends all else; nothing else ends what is seen again soon."""
        window = window_of(stream, LAST_MINUTE.name) or LAST_MINUTE
        condition = _condition(stream, window)
        began, seen = self._spans.get(condition, (now_wall, now_wall))
        if now_wall - seen > FORGIVEN_SECONDS:
            began = now_wall
        self._spans = {} if condition is Condition.WITHIN else self._spans
        self._spans.pop(Condition.WITHIN, None)
        self._spans[condition] = began, now_wall
        p50, p99 = quantile_of(window, P50), quantile_of(window, P99)
        return Line(stream, window, p50, p99, condition, began)


def _condition(stream: StreamReading, window: WindowReading) -> Condition:
    if stream.stalled_for is not None:
        return Condition.STALLED
    condition = _CONDITIONS[judge(stream, window)]
    if condition is Condition.LATE:
        return condition
    if not stream.up:
        return Condition.CLOSED
    return Condition.IDLE if not window.events and stream.audit == IDLE else condition
