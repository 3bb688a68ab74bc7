"""The metrics as one table: what each family means, which labels it has, and how it is read from a snapshot.

Names, types and labels are a contract with dashboards and rules. Counters exist with 0 from the start of what they
count: a series born above 0 is invisible to `increase`. What is not known is absent, never 0.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import chain
from typing import TypeVar

from watchslo.latency import track
from watchslo.model import Interval
from watchslo.snapshot import (
    ApiserverReading,
    Cause,
    DomainReading,
    HistogramReading,
    HistoryReading,
    Hop,
    MonitorReading,
    QuantileReading,
    Snapshot,
    StreamReading,
    TickerReading,
    TransportReading,
)
from watchslo.watch import audit
from watchslo.watch.failure import RULES, CloseClass, Phase, Reason
from watchslo.watch.messages import RelistReason, Unseen
from watchslo.watch.strategy import STRATEGIES


class Type(StrEnum):
    """What Prometheus knows a family as."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Stability(StrEnum):
    """A stable family keeps its old name for one minor version when it is renamed; a beta one may change."""

    STABLE = "stable"
    BETA = "beta"


class Detail(StrEnum):
    """The configuration's `metrics`.

    Proven leaves out all that is estimated, and keeps an instance that has one watch at 40 series or fewer; basic keeps
    a watch at 50 or fewer, whatever its strategy.
    """

    PROVEN = "proven"
    BASIC = "basic"
    FULL = "full"


# --- labels ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Label:
    """A label and all its values; none are listed where they depend on the cluster or the configuration."""

    name: str
    meaning: str
    values: tuple[str, ...] = ()


APISERVER = Label("apiserver", "the apiserver asked: `service`, or host:port")
WATCH = (
    Label("watch", "the configured name of the watch"),
    Label("group", "its API group, empty for the core group"),
    Label("resource", "its resource, in the plural"),
    APISERVER,
)
DOMAIN = Label("domain", "the resources that share one sequence of revisions")
QUANTILE = Label("q", "quantile of the window; 0.9 with `full` only", ("0.5", "0.9", "0.99"))
WINDOW = Label("window", "length of the rolling window; 5m with `full` only", ("1m", "5m"))
BOUND = Label(
    "bound",
    "the estimate, or a rigorous bound of the window's true quantile; the median has its estimate only",
    ("lower", "estimate", "upper"),
)
END = Label(
    "bound",
    "end of the interval it lies in; an infinite one is absent; of the history `upper` with `full` only",
    ("lower", "upper"),
)
HOP = Label(
    "hop",
    "part of the way: to the commit, on to the apiserver's cache, on to us; the first with `full` only",
    tuple(Hop),
)
TICKS = Label("ticks", "of all apiservers, as everywhere else, or only its own", ("all", "own"))
CENTRE = Label("q", "quantile of the last minute", ("0.5", "0.99"))
CAUSE = Label("cause", "why watches are late", tuple(Cause))
BLAMED = Label("apiserver", "the one at fault; empty where it is not one")
AFFECTED = Label("watch", "the one at fault, by its configured name; empty where it is not one")
EVENT_VERDICT = Label("verdict", "what the proven bounds say of an event", ("within", "beyond", "uncertain"))
WINDOW_VERDICT = Label("verdict", "what the estimate says of a window", ("good", "bad", "no_data"))
TARGET = Label("kind", "share of events, or of windows", ("events", "minutes"))
EVENT_TYPE = Label(
    "type", "type of the watch event; `error` with `full` only", ("added", "modified", "deleted", "error")
)
UNMEASURED = Label("reason", "why an event is no sample", track.UNMEASURED)
CLASS = Label("class", "whose doing the end of a watch was", tuple(CloseClass))
CLOSED = Label("reason", "why exactly it ended", tuple(Reason))
RELIST = Label(
    "reason",
    "why a stream started over; `inventory`, for which the watch goes on, with `full` only",
    tuple(RelistReason),
)
PHASE = Label("phase", "where a 410 came: on a list, opening a watch, within its stream", tuple(Phase))
STRATEGY = Label("strategy", "how a stream reaches a revision to watch from", tuple(STRATEGIES))
UNSEEN = Label("kind", "what became of an object in a gap", tuple(field.name for field in fields(Unseen)))
AUDIT = Label("result", "what an audit found", tuple(audit.Verdict))
TICK_RESULT = Label("result", "how a tick ended", ("ok", "slow", "failed"))
KIND = Label("kind", "what a request was for")
CODE = Label("code", "HTTP status code of the answer, or what came instead of one")
BUILD = (
    Label("version", "watchslo's version"),
    Label("revision", "revision of its source"),
    Label("python_version", "Python's version"),
)

