"""Builds the discovery documents of the cluster, single and aggregated. The module is pure."""

from collections.abc import Collection, Iterable
from typing import Any

from watchslo.sim.encoding import parse_accept
from watchslo.sim.kinds import ResourceKind, group_versions

Document = dict[str, Any]

_STATUS_VERBS = ("get", "patch", "update")
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


def aggregated_version(accept: str, offered: Collection[str]) -> str | None:
    """Return the first requested version of aggregated discovery that is offered; None for unaggregated discovery.

    Raises:
        LookupError: if the client accepts neither.
    """
    for media_type, parameters in parse_accept(accept):
        if parameters.get("as") == "APIGroupDiscoveryList" and parameters.get("v") in offered:
            return parameters["v"]
        if "as" not in parameters and media_type in ("application/json", "application/*", "*/*"):
            return None
    raise LookupError(accept)


def core_versions(address: str) -> Document:
    """Return the document with the versions of the core group."""
    clients = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": clients}


def group_list(kinds: Iterable[ResourceKind]) -> Document:
    """Return the document of all groups except the core group."""
    groups = [_group(name, versions) for name, versions in group_versions(kinds).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(kinds: Iterable[ResourceKind], name: str) -> Document | None:
    """Return the document of one group; None if it does not exist."""
    versions = group_versions(kinds).get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions else None


def _group(name: str, versions: tuple[str, ...]) -> Document:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def resource_list(kinds: Iterable[ResourceKind], group_name: str, version: str) -> Document | None:
    """Return the resources of one version of a group; None if it does not exist."""
    members = [kind for kind in kinds if kind.group == group_name and version in kind.versions]
    if not members:
        return None
    # kube-apiserver omits the apiVersion in the core group's list.
    head = {"kind": "APIResourceList", **({"apiVersion": "v1"} if group_name else {})}
    resources = [entry for kind in members for entry in _entries(kind)]
    return {**head, "groupVersion": members[0].api_version(version), "resources": resources}


def _entries(kind: ResourceKind) -> Iterable[Document]:
    yield {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": kind.verbs,
        **_names(kind),
    }
    if kind.status:
        yield {
            "name": f"{kind.plural}/status",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": _STATUS_VERBS,
        }


def _names(kind: ResourceKind) -> Document:
    return {
        **({"shortNames": kind.short_names} if kind.short_names else {}),
        **({"categories": kind.categories} if kind.categories else {}),
    }


def aggregated(kinds: Collection[ResourceKind], api: str, *, core: bool, stale: Collection[str]) -> Document:
    """Return the aggregated discovery document of the core group or of all other groups.

    A stale group's own apiserver does not respond: the document names the group without its resources.
    """
    groups = {name: versions for name, versions in group_versions(kinds).items() if (name == "") == core}
    items = [
        {
            "metadata": {"name": name} if name else {},
            "versions": [_aggregated_version(kinds, name, version, name in stale) for version in versions],
        }
        for name, versions in groups.items()
    ]
    head = {"kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{api}", "metadata": {}}
    return {**head, "items": items}


def _aggregated_version(kinds: Collection[ResourceKind], name: str, version: str, stale: bool) -> Document:  # noqa: FBT001 - a property of the group
    if stale:
        return {"version": version, "freshness": "Stale"}
    members = [kind for kind in kinds if kind.group == name and version in kind.versions]
    return {"version": version, "resources": [_aggregated_resource(kind) for kind in members], "freshness": "Current"}


def _aggregated_resource(kind: ResourceKind) -> Document:
    response = {"group": "", "version": "", "kind": kind.kind}
    subresource = {"subresource": "status", "responseKind": response, "verbs": _STATUS_VERBS}
    return {
        "resource": kind.plural,
        "responseKind": response,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": kind.verbs,
        **_names(kind),
        **({"subresources": [subresource]} if kind.status else {}),
    }
