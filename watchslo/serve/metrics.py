"""The metrics as one table: what each family means, which labels it has, and how it is read from a snapshot.

Names, types and labels are a contract with dashboards and rules. Counters exist with 0 from the start of what they
count: a series born above 0 is invisible to `increase`. What is not known is absent, never 0.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import chain
from typing import TypeVar

from watchslo.latency import track
from watchslo.snapshot import (
    ApiserverReading,
    DomainReading,
    HistogramReading,
    MonitorReading,
    QuantileReading,
    Snapshot,
    StreamReading,
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
    """The configuration's `metrics`: basic keeps a watch at 50 series or fewer, whatever its strategy."""

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
END = Label("bound", "end of the interval it lies in", ("lower", "upper"))
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

BASIC_WINDOWS = frozenset({"1m"})
BASIC_QUANTILES = frozenset({0.5, 0.99})
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
    def name(domain: DomainReading) -> tuple[str, ...]:
        return domain.name, domain.apiserver

    return View((DOMAIN, APISERVER, *labels), lambda snapshot: _owned(snapshot.domains, name, read))


def _once(read: Callable[[MonitorReading], Iterable[Point]], *labels: Label) -> View:
    return View(labels, lambda snapshot: read(snapshot.monitor))


def _one(value: Value | None) -> Iterable[Point]:
    return () if value is None else (((), value),)


def _each(values: Mapping[str, Value]) -> Iterable[Point]:
    return (((key,), value) for key, value in values.items())


def _all(label: Label, counts: Mapping[str, int]) -> Iterable[Point]:
    """A count for each value of the label, counted yet or not."""
    return _each({**dict.fromkeys(label.values, 0), **counts})


def _bounds(quantile: QuantileReading) -> Mapping[str, float]:
    if quantile.q == 0.5:  # noqa: PLR2004 - the median; its bounds are too wide to be of use
        return {"estimate": quantile.estimate}
    return {"lower": quantile.lower, "estimate": quantile.estimate, "upper": quantile.upper}


def _quantiles(stream: StreamReading) -> Iterator[tuple[str, QuantileReading]]:
    """What may be shown of the windows: an unresolved quantile would look measured."""
    for window in stream.track.windows:
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
    return {window.name: window.events for window in stream.track.windows}


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


def _newest_revisions(snapshot: Snapshot) -> Iterable[Point]:
    """By domain alone: several apiservers see one sequence."""
    newest: dict[str, int] = defaultdict(int)
    for domain in snapshot.domains:
        newest[domain.name] = max(newest[domain.name], domain.revision or 0)
    return (((name,), revision) for name, revision in newest.items() if revision)


# --- the table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: `basic` is absent where only `full` has it, `full` where both are the same."""

    name: str
    type: Type
    stability: Stability
    help: str
    basic: View | None
    full: View | None = None

    def view(self, detail: Detail) -> View | None:
        return self.basic if detail is Detail.BASIC else self.full or self.basic


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
        "watchslo_unmeasured_events_total",
        Type.COUNTER,
        Stability.STABLE,
        "Events that are no sample.",
        _per_watch(lambda s: _one(sum(s.track.unmeasured.values()))),
        _per_watch(lambda s: _all(UNMEASURED, s.track.unmeasured), UNMEASURED),
    ),
)

STREAMS = (
    Family(
        "watchslo_watch_up",
        Type.GAUGE,
        Stability.STABLE,
        "Whether the watch is open.",
        _per_watch(lambda s: _one(s.up)),
    ),
    Family(
        "watchslo_watch_last_received_timestamp_seconds",
        Type.GAUGE,
        Stability.STABLE,
        "When the last byte came, in Unix seconds.",
        _per_watch(lambda s: _one(s.last_received_wall)),
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
    ),
    Family(
        "watchslo_expired_total",
        Type.COUNTER,
        Stability.STABLE,
        "Times the apiserver said 410 Expired.",
        _per_watch(lambda s: _one(sum(s.expired.values()))),
        _per_watch(lambda s: _each(s.expired), PHASE),
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
    ),
    Family(
        "watchslo_gap_seconds_total",
        Type.COUNTER,
        Stability.STABLE,
        "Time in which a stream was blind before it started over.",
        _per_watch(lambda s: _one(s.gap_seconds)),
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
    ),
    Family(
        "watchslo_watch_stalled",
        Type.GAUGE,
        Stability.STABLE,
        "Whether events are being withheld, or the apiserver's cache of the resource is frozen; absent without audits.",
        _per_audited_watch(lambda s: _one(s.stalled_for is not None)),
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
    ),
)

CLOCK = (
    Family(
        "watchslo_resource_version",
        Type.GAUGE,
        Stability.STABLE,
        "Newest revision seen.",
        View((DOMAIN,), _newest_revisions),
    ),
    Family(
        "watchslo_clock_ticks_total",
        Type.COUNTER,
        Stability.STABLE,
        "Ticks of the revision clock.",
        _per_domain(lambda d: _all(TICK_RESULT, d.ticks), TICK_RESULT),
    ),
    Family(
        "watchslo_clock_tick_seconds",
        Type.HISTOGRAM,
        Stability.STABLE,
        "Round trips of the ticks.",
        _per_domain(lambda d: _one(d.round_trips)),
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
        _per_apiserver(
            lambda a: _each({"lower": a.offset.lower, "upper": a.offset.upper} if a.offset else {}),
            END,
        ),
    ),
)

MONITOR = (
    Family(
        "watchslo_api_requests_total",
        Type.COUNTER,
        Stability.STABLE,
        "Requests to the apiserver: what watchslo costs it.",
        _per_apiserver(lambda a: a.requests.items(), KIND, CODE),
    ),
    Family(
        "watchslo_loop_lag_seconds",
        Type.HISTOGRAM,
        Stability.STABLE,
        "How late the monitor's own heartbeats were.",
        _once(lambda m: _one(m.loop_lag)),
    ),
    Family(
        "watchslo_tainted_seconds_total",
        Type.COUNTER,
        Stability.STABLE,
        "Time in which the monitor was too late itself to blame anybody; its events are unmeasured.",
        _once(lambda m: _one(m.tainted_seconds)),
    ),
    Family(
        "watchslo_config_last_reload_successful",
        Type.GAUGE,
        Stability.STABLE,
        "Whether the newest configuration is in force; if not, the one before it is.",
        _once(lambda m: _one(m.reload_succeeded)),
    ),
    Family(
        "watchslo_config_last_reload_success_timestamp_seconds",
        Type.GAUGE,
        Stability.STABLE,
        "When the configuration in force was loaded, in Unix seconds.",
        _once(lambda m: _one(m.reloaded_wall)),
    ),
    Family(
        "watchslo_build_info",
        Type.GAUGE,
        Stability.STABLE,
        "Which code runs; always 1.",
        _once(lambda m: [((m.build.version, m.build.revision, m.build.python_version), 1)], *BUILD),
    ),
)

SECTIONS = {
    "Latency and objectives": LATENCY,
    "Streams": STREAMS,
    "Starting over": STARTING_OVER,
    "What was not told": WITHHELD,
    "Clocks": CLOCK,
    "The monitor itself": MONITOR,
}
FAMILIES = tuple(chain.from_iterable(SECTIONS.values()))
