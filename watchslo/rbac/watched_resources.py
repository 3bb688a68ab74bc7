"""The permissions that the watches of a configuration need, from their names or from what the cluster serves."""

import re
from collections.abc import Iterator

from watchslo.config.model import Config
from watchslo.config.sections.watch import WatchConfig
from watchslo.errors import ConfigError
from watchslo.kube.discovery import Catalogue
from watchslo.model import Resource
from watchslo.rbac.permissions import ALL_RESOURCES, WATCHES, Permission, PermissionScope

_CORE = {  # the watchable resources of the core group; True if namespaced
    "configmaps": True,
    "endpoints": True,
    "events": True,
    "limitranges": True,
    "namespaces": False,
    "nodes": False,
    "persistentvolumeclaims": True,
    "persistentvolumes": False,
    "pods": True,
    "podtemplates": True,
    "replicationcontrollers": True,
    "resourcequotas": True,
    "secrets": True,
    "serviceaccounts": True,
    "services": True,
}
_VERSION = re.compile(r"v\d+((alpha|beta)\d+)?")
_VERBS = frozenset({"list", "watch"})


def needs_discovery(config: Config) -> bool:
    """Return True if a watch is `"*"` or a name without its group, so that discovery must resolve it."""
    return any(_from_name(watch.resource) is None for watch in config.watch)


def watch_permissions(config: Config, catalogue: Catalogue | None) -> Iterator[Permission]:
    """Yield the permissions of the watches; raises ConfigError for a name that the cluster does not serve.

    The catalogue may be None only if the configuration needs no discovery.
    """
    for watch in config.watch:
        feature = ALL_RESOURCES if watch.resource == "*" else WATCHES
        for resource in _resources(watch, config, catalogue):
            namespace = watch.namespace if resource.namespaced else None
            yield Permission(PermissionScope(resource.group, resource.plural, namespace), _VERBS, feature)


def reads_secrets(permission: Permission) -> bool:
    """Return True if the permission covers Secrets."""
    return (permission.scope.group, permission.scope.resource) == ("", "secrets")


def _resources(watch: WatchConfig, config: Config, catalogue: Catalogue | None) -> list[Resource]:
    known = _from_name(watch.resource)
    if catalogue is None:
        assert known is not None, "this name needs discovery"
        return [known]
    if watch.resource == "*":
        return catalogue.expand(config.exclude)
    try:
        return [catalogue.resolve(watch.resource)]
    except ConfigError:
        if known is None:
            raise
        return [known]  # the cluster may serve it later


def _from_name(name: str) -> Resource | None:
    """Parse kubectl's `plural[.version][.group]`; None if the group is missing. RBAC rules have no versions."""
    plural, *rest = name.split(".")
    version = rest.pop(0) if rest and _VERSION.fullmatch(rest[0]) else ""
    group = ".".join(rest)
    if not group and plural not in _CORE:
        return None
    return Resource(group, version, plural, namespaced=bool(group) or _CORE[plural])
