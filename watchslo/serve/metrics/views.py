"""How the points of a metric are read from a snapshot: once for each watch, apiserver, domain or ticker, or once."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from watchslo.model import Interval
from watchslo.serve.metrics.labels import APISERVER, CLIENT, DOMAIN, STEP, WATCH, Label
from watchslo.snapshot import (
    ApiserverReading,
    ClientReading,
    DelayBreakdown,
    DomainReading,
    ExcessReading,
    HeadroomReading,
    HistogramReading,
    InformerReading,
    MonitorReading,
    QuantileReading,
    ReactionReading,
    Snapshot,
    TickerReading,
    TransportReading,
    WatchReading,
)

Value = float | HistogramReading
Found = Value | None | Mapping[Any, Value]
"""A value without labels of its own, None if unknown, or values by one label (a string) or by several (a tuple)."""


@dataclass(frozen=True, slots=True)
class MetricView:
    """One form of a family: its labels, and how its values are read from a snapshot.

    `owners` returns what has values, such as the watches; `name` the owner's values of the first labels, and `read` the
    values of one owner, with the other labels.
    """

    labels: tuple[Label, ...]
    owners: Callable[[Snapshot], Sequence[Any]]
    name: Callable[[Any], tuple[str, ...]]
    read: Callable[[Any], Found]


def per_watch(read: Callable[[WatchReading], Found], *labels: Label) -> MetricView:
    """View with a point for each watch, or several that differ in `labels`."""
    return MetricView((*WATCH, *labels), lambda snapshot: snapshot.watches, _name_watch, read)


def _name_watch(watch: WatchReading) -> tuple[str, ...]:
    return watch.watch, watch.group, watch.resource, watch.apiserver


def per_audited_watch(read: Callable[[WatchReading], Found]) -> MetricView:
    """View per watch that is empty if audits are off: stalls are then unknown, not 0."""
    return replace(
        per_watch(read),
        owners=lambda snapshot: () if snapshot.monitor.stall_detection is None else snapshot.watches,
    )


def per_headroom(read: Callable[[HeadroomReading], Found], *labels: Label) -> MetricView:
    """View per watch whose headroom is known."""
    return per_watch(lambda s: None if s.headroom is None else read(s.headroom), *labels)


def per_transport(read: Callable[[TransportReading], Found]) -> MetricView:
    """View per open watch whose connection the kernel has figures of."""
    return per_watch(lambda s: None if s.session.transport is None else read(s.session.transport))


def per_apiserver(read: Callable[[ApiserverReading], Found], *labels: Label) -> MetricView:
    """View with a point for each apiserver, or several that differ in `labels`."""
    return MetricView((APISERVER, *labels), lambda snapshot: snapshot.apiservers, lambda server: (server.name,), read)


def summed_by_apiserver(
    read: Callable[[WatchReading], Mapping[str, int]],
    ended: Callable[[ApiserverReading], Mapping[str, int]],
    label: Label,
) -> MetricView:
    """View with the sums of the counts of all watches at each apiserver, and of those that have `ended`."""

    def owners(snapshot: Snapshot) -> Sequence[tuple[str, Mapping[str, int]]]:
        sums: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for apiserver in snapshot.apiservers:
            if counts := {name: count for name, count in ended(apiserver).items() if count}:
                sums[apiserver.name].update(counts)
        for watch in snapshot.watches:
            sums[watch.apiserver].update(read(watch))
        return [*sums.items()]

    return MetricView((APISERVER, label), owners, lambda owner: (owner[0],), lambda owner: owner[1])


def per_resource(read: Callable[[ExcessReading], Found], *labels: Label) -> MetricView:
    """View with the excess of each resource at each apiserver: of several watches, the one with most events."""
    group, resource = WATCH[1:3]
    return MetricView(
        (APISERVER, group, resource, *labels), _excesses, lambda found: found[0], lambda found: read(found[1])
    )


def _excesses(snapshot: Snapshot) -> Sequence[tuple[tuple[str, ...], ExcessReading]]:
    found: dict[tuple[str, ...], ExcessReading] = {}
    for watch in snapshot.watches:
        name, excess = (watch.apiserver, watch.group, watch.resource), watch.behind_fastest
        if excess and (name not in found or excess.events > found[name].events):
            found[name] = excess
    return [*found.items()]


def latest_breakdowns(label: Label) -> MetricView:
    """View with the parts of the longest delay at each apiserver that is divided into parts."""

    def owners(snapshot: Snapshot) -> Sequence[tuple[str, DelayBreakdown]]:
        found: dict[str, DelayBreakdown] = {}
        for watch in snapshot.watches:
            known, breakdown = found.get(watch.apiserver), watch.breakdown
            if breakdown and (known is None or breakdown.seconds > known.seconds):
                found[watch.apiserver] = breakdown
        return [*found.items()]

    return MetricView(
        (APISERVER, label),
        owners,
        lambda owner: (owner[0],),
        lambda owner: {part.name: part.seconds for part in owner[1].parts},
    )


def per_domain(read: Callable[[DomainReading], Found], *labels: Label) -> MetricView:
    """View with a point for each domain, or several that differ in `labels`."""
    return MetricView((DOMAIN, *labels), lambda snapshot: snapshot.domains, lambda domain: (domain.name,), read)


def per_ticker(read: Callable[[TickerReading], Found], *labels: Label) -> MetricView:
    """View with a point for each domain and apiserver that it ticks through."""

    def owners(snapshot: Snapshot) -> Sequence[tuple[str, TickerReading]]:
        return [(domain.name, ticker) for domain in snapshot.domains for ticker in domain.tickers]

    return MetricView(
        (DOMAIN, APISERVER, *labels),
        owners,
        lambda owner: (owner[0], owner[1].apiserver),
        lambda owner: read(owner[1]),
    )


def per_reaction(read: Callable[[ReactionReading], Found], *labels: Label) -> MetricView:
    """View with a point for each step of each resource, or several that differ in `labels`."""
    return MetricView(
        (*WATCH[1:3], STEP, *labels),
        lambda snapshot: snapshot.reactions,
        lambda reaction: (reaction.group, reaction.resource, reaction.step),
        read,
    )


def per_client(read: Callable[[ClientReading], Found], *labels: Label) -> MetricView:
    """View with a point for each client, or several that differ in `labels`."""
    return MetricView((CLIENT, *labels), lambda snapshot: snapshot.clients, lambda client: (client.client,), read)


def per_informer(read: Callable[[InformerReading], Found], *labels: Label) -> MetricView:
    """View with a point for each resource of each client, or several that differ in `labels`."""

    def owners(snapshot: Snapshot) -> Sequence[tuple[str, InformerReading]]:
        return [(client.client, informer) for client in snapshot.clients for informer in client.informers]

    return MetricView(
        (CLIENT, *WATCH[1:3], *labels),
        owners,
        lambda owner: (owner[0], owner[1].group, owner[1].resource),
        lambda owner: read(owner[1]),
    )


def once(read: Callable[[MonitorReading], Found], *labels: Label) -> MetricView:
    """View of the daemon itself."""
    return MetricView(labels, lambda snapshot: (snapshot.monitor,), lambda _: (), read)


def once_of_snapshot(read: Callable[[Snapshot], Found], *labels: Label) -> MetricView:
    """View of the snapshot as a whole."""
    return MetricView(labels, lambda snapshot: (snapshot,), lambda _: (), read)


# --- values that several families share -------------------------------------------------------------------------------


def each(label: Label, counts: Mapping[str, int]) -> Mapping[str, Value]:
    """Counts for all values of a label, 0 if not counted yet."""
    return {**dict.fromkeys(label.values, 0), **counts}


def ends(interval: Interval | None) -> Mapping[str, Value]:
    """The ends of an interval that are finite, by the name of the bound."""
    both = {"lower": interval.lower, "upper": interval.upper} if interval else {}
    return {name: value for name, value in both.items() if math.isfinite(value)}


def bounds(quantile: QuantileReading) -> Mapping[str, float]:
    """The estimate of a quantile, or the limit that it is below, and its bounds; those of the median are too wide."""
    estimate = {"estimate": quantile.estimate} if quantile.resolved else {"limit": quantile.resolution}
    if quantile.q == 0.5:  # noqa: PLR2004 - the median
        return estimate
    ends = quantile.probable
    probable = {"probable_lower": ends.lower, "probable_upper": ends.upper} if ends else {}
    return {"lower": quantile.lower, **estimate, "upper": quantile.upper, **probable}
