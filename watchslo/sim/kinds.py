"""The resources a simulated cluster has, as discovery names them, and the columns of their tables."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]
"""An object as JSON has it. Never changed in place: a new version is a new dictionary that shares what is the same."""

Cell = Callable[[Object, float], object]
"""A cell of an object's row, at a Unix time."""

NONE, UNKNOWN, UNSET = "<none>", "<unknown>", "<unset>"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a resource's table; `priority` 0 is what kubectl shows without `-o wide`."""

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
    """What stands at a dotted path."""
    keys = path.split(".")

    def cell(obj: Object, _now: float) -> object:
        value: Any = obj
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return otherwise if value is None else value

    return cell


def number_of(path: str) -> Cell:
    """How many things stand at a dotted path."""
    find = at(path, ())
    return lambda obj, now: len(find(obj, now))  # type: ignore[arg-type]  # what stands there is a list or a mapping


def always(value: object) -> Cell:
    """The same in every row."""
    return lambda _obj, _now: value


def age(obj: Object, now: float) -> object:
    """How old the object is, as kubectl says it."""
    created = obj["metadata"].get("creationTimestamp")
    return human_duration(now - datetime.fromisoformat(created).timestamp()) if created else UNKNOWN


def human_duration(seconds: float) -> str:
    """A duration in at most two units, rounded down: `106s`, `4m6s`, `11m`, `3h20m`, `2d`."""
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
"""Below so many seconds: the unit, its letter, a smaller unit to be shown, and its letter; as HumanDuration does it."""


