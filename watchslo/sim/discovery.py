"""Builds the documents of aggregated discovery, which the simulator always answers. The module is pure."""

from collections.abc import Collection
from typing import Any

from watchslo.sim.kinds import VERBS, ResourceKind

Document = dict[str, Any]

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def aggregated(kinds: Collection[ResourceKind], *, core: bool) -> Document:
    """Return the aggregated discovery document of the core group or of all other groups."""
    groups = dict.fromkeys(kind.group for kind in kinds if (kind.group == "") == core)
    items = [
        {"metadata": {"name": name} if name else {}, "versions": [_aggregated_version(kinds, name)]} for name in groups
    ]
    head = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}}
    return {**head, "items": items}


def _aggregated_version(kinds: Collection[ResourceKind], name: str) -> Document:
    resources = [_aggregated_resource(kind) for kind in kinds if kind.group == name]
    return {"version": "v1", "resources": resources, "freshness": "Current"}


def _aggregated_resource(kind: ResourceKind) -> Document:
    return {
        "resource": kind.plural,
        "responseKind": {"group": "", "version": "", "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": VERBS,
        "shortNames": kind.short_names,
    }