# --- reading a snapshot ----------------------------------------------------------------------------------------------

Value = float | HistogramReading
Point = tuple[tuple[str, ...], Value]
"""The values of the labels, in their order, and what is measured there."""
Owner = TypeVar("Owner")

WINDOWS = frozenset(WINDOW.values)  # there are shorter ones, for the diagnosis: too short for a graph
BASIC_WINDOWS = frozenset({"1m"})
BASIC_QUANTILES = frozenset({0.5, 0.99})
BLAMED_LAG_SECONDS = 0.15  # what arrives that long after a heartbeat is tainted
BASIC_HOPS = frozenset({Hop.STORAGE_TO_CACHE, Hop.CACHE_TO_CLIENT})
CHANGES = ("added", "modified", "deleted")
NO_CLOSES: Mapping[tuple[str, str], int] = {(class_, reason): 0 for reason, (class_, _, _) in RULES.items()}


@dataclass(frozen=True, slots=True)
class View:
    """One form of a family: its labels, and its points in a snapshot."""

    labels: tuple[Label, ...]
    points: Callable[[Snapshot], Iterable[Point]]


def _owned(
    owners: Iterable[Owner], name: Callable[[Owner], tuple[str, ...]], read: Callable[[Owner], Iterable[Point]]
) -> Iterator[Point]:
    for owner in owners:
        own = name(owner)
        for values, value in read(owner):
            yield own + values, value


def _per_watch(read: Callable[[StreamReading], Iterable[Point]], *labels: Label) -> View:
    def name(stream: StreamReading) -> tuple[str, ...]:
        return stream.watch, stream.group, stream.resource, stream.apiserver

    return View((*WATCH, *labels), lambda snapshot: _owned(snapshot.streams, name, read))


def _per_audited_watch(read: Callable[[StreamReading], Iterable[Point]]) -> View:
    """Without audits nobody looks, and nothing is known of stalls: not even that there are none."""
    watches = _per_watch(read)
    return View(
        watches.labels,
        lambda snapshot: () if snapshot.monitor.stall_detection is None else watches.points(snapshot),
    )


def _per_apiserver(read: Callable[[ApiserverReading], Iterable[Point]], *labels: Label) -> View:
    return View((APISERVER, *labels), lambda snapshot: _owned(snapshot.apiservers, lambda server: (server.name,), read))


def _per_domain(read: Callable[[DomainReading], Iterable[Point]], *labels: Label) -> View:
    return View((DOMAIN, *labels), lambda snapshot: _owned(snapshot.domains, lambda domain: (domain.name,), read))


def _per_ticker(read: Callable[[TickerReading], Iterable[Point]], *labels: Label) -> View:
    def of_domain(domain: DomainReading) -> Iterable[Point]:
        return _owned(domain.tickers, lambda ticker: (ticker.apiserver,), read)

    return _per_domain(of_domain, APISERVER, *labels)


def _once(read: Callable[[MonitorReading], Iterable[Point]], *labels: Label) -> View:
    return View(labels, lambda snapshot: read(snapshot.monitor))


def _one(value: Value | None) -> Iterable[Point]:
    return () if value is None else (((), value),)


def _each(values: Mapping[str, Value]) -> Iterable[Point]:
    return (((key,), value) for key, value in values.items())


def _all(label: Label, counts: Mapping[str, int]) -> Iterable[Point]:
    """A count for each value of the label, counted yet or not."""
    return _each({**dict.fromkeys(label.values, 0), **counts})


