"""Values that all parts of watchslo share: resources, readings, and bounds of latencies."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

SERVICE = "service"
"""The name of the apiserver at the address of the credentials; other apiservers are named by host:port."""

Source = tuple[str, str]
"""Where a revision was read: the apiserver's name, and the key of the resource."""

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]


_BUILT_IN_GROUPS = frozenset(
    f"{name}.k8s.io"
    for name in (
        "admissionregistration",
        "apiextensions",
        "apiregistration",
        "authentication",
        "authorization",
        "certificates",
        "coordination",
        "discovery",
        "events",
        "flowcontrol.apiserver",
        "internal.apiserver",
        "networking",
        "node",
        "rbac.authorization",
        "resource",
        "scheduling",
        "storage",
        "storagemigration",
    )
)


def apiserver_text(name: str, *, is_first: bool = False) -> str:
    """Return the words for an apiserver in a sentence: its host:port, or `the apiserver` for `SERVICE`.

    `is_first` says that the sentence begins with them.
    """
    article = "The" if is_first else "the"
    return f"{article} apiserver" if name == SERVICE else name


def shared_port(names: Iterable[str]) -> str:
    """Return the port that all these apiservers share, as `:6443`; it is empty if they differ. `SERVICE` has none."""
    ports = {name[name.rfind(":") :] for name in names if name != SERVICE}
    return ports.pop() if len(ports) == 1 else ""


def resource_key(plural: str, group: str) -> str:
    """Return the name of a resource that kubectl accepts; the core group is empty."""
    return f"{plural}.{group}" if group else plural


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """A resource as discovery names it, e.g. `Resource("apps", "v1", "deployments", namespaced=True)`."""

    group: str
    version: str
    plural: str
    namespaced: bool

    @property
    def key(self) -> str:
        """The name that kubectl accepts: `pods`, `deployments.apps`."""
        return resource_key(self.plural, self.group)

    @property
    def usually_cached(self) -> bool:
        """Return True if apiservers have a watch cache of the resource by default: they have one of all except events.

        `WatchCaches` knows what an apiserver really has.
        """
        return self.plural != "events" or self.group not in ("", "events.k8s.io")

    @property
    def custom(self) -> bool:
        """Return True if a CRD or an aggregated API defines the resource."""
        return "." in self.group and self.group not in _BUILT_IN_GROUPS

    def path(self, namespace: str | None = None) -> str:
        """Return the URL path of the collection, in one namespace or in the whole cluster."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return f"{root}{scope}/{self.plural}"


def shard_name(index: int, count: int) -> str:
    """Return how readers see a shard: they count from 1, the configuration counts from 0."""
    return f"shard {index + 1} of {count}"


@dataclass(frozen=True, slots=True)
class InstanceName:
    """What tells readers which instance this is.

    `cluster` is the configured name of the cluster or its default, `host` the pod or the machine. `part` is what this
    instance measures if others measure the rest; `node` is set if that is one node. `view` is the URL of the page of
    all instances.
    """

    cluster: str | None = None
    part: str | None = None
    node: str | None = None
    host: str = ""
    view: str | None = None

    @property
    def title(self) -> str:
        """The title of pages: `watchslo: prod, shard 1 of 3`."""
        named = ", ".join(filter(None, (self.cluster, self.part)))
        return f"watchslo: {named}" if named else "watchslo"


UNNAMED = InstanceName()


@dataclass(frozen=True, slots=True)
class Interval:
    """A quantity known to lie in [lower, upper]; `upper` may be infinite."""

    lower: float
    upper: float

    @property
    def width(self) -> float:
        return self.upper - self.lower

    def widened(self, by: float) -> "Interval":
        """Return the interval with both ends moved outward by so much."""
        return Interval(self.lower - by, self.upper + by)

    def intersection(self, other: "Interval") -> "Interval":
        """Return what lies in both; its width is negative if nothing does."""
        return Interval(max(self.lower, other.lower), min(self.upper, other.upper))


@dataclass(frozen=True, slots=True)
class Reading:
    """One read that returned only a revision, by the apiserver of this name.

    `sent` and `answered` are monotonic seconds: just before the request was written, and when its answer was read.
    For a consistent read, every revision up to `revision` was committed before `answered`, every later one after
    `sent`. For a read from a watch cache, the same holds for the arrival of revisions in that cache. A tick that does
    not cut was sent because of what was observed, so it narrows proven intervals only.
    """

    resource: str
    sent: float
    answered: float
    revision: int
    apiserver: str = SERVICE
    cuts: bool = True

    @property
    def source(self) -> Source:
        return self.apiserver, self.resource

    @property
    def round_trip(self) -> float:
        return self.answered - self.sent


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """The latencies of n events in seconds, as arrays of length n.

    `[lower, upper]` is the interval that ticks and other reads cut: its ends do not depend on any latency, so the
    distribution is estimated from it. `[proven, proven_upper]` lies within it and uses all evidence: it is for bounds
    and verdicts. Upper ends are infinite if no tick is old enough. If `measurable` is False, nothing is known and the
    ends have no meaning.
    """

    lower: FloatArray
    upper: FloatArray
    proven: FloatArray
    proven_upper: FloatArray
    measurable: BoolArray

    def at(self, chosen: IntArray | BoolArray) -> "Bounds":
        """Return the bounds of some events, chosen by indexes or by a mask."""
        proven = self.proven[chosen], self.proven_upper[chosen]
        return Bounds(self.lower[chosen], self.upper[chosen], *proven, self.measurable[chosen])

    def less(self, delay: FloatArray) -> "Bounds":
        """Return the bounds of the latencies without a delay of 0 to `delay` seconds, which they contain."""
        lower, proven = np.maximum(0.0, self.lower - delay), np.maximum(0.0, self.proven - delay)
        return Bounds(lower, self.upper, proven, self.proven_upper, self.measurable)

    def committed_later(self, spread: float) -> "Bounds":
        """Return the bounds if a tick may have a revision up to `spread` seconds before its commit is visible."""
        return replace(self, proven=np.maximum(0.0, self.proven - spread)) if spread else self


@dataclass(frozen=True, slots=True, eq=False)
class AnsweredTicks:
    """The ticks of the time from `start` to `end`, and the next one: a commit in that time shows in the next tick.

    `sent` ascends; `answered` has for each tick when it, or one that was sent later, was answered first. Both are
    monotonic seconds.
    """

    start: float
    end: float
    sent: FloatArray
    answered: FloatArray


Measure = Callable[[IntArray, FloatArray], Bounds]
"""Maps the revisions and arrival times of n events to the bounds of their latencies."""
