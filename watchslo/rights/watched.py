"""Which resources the watches of a configuration read: by their names alone, or by what the cluster serves."""

import re
from collections.abc import Iterator

from watchslo.config import Config, WatchConfig
from watchslo.errors import ConfigError
from watchslo.kube.discovery import Catalogue
from watchslo.model import Resource
from watchslo.rights.needs import ALL_THERE_IS, WATCHES, Need, Target

_CORE = {  # the watchable resources of the group without a name, and whether they are in namespaces
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


def asks_the_cluster(config: Config) -> bool:
    """Whether only the cluster can tell what some watch means: `"*"`, or a name without its group."""
    return any(_by_name(watch.resource) is None for watch in config.watch)


def watched(config: Config, catalogue: Catalogue | None) -> Iterator[Need]:
    """What the watches need; raises ConfigError for a name that means nothing in the cluster.

    The catalogue may only be missing where the cluster need not be asked.
    """
    for watch in config.watch:
        feature = ALL_THERE_IS if watch.resource == "*" else WATCHES
        for resource in _resources(watch, config, catalogue):
            namespace = watch.namespace if resource.namespaced else None
            yield Need(Target(resource.group, resource.plural, namespace), _VERBS, feature)


def is_secret(need: Need) -> bool:
    """Whether it would let somebody read the secrets of others."""
    return (need.target.group, need.target.resource) == ("", "secrets")


def _resources(watch: WatchConfig, config: Config, catalogue: Catalogue | None) -> list[Resource]:
    known = _by_name(watch.resource)
    if catalogue is None:
        assert known is not None, "the cluster has to be asked"
        return [known]
    if watch.resource == "*":
        return catalogue.expand(config.exclude)
    try:
        return [catalogue.resolve(watch.resource)]
    except ConfigError:
        if known is None:
            raise
        return [known]  # it may yet come to be served


def _by_name(name: str) -> Resource | None:
    """What kubectl's `plural[.version][.group]` says without asking anybody; rights know no versions."""
    plural, *rest = name.split(".")
    version = rest.pop(0) if rest and _VERSION.fullmatch(rest[0]) else ""
    group = ".".join(rest)
    if not group and plural not in _CORE:
        return None
    return Resource(group, version, plural, namespaced=bool(group) or _CORE[plural])
