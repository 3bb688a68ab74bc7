"""`/api/v1/watches`: everything about one watch as labelled texts, for the page and for `top`.

The texts are written here only. Programs read the same values from `/api/v1/status`. No object's name is in it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import msgspec
import numpy as np
from fastapi import HTTPException, Query, Request

from watchslo.api.feed import (
    MOST_HAPPENED,
    DetailFact,
    DetailSection,
    EventUpdate,
    WatchDetail,
    WatchDetails,
    WatchLine,
)
from watchslo.api.part import part_of
from watchslo.api.status import CauseStatus
from watchslo.model import resource_key
from watchslo.serve import rows
from watchslo.serve.admission_control import client_of
from watchslo.serve.document import Document, DocumentResponse
from watchslo.serve.feed import Feed
from watchslo.serve.rendering import Renderer
from watchslo.serve.route import Kind, Route
from watchslo.snapshot import (
    ApiserverMetricsReading,
    DelayBreakdown,
    DomainReading,
    GapReading,
    GuaranteeReading,
    HeadroomReading,
    Hop,
    HopReading,
    ReferenceWatchReading,
    Snapshot,
    WatchReading,
)
from watchslo.timeline.condition import MAXIMUM, P50, P99, P999, WatchCondition, quantile_of
from watchslo.timeline.day import Minute, Minutes
from watchslo.timeline.events import affects
from watchslo.timeline.explanation import INITIAL, NO_SAMPLE, explanation
from watchslo.timeline.figure import bounds_text, estimate_text
from watchslo.timeline.format import ABSENT, counted, duration, estimated, moment, percentile
from watchslo.timeline.timeline import Account, Timeline

HOUR_SECONDS, HOUR_MINUTES = 3600.0, 60
NO_DELAY = {
    "tainted": "watchslo was late to read them",
    "reopened": "one of the watches opened in between",
    "alone": "from one of the watches only",
}
"""Why events have no delay of their whole objects."""

HOPS = {
    Hop.CREATION_TO_STORAGE: (
        "Creation to storage",
        "not measured: it needs new objects, and the option `creation`",
    ),
    Hop.STORAGE_TO_CACHE: ("Storage to cache", "not measured: only caches of late watches are probed"),
    Hop.CACHE_TO_CLIENT: ("Cache to client", "not measured: only caches of late watches are probed"),
    Hop.ENCODING_TO_CLIENT: ("Whole objects later", "not measured: it needs the option `reference`"),
}
"""The name of each hop, and why it may have no figures."""

_Fact = tuple[str, str]


def details(timeline: Timeline, name: str) -> WatchDetails:
    """Return the details of the watch with this key, or of all watches with this name."""
    account = timeline.account
    lines = _named(account, name) if account else []
    return WatchDetails(watches=tuple(_detail(timeline, account, line) for line in lines if account))


def _named(account: Account, name: str) -> list[WatchCondition]:
    return [line for line in account.lines if name in (line.watch.watch, _key(line))]


def _key(line: WatchCondition) -> str:
    return rows.key_of(line.watch.watch, line.watch.apiserver)


def _detail(timeline: Timeline, account: Account, line: WatchCondition) -> WatchDetail:
    watch, snapshot = line.watch, account.snapshot
    domain = next((candidate for candidate in snapshot.domains if candidate.name == watch.domain), None)
    row = rows.watch_line(line, domain)
    key = watch.apiserver, watch.watch
    happened = [event for event in timeline.happened if key in event.watches][-MOST_HAPPENED:]
    causes = [cause for cause in snapshot.causes if affects(cause, *key)]
    return WatchDetail(
        key=row.key,
        watch=watch.watch,
        apiserver=watch.apiserver,
        name=line.name,
        condition=rows.shown_condition(row),
        bad=row.bad,
        explanation=explanation(line),
        sections=(
            _section("Now", _now(line, row)),
            _section("Last hour", _past(timeline, line, snapshot.at_wall)),
            _section("Hops, last minute", _hops(watch)),
            *_own(watch, snapshot),
            _section("Guarantees", _guarantees(watch, domain, snapshot.monitor.stall_detection)),
            _section("Watch", _protocol(watch, row)),
        ),
        causes=tuple(part_of(CauseStatus, cause) for cause in causes),
        happened=tuple(part_of(EventUpdate, event) for event in happened),
    )


def _section(title: str, facts: Iterator[_Fact]) -> DetailSection:
    return DetailSection(title=title, facts=tuple(DetailFact(label=label, text=text) for label, text in facts))


# --- now and before ---------------------------------------------------------------------------------------------------


def _now(line: WatchCondition, row: WatchLine) -> Iterator[_Fact]:
    name = percentile(row.quantile)
    yield "Events", f"{row.events:,} in the last {duration(line.window.length)}"
    yield "P50", estimate_text(row.p50)
    yield name, estimate_text(row.judged)
    yield f"{name} bounds", bounds_text(row.judged)
    if row.p999 and row.quantile != P999:
        yield percentile(P999), f"{estimate_text(row.p999)}, {bounds_text(row.p999)}"
    if longest := quantile_of(line.window, MAXIMUM):
        yield "Maximum", f"{estimate_text(longest)}, {bounds_text(longest)}"
    yield "Threshold", duration(row.threshold)


def _past(timeline: Timeline, line: WatchCondition, now_wall: float) -> Iterator[_Fact]:
    key = line.watch.apiserver, line.watch.watch
    figures = timeline.series.figures(key, now_wall - HOUR_SECONDS)
    judged = figures.values[:, 1]
    known = np.isfinite(judged)
    name = percentile(line.watch.track.objective.quantile)
    if known.any():
        highest = int(np.nanargmax(np.where(known, judged, np.nan)))
        at = moment(float(figures.at_wall[highest]))
        yield f"Median {name}", duration(float(np.median(judged[known])))
        yield f"Highest {name}", f"{duration(float(judged[highest]))} at {at} UTC"
    yield "Evaluations", f"{int(known.sum()):,} of {len(judged):,} have a {name}"
    day = timeline.day.of(key)
    yield "Minutes", _minutes(day[-HOUR_MINUTES:])
    yield "Minutes of the last day", _minutes(day)


def _minutes(minutes: Minutes) -> str:
    names = {Minute.BAD: "bad", Minute.UNDECIDED: "undecided", Minute.GOOD: "good", Minute.NO_DATA: "without data"}
    return ", ".join(f"{int((minutes == minute).sum()):,} {name}" for minute, name in names.items())


def _hops(watch: WatchReading) -> Iterator[_Fact]:
    measured = {hop.hop: hop for hop in watch.track.hops}
    for hop, (name, why) in HOPS.items():
        yield name, _hop(measured[hop]) if hop in measured else why


def _reference_watch(reference: ReferenceWatchReading) -> str:
    state = reference.failure or ("open" if reference.up else "closed")
    counts = _counts({NO_DELAY.get(why, why): count for why, count in reference.unmeasured.items()})
    size = f"{counted(reference.events, 'event')}, {reference.bytes:,} bytes"
    return f"{reference.representation}, {state}: {size}; without a delay: {counts}"


def _hop(reading: HopReading) -> str:
    minute = next((window for window in reading.windows if window.name == "1m"), None)
    p50, p99 = (quantile_of(minute, q) if minute else None for q in (P50, P99))
    if minute is None or p50 is None or p99 is None:
        return "no event in the last minute"
    estimates = (estimated(quantile.estimate, rough=quantile.rough) for quantile in (p50, p99))
    return "P50 {}, P99 {} ({})".format(*estimates, counted(minute.events, "event"))


def _own(watch: WatchReading, snapshot: Snapshot) -> Iterator[DetailSection]:
    """Yield what the apiserver's own metrics say of the watch, if they are read."""
    own = next((apiserver.own_metrics for apiserver in snapshot.apiservers if apiserver.name == watch.apiserver), None)
    if own is not None:
        yield _section("Apiserver metrics, last minute", _own_facts(watch, own))


