"""The permissions that a configuration needs, and the roles that `watchslo rbac` writes for them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.transcripts import of_states
from watchslo.app.rbac import LEFT_OUT, RbacOptions, manifests
from watchslo.config.model import Config
from watchslo.errors import ConfigError
from watchslo.kube.apiservers import LEASES, SLICES
from watchslo.kube.discovery import Catalogue, GroupVersion, Offer
from watchslo.model import Resource
from watchslo.rbac import permissions as required
from watchslo.rbac.watched_resources import needs_discovery

Golden = Callable[[str, str], None]
Documents = list[dict[str, Any]]
EACH: dict[str, Any] = {"kubernetes": {"apiservers": "each"}}
DEFAULTS = RbacOptions()
READ = frozenset({"list", "watch"})
CLUSTER = Catalogue(
    [
        GroupVersion(
            "",
            "v1",
            tuple(
                Offer(Resource("", "v1", plural, namespaced), READ)
                for plural, namespaced in (("pods", True), ("nodes", False), ("secrets", True), ("events", True))
            ),
        ),
        GroupVersion("apps", "v1", (Offer(Resource("apps", "v1", "deployments", namespaced=True), READ),)),
        GroupVersion("tests.invalid", "v1", (Offer(Resource("tests.invalid", "v1", "ponds", namespaced=False), READ),)),
    ]
)


def text(catalogue: Catalogue | None = None, options: RbacOptions = DEFAULTS, **configuration: Any) -> str:
    return manifests(Config.model_validate(configuration), catalogue, options)[0]


def documents(catalogue: Catalogue | None = None, options: RbacOptions = DEFAULTS, **configuration: Any) -> Documents:
    return list(yaml.safe_load_all(text(catalogue, options, **configuration)))


def permissions(catalogue: Catalogue | None = None, options: RbacOptions = DEFAULTS, **configuration: Any) -> set[str]:
    """Return each permission as `NAMESPACE VERBS RESOURCE.GROUP/NAME`; `*` stands for the cluster."""
    return {
        f"{role['metadata'].get('namespace', '*')} {','.join(rule['verbs'])} {resource}.{group}/{name}".rstrip("./")
        for role in documents(catalogue, options, **configuration)
        for rule in role.get("rules", [])
        for group in rule.get("apiGroups", [""])
        for resource in rule.get("resources") or rule["nonResourceURLs"]
        for name in rule.get("resourceNames", [""])
    }


def watching(*resources: str, **more: Any) -> dict[str, Any]:
    return {"cluster": "prod", "watch": [{"resource": name, **more} for name in resources]}


def in_namespaces(*namespaces: str | None) -> dict[str, Any]:
    """Watch pods in each of these namespaces; None stands for all."""
    watches = [{"resource": "pods", "name": f"w{n}", "namespace": name} for n, name in enumerate(namespaces)]
    return {"cluster": "prod", "watch": watches}


PODS = watching("pods")
ALL = watching("*")
SECRETS = RbacOptions(include_secrets=True)
WITH_TOKEN = {"name": "a", "url": "https://a/metrics", "authorization": "kubernetes"}
WITHOUT_TOKEN = {"name": "c", "url": "https://c/own"}
FEATURES = watching("events", "leases.coordination.k8s.io", "endpointslices.discovery.k8s.io")


def found_permissions() -> dict[str, set[str]]:
    """Return the permissions of each configuration, by what is special about it."""
    return {
        "pods": permissions(**PODS),
        "pods and nodes of one namespace": permissions(**watching("pods", "nodes", namespace="web")),
        "namespace web": permissions(**watching("pods", namespace="web")),
        "namespaces web and shop": permissions(**in_namespaces("web", "shop")),
        "namespace web, and all": permissions(**in_namespaces("web", None)),
        "namespace web, with ticks in default": permissions(**in_namespaces("web"), clock={"namespace": "default"}),
        "what other features need": permissions(**EACH, **FEATURES),
        "metrics of apiservers": permissions(**PODS, kubernetes={"apiserverMetrics": True}),
        "metrics of programs": permissions(**PODS, clients=[WITH_TOKEN, {**WITH_TOKEN, "name": "b"}, WITHOUT_TOKEN]),
        "known storage": permissions(**PODS, clock={"storage": "etcd"}),
        "no probes": permissions(**PODS, limits={"probesPerSecond": 0}),
        "each apiserver": permissions(**EACH, **PODS, clock={"namespace": "quiet"}),
        "authorization by Kubernetes": permissions(**PODS, server={"authorization": "kubernetes"}),
        **{
            f"no name of the cluster, but {kubernetes}": permissions(watch=PODS["watch"], kubernetes=kubernetes)
            for kubernetes in ({}, {"kubeconfig": "k"}, {"context": "c"})
        },
        **{
            name: permissions(**watching(name))
            for name in ("pods.v1", "deployments.v1.apps", "leases.coordination.k8s.io", "widgets.v1beta1.example.com")
        },
        "deployments, whose group is discovered": permissions(CLUSTER, **watching("deployments")),
        "ponds, whose scope is discovered": permissions(CLUSTER, **watching("ponds.tests.invalid", namespace="web")),
        "widgets, which are not served": permissions(CLUSTER, **watching("widgets.example.com")),
        "all, without secrets": permissions(CLUSTER, **ALL),
        "all, with secrets": permissions(CLUSTER, SECRETS, **ALL),
        "all, with secrets that are excluded": permissions(CLUSTER, SECRETS, **ALL, exclude=["secrets", "nodes"]),
        "secrets without the option": permissions(**watching("secrets", "pods")),
    }


def test_permissions_match_golden_file(golden: Golden) -> None:
    """`*` stands for the cluster, any other first word for a namespace."""
    golden("rbac-permissions.txt", of_states({name: sorted(found) for name, found in found_permissions().items()}))


def test_roles_of_the_default_configuration(golden: Golden) -> None:
    golden("rbac-defaults.yaml", text())


def test_roles_of_a_configuration_with_all_features(golden: Golden) -> None:
    configuration = EACH | {"watch": [{"resource": "*"}, {"resource": "pods", "namespace": "web", "name": "web"}]}
    configuration |= {"clock": {"namespace": "quiet"}, "server": {"authorization": "kubernetes"}}
    configuration |= {"kubernetes": {"apiservers": "each", "apiserverMetrics": True}}
    configuration |= {"clients": [WITH_TOKEN]}
    options = RbacOptions("monitoring", "late", include_secrets=True)
    golden("rbac-everything.yaml", text(CLUSTER, options, **configuration))


def test_comment_names_both_features_that_need_a_permission() -> None:
    assert "# ticks, watches" in text(**FEATURES)


def test_namespaces_match_the_paths_that_are_read() -> None:
    assert f"/namespaces/{required.SLICES_NAMESPACE}/endpointslices" in SLICES
    assert f"/namespaces/{required.LEASES_NAMESPACE}/leases" in LEASES


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        *((name, False) for name in ("pods.v1", "deployments.apps", "deployments.v1.apps", "widgets.v1beta1.x.com")),
        *((name, True) for name in ("deployments", "*", "deployments.v1")),
    ],
)
def test_only_a_name_without_group_needs_discovery(name: str, *, needs: bool) -> None:
    assert needs_discovery(Config.model_validate(watching(name))) is needs


def test_unserved_name_without_group_is_refused() -> None:
    with pytest.raises(ConfigError, match="serves no resource gadgets"):
        permissions(CLUSTER, **watching("gadgets"))


def test_notice_says_that_secrets_are_left_out() -> None:
    assert f"# {LEFT_OUT}\n" in text(CLUSTER, **ALL)
    assert LEFT_OUT not in text(CLUSTER, SECRETS, **ALL)


def test_each_role_is_bound_to_the_service_account() -> None:
    found = documents(options=RbacOptions("monitoring", "late"), **watching("pods"))
    roles, bindings = found[::2], found[1::2]
    for role, binding in zip(roles, bindings, strict=True):
        assert binding["kind"] == f"{role['kind']}Binding"
        assert binding["roleRef"]["kind"] == role["kind"]
        assert {role["metadata"]["name"], binding["metadata"]["name"], binding["roleRef"]["name"]} == {"late"}
        assert binding["metadata"].get("namespace") == role["metadata"].get("namespace")
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "late", "namespace": "monitoring"}]


@pytest.mark.parametrize(
    ("options", "kind"), [(RbacOptions(user="alice"), "User"), (RbacOptions(group="alice"), "Group")]
)
def test_roles_may_be_bound_to_people(options: RbacOptions, kind: str) -> None:
    bindings = documents(options=options, **watching("pods"))[1::2]
    subject = {"kind": kind, "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}
    assert [binding["subjects"] for binding in bindings] == [[subject]] * len(bindings)
    with pytest.raises(ConfigError, match=r"^--user and --group: "):
        documents(options=RbacOptions(user="alice", group="sre"), **watching("pods"))


def test_order_of_watches_does_not_change_the_output() -> None:
    names = ["pods", "deployments.apps", "services", "jobs.batch"]
    assert text(**watching(*names)) == text(**watching(*reversed(names)))


def test_rights_page_names_every_permission() -> None:
    page = (Path(__file__).parents[3] / "docs/rights.md").read_text()
    roles = documents(CLUSTER, RbacOptions(include_secrets=True), server={"authorization": "kubernetes"}, **EACH)
    for role in roles:
        for rule in role.get("rules", []):
            for expected in {*rule.get("resourceNames", []), role["metadata"].get("namespace", "")} - {""}:
                assert f"`{expected}`" in page or f"[{expected}]`" in page, expected
    for resource in ("tokenreviews", "subjectaccessreviews", "endpointslices", "leases", "events"):
        assert f"`{resource}" in page, resource
