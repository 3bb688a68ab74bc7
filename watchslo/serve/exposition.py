"""The metrics of a snapshot as bytes: Prometheus' text or OpenMetrics, plain or gzipped, as the scraper accepts."""

import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric, Sample
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder, generate_latest, gzip_accepted
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from watchslo.serve.metrics import FAMILIES, Detail, Family, MetricView
from watchslo.serve.rendering import Document
from watchslo.snapshot import HistogramReading, Snapshot

GZIP_LEVEL = 1  # series repeat their labels: higher levels compress little better

# Every format that is offered. prometheus_client would confirm any requested version and write the one it knows.
_ACCEPTS = (
    "",
    "application/openmetrics-text",
    *(
        f"{media_type};version=1.0.0;escaping={escaping}"
        for media_type in ("text/plain", "application/openmetrics-text")
        for escaping in ("allow-utf-8", "underscores")
    ),
)
# Our names need no escaping: both schemes write the same bytes, and this one is a quarter faster.
_openmetrics = partial(openmetrics.generate_latest, escaping=openmetrics.ALLOWUTF8)
_ENCODERS = {
    content_type: _openmetrics if content_type.startswith("application/openmetrics") else generate_latest
    for _, content_type in map(choose_encoder, _ACCEPTS)
}


@dataclass(frozen=True, slots=True)
class ExpositionFormat:
    """A format of the exposition."""

    content_type: str
    gzipped: bool


def negotiate(accept: str, accept_encoding: str) -> ExpositionFormat:
    """Return the format that suits both headers best; plain text if none does."""
    try:
        _, content_type = choose_encoder(accept)
    except TypeError:  # a version that is not a number
        content_type = CONTENT_TYPE_PLAIN_0_0_4
    known = content_type if content_type in _ENCODERS else CONTENT_TYPE_PLAIN_0_0_4
    return ExpositionFormat(known, gzip_accepted(accept_encoding))


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


class MetricsEncoder:
    """Encodes snapshots at the configured level of detail, together with the metrics of this process."""

    def __init__(self, detail: Detail) -> None:
        self._detail = detail

    def encode(self, snapshot: Snapshot, form: ExpositionFormat) -> Document:
        registry = CollectorRegistry()
        registry.register(SnapshotCollector(snapshot, self._detail))
        ProcessCollector(registry=registry)
        body = _ENCODERS[form.content_type](registry)
        headers = {"Vary": "Accept, Accept-Encoding"}
        if not form.gzipped:
            return Document(body, form.content_type, headers)
        zipped = gzip.compress(body, GZIP_LEVEL, mtime=0)
        return Document(zipped, form.content_type, headers | {"Content-Encoding": "gzip"})


def _metric(family: Family) -> Metric:
    return Metric(family.name.removesuffix("_total"), family.help, family.type)


def _samples(family: Family, view: MetricView, snapshot: Snapshot) -> Iterator[Sample]:
    names = [label.name for label in view.labels]
    for values, value in view.points(snapshot):
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
