"""What a report knows of a period, whether from a daemon or from Prometheus. Times are Unix seconds."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from watchslo.api.feed import ClientLine
from watchslo.api.status import ReactionStatus
from watchslo.snapshot import Confidence
from watchslo.timeline.condition import P99, placed
from watchslo.timeline.day import MINUTE_SECONDS, Minute
from watchslo.timeline.verdict import Level

JUDGED_LATE_SECONDS = 90.0  # the verdict on a minute is known this long after it began, or a little later
INTERRUPTED_MINUTES = 2  # that were not bad do not divide a span of bad minutes
UNJUDGED = (Minute.NO_DATA, Minute.UNDECIDED)


@dataclass(frozen=True, slots=True)
class ReportPeriod:
    """The time that a report covers; it is divided into minutes of the wall clock."""

    since_wall: float
    until_wall: float

    @property
    def seconds(self) -> float:
        return self.until_wall - self.since_wall

    @property
    def first_minute(self) -> int:
        """The number of the first minute since the epoch."""
        return math.floor(self.since_wall / MINUTE_SECONDS)

    @property
    def minutes(self) -> int:
        """The number of minutes, including those that are covered in part."""
        return max(1, math.ceil(self.until_wall / MINUTE_SECONDS) - self.first_minute)

    def minute_of(self, wall: float) -> int:
        """Return the index of the minute at this time."""
        return math.floor(wall / MINUTE_SECONDS) - self.first_minute

    def begin_of(self, minute: int) -> float:
        """Return when the minute with this index begins."""
        return (self.first_minute + minute) * MINUTE_SECONDS


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A quantile at one moment, in seconds: an estimate if there is one, and proven bounds; `upper` may be infinite."""

    at_wall: float
    estimate: float | None
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class LatencyCurve:
    """A quantile over time, in ascending times that are `step` seconds apart if none is missing."""

    points: tuple[CurvePoint, ...] = ()
    step: float = 5.0
    quantile: float = P99
    threshold: float | None = None

    def is_late(self, point: CurvePoint) -> bool:
        """Return True if a point is proven to be over the threshold."""
        return self.threshold is not None and point.lower > self.threshold

    def late_walls(self) -> Iterator[float]:
        """Yield times of proven late events: a window is of the minute before, but the first late one of its end."""
        began = None
        for point in self.points:
            began = (began or point.at_wall) if self.is_late(point) else None
            if began is not None:
                yield max(began, point.at_wall - MINUTE_SECONDS)

    def between(self, since_wall: float, until_wall: float) -> tuple[CurvePoint, ...]:
        """Return the points from `since_wall` to before `until_wall`."""
        return tuple(point for point in self.points if since_wall <= point.at_wall < until_wall)


@dataclass(frozen=True, slots=True)
class EventCounts:
    """Events by their proven bounds compared with the threshold, and those that were not measured."""

    within: float = 0.0
    beyond: float = 0.0
    uncertain: float = 0.0
    unmeasured: float = 0.0

    @property
    def measured(self) -> float:
        return self.within + self.beyond + self.uncertain


@dataclass(frozen=True, slots=True)
class BadSpan:
    """Minutes in a row that were bad or proven late, with at most `INTERRUPTED_MINUTES` others in between."""

    since_wall: float
    until_wall: float
    minutes: int


