"""The answer at the beginning of a report: was it late, since when, how late, which watches, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from watchslo.report.incident import BadSpan, CauseRecord, IncidentReport, ReportPeriod, WatchRecord, peak_of, spans_of
from watchslo.report.wording import at, bounds, clock, confidence_rank, number, share, span, times
from watchslo.timeline.condition import WELL
from watchslo.timeline.day import MINUTE_SECONDS, Minute
from watchslo.timeline.events import BROKEN
from watchslo.timeline.format import NAMED, counted, duration, lasting, percentile, some_of
from watchslo.timeline.verdict import Level

UNJUDGED_SHARE = 0.1  # of the minutes: with more of them, a report that found nothing is not good
AGO_SECONDS = 150.0  # a span that ends this long before the end of the period may last: minutes are judged later
MOST_CAUSES = 3
UNSURE = "late, stalled or down"


@dataclass(frozen=True, slots=True)
class IncidentAnswer:
    """One sentence, and labelled texts with what a reader asks next."""

    level: Level
    text: str
    facts: tuple[tuple[str, str], ...]


def answer(report: IncidentReport) -> IncidentAnswer:
    """Return what is known of the period in a few sentences."""
    level, text = _verdict(report)
    return IncidentAnswer(level, text, tuple(_facts(report)))


def leading_causes(report: IncidentReport) -> list[CauseRecord]:
    """Return each cause once: those of bad minutes first, the most certain first."""
    bad = spans_of(report.shown, report.period)

    def order(cause: CauseRecord) -> tuple[bool, int, float]:
        return not _explains(cause, bad), -confidence_rank(cause.confidence), cause.since_wall

    found: dict[tuple[str, str], list[CauseRecord]] = {}
    for cause in sorted(report.causes, key=order):
        found.setdefault((cause.cause, cause.place), []).append(cause)
    return [_united(causes) for causes in found.values()]


def _united(causes: Sequence[CauseRecord]) -> CauseRecord:
    """Return the first record of a cause, from its first begin to its last end."""
    ends = [cause.until_wall for cause in causes if cause.until_wall is not None]
    return replace(
        causes[0],
        since_wall=min(cause.since_wall for cause in causes),
        until_wall=max(ends) if len(ends) == len(causes) else None,
        times=len(causes),
    )


def _explains(cause: CauseRecord, bad: Sequence[BadSpan]) -> bool:
    """Return True if the cause was active in a bad minute; it is named, and the minute judged, up to a minute late."""
    return any(
        cause.since_wall <= bad_span.until_wall + MINUTE_SECONDS
        and (cause.until_wall is None or cause.until_wall >= bad_span.since_wall - MINUTE_SECONDS)
        for bad_span in bad
    )


# --- the first sentence -----------------------------------------------------------------------------------------------


def _verdict(report: IncidentReport) -> tuple[Level, str]:
    between = f"between {span(report.period.since_wall, report.period.until_wall)}"
    if report.bad_watches:
        return Level.BAD, _late(report)
    if report.violated:
        return Level.BAD, f"No watch was late {between}, but a guarantee was violated."
    if report.now and report.now.level is Level.BAD:
        return Level.BAD, report.now.text
    if doubt := _doubt(report, between):
        return Level.UNKNOWN, doubt
    return Level.GOOD, f"No watch was late {between}."


def _doubt(report: IncidentReport, between: str) -> str:
    """Return why a period without bad minutes is not good; empty if it is."""
    judged = sum(minute in (Minute.GOOD, Minute.UNDECIDED) for minute in report.overall)
    if report.proven_only and not judged:
        return f"No event is proven late {between}; more is not known without quantiles."
    if not judged:
        return f"Cannot tell: no minute {between} was judged."
    if report.causes:
        cause = leading_causes(report)[0].cause
        return f"No watch was proven late {between}, but a cause of lateness was active: {cause}."
    expected = report.expected_minutes
    unjudged = max(0, expected - judged) + report.overall.count(Minute.UNDECIDED)
    if unjudged > UNJUDGED_SHARE * expected:
        many = f"{unjudged:,} of {counted(expected, 'minute')}"
        return f"No watch was proven late {between}, but {many} could not be judged."
    if report.own.doubts:
        return f"No watch was proven late {between}, but the answers may be incomplete."
    return ""


def _late(report: IncidentReport) -> str:
    watches = report.bad_watches
    names = (
        some_of([watch.name for watch in watches])
        if len(watches) <= NAMED
        else f"{len(watches):,} of {counted(len(report.watches), 'watch')}"
    )
    bad = spans_of(report.shown, report.period)
    words = {_word(watch, report) for watch in watches}
    word = words.pop() if len(words) == 1 else UNSURE
    since_wall, until_wall = bad[0].since_wall, bad[-1].until_wall
    if any(may_last(watch, watch.spans(report.period)[-1], report) for watch in watches):
        return f"{names}: {word} since {at(since_wall)}, and still at the end of this report."
    return f"{names}: {word} from {span(since_wall, until_wall, 'to')}."


def _word(watch: WatchRecord, report: IncidentReport) -> str:
    """Return what was bad in the bad minutes of a watch: `late`, if its figures show that."""
    points = watch.telling(report.period)
    if any(map(watch.curve.is_late, points)):
        return "late"
    if not points and watch.events.beyond:
        return "late"
    return "stalled or down" if points else UNSURE


def _from_to(watch: WatchRecord, bad: BadSpan, report: IncidentReport) -> str:
    if may_last(watch, bad, report):
        return f"{times(bad.since_wall, None, report.period)} until the end of this report"
    return times(bad.since_wall, bad.until_wall, report.period)


def may_last(watch: WatchRecord, bad: BadSpan, report: IncidentReport) -> bool:
    """Return True if a span may last until the end of the period, whose newest minutes have no verdict yet.

    A watch that is well again by now has shown that it ended, unless now is long after the period.
    """
    ends = min(report.period.until_wall, report.made_wall)
    is_over = watch.now in WELL and report.made_wall - ends < AGO_SECONDS
    return bad.until_wall >= ends - AGO_SECONDS and not is_over


# --- facts ------------------------------------------------------------------------------------------------------------


def _facts(report: IncidentReport) -> Iterator[tuple[str, str]]:
    if report.bad_watches:
        more = f"; and {len(report.bad_watches) - NAMED} more" if len(report.bad_watches) > NAMED else ""
        yield "How long", "; ".join(_duration(watch, report) for watch in report.bad_watches[:NAMED]) + more
    if how_late := [text for watch in report.bad_watches[:NAMED] if (text := _how_late(watch, report))]:
        yield "How late", "; ".join(how_late)
    elif report.bad_watches:
        yield "How late", _proven(report) if report.proven_only else "no figures of this time are kept"
    if causes := leading_causes(report):
        bad = spans_of(report.shown, report.period)
        in_time = sorted(causes[:MOST_CAUSES], key=lambda cause: (not _explains(cause, bad), cause.since_wall))
        yield "Why", " ".join(cause_sentence(cause, report.period) for cause in in_time)
        if causes[0].next:
            yield "Look at", causes[0].next
    elif report.bad_watches:
        yield "Why", "no cause was named"
    if broken := [guarantee for guarantee in report.guarantees if guarantee.violations]:
        since = f", since {at(report.counted_wall)}" if report.counted_wall < report.period.since_wall else ""
        violations = (violated(guarantee.guarantee, guarantee.violations) for guarantee in broken)
        yield "Guarantees", "; ".join(violations) + since
    yield "Judged", _judged(report)
    if report.now:
        figures = f" ({report.now.figures})" if report.now.figures else ""
        yield "Now", f"{report.now.text.rstrip('.')}{figures}"


def _duration(watch: WatchRecord, report: IncidentReport) -> str:
    spans = watch.spans(report.period)
    unjudged = watch.shown(report.period).count(Minute.BAD) - watch.bad_minutes
    longest = max(spans, key=lambda bad_span: bad_span.until_wall - bad_span.since_wall)
    where = _from_to(watch, longest, report)
    if len(spans) > 1:
        where = f"in {len(spans)} spans, the longest {where} ({lasting(longest.until_wall - longest.since_wall)})"
    bad = [counted(watch.bad_minutes, "bad minute")] if watch.bad_minutes else []
    late = [f"{counted(unjudged, 'minute')} proven late but not judged"] if unjudged else []
    return f"{watch.name}: {' and '.join(bad + late)} {where}"


def _how_late(watch: WatchRecord, report: IncidentReport) -> str:
    """Return the highest quantile; of a watch that was not late but received nothing, for how long."""
    peak = _peak(watch, report.period)
    if _word(watch, report) == "late":
        return peak
    if watch.silent:
        return f"{watch.name}: received nothing for {duration(watch.silent)}"
    return f"{peak} (of the events that came)" if peak else ""


def _peak(watch: WatchRecord, period: ReportPeriod) -> str:
    peak = peak_of(watch.telling(period))
    if peak is None:
        return ""
    threshold = "" if watch.curve.threshold is None else f", threshold {duration(watch.curve.threshold)}"
    name = percentile(watch.curve.quantile)
    estimate = "" if peak.estimate is None else f" up to {duration(peak.estimate)}"
    return f"{watch.name}: {name}{estimate} at {clock(peak.at_wall)} UTC, proven {bounds(peak)}{threshold}"


def _proven(report: IncidentReport) -> str:
    beyond = sum(watch.events.beyond for watch in report.watches)
    return f"at least {number(beyond, 'event')} later than the threshold"


def cause_sentence(cause: CauseRecord, period: ReportPeriod) -> str:
    """Return a cause with its evidence: `storage_slow (high confidence) from 14:02 to 14:30 UTC: …`."""
    confidence = f" ({cause.confidence} confidence)" if cause.confidence else ""
    place = f" at {cause.place}" if cause.place else ""
    evidence = cause.evidence.rstrip(".")
    often = f" ({cause.times} times)" if cause.times > 1 else ""
    when = times(cause.since_wall, cause.until_wall, period) + often
    return f"{cause.cause}{place}{confidence} {when}{f': {evidence}' if evidence else ''}."


def heading(report: IncidentReport) -> str:
    """Return what the report is about: `watchslo: prod, 2026-03-01 14:00 to 15:00 UTC`."""
    return f"{report.title}, {span(report.period.since_wall, report.period.until_wall, 'to')}"


def violated(guarantee: str, count: float) -> str:
    """Return how often a guarantee was violated: `3 events lost: newer ones were delivered (reliable)`."""
    events = number(count, "event")
    return f"{BROKEN[guarantee].format(events)} ({guarantee})" if guarantee in BROKEN else f"{events} ({guarantee})"


def _judged(report: IncidentReport) -> str:
    counts = {verdict: report.overall.count(verdict) for verdict in Minute}
    judged = report.period.minutes - counts[Minute.NO_DATA]
    parts = [f"{counts[Minute.BAD]:,} bad", f"{counts[Minute.UNDECIDED]:,} undecided", f"{counts[Minute.GOOD]:,} good"]
    expected = max(judged, report.expected_minutes)
    missing = f"; {share(expected - judged, expected)} without a verdict" if expected > judged else ""
    return f"{judged:,} of {counted(expected, 'minute')}: {', '.join(parts)}{missing}"
