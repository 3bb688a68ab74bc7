"""Combines permissions into roles: one per namespace and one for the cluster, without duplicates, in a stable order."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from watchslo.rbac.permissions import Feature, Permission, PermissionScope


@dataclass(frozen=True, slots=True, order=True)
class PolicyRule:
    """The verbs allowed on resources of one API group, or on a path, and the features that need them."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    features: tuple[Feature, ...]
    name: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """The rules of one namespace, or of the whole cluster if `namespace` is None."""

    namespace: str | None
    rules: tuple[PolicyRule, ...]


def build_roles(permissions: Iterable[Permission]) -> tuple[Role, ...]:
    """Return the roles that grant these permissions and nothing else; the cluster's role comes first."""
    required = list(permissions)
    features_by_verb: dict[PermissionScope, dict[str, set[Feature]]] = defaultdict(lambda: defaultdict(set))
    for permission in required:
        for verb in permission.verbs:
            features_by_verb[_widest_scope(permission, verb, required)][verb].add(permission.feature)
    merged: dict[str | None, dict[PolicyRule, set[str]]] = defaultdict(lambda: defaultdict(set))
    for scope, by_verb in features_by_verb.items():
        features = tuple(sorted(set().union(*by_verb.values())))
        without_resources = PolicyRule(scope.group, (), tuple(sorted(by_verb)), features, scope.name, scope.path)
        merged[scope.namespace][without_resources].add(scope.resource)
    return tuple(
        Role(namespace, tuple(sorted(replace(rule, resources=tuple(sorted(names))) for rule, names in rules.items())))
        for namespace, rules in sorted(merged.items(), key=lambda item: item[0] or "")
    )


def _widest_scope(permission: Permission, verb: str, required: Iterable[Permission]) -> PermissionScope:
    """Return the widest scope that covers this permission: another feature may need the same verb on more objects."""
    covering = (other.scope for other in required if verb in other.verbs and other.scope.covers(permission.scope))
    return min(covering, key=lambda scope: (scope.namespace is not None, scope.name is not None))
