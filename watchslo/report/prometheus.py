"""A report from the answers of a Prometheus that scrapes watchslo. Pure."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from watchslo.api.feed import ClientLine
from watchslo.api.status import QuantileStatus, ReactionStatus
from watchslo.diagnose.cause_table import TABLE
from watchslo.model import resource_key
from watchslo.reaction.record import WINDOW_SECONDS
from watchslo.report.answer import violated
from watchslo.report.incident import (
    CauseRecord,
    CurvePoint,
    EventCounts,
    EventRecord,
    GuaranteeCount,
    IncidentReport,
    LatencyCurve,
    OwnRecord,
    ReportPeriod,
    WatchRecord,
    peak_of,
)
from watchslo.report.queries import Asked, MetricSeries, minute_of, step_of
from watchslo.serve.tables import shown_reactions
from watchslo.snapshot import RESPONSIBLE, Guarantee, ReactionStep, StoreVerdict
from watchslo.timeline.condition import P50, P99, placed
from watchslo.timeline.day import MINUTE_SECONDS, Minute
from watchslo.timeline.events import OWN_LAG_SECONDS
from watchslo.timeline.format import ABSENT, counted, duration, printable, some_of
from watchslo.timeline.verdict import Level

Answers = Mapping[Asked, Sequence[MetricSeries]]
_Key = tuple[str, str]
"""The apiserver and the name of a watch."""

_Step = tuple[str, str, int, str]
"""A resource, its group, the place of a step in the order of steps, and the step."""

STEPS = tuple(ReactionStep)
GUARANTEES = tuple(Guarantee)
_VERDICTS = {float(minute): minute for minute in Minute}


@dataclass(frozen=True, slots=True)
class _Span:
    """For how long something held, and whether it still did at the end."""

    since_wall: float
    until_wall: float
    ended: bool


def report_of(
    answers: Answers,
    period: ReportPeriod,
    place: str,
    made_wall: float,
    cluster: str | None,
    doubts: Sequence[str] = (),
) -> IncidentReport:
    """Return the report from the Prometheus at the URL `place`.

    `doubts` are sentences about answers that may be incomplete.
    """
    versions = sorted(series.metric.get("version", "unknown") for series in answers[Asked.BUILDS])
    proven_only = not answers[Asked.MINUTES] and bool(answers[Asked.EVENTS])
    absent = _absent(answers[Asked.PRESENT], period, made_wall)
    watches = tuple(_watches(answers, period, proven_only=proven_only))
    causes = tuple(_causes(answers[Asked.CAUSES], period))
    first = next((minute for minute in range(period.minutes) if minute not in absent), 0)
    return IncidentReport(
        title=printable(f"watchslo: {cluster}" if cluster else "watchslo"),
        source=printable(f"the Prometheus at {place}{f' (watchslo {some_of(versions)})' if versions else ''}"),
        made_wall=made_wall,
        period=period,
        known_wall=max(period.since_wall, period.begin_of(first)),
        counted_wall=period.since_wall,
        watches=watches,
        causes=causes,
        events=tuple(sorted(_events(answers, period, watches, causes), key=lambda event: event.at_wall)),
        guarantees=tuple(_guarantees(answers)),
        own=OwnRecord(
            overloaded_seconds=max((series.last for series in answers[Asked.OVERLOADED]), default=None),
            absent=frozenset(minute for minute in absent if minute > first),
            notes=tuple(_notes(answers, proven_only=proven_only)),
            doubts=tuple(doubts),
        ),
        proven_only=proven_only,
        violated=any(series.last > 0.0 for series in answers[Asked.VIOLATIONS]),
        reactions=shown_reactions(_reactions(answers)),
        clients=tuple(_clients(answers)),
    )


def _absent(present: Iterable[MetricSeries], period: ReportPeriod, made_wall: float) -> frozenset[int]:
    """Return the minutes in which no instance was scraped."""
    seen = {minute_of(at, period) for series in present for at, count in series.numbers if count}
    past = range(sum(period.begin_of(minute + 1) < made_wall - MINUTE_SECONDS for minute in range(period.minutes)))
    return frozenset(minute for minute in past if minute not in seen)


# --- watches ----------------------------------------------------------------------------------------------------------


def _key(series: MetricSeries) -> _Key:
    return series.metric.get("apiserver", ""), series.metric.get("watch", "")


def _name(series: MetricSeries) -> str:
    apiserver, watch = _key(series)
    return printable(placed(watch, apiserver))


def _watches(answers: Answers, period: ReportPeriod, *, proven_only: bool) -> Iterator[WatchRecord]:
    minutes = {_key(series): _minutes(series, period) for series in answers[Asked.MINUTES]}
    if proven_only:
        minutes = {_key(series): _late_minutes(series, period) for series in answers[Asked.LATE_MINUTES]}
    curves = {
        bound: {_key(series): dict(series.numbers) for series in answers[bound]}
        for bound in (Asked.LOWER, Asked.ESTIMATE, Asked.UPPER)
    }
    thresholds = {_key(series): series.last for series in answers[Asked.THRESHOLD]}
    targets = {(series.metric.get("kind"), *_key(series)): series.last for series in answers[Asked.TARGETS]}
    counts, without_events = _counts(answers), _without_events(answers, period)
    step = step_of(period)
    nothing = (Minute.NO_DATA,) * period.minutes
    for key in sorted({*minutes, *counts, *curves[Asked.LOWER]}, key=lambda pair: (pair[1], pair[0])):
        apiserver, watch = key
        threshold = thresholds.get(key, thresholds.get(("", "")))
        points = tuple(_points(*(curves[bound].get(key, {}) for bound in curves)))
        yield WatchRecord(
            watch=printable(watch),
            apiserver=printable(apiserver),
            curve=LatencyCurve(points, step, P99, threshold),
            minutes=minutes.get(key, nothing),
            silent=max(without_events[key], without_events[apiserver, ""]),
            events=counts.get(key, EventCounts()),
            minutes_target=targets.get(("minutes", *key), targets.get(("minutes", "", ""))),
            events_target=targets.get(("events", *key), targets.get(("events", "", ""))),
        )


def _without_events(answers: Answers, period: ReportPeriod) -> Mapping[_Key, float]:
    """Return for how many seconds each watch was closed or stalled, or each apiserver silent, at the longest."""
    longest: dict[_Key, float] = defaultdict(float)
    for asked in (Asked.CLOSED, Asked.STALLED, Asked.SILENT):
        for series in answers[asked]:
            for span in _spans(series, period):
                longest[_key(series)] = max(longest[_key(series)], span.until_wall - span.since_wall)
    return longest


def _points(
    lower: Mapping[float, float], estimate: Mapping[float, float], upper: Mapping[float, float]
) -> Iterator[CurvePoint]:
    """Yield a point for each lower bound; an upper bound that is absent is infinite."""
    for at_wall, bound in sorted(lower.items()):
        yield CurvePoint(at_wall, estimate.get(at_wall), bound, upper.get(at_wall, math.inf))


def _minutes(series: MetricSeries, period: ReportPeriod) -> tuple[Minute, ...]:
    verdicts = {minute_of(at, period): _VERDICTS.get(value, Minute.NO_DATA) for at, value in series.numbers}
    return tuple(verdicts.get(minute, Minute.NO_DATA) for minute in range(period.minutes))


def _late_minutes(series: MetricSeries, period: ReportPeriod) -> tuple[Minute, ...]:
    late = {minute_of(at, period) for at, value in series.numbers if value > 0.0}
    return tuple(Minute.BAD if minute in late else Minute.NO_DATA for minute in range(period.minutes))


def _counts(answers: Answers) -> dict[_Key, EventCounts]:
    counts: dict[_Key, EventCounts] = defaultdict(EventCounts)
    for series in answers[Asked.EVENTS]:
        if (verdict := series.metric.get("verdict")) in ("within", "beyond", "uncertain"):
            counts[_key(series)] = replace(counts[_key(series)], **{verdict: series.last})
    for series in answers[Asked.UNMEASURED]:
        counts[_key(series)] = replace(counts[_key(series)], unmeasured=series.last)
    return counts


# --- what held for a while --------------------------------------------------------------------------------------------


def _spans(series: MetricSeries, period: ReportPeriod) -> Iterator[_Span]:
    """Yield for how long a series that is absent otherwise was there, from its points every `step` seconds."""
    step = step_of(period)
    times = [at for at, _ in series.values]
    begins = [now for before, now in zip([-math.inf, *times], times, strict=False) if now - before > 1.5 * step]
    for begin, following in zip(begins, [*begins[1:], math.inf], strict=True):
        last = max(at for at in times if at < following)
        yield _Span(begin, min(last + step, period.until_wall), last + 1.5 * step < period.until_wall)


def _causes(found: Iterable[MetricSeries], period: ReportPeriod) -> Iterator[CauseRecord]:
    for series in found:
        cause, apiserver, watch = (printable(series.metric.get(label, "")) for label in ("cause", "apiserver", "watch"))
        advice = next((row.next for row in TABLE if row.cause == cause), "")
        for span in _spans(series, period):
            yield CauseRecord(
                cause=cause,
                place=" at ".join(filter(None, (watch, apiserver))),
                confidence=None,
                since_wall=span.since_wall,
                until_wall=span.until_wall if span.ended else None,
                evidence="",
                next=advice.format(apiserver=apiserver or "every apiserver", watch=watch or "the late resources"),
            )


def _guarantees(answers: Answers) -> Iterator[GuaranteeCount]:
    """Yield each guarantee; with `mode: node` violations have no label, and all of them are one row."""
    checks = {series.metric.get("guarantee", ""): series.last for series in answers[Asked.CHECKS]}
    violations = {series.metric.get("guarantee", ""): series.last for series in answers[Asked.VIOLATIONS]}
    for guarantee in dict.fromkeys((*GUARANTEES, *checks, *violations)):
        if guarantee in checks or guarantee in violations:
            yield GuaranteeCount(
                printable(guarantee) or "any guarantee", checks.get(guarantee), violations.get(guarantee, 0.0)
            )


# --- controllers and clients ------------------------------------------------------------------------------------------


def _step(series: MetricSeries) -> _Step:
    step = series.metric.get("step", "")
    place = STEPS.index(step) if step in STEPS else len(STEPS)
    return series.metric.get("resource", ""), series.metric.get("group", ""), place, step


def _reactions(answers: Answers) -> Iterator[ReactionStatus]:
    """Yield each step with the quantiles of the moment with the highest P99; no threshold is known."""
    curves: dict[_Step, dict[tuple[str, str], Mapping[float, float]]] = defaultdict(lambda: defaultdict(dict))
    for series in answers[Asked.REACTIONS]:
        curves[_step(series)][series.metric.get("q", ""), series.metric.get("bound", "")] = dict(series.numbers)
    reacted, pending, oldest = (
        {_step(series): series.last for series in answers[asked]}
        for asked in (Asked.REACTED, Asked.PENDING, Asked.OLDEST)
    )
    for key in sorted({*curves, *reacted, *pending}):
        resource, group, _, step = key
        yield ReactionStatus(
            group=group,
            resource=resource,
            step=step,
            responsible=RESPONSIBLE[ReactionStep(step)] if step in STEPS else ABSENT,
            window=WINDOW_SECONDS,
            events=round(reacted.get(key, 0.0)),
            quantiles=tuple(_highest(curves[key])),
            pending=round(pending[key]) if key in pending else None,
            oldest_pending=oldest.get(key),
        )


def _highest(curves: Mapping[tuple[str, str], Mapping[float, float]]) -> Iterator[QuantileStatus]:
    """Yield P50 and P99 of the moment with the highest P99."""
    peak = peak_of([*_points(*(curves[f"{P99}", bound] for bound in ("lower", "estimate", "upper")))])
    if peak is None:
        return
    median = curves[f"{P50}", "estimate"].get(peak.at_wall)
    if median is not None:
        yield QuantileStatus(q=P50, lower=0.0, estimate=median)
    upper = None if math.isinf(peak.upper) else peak.upper
    yield QuantileStatus(q=P99, lower=peak.lower, estimate=peak.estimate, upper=upper)


def _clients(answers: Answers) -> Iterator[ClientLine]:
    """Yield a row for each client whose page was read, with the resource that was proven most stale."""
    pages: dict[str, dict[str, float]] = defaultdict(dict)
    for series in answers[Asked.PAGES]:
        if series.last > 0.0:
            pages[series.metric.get("client", "")][series.metric.get("verdict", "")] = series.last
    stalest = {series.metric.get("client"): series for series in answers[Asked.STALEST]}
    queued = {series.metric.get("client"): series.last for series in answers[Asked.QUEUED]}
    for client, counts in sorted(pages.items()):
        worst = stalest.get(client)
        name = resource_key(worst.metric.get("resource", ""), worst.metric.get("group", "")) if worst else "all"
        yield ClientLine(
            key=client,
            level=Level.BAD if StoreVerdict.STALE in counts else Level.GOOD,
            cells=(
                client,
                name,
                f"at least {duration(worst.last)}" if worst else ABSENT,
                f"{round(queued[client]):,}" if client in queued else ABSENT,
                f"pages: {', '.join(f'{round(counts[each]):,} {each}' for each in StoreVerdict if each in counts)}",
            ),
        )


# --- the timeline -----------------------------------------------------------------------------------------------------


def _events(
    answers: Answers, period: ReportPeriod, watches: Iterable[WatchRecord], causes: Iterable[CauseRecord]
) -> Iterator[EventRecord]:
    for watch in watches:
        for bad in watch.spans(period):
            yield EventRecord(bad.since_wall, Level.BAD, f"{watch.name}: bad minutes begin")
            if bad.until_wall < period.until_wall:
                text = f"{watch.name}: bad minutes end ({bad.minutes} of them)"
                yield EventRecord(bad.until_wall, Level.GOOD, text)
    for cause in causes:
        where = f"{cause.cause}{f': {cause.place}' if cause.place else ''}"
        yield EventRecord(cause.since_wall, Level.BAD, f"cause {where} began")
        if cause.until_wall is not None:
            yield EventRecord(cause.until_wall, Level.GOOD, f"cause {where} ended")
    yield from _held(
        answers[Asked.STALLED], period, "stalled: the watch is open, but delivers no events", "delivers again"
    )
    yield from _held(answers[Asked.CLOSED], period, "not open", "open again")
    for series in answers[Asked.SILENT]:
        apiserver = printable(series.metric.get("apiserver", ""))
        for span in _spans(series, period):
            yield EventRecord(span.since_wall, Level.BAD, f"apiserver {apiserver} answers nothing")
            if span.ended:
                yield EventRecord(span.until_wall, Level.UNKNOWN, f"apiserver {apiserver} answers again")
    yield from _counted(answers)


def _held(found: Iterable[MetricSeries], period: ReportPeriod, begins: str, ends: str) -> Iterator[EventRecord]:
    for series in found:
        for span in _spans(series, period):
            yield EventRecord(span.since_wall, Level.BAD, f"{_name(series)}: {begins}")
            if span.ended:
                yield EventRecord(span.until_wall, Level.GOOD, f"{_name(series)}: {ends}")


def _counted(answers: Answers) -> Iterator[EventRecord]:
    for series in answers[Asked.VIOLATED_AT]:
        guarantee = printable(series.metric.get("guarantee", "")) or "any guarantee"
        for at, count in series.numbers:
            yield EventRecord(at, Level.BAD, f"{_name(series)}: {violated(guarantee, count)}")
    for series in answers[Asked.RELISTED_AT]:
        for at, count in series.numbers:
            times = f", {round(count):,} times" if count > 1 else ""
            reason = printable(series.metric.get("reason", ""))
            yield EventRecord(at, Level.UNKNOWN, f"{_name(series)}: started over ({reason}){times}")
    for series in answers[Asked.OVERLOADED_AT]:
        for at, seconds in series.numbers:
            if seconds >= OWN_LAG_SECONDS:
                text = f"watchslo itself could not keep up for {duration(seconds)}"
                yield EventRecord(at, Level.BAD, text, overloaded=True)


def _notes(answers: Answers, *, proven_only: bool) -> Iterator[str]:
    if proven_only:
        yield (
            "The targets run with mode: node, and so there are no quantiles, curves and judged minutes; a minute is "
            "bad if an event was proven late."
        )
    if answers[Asked.CAUSES]:
        yield (
            "Prometheus keeps when causes were active, but neither their evidence nor their confidence; the log of "
            "watchslo has both."
        )
    if {_key(series) for series in answers[Asked.THRESHOLD]} == {("", "")}:
        yield "The threshold is the common one: those of single watches are exported with metrics: full only."
    if len(answers[Asked.BUILDS]) > 1:
        yield f"{counted(len(answers[Asked.BUILDS]), 'version')} of watchslo were scraped in the period."
