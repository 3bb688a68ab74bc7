"""The last pages of one address, and what changed between two pages of the same process. Pure.

Theory of operation: counters can be subtracted only if one process counted both. Behind a load balancer, each read may
reach another apiserver. Processes are distinguished by their start times; a page without a start time is never
subtracted. A counter that falls also proves that two pages are not of one process, for example of two that started in
the same hundredth of a second.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from watchslo.own_metrics.families import GAUGES, Figure
from watchslo.own_metrics.page import FigureKey, MetricsPage
from watchslo.snapshot import ApiserverFigures, ApiserverMetricsReading, HistogramReading, ResourceFigures

MINUTE_SECONDS = 60.0
KEPT_SECONDS = 66.0  # of pages, so that one is a minute older than the newest; reads may be a few seconds late
STALE_SECONDS = 36.0  # two reads have failed by then: the figures say nothing of the present
MOST_PROCESSES = 8  # behind one address; the oldest are forgotten
REVISION_MODULUS = 10**15  # as the help text of the gauge says
NO_START = "The page does not say when its process started, so two pages cannot be compared."


class PageHistory:
    """The pages of one address in the last minute, by process."""

    def __init__(self) -> None:
        self._pages: dict[float, list[MetricsPage]] = {}
        self._newest: ApiserverMetricsReading | None = None
        self._at = -math.inf

    def add(self, page: MetricsPage, size: int) -> None:
        """Take in the newest page, of so many bytes."""
        self._at = page.at
        if page.started is None:
            self._newest = ApiserverMetricsReading(NO_START, size=size)
            return
        pages = self._pages.pop(page.started, [])  # the newest process is the last
        self._pages[page.started] = [*pages, page]
        kept = {started: [*_within(pages, page.at)] for started, pages in self._pages.items()}
        self._pages = {started: pages for started, pages in [*kept.items()][-MOST_PROCESSES:] if pages}
        *before, _ = self._pages[page.started]
        self._newest = ApiserverMetricsReading(
            processes=len(self._pages),
            size=size,
            recent=figures(before[-1], page) if before else None,
            minute=figures(before[0], page) if before else None,
        )

    def reading(self, now: float) -> ApiserverMetricsReading | None:
        """Return what the newest page shows; None before the first, and if it is out of date."""
        return self._newest if now - self._at <= STALE_SECONDS else None


def _within(pages: list[MetricsPage], now: float) -> Iterator[MetricsPage]:
    return (page for page in pages if page.at >= now - KEPT_SECONDS)


def figures(before: MetricsPage, after: MetricsPage) -> ApiserverFigures | None:
    """Return what one process counted between two pages; None if they are not of one process."""
    change = _change(before, after)
    seconds = after.at - before.at
    if change is None or seconds <= 0.0:
        return None
    gauges = {key: value for key, value in after.values.items() if key.figure in GAUGES}
    cpu = change.values.get(FigureKey(Figure.CPU))
    return ApiserverFigures(
        since_wall=before.at_wall,
        seconds=seconds,
        etcd=change.histogram(Figure.ETCD),
        read_wait=change.histogram(Figure.READ_WAIT),
        conversion=change.histogram(Figure.CONVERSION),
        admission=change.histogram(Figure.ADMISSION),
        listed=_listed(change.values),
        rejected=int(change.values.get(FigureKey(Figure.REJECTED), 0.0)),
        inflight=_count(gauges, Figure.INFLIGHT),
        queued=_count(gauges, Figure.QUEUED),
        cpu=None if cpu is None else cpu / seconds,
        resources=_resources(change, gauges, before.values),
    )


@dataclass(frozen=True, slots=True)
class _PageChange:
    """The increase of all counters and histograms between two pages of one process."""

    values: Mapping[FigureKey, float]
    histograms: Mapping[FigureKey, HistogramReading]

    def histogram(self, figure: Figure) -> HistogramReading | None:
        return self.histograms.get(FigureKey(figure))


def _change(before: MetricsPage, after: MetricsPage) -> _PageChange | None:
    """Return the increases, or None if anything fell; a series that is new began at 0."""
    if before.started is None or before.started != after.started:
        return None
    counters = {key: value for key, value in after.values.items() if key.figure not in GAUGES}
    values = {key: value - before.values.get(key, 0.0) for key, value in counters.items()}
    histograms = {key: _observed(before.histograms.get(key), histogram) for key, histogram in after.histograms.items()}
    known = {key: histogram for key, histogram in histograms.items() if histogram is not None}
    if any(value < 0.0 for value in values.values()) or len(known) < len(histograms):
        return None
    return _PageChange(values, {key: histogram for key, histogram in known.items() if histogram.total})


def _observed(before: HistogramReading | None, after: HistogramReading) -> HistogramReading | None:
    """Return the observations in between, or None if the histogram is not the same one."""
    if before is None:
        return after
    if before.edges != after.edges:
        return None
    counts = tuple(new - old for old, new in zip(before.counts, after.counts, strict=True))
    if counts[0] < 0 or counts != tuple(sorted(counts)):
        return None
    return HistogramReading(after.edges, counts, max(0.0, after.sum - before.sum))


def _listed(values: Mapping[FigureKey, float]) -> int | None:
    """Return the objects that were sent by lists and as initial events.

    Since 1.37, the family of all lists includes those from the watch cache, which then must not count twice.
    """
    lists = {key.division: value for key, value in values.items() if key.figure is Figure.LISTED}
    from_cache = values.get(FigureKey(Figure.LISTED_FROM_CACHE))
    if not lists and from_cache is None:
        return None
    twice = "watchcache" in lists
    return int(
        sum(lists.values()) + (0.0 if twice else from_cache or 0.0) + values.get(FigureKey(Figure.INITIAL_EVENTS), 0.0)
    )


def _count(gauges: Mapping[FigureKey, float], figure: Figure) -> int | None:
    value = gauges.get(FigureKey(figure))
    return None if value is None else int(value)


def _resources(
    change: _PageChange, gauges: Mapping[FigureKey, float], before: Mapping[FigureKey, float]
) -> Mapping[str, ResourceFigures]:
    names = {key.resource for key in (*change.values, *change.histograms, *gauges)} - {""}
    return {
        name: ResourceFigures(
            received=int(change.values.get(FigureKey(Figure.RECEIVED, name), 0.0)),
            terminated=int(change.values.get(FigureKey(Figure.TERMINATED, name), 0.0)),
            parked=int(gauges.get(FigureKey(Figure.PARKED, name), 0.0)),
            dispatch={
                key.division: histogram
                for key, histogram in change.histograms.items()
                if key.resource == name and key.figure is Figure.DISPATCH
            },
            advanced=_advanced(before, gauges, FigureKey(Figure.CACHED_REVISION, name)),
        )
        for name in sorted(names)
    }


def _advanced(before: Mapping[FigureKey, float], after: Mapping[FigureKey, float], key: FigureKey) -> int | None:
    """Return by how many revisions a watch cache advanced; the gauge has the last digits of its revision only."""
    first, last = before.get(key), after.get(key)
    return None if first is None or last is None else int(last - first) % REVISION_MODULUS
