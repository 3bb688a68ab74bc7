"""Which rights a configuration needs, and what the findings say about the answers."""

from dataclasses import replace

import pytest

from watchslo.app.doctor.findings import FindingLevel
from watchslo.app.doctor.rights import RequiredRight, required_rights, rights_findings
from watchslo.config.model import Config
from watchslo.kube.client import ABSENT_NAME
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
from watchslo.watch.failure import Reason, because

TICK = RequiredRight(PermissionScope("", "events", "default", ABSENT_NAME), "list")
LEASES = RequiredRight(PermissionScope("coordination.k8s.io", "leases", "kube-system"), "list")
SLICES = PermissionScope("discovery.k8s.io", "endpointslices", "default")
PODS = PermissionScope("", "pods")
KUBE_SYSTEM = RequiredRight(PermissionScope("", "namespaces", None, "kube-system"), "get")
PODS_LISTED = RequiredRight(PODS, "list")


def needed(*resources: str, **kubernetes: str | bool) -> dict[RequiredRight, tuple[Feature, ...]]:
    config = Config.model_validate({"watch": [{"resource": name} for name in resources], "kubernetes": kubernetes})
    return dict(required_rights(permissions_of(config, watch_permissions(config, None))))


def test_required_rights_are_one_verb_each() -> None:
    assert needed("pods", apiservers="each") == {
        RequiredRight(PODS, "list"): (WATCHES,),
        RequiredRight(PODS, "watch"): (WATCHES,),
        TICK: (TICKS,),
        replace(TICK, verb="watch"): (TICKS,),
        RequiredRight(SLICES, "list"): (EACH_APISERVER,),
        RequiredRight(SLICES, "watch"): (EACH_APISERVER,),
        LEASES: (HIDDEN_APISERVERS,),
        KUBE_SYSTEM: (CLUSTER_NAME,),
    }


def test_apiserver_metrics_are_an_optional_right_to_a_path() -> None:
    right = RequiredRight(PermissionScope(path="/metrics"), "get")
    found = needed("pods", apiserverMetrics=True)
    assert found[right] == (APISERVER_METRICS,)
    (finding,) = rights_findings(found, dict.fromkeys(found, True) | {right: False})
    assert finding.level is FindingLevel.WARNING
    assert finding.text.startswith("This identity may not get /metrics: kubernetes.apiserverMetrics (")


def test_wider_right_covers_the_right_to_tick() -> None:
    found = needed("events")
    assert TICK not in found
    assert found[RequiredRight(PermissionScope("", "events"), "list")] == (TICKS, WATCHES)


def config_rights() -> dict[RequiredRight, tuple[Feature, ...]]:
    return needed("pods", "nodes", apiservers="each")


def test_all_rights_are_one_good_finding() -> None:
    rights = config_rights()
    (finding,) = rights_findings(rights, dict.fromkeys(rights, True))
    assert finding.level is FindingLevel.GOOD
    assert finding.text == "This identity has all 10 rights that the configuration needs."


@pytest.mark.parametrize(
    ("denied", "level", "text"),
    [
        (
            {"pods": ("list", "watch"), "nodes": ("list", "watch")},
            FindingLevel.PROBLEM,
            "list and watch nodes and pods",
        ),
        ({"pods": ("watch",)}, FindingLevel.PROBLEM, "watch pods: watches ("),
        ({"nodes": ("list",), "pods": ("watch",)}, FindingLevel.PROBLEM, "list nodes; watch pods"),
        ({"events": ("list",)}, FindingLevel.WARNING, "list events: ticks ("),
        ({"endpointslices": ("list", "watch")}, FindingLevel.PROBLEM, "list and watch endpointslices.discovery.k8s.io"),
        ({"leases": ("list",)}, FindingLevel.WARNING, "list leases.coordination.k8s.io: hidden apiservers ("),
    ],
)
def test_missing_rights_are_named_with_their_feature(
    denied: dict[str, tuple[str, ...]], level: FindingLevel, text: str
) -> None:
    rights = config_rights()
    answers = {right: right.verb not in denied.get(right.scope.resource, ()) for right in rights}
    (finding,) = rights_findings(rights, answers)
    assert finding.level is level
    assert f"This identity may not {text}" in finding.text
    assert "watchslo rbac" in finding.remedy


def test_missing_rights_of_two_features_are_two_findings() -> None:
    rights = config_rights()
    found = [*rights_findings(rights, {right: right not in (PODS_LISTED, LEASES) for right in rights})]
    assert [finding.level for finding in found] == [FindingLevel.WARNING, FindingLevel.PROBLEM]


def test_failed_reviews_are_no_denial() -> None:
    rights = config_rights()
    answers = dict.fromkeys(rights, True) | {TICK: because(Reason.TIMEOUT), LEASES: because(Reason.TIMEOUT)}
    (finding,) = rights_findings(rights, answers)
    assert finding.level is FindingLevel.UNCHECKED
    assert finding.text == "2 rights could not be reviewed. The apiserver does not answer in time."