def _ends(interval: Interval | None) -> Iterable[Point]:
    ends = {"lower": interval.lower, "upper": interval.upper} if interval else {}
    return _each({end: value for end, value in ends.items() if math.isfinite(value)})


def _bounds(quantile: QuantileReading) -> Mapping[str, float]:
    if quantile.q == 0.5:  # noqa: PLR2004 - the median; its bounds are too wide to be of use
        return {"estimate": quantile.estimate}
    return {"lower": quantile.lower, "estimate": quantile.estimate, "upper": quantile.upper}


def _quantiles(stream: StreamReading) -> Iterator[tuple[str, QuantileReading]]:
    """What may be shown of the windows: an unresolved quantile would look measured."""
    for window in stream.track.windows:
        if window.name not in WINDOWS:
            continue
        resolved = (quantile for quantile in window.quantiles if window.events and quantile.resolved)
        yield from ((window.name, quantile) for quantile in resolved)


def _all_quantiles(stream: StreamReading) -> Iterator[Point]:
    for window, quantile in _quantiles(stream):
        yield from (((str(quantile.q), window, bound), value) for bound, value in _bounds(quantile).items())


def _basic_quantiles(stream: StreamReading) -> Iterator[Point]:
    for window, quantile in _quantiles(stream):
        if window in BASIC_WINDOWS and quantile.q in BASIC_QUANTILES:
            yield from (((str(quantile.q), window, bound), value) for bound, value in _bounds(quantile).items())


def _window_events(stream: StreamReading) -> Mapping[str, int]:
    return {window.name: window.events for window in stream.track.windows if window.name in WINDOWS}


def _basic_window_events(stream: StreamReading) -> Mapping[str, int]:
    return {name: events for name, events in _window_events(stream).items() if name in BASIC_WINDOWS}


def _events(stream: StreamReading) -> Iterable[Point]:
    return _all(EVENT_TYPE, {type_.lower(): count for type_, count in stream.events.items()})


def _changes(stream: StreamReading) -> Iterable[Point]:
    return ((values, count) for values, count in _events(stream) if values[0] in CHANGES)


def _starts(stream: StreamReading) -> Iterable[Point]:
    return _each({reason: count for reason, count in stream.relists.items() if reason != RelistReason.INVENTORY})


def _closed_by_class(stream: StreamReading) -> Mapping[str, int]:
    classes: dict[str, int] = defaultdict(int)
    for (class_, _), count in stream.closed.items():
        classes[class_] += count
    return classes


def _closed_by_reason(stream: StreamReading) -> Iterable[Point]:
    """All that may happen, happened yet or not."""
    return {**NO_CLOSES, **stream.closed}.items()


def _unseen(stream: StreamReading) -> Iterable[Point]:
    return () if stream.unseen is None else _all(UNSEEN, stream.unseen)


def _unseen_in_all(stream: StreamReading) -> Iterable[Point]:
    return () if stream.unseen is None else _one(sum(stream.unseen.values()))


def _proven(apiserver: ApiserverReading) -> Iterable[Point]:
    """Nothing is known of what has not told its version."""
    return _one(not apiserver.unproven if apiserver.version else None)


def _hops(stream: StreamReading) -> Iterable[Point]:
    return _each({hop.hop: hop.histogram for hop in stream.track.hops})


def _basic_hops(stream: StreamReading) -> Iterable[Point]:
    return _each({hop.hop: hop.histogram for hop in stream.track.hops if hop.hop in BASIC_HOPS})


def _history(read: Callable[[HistoryReading], Iterable[Point]], *labels: Label) -> View:
    return _per_watch(lambda s: read(s.history) if s.history else (), *labels)


def _sure_seconds(history: HistoryReading) -> Iterable[Point]:
    """The end that an alert stands on."""
    return _each({"lower": history.seconds.lower})


def _transport(read: Callable[[TransportReading], Iterable[Point]]) -> View:
    return _per_watch(lambda s: read(s.transport) if s.transport else ())


def _by_ticks(apiserver: ApiserverReading) -> Iterator[Point]:
    """The same minute twice: what differs is what its own ticks hide, because they share its way."""
    for ticks, window in (("all", apiserver.combined), ("own", apiserver.alone)):
        for quantile in window.quantiles if window and window.events else ():
            if quantile.resolved and quantile.q in BASIC_QUANTILES:
                yield (str(quantile.q), ticks), quantile.estimate


