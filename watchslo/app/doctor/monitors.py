"""Checks whether a Prometheus of the Prometheus operator selects the monitor and the rules of watchslo."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from pydantic.alias_generators import to_camel

from watchslo.app.doctor.findings import DeploymentFinding, good, problem, unchecked
from watchslo.kube.client import Client
from watchslo.kube.decoding import decode_answer
from watchslo.timeline.format import counted
from watchslo.watch.failure import Failure, Reason

GROUP = "/apis/monitoring.coreos.com"
COMMON = {"app.kubernetes.io/name": "watchslo"}
"""What the shipped monitors select pods or services by."""
SELECTORS = {"PodMonitor": "pod_monitor", "ServiceMonitor": "service_monitor", "PrometheusRule": "rule"}
"""The prefixes of the two selectors of each kind in `OperatorSpec`."""
_READERS = (  # the kinds that select monitors or rules
    ("v1", "prometheuses"),
    ("v1alpha1", "prometheusagents"),
    ("v1", "thanosrulers"),
)


class _Requirement(msgspec.Struct):
    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(msgspec.Struct, rename="camel"):
    """A selector of Kubernetes; without requirements it selects everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[_Requirement] | None = None

    @property
    def keys(self) -> set[str]:
        """The keys of the labels that decide."""
        return {*(self.match_labels or {}), *(requirement.key for requirement in self.match_expressions or ())}

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if the labels meet every requirement."""
        return all(labels.get(key) == value for key, value in (self.match_labels or {}).items()) and all(
            _meets(labels, requirement) for requirement in self.match_expressions or ()
        )


def _meets(labels: Mapping[str, str], required: _Requirement) -> bool:
    match required.operator:
        case "In":
            return labels.get(required.key) in (required.values or ())
        case "NotIn":
            return labels.get(required.key) not in (required.values or ())
        case "Exists":
            return required.key in labels
        case _:
            return required.key not in labels


class _MonitorMetadata(msgspec.Struct):
    namespace: str = ""
    labels: dict[str, str] | None = None


class _RuleGroupName(msgspec.Struct):
    name: str


class OperatorSpec(msgspec.Struct, rename="camel"):
    """The fields of all kinds that decide about selection."""

    selector: LabelSelector | None = None
    groups: list[_RuleGroupName] | None = None
    pod_monitor_selector: LabelSelector | None = None
    pod_monitor_namespace_selector: LabelSelector | None = None
    service_monitor_selector: LabelSelector | None = None
    service_monitor_namespace_selector: LabelSelector | None = None
    rule_selector: LabelSelector | None = None
    rule_namespace_selector: LabelSelector | None = None


class OperatorObject(msgspec.Struct):
    """An object of the Prometheus operator."""

    metadata: _MonitorMetadata
    spec: OperatorSpec = msgspec.field(default_factory=OperatorSpec)


class _OperatorList(msgspec.Struct):
    items: list[OperatorObject]


class _LabelledNamespace(msgspec.Struct):
    metadata: _MonitorMetadata


@dataclass(frozen=True, slots=True)
class OperatorObjects:
    """What the cluster has of the operator: the objects of watchslo by kind, what selects them, and their namespace.

    `unread` says for each kind why its objects cannot be read; without any reason they are all known.
    """

    ours: Mapping[str, Sequence[OperatorObject]]
    selecting: Sequence[OperatorObject]
    namespace: str
    namespace_labels: Mapping[str, str] | None
    unread: Mapping[str, str] = field(default_factory=dict)


def selects(reader: OperatorObject, kind: str, labels: Mapping[str, str], found: OperatorObjects) -> bool | None:
    """Return whether a Prometheus selects an object with these labels in the namespace of watchslo.

    Without a selector of objects it selects none. Without a selector of namespaces, it selects its own namespace. None
    if that depends on labels of the namespace, and these cannot be read.
    """
    selector: LabelSelector | None = getattr(reader.spec, f"{SELECTORS[kind]}_selector")
    namespaces: LabelSelector | None = getattr(reader.spec, f"{SELECTORS[kind]}_namespace_selector")
    if selector is None or not selector.matches(labels):
        return False
    if namespaces is None:
        return reader.metadata.namespace == found.namespace
    known = {"kubernetes.io/metadata.name": found.namespace, **(found.namespace_labels or {})}
    if found.namespace_labels is None and not namespaces.keys <= known.keys():
        return None
    return namespaces.matches(known)


def monitor_findings(found: OperatorObjects) -> Iterator[DeploymentFinding]:
    """Yield whether the monitor and the rules of watchslo are there and selected."""
    yield from _findings_of("monitor", ("PodMonitor", "ServiceMonitor"), found)
    yield from _findings_of("rules", ("PrometheusRule",), found)


def _findings_of(subject: str, kinds: Sequence[str], found: OperatorObjects) -> Iterator[DeploymentFinding]:
    """Yield the findings about objects of some kinds, of which one is enough."""
    present = [kind for kind in kinds if found.ours.get(kind)]
    needed = ("prometheuses", *(() if present else kinds))
    if why := next((found.unread[name] for name in needed if name in found.unread), None):
        yield unchecked(
            subject, f"Whether a Prometheus selects the {' or '.join(present or kinds)} is not known: {why}"
        )
    elif not present:
        yield problem(
            subject,
            f"There is no {' or '.join(kinds)} of watchslo in this namespace.",
            "Apply a profile of deploy, or name its namespace with --namespace.",
        )
    else:
        yield from (_selection(subject, kind, found) for kind in present)


def _selection(subject: str, kind: str, found: OperatorObjects) -> DeploymentFinding:
    all_labels = [monitor.metadata.labels or {} for monitor in found.ours[kind]]
    missed = [
        labels for labels in all_labels if not any(selects(reader, kind, labels, found) for reader in found.selecting)
    ]
    if not missed:
        return good(subject, f"A Prometheus selects {counted(len(all_labels), kind)} of watchslo.")
    if any(selects(reader, kind, labels, found) is None for reader in found.selecting for labels in missed):
        return unchecked(
            subject, "Whether a Prometheus selects the namespace of watchslo is not known: it may not be read."
        )
    readers = counted(len(found.selecting), "Prometheus object")
    text = f"None of {readers} selects {counted(len(missed), kind)} of watchslo."
    field_name = to_camel(f"{SELECTORS[kind]}_selector")
    selectors = [getattr(reader.spec, f"{SELECTORS[kind]}_selector") for reader in found.selecting]
    if any(selector and selector.matches(labels) for selector in selectors for labels in missed):
        field_name = to_camel(f"{SELECTORS[kind]}_namespace_selector")
        return problem(
            subject, text, f"Label its namespace as the `{field_name}` of your Prometheus asks, or change that."
        )
    how = (
        "with `watchslo rules --rule-labels KEY=VALUE`" if kind == "PrometheusRule" else "by a patch (deploy/README.md)"
    )
    return problem(subject, text, f"Give it the labels that the `{field_name}` of your Prometheus asks for, {how}.")


def is_ours(kind: str, candidate: OperatorObject, groups: Iterable[str]) -> bool:
    """Return True for a monitor of the shipped labels, and for rules with one of our `groups`."""
    if kind == "PrometheusRule":
        return not {group.name for group in candidate.spec.groups or ()}.isdisjoint(groups)
    selector = candidate.spec.selector
    return selector is not None and LabelSelector(COMMON).matches(selector.match_labels or {})


async def read_operator_objects(client: Client, namespace: str, groups: Sequence[str]) -> OperatorObjects:
    """Read what the operator knows of watchslo in a namespace, and all objects that may select it."""
    unread: dict[str, str] = {}
    ours: dict[str, list[OperatorObject]] = {}
    for kind in SELECTORS:
        listed = await _list(client, f"{GROUP}/v1/namespaces/{namespace}/{kind.lower()}s")
        if isinstance(listed, Failure):
            unread[kind] = _why(listed)
        else:
            ours[kind] = [listed_object for listed_object in listed if is_ours(kind, listed_object, groups)]
    selecting: list[OperatorObject] = []
    for version, plural in _READERS:
        listed = await _list(client, f"{GROUP}/{version}/{plural}")
        if not isinstance(listed, Failure):
            selecting += listed
        elif listed.reason is not Reason.NOT_FOUND or plural == "prometheuses":  # the others are seldom installed
            unread[plural] = _why(listed)
    labels = await _namespace_labels(client, namespace)
    return OperatorObjects(ours, selecting, namespace, labels, unread)


def _why(failure: Failure) -> str:
    if failure.reason is Reason.NOT_FOUND:
        return "the Prometheus operator is not installed here."
    if failure.reason is Reason.FORBIDDEN:
        return "this identity may not list the objects of monitoring.coreos.com; run the command as an administrator."
    return failure.message


async def _list(client: Client, path: str) -> list[OperatorObject] | Failure:
    answer = await client.document(path)
    if isinstance(answer, Failure):
        return answer
    listed = decode_answer(answer, _OperatorList)
    return listed if isinstance(listed, Failure) else listed.items


async def _namespace_labels(client: Client, namespace: str) -> dict[str, str] | None:
    """Return the labels of the namespace of watchslo, or None if it may not be read."""
    answer = await client.document(f"/api/v1/namespaces/{namespace}")
    if isinstance(answer, Failure):
        return None
    found = decode_answer(answer, _LabelledNamespace)
    return None if isinstance(found, Failure) else found.metadata.labels or {}


NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""What a namespace may be named; anything else would change the path of a request."""