@dataclass(frozen=True, slots=True)
class WatchRecord:
    """One watch in the period: its curve, the verdicts on the minutes of the period, and counted events.

    `silent` is for how many seconds in a row it received nothing while it was down or stalled, zero if that is not
    known; `now` is its condition when the report was made, None if that is not known.
    """

    watch: str
    apiserver: str
    curve: LatencyCurve
    minutes: tuple[Minute, ...]
    events: EventCounts = EventCounts()
    minutes_target: float | None = None
    events_target: float | None = None
    silent: float = 0.0
    now: str | None = None

    @property
    def name(self) -> str:
        return placed(self.watch, self.apiserver)

    @property
    def bad_minutes(self) -> int:
        return self.minutes.count(Minute.BAD)

    @property
    def judged_minutes(self) -> int:
        return self.bad_minutes + self.minutes.count(Minute.GOOD)

    def shown(self, period: ReportPeriod) -> tuple[Minute, ...]:
        """Return its minutes; one that could not be judged is bad, too, if its events were proven late."""
        late = {*map(period.minute_of, self.curve.late_walls())}
        return tuple(
            Minute.BAD if number in late and minute in UNJUDGED else minute
            for number, minute in enumerate(self.minutes)
        )

    def spans(self, period: ReportPeriod) -> tuple[BadSpan, ...]:
        """Return the spans of minutes that were bad or proven late, the first one first."""
        return spans_of(self.shown(period), period)

    def telling(self, period: ReportPeriod) -> tuple[CurvePoint, ...]:
        """Return the points of these spans, or all points if it has none; a window is of the minute before."""
        spans = self.spans(period)
        if not spans:
            return self.curve.points
        return tuple(
            point for bad in spans for point in self.curve.between(bad.since_wall, bad.until_wall + MINUTE_SECONDS)
        )


