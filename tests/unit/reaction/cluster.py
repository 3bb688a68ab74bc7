"""Events of whole objects as an apiserver sends them, and a clock that dates each of them exactly."""

import itertools
import json
from typing import Any

import msgspec
import numpy as np

from watchslo.latency.own_delay import OwnDelays
from watchslo.model import Bounds, FloatArray, IntArray, Resource
from watchslo.reaction.objects import REACTING
from watchslo.reaction.resource_reactions import CacheProof, ResourceReactions
from watchslo.snapshot import ReactionReading
from watchslo.watch.decode import decode

DEPLOYMENTS = Resource("apps", "v1", "deployments", namespaced=True)
WIDGETS = Resource("example.io", "v1", "widgets", namespaced=True)
PODS = Resource("", "v1", "pods", namespaced=True)
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", namespaced=True)
THRESHOLD = 1.0


def ignore(uid: str, sighted: object) -> None:
    """Take a pod that has become ready."""


class Cluster:
    """Sends events of one resource at times that the test sets; each is committed `latency` before it arrives.

    Of the commits it is known that they were `spread` seconds earlier or later at most.
    """

    def __init__(self, resource: Resource, reactions: ResourceReactions | None = None) -> None:
        self.own_delays = OwnDelays()
        self.reactions = reactions or ResourceReactions(resource, THRESHOLD, self.own_delays, ignore)
        self.now = 100.0
        self.latency = 0.0
        self.spread = 0.0
        self.revisions = itertools.count(1)
        self.commits: dict[int, float] = {}
        self.newest = 0

    def send(
        self, type_: str, *, after: float = 0.0, tainted: bool = False, initial: bool = False, **fields: Any
    ) -> None:
        """Send an event of an object `after` so many seconds; `fields` are its metadata, and its spec and status."""
        self.now += after
        self.newest = next(self.revisions)
        self.commits[self.newest] = self.now - self.latency
        parts = {name: fields.pop(name) for name in ("spec", "status", "endpoints") if name in fields}
        metadata = {"uid": "a", "resourceVersion": str(self.newest), **fields}
        self.send_line({"type": type_, "object": {"metadata": metadata, **parts}}, tainted=tainted, initial=initial)

    def send_line(self, *lines: Any, tainted: bool = False, initial: bool = False) -> None:
        frames = decode(b"".join(json.dumps(line).encode() + b"\n" for line in lines), REACTING)
        self.reactions.take(frames, self.now, is_tainted=tainted, is_initial=initial)

    def measure(self, revisions: IntArray, received: FloatArray) -> Bounds:
        """Return how late events were, by the commits that the test knows."""
        latencies = received - np.array([self.commits[revision] for revision in revisions.tolist()])
        ends = np.maximum(0.0, latencies - self.spread), latencies + self.spread
        return Bounds(*ends, *ends, np.full(len(revisions), fill_value=True))

    def settle(self, *, after: float = 0.0) -> None:
        self.now += after
        self.reactions.settle(self.now, self.newest, self.measure)

    def reading(self, step: str | None = None, *, is_current: bool = True) -> ReactionReading:
        """Return the reading of a step, by default the only one; audits prove that the cache is complete."""
        proof = CacheProof(self.now, self.newest) if is_current else None
        return self.proven(proof, step)

    def proven(
        self, proof: CacheProof | None, step: str | None = None, threshold: float | None = 5.0
    ) -> ReactionReading:
        """Return the reading of a step, by default the only one, with this proof and threshold."""
        found = [*self.reactions.readings(self.now, lambda _: threshold, proof)]
        return next(reading for reading in found if step in (None, reading.step))

    def took(self, step: str | None = None) -> list[float]:
        """Return the sum of the reactions of a step, in seconds, and their number."""
        self.settle()
        histogram = self.reading(step).histogram
        return [round(histogram.sum, 3), histogram.total]

    def unmeasured(self, step: str | None = None) -> dict[str, int]:
        self.settle()
        return dict(self.reading(step).unmeasured)


def raw(value: Any) -> msgspec.Raw:
    """Return an encoded part of an object."""
    return msgspec.Raw(json.dumps(value).encode())