def _own_facts(watch: WatchReading, own: ApiserverMetricsReading) -> Iterator[_Fact]:
    yield (
        "Where the time goes",
        _parts(watch.breakdown) if watch.breakdown else "not known: nothing divides the delay",
    )
    resource = resource_key(watch.resource, watch.group)
    figures = own.minute.resources.get(resource) if own.minute else None
    if figures:
        yield "Events into the cache", f"{figures.received:,}"
        yield "Watches of slow clients", f"{figures.terminated:,} closed, {figures.parked:,} parked"
    if own.obstacle:
        yield "Obstacle", own.obstacle
    if own.processes > 1:
        yield "Processes", f"{own.processes} may answer at this address: figures of one are no evidence for another"


def _parts(breakdown: DelayBreakdown) -> str:
    parts = " + ".join(f"{part.contains} {duration(part.seconds)} ({part.source})" for part in breakdown.parts)
    return f"{percentile(breakdown.q)} {duration(breakdown.seconds)} = {parts}"


# --- guarantees -------------------------------------------------------------------------------------------------------


def _guarantees(watch: WatchReading, domain: DomainReading | None, detection: float | None) -> Iterator[_Fact]:
    track, objective = watch.track, watch.track.objective
    events = sum(objective.verdicts.values())
    judged = {"proven within": "within", "proven late": "beyond", "not proven": "uncertain"}
    shares = ", ".join(f"{_share(objective.verdicts.get(key, 0), events)} {text}" for text, key in judged.items())
    yield f"Events within {duration(objective.threshold)}", f"{shares} (of {events:,})" if events else ABSENT
    windows = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in objective.windows.items())
    yield f"Windows of {duration(objective.window)}", windows or ABSENT
    lost = {reason: count for reason, count in track.unmeasured.items() if count and reason != INITIAL}
    live = track.timespan.total + sum(lost.values())
    yield "Measured", f"{_share(track.timespan.total, live)} of {counted(live, 'event')}" if live else ABSENT
    yield "Not measured", "; ".join(f"{n:,}: {NO_SAMPLE.get(why, why)}" for why, n in lost.items()) or "none"
    resolution = domain.resolution if domain else None
    yield "Resolution", f"latencies below {duration(resolution)} look alike" if resolution else ABSENT
    yield from _checked(watch.guarantees)
    audit = watch.audit
    yield "Audits", f"last result: {audit.result or 'none yet'}; {counted(audit.stalls, 'stall')}"
    yield "Stall detection", "off" if detection is None else f"within {duration(detection)}"


