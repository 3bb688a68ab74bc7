"""The sections of a report after its answer: sentences, tables and curves, which every format writes in its own way."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from watchslo.api.status import ReactionStatus
from watchslo.report.answer import leading_causes, may_last, violated
from watchslo.report.incident import (
    CauseRecord,
    CurvePoint,
    EventRecord,
    GuaranteeCount,
    IncidentReport,
    LatencyCurve,
    WatchRecord,
    highest_point,
    peak_of,
    severity,
)
from watchslo.report.unknown import unknowns
from watchslo.report.wording import at, bounds, clock, estimate_of, share, span
from watchslo.serve.tables import CLIENTS, CONTROLLERS, reaction_cells
from watchslo.timeline.condition import P99
from watchslo.timeline.day import MINUTE_SECONDS, Minute
from watchslo.timeline.format import ABSENT, counted, duration, moment, percentile, printable
from watchslo.timeline.verdict import SIGNS, Level

MOST_CHARTS = 12  # of watches, and of apiservers; the table of watches has the figures of more
MOST_WATCHES = 100
MOST_EVENTS = 150
MOST_ROWS = 100  # about controllers, and about clients
MOST_CAUSES = 30
SLICES = 12  # of the period in the table next to a chart
NEWEST_CACHES = "How old the informer caches of other programs were when the report was made."
WORST_CACHES = "Of each client, the resource that was most stale in the period, and the number of its pages by verdict."
NEWEST = "All figures are those of the five minutes before the report was made."
WORST = "P50 and P99 are those of the worst five minutes of the period; pending and oldest are the highest of it."
BUDGET_SECONDS = 30 * 86400.0
MINUTES_OF_BUDGET = BUDGET_SECONDS / MINUTE_SECONDS


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of texts. The columns in `numbers` are aligned right; `left_out` says how many rows are not shown."""

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class ReportChart:
    """A curve with the verdicts on its minutes and the same figures as a table."""

    title: str
    summary: str
    curve: LatencyCurve
    minutes: tuple[Minute, ...]
    table: ReportTable


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A titled part. `strip` asks for a picture of the verdict on every minute."""

    title: str
    sentences: tuple[str, ...] = ()
    table: ReportTable | None = None
    charts: tuple[ReportChart, ...] = ()
    strip: tuple[Minute, ...] = ()


def sections(report: IncidentReport) -> tuple[ReportSection, ...]:
    """Return all sections in their order."""
    return (
        _timeline(report),
        _watch_charts(report),
        *_apiserver_charts(report),
        _watches(report),
        *_controllers(report),
        *_clients(report),
        _causes(report),
        _guarantees(report),
        _budget(report),
        ReportSection("What was not known", unknowns(report)),
        ReportSection("How to read this", _explanations(report)),
    )


def _some(rows: Sequence[tuple[str, ...]], most: int, noun: str) -> tuple[tuple[tuple[str, ...], ...], str]:
    """Return the first rows, and a sentence about the others."""
    more = len(rows) - most
    return tuple(
        rows[:most]
    ), f"{counted(more, noun)} more {'is' if more == 1 else 'are'} not shown." if more > 0 else ""


# --- the timeline -----------------------------------------------------------------------------------------------------


def _timeline(report: IncidentReport) -> ReportSection:
    every = tuple(_merged(sorted(report.events, key=lambda event: event.at_wall)))
    events = _chosen(every)
    rows = tuple((moment(event.at_wall), SIGNS[event.level], event.text) for event in events)
    more = len(every) - len(events)
    left_out = f"{counted(more, 'event')} of less importance {'is' if more == 1 else 'are'} not shown." if more else ""
    table = ReportTable("Events of the period", ("Time (UTC)", "", "What happened"), rows, left_out=left_out)
    return ReportSection(
        "Timeline",
        (f"{SIGNS[Level.BAD]} bad, {SIGNS[Level.UNKNOWN]} uncertain, {SIGNS[Level.GOOD]} good.",)
        if rows
        else ("Nothing was recorded.",),
        table if rows else None,
        strip=report.shown,
    )


def _merged(events: Iterable[EventRecord]) -> Iterator[EventRecord]:
    """Yield events in the order of time; own delays with no other event between them are one."""
    for overloaded, run in groupby(events, key=lambda event: event.overloaded):
        first, *others = run
        if overloaded and others:
            until = clock(others[-1].at_wall)
            yield replace(first, text=f"watchslo itself could not keep up, {len(others) + 1} times until {until}")
        else:
            yield from (first, *others)


def _chosen(events: tuple[EventRecord, ...]) -> list[EventRecord]:
    """Return all events, or if there are too many, the bad ones first and then the others, in the order of time."""
    order = [Level.BAD, Level.UNKNOWN, Level.GOOD]
    kept = islice(sorted(events, key=lambda event: order.index(event.level)), MOST_EVENTS)
    return sorted(kept, key=lambda event: event.at_wall)


# --- curves -----------------------------------------------------------------------------------------------------------


def _watch_charts(report: IncidentReport) -> ReportSection:
    watches = sorted((watch for watch in report.watches if watch.curve.points), key=severity)
    charts = tuple(_chart(watch.name, watch.curve, watch.minutes, report) for watch in watches[:MOST_CHARTS])
    sentences: tuple[str, ...] = ()
    if report.proven_only:
        sentences = ("Without quantiles (mode: node) there is no curve.",)
    elif not charts:
        sentences = ("No figures of this period are kept.",)
    elif more := len(watches) - len(charts):
        sentences = (f"The worst {len(charts)} watches are shown; the next table has figures of {more} more.",)
    return ReportSection(f"{_quantile(report.watches)} of each watch", sentences, charts=charts)


def _apiserver_charts(report: IncidentReport) -> Iterator[ReportSection]:
    curves = {name: curve for name, curve in report.apiservers.items() if curve.points}
    if not curves or len(report.watches) == len(report.apiservers):
        return  # else they would be the same curves again
    worst = sorted(curves, key=lambda name: -max(point.lower for point in curves[name].points))[:MOST_CHARTS]
    charts = tuple(_chart(name, curves[name], (), report) for name in worst)
    sentence = "Of each apiserver, the highest of its watches at each moment, with the highest bounds."
    yield ReportSection(f"{_quantile(report.watches)} of each apiserver", (sentence,), charts=charts)


def _quantile(watches: Sequence[WatchRecord]) -> str:
    names = {percentile(watch.curve.quantile) for watch in watches}
    return names.pop() if len(names) == 1 else "Quantile"


def _chart(name: str, curve: LatencyCurve, minutes: tuple[Minute, ...], report: IncidentReport) -> ReportChart:
    peak = peak_of(curve.points)
    assert peak is not None
    threshold = "" if curve.threshold is None else f"; threshold {duration(curve.threshold)}"
    highest = "no estimate" if peak.estimate is None else f"highest {duration(peak.estimate)}"
    summary = f"{highest} at {clock(peak.at_wall)} UTC, proven {bounds(peak)}{threshold}"
    title = f"{name}: {percentile(curve.quantile)}"
    headings: tuple[str, ...] = ("From (UTC)", percentile(curve.quantile), "Proven", "Bad minutes")
    rows = tuple(_slices(curve, minutes, report))
    if not minutes:
        headings, rows = headings[:3], tuple(row[:3] for row in rows)
    caption = f"{title}, the highest of each part of the period"
    return ReportChart(title, summary, curve, minutes, ReportTable(caption, headings, rows, frozenset({1, 2, 3})))


def _slices(curve: LatencyCurve, minutes: tuple[Minute, ...], report: IncidentReport) -> Iterator[tuple[str, ...]]:
    """Yield the highest figures of each part of the period, with its bad minutes."""
    period = report.period
    length = max(1, -(-period.minutes // SLICES))
    for first in range(0, period.minutes, length):
        begin, end = period.begin_of(first), period.begin_of(min(first + length, period.minutes))
        points = curve.between(begin, end)
        shown: CurvePoint | None = highest_point(begin, [*points]) if points else None
        bad = minutes[first : first + length].count(Minute.BAD)
        begins = clock(max(begin, period.since_wall))
        yield begins, estimate_of(shown), bounds(shown) if shown else ABSENT, f"{bad}"


# --- tables -----------------------------------------------------------------------------------------------------------


def _watches(report: IncidentReport) -> ReportSection:
    if not report.watches:
        return ReportSection("Watches", ("No watch was measured.",))
    rows, left_out = _some(
        [_watch(watch, report) for watch in sorted(report.watches, key=severity)], MOST_WATCHES, "watch"
    )
    headings = (
        "Watch",
        "Apiserver",
        "Bad minutes",
        "Bad from, to (UTC)",
        "Judged",
        f"Highest {_quantile(report.watches)}",
        "Proven",
        "Threshold",
        *(("Now",) if report.now else ()),
    )
    table = ReportTable("Every watch in the period", headings, rows, frozenset({2, 4, 5, 6, 7}), left_out)
    return ReportSection("Watches", table=table)


def _watch(watch: WatchRecord, report: IncidentReport) -> tuple[str, ...]:
    spans = watch.spans(report.period)
    when = ABSENT
    if spans:
        ended = "not ended" if may_last(watch, spans[-1], report) else clock(spans[-1].until_wall)
        when = f"{clock(spans[0].since_wall)}, {ended}"
    expected = max(watch.judged_minutes, report.expected_minutes)
    peak = peak_of(watch.telling(report.period))
    return (
        watch.watch,
        watch.apiserver,
        f"{watch.bad_minutes:,}",
        when,
        f"{share(watch.judged_minutes, expected)}" if expected else ABSENT,
        estimate_of(peak),
        bounds(peak) if peak else ABSENT,
        ABSENT if watch.curve.threshold is None else duration(watch.curve.threshold),
        *((watch.now or ABSENT,) if report.now else ()),
    )


def _controllers(report: IncidentReport) -> Iterator[ReportSection]:
    """Yield the reactions of controllers, if any were timed; each row names the component that acts in its step."""
    if not report.reactions:
        return
    resource, step, *others = (column.heading for column in CONTROLLERS)
    figures = {number + 1 for number, column in enumerate(CONTROLLERS) if column.is_figure}
    rows, left_out = _some([_reaction(reaction) for reaction in report.reactions], MOST_ROWS, "step")
    table = ReportTable(
        "How fast controllers reacted", (resource, step, "Component", *others), rows, frozenset(figures), left_out
    )
    what = "From the commit that asks for something to the commit that shows that it is done."
    yield ReportSection("Controllers", (what, NEWEST if report.newest else WORST), table)


def _reaction(reaction: ReactionStatus) -> tuple[str, ...]:
    resource, step, *others = map(printable, reaction_cells(reaction))
    return resource, step, printable(reaction.responsible), *others


def _clients(report: IncidentReport) -> Iterator[ReportSection]:
    """Yield how old the caches of other programs were, if any were read."""
    if not report.clients:
        return
    figures = frozenset(number for number, column in enumerate(CLIENTS) if column.is_figure)
    rows, left_out = _some([tuple(map(printable, line.cells)) for line in report.clients], MOST_ROWS, "row")
    caption = "How old the informer caches of other programs were"
    headings = tuple(column.heading for column in CLIENTS)
    table = ReportTable(caption, headings, rows, figures, left_out)
    yield ReportSection("Clients", (NEWEST_CACHES if report.newest else WORST_CACHES,), table)


def _causes(report: IncidentReport) -> ReportSection:
    if not report.causes:
        return ReportSection("Causes", ("No cause was named.",))
    rows, left_out = _some(
        [
            (
                cause.cause,
                cause.place or "all",
                cause.confidence.value if cause.confidence else ABSENT,
                _when(cause),
                cause.evidence or ABSENT,
                cause.next or ABSENT,
            )
            for cause in leading_causes(report)
        ],
        MOST_CAUSES,
        "cause",
    )
    headings = ("Cause", "Where", "Confidence", "From, to (UTC)", "Evidence", "What to look at")
    table = ReportTable("Causes that were active, the most likely first", headings, rows, left_out=left_out)
    return ReportSection("Causes", table=table)


def _when(cause: CauseRecord) -> str:
    often = f" ({cause.times} times)" if cause.times > 1 else ""
    return f"{clock(cause.since_wall)} to {clock(cause.until_wall) if cause.until_wall else 'the end'}{often}"


def _guarantees(report: IncidentReport) -> ReportSection:
    rows = tuple(_guarantee(guarantee) for guarantee in report.guarantees)
    if not rows:
        return ReportSection("Guarantees", ("No checks of guarantees were recorded.",))
    headings = ("Guarantee", "Violations", "Checks", "Meaning of a violation")
    table = ReportTable("Guarantees of the watches", headings, rows, frozenset({1, 2}))
    return ReportSection("Guarantees", (f"Counted since {at(report.counted_wall)}.",), table)


def _guarantee(guarantee: GuaranteeCount) -> tuple[str, ...]:
    meaning = violated(guarantee.guarantee, 1).removeprefix("1 event ").removesuffix(f" ({guarantee.guarantee})")
    checks = ABSENT if guarantee.checked is None else f"{round(guarantee.checked):,}"
    return guarantee.guarantee, f"{round(guarantee.violations):,}", checks, f"an event {meaning}"


def _budget(report: IncidentReport) -> ReportSection:
    watches = [watch for watch in sorted(report.watches, key=severity) if watch.bad_minutes or watch.events.measured]
    if not watches:
        return ReportSection("Budget spent", ("Nothing was counted.",))
    rows, left_out = _some([_spent(watch) for watch in watches], MOST_WATCHES, "watch")
    headings = ("Watch", "Bad minutes", "Budget of 30 days", "Events", "Proven late", "Not proven", "Burn rate")
    caption = "What the period took of the error budgets"
    sentences = (
        f"Minutes are those of the period; events are counted since {at(report.counted_wall)}.",
        "Burn rate: how many times faster than the objective allows events were proven late.",
    )
    return ReportSection(
        "Budget spent", sentences, ReportTable(caption, headings, rows, frozenset(range(1, 7)), left_out)
    )


def _spent(watch: WatchRecord) -> tuple[str, ...]:
    events, measured = watch.events, watch.events.measured
    allowed = None if watch.minutes_target is None else (1.0 - watch.minutes_target) * MINUTES_OF_BUDGET
    late_allowed = None if watch.events_target is None else 1.0 - watch.events_target
    burn = events.beyond / measured / late_allowed if measured and late_allowed else None
    return (
        watch.name,
        f"{watch.bad_minutes:,}",
        f"{100.0 * watch.bad_minutes / allowed:.3g}% of {allowed:.3g} min" if allowed else ABSENT,
        f"{round(measured):,}",
        f"{round(events.beyond):,} ({share(events.beyond, measured)})" if measured else ABSENT,
        f"{round(events.uncertain):,}" if measured else ABSENT,
        ABSENT if burn is None else f"{burn:.3g}",
    )


def _explanations(report: IncidentReport) -> tuple[str, ...]:
    quantile = next((watch.curve.quantile for watch in report.watches), P99)
    what = (
        "watchslo measures how late the watch events of a Kubernetes cluster are: from the commit of a change in etcd "
        "to the arrival of its event at a client."
    )
    curve = (
        f"{percentile(quantile)}: of the events of a minute, {100 * quantile:.6g}% were at most this late. The line is "
        "the best estimate; the band shows proven bounds, which need no statistics. There is no estimate where "
        "latencies were shorter than the round trip of a read, because such latencies cannot be measured."
    )
    minute = (
        "A minute is bad if its quantile was over the threshold, or if the watch withheld events or was down for "
        "longer than that. It has no verdict if it had too few events to judge, or if watchslo could not measure."
    )
    made = (
        f"Made at {moment(report.made_wall)} UTC from {report.source}, for "
        f"{span(report.period.since_wall, report.period.until_wall, 'to')}. All times are UTC. It has no names, labels "
        "or contents of objects."
    )
    return what, curve, minute, made
