"""The permissions that a configuration needs, and the roles that `watchslo rbac` writes for them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

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


TICKS = "default list,watch events./watchslo-reads-nothing"
APISERVER_COUNT = {"default list endpointslices.discovery.k8s.io", "kube-system list leases.coordination.k8s.io"}


def watching(*resources: str, **more: Any) -> dict[str, Any]:
    return {"cluster": "prod", "watch": [{"resource": name, **more} for name in resources]}


class TestGoldenFiles:
    def test_roles_of_the_default_configuration(self, golden: Golden) -> None:
        golden("rbac-defaults.yaml", text())

    def test_roles_of_a_configuration_with_all_features(self, golden: Golden) -> None:
        configuration = EACH | {"watch": [{"resource": "*"}, {"resource": "pods", "namespace": "web", "name": "web"}]}
        configuration |= {"clock": {"namespace": "quiet"}, "server": {"authorization": "kubernetes"}}
        configuration |= {"kubernetes": {"apiservers": "each", "apiserverMetrics": True}}
        options = RbacOptions("monitoring", "late", include_secrets=True)
        golden("rbac-everything.yaml", text(CLUSTER, options, **configuration))


class TestRequiredPermissions:
    def test_watch_of_all_namespaces_needs_list_and_watch(self) -> None:
        assert permissions(**watching("pods")) == {"* list,watch pods", TICKS, *APISERVER_COUNT}

    def test_watch_of_one_namespace_needs_a_role_there_unless_cluster_scoped(self) -> None:
        assert permissions(**watching("pods", "nodes", namespace="web")) == {
            "web list,watch pods",
            "* list,watch nodes",
            "web list,watch events./watchslo-reads-nothing",
            *APISERVER_COUNT,
        }

    @pytest.mark.parametrize(
        ("namespaces", "clock", "expected"),
        [
            (["web"], {}, "web"),
            (["web", "shop"], {}, "web"),
            (["web", None], {}, "default"),
            (["web"], {"namespace": "default"}, "default"),
        ],
    )
    def test_ticks_need_a_right_where_everything_is_watched(
        self, namespaces: list[str | None], clock: dict[str, str], expected: str
    ) -> None:
        watches = [
            {"resource": "pods", "name": f"w{number}", "namespace": namespace}
            for number, namespace in enumerate(namespaces)
        ]
        found = permissions(cluster="prod", clock=clock, watch=watches)
        assert [one for one in found if "events" in one] == [f"{expected} list,watch events./watchslo-reads-nothing"]

    def test_permission_covered_by_another_feature_is_not_repeated(self) -> None:
        configuration = watching("events", "leases.coordination.k8s.io", "endpointslices.discovery.k8s.io")
        assert permissions(**EACH, **configuration) == {
            "* list,watch events",
            "* list,watch leases.coordination.k8s.io",
            "* list,watch endpointslices.discovery.k8s.io",
        }
        assert "# ticks, watches" in text(**configuration), "the comment names both features"

    def test_apiserver_metrics_need_one_path(self) -> None:
        wanted: dict[str, Any] = {"kubernetes": {"apiserverMetrics": True}}
        assert permissions(**watching("pods"), **wanted) - permissions(**watching("pods")) == {"* get /metrics"}

    @pytest.mark.parametrize("more", [{"clock": {"storage": "etcd"}}, {"limits": {"probesPerSecond": 0}}])
    def test_storage_that_is_not_probed_needs_no_watch(self, more: dict[str, Any]) -> None:
        assert permissions(**watching("pods"), **more) - permissions(**watching("pods")) == {
            "default list events./watchslo-reads-nothing"
        }

    def test_apiservers_each_adds_the_verb_watch(self) -> None:
        configuration = EACH | watching("pods") | {"clock": {"namespace": "quiet"}}
        assert permissions(**configuration) == {
            "* list,watch pods",
            "quiet list,watch events./watchslo-reads-nothing",
            "default list,watch endpointslices.discovery.k8s.io",
            "kube-system list leases.coordination.k8s.io",
        }

    def test_kubernetes_authorization_needs_reviews(self) -> None:
        configuration = watching("pods") | {"server": {"authorization": "kubernetes"}}
        assert permissions(**configuration) - permissions(**watching("pods")) == {
            "* create tokenreviews.authentication.k8s.io",
            "* create subjectaccessreviews.authorization.k8s.io",
        }

    @pytest.mark.parametrize("kubernetes", [{}, {"kubeconfig": "k"}, {"context": "c"}])
    def test_cluster_without_a_name_needs_the_uid_of_kube_system(self, kubernetes: dict[str, str]) -> None:
        """A context of a kubeconfig is a name."""
        named = watching("pods") | {"kubernetes": kubernetes}
        unnamed = {key: value for key, value in named.items() if key != "cluster"}
        added = permissions(**unnamed) - permissions(**named)
        assert added == (set() if kubernetes else {"* get namespaces./kube-system"})

    def test_namespaces_match_the_paths_that_are_read(self) -> None:
        assert f"/namespaces/{required.SLICES_NAMESPACE}/endpointslices" in SLICES
        assert f"/namespaces/{required.LEASES_NAMESPACE}/leases" in LEASES


class TestResourceNames:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("pods.v1", "pods"),
            ("deployments.apps", "deployments.apps"),
            ("deployments.v1.apps", "deployments.apps"),
            ("leases.coordination.k8s.io", "leases.coordination.k8s.io"),
            ("widgets.v1beta1.example.com", "widgets.example.com"),
        ],
    )
    def test_name_with_group_needs_no_discovery(self, name: str, expected: str) -> None:
        assert not needs_discovery(Config.model_validate(watching(name)))
        assert f"* list,watch {expected}" in permissions(**watching(name))

    @pytest.mark.parametrize("name", ["deployments", "*", "deployments.v1"])
    def test_name_without_group_needs_discovery(self, name: str) -> None:
        assert needs_discovery(Config.model_validate(watching(name)))

    def test_served_name_gets_its_group_and_scope_from_discovery(self) -> None:
        assert "* list,watch deployments.apps" in permissions(CLUSTER, **watching("deployments"))
        assert "* list,watch ponds.tests.invalid" in permissions(
            CLUSTER, **watching("ponds.tests.invalid", namespace="web")
        )

    def test_unserved_name_is_kept_with_group_and_refused_without(self) -> None:
        assert "* list,watch widgets.example.com" in permissions(CLUSTER, **watching("widgets.example.com"))
        with pytest.raises(ConfigError, match="serves no resource gadgets"):
            permissions(CLUSTER, **watching("gadgets"))


class TestSecrets:
    def test_secrets_are_left_out_with_a_notice(self) -> None:
        configuration = watching("*")
        assert permissions(CLUSTER, **configuration) == {
            "* list,watch pods",
            "* list,watch nodes",
            "* list,watch events",
            "* list,watch deployments.apps",
            "* list,watch ponds.tests.invalid",
            *APISERVER_COUNT,
        }
        assert f"# {LEFT_OUT}\n" in text(CLUSTER, **configuration)

    def test_secrets_are_included_by_option(self) -> None:
        options = RbacOptions(include_secrets=True)
        assert "* list,watch secrets" in permissions(CLUSTER, options, **watching("*"))
        assert LEFT_OUT not in text(CLUSTER, options, **watching("*"))

    def test_excluded_secrets_are_never_included(self) -> None:
        configuration = watching("*") | {"exclude": ["secrets", "nodes"]}
        assert "secrets" not in text(CLUSTER, RbacOptions(include_secrets=True), **configuration)
        assert "nodes" not in text(CLUSTER, **configuration)

    def test_named_secrets_are_left_out_without_the_option(self) -> None:
        assert "* list,watch secrets" not in permissions(**watching("secrets", "pods"))


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
