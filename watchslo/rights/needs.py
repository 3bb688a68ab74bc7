"""What each feature asks the apiserver for. `/version` and discovery are missing: everybody may read those."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from watchslo.config import Config
from watchslo.kube.client import ABSENT_NAME

SLICES_NAMESPACE = "default"  # the service `kubernetes`, and with it its EndpointSlices, is there
LEASES_NAMESPACE = "kube-system"  # where apiservers announce themselves


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """Objects: of all namespaces, or of none, without a `namespace`; of any name without a `name`."""

    group: str
    resource: str
    namespace: str | None = None
    name: str | None = None

    def holds(self, other: "Target") -> bool:
        """Whether who may do something to these may do it to the others."""
        return (
            (self.group, self.resource) == (other.group, other.resource)
            and self.namespace in (None, other.namespace)
            and self.name in (None, other.name)
        )


@dataclass(frozen=True, slots=True, order=True)
class Feature:
    """What a right is for: the name that stands beside it, and the words that explain that once."""

    name: str
    words: str


@dataclass(frozen=True, slots=True)
class Need:
    """What a feature does to its target."""

    target: Target
    verbs: frozenset[str]
    feature: Feature


WATCHES = Feature("watches", "themselves, and the reads that prove them alive and find where they are late")
ALL_THERE_IS = Feature(
    'watches of "*"', "what the cluster served when this was written; write it anew when that changes"
)
TICKS = Feature("ticks", "lists of one name that no object has")
APISERVERS_EACH = Feature("apiservers: each", "to find and to follow their addresses")
APISERVERS_COUNTED = Feature("creation timestamps", "trusted only while it is known how many apiservers there are")
APISERVERS_ANNOUNCED = Feature("hidden apiservers", "how many there are, where an address may hide several")
REVIEWS = Feature("server.authorization: kubernetes", "to ask who a reader is and what they may read")


def needs(config: Config, watched: Iterable[Need]) -> Iterator[Need]:
    """All that is needed: `watched` is what the watches do."""
    yield from watched
    listing, following = frozenset({"list"}), frozenset({"list", "watch"})
    yield Need(Target("", "events", config.clock.namespace, ABSENT_NAME), listing, TICKS)
    slices = Target("discovery.k8s.io", "endpointslices", SLICES_NAMESPACE)
    if config.kubernetes.apiservers == "each":
        yield Need(slices, following, APISERVERS_EACH)
    else:
        yield Need(slices, listing, APISERVERS_COUNTED)
    yield Need(Target("coordination.k8s.io", "leases", LEASES_NAMESPACE), listing, APISERVERS_ANNOUNCED)
    if config.server.authorization == "kubernetes":
        for group, resource in (
            ("authentication.k8s.io", "tokenreviews"),
            ("authorization.k8s.io", "subjectaccessreviews"),
        ):
            yield Need(Target(group, resource), frozenset({"create"}), REVIEWS)
