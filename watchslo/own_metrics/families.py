"""The metric families of kube-apiserver that are kept, and the figures that they become. Pure.

docs/howto/apiserver-metrics.md has the same table, with the versions of Kubernetes that serve each family.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Figure(StrEnum):
    """What is read from a page."""

    STARTED = "started"
    CPU = "cpu"
    INFLIGHT = "inflight"
    QUEUED = "queued"
    REJECTED = "rejected"
    INITIAL_EVENTS = "initial_events"
    LISTED = "listed"
    LISTED_FROM_CACHE = "listed_from_cache"
    RECEIVED = "received"
    TERMINATED = "terminated"
    CACHED_REVISION = "cached_revision"
    PARKED = "parked"
    ETCD = "etcd"
    READ_WAIT = "read_wait"
    DISPATCH = "dispatch"
    CONVERSION = "conversion"
    ADMISSION = "admission"


GAUGES = frozenset({Figure.STARTED, Figure.INFLIGHT, Figure.QUEUED, Figure.PARKED, Figure.CACHED_REVISION})
"""Figures that may fall; all others only rise as long as the process runs."""


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A family: its `figure`, and which of its series count.

    Series are summed, except that they are kept apart by resource if `by_resource`, and by the value of the label
    `divided_by`. With `only`, a series counts if each of these labels has one of the values, or is absent.
    """

    figure: Figure
    by_resource: bool = False
    divided_by: bytes | None = None
    only: Mapping[bytes, frozenset[bytes]] = field(default_factory=dict)
    histogram: bool = False


SINGLE_OBJECT_OPERATIONS = frozenset({b"get", b"create", b"update", b"delete"})
"""Operations of etcd that take as long in a large cluster as in a small one, unlike lists."""

FAMILIES: Mapping[bytes, MetricFamily] = {
    b"process_start_time_seconds": MetricFamily(Figure.STARTED),
    b"process_cpu_seconds_total": MetricFamily(Figure.CPU),
    b"apiserver_current_inflight_requests": MetricFamily(Figure.INFLIGHT),
    b"apiserver_flowcontrol_current_inqueue_requests": MetricFamily(Figure.QUEUED),
    b"apiserver_flowcontrol_rejected_requests_total": MetricFamily(Figure.REJECTED),
    b"apiserver_init_events_total": MetricFamily(Figure.INITIAL_EVENTS),
    b"apiserver_storage_list_returned_objects_total": MetricFamily(Figure.LISTED, divided_by=b"storage"),
    b"apiserver_cache_list_returned_objects_total": MetricFamily(Figure.LISTED_FROM_CACHE),
    b"apiserver_watch_cache_events_received_total": MetricFamily(Figure.RECEIVED, by_resource=True),
    b"apiserver_watch_cache_resource_version": MetricFamily(Figure.CACHED_REVISION, by_resource=True),
    b"apiserver_terminated_watchers_total": MetricFamily(Figure.TERMINATED, by_resource=True),
    b"apiserver_watch_cache_stalled_watchers": MetricFamily(Figure.PARKED, by_resource=True),
    b"etcd_request_duration_seconds": MetricFamily(
        Figure.ETCD, only={b"operation": SINGLE_OBJECT_OPERATIONS}, histogram=True
    ),
    b"apiserver_watch_cache_read_wait_seconds": MetricFamily(Figure.READ_WAIT, histogram=True),
    b"apiserver_watch_events_dispatch_duration_seconds": MetricFamily(
        Figure.DISPATCH, by_resource=True, divided_by=b"stage", histogram=True
    ),
    b"apiserver_crd_conversion_webhook_duration_seconds": MetricFamily(Figure.CONVERSION, histogram=True),
    b"apiserver_admission_webhook_admission_duration_seconds": MetricFamily(
        Figure.ADMISSION, only={b"type": frozenset({b"validating"})}, histogram=True
    ),
}


class SeriesPart(StrEnum):
    """What a line of a family is: a value, or one of the lines of a histogram that are read."""

    VALUE = "value"
    BUCKET = "bucket"
    SUM = "sum"


def _lines() -> dict[bytes, tuple[MetricFamily, SeriesPart]]:
    found: dict[bytes, tuple[MetricFamily, SeriesPart]] = {}
    for name, family in FAMILIES.items():
        if family.histogram:
            found[name + b"_bucket"] = family, SeriesPart.BUCKET
            found[name + b"_sum"] = family, SeriesPart.SUM
        else:
            found[name] = family, SeriesPart.VALUE
    return found


LINES: Mapping[bytes, tuple[MetricFamily, SeriesPart]] = _lines()
"""The families by the name at the beginning of a line; the count of a histogram is its last bucket."""
