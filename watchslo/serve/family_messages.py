"""The messages of metric families in Prometheus' protobuf format, the only one that has native histograms.

A page is messages, each a `MetricFamily` after its length. The bytes of a message may be written in parts, because the
entries of lists add up. So the metrics of each owner are serialized alone, and no call takes long.

A histogram with native buckets has the classic ones as well; the scraper's configuration says which of them it takes.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import sub
from typing import Any

from prometheus_client.registry import Collector

from watchslo.serve.client_model import LabelPair, Metric, MetricFamily
from watchslo.serve.document import grouped
from watchslo.serve.family_lines import keys_and_values
from watchslo.serve.metrics import Family, MetricView
from watchslo.serve.metrics.views import Found, Value
from watchslo.snapshot import HistogramReading, Snapshot

MOST_LABELS = 4096  # sets of labels: those of owners, and those of values, are the same in many families
MOST_IN_BYTE = 0x7F  # of a length, which is written in groups of seven bits, the lowest first


class FamilyMessages:
    """Writes the message of one family, and keeps it until there are other owners, as `FamilyLines` does."""

    def __init__(self, family: Family, view: MetricView) -> None:
        self._name, self._help, self._type = family.name, family.help, family.type
        self._view = view
        self._labels = tuple(label.name for label in view.labels)
        self._owners: Sequence[object] | None = None
        self._pieces: tuple[bytes, ...] = ()

    def pieces(self, snapshot: Snapshot) -> tuple[bytes, ...]:
        """Return the message after its length, in pieces; none without values."""
        owners = self._view.owners(snapshot)
        if owners is not self._owners:
            self._pieces = tuple(_delimited(self._name, self._help, self._type, self._parts(owners)))
            self._owners = owners
        return self._pieces

    def _parts(self, owners: Sequence[Any]) -> Iterator[bytes]:
        for owner in owners:
            found = self._view.read(owner)
            if found is not None:
                yield self._part(self._view.name(owner), found)

    def _part(self, name: tuple[str, ...], found: Found) -> bytes:
        keys, values = keys_and_values(found)
        labelled, others = _labelled(self._labels[: len(name)], name), self._labels[len(name) :]
        part = MetricFamily()
        for key, value in zip(keys, values, strict=True):
            _add(part, self._type, labelled + _labelled(others, (key,) if isinstance(key, str) else key), value)
        serialized: bytes = part.SerializeToString()
        return serialized


class MessageEncoder:
    """Encodes families, and a collector of prometheus_client that has counters and gauges without owners."""

    def __init__(self, views: Iterable[tuple[Family, MetricView]], collector: Collector) -> None:
        self._families = [FamilyMessages(family, view) for family, view in views]
        self._collector = collector

    def encode(self, snapshot: Snapshot) -> Iterator[bytes]:
        for family in self._families:
            yield from family.pieces(snapshot)
        for metric in self._collector.collect():
            part = MetricFamily()
            for sample in metric.samples:
                _add(part, metric.type, _labelled(tuple(sample.labels), tuple(sample.labels.values())), sample.value)
            name = metric.samples[0].name  # that of a counter ends in _total
            yield from _delimited(name, metric.documentation, metric.type, (part.SerializeToString(),))


def _add(part: Any, kind: str, labelled: bytes, value: Value) -> None:
    """Add a metric to a part; it begins with its labels, which are serialized once."""
    metric = part.metric.add()
    metric.MergeFromString(labelled)
    if isinstance(value, HistogramReading):
        _fill(metric.histogram, value)
    else:
        getattr(metric, kind).value = value


def _fill(message: Any, reading: HistogramReading) -> None:
    """Write a histogram; the bucket without an end is not written: Prometheus takes the total for it."""
    message.sample_count, message.sample_sum = reading.total, reading.sum
    for edge, count in zip(reading.edges, reading.counts, strict=False):
        message.bucket.add(upper_bound=edge, cumulative_count=count)
    if native := reading.native:
        message.schema = native.schema
        message.zero_threshold = native.zero_threshold  # says that it is native, also without events
        message.zero_count = native.zero
        if native.counts:
            message.positive_span.add(offset=native.first, length=len(native.counts))
            message.positive_delta.extend(map(sub, native.counts, (0, *native.counts)))


@lru_cache(MOST_LABELS)
def _labelled(names: tuple[str, ...], values: tuple[str, ...]) -> bytes:
    """Return a metric that has labels, but no value."""
    pairs = [LabelPair(name=name, value=value) for name, value in zip(names, values, strict=True)]
    serialized: bytes = Metric(label=pairs).SerializeToString()
    return serialized


def _delimited(name: str, text: str, kind: str, parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the message of a family after its length, in pieces; nothing without metrics."""
    metrics = list(filter(None, parts))
    if metrics:
        head: bytes = MetricFamily(name=name, help=text, type=kind.upper()).SerializeToString()
        length = _varint(len(head) + sum(map(len, metrics)))
        yield from map(b"".join, grouped((length, head, *metrics)))


def _varint(number: int) -> bytes:
    """Return a number as protobuf writes it; the library has no public function for that."""
    digits = bytearray()
    while number > MOST_IN_BYTE:
        digits.append(number & MOST_IN_BYTE | MOST_IN_BYTE + 1)
        number >>= 7
    digits.append(number)
    return bytes(digits)
