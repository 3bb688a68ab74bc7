"""The permissions that each feature needs. `/version` and discovery are left out: every user may read them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from watchslo.config.model import Config
from watchslo.kube.call import ABSENT_NAME
from watchslo.kube.client import METRICS_PATH

SLICES_NAMESPACE = "default"  # of the service `kubernetes`, and so of its EndpointSlices
LEASES_NAMESPACE = "kube-system"  # where apiservers announce themselves


@dataclass(frozen=True, slots=True, order=True)
class PermissionScope:
    """The objects that a permission covers.

    Without a `namespace` it covers all namespaces (or cluster-scoped objects), without a `name` all names. With a
    `path`, it covers that path of the apiserver and no object; `group` and `resource` are then empty.
    """

    group: str = ""
    resource: str = ""
    namespace: str | None = None
    name: str | None = None
    path: str | None = None

    def covers(self, other: "PermissionScope") -> bool:
        """Return True if a permission for this scope also permits the other scope."""
        return (
            (self.group, self.resource, self.path) == (other.group, other.resource, other.path)
            and self.namespace in (None, other.namespace)
            and self.name in (None, other.name)
        )


@dataclass(frozen=True, slots=True, order=True)
class Feature:
    """What a permission is for: a name for the comment of each rule, and its explanation in the header."""

    name: str
    explanation: str


@dataclass(frozen=True, slots=True)
class Permission:
    """The verbs that a feature uses on the objects of a scope."""

    scope: PermissionScope
    verbs: frozenset[str]
    feature: Feature


WATCHES = Feature("watches", "the configured watches, their audits, and the reads that locate lateness")
ALL_RESOURCES = Feature('watches of "*"', "what the cluster served when this was written; run the command again later")
TICKS = Feature("ticks", "lists of one name that no object has; the verb watch is for telling kine from etcd")
EACH_APISERVER = Feature("apiservers: each", "to discover and follow the addresses of all apiservers")
APISERVER_COUNT = Feature("creation timestamps", "measured only while the number of apiservers is known")
WITNESSES = Feature("witnesses", "to tick through all apiservers, which creation timestamps need too")
HIDDEN_APISERVERS = Feature("hidden apiservers", "to count apiservers that share one address")
CLUSTER_NAME = Feature("cluster name", "optional: to name the cluster by a uid, because `cluster` is not set")
APISERVER_METRICS = Feature(
    "kubernetes.apiserverMetrics", "to read the metrics that apiservers publish of themselves, as evidence for causes"
)
CLIENTS = Feature("clients", "to read the metrics of programs with informers, which ask an apiserver for permission")
REVIEWS = Feature("server.authorization: kubernetes", "to check the token and the permissions of a reader")


def required_permissions(config: Config, watched: Iterable[Permission]) -> Iterator[Permission]:
    """Yield all permissions that a configuration needs; `watched` are those of its watches."""
    yield from watched
    list_only, list_and_watch = frozenset({"list"}), frozenset({"list", "watch"})
    verbs = list_and_watch if config.probes_storage else list_only
    yield Permission(PermissionScope("", "events", config.tick_namespaces[0], ABSENT_NAME), verbs, TICKS)
    slices = PermissionScope("discovery.k8s.io", "endpointslices", SLICES_NAMESPACE)
    if config.kubernetes.apiservers == "each":
        yield Permission(slices, list_and_watch, EACH_APISERVER)
    else:
        yield Permission(slices, list_only, WITNESSES if config.wants_witnesses else APISERVER_COUNT)
    yield Permission(PermissionScope("coordination.k8s.io", "leases", LEASES_NAMESPACE), list_only, HIDDEN_APISERVERS)
    if config.cluster is None and config.kubernetes.kubeconfig is None and config.kubernetes.context is None:
        yield Permission(PermissionScope("", "namespaces", name="kube-system"), frozenset({"get"}), CLUSTER_NAME)
    if config.kubernetes.apiserver_metrics:
        yield Permission(PermissionScope(path=METRICS_PATH), frozenset({"get"}), APISERVER_METRICS)
    for client in config.clients:
        if client.authorization == "kubernetes":
            yield Permission(PermissionScope(path=urlsplit(client.url).path), frozenset({"get"}), CLIENTS)
    if config.server.authorization == "kubernetes":
        for group, resource in (
            ("authentication.k8s.io", "tokenreviews"),
            ("authorization.k8s.io", "subjectaccessreviews"),
        ):
            yield Permission(PermissionScope(group, resource), frozenset({"create"}), REVIEWS)