@dataclass(frozen=True, slots=True)
class CauseRecord:
    """A cause that was active in the period; `until_wall` is None if it still was at the end.

    The confidence is None if it was not recorded. `times` counts how often it began between the first begin and the
    last end.
    """

    cause: str
    place: str
    confidence: Confidence | None
    since_wall: float
    until_wall: float | None
    evidence: str
    next: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event of the timeline; `overloaded` means that watchslo itself could not keep up."""

    at_wall: float
    level: Level
    text: str
    overloaded: bool = False


@dataclass(frozen=True, slots=True)
class GuaranteeCount:
    """How often a guarantee was checked, None if that was not recorded, and violated."""

    guarantee: str
    checked: float | None
    violations: float


@dataclass(frozen=True, slots=True)
class PresentVerdict:
    """The headline of a daemon when the report was made."""

    level: Level
    text: str
    figures: str = ""


@dataclass(frozen=True, slots=True)
class OwnRecord:
    """What limits the figures: for how long watchslo itself could not keep up, and sentences about the rest.

    `absent` has the minutes of the period in which no instance of watchslo ran, by index. `doubts` are sentences about
    answers that may be incomplete.
    """

    overloaded_seconds: float | None = None
    absent: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)  # no slots: see `overall`
class IncidentReport:
    """Everything that a report shows.

    Nothing is known before `known_wall`. Counts of events, guarantees and lag began at `counted_wall`, which may lie
    before the period; `violated` says whether a guarantee was violated in the period. With `proven_only` there are no
    quantiles, as with `mode: node`. `reactions` has the steps with events or pending objects, `clients` the rows about
    the caches of other programs. If they are `newest`, they are of the five minutes before the report, and of its end;
    else they are the worst of the period.
    """

    title: str
    source: str
    made_wall: float
    period: ReportPeriod
    known_wall: float
    counted_wall: float
    watches: tuple[WatchRecord, ...]
    causes: tuple[CauseRecord, ...] = ()
    events: tuple[EventRecord, ...] = ()
    guarantees: tuple[GuaranteeCount, ...] = ()
    own: OwnRecord = field(default_factory=OwnRecord)
    now: PresentVerdict | None = None
    proven_only: bool = False
    violated: bool = False
    reactions: tuple[ReactionStatus, ...] = ()
    clients: tuple[ClientLine, ...] = ()
    newest: bool = False

    @cached_property
    def overall(self) -> tuple[Minute, ...]:
        """The worst verdict on any watch, minute by minute."""
        return self._worst([watch.minutes for watch in self.watches])

    @cached_property
    def shown(self) -> tuple[Minute, ...]:
        """The same; a minute that could not be judged is bad, too, if events of a watch were proven late."""
        return self._worst([watch.shown(self.period) for watch in self.watches])

    def _worst(self, of_watches: Sequence[Sequence[Minute]]) -> tuple[Minute, ...]:
        return tuple(map(max, zip(*of_watches, strict=True))) if of_watches else (Minute.NO_DATA,) * self.period.minutes

    @cached_property
    def bad_watches(self) -> tuple[WatchRecord, ...]:
        """The watches with minutes that were bad or proven late, the worst first."""
        return tuple(sorted((watch for watch in self.watches if watch.spans(self.period)), key=severity))

    @property
    def expected_minutes(self) -> int:
        """How many minutes of the period could have a verdict by the time of the report."""
        return self._minutes_from(self.period.since_wall - MINUTE_SECONDS)

    @property
    def known_minutes(self) -> int:
        """How many of them have begun since something is known."""
        return self._minutes_from(self.known_wall)

    def _minutes_from(self, since_wall: float) -> int:
        begins = map(self.period.begin_of, range(self.period.minutes))
        return sum(since_wall <= begin <= self.made_wall - JUDGED_LATE_SECONDS for begin in begins)

    @cached_property
    def apiservers(self) -> Mapping[str, LatencyCurve]:
        """The highest quantile of the watches of each apiserver, if there are several apiservers."""
        names = dict.fromkeys(watch.apiserver for watch in self.watches)
        if len(names) == 1:
            return {}
        return {
            name: highest([watch.curve for watch in self.watches if watch.apiserver == name]) for name in sorted(names)
        }


def severity(watch: WatchRecord) -> tuple[int, float, str]:
    """Return a key that sorts watches: most bad minutes first, then the highest quantile."""
    peak = peak_of(watch.curve.points)
    return -watch.bad_minutes, -(_height(peak) if peak else 0.0), watch.name


def peak_of(points: Sequence[CurvePoint]) -> CurvePoint | None:
    """Return the point with the highest estimate, or the highest bounds without estimates; None without points."""
    return max(points, key=lambda point: (_height(point), point.lower, point.upper), default=None)


def _height(point: CurvePoint) -> float:
    return point.lower if point.estimate is None else point.estimate


def spans_of(minutes: tuple[Minute, ...], period: ReportPeriod) -> tuple[BadSpan, ...]:
    """Return the spans of bad minutes, which end within the period."""
    found: list[list[int]] = []
    for minute, verdict in enumerate(minutes):
        if verdict is not Minute.BAD:
            continue
        if found and minute - found[-1][-1] <= INTERRUPTED_MINUTES + 1:
            found[-1].append(minute)
        else:
            found.append([minute])
    return tuple(
        BadSpan(
            max(period.since_wall, period.begin_of(bad[0])),
            min(period.until_wall, period.begin_of(bad[-1] + 1)),
            len(bad),
        )
        for bad in found
    )


def highest(curves: list[LatencyCurve]) -> LatencyCurve:
    """Return the highest of several quantiles at each moment; its bounds are the highest bounds, which is exact."""
    first = curves[0]
    moments: dict[float, list[CurvePoint]] = {}
    for curve in curves:
        for point in curve.points:
            moments.setdefault(point.at_wall, []).append(point)
    points = tuple(highest_point(at_wall, moments[at_wall]) for at_wall in sorted(moments))
    thresholds = {curve.threshold for curve in curves}
    quantiles = {curve.quantile for curve in curves}
    return LatencyCurve(
        points,
        first.step,
        max(quantiles),
        thresholds.pop() if len(thresholds) == 1 else None,
    )


def highest_point(at_wall: float, points: list[CurvePoint]) -> CurvePoint:
    """Return the highest of several quantiles, with its bounds."""
    estimates = [point.estimate for point in points if point.estimate is not None]
    return CurvePoint(
        at_wall,
        max(estimates, default=None),
        max(point.lower for point in points),
        max(point.upper for point in points),
    )
