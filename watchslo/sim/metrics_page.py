"""The page of metrics of the simulated apiserver: how far its watch caches and its informers have come.

kube-apiserver exports both from 1.37 on; its own informers watch the resources that it needs itself.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from watchslo.sim.kinds import ResourceKind

_MODULUS = 10**15  # the gauge of an informer has the last 15 digits


@dataclass(frozen=True, slots=True)
class CachedRevisions:
    """The revisions that the watch cache and the informer of a resource have reached."""

    kind: ResourceKind
    cache: int
    informer: int


def metrics_page(started: float, resources: Iterable[CachedRevisions]) -> str:
    """Return the page of a process that started at this Unix time, in the text format of Prometheus."""
    lines = (line for of in resources for line in _lines(of))
    return "".join([f"process_start_time_seconds {started:.2f}\n", *lines])


def _lines(of: CachedRevisions) -> Iterable[str]:
    resource = f'group="{of.kind.group}",resource="{of.kind.plural}"'
    informer = f'group="{of.kind.group}",name="simulated",resource="{of.kind.plural}",version="v1"'
    yield f"apiserver_watch_cache_resource_version{{{resource}}} {of.cache}\n"
    yield f"informer_queued_items{{{informer}}} 0\n"
    yield f"informer_store_resource_version{{{informer}}} {of.informer % _MODULUS}\n"
