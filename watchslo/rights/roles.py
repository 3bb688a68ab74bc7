"""Roles made of needs: one for each namespace and one for the cluster, each right once, always in one order."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from watchslo.rights.needs import Feature, Need, Target


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """What may be done to resources of one API group, and the features that need it."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    features: tuple[Feature, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """Rules for one namespace, or without one for the whole cluster."""

    namespace: str | None
    rules: tuple[Rule, ...]


def roles(needs: Iterable[Need]) -> tuple[Role, ...]:
    """The roles that permit what is needed and nothing else; that of the cluster comes first."""
    wanted: dict[Target, dict[str, set[Feature]]] = defaultdict(lambda: defaultdict(set))
    found = list(needs)
    for need in found:
        for verb in need.verbs:
            wanted[_widest(need, verb, found)][verb].add(need.feature)
    merged: dict[str | None, dict[Rule, set[str]]] = defaultdict(lambda: defaultdict(set))
    for target, by_verb in wanted.items():
        features = tuple(sorted({feature for those in by_verb.values() for feature in those}))
        alike = Rule(target.group, (), tuple(sorted(by_verb)), features, target.name)
        merged[target.namespace][alike].add(target.resource)
    return tuple(
        Role(namespace, tuple(sorted(replace(rule, resources=tuple(sorted(names))) for rule, names in alike.items())))
        for namespace, alike in sorted(merged.items(), key=lambda item: item[0] or "")
    )


def _widest(need: Need, verb: str, needs: Iterable[Need]) -> Target:
    """What is permitted for another feature permits this one, too, where it holds its target."""
    wider = (other.target for other in needs if verb in other.verbs and other.target.holds(need.target))
    return min(wider, key=lambda target: (target.namespace is not None, target.name is not None))
