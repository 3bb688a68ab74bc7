"""A snapshot as a collector of prometheus_client: its encoders then write what watchslo's own encoder must write."""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import Metric, Sample
from prometheus_client.registry import Collector

from watchslo.serve.metrics import FAMILIES, Detail, Family, MetricView
from watchslo.serve.metrics.views import Value
from watchslo.snapshot import HistogramReading, Snapshot

Point = tuple[tuple[str, ...], Value]
"""The values of the labels, in their order, and the value measured there."""


class SnapshotCollector(Collector):
    """The catalogue of metrics, read from one snapshot; families without a point are left out."""

    def __init__(self, snapshot: Snapshot, detail: Detail) -> None:
        self._snapshot = snapshot
        self._detail = detail

    def describe(self) -> Iterable[Metric]:
        """Return all families without samples, so that the registry can detect clashing names."""
        return map(_metric, FAMILIES)

    def collect(self) -> Iterator[Metric]:
        for family in FAMILIES:
            view = family.view(self._detail)
            metric = _metric(family)
            metric.samples = list(_samples(family, view, self._snapshot)) if view else []
            if metric.samples:
                yield metric


def points(view: MetricView, snapshot: Snapshot) -> Iterator[Point]:
    """Return all values of a view with the values of their labels."""
    for owner in view.owners(snapshot):
        name, found = view.name(owner), view.read(owner)
        if isinstance(found, Mapping):
            for key, value in found.items():
                yield (*name, *((key,) if isinstance(key, str) else key)), value
        elif found is not None:
            yield name, found


def _metric(family: Family) -> Metric:
    return Metric(family.name.removesuffix("_total"), family.help, family.type)


def _samples(family: Family, view: MetricView, snapshot: Snapshot) -> Iterator[Sample]:
    names = [label.name for label in view.labels]
    for values, value in points(view, snapshot):
        labels = dict(zip(names, values, strict=True))
        if isinstance(value, HistogramReading):
            yield from _histogram(family.name, labels, value)
        else:
            yield Sample(family.name, labels, value)


def _histogram(name: str, labels: dict[str, str], reading: HistogramReading) -> Iterator[Sample]:
    edges = (*(str(float(edge)) for edge in reading.edges), "+Inf")
    for edge, count in zip(edges, reading.counts, strict=True):
        yield Sample(f"{name}_bucket", {**labels, "le": edge}, count)
    yield Sample(f"{name}_count", labels, reading.total)
    yield Sample(f"{name}_sum", labels, reading.sum)