def _checked(guarantees: GuaranteeReading) -> Iterator[_Fact]:
    """Yield how often each guarantee was checked, and violated."""
    for guarantee, checked in guarantees.checked.items():
        violations = guarantees.violations[guarantee]
        found = counted(violations, "violation") if violations else "no violation"
        yield guarantee.capitalize(), f"{found} in {counted(checked, 'check')}" if checked else f"{found}, not checked"


def _share(count: int, total: int) -> str:
    return f"{100 * count / max(1, total):.4g}%"


def _nonzero(counts: Mapping[str, int]) -> Mapping[str, int]:
    return {name: count for name, count in counts.items() if count}


# --- the protocol -----------------------------------------------------------------------------------------------------


def _protocol(watch: WatchReading, row: WatchLine) -> Iterator[_Fact]:
    session, received = watch.session, watch.received
    yield "State", row.state
    yield "Strategy", session.strategy
    yield "Representation", session.representation
    yield "Last received", f"{moment(received.last_wall)} UTC" if received.last_wall is not None else ABSENT
    yield "Revision lag", ABSENT if row.behind is None else counted(row.behind, "revision")
    age = "" if received.bookmark_age is None else f", the newest {duration(received.bookmark_age)} ago"
    yield "Bookmarks", f"{received.bookmarks:,}{age}"
    yield "Closes", _reasons(watch.outcomes.closed)
    yield "Relists", _counts(watch.lists.relists)
    yield "410s", _counts(watch.lists.expired)
    if watch.outcomes.failed_lists:
        yield "Failed lists", _reasons(watch.outcomes.failed_lists)
    yield from _findings(watch)
    yield "Headroom", _headroom(watch.headroom) if watch.headroom else ABSENT
    if transport := session.transport:
        resent = counted(transport.retransmits, "retransmit")
        yield (
            "Connection",
            f"round trip {duration(transport.round_trip)}, {resent}, silent for {duration(transport.silent)}",
        )
    failure = session.last_failure
    yield "Last failure", f"{moment(failure.at_wall)} UTC, {failure.reason}: {failure.message}" if failure else "none"


