"""The resources of a simulated cluster: their names in discovery and their verbs.

The module is pure: time is an argument.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]
"""An object as decoded JSON. It is never changed in place: a new version is a new dictionary that shares parts."""


def timestamp(wall: float) -> str:
    """Format a Unix time in whole seconds, as Kubernetes does."""
    return datetime.fromtimestamp(int(wall), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """One resource of the API.

    All are in version v1. `columns` are those of its Tables. `fields` are the supported field selectors other than name
    and namespace. `storage` names the resource that stores the objects, if it is another one.
    """

    group: str
    plural: str
    kind: str
    singular: str = ""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    columns: tuple[str, ...] = ("Name", "Age")
    fields: tuple[str, ...] = ()
    status: bool = False
    cached: bool = True
    storage: str = ""

    @property
    def key(self) -> str:
        """The resource's name in kubectl: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def stored(self) -> str:
        return self.storage or self.key

    @property
    def api_version(self) -> str:
        return f"{self.group}/v1" if self.group else "v1"

    def object_key(self, namespace: str | None, name: str) -> str:
        """Return the storage key of an object; keys sort as in etcd."""
        return f"{namespace}/{name}" if self.namespaced else name


_BUILT_IN = (
    ResourceKind("", "componentstatuses", "ComponentStatus", "componentstatus", namespaced=False, verbs=("get", "list"),
        short_names=("cs",), cached=False),
    ResourceKind("", "configmaps", "ConfigMap", "configmap", short_names=("cm",)),
    ResourceKind("", "events", "Event", "event", short_names=("ev",), cached=False,
        fields=("involvedObject.name", "involvedObject.kind", "reason", "type")),
    ResourceKind("", "namespaces", "Namespace", "namespace", namespaced=False, short_names=("ns",), status=True,
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        fields=("status.phase",)),
    ResourceKind("", "nodes", "Node", "node", namespaced=False, short_names=("no",), status=True,
        fields=("spec.unschedulable",)),
    ResourceKind("", "pods", "Pod", "pod", short_names=("po",), categories=("all",), status=True,
        fields=("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase",
                 "status.podIP", "status.nominatedNodeName"),
        columns=("Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates")),
    ResourceKind("", "secrets", "Secret", "secret", fields=("type",)),
    ResourceKind("", "services", "Service", "service", short_names=("svc",), categories=("all",), status=True,
        fields=("spec.clusterIP", "spec.type")),
    ResourceKind("apps", "deployments", "Deployment", "deployment", short_names=("deploy",), categories=("all",),
        status=True),
    ResourceKind("apps", "replicasets", "ReplicaSet", "replicaset", short_names=("rs",), categories=("all",),
        status=True),
    ResourceKind("events.k8s.io", "events", "Event", "event", short_names=("ev",), cached=False,
        storage="events"),
    ResourceKind("authentication.k8s.io", "tokenreviews", "TokenReview", "tokenreview", namespaced=False,
        verbs=("create",), cached=False),
    ResourceKind("batch", "jobs", "Job", "job", categories=("all",), status=True),
    ResourceKind("coordination.k8s.io", "leases", "Lease", "lease"),
    ResourceKind("discovery.k8s.io", "endpointslices", "EndpointSlice", "endpointslice"),
)  # fmt: skip  # one entry reads as one row

BUILT_IN: dict[str, ResourceKind] = {kind.key: kind for kind in _BUILT_IN}
BUILT_IN_GROUPS = frozenset(kind.group for kind in _BUILT_IN)
