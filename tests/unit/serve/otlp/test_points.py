"""Data points of OpenTelemetry: what they say is what `/metrics` says, and every histogram has its events once."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from prometheus_client import ProcessCollector
from prometheus_client.core import Sample
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.serve import readings
from watchslo.model import InstanceName
from watchslo.serve.exposition import MetricsEncoder, negotiate
from watchslo.serve.metrics import FAMILIES, Detail, exposed
from watchslo.serve.otlp import points
from watchslo.serve.otlp.points import PointReader
from watchslo.snapshot import Snapshot

TEXT = negotiate("", "")
NOW = 2000.25
TIMESPAN = "watchslo_apiserver_timespan_seconds"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def pushed(snapshot: Snapshot, detail: Detail = Detail.FULL, *, exponential: bool = False) -> Any:
    """Return the only `ResourceMetrics` of what is sent."""
    reader = PointReader(exposed(detail), ProcessCollector(registry=None), 9477, exponential=exponential)
    (found,) = encode_metrics(reader.read(snapshot, NOW)).resource_metrics
    return found


def metrics(snapshot: Snapshot, detail: Detail = Detail.FULL, *, exponential: bool = False) -> dict[str, Metric]:
    (scope,) = pushed(snapshot, detail, exponential=exponential).scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def data(metric: Metric) -> Any:
    return getattr(metric, metric.WhichOneof("data") or "")


def labels(point: Any) -> frozenset[tuple[str, str]]:
    return frozenset((pair.key, pair.value.string_value) for pair in point.attributes)


def samples(metric: Metric) -> Iterator[tuple[tuple[str, frozenset[tuple[str, str]]], float]]:
    """Return a metric as Prometheus would write it."""
    for point in data(metric).data_points:
        own = labels(point)
        if metric.HasField("histogram"):
            ends = [*map(str, point.explicit_bounds), "+Inf"]
            for end, count in zip(ends, accumulate(point.bucket_counts), strict=True):
                yield (f"{metric.name}_bucket", own | {("le", end)}), count
            yield (f"{metric.name}_count", own), point.count
            yield (f"{metric.name}_sum", own), point.sum
        else:
            yield (metric.name, own), point.as_double


def text_samples(snapshot: Snapshot, detail: Detail) -> Iterable[Sample]:
    text = MetricsEncoder(detail).encode(snapshot, TEXT).body.decode()
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def without_process(found: Samples) -> Samples:
    """Leave out the metrics of this process, which are read again each time."""
    return {key: value for key, value in found.items() if not key[0].startswith("process_")}


@pytest.mark.parametrize("detail", Detail)
@pytest.mark.parametrize("snapshot", [readings.EMPTY, readings.SNAPSHOT], ids=["empty", "some"])
def test_points_say_what_the_text_says(snapshot: Snapshot, detail: Detail) -> None:
    expected = {(one.name, frozenset(one.labels.items())): one.value for one in text_samples(snapshot, detail)}
    found = dict(pair for metric in metrics(snapshot, detail).values() for pair in samples(metric))
    assert {key[0] for key in found} == {key[0] for key in expected}
    assert without_process(found) == without_process(expected)


def test_counters_are_monotonic_sums_since_the_start_and_gauges_are_gauges() -> None:
    monitor = replace(readings.SNAPSHOT.monitor, started_wall=1000.5)
    found = metrics(replace(readings.SNAPSHOT, monitor=monitor))
    types = {family.name: family.type.value for family in FAMILIES}
    kinds = {"sum": "counter", "gauge": "gauge", "histogram": "histogram"}
    assert {name: kinds[metric.WhichOneof("data") or ""] for name, metric in found.items() if name in types} == {
        name: kind for name, kind in types.items() if name in found
    }
    counter = found["watchslo_slo_events_total"].sum
    assert counter.is_monotonic
    assert counter.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    assert {point.start_time_unix_nano for point in counter.data_points} == {1_000_500_000_000}
    assert {point.time_unix_nano for point in counter.data_points} == {2_000_250_000_000}


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        (TIMESPAN, "s"),
        ("watchslo_tainted_seconds_total", "s"),
        ("watchslo_slo_target_ratio", "1"),
        ("watchslo_slo_events_total", ""),
        ("process_resident_memory_bytes", "By"),
    ],
)
def test_unit_is_that_of_the_name(name: str, unit: str) -> None:
    assert metrics(readings.SNAPSHOT)[name].unit == unit


class TestExponential:
    def test_buckets_are_those_of_native_histograms(self) -> None:
        """Bucket n of Prometheus ends at 2^(n/8), and bucket n of OTLP begins there."""
        native = readings.NATIVE
        point = next(iter(metrics(readings.SNAPSHOT, exponential=True)[TIMESPAN].exponential_histogram.data_points))
        assert (point.scale, point.zero_count) == (native.schema, native.zero)
        assert (point.positive.offset, tuple(point.positive.bucket_counts)) == (native.first - 1, native.counts)
        assert not point.negative.bucket_counts
        assert not point.HasField("max")

    def test_every_native_histogram_is_exponential_and_no_other(self) -> None:
        found = metrics(readings.SNAPSHOT, exponential=True)
        exponential = {name for name, metric in found.items() if metric.HasField("exponential_histogram")}
        assert exponential == {family.name for family in FAMILIES if family.native and family.name in found}
        assert any(metric.HasField("histogram") for metric in found.values())

    def test_events_are_counted_once(self) -> None:
        for point in metrics(readings.SNAPSHOT, exponential=True)[TIMESPAN].exponential_histogram.data_points:
            assert point.count == point.zero_count + sum(point.positive.bucket_counts)


class TestResource:
    @pytest.fixture(autouse=True)
    def _fresh(self) -> None:
        points._resource.cache_clear()

    def attributes(self) -> dict[str, str]:
        name = InstanceName(cluster="prod", host="pod-1")
        snapshot = replace(readings.EMPTY, monitor=replace(readings.EMPTY.monitor, instance=name))
        return dict(labels(pushed(snapshot).resource))

    def test_instance_and_cluster_are_named(self) -> None:
        assert self.attributes().items() >= {
            ("service.name", "watchslo"),
            ("service.version", readings.BUILD.version),
            ("service.instance.id", "pod-1:9477"),
            ("k8s.cluster.name", "prod"),
        }

    def test_variables_of_opentelemetry_win(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=other,deployment.environment.name=test")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "slo")
        assert self.attributes().items() >= {
            ("service.name", "slo"),
            ("k8s.cluster.name", "other"),
            ("deployment.environment.name", "test"),
            ("service.instance.id", "pod-1:9477"),
        }
