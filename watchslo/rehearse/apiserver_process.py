"""The memory, the processor time and the counters of lists of an apiserver's process, from its `/metrics`.

Only the few lines that are needed are kept. A document of a large cluster has tens of megabytes.
"""

import re
from dataclasses import dataclass, replace
from typing import Self

from watchslo.kube.client import Client
from watchslo.model import Resource
from watchslo.own_metrics.line_filter import LineFilter
from watchslo.rehearse.list_source import ListCounts
from watchslo.watch.failure import Reason

MEMORY, CPU, STARTED = (
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
    "process_start_time_seconds",
)
FROM_CACHE, FROM_ETCD = "apiserver_cache_list_total", "apiserver_storage_list_total"
_NAMES = frozenset(name.encode() for name in (MEMORY, CPU, STARTED, FROM_CACHE, FROM_ETCD))
_SAMPLE = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>[^ ]+)(?: \d+)?")
_LABEL = re.compile(r'(\w+)="([^"]*)"')

NO_RIGHT = "this identity may not read /metrics; grant it the verb get on the non-resource URL /metrics"
NO_FIGURES = "its /metrics has no figures of its process"
NO_METRICS = "it serves no /metrics"
OTHER_PROCESS = "another apiserver behind the same address answered, or it was restarted"


_WHY = {Reason.FORBIDDEN: NO_RIGHT, Reason.NOT_FOUND: NO_METRICS}


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """A process at one moment: resident memory in bytes, CPU seconds, start in Unix seconds, lists of a resource."""

    memory: float
    cpu: float
    started: float
    lists: ListCounts


@dataclass(frozen=True, slots=True)
class ApiserverCost:
    """What the apiserver's process had before and after a rehearsal, in bytes, and the CPU seconds in between.

    `unknown` says why there are no figures. Requests of others are part of them.
    """

    memory_before: float = 0.0
    memory_after: float = 0.0
    cpu: float = 0.0
    unknown: str | None = None

    def without(self, reading: float) -> Self:
        """Return the cost without the CPU seconds of one read of the metrics."""
        return replace(self, cpu=max(0.0, self.cpu - reading))


async def read_process(client: Client, resource: Resource) -> ProcessReading | str:
    """Return the figures of the process that answers now, or why they are unknown."""
    kept = LineFilter(_NAMES)

    async def take(piece: bytes) -> None:
        kept.feed(piece)

    failure = await client.read_metrics(take)
    if failure is not None:
        return _WHY.get(failure.reason) or failure.message.rstrip(".")
    kept.finish()
    return parse_process([line.decode(errors="replace") for line in kept.lines], resource) or NO_FIGURES


def parse_process(lines: list[str], resource: Resource) -> ProcessReading | None:
    """Return the figures in lines of the text format, or None if one of those of the process is missing."""
    figures: dict[str, float] = {}
    lists = {FROM_CACHE: 0.0, FROM_ETCD: 0.0}
    for line in lines:
        sample = _SAMPLE.fullmatch(line.strip())
        value = _number(sample["value"]) if sample else None
        if sample is None or value is None:
            continue
        name = sample["name"]
        if name in lists and _is_of(resource, dict(_LABEL.findall(sample["labels"] or ""))):
            lists[name] += value
        elif name not in lists:
            figures[name] = value
    if not {MEMORY, CPU, STARTED} <= figures.keys():
        return None
    counts = ListCounts(int(lists[FROM_CACHE]), int(lists[FROM_ETCD]))
    return ProcessReading(figures[MEMORY], figures[CPU], figures[STARTED], counts)


def cost_between(before: ProcessReading | str, after: ProcessReading | str) -> ApiserverCost:
    """Return what a rehearsal cost the process, or why that is unknown."""
    for reading in (before, after):
        if isinstance(reading, str):
            return ApiserverCost(unknown=reading)
    assert isinstance(before, ProcessReading)
    assert isinstance(after, ProcessReading)
    if before.started != after.started:
        return ApiserverCost(unknown=OTHER_PROCESS)
    return ApiserverCost(before.memory, after.memory, max(0.0, after.cpu - before.cpu))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_of(resource: Resource, labels: dict[str, str]) -> bool:
    """Return True if a counter is of this resource: its labels differ by version.

    Newer versions have the labels `group` and `resource`; older ones have `resource_prefix`, the path in etcd, for the
    lists of the cache, and `resource` with the group for those of etcd.
    """
    if prefix := labels.get("resource_prefix"):
        return prefix in (f"/{resource.plural}", f"/{resource.group}/{resource.plural}")
    if "group" in labels:
        return (labels["group"], labels.get("resource")) == (resource.group, resource.plural)
    return labels.get("resource") == resource.key
