"""Which rights a configuration needs, and how they are written down."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from watchslo.app.rights import LEFT_OUT, Question, manifests
from watchslo.config import Config
from watchslo.errors import ConfigError
from watchslo.kube.apiservers import LEASES, SLICES
from watchslo.kube.discovery import Catalogue, GroupVersion, Offer
from watchslo.model import Resource
from watchslo.rights import needs
from watchslo.rights.watched import asks_the_cluster

Golden = Callable[[str, str], None]
Documents = list[dict[str, Any]]
EACH: dict[str, Any] = {"kubernetes": {"apiservers": "each"}}
PLAIN = Question()
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


def text(catalogue: Catalogue | None = None, question: Question = PLAIN, **told: Any) -> str:
    return manifests(Config.model_validate(told), catalogue, question)[0]


def documents(catalogue: Catalogue | None = None, question: Question = PLAIN, **told: Any) -> Documents:
    return list(yaml.safe_load_all(text(catalogue, question, **told)))


def rights(catalogue: Catalogue | None = None, question: Question = PLAIN, **told: Any) -> set[str]:
    """Every right as `NAMESPACE VERBS RESOURCE.GROUP/NAME`, where `*` is the cluster."""
    return {
        f"{role['metadata'].get('namespace', '*')} {','.join(rule['verbs'])} {resource}.{group}/{name}".rstrip("./")
        for role in documents(catalogue, question, **told)
        for rule in role.get("rules", [])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }


TICKS = "default list events./watchslo-reads-nothing"
COUNTS = {"default list endpointslices.discovery.k8s.io", "kube-system list leases.coordination.k8s.io"}


def watching(*resources: str, **more: Any) -> dict[str, Any]:
    return {"watch": [{"resource": name, **more} for name in resources]}


class TestGolden:
    """All the text there is, of which people are to understand each line."""

    def test_of_the_defaults(self, golden: Golden) -> None:
        golden("rights-defaults.yaml", text())

    def test_of_all_there_is_to_permit(self, golden: Golden) -> None:
        told = EACH | {"watch": [{"resource": "*"}, {"resource": "pods", "namespace": "web", "name": "web"}]}
        told |= {"clock": {"namespace": "quiet"}, "server": {"authorization": "kubernetes"}}
        question = Question("monitoring", "late", include_secrets=True)
        golden("rights-everything.yaml", text(CLUSTER, question, **told))


class TestNeeds:
    def test_a_watch_and_what_everyone_needs(self) -> None:
        assert rights(**watching("pods")) == {"* list,watch pods", TICKS, *COUNTS}

    def test_of_one_namespace(self) -> None:
        assert rights(**watching("pods", "nodes", namespace="web")) == {
            "web list,watch pods",
            "* list,watch nodes",
            TICKS,
            *COUNTS,
        }

    def test_what_another_feature_needs_anyway_is_not_given_twice(self) -> None:
        told = watching("events", "leases.coordination.k8s.io", "endpointslices.discovery.k8s.io")
        assert rights(**EACH, **told) == {
            "* list,watch events",
            "* list,watch leases.coordination.k8s.io",
            "* list,watch endpointslices.discovery.k8s.io",
        }
        assert "# ticks, watches" in text(**told), "and yet it is said what it is for"

    def test_one_verb_of_two_may_be_there_already(self) -> None:
        told = EACH | watching("pods") | {"clock": {"namespace": "quiet"}}
        assert rights(**told) == {
            "* list,watch pods",
            "quiet list events./watchslo-reads-nothing",
            "default list,watch endpointslices.discovery.k8s.io",
            "kube-system list leases.coordination.k8s.io",
        }

    def test_reviews(self) -> None:
        told = watching("pods") | {"server": {"authorization": "kubernetes"}}
        assert rights(**told) - rights(**watching("pods")) == {
            "* create tokenreviews.authentication.k8s.io",
            "* create subjectaccessreviews.authorization.k8s.io",
        }

    def test_namespaces_are_those_that_are_asked(self) -> None:
        assert f"/namespaces/{needs.SLICES_NAMESPACE}/endpointslices" in SLICES
        assert f"/namespaces/{needs.LEASES_NAMESPACE}/leases" in LEASES


class TestNames:
    @pytest.mark.parametrize(
        ("name", "right"),
        [
            ("pods.v1", "pods"),
            ("deployments.apps", "deployments.apps"),
            ("deployments.v1.apps", "deployments.apps"),
            ("leases.coordination.k8s.io", "leases.coordination.k8s.io"),
            ("widgets.v1beta1.example.com", "widgets.example.com"),
        ],
    )
    def test_that_say_all(self, name: str, right: str) -> None:
        assert not asks_the_cluster(Config.model_validate(watching(name)))
        assert f"* list,watch {right}" in rights(**watching(name))

    @pytest.mark.parametrize("name", ["deployments", "*", "deployments.v1"])
    def test_that_only_the_cluster_knows(self, name: str) -> None:
        assert asks_the_cluster(Config.model_validate(watching(name)))

    def test_that_the_cluster_knows(self) -> None:
        assert "* list,watch deployments.apps" in rights(CLUSTER, **watching("deployments"))
        assert "* list,watch ponds.tests.invalid" in rights(CLUSTER, **watching("ponds.tests.invalid", namespace="web"))

    def test_that_nobody_serves_yet(self) -> None:
        assert "* list,watch widgets.example.com" in rights(CLUSTER, **watching("widgets.example.com"))
        with pytest.raises(ConfigError, match="serves no resource gadgets"):
            rights(CLUSTER, **watching("gadgets"))


class TestSecrets:
    def test_are_left_out_and_that_is_said(self) -> None:
        told = watching("*")
        assert rights(CLUSTER, **told) == {
            "* list,watch pods",
            "* list,watch nodes",
            "* list,watch events",
            "* list,watch deployments.apps",
            "* list,watch ponds.tests.invalid",
            *COUNTS,
        }
        assert f"# {LEFT_OUT}\n" in text(CLUSTER, **told)

    def test_are_given_if_that_is_said(self) -> None:
        question = Question(include_secrets=True)
        assert "* list,watch secrets" in rights(CLUSTER, question, **watching("*"))
        assert LEFT_OUT not in text(CLUSTER, question, **watching("*"))

    def test_that_are_excluded_are_none_of_our_business(self) -> None:
        told = watching("*") | {"exclude": ["secrets", "nodes"]}
        assert "secrets" not in text(CLUSTER, Question(include_secrets=True), **told)
        assert "nodes" not in text(CLUSTER, **told)

    def test_that_are_named_need_it_too(self) -> None:
        assert "* list,watch secrets" not in rights(**watching("secrets", "pods"))


def test_each_role_is_bound_to_the_service_account() -> None:
    found = documents(question=Question("monitoring", "late"), **watching("pods"))
    roles, bindings = found[::2], found[1::2]
    for role, binding in zip(roles, bindings, strict=True):
        assert binding["kind"] == f"{role['kind']}Binding"
        assert binding["roleRef"]["kind"] == role["kind"]
        assert {role["metadata"]["name"], binding["metadata"]["name"], binding["roleRef"]["name"]} == {"late"}
        assert binding["metadata"].get("namespace") == role["metadata"].get("namespace")
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "late", "namespace": "monitoring"}]


def test_the_order_of_the_configuration_does_not_matter() -> None:
    names = ["pods", "deployments.apps", "services", "jobs.batch"]
    assert text(**watching(*names)) == text(**watching(*reversed(names)))


def test_pages_name_the_rights_that_are_given() -> None:
    page = (Path(__file__).parents[3] / "docs/rights.md").read_text()
    given = documents(CLUSTER, Question(include_secrets=True), server={"authorization": "kubernetes"}, **EACH)
    for role in given:
        for rule in role.get("rules", []):
            for told in {*rule.get("resourceNames", []), role["metadata"].get("namespace", "")} - {""}:
                assert f"`{told}`" in page or f"[{told}]`" in page, told
    for resource in ("tokenreviews", "subjectaccessreviews", "endpointslices", "leases", "events"):
        assert f"`{resource}" in page, resource