def _causes(snapshot: Snapshot) -> Iterable[Point]:
    """Each cause has a series from the start, of no apiserver and no watch; more come with what is named."""
    active = {(c.cause.value, c.apiserver or "", c.watch or ""): 1 for c in snapshot.causes}
    return ({(cause.value, "", ""): 0 for cause in Cause} | active).items()


def _by_code(apiserver: ApiserverReading) -> Iterable[Point]:
    codes: dict[str, int] = defaultdict(int)
    for (_, code), count in apiserver.requests.items():
        codes[code] += count
    return _each(codes)


def _blamed(lag: HistogramReading) -> HistogramReading:
    """The one bucket that tells how often we were to blame ourselves."""
    count = lag.counts[lag.edges.index(BLAMED_LAG_SECONDS)]
    return HistogramReading((BLAMED_LAG_SECONDS,), (count, lag.total), lag.sum)


# --- the table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: `basic` is absent where only `full` has it, `full` where both are the same.

    `proven` is a view of its own, or says whether that of `basic` is there, too: nothing in it may be an estimate.
    """

    name: str
    type: Type
    stability: Stability
    help: str
    basic: View | None
    full: View | None = None
    proven: View | bool = False

    def view(self, detail: Detail) -> View | None:
        match detail:
            case Detail.PROVEN:
                return self.proven if isinstance(self.proven, View) else self.basic if self.proven else None
            case Detail.BASIC:
                return self.basic
            case Detail.FULL:
                return self.full or self.basic


LATENCY = (
    Family(
        "watchslo_apiserver_timespan_seconds",
        Type.HISTOGRAM,
        Stability.STABLE,
        "From the commit of a change to the arrival of its live watch event, by the revision clock.",
        _per_watch(lambda s: _one(s.track.timespan)),
    ),
    Family(
        "watchslo_apiserver_timespan_window_seconds",
        Type.GAUGE,
        Stability.STABLE,
        "Quantile of the rolling window; absent without events, and where it is below the round trip of the ticks.",
        _per_watch(_basic_quantiles, QUANTILE, WINDOW, BOUND),
        _per_watch(_all_quantiles, QUANTILE, WINDOW, BOUND),
    ),
    Family(
        "watchslo_apiserver_timespan_window_events",
        Type.GAUGE,
        Stability.STABLE,
        "Events behind the quantiles of the rolling window.",
        _per_watch(lambda s: _each(_basic_window_events(s)), WINDOW),
        _per_watch(lambda s: _each(_window_events(s)), WINDOW),
    ),
    Family(
        "watchslo_unresolved_events_total",
        Type.COUNTER,
        Stability.STABLE,
        "Events whose whole interval lies below the round trip of the ticks.",
        None,
        _per_watch(lambda s: _one(s.track.unresolved)),
    ),
    Family(
        "watchslo_slo_events_total",
        Type.COUNTER,
        Stability.STABLE,
        "Events by what their proven bounds say of the threshold.",
        _per_watch(lambda s: _all(EVENT_VERDICT, s.track.objective.verdicts), EVENT_VERDICT),
        proven=True,
    ),
    Family(
        "watchslo_slo_windows_total",
        Type.COUNTER,
        Stability.STABLE,
        "Windows that do not overlap, each judged once by the estimate of its quantile.",
        _per_watch(lambda s: _all(WINDOW_VERDICT, s.track.objective.windows), WINDOW_VERDICT),
    ),
    Family(
        "watchslo_slo_threshold_seconds",
        Type.GAUGE,
        Stability.STABLE,
        "Threshold of the objective in force: the common one, or each watch's.",
        _once(lambda m: _one(m.threshold)),
        _per_watch(lambda s: _one(s.track.objective.threshold)),
        proven=True,
    ),
    Family(
        "watchslo_slo_target_ratio",
        Type.GAUGE,
        Stability.STABLE,
        "Targets of the objective in force: the common one, or each watch's.",
        _once(lambda m: _each({"events": m.events_target, "minutes": m.minutes_target}), TARGET),
        _per_watch(
            lambda s: _each(
                {"events": s.track.objective.events_target, "minutes": s.track.objective.minutes_target},
            ),
            TARGET,
        ),
    ),
    Family(
        "watchslo_creation_to_watch_seconds",
        Type.HISTOGRAM,
        Stability.BETA,
        "From creationTimestamp to the arrival of ADDED events, the clocks' offset removed; only where asked for.",
        _per_watch(lambda s: _one(s.track.creation)),
    ),
    Family(
        "watchslo_hop_seconds",
        Type.HISTOGRAM,
        Stability.BETA,
        "How long a part of the way took, of the events for which that is known; absent before it was measured.",
        _per_watch(_basic_hops, HOP),
        _per_watch(_hops, HOP),
    ),
    Family(
        "watchslo_unmeasured_events_total",
        Type.COUNTER,
        Stability.STABLE,
        "Events that are no sample.",
        _per_watch(lambda s: _one(sum(s.track.unmeasured.values()))),
        _per_watch(lambda s: _all(UNMEASURED, s.track.unmeasured), UNMEASURED),
        proven=True,
    ),
)

STREAMS = (
    Family(
        "watchslo_watch_up",
        Type.GAUGE,
        Stability.STABLE,
        "Whether the watch is open.",
        _per_watch(lambda s: _one(s.up)),
        proven=True,
    ),
    Family(
        "watchslo_watch_last_received_timestamp_seconds",
        Type.GAUGE,
        Stability.STABLE,
        "When the last byte came, in Unix seconds.",
        _per_watch(lambda s: _one(s.last_received_wall)),
        proven=True,
    ),
    Family(
        "watchslo_watch_events_total",
        Type.COUNTER,
        Stability.STABLE,
        "Events received on watches.",
        _per_watch(_changes, EVENT_TYPE),
        _per_watch(_events, EVENT_TYPE),
    ),
    Family(
        "watchslo_watch_bytes_total",
        Type.COUNTER,
        Stability.STABLE,
        "Bytes received on watches.",
        None,
        _per_watch(lambda s: _one(s.bytes)),
    ),
    Family(
        "watchslo_bookmarks_total",
        Type.COUNTER,
        Stability.STABLE,
        "Bookmarks received.",
        None,
        _per_watch(lambda s: _one(s.bookmarks)),
        proven=_per_watch(lambda s: _one(s.bookmarks)),
    ),
    Family(
        "watchslo_bookmark_age_seconds",
        Type.GAUGE,
        Stability.STABLE,
        "Time since the newest bookmark; absent before the first.",
        None,
        _per_watch(lambda s: _one(s.bookmark_age)),
    ),
    Family(
        "watchslo_watches_closed_total",
        Type.COUNTER,
        Stability.STABLE,
        "Watches that ended, each for one reason.",
        _per_watch(lambda s: _all(CLASS, _closed_by_class(s)), CLASS),
        _per_watch(_closed_by_reason, CLASS, CLOSED),
        proven=True,
    ),
    Family(
        "watchslo_watch_open_seconds",
        Type.HISTOGRAM,
        Stability.STABLE,
        "From the request of a watch to the headers of its answer.",
        _per_apiserver(lambda a: _one(a.watch_open)),
        _per_watch(lambda s: _one(s.watch_open)),
    ),
    Family(
        "watchslo_watch_duration_seconds",
        Type.HISTOGRAM,
        Stability.STABLE,
        "How long watches lived.",
        _per_apiserver(lambda a: _one(a.watch_duration)),
        _per_watch(lambda s: _one(s.watch_duration)),
    ),
    Family(
        "watchslo_behind_peers_seconds",
        Type.GAUGE,
        Stability.BETA,
        "For how long the same watch at another apiserver has had an event that this one has not; absent without one.",
        None,
        _per_watch(lambda s: _one(s.behind_peers)),
    ),
    Family(
        "watchslo_cache_behind_seconds",
        Type.GAUGE,
        Stability.BETA,
        "How old the apiserver's cache of the resource was, at worst, in the last seconds; only while it is read.",
        _per_watch(lambda s: _ends(s.cache_behind), END),
    ),
    Family(
        "watchslo_transport_round_trip_seconds",
        Type.GAUGE,
        Stability.BETA,
        "Smoothed round trip of the open watch's connection, by the kernel.",
        None,
        _transport(lambda t: _one(t.round_trip)),
    ),
    Family(
        "watchslo_transport_retransmits_total",
        Type.COUNTER,
        Stability.BETA,
        "Segments that we sent anew on the open watch's connection, by the kernel; starts anew with each connection.",
        None,
        _transport(lambda t: _one(t.retransmits)),
    ),
    Family(
        "watchslo_transport_silent_seconds",
        Type.GAUGE,
        Stability.BETA,
        "For how long nothing came on the open watch's connection, not even an acknowledgement, by the kernel.",
        None,
        _transport(lambda t: _one(t.silent)),
    ),
    Family(
        "watchslo_order_violations_total",
        Type.COUNTER,
        Stability.STABLE,
        "Events whose revision was not newer than the one before.",
        None,
        _per_watch(lambda s: _one(s.order_violations)),
    ),
    Family(
        "watchslo_time_travel_total",
        Type.COUNTER,
        Stability.STABLE,
        "Times an apiserver answered from the past.",
        _per_apiserver(lambda a: _one(a.time_travel)),
        proven=True,
    ),
    Family(
        "watchslo_time_travel_revisions_total",
        Type.COUNTER,
        Stability.BETA,
        "How many revisions those answers went back, in all.",
        _per_apiserver(lambda a: _one(a.time_travel_revisions)),
    ),
    Family(
        "watchslo_time_travel_seconds_total",
        Type.COUNTER,
        Stability.BETA,
        "How much time those answers went back, in all.",
        _per_apiserver(lambda a: _one(a.time_travel_seconds)),
    ),
)

STARTING_OVER = (
    Family(
        "watchslo_relists_total",
        Type.COUNTER,
        Stability.STABLE,
        "Times a stream had to start over.",
        _per_watch(_starts, RELIST),
        _per_watch(lambda s: _each(s.relists), RELIST),
        proven=True,
    ),
    Family(
        "watchslo_expired_total",
        Type.COUNTER,
        Stability.STABLE,
        "Times the apiserver said 410 Expired.",
        _per_watch(lambda s: _one(sum(s.expired.values()))),
        _per_watch(lambda s: _each(s.expired), PHASE),
        proven=True,
    ),
    Family(
        "watchslo_watch_history_seconds",
        Type.GAUGE,
        Stability.BETA,
        "How long a client of the resource may be away before it gets a 410; absent until it was looked for.",
        _history(_sure_seconds, END),
        _history(lambda h: _ends(h.seconds), END),
    ),
    Family(
        "watchslo_watch_history_revisions",
        Type.GAUGE,
        Stability.BETA,
        "The same in revisions of the whole storage.",
        None,
        _history(lambda h: _one(h.revisions)),
    ),
    Family(
        "watchslo_watch_history_list_seconds",
        Type.GAUGE,
        Stability.BETA,
        "How long a full list of the resource takes, as seen or as reckoned from one page; absent where nobody knows.",
        None,
        _history(lambda h: _one(h.list_seconds)),
    ),
    Family(
        "watchslo_watch_history_fits",
        Type.GAUGE,
        Stability.BETA,
        "Whether the history outlasts a full list; if not, clients that list get a 410 and list again, for ever.",
        _history(lambda h: _one(h.fits)),
    ),
    Family(
        "watchslo_list_duration_seconds",
        Type.HISTOGRAM,
        Stability.STABLE,
        "How long lists took, with all their pages.",
        _per_apiserver(lambda a: _each(a.list_duration), STRATEGY),
        _per_watch(lambda s: _each(s.list_duration), STRATEGY),
    ),
    Family(
        "watchslo_list_items_total",
        Type.COUNTER,
        Stability.BETA,
        "Objects listed.",
        None,
        _per_watch(lambda s: _one(s.list_items)),
    ),
    Family(
        "watchslo_list_bytes_total",
        Type.COUNTER,
        Stability.BETA,
        "Bytes of lists received.",
        None,
        _per_watch(lambda s: _one(s.list_bytes)),
    ),
    Family(
        "watchslo_list_pages_total",
        Type.COUNTER,
        Stability.BETA,
        "Pages of lists received.",
        None,
        _per_watch(lambda s: _one(s.list_pages)),
    ),
    Family(
        "watchslo_list_fallbacks_total",
        Type.COUNTER,
        Stability.BETA,
        "Times a list came in pages because the apiserver streams none.",
        None,
        _per_watch(lambda s: _one(s.list_fallbacks)),
    ),
    Family(
        "watchslo_initial_events_total",
        Type.COUNTER,
        Stability.STABLE,
        "Events of streamed lists: objects that were there, not changes.",
        None,
        _per_watch(lambda s: _one(s.initial_events)),
    ),
)

WITHHELD = (
    Family(
        "watchslo_gap_revisions_total",
        Type.COUNTER,
        Stability.STABLE,
        "Revisions passed over where a stream started over: what changed in them was never told.",
        _per_watch(lambda s: _one(s.gap_revisions)),
        proven=True,
    ),
    Family(
        "watchslo_gap_seconds_total",
        Type.COUNTER,
        Stability.STABLE,
        "Time in which a stream was blind before it started over.",
        _per_watch(lambda s: _one(s.gap_seconds)),
        proven=True,
    ),
    Family(
        "watchslo_unseen_changes_total",
        Type.COUNTER,
        Stability.STABLE,
        "Objects that gaps hid a change of, as the inventory found; only with an inventory.",
        _per_watch(_unseen_in_all),
        _per_watch(_unseen, UNSEEN),
    ),
    Family(
        "watchslo_inventory_objects",
        Type.GAUGE,
        Stability.BETA,
        "Objects in the inventory; only with an inventory.",
        None,
        _per_watch(lambda s: _one(s.objects)),
    ),
    Family(
        "watchslo_stalls_total",
        Type.COUNTER,
        Stability.STABLE,
        "Times a watch was found to withhold events, or its apiserver's cache of the resource to be frozen.",
        _per_watch(lambda s: _one(s.stalls)),
        proven=True,
    ),
    Family(
        "watchslo_watch_stalled",
        Type.GAUGE,
        Stability.STABLE,
        "Whether events are being withheld, or the apiserver's cache of the resource is frozen; absent without audits.",
        _per_audited_watch(lambda s: _one(s.stalled_for is not None)),
        proven=True,
    ),
    Family(
        "watchslo_stall_seconds",
        Type.GAUGE,
        Stability.STABLE,
        "Age of the oldest event that is withheld, or of a frozen cache; absent unless stalled.",
        None,
        _per_watch(lambda s: _one(s.stalled_for)),
    ),
    Family(
        "watchslo_audits_total",
        Type.COUNTER,
        Stability.STABLE,
        "Looks at streams by a second way, to tell what is idle from what is dead.",
        _per_apiserver(lambda a: _all(AUDIT, a.audits), AUDIT),
    ),
    Family(
        "watchslo_lost_events_total",
        Type.COUNTER,
        Stability.STABLE,
        "Events that a watch is proven to have passed over: it delivered newer ones, and never these.",
        _per_watch(lambda s: _one(s.lost)),
        proven=True,
    ),
)

CLOCK = (
    Family(
        "watchslo_resource_version",
        Type.GAUGE,
        Stability.STABLE,
        "Newest revision seen.",
        _per_domain(lambda d: _one(d.revision)),
    ),
    Family(
        "watchslo_clock_ticks_total",
        Type.COUNTER,
        Stability.STABLE,
        "Ticks of the revision clock.",
        _per_ticker(lambda t: _all(TICK_RESULT, t.ticks), TICK_RESULT),
        proven=True,
    ),
    Family(
        "watchslo_clock_tick_seconds",
        Type.HISTOGRAM,
        Stability.STABLE,
        "Round trips of the ticks.",
        _per_ticker(lambda t: _one(t.round_trips)),
    ),
    Family(
        "watchslo_clock_interval_seconds",
        Type.GAUGE,
        Stability.STABLE,
        "Width of the newest interval that the ticks cut; absent before there are two.",
        _per_domain(lambda d: _one(d.interval)),
    ),
    Family(
        "watchslo_clock_resets_total",
        Type.COUNTER,
        Stability.STABLE,
        "Times a revision went backwards, as after a restore of etcd.",
        _per_domain(lambda d: _one(d.resets)),
        proven=True,
    ),
    Family(
        "watchslo_apiserver_timespan_by_ticks_seconds",
        Type.GAUGE,
        Stability.BETA,
        "The last minute of all its watches, and what its own ticks alone would say; absent with one apiserver.",
        _per_apiserver(_by_ticks, CENTRE, TICKS),
    ),
    Family(
        "watchslo_apiserver_watched",
        Type.GAUGE,
        Stability.BETA,
        "Whether resources are watched there: not so at the service where each apiserver is watched by itself.",
        _per_apiserver(lambda a: _one(a.watched)),
    ),
    Family(
        "watchslo_apiserver_peers",
        Type.GAUGE,
        Stability.BETA,
        "How many apiservers its address stands for; absent where that is not known.",
        _per_apiserver(lambda a: _one(a.peers)),
    ),
    Family(
        "watchslo_storage_proven",
        Type.GAUGE,
        Stability.BETA,
        "Whether the revisions are known to be etcd's; if not, as with k3s, all latencies are unproven.",
        _per_apiserver(_proven),
    ),
    Family(
        "watchslo_apiserver_clock_offset_seconds",
        Type.GAUGE,
        Stability.BETA,
        "Interval that holds the apiserver's wall clock minus ours; absent before it is known.",
        _per_apiserver(lambda a: _ends(a.offset), END),
    ),
)

DIAGNOSIS = (
    Family(
        "watchslo_cause_active",
        Type.GAUGE,
        Stability.BETA,
        "Whether this is why watches are late, as far as can be told; docs/causes.md has the table.",
        View((CAUSE, BLAMED, AFFECTED), _causes),
    ),
)

MONITOR = (
    Family(
        "watchslo_api_requests_total",
        Type.COUNTER,
        Stability.STABLE,
        "Requests to the apiserver: what watchslo costs it.",
        _per_apiserver(lambda a: a.requests.items(), KIND, CODE),
        proven=_per_apiserver(_by_code, CODE),
    ),
    Family(
        "watchslo_loop_lag_seconds",
        Type.HISTOGRAM,
        Stability.STABLE,
        "How late the monitor's own heartbeats were.",
        _once(lambda m: _one(m.loop_lag)),
        proven=_once(lambda m: _one(_blamed(m.loop_lag))),
    ),
    Family(
        "watchslo_tainted_seconds_total",
        Type.COUNTER,
        Stability.STABLE,
        "Time in which the monitor was too late itself to blame anybody; its events are unmeasured.",
        _once(lambda m: _one(m.tainted_seconds)),
        proven=True,
    ),
    Family(
        "watchslo_config_last_reload_successful",
        Type.GAUGE,
        Stability.STABLE,
        "Whether the newest configuration is in force; if not, the one before it is.",
        _once(lambda m: _one(m.reload_succeeded)),
        proven=True,
    ),
    Family(
        "watchslo_config_last_reload_success_timestamp_seconds",
        Type.GAUGE,
        Stability.STABLE,
        "When the configuration in force was loaded, in Unix seconds.",
        _once(lambda m: _one(m.reloaded_wall)),
        proven=True,
    ),
    Family(
        "watchslo_build_info",
        Type.GAUGE,
        Stability.STABLE,
        "Which code runs; always 1.",
        _once(lambda m: [((m.build.version, m.build.revision, m.build.python_version), 1)], *BUILD),
        proven=True,
    ),
)

SECTIONS = {
    "Latency and objectives": LATENCY,
    "Streams": STREAMS,
    "Starting over": STARTING_OVER,
    "What was not told": WITHHELD,
    "Clocks": CLOCK,
    "Causes": DIAGNOSIS,
    "The monitor itself": MONITOR,
}
FAMILIES = tuple(chain.from_iterable(SECTIONS.values()))
