"""Which rights a configuration needs, and what the findings say about the answers."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from tests.unit.app.doctor.shown import findings_transcript
from watchslo.app.doctor.rights import RequiredRight, required_rights, rights_findings
from watchslo.config.model import Config
from watchslo.kube.call import ABSENT_NAME
from watchslo.rbac.permissions import (
    APISERVER_METRICS,
    CLUSTER_NAME,
    EACH_APISERVER,
    HIDDEN_APISERVERS,
    TICKS,
    WATCHES,
    Feature,
    PermissionScope,
)
from watchslo.rbac.permissions import required_permissions as permissions_of
from watchslo.rbac.watched_resources import watch_permissions
from watchslo.watch.failure import Failure, Reason, because

TICK = RequiredRight(PermissionScope("", "events", "default", ABSENT_NAME), "list")
LEASES = RequiredRight(PermissionScope("coordination.k8s.io", "leases", "kube-system"), "list")
SLICES = PermissionScope("discovery.k8s.io", "endpointslices", "default")
PODS = PermissionScope("", "pods")
KUBE_SYSTEM = RequiredRight(PermissionScope("", "namespaces", None, "kube-system"), "get")
METRICS = RequiredRight(PermissionScope(path="/metrics"), "get")


def needed(*resources: str, **kubernetes: str | bool) -> dict[RequiredRight, tuple[Feature, ...]]:
    config = Config.model_validate({"watch": [{"resource": name} for name in resources], "kubernetes": kubernetes})
    return dict(required_rights(permissions_of(config, watch_permissions(config, None))))


RIGHTS = needed("pods", "nodes", apiservers="each", apiserverMetrics=True)
TIMEOUT = because(Reason.TIMEOUT)
DENIED: dict[str, dict[str, tuple[str, ...]]] = {
    "nothing is denied": {},
    "two resources": {"pods": ("list", "watch"), "nodes": ("list", "watch")},
    "one verb": {"pods": ("watch",)},
    "other verbs of two resources": {"nodes": ("list",), "pods": ("watch",)},
    "ticks": {"events": ("list",)},
    "addresses": {"endpointslices": ("list", "watch")},
    "leases": {"leases": ("list",)},
    "metrics of apiservers": {"": ("get",)},
    "rights of two features": {"pods": ("list",), "leases": ("list",)},
}


def test_required_rights_are_one_verb_each() -> None:
    assert needed("pods", apiservers="each", apiserverMetrics=True) == {
        RequiredRight(PODS, "list"): (WATCHES,),
        RequiredRight(PODS, "watch"): (WATCHES,),
        TICK: (TICKS,),
        replace(TICK, verb="watch"): (TICKS,),
        RequiredRight(SLICES, "list"): (EACH_APISERVER,),
        RequiredRight(SLICES, "watch"): (EACH_APISERVER,),
        LEASES: (HIDDEN_APISERVERS,),
        KUBE_SYSTEM: (CLUSTER_NAME,),
        METRICS: (APISERVER_METRICS,),
    }
    assert METRICS not in needed("pods")


def test_wider_right_covers_the_right_to_tick() -> None:
    found = needed("events")
    assert TICK not in found
    assert found[RequiredRight(PermissionScope("", "events"), "list")] == (TICKS, WATCHES)


def test_findings_match_golden_file(golden: Callable[[str, str], None]) -> None:
    answers: dict[str, Mapping[RequiredRight, bool | Failure]] = {
        name: {right: right.verb not in denied.get(right.scope.resource, ()) for right in RIGHTS}
        for name, denied in DENIED.items()
    }
    answers["two reviews fail"] = dict.fromkeys(RIGHTS, True) | {TICK: TIMEOUT, LEASES: TIMEOUT}
    golden("doctor/rights.txt", findings_transcript({name: rights_findings(RIGHTS, a) for name, a in answers.items()}))
