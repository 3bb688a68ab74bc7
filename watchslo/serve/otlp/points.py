"""The metrics of a snapshot in the data model of OpenTelemetry: the same names, labels and values as at `/metrics`.

Labels become attributes. Counters and histograms are cumulative since the start of the daemon, as in Prometheus.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import sub
from typing import Any

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Buckets,
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.registry import Collector

from watchslo.serve.family_lines import keys_and_values
from watchslo.serve.metrics import Family, MetricView
from watchslo.serve.metrics.views import Value
from watchslo.snapshot import HistogramReading, NativeBuckets, Snapshot

NANOSECONDS = 1e9
UNITS = {"seconds": "s", "bytes": "By", "ratio": "1"}
"""By the last word of a name. A receiver that writes units into names, such as Prometheus, leaves these names alone."""
NO_BUCKETS = Buckets(0, ())
UNKNOWN: Any = None  # the exporter leaves an extreme out, although its type says that there is always one
Attributes = Mapping[str, str]
Points = Sequence[tuple[Attributes, Value]]


class PointReader:
    """Reads the data points of snapshots: those of families, and of a collector that has counters and gauges.

    `port` distinguishes instances on one machine. With `exponential`, native histograms have their fine buckets.
    """

    def __init__(
        self, views: Iterable[tuple[Family, MetricView]], collector: Collector, port: int, *, exponential: bool
    ) -> None:
        self._views = [*views]
        self._collector = collector
        self._port = port
        self._exponential = exponential

    def read(self, snapshot: Snapshot, now_wall: float) -> MetricsData:
        """Return all data points of a snapshot.

        Their time is `now_wall`, as a scrape has its own: two pushes of one evaluation must differ.
        """
        maker = _MetricMaker(snapshot.monitor.started_wall, now_wall, exponential=self._exponential)
        scope = InstrumentationScope("watchslo", snapshot.monitor.build.version)
        metrics = [*self._metrics(snapshot, maker), *self._own_metrics(maker)]
        monitor = snapshot.monitor
        resource = _resource(monitor.build.version, f"{monitor.instance.host}:{self._port}", monitor.instance.cluster)
        return MetricsData([ResourceMetrics(resource, [ScopeMetrics(scope, metrics, "")], "")])

    def _metrics(self, snapshot: Snapshot, maker: "_MetricMaker") -> Iterator[Metric]:
        for family, view in self._views:
            if points := [*_points(view, snapshot)]:
                yield maker.metric(family.name, family.help, family.type, points)

    def _own_metrics(self, maker: "_MetricMaker") -> Iterator[Metric]:
        for metric in self._collector.collect():
            points = [(sample.labels, sample.value) for sample in metric.samples]
            yield maker.metric(metric.samples[0].name, metric.documentation, metric.type, points)


class _MetricMaker:
    """Makes metrics of values that were counted from one time to another, both in Unix seconds."""

    def __init__(self, start: float, end: float, *, exponential: bool) -> None:
        self._start, self._time = round(start * NANOSECONDS), round(end * NANOSECONDS)
        self._exponential = exponential

    def metric(self, name: str, text: str, kind: str, points: Points) -> Metric:
        unit = UNITS.get(name.removesuffix("_total").rpartition("_")[2], "")
        return Metric(name, text, unit, self._data(kind, points))

    def _data(self, kind: str, points: Points) -> Sum | Gauge | Histogram | ExponentialHistogram:
        readings = [(labels, value) for labels, value in points if isinstance(value, HistogramReading)]
        native = [(labels, reading, reading.native) for labels, reading in readings if reading.native]
        if native and self._exponential:
            return ExponentialHistogram([self._fine(*point) for point in native], AggregationTemporality.CUMULATIVE)
        if readings:
            return Histogram([self._coarse(*point) for point in readings], AggregationTemporality.CUMULATIVE)
        numbers = [
            NumberDataPoint(labels, self._start, self._time, float(value))
            for labels, value in points
            if not isinstance(value, HistogramReading)
        ]
        if kind == "counter":
            return Sum(numbers, AggregationTemporality.CUMULATIVE, is_monotonic=True)
        return Gauge(numbers)

    def _coarse(self, labels: Attributes, reading: HistogramReading) -> HistogramDataPoint:
        counts = [*map(sub, reading.counts, (0, *reading.counts))]
        return HistogramDataPoint(
            labels, self._start, self._time, reading.total, reading.sum, counts, reading.edges, min=UNKNOWN, max=UNKNOWN
        )

    def _fine(
        self, labels: Attributes, reading: HistogramReading, native: NativeBuckets
    ) -> ExponentialHistogramDataPoint:
        """Bucket n of OTLP begins where bucket n of Prometheus ends."""
        positive = Buckets(native.first - 1, native.counts)
        return ExponentialHistogramDataPoint(
            labels,
            self._start,
            self._time,
            reading.total,
            reading.sum,
            native.schema,
            native.zero,
            positive,
            NO_BUCKETS,
            flags=0,
            min=UNKNOWN,
            max=UNKNOWN,
        )


def _points(view: MetricView, snapshot: Snapshot) -> Iterator[tuple[Attributes, Value]]:
    """Return the values of a view with their labels."""
    labels = [label.name for label in view.labels]
    for owner in view.owners(snapshot):
        found = view.read(owner)
        if found is None:
            continue
        name = view.name(owner)
        for key, value in zip(*keys_and_values(found), strict=True):
            yield dict(zip(labels, (*name, *((key,) if isinstance(key, str) else key)), strict=True)), value


@lru_cache(1)
def _resource(version: str, instance: str, cluster: str | None) -> Resource:
    """Return the attributes of all points; those of the variables of OpenTelemetry win."""
    own = {"service.name": "watchslo", "service.version": version, "service.instance.id": instance}
    named = {"k8s.cluster.name": cluster} if cluster else {}
    return Resource.create({**own, **named, **OTELResourceDetector().detect().attributes})
