"""The headroom of a rehearsed resource: how long an informer may be disconnected before it has to start again."""

import math
from dataclasses import dataclass

import numpy as np

from watchslo.clock.revision import RevisionClock
from watchslo.clock.storage_kind import MOST_COUNTED
from watchslo.kube.client import Client
from watchslo.model import Interval, Reading, Resource
from watchslo.monitor.apiservers.oldest_revision import Found, find_oldest

ANY_NAMESPACE = "default"  # one cache holds all namespaces


@dataclass(frozen=True, slots=True)
class Headroom:
    """How far back a watch of a resource may begin: `oldest` is `revisions` behind the newest one, None if not counted.

    `seconds` is how long ago `oldest` was committed, as proven by the reads between rehearsals: without an upper bound
    if that was before them. No rate of changes says more, because it differs from what it was before. `complete` says
    that nothing was dropped during the rehearsals: a client may be disconnected for longer than this.
    """

    oldest: int
    revisions: int | None
    seconds: Interval
    complete: bool

    @property
    def about(self) -> float | None:
        """The middle of `seconds`; None without an upper bound."""
        return (self.seconds.lower + self.seconds.upper) / 2 if math.isfinite(self.seconds.upper) else None


class RehearsalRecord:
    """Measures the headroom of one resource: the oldest revision before the rehearsals and after them."""

    def __init__(self, client: Client, resource: Resource, namespace: str | None) -> None:
        self._client = client
        self._resource = resource
        self._namespace = namespace or ANY_NAMESPACE
        self._clock = RevisionClock()
        self._readings: list[Reading] = []
        self._begun: Found | None = None

    async def begin(self) -> None:
        await self.note()
        self._begun = await self._find()

    async def note(self) -> None:
        """Read and keep the current revision."""
        reading = await self._client.read_nothing(self._resource, self._namespace, "tick")
        if isinstance(reading, Reading):
            self._readings.append(reading)
            self._clock.tick(reading)

    async def end(self) -> Headroom | None:
        """Return the headroom; None if it is unknown, or the resource is not cached and etcd's compaction decides."""
        await self.note()
        found = await self._find()
        if found is None:
            return None
        bounds = self._clock.measure(np.array([found.oldest]), np.array([found.at]))
        proven = Interval(float(bounds.lower[0]), float(bounds.upper[0]))
        unmoved = self._begun is not None and self._begun.oldest == found.oldest
        revisions = found.revisions if found.oldest <= MOST_COUNTED else None
        return Headroom(found.oldest, revisions, proven, found.complete or unmoved)

    async def _find(self) -> Found | None:
        if not self._resource.usually_cached or not self._readings:
            return None
        found = await find_oldest(
            self._client, self._resource, self._namespace, lambda: self._readings[-1].revision, _at_once
        )
        return found if isinstance(found, Found) else None


async def _at_once() -> None:
    """Do not wait: a rehearsal has no budget, as informers have none."""
