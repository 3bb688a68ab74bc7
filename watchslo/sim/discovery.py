"""What the cluster offers: the discovery documents, one by one and aggregated."""

from collections.abc import Collection, Iterable
from typing import Any

from watchslo.sim.kinds import Kind, group_versions
from watchslo.sim.wire import accepted

Document = dict[str, Any]

_STATUS_VERBS = ("get", "patch", "update")
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


def aggregated_version(accept: str, offered: Collection[str]) -> str | None:
    """The version of aggregated discovery that a client asks for and is offered; None for the old documents.

    Raises:
        LookupError: when neither can be had.
    """
    for media_type, parameters in accepted(accept):
        if parameters.get("as") == "APIGroupDiscoveryList" and parameters.get("v") in offered:
            return parameters["v"]
        if "as" not in parameters and media_type in ("application/json", "application/*", "*/*"):
            return None
    raise LookupError(accept)


def core_versions(address: str) -> Document:
    """The versions of the core group."""
    clients = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": clients}


def group_list(kinds: Iterable[Kind]) -> Document:
    """All groups but the core group."""
    groups = [_group(name, versions) for name, versions in group_versions(kinds).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(kinds: Iterable[Kind], name: str) -> Document | None:
    """One group; None where it does not exist."""
    versions = group_versions(kinds).get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions else None


def _group(name: str, versions: tuple[str, ...]) -> Document:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def resource_list(kinds: Iterable[Kind], group_name: str, version: str) -> Document | None:
    """The resources of one version of a group; None where it does not exist."""
    members = [kind for kind in kinds if kind.group == group_name and version in kind.versions]
    if not members:
        return None
    # The core group's list has no apiVersion: that is how kube-apiserver writes it.
    head = {"kind": "APIResourceList", **({"apiVersion": "v1"} if group_name else {})}
    resources = [entry for kind in members for entry in _entries(kind)]
    return {**head, "groupVersion": members[0].api_version(version), "resources": resources}


def _entries(kind: Kind) -> Iterable[Document]:
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


def _names(kind: Kind) -> Document:
    return {
        **({"shortNames": kind.short_names} if kind.short_names else {}),
        **({"categories": kind.categories} if kind.categories else {}),
    }


def aggregated(kinds: Collection[Kind], api: str, *, core: bool, stale: Collection[str]) -> Document:
    """All groups in one document, the core group's or the others'.

    A stale group is one whose own apiserver does not answer: it is named, without its resources.
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


def _aggregated_version(kinds: Collection[Kind], name: str, version: str, stale: bool) -> Document:  # noqa: FBT001 - a state
    if stale:
        return {"version": version, "freshness": "Stale"}
    members = [kind for kind in kinds if kind.group == name and version in kind.versions]
    return {"version": version, "resources": [_aggregated_resource(kind) for kind in members], "freshness": "Current"}


def _aggregated_resource(kind: Kind) -> Document:
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
