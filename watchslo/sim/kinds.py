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


VERBS = ("create", "delete", "get", "list", "patch", "watch")


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """One resource of the API.

    All are in version v1. `columns` are those of its Tables. `storage` names the resource that stores the objects, if
    it is another one.
    """

    group: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ("Name", "Age")
    cached: bool = True
    storage: str = ""

    @property
    def key(self) -> str:
        """The resource's name in kubectl: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def singular(self) -> str:
        return self.kind.lower()

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
    ResourceKind("", "configmaps", "ConfigMap", short_names=("cm",)),
    ResourceKind("", "events", "Event", short_names=("ev",), cached=False),
    ResourceKind("", "namespaces", "Namespace", namespaced=False, short_names=("ns",)),
    ResourceKind("", "nodes", "Node", namespaced=False, short_names=("no",)),
    ResourceKind("", "pods", "Pod", short_names=("po",),
        columns=("Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates")),
    ResourceKind("", "secrets", "Secret"),
    ResourceKind("", "services", "Service", short_names=("svc",)),
    ResourceKind("apps", "deployments", "Deployment", short_names=("deploy",)),
    ResourceKind("apps", "replicasets", "ReplicaSet", short_names=("rs",)),
    ResourceKind("events.k8s.io", "events", "Event", short_names=("ev",), cached=False, storage="events"),
    ResourceKind("batch", "jobs", "Job"),
    ResourceKind("coordination.k8s.io", "leases", "Lease"),
    ResourceKind("discovery.k8s.io", "endpointslices", "EndpointSlice"),
)  # fmt: skip  # one entry reads as one row

BUILT_IN: dict[str, ResourceKind] = {kind.key: kind for kind in _BUILT_IN}
