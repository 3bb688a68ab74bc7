"""Divides the delay of a watch into parts, by its hops and by its apiserver's own metrics.

The parts and their sources:

- the way from the storage into the watch cache, by watchslo: the hop, while it is probed;
- the dispatch within the apiserver, from the cache to the watch, by the apiserver itself since 1.37;
- the rest is what remains: encoding, the socket, the network, and whatever is not measured.
"""

from watchslo.changes import quantile
from watchslo.model import resource_key
from watchslo.snapshot import (
    ApiserverMetricsReading,
    DelayBreakdown,
    DelayPart,
    DelayPartName,
    HistogramReading,
    Hop,
    WatchReading,
    WindowReading,
)

Q = 0.99
WINDOW = "1m"
TOTAL, TO_CACHE = "total", "storage_to_cache"  # stages of the dispatch, as kube-apiserver names them
STORAGE, DISPATCH, SENDING = "etcd and cache", "dispatch", "encoding, socket and network"


def break_down(watch: WatchReading, own: ApiserverMetricsReading | None) -> DelayBreakdown | None:
    """Return the parts of the P99 of the last minute; None if it is not measured, or nothing divides it."""
    total = _estimate(watch.track.windows, resolved=True)
    if own is None or total is None:
        return None
    hop = next((reading.windows for reading in watch.track.hops if reading.hop is Hop.STORAGE_TO_CACHE), ())
    storage, dispatch = _estimate(hop, resolved=False), _dispatch(watch, own, of_cache=bool(hop))
    if storage is None and dispatch is None:
        return None
    left, parts, missing = total, list[DelayPart](), list[str]()
    for name, seconds, contains, source in (
        (DelayPartName.STORAGE_TO_CACHE, storage, STORAGE, "watchslo"),
        (DelayPartName.DISPATCH, dispatch, DISPATCH, "apiserver"),
    ):
        if seconds is None:
            missing.append(contains)
        else:
            parts.append(DelayPart(name, min(seconds, left), contains, source))
            left -= parts[-1].seconds
    rest = DelayPart(DelayPartName.REST, left, ", ".join([*missing, SENDING]), "remainder")
    return DelayBreakdown(Q, total, (*parts, rest))


def _estimate(windows: tuple[WindowReading, ...], *, resolved: bool) -> float | None:
    """Return the estimate of the last minute; with `resolved`, only if it is a measurement."""
    quantiles = next((window.quantiles for window in windows if window.name == WINDOW), ())
    return next(
        (reading.estimate for reading in quantiles if reading.q == Q and (reading.resolved or not resolved)), None
    )


def _dispatch(watch: WatchReading, own: ApiserverMetricsReading, *, of_cache: bool) -> float | None:
    """Return how long the dispatch took; without the way into the cache if that is measured by the hop."""
    resource = resource_key(watch.resource, watch.group)
    figures = own.minute.resources.get(resource) if own.minute and own.processes == 1 else None
    if figures is None or TOTAL not in figures.dispatch:
        return None
    to_cache: HistogramReading | None = figures.dispatch.get(TO_CACHE) if of_cache else None
    return max(0.0, quantile(figures.dispatch[TOTAL], Q) - (quantile(to_cache, Q) if to_cache else 0.0))