def _findings(watch: WatchReading) -> Iterator[_Fact]:
    """Yield what only some watches have."""
    gaps = watch.gaps
    if (gaps.seconds if gaps.revisions is None else gaps.revisions) or gaps.unseen:
        yield "Gaps", _gaps(gaps)
    if behind := watch.cache.behind:
        yield "Cache", f"{duration(behind.lower)} to {duration(behind.upper)} behind storage"
    if watch.cache.behind_peers is not None:
        yield "Lag behind peers", duration(watch.cache.behind_peers)
    if watch.reference is not None:
        yield "Reference", _reference_watch(watch.reference)
    if excess := watch.behind_fastest:
        yield "Behind fastest", f"P50 {duration(excess.p50)}, P99 {duration(excess.p99)}"


def _reasons(counts: Mapping[tuple[str, str], int]) -> str:
    return _counts({why if kind == why else f"{kind} ({why})": count for (kind, why), count in counts.items()})


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in _nonzero(counts).items()) or "0"


def _gaps(gaps: GapReading) -> str:
    unseen = f"; unseen: {_counts(gaps.unseen)}" if gaps.unseen else ""
    skipped = f"{counted(gaps.revisions, 'revision')}, " if gaps.revisions is not None else ""
    return f"{skipped}{duration(gaps.seconds)}{unseen}"


def _headroom(headroom: HeadroomReading) -> str:
    longer = "more than " if headroom.complete else ""
    revisions = "" if headroom.revisions is None else f" ({counted(headroom.revisions, 'revision')})"
    texts = [f"{longer}{duration(headroom.seconds.lower)}{revisions}"]
    if headroom.list_seconds is not None:
        fits = {True: "it fits", False: "too long", None: "it may fit"}[headroom.fits]
        texts.append(f"a list takes {duration(headroom.list_seconds)}: {fits}")
    return "; ".join(texts)


# --- the route --------------------------------------------------------------------------------------------------------

WatchName = Annotated[
    str,
    Query(max_length=600, description="The name of a watch: as `pods`, at all apiservers, or as `pods@service`."),
]


def routes(feed: Feed) -> Sequence[Route]:
    """Return the route of the details, which are encoded once for all clients."""
    renderer = Renderer[Account](feed.queries)

    async def watches(request: Request, watch: WatchName) -> DocumentResponse:
        """One watch as labelled texts: figures, hops, guarantees, protocol, active causes and newest events."""
        account = feed.account
        if account is None or not _named(account, watch):
            raise HTTPException(404, "There is no such watch; /api/v1/status lists the watches.")
        return DocumentResponse(
            await renderer.render(client_of(request), account, watch, lambda _: _encode(feed.timeline, watch))
        )

    unknown = {404: {"description": "There is no such watch."}}
    return [Route("/api/v1/watches", watches, kind=Kind.QUERY, answers=WatchDetails, documented={"responses": unknown})]


def _encode(timeline: Timeline, name: str) -> Document:
    return Document((msgspec.json.encode(details(timeline, name)),), "application/json")