def timestamp(wall: float) -> str:
    """A Unix time in whole seconds, as Kubernetes writes it."""
    return datetime.fromtimestamp(int(wall), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

_NAME = Column(
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
_AGE = Column("Age", age, description=_AGE_TEXT)
_CUSTOM_AGE = Column(
    "Age",
    lambda obj, now: age(obj, now) if "creationTimestamp" in obj["metadata"] else None,
    type="date",
    description=_AGE_TEXT,
)


def _wide(name: str, cell: Cell) -> Column:
    return Column(name, cell, priority=1)


def _ready(ready: str, wanted: str) -> Cell:
    have, want = at(ready, 0), at(wanted, 0)
    return lambda obj, now: f"{have(obj, now)}/{want(obj, now)}"


def _ready_containers(obj: Object, now: float) -> str:
    statuses: Any = at("status.containerStatuses", ())(obj, now)
    ready = sum(status["ready"] for status in statuses)
    return f"{ready}/{number_of('spec.containers')(obj, now)}"


_WORKLOAD = (_wide("Containers", always("")), _wide("Images", always("")), _wide("Selector", always("")))


@dataclass(frozen=True, slots=True)
class Kind:
    """One resource of the API.

    `versions` starts with the preferred one; `fields` are the field selectors known besides name and namespace;
    `storage` is where its objects are kept, when another resource keeps them.
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
    columns: tuple[Column, ...] = (_NAME, _AGE)
    fields: tuple[str, ...] = ()
    status: bool = False
    cached: bool = True
    custom: bool = False
    storage: str = ""

    @property
    def key(self) -> str:
        """The name kubectl takes: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def stored(self) -> str:
        return self.storage or self.key

    def api_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version

    def object_key(self, namespace: str | None, name: str) -> str:
        """Under which an object is kept; keys sort as etcd sorts them."""
        return f"{namespace}/{name}" if self.namespaced else name


_EVENT_COLUMNS = (
    Column("Last Seen", at("lastTimestamp", UNKNOWN)),
    Column("Type", at("type")),
    Column("Reason", at("reason")),
    Column("Object", at("involvedObject.name")),
    _wide("Subobject", at("involvedObject.fieldPath")),
    _wide("Source", at("source.component")),
    Column("Message", at("message")),
    _wide("First Seen", at("firstTimestamp", UNKNOWN)),
    _wide("Count", at("count", 1)),
    Column(_NAME.name, _NAME.cell, format="name", priority=1, description=_NAME.description),
)

_BUILT_IN = (
    Kind("", "componentstatuses", "ComponentStatus", "componentstatus", namespaced=False, verbs=("get", "list"),
         short_names=("cs",), cached=False),
    Kind("", "configmaps", "ConfigMap", "configmap", short_names=("cm",),
         columns=(_NAME, Column("Data", number_of("data")), _AGE)),
    Kind("", "events", "Event", "event", short_names=("ev",), columns=_EVENT_COLUMNS, cached=False,
         fields=("involvedObject.name", "involvedObject.kind", "reason", "type")),
    Kind("", "namespaces", "Namespace", "namespace", namespaced=False, short_names=("ns",), status=True,
         verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
         fields=("status.phase",), columns=(_NAME, Column("Status", at("status.phase")), _AGE)),
    Kind("", "nodes", "Node", "node", namespaced=False, short_names=("no",), status=True,
         fields=("spec.unschedulable",),
         columns=(_NAME, Column("Status", always("Ready")), Column("Roles", always(NONE)), _AGE,
                  Column("Version", at("status.nodeInfo.kubeletVersion")), _wide("Internal-IP", always(NONE)),
                  _wide("External-IP", always(NONE)), _wide("OS-Image", at("status.nodeInfo.osImage", UNKNOWN)),
                  _wide("Kernel-Version", at("status.nodeInfo.kernelVersion", UNKNOWN)),
                  _wide("Container-Runtime", at("status.nodeInfo.containerRuntimeVersion", UNKNOWN)))),
    Kind("", "pods", "Pod", "pod", short_names=("po",), categories=("all",), status=True,
         fields=("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase",
                 "status.podIP", "status.nominatedNodeName"),
         columns=(_NAME, Column("Ready", _ready_containers), Column("Status", at("status.phase")),
                  Column("Restarts", always("0")), _AGE, _wide("IP", at("status.podIP", NONE)),
                  _wide("Node", at("spec.nodeName", NONE)),
                  _wide("Nominated Node", at("status.nominatedNodeName", NONE)),
                  _wide("Readiness Gates", always(NONE)))),
    Kind("", "secrets", "Secret", "secret", fields=("type",),
         columns=(_NAME, Column("Type", at("type")), Column("Data", number_of("data")), _AGE)),
    Kind("", "services", "Service", "service", short_names=("svc",), categories=("all",), status=True,
         fields=("spec.clusterIP", "spec.type"),
         columns=(_NAME, Column("Type", at("spec.type")), Column("Cluster-IP", at("spec.clusterIP", NONE)),
                  Column("External-IP", always(NONE)), Column("Port(s)", always(NONE)), _AGE,
                  _wide("Selector", always(NONE)))),
    Kind("apps", "deployments", "Deployment", "deployment", short_names=("deploy",), categories=("all",), status=True,
         columns=(_NAME, Column("Ready", _ready("status.readyReplicas", "spec.replicas")),
                  Column("Up-to-date", at("status.updatedReplicas", 0)),
                  Column("Available", at("status.availableReplicas", 0)), _AGE, *_WORKLOAD)),
    Kind("apps", "replicasets", "ReplicaSet", "replicaset", short_names=("rs",), categories=("all",), status=True,
         columns=(_NAME, Column("Desired", at("spec.replicas", 0), "integer"),
                  Column("Current", at("status.replicas", 0), "integer"),
                  Column("Ready", at("status.readyReplicas", 0), "integer"), _AGE, *_WORKLOAD)),
    Kind("events.k8s.io", "events", "Event", "event", short_names=("ev",), columns=_EVENT_COLUMNS, cached=False,
         storage="events"),
    Kind("authentication.k8s.io", "tokenreviews", "TokenReview", "tokenreview", namespaced=False, verbs=("create",),
         cached=False),
    Kind("batch", "jobs", "Job", "job", categories=("all",), status=True,
         columns=(_NAME, Column("Status", always("Running")),
                  Column("Completions", _ready("status.succeeded", "spec.completions")),
                  Column("Duration", always("")), _AGE, *_WORKLOAD)),
    Kind("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", "customresourcedefinition",
         namespaced=False, short_names=("crd", "crds"), categories=("api-extensions",), status=True,
         columns=(_NAME, Column("Created At", at("metadata.creationTimestamp"), "date"))),
    Kind("coordination.k8s.io", "leases", "Lease", "lease",
         columns=(_NAME, Column("Holder", at("spec.holderIdentity")), _AGE)),
    Kind("discovery.k8s.io", "endpointslices", "EndpointSlice", "endpointslice",
         columns=(_NAME, Column("AddressType", at("addressType")), Column("Ports", always(UNSET)),
                  Column("Endpoints", always(UNSET)), _AGE)),
)  # fmt: skip  # one entry reads as one row

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
BUILT_IN: dict[str, Kind] = {kind.key: kind for kind in _BUILT_IN}
BUILT_IN_GROUPS = frozenset(kind.group for kind in _BUILT_IN)


def custom_kind(crd: Object) -> Kind:
    """The resource that a CustomResourceDefinition defines; the newest served version is the preferred one."""
    spec = crd["spec"]
    names = spec["names"]
    return Kind(
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
    """Sorts v1 before v1beta1 before v1alpha1."""
    return ("alpha" in version, "beta" in version, version)


def group_versions(kinds: Iterable[Kind]) -> dict[str, tuple[str, ...]]:
    """The versions of each group, the preferred one first."""
    groups: dict[str, dict[str, None]] = {}
    for kind in kinds:
        groups.setdefault(kind.group, {}).update(dict.fromkeys(kind.versions))
    return {group: tuple(sorted(versions, key=_maturity)) for group, versions in groups.items()}
