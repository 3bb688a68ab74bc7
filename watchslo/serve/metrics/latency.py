"""Latency and objectives: how late events were, by watch, and how that compares with the threshold."""

from collections.abc import Mapping

from watchslo.serve.metrics.family import Detail, counter, gauge, histogram
from watchslo.serve.metrics.labels import (
    BOUND,
    ESTIMATE_VERDICT,
    EVENT_VERDICT,
    HOP,
    HOPS,
    QUANTILE,
    TARGET,
    UNMEASURED,
    WINDOW,
    WINDOW_VERDICT,
)
from watchslo.serve.metrics.views import MetricView, Value, bounds, each, once, per_watch
from watchslo.snapshot import Hop, HopReading, ObjectiveReading, WatchReading

WINDOWS = frozenset(WINDOW.values)  # shorter windows serve the diagnosis: they are too short for a graph
BASIC_WINDOWS = frozenset({"1m"})
BASIC_QUANTILES = frozenset({0.5, 0.99})  # unless the configuration names others
FULL_QUANTILES = BASIC_QUANTILES | {0.9}
BASIC_HOPS = frozenset({Hop.STORAGE_TO_CACHE, Hop.CACHE_TO_CLIENT})


def _quantiles(watch: WatchReading, windows: frozenset[str], qs: frozenset[float]) -> Mapping[tuple[str, ...], Value]:
    """The quantiles of windows with events."""
    return {
        (str(quantile.q), window.name, bound): value
        for window in watch.track.windows
        if window.name in windows and window.events
        for quantile in window.quantiles
        if quantile.q in qs
        for bound, value in bounds(quantile).items()
    }


def _rough(watch: WatchReading) -> Mapping[str, Value]:
    """Whether the P99 of each window is rough, where it is resolved."""
    return {
        window.name: quantile.rough
        for window in watch.track.windows
        if window.name in WINDOWS and window.events
        for quantile in window.quantiles
        if quantile.resolved and quantile.q == 0.99  # noqa: PLR2004 - P99
    }


def _events(watch: WatchReading) -> Mapping[str, Value]:
    return {window.name: window.events for window in watch.track.windows if window.name in WINDOWS}


def _compared(objective: ObjectiveReading, late: int) -> Mapping[str, Value]:
    return {"within": sum(objective.verdicts.values()) - late, "beyond": late}


def _proven_late(watch: WatchReading) -> int:
    return watch.track.objective.verdicts.get("beyond", 0)


def _targets(events: float, minutes: float) -> Mapping[str, Value]:
    return {"events": events, "minutes": minutes}


def _histograms(hops: tuple[HopReading, ...], shown: frozenset[Hop]) -> Mapping[str, Value]:
    return {hop.hop: hop.histogram for hop in hops if hop.hop in shown}


def _representation_delay(hops: tuple[HopReading, ...]) -> Value | None:
    return next((hop.histogram for hop in hops if hop.hop is Hop.ENCODING_TO_CLIENT), None)


def window_quantiles(detail: Detail, qs: frozenset[float]) -> MetricView:
    """Return the view of these quantiles, of the rolling windows of a level of detail."""
    windows = WINDOWS if detail is Detail.FULL else BASIC_WINDOWS
    return per_watch(lambda s: _quantiles(s, windows, qs), QUANTILE, WINDOW, BOUND)


WINDOW_QUANTILES = gauge(
    "apiserver_timespan_window_seconds",
    "Quantiles of the latency of watch events in the rolling window, with proven bounds, in seconds; absent without "
    "events, and P99.9 with fewer than 1,000. An estimate below what ticks resolve is replaced by that limit.",
    basic=window_quantiles(Detail.BASIC, BASIC_QUANTILES),
    full=window_quantiles(Detail.FULL, FULL_QUANTILES),
)


LATENCY = (
    histogram(
        "apiserver_timespan_seconds",
        "Seconds from the commit of a change to the arrival of its live watch event, by the revision clock.",
        basic=per_watch(lambda s: s.track.timespan),
        native=True,
    ),
    WINDOW_QUANTILES,
    gauge(
        "apiserver_timespan_window_rough",
        "1 if the events of the rolling window do not determine its P99: it may be more than a quarter off; absent "
        "without a P99.",
        full=per_watch(_rough, WINDOW),
    ),
    gauge(
        "apiserver_timespan_window_events",
        "Number of samples in the rolling window.",
        full=per_watch(_events, WINDOW),
    ),
    counter(
        "unresolved_events_total",
        "Total number of samples whose whole interval lies below the round trip of the ticks.",
        full=per_watch(lambda s: s.track.unresolved),
    ),
    counter(
        "slo_events_total",
        "Total number of samples by their proven bounds compared with the threshold.",
        basic=per_watch(lambda s: each(EVENT_VERDICT, s.track.objective.verdicts), EVENT_VERDICT),
        node=True,
    ),
    counter(
        "estimated_events_total",
        "Total number of samples within and beyond the threshold, by their estimated distribution; with `mode: node` "
        "only those that are proven late are beyond.",
        basic=per_watch(lambda s: _compared(s.track.objective, s.track.late), ESTIMATE_VERDICT),
        node=per_watch(lambda s: _compared(s.track.objective, _proven_late(s)), ESTIMATE_VERDICT),
    ),
    counter(
        "slo_windows_total",
        "Total number of windows, which do not overlap, by verdict.",
        basic=per_watch(lambda s: each(WINDOW_VERDICT, s.track.objective.windows), WINDOW_VERDICT),
    ),
    gauge(
        "slo_threshold_seconds",
        "Threshold of the objective in force in seconds.",
        basic=per_watch(lambda s: s.track.objective.threshold),
        node=True,
    ),
    gauge(
        "slo_target_ratio",
        "Targets of the objective in force: the common ones, or those of each watch.",
        basic=once(lambda m: _targets(m.events_target, m.minutes_target), TARGET),
        full=per_watch(lambda s: _targets(s.track.objective.events_target, s.track.objective.minutes_target), TARGET),
    ),
    histogram(
        "creation_to_watch_seconds",
        "Seconds from creationTimestamp to the arrival of ADDED events, without the clocks' offset; if configured.",
        basic=per_watch(lambda s: s.track.creation),
        native=True,
        beta=True,
    ),
    histogram(
        "hop_seconds",
        "Seconds that events spent on one hop, of the events whose hop was measured; absent without any.",
        basic=per_watch(lambda s: _histograms(s.track.hops, BASIC_HOPS), HOP),
        full=per_watch(lambda s: _histograms(s.track.hops, frozenset(HOPS)), HOP),
        native=True,
        beta=True,
    ),
    histogram(
        "representation_delay_seconds",
        "Seconds by which events arrived later as whole objects than in the representation of the watch; only with "
        "`reference`.",
        basic=per_watch(lambda s: _representation_delay(s.track.hops)),
        native=True,
        beta=True,
    ),
    counter(
        "unmeasured_events_total",
        "Total number of events that are not samples.",
        basic=per_watch(lambda s: sum(s.track.unmeasured.values())),
        full=per_watch(lambda s: each(UNMEASURED, s.track.unmeasured), UNMEASURED),
        node=True,
    ),
)
