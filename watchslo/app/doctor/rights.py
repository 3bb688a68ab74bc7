"""Checks whether this identity may do what the configuration needs."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from watchslo.app.doctor.findings import DeploymentFinding, good, problem, unchecked, warning
from watchslo.kube.client import Client
from watchslo.kube.reviews import ReviewedAccess, may
from watchslo.model import resource_key
from watchslo.rbac.permissions import (
    APISERVER_COUNT,
    APISERVER_METRICS,
    CLUSTER_NAME,
    HIDDEN_APISERVERS,
    TICKS,
    WITNESSES,
    Feature,
    Permission,
    PermissionScope,
)
from watchslo.rbac.roles import build_roles
from watchslo.timeline.format import counted, some_of
from watchslo.watch.failure import Failure

SUBJECT = "rights"
REVIEWS_AT_ONCE = 8
REMEDY = (
    "Apply the output of `watchslo rbac --config FILE`, and run `watchslo doctor` as the identity of the daemon "
    "(kubectl exec in its pod)."
)
OPTIONAL = frozenset({APISERVER_COUNT, APISERVER_METRICS, CLUSTER_NAME, HIDDEN_APISERVERS, TICKS, WITNESSES})
"""Features without which watches are still measured: without the tick's own right, ticks read watched resources."""


@dataclass(frozen=True, slots=True)
class RequiredRight:
    """One verb on the objects, or on the path, of a scope."""

    scope: PermissionScope
    verb: str

    @property
    def resource(self) -> str:
        """The name that kubectl accepts, or the path."""
        if self.scope.path is not None:
            return self.scope.path
        return resource_key(self.scope.resource, self.scope.group)


Answers = Mapping[RequiredRight, bool | Failure]


def required_rights(permissions: Iterable[Permission]) -> dict[RequiredRight, tuple[Feature, ...]]:
    """Return the rights with the features that need them, as the roles of `watchslo rbac` grant them."""
    return {
        RequiredRight(PermissionScope(rule.group, resource, role.namespace, rule.name, rule.path), verb): rule.features
        for role in build_roles(permissions)
        for rule in role.rules
        for resource in rule.resources
        for verb in rule.verbs
    }


def rights_findings(
    needed: Mapping[RequiredRight, tuple[Feature, ...]], answers: Answers
) -> Iterator[DeploymentFinding]:
    """Yield what is missing, by feature, and what could not be reviewed."""
    denied: defaultdict[Feature, list[RequiredRight]] = defaultdict(list)
    for right, features in needed.items():
        if answers[right] is False:
            for feature in features:
                denied[feature].append(right)
    for feature, rights in sorted(denied.items()):
        found = warning if feature in OPTIONAL else problem
        yield found(SUBJECT, f"This identity may not {_named(rights)}: {feature.name} ({feature.explanation}).", REMEDY)
    failures = [answer.message for answer in answers.values() if isinstance(answer, Failure)]
    if failures:
        yield unchecked(SUBJECT, f"{counted(len(failures), 'right')} could not be reviewed. {failures[0]}")
    elif not denied:
        yield good(SUBJECT, f"This identity has all {counted(len(needed), 'right')} that the configuration needs.")


def _named(rights: Iterable[RequiredRight]) -> str:
    """Return `list and watch pods and nodes; create tokenreviews.authentication.k8s.io`."""
    verbs: defaultdict[str, list[str]] = defaultdict(list)
    for right in rights:
        verbs[right.resource].append(right.verb)
    resources: defaultdict[str, list[str]] = defaultdict(list)
    for resource, allowed in verbs.items():
        resources[" and ".join(dict.fromkeys(allowed))].append(resource)
    return "; ".join(f"{verb} {some_of(names)}" for verb, names in resources.items())


async def review_rights(client: Client, rights: Iterable[RequiredRight]) -> Answers:
    """Ask the apiserver for each right, by SelfSubjectAccessReviews."""
    turns = asyncio.Semaphore(REVIEWS_AT_ONCE)

    async def ask(right: RequiredRight) -> bool | Failure:
        scope = right.scope
        async with turns:
            access = ReviewedAccess(right.verb, scope.group, scope.resource, scope.namespace, scope.name, scope.path)
            return await may(client, access)

    asked = list(rights)
    return dict(zip(asked, await asyncio.gather(*map(ask, asked)), strict=True))
