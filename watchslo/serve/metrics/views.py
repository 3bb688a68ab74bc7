"""How the points of a metric are read from a snapshot: once for each watch, apiserver, domain or ticker, or once."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from watchslo.model import Interval
from watchslo.serve.metrics.labels import APISERVER, DOMAIN, WATCH, Label
from watchslo.snapshot import (
    ApiserverReading,
    DomainReading,
    HeadroomReading,
    HistogramReading,
    MonitorReading,
    QuantileReading,
    Snapshot,
    StreamReading,
    TickerReading,
    TransportReading,
)

Value = float | HistogramReading
Point = tuple[tuple[str, ...], Value]
"""The values of the labels, in their order, and the value measured there."""
Found = Value | None | Mapping[Any, Value]
"""A value without labels of its own, None if unknown, or values by one label (a string) or by several (a tuple)."""
Owner = TypeVar("Owner")


@dataclass(frozen=True, slots=True)
class MetricView:
    """One form of a family: its labels, and a function that reads its points from a snapshot."""

    labels: tuple[Label, ...]
    points: Callable[[Snapshot], Iterable[Point]]


def per_watch(read: Callable[[StreamReading], Found], *labels: Label) -> MetricView:
    """View with a point for each watch, or several that differ in `labels`."""

    def name(stream: StreamReading) -> tuple[str, ...]:
        return stream.watch, stream.group, stream.resource, stream.apiserver

    return MetricView((*WATCH, *labels), lambda snapshot: _owned(snapshot.streams, name, read))


def per_audited_watch(read: Callable[[StreamReading], Found]) -> MetricView:
    """View per watch that is empty if audits are off: stalls are then unknown, not 0."""
    watches = per_watch(read)
    return MetricView(
        watches.labels,
        lambda snapshot: () if snapshot.monitor.stall_detection is None else watches.points(snapshot),
    )


def per_headroom(read: Callable[[HeadroomReading], Found], *labels: Label) -> MetricView:
    """View per watch whose headroom is known."""
    return per_watch(lambda s: None if s.headroom is None else read(s.headroom), *labels)


def per_transport(read: Callable[[TransportReading], Found]) -> MetricView:
    """View per open watch whose connection the kernel has figures of."""
    return per_watch(lambda s: None if s.session.transport is None else read(s.session.transport))


def per_apiserver(read: Callable[[ApiserverReading], Found], *labels: Label) -> MetricView:
    """View with a point for each apiserver, or several that differ in `labels`."""
    return MetricView(
        (APISERVER, *labels), lambda snapshot: _owned(snapshot.apiservers, lambda server: (server.name,), read)
    )


def per_domain(read: Callable[[DomainReading], Found]) -> MetricView:
    """View with a point for each domain."""
    return MetricView((DOMAIN,), lambda snapshot: _owned(snapshot.domains, lambda domain: (domain.name,), read))


def per_ticker(read: Callable[[TickerReading], Found], *labels: Label) -> MetricView:
    """View with a point for each domain and apiserver that it ticks through."""

    def points(snapshot: Snapshot) -> Iterator[Point]:
        for domain in snapshot.domains:
            for ticker in domain.tickers:
                yield from _named((domain.name, ticker.apiserver), read(ticker))

    return MetricView((DOMAIN, APISERVER, *labels), points)


def once(read: Callable[[MonitorReading], Found], *labels: Label) -> MetricView:
    """View of the daemon itself."""
    return MetricView(labels, lambda snapshot: _named((), read(snapshot.monitor)))


def once_of_snapshot(read: Callable[[Snapshot], Found], *labels: Label) -> MetricView:
    """View of the snapshot as a whole."""
    return MetricView(labels, lambda snapshot: _named((), read(snapshot)))


def _owned(
    owners: Iterable[Owner], name: Callable[[Owner], tuple[str, ...]], read: Callable[[Owner], Found]
) -> Iterator[Point]:
    for owner in owners:
        yield from _named(name(owner), read(owner))


def _named(own: tuple[str, ...], found: Found) -> Iterator[Point]:
    """Put the labels of the owner in front of those of each value."""
    if isinstance(found, Mapping):
        for values, value in found.items():
            yield (*own, *((values,) if isinstance(values, str) else values)), value
    elif found is not None:
        yield own, found


# --- values that several families share -------------------------------------------------------------------------------


def each(label: Label, counts: Mapping[str, int]) -> Mapping[str, Value]:
    """Counts for all values of a label, 0 if not counted yet."""
    return {**dict.fromkeys(label.values, 0), **counts}


def ends(interval: Interval | None) -> Mapping[str, Value]:
    """The ends of an interval that are finite, by the name of the bound."""
    both = {"lower": interval.lower, "upper": interval.upper} if interval else {}
    return {name: value for name, value in both.items() if math.isfinite(value)}


def bounds(quantile: QuantileReading) -> Mapping[str, float]:
    """The estimate and both bounds of a quantile; of the median the estimate only: its bounds are too wide to use."""
    if quantile.q == 0.5:  # noqa: PLR2004 - the median
        return {"estimate": quantile.estimate}
    return {"lower": quantile.lower, "estimate": quantile.estimate, "upper": quantile.upper}
