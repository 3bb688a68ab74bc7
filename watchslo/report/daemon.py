"""A report from the documents of one daemon: its status, its feed and its series. Pure."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from watchslo.api.feed import PastFigures, SeriesDocument, Update
from watchslo.api.status import CauseStatus, LatencyStatus, StatusDocument, VerdictStatus, WatchStatus
from watchslo.reaction.record import WINDOW_SECONDS
from watchslo.report.incident import (
    BadSpan,
    CauseRecord,
    CurvePoint,
    EventCounts,
    EventRecord,
    GuaranteeCount,
    IncidentReport,
    LatencyCurve,
    OwnRecord,
    PresentVerdict,
    ReportPeriod,
    WatchRecord,
)
from watchslo.report.wording import at, confidence_rank
from watchslo.serve.tables import client_lines, shown_reactions
from watchslo.snapshot import Confidence
from watchslo.timeline.day import MINUTE_SECONDS, MINUTES, Minute
from watchslo.timeline.events import EventKind
from watchslo.timeline.format import counted, part_note, printable
from watchslo.timeline.verdict import level_of

HOUR_SECONDS = 3600.0  # that a daemon keeps the figures of its watches
DAY_SECONDS = MINUTES * MINUTE_SECONDS
INITIAL = "initial"  # an event of a list: nothing to measure
MOST_EVENTS = 500  # that a daemon keeps
MOST_CURVES = 24  # that are read: each takes 5 ms in the process that measures


@dataclass(frozen=True, slots=True)
class DaemonDocuments:
    """What a daemon answered, all at about the same time."""

    status: StatusDocument
    update: Update
    series: SeriesDocument


def names_for_curves(overview: SeriesDocument, update: Update, period: ReportPeriod) -> tuple[str, ...]:
    """Return the names of the watches whose curves are worth reading: most bad minutes first, then the latest now."""
    last = _last_minute(update)
    worst = sorted(
        overview.watches,
        key=lambda past: (
            -[*_minutes(past.minutes, last, period)].count(Minute.BAD),
            -max((value for value in past.judged if value is not None), default=0.0),
            past.watch,
        ),
    )
    return tuple(dict.fromkeys(past.watch for past in worst))[:MOST_CURVES]


def with_curves(overview: SeriesDocument, curves: Iterable[SeriesDocument]) -> SeriesDocument:
    """Return the overview with the curves that were read; the other watches have minutes only."""
    read = {(past.apiserver, past.watch): past for series in curves for past in series.watches}
    return msgspec.structs.replace(
        overview,
        watches=tuple(
            read.get((past.apiserver, past.watch))
            or msgspec.structs.replace(past, at=(), judged=(), lower=(), upper=())
            for past in overview.watches
        ),
    )


def report_of(documents: DaemonDocuments, period: ReportPeriod, place: str, made_wall: float) -> IncidentReport:
    """Return the report of a daemon at the URL `place`."""
    status, monitor = documents.status, documents.status.monitor
    started = monitor.started_at.timestamp()
    name = ", ".join(filter(None, (status.cluster, monitor.instance.part)))
    return IncidentReport(
        title=printable(f"watchslo: {name}" if name else "watchslo"),
        source=printable(f"the daemon at {place} (watchslo {monitor.build.version})"),
        made_wall=made_wall,
        period=period,
        known_wall=max(started, made_wall - DAY_SECONDS),
        counted_wall=started,
        watches=tuple(_watches(documents, period)),
        causes=tuple(_causes(documents, period)),
        events=tuple(
            EventRecord(
                event.at.timestamp(), level_of(event.level), printable(event.text), event.kind == EventKind.OVERLOADED
            )
            for event in documents.update.happened
            if _within(event.at, period)
        ),
        guarantees=tuple(_guarantees(status.watches)),
        own=OwnRecord(overloaded_seconds=monitor.tainted_seconds, notes=tuple(_notes(documents, period, made_wall))),
        now=_present(status.verdict),
        proven_only=bool(status.watches) and not any(watch.latency.windows for watch in status.watches),
        violated=_is_violated(documents, period),
        reactions=shown_reactions(status.reactions) if _reaches(period, made_wall) else (),
        clients=tuple(client_lines(status.clients)) if _reaches(period, made_wall) else (),
        newest=True,
    )


def _present(verdict: VerdictStatus | None) -> PresentVerdict | None:
    if verdict is None:
        return None
    return PresentVerdict(level_of(verdict.level), printable(verdict.text), printable(verdict.figures))


def _reaches(period: ReportPeriod, made_wall: float) -> bool:
    """Return True if the period reaches into the last five minutes, of which a daemon knows more."""
    return period.until_wall > made_wall - WINDOW_SECONDS


def _within(when: datetime, period: ReportPeriod) -> bool:
    return period.since_wall <= when.timestamp() <= period.until_wall


# --- watches ----------------------------------------------------------------------------------------------------------


def _watches(documents: DaemonDocuments, period: ReportPeriod) -> Iterator[WatchRecord]:
    watches = {(watch.apiserver, watch.watch): watch for watch in documents.status.watches}
    resolutions = {domain.name: domain.resolution or 0.0 for domain in documents.status.domains}
    last = _last_minute(documents.update)
    for past in documents.series.watches:
        watch = watches.get((past.apiserver, past.watch))
        objective = watch.latency.objective if watch else None
        points = _points(past, period, resolutions.get(watch.domain, 0.0) if watch else 0.0)
        record = WatchRecord(
            watch=printable(past.watch),
            apiserver=printable(past.apiserver),
            curve=LatencyCurve(tuple(points), documents.series.step, past.quantile, past.threshold),
            minutes=tuple(_minutes(past.minutes, last, period)),
            events=_counts(watch.latency) if watch else EventCounts(),
            minutes_target=objective.minutes_target if objective else None,
            events_target=objective.events_target if objective else None,
            now=printable(watch.condition) if watch and watch.condition else None,
        )
        yield replace(record, silent=_silent(past, record.spans(period), objective.window) if objective else 0.0)


def _points(past: PastFigures, period: ReportPeriod, resolution: float) -> Iterator[CurvePoint]:
    """Yield the points of the period; an estimate below the resolution of the clock is no measurement."""
    for at_wall, judged, lower, upper in zip(past.at, past.judged, past.lower, past.upper, strict=True):
        if lower is not None and period.since_wall <= at_wall <= period.until_wall:
            estimate = judged if judged is not None and judged >= resolution else None
            yield CurvePoint(at_wall, estimate, lower, math.inf if upper is None else upper)


def _silent(past: PastFigures, spans: Iterable[BadSpan], window: float) -> float:
    """Return the longest time, in seconds, in which nothing came after there had been events, and that touches a span.

    A window is empty once nothing has come for `window` seconds.
    """
    longest, before, began = 0.0, None, None
    for at_wall, events in zip(past.at, past.events, strict=False):
        if events != 0:
            began = None
        elif before:
            began = at_wall - window
        before = events
        if began is not None and any(began < span.until_wall and span.since_wall < at_wall for span in spans):
            longest = max(longest, at_wall - began)
    return longest


def _last_minute(update: Update) -> int:
    """Return the number of the newest minute of the day; without a day there are no minutes either."""
    return math.floor(update.day.until.timestamp() / MINUTE_SECONDS) if update.day else 0


def _minutes(digits: str, last: int, period: ReportPeriod) -> Iterator[Minute]:
    """Yield the verdict on each minute of the period; `last` is the number of the newest minute in `digits`."""
    first = last - len(digits) + 1
    for number in range(period.first_minute, period.first_minute + period.minutes):
        yield Minute(int(digits[number - first])) if first <= number <= last else Minute.NO_DATA


def _counts(latency: LatencyStatus) -> EventCounts:
    verdicts = latency.objective.verdicts
    unmeasured = sum(count for reason, count in latency.unmeasured.items() if reason != INITIAL)
    return EventCounts(verdicts.get("within", 0), verdicts.get("beyond", 0), verdicts.get("uncertain", 0), unmeasured)


# --- causes and guarantees --------------------------------------------------------------------------------------------


def _causes(documents: DaemonDocuments, period: ReportPeriod) -> Iterator[CauseRecord]:
    """Yield the causes that are active, and those that ended in the period, each as it was when it was most certain."""
    noted = [event.cause for event in documents.update.happened if event.cause]
    ended = [
        (event.cause, event.at.timestamp())
        for event in documents.update.happened
        if event.kind == EventKind.CAUSE_ENDED and event.cause
    ]
    for cause, until_wall in [*ended, *((cause, None) for cause in documents.status.causes)]:
        since_wall = cause.since.timestamp()
        if since_wall <= period.until_wall and (until_wall is None or until_wall >= period.since_wall):
            same = [
                other
                for other in noted
                if (other.cause, _place(other), other.since) == (cause.cause, _place(cause), cause.since)
            ]
            telling = max([*same, cause], key=lambda status: confidence_rank(_confidence(status)))
            yield CauseRecord(
                cause=printable(cause.cause),
                place=printable(_place(cause)),
                confidence=_confidence(telling),
                since_wall=since_wall,
                until_wall=until_wall if until_wall is None or until_wall <= period.until_wall else None,
                evidence=printable(telling.evidence),
                next=printable(telling.next),
            )


def _place(cause: CauseStatus) -> str:
    return " at ".join(filter(None, (cause.watch, cause.apiserver)))


def _confidence(cause: CauseStatus) -> Confidence | None:
    """Return how certain a cause is; None for a word of a newer version."""
    return Confidence(cause.confidence) if cause.confidence in [*Confidence] else None


def _guarantees(watches: Iterable[WatchStatus]) -> Iterator[GuaranteeCount]:
    checked: dict[str, int] = {}
    violations: dict[str, int] = {}
    for watch in watches:
        _add(checked, watch.guarantees.checked)
        _add(violations, watch.guarantees.violations)
    for guarantee in dict.fromkeys((*checked, *violations)):
        yield GuaranteeCount(printable(guarantee), checked.get(guarantee, 0), violations.get(guarantee, 0))


def _is_violated(documents: DaemonDocuments, period: ReportPeriod) -> bool:
    """Return True if a guarantee was violated in the period; counts of a daemon that started before do not show it."""
    return any(event.kind == EventKind.VIOLATED and _within(event.at, period) for event in documents.update.happened)


def _add(totals: dict[str, int], counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        totals[name] = totals.get(name, 0) + count


# --- what a daemon does not keep --------------------------------------------------------------------------------------


def _notes(documents: DaemonDocuments, period: ReportPeriod, made_wall: float) -> Iterator[str]:
    monitor = documents.status.monitor
    if part := part_note(monitor.instance.part, monitor.shard.elsewhere):
        yield printable(part)
    started = monitor.started_at.timestamp()
    if (kept := made_wall - HOUR_SECONDS) > max(period.since_wall, started) + MINUTE_SECONDS:
        yield f"A daemon keeps curves for an hour, so they begin at {at(kept)}; --prometheus has them for longer."
    if started < period.since_wall - MINUTE_SECONDS:
        yield f"Events, guarantees and lag are counted since watchslo started, at {at(started)}, not for the period."
    status = documents.status
    if (status.clients or shown_reactions(status.reactions)) and not _reaches(period, made_wall):
        yield "A daemon knows controllers and clients of the last five minutes only; --prometheus has them for longer."
    if 0 < (bare := sum(not past.at for past in documents.series.watches)) < len(documents.series.watches):
        yield f"Curves of the worst watches only were read; {counted(bare, 'watch')} more have none here."
    happened = documents.update.happened
    first = happened[0].at.timestamp() if happened else 0.0
    if len(happened) >= MOST_EVENTS and first > max(period.since_wall, started):
        yield f"A daemon keeps {MOST_EVENTS} events of its timeline: those before {at(first)} are gone."
