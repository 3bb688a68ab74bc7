"""What the simulated apiserver counts of itself, and its page `/metrics` in Prometheus' text format.

The names and buckets are those of kube-apiserver. The dispatch of events is counted as in Kubernetes 1.37 and later.
"""

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate

_DISPATCH_EDGES = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_WAIT_EDGES = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0)
_ETCD_EDGES = (*_WAIT_EDGES, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0)

Labels = tuple[tuple[str, str], ...]


class _CountedHistogram:
    """The observations of one series."""

    def __init__(self, edges: Sequence[float]) -> None:
        self._edges = edges
        self._counts = [0] * (len(edges) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._edges, seconds)] += 1
        self._sum += seconds

    def lines(self, name: str, labels: Labels) -> Iterator[str]:
        *below, total = accumulate(self._counts)
        for edge, count in zip((*map(_number, self._edges), "+Inf"), (*below, total), strict=True):
            yield f"{name}_bucket{_text((*labels, ('le', edge)))} {count}"
        yield f"{name}_sum{_text(labels)} {self._sum!r}"
        yield f"{name}_count{_text(labels)} {total}"


class PublishedMetrics:
    """The counters of one process of the apiserver; a restart begins with new ones.

    `dispatches` says whether the version counts the dispatch of events.
    """

    def __init__(self, started_wall: float, *, dispatches: bool) -> None:
        self._started_wall = started_wall
        self._dispatches = dispatches
        self._counters: defaultdict[str, defaultdict[Labels, int]] = defaultdict(lambda: defaultdict(int))
        self._histograms: defaultdict[str, dict[Labels, _CountedHistogram]] = defaultdict(dict)

    def received(self, resource: str) -> None:
        """Count an event that reached the watch cache of a resource."""
        self._counters["apiserver_watch_cache_events_received_total"][_of(resource)] += 1

    def dispatched(self, resource: str, seconds: float) -> None:
        """Count an event that took so long from the watch cache to its watch."""
        if self._dispatches:
            name = "apiserver_watch_events_dispatch_duration_seconds"
            self._observe(name, (*_of(resource), ("stage", "total")), _DISPATCH_EDGES, seconds)

    def terminated(self, resource: str) -> None:
        """Count a watch that was closed because its client did not keep up."""
        self._counters["apiserver_terminated_watchers_total"][_of(resource)] += 1

    def listed(self, resource: str, objects: int, *, initial: bool = False) -> None:
        """Count the objects of a list, or of the initial events of a watch."""
        name = "apiserver_init_events_total" if initial else "apiserver_cache_list_returned_objects_total"
        self._counters[name][_of(resource)] += objects

    def fetched(self, resource: str, objects: int, *, cached: bool) -> None:
        """Count the objects that a list went through, in the watch cache or in etcd."""
        source = "cache" if cached else "storage"
        self._counters[f"apiserver_{source}_list_fetched_objects_total"][_of(resource)] += objects

    def waited(self, resource: str, seconds: float) -> None:
        """Count a read that waited so long until the watch cache was fresh."""
        self._observe("apiserver_watch_cache_read_wait_seconds", _of(resource), _WAIT_EDGES, seconds)

    def asked_etcd(self, resource: str, operation: str, seconds: float) -> None:
        """Count a request to etcd."""
        labels = (*_of(resource), ("operation", operation))
        self._observe("etcd_request_duration_seconds", labels, _ETCD_EDGES, seconds)

    def rejected(self) -> None:
        """Count a request that was refused with 429."""
        labels = (("flow_schema", "catch-all"), ("priority_level", "catch-all"), ("reason", "queue-full"))
        self._counters["apiserver_flowcontrol_rejected_requests_total"][labels] += 1

    def _observe(self, name: str, labels: Labels, edges: Sequence[float], seconds: float) -> None:
        series = self._histograms[name]
        if labels not in series:
            series[labels] = _CountedHistogram(edges)
        series[labels].observe(seconds)

    def page(self) -> str:
        """Return the page; the families are sorted, as kube-apiserver does it."""
        families = {
            "process_cpu_seconds_total": ("counter", [f"process_cpu_seconds_total {time.process_time():.2f}"]),
            "process_start_time_seconds": ("gauge", [f"process_start_time_seconds {self._started_wall!r}"]),
        }
        for name, counters in self._counters.items():
            families[name] = "counter", [f"{name}{_text(labels)} {count}" for labels, count in sorted(counters.items())]
        for name, series in self._histograms.items():
            lines = [line for labels, one in sorted(series.items()) for line in one.lines(name, labels)]
            families[name] = "histogram", lines
        return "".join(
            f"# HELP {name} [ALPHA] Simulated.\n# TYPE {name} {kind}\n" + "".join(f"{line}\n" for line in lines)
            for name, (kind, lines) in sorted(families.items())
        )


def _of(resource: str) -> Labels:
    plural, _, group = resource.partition(".")
    return ("group", group), ("resource", plural)


def _text(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels) + "}"


def _number(edge: float) -> str:
    return f"{edge:g}"
