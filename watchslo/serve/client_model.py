"""The messages of Prometheus' protobuf format: the part of its schema, `client_model`, that our metrics need.

No Python package has them. The numbers and types are those of `io/prometheus/client/metrics.proto`, whose fields are
all optional: 0 is not the same as absent.
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_PACKAGE = "io.prometheus.client"
_METRIC_TYPES = ("COUNTER", "GAUGE", "SUMMARY", "UNTYPED", "HISTOGRAM")  # by their numbers, from 0
_SCALARS = {"string", "double", "uint32", "uint64", "sint32", "sint64"}

# The fields of each message by number, as a .proto file declares them.
_MESSAGES: Mapping[str, Mapping[int, str]] = {
    "LabelPair": {1: "string name", 2: "string value"},
    "Gauge": {1: "double value"},
    "Counter": {1: "double value"},
    "Bucket": {1: "uint64 cumulative_count", 2: "double upper_bound"},
    "BucketSpan": {1: "sint32 offset", 2: "uint32 length"},
    "Histogram": {
        1: "uint64 sample_count",
        2: "double sample_sum",
        3: "repeated Bucket bucket",
        5: "sint32 schema",
        6: "double zero_threshold",
        7: "uint64 zero_count",
        12: "repeated BucketSpan positive_span",
        13: "repeated sint64 positive_delta",
    },
    "Metric": {1: "repeated LabelPair label", 2: "Gauge gauge", 3: "Counter counter", 7: "Histogram histogram"},
    "MetricFamily": {1: "string name", 2: "string help", 3: "MetricType type", 4: "repeated Metric metric"},
}


def _pool() -> DescriptorPool:
    """Return a pool of our own: another library may have the whole schema in the common one."""
    file = FileDescriptorProto(name="metrics.proto", package=_PACKAGE, syntax="proto2")
    metric_type = file.enum_type.add(name="MetricType")
    for number, name in enumerate(_METRIC_TYPES):
        metric_type.value.add(name=name, number=number)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, declaration in fields.items():
            _declare(message, number, declaration)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def _declare(message: DescriptorProto, number: int, declaration: str) -> None:
    *repeated, kind, name = declaration.split()
    field = message.field.add(name=name, number=number)
    field.label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
    if kind in _SCALARS:
        field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
    else:
        field.type_name = f".{_PACKAGE}.{kind}"
    if repeated and kind in _SCALARS:
        field.options.packed = True  # else there is a key before each number; parsers accept both


_POOL = _pool()


def _message(name: str) -> Any:
    return GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


MetricFamily, Metric, LabelPair = map(_message, ("MetricFamily", "Metric", "LabelPair"))
"""The classes of these messages, whose fields no type checker knows."""
