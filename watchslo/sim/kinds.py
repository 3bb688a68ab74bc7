"""The resources of a simulated cluster: their names in discovery, their verbs and their printer columns.

The module is pure: time is an argument.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]
"""An object as decoded JSON. It is never changed in place: a new version is a new dictionary that shares parts."""

Cell = Callable[[Object, float], object]
"""Maps an object and the current Unix time to the cell of its row."""

NONE, UNKNOWN, UNSET = "<none>", "<unknown>", "<unset>"


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """One column of a resource's table. kubectl shows columns of `priority` 0 without `-o wide`."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""

    def definition(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def at(path: str, otherwise: object = "") -> Cell:
    """Return a cell that shows the value at a dotted path."""
    keys = path.split(".")

    def cell(obj: Object, _now: float) -> object:
        value: Any = obj
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return otherwise if value is None else value

    return cell


def number_of(path: str) -> Cell:
    """Return a cell that shows the length of the value at a dotted path."""
    find = at(path, ())
    return lambda obj, now: len(find(obj, now))  # type: ignore[arg-type]  # the value is a list or a mapping


def always(value: object) -> Cell:
    """Return a cell that shows the same value in every row."""
    return lambda _obj, _now: value


def age(obj: Object, now: float) -> object:
    """Return the age of the object in kubectl's format."""
    created = obj["metadata"].get("creationTimestamp")
    return human_duration(now - datetime.fromisoformat(created).timestamp()) if created else UNKNOWN


def human_duration(seconds: float) -> str:
    """Format a duration with at most two units, rounded down: `106s`, `4m6s`, `11m`, `3h20m`, `2d`."""
    whole = max(int(seconds), 0)
    for limit, unit, letter, below, small in _STEPS:
        if whole < limit:
            rest = whole % unit // below if below else 0
            return f"{whole // unit}{letter}" + (f"{rest}{small}" if rest else "")
    return f"{whole // 86400}d"


_STEPS = (
    (120, 1, "s", 0, ""),
    (600, 60, "m", 1, "s"),
    (3 * 3600, 60, "m", 0, ""),
    (8 * 3600, 3600, "h", 60, "m"),
    (48 * 3600, 3600, "h", 0, ""),
    (192 * 3600, 86400, "d", 3600, "h"),
)
"""Limit in seconds; unit and its letter; smaller unit (0: none) and its letter. As HumanDuration in Kubernetes."""


def timestamp(wall: float) -> str:
    """Format a Unix time in whole seconds, as Kubernetes does."""
    return datetime.fromtimestamp(int(wall), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

_NAME = PrinterColumn(
    "Name",
    at("metadata.name"),
    format="name",
    description="Name must be unique within a namespace. Is required when creating resources, although some resources "
    "may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for "
    "creation idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
)
_AGE_TEXT = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed "
    "to be set in happens-before order across separate operations. Clients may not set this value. It is represented "
    "in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
_AGE = PrinterColumn("Age", age, description=_AGE_TEXT)
_CUSTOM_AGE = PrinterColumn(
    "Age",
    lambda obj, now: age(obj, now) if "creationTimestamp" in obj["metadata"] else None,
    type="date",
    description=_AGE_TEXT,
)


def _wide(name: str, cell: Cell) -> PrinterColumn:
    return PrinterColumn(name, cell, priority=1)


def _ready(ready: str, desired: str) -> Cell:
    ready_count, desired_count = at(ready, 0), at(desired, 0)
    return lambda obj, now: f"{ready_count(obj, now)}/{desired_count(obj, now)}"


def _ready_containers(obj: Object, now: float) -> str:
    statuses: Any = at("status.containerStatuses", ())(obj, now)
    ready = sum(status["ready"] for status in statuses)
    return f"{ready}/{number_of('spec.containers')(obj, now)}"


_WORKLOAD = (_wide("Containers", always("")), _wide("Images", always("")), _wide("Selector", always("")))


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """One resource of the API.

    `versions` starts with the preferred version. `fields` are the supported field selectors other than name and
    namespace. `storage` names the resource that stores the objects, if it is another one.
    """

    group: str
    plural: str
    kind: str
    singular: str = ""
    versions: tuple[str, ...] = ("v1",)
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    columns: tuple[PrinterColumn, ...] = (_NAME, _AGE)
    fields: tuple[str, ...] = ()
    status: bool = False
    cached: bool = True
    custom: bool = False
    storage: str = ""

    @property
    def key(self) -> str:
        """The resource's name in kubectl: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def stored(self) -> str:
        return self.storage or self.key

    def api_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version

    def object_key(self, namespace: str | None, name: str) -> str:
        """Return the storage key of an object; keys sort as in etcd."""
        return f"{namespace}/{name}" if self.namespaced else name


_EVENT_COLUMNS = (
    PrinterColumn("Last Seen", at("lastTimestamp", UNKNOWN)),
    PrinterColumn("Type", at("type")),
    PrinterColumn("Reason", at("reason")),
    PrinterColumn("Object", at("involvedObject.name")),
    _wide("Subobject", at("involvedObject.fieldPath")),
    _wide("Source", at("source.component")),
    PrinterColumn("Message", at("message")),
    _wide("First Seen", at("firstTimestamp", UNKNOWN)),
    _wide("Count", at("count", 1)),
    PrinterColumn(_NAME.name, _NAME.cell, format="name", priority=1, description=_NAME.description),
)

_BUILT_IN = (
    ResourceKind("", "componentstatuses", "ComponentStatus", "componentstatus", namespaced=False, verbs=("get", "list"),
        short_names=("cs",), cached=False),
    ResourceKind("", "configmaps", "ConfigMap", "configmap", short_names=("cm",),
        columns=(_NAME, PrinterColumn("Data", number_of("data")), _AGE)),
    ResourceKind("", "events", "Event", "event", short_names=("ev",), columns=_EVENT_COLUMNS, cached=False,
        fields=("involvedObject.name", "involvedObject.kind", "reason", "type")),
    ResourceKind("", "namespaces", "Namespace", "namespace", namespaced=False, short_names=("ns",), status=True,
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        fields=("status.phase",), columns=(_NAME, PrinterColumn("Status", at("status.phase")), _AGE)),
    ResourceKind("", "nodes", "Node", "node", namespaced=False, short_names=("no",), status=True,
        fields=("spec.unschedulable",),
        columns=(_NAME, PrinterColumn("Status", always("Ready")), PrinterColumn("Roles", always(NONE)), _AGE,
                 PrinterColumn("Version", at("status.nodeInfo.kubeletVersion")), _wide("Internal-IP", always(NONE)),
                 _wide("External-IP", always(NONE)), _wide("OS-Image", at("status.nodeInfo.osImage", UNKNOWN)),
                 _wide("Kernel-Version", at("status.nodeInfo.kernelVersion", UNKNOWN)),
                 _wide("Container-Runtime", at("status.nodeInfo.containerRuntimeVersion", UNKNOWN)))),
    ResourceKind("", "pods", "Pod", "pod", short_names=("po",), categories=("all",), status=True,
        fields=("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase",
                 "status.podIP", "status.nominatedNodeName"),
        columns=(_NAME, PrinterColumn("Ready", _ready_containers), PrinterColumn("Status", at("status.phase")),
                 PrinterColumn("Restarts", always("0")), _AGE, _wide("IP", at("status.podIP", NONE)),
                 _wide("Node", at("spec.nodeName", NONE)),
                 _wide("Nominated Node", at("status.nominatedNodeName", NONE)),
                 _wide("Readiness Gates", always(NONE)))),
    ResourceKind("", "secrets", "Secret", "secret", fields=("type",),
        columns=(_NAME, PrinterColumn("Type", at("type")), PrinterColumn("Data", number_of("data")), _AGE)),
    ResourceKind("", "services", "Service", "service", short_names=("svc",), categories=("all",), status=True,
        fields=("spec.clusterIP", "spec.type"),
        columns=(_NAME, PrinterColumn("Type", at("spec.type")),
                 PrinterColumn("Cluster-IP", at("spec.clusterIP", NONE)), PrinterColumn("External-IP", always(NONE)),
                 PrinterColumn("Port(s)", always(NONE)), _AGE, _wide("Selector", always(NONE)))),
    ResourceKind("apps", "deployments", "Deployment", "deployment", short_names=("deploy",), categories=("all",),
        status=True,
        columns=(_NAME, PrinterColumn("Ready", _ready("status.readyReplicas", "spec.replicas")),
                 PrinterColumn("Up-to-date", at("status.updatedReplicas", 0)),
                 PrinterColumn("Available", at("status.availableReplicas", 0)), _AGE, *_WORKLOAD)),
    ResourceKind("apps", "replicasets", "ReplicaSet", "replicaset", short_names=("rs",), categories=("all",),
        status=True,
        columns=(_NAME, PrinterColumn("Desired", at("spec.replicas", 0), "integer"),
                 PrinterColumn("Current", at("status.replicas", 0), "integer"),
                 PrinterColumn("Ready", at("status.readyReplicas", 0), "integer"), _AGE, *_WORKLOAD)),
    ResourceKind("events.k8s.io", "events", "Event", "event", short_names=("ev",), columns=_EVENT_COLUMNS, cached=False,
        storage="events"),
    ResourceKind("authentication.k8s.io", "tokenreviews", "TokenReview", "tokenreview", namespaced=False,
        verbs=("create",), cached=False),
    ResourceKind("batch", "jobs", "Job", "job", categories=("all",), status=True,
        columns=(_NAME, PrinterColumn("Status", always("Running")),
                 PrinterColumn("Completions", _ready("status.succeeded", "spec.completions")),
                 PrinterColumn("Duration", always("")), _AGE, *_WORKLOAD)),
    ResourceKind("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition",
        "customresourcedefinition", namespaced=False, short_names=("crd", "crds"), categories=("api-extensions",),
        status=True,
        columns=(_NAME, PrinterColumn("Created At", at("metadata.creationTimestamp"), "date"))),
    ResourceKind("coordination.k8s.io", "leases", "Lease", "lease",
        columns=(_NAME, PrinterColumn("Holder", at("spec.holderIdentity")), _AGE)),
    ResourceKind("discovery.k8s.io", "endpointslices", "EndpointSlice", "endpointslice",
        columns=(_NAME, PrinterColumn("AddressType", at("addressType")), PrinterColumn("Ports", always(UNSET)),
                 PrinterColumn("Endpoints", always(UNSET)), _AGE)),
)  # fmt: skip  # one entry reads as one row

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
BUILT_IN: dict[str, ResourceKind] = {kind.key: kind for kind in _BUILT_IN}
BUILT_IN_GROUPS = frozenset(kind.group for kind in _BUILT_IN)


def custom_kind(crd: Object) -> ResourceKind:
    """Return the resource of a CustomResourceDefinition; the most mature served version is the preferred one."""
    spec = crd["spec"]
    names = spec["names"]
    return ResourceKind(
        group=spec["group"],
        plural=names["plural"],
        kind=names["kind"],
        singular=names.get("singular") or names["kind"].lower(),
        versions=tuple(sorted((v["name"] for v in spec["versions"] if v["served"]), key=_maturity)),
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        verbs=("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"),
        columns=(_NAME, _CUSTOM_AGE),
        custom=True,
    )


def _maturity(version: str) -> tuple[bool, bool, str]:
    """Return a sort key that orders v1 before v1beta1 before v1alpha1."""
    return ("alpha" in version, "beta" in version, version)


def group_versions(kinds: Iterable[ResourceKind]) -> dict[str, tuple[str, ...]]:
    """Return the versions of each group, the preferred version first."""
    groups: dict[str, dict[str, None]] = {}
    for kind in kinds:
        groups.setdefault(kind.group, {}).update(dict.fromkeys(kind.versions))
    return {group: tuple(sorted(versions, key=_maturity)) for group, versions in groups.items()}
