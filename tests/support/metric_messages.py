"""Decodes Prometheus' protobuf format."""

from collections.abc import Iterator
from typing import Any

from watchslo.serve.client_model import MetricFamily

ACCEPT = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,"
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;"
    "version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)
"""What Prometheus 3 sends if it takes native histograms."""

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def messages(body: bytes) -> Iterator[Any]:
    """Decode the messages of a page, each after its length."""
    at = 0
    while at < len(body):
        length = shift = 0
        while body[at] > 127:
            length, at, shift = length | (body[at] & 127) << shift, at + 1, shift + 7
        length, at = length | body[at] << shift, at + 1
        yield MetricFamily.FromString(body[at : at + length])
        at += length


def type_of(message: Any) -> str:
    """Return the type of a family as text formats write it."""
    (name,) = [
        one.name for one in message.DESCRIPTOR.fields_by_name["type"].enum_type.values if one.number == message.type
    ]
    return str(name).lower()


def samples_of(message: Any) -> Samples:
    """Return the samples that Prometheus takes from a message if it takes no native histograms."""
    found: Samples = {}
    for metric in message.metric:
        own = frozenset((pair.name, pair.value) for pair in metric.label)
        if metric.HasField("histogram"):
            one = metric.histogram
            ends = {str(bucket.upper_bound): bucket.cumulative_count for bucket in one.bucket} | {
                "+Inf": one.sample_count
            }
            found |= {(f"{message.name}_bucket", own | {("le", end)}): count for end, count in ends.items()}
            found |= {(f"{message.name}_count", own): one.sample_count, (f"{message.name}_sum", own): one.sample_sum}
        else:
            found[message.name, own] = getattr(metric, type_of(message)).value
    return found
