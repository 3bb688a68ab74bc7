"""The condition of one watch now: judged by the window of its objective and by the state of its connection. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from watchslo.changes import increase
from watchslo.model import SERVICE
from watchslo.snapshot import QuantileReading, WatchReading, WindowReading, WindowVerdict

NO_WINDOW = WindowReading("1m", 60.0, 0, ())  # used until a window was evaluated
P50, P99, P999, MAXIMUM = 0.5, 0.99, 0.999, 1.0
CLOSED_SECONDS = 10.0  # a healthy watch reopens within this time
RECOVERY_SECONDS = 30.0  # after which a watch without events has been audited again
PROVEN_SECONDS = 60.0  # for which a proven late event makes a watch late, if there are no quantiles
FORGIVEN_SECONDS = 60.0  # a condition that returns within this time never ended: too few events came in between
SETTLED_SECONDS = 15.0  # a watch that was undecided for a moment is within again after three evaluations
IDLE = "idle"  # the result of an audit of a watch that has nothing to deliver
FORBIDDEN = "forbidden"  # the result of one that lacks a right, so that the watch will not be opened again


class WatchVerdict(StrEnum):
    """The verdict on a watch now. Bounds decide with any number of events; undecided are only windows with enough."""

    WITHIN = "within"
    BEYOND = "beyond"
    UNDECIDED = "undecided"
    FEW_EVENTS = "few events"
    NOT_MEASURED = "not measured"


class Condition(StrEnum):
    """The condition of a watch; the worst comes first, and what has no figures last.

    A watch is `connected` if it is measured without quantiles, and nothing is wrong; `no answer` is its apiserver's.
    """

    UNRESPONSIVE = "no answer"
    STALLED = "stalled"
    LATE = "late"
    CLOSED = "closed"
    NOT_MEASURED = "not measured"
    UNDECIDED = "undecided"
    FEW_EVENTS = "few events"
    CONNECTED = "connected"
    WITHIN = "within"
    IDLE = "idle"


_CONDITIONS = {
    WatchVerdict.BEYOND: Condition.LATE,
    WatchVerdict.WITHIN: Condition.WITHIN,
    WatchVerdict.UNDECIDED: Condition.UNDECIDED,
    WatchVerdict.FEW_EVENTS: Condition.FEW_EVENTS,
    WatchVerdict.NOT_MEASURED: Condition.NOT_MEASURED,
}
BAD = frozenset({Condition.UNRESPONSIVE, Condition.STALLED, Condition.LATE, Condition.CLOSED})
WELL = frozenset({Condition.WITHIN, Condition.IDLE, Condition.CONNECTED})


@dataclass(frozen=True, slots=True)
class WatchCondition:
    """One watch now: its condition and since when, the window of its objective, and two quantiles of that window.

    `judged` is the quantile that the objective names.
    """

    watch: WatchReading
    window: WindowReading
    p50: QuantileReading | None
    judged: QuantileReading | None
    condition: Condition
    since_wall: float

    @property
    def name(self) -> str:
        return name_of(self.watch)


def name_of(watch: WatchReading) -> str:
    """Return the name of the watch, with its apiserver if there are several."""
    return placed(watch.watch, watch.apiserver)


def placed(watch: str, apiserver: str) -> str:
    """Return `WATCH`, or `WATCH at APISERVER` if the apiserver is not the service."""
    return watch if apiserver == SERVICE else f"{watch} at {apiserver}"


def quantile_of(window: WindowReading, q: float) -> QuantileReading | None:
    """Return a quantile of the window, or None if the window has none."""
    return next((quantile for quantile in window.quantiles if quantile.q == q), None)


_DECIDED: Mapping[str, WatchVerdict] = {
    WindowVerdict.GOOD: WatchVerdict.WITHIN,
    WindowVerdict.BAD: WatchVerdict.BEYOND,
    WindowVerdict.UNDECIDED: WatchVerdict.UNDECIDED,
}


def verdict_on_events(window: str, events: int) -> WatchVerdict:
    """Return the verdict that follows from the verdict on a window, and the number of events in it."""
    return _DECIDED.get(window, WatchVerdict.FEW_EVENTS if events else WatchVerdict.NOT_MEASURED)


def verdict_on(
    events: WatchVerdict, threshold: float, *, stalled_for: float | None, down_for: float | None
) -> WatchVerdict:
    """Return the verdict on a watch, from the verdict on its events; all times are seconds.

    A watch that is down for longer than the threshold is beyond it, whatever it delivered before. During a stall,
    earlier events prove nothing about now, unless they were late already.
    """
    if (down_for or 0.0) > threshold:
        return WatchVerdict.BEYOND
    if (stalled_for or 0.0) > threshold and events is not WatchVerdict.BEYOND:
        return WatchVerdict.NOT_MEASURED
    return events


class Judge:
    """Judges one watch at each evaluation, and remembers since when each condition lasts."""

    def __init__(self) -> None:
        self._spans: dict[Condition, tuple[float, float]] = {}  # when each condition began, and when it was last seen
        self._proven = _ProvenEvents()
        self._recovery = _Recovery()
        self._was_within = False
        self._doubted_wall = -math.inf  # when it was undecided last, after it had been within

    def condition(self, watch: WatchReading, now_wall: float) -> WatchCondition:
        """Return the condition of the watch now. `within` ends every other condition; a short interruption does not."""
        window = watch.track.judged or NO_WINDOW
        condition = _condition(watch, window, is_late=self._proven.is_late(watch, now_wall))
        if not self._recovery.is_proven(condition, watch, now_wall):
            condition = Condition.NOT_MEASURED
        condition = self._settled(condition, now_wall)
        began, seen = self._spans.get(condition, (now_wall, now_wall))
        if now_wall - seen > FORGIVEN_SECONDS:
            began = now_wall
        self._spans = {} if condition is Condition.WITHIN else self._spans
        self._spans.pop(Condition.WITHIN, None)
        self._spans[condition] = began, now_wall
        self._recovery.note(condition, began, watch, now_wall)
        p50, judged = quantile_of(window, P50), quantile_of(window, watch.track.objective.quantile)
        return WatchCondition(watch, window, p50, judged, condition, began)

    def _settled(self, condition: Condition, now_wall: float) -> Condition:
        """Return `undecided` for a moment longer: events at the end of a fault make a watch flap."""
        if condition is Condition.WITHIN and now_wall - self._doubted_wall < SETTLED_SECONDS:
            return Condition.UNDECIDED
        if condition is Condition.UNDECIDED and self._was_within:
            self._doubted_wall = now_wall
        self._was_within |= condition is Condition.WITHIN
        return condition


class _ProvenEvents:
    """Remembers when an event was proven late, for watches without quantiles."""

    def __init__(self) -> None:
        self._beyond: int | None = None
        self._late_wall = -math.inf

    def is_late(self, watch: WatchReading, now_wall: float) -> bool:
        """Return True if an event of the last minute is proven late and there are no quantiles."""
        beyond, before = watch.track.objective.verdicts.get("beyond", 0), self._beyond
        self._beyond = beyond
        if before is not None and increase(before, beyond):
            self._late_wall = now_wall
        return watch.track.proven_only and now_wall - self._late_wall < PROVEN_SECONDS


class _Recovery:
    """Remembers what was bad, until something shows that it is over: a newer sample, or the time for an audit.

    Figures of a window may look good as soon as the late events have left it, though nothing has come since.
    """

    def __init__(self) -> None:
        self._samples: int | None = None  # at the last evaluation that was bad; None if nothing was
        self._bad_wall = 0.0

    def is_proven(self, condition: Condition, watch: WatchReading, now_wall: float) -> bool:
        """Return False for a condition that is well, while nothing shows that the bad one is over."""
        if condition not in WELL or self._samples is None:
            return True
        if watch.track.timespan.total > self._samples:
            return True
        return condition is not Condition.WITHIN and now_wall - self._bad_wall >= RECOVERY_SECONDS

    def note(self, condition: Condition, began_wall: float, watch: WatchReading, now_wall: float) -> None:
        """Take in the condition of an evaluation; a watch that only reopens was not bad."""
        if condition in BAD and (condition is not Condition.CLOSED or now_wall - began_wall >= CLOSED_SECONDS):
            self._samples, self._bad_wall = watch.track.timespan.total, now_wall
        elif condition in WELL:
            self._samples = None


def _condition(watch: WatchReading, window: WindowReading, *, is_late: bool) -> Condition:
    if watch.unresponsive:
        return Condition.UNRESPONSIVE
    if watch.audit.stalled_for is not None:
        return Condition.STALLED
    condition = _CONDITIONS[verdict_on_events(watch.track.verdict, window.events)]
    if is_late or condition is Condition.LATE:
        return Condition.LATE
    if not (watch.up and watch.measurable):
        return Condition.CLOSED if watch.measurable else Condition.NOT_MEASURED
    if watch.track.proven_only:
        return Condition.CONNECTED
    return Condition.IDLE if not window.events and watch.audit.result == IDLE else condition
