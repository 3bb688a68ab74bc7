"""The manifests in deploy, as kustomize and Helm render them: both make the same objects, of the same choices."""

import json
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from tests.support.kubectl import (
    DEPLOY,
    ROOT,
    Objects,
    as_text,
    by_identity,
    charted,
    helm,
    kustomized,
    overlay,
    parsed,
)
from tools.manifests.files import POD_ENVIRONMENT, WITH_OWN_WATCHES
from watchslo.app.rbac import RbacOptions, manifests
from watchslo.config.loading import load
from watchslo.rules.pack import rule_file, rule_groups
from watchslo.rules.settings import RuleSettings

pytestmark = pytest.mark.xdist_group("manifests")

PROFILES = ("control-plane", "managed", "node", "sharded")
COMPONENTS = ("authorization", "flow-schema", "host-network", "service-monitor", "tls")
PROTECTED = ("authorization=true", "flowSchema=true", "hostNetwork=true", "tlsSecret=watchslo-tls")
SECRET_CHOICE = ("authorization=true", "scraper.tokenSecret=true")
OWN_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
ACCOUNT_OF_PROMETHEUS = {"kind": "ServiceAccount", "name": "prometheus-k8s", "namespace": "monitoring"}
DIGEST = "sha256:" + "0123456789abcdef" * 4
each_profile = pytest.mark.parametrize("profile", PROFILES)


def at(objects: Objects, path: str) -> Any:
    """Return what a path leads to, such as `Deployment/spec/replicas`, from the only object of a kind; None if nothing.

    `Kind:NAME` is the object of a name.
    """
    kind, *keys = path.split("/")
    kind, _, name = kind.partition(":")
    found = [one for one in objects if one["kind"] == kind and name in ("", one["metadata"]["name"])]
    assert len(found) <= 1, f"{len(found)} objects of the kind {kind}"
    part: Any = found[0] if found else {}
    for key in keys:
        part = part[int(key)] if isinstance(part, list) else part.get(key, {})
    return part or None


# --- what is in an overlay, and the same in the chart -----------------------------------------------------------------


def test_overlay_for_k3s_has_its_profile_without_the_objects_of_the_prometheus_operator() -> None:
    whole, own = (kustomized(DEPLOY / "overlays" / name) for name in ("control-plane", "k3s"))
    assert {one["kind"] for one in whole} - {one["kind"] for one in own} == {"PodMonitor", "PrometheusRule"}


@each_profile
def test_chart_renders_the_same_objects_as_the_overlay(profile: str) -> None:
    assert by_identity(charted(f"profile={profile}")) == by_identity(kustomized(DEPLOY / "overlays" / profile))


@each_profile
def test_chart_with_all_alerts_renders_the_warnings_of_the_profile_as_well(profile: str) -> None:
    folders = (DEPLOY / "overlays" / profile, DEPLOY / "chart/profiles" / profile / "warnings")
    expected = [made for folder in folders for made in kustomized(folder)]
    assert by_identity(charted(f"profile={profile}", "alerts=all")) == by_identity(expected)


@each_profile
def test_chart_without_alerts_still_records(profile: str) -> None:
    groups = at(charted(f"profile={profile}", "alerts=none"), "PrometheusRule/spec/groups")
    assert {key for group in groups for rule in group["rules"] for key in rule} == {"record", "expr"}
    assert all(group["rules"] for group in groups)


@each_profile
def test_chart_renders_the_same_objects_as_the_components(profile: str, tmp_path: Path) -> None:
    made = by_identity(charted(f"profile={profile}", *PROTECTED, "scraper.monitor=ServiceMonitor"))
    assert made == by_identity(overlay(tmp_path, profile, *COMPONENTS))
    assert made == by_identity(overlay(tmp_path, profile, *reversed(COMPONENTS))), "their order does not matter"


def test_authorization_uses_the_own_token_of_prometheus(tmp_path: Path) -> None:
    made = overlay(tmp_path, "managed", "authorization")
    assert by_identity(made) == by_identity(charted("profile=managed", "authorization=true"))
    assert at(made, "ClusterRoleBinding:watchslo-reader/subjects") == [ACCOUNT_OF_PROMETHEUS]
    assert at(made, "ServiceMonitor/spec/endpoints/0/bearerTokenFile") == OWN_TOKEN
    assert at(made, "ServiceMonitor/spec/endpoints/0/authorization") is None, "Prometheus accepts only one of both"
    assert at(made, "PodMonitor") is None


def test_secret_is_a_choice_of_its_own(tmp_path: Path) -> None:
    made = overlay(tmp_path, "managed", "authorization-secret")
    eternal = [one["metadata"]["name"] for one in made if one.get("type") == "kubernetes.io/service-account-token"]
    assert eternal == ["watchslo-reader"]
    assert by_identity(made) == by_identity(charted("profile=managed", *SECRET_CHOICE))
    sent = {"credentials": {"name": "watchslo-reader", "key": "token"}}
    assert at(made, "PodMonitor/spec/podMetricsEndpoints/0/authorization") == sent
    other = by_identity(overlay(tmp_path, "managed", "authorization-secret", "service-monitor"))
    assert other == by_identity(overlay(tmp_path, "managed", "service-monitor", "authorization-secret"))
    assert other == by_identity(charted("profile=managed", *SECRET_CHOICE, "scraper.monitor=ServiceMonitor"))


def test_chart_omits_the_same_objects_as_the_components(tmp_path: Path) -> None:
    plain = charted("profile=node", "scraper.monitor=none")
    assert by_identity(plain) == by_identity(overlay(tmp_path, "node", "without-operator"))
    own = charted("profile=node", "config=paused: true")
    assert by_identity(own).keys() == by_identity(overlay(tmp_path, "node", "own-configuration")).keys()
    assert at(own, "ConfigMap:watchslo-node/data") == {"watchslo.yaml": "paused: true"}


def test_chart_that_has_lost_its_link_to_the_dashboards_is_refused(tmp_path: Path) -> None:
    """Git for Windows writes the target of a link into a file."""
    chart = tmp_path / "chart"
    shutil.copytree(DEPLOY / "chart", chart, ignore=shutil.ignore_patterns("dashboards"))
    (chart / "dashboards").write_text("../../dashboards")
    done = helm("template", chart=chart)
    assert done.returncode != 0
    assert "this copy of the repository has lost the link deploy/chart/dashboards" in done.stderr
    assert helm("template", "--set", "shared=false", chart=chart).returncode == 0


# --- values of the chart ----------------------------------------------------------------------------------------------

TEMPLATE = "Deployment/spec/template"
POD = f"{TEMPLATE}/spec"
READER = "ClusterRoleBinding:watchslo-reader/subjects/0"
SCRAPE_CLASS = ("authorization=true", "scraper.scrapeClass=own-token")
REMOVABLE = ("imagePullSecrets", "labels", "podAnnotations", "egress", "extraEnv")
VALUES: Mapping[tuple[str, ...], Mapping[str, Any]] = {
    ("scraper.namespace=observability", "scraper.labels.release=prometheus"): {
        "NetworkPolicy/spec/ingress/0/from/0/namespaceSelector/matchLabels": {
            "kubernetes.io/metadata.name": "observability"
        },
        "PodMonitor/metadata/labels/release": "prometheus",
        "PrometheusRule/metadata/labels/release": "prometheus",
    },
    (
        "image.repository=registry.example.org/watchslo",
        "image.tag=1.2.3",
        "nodeSelector.disk=fast",
        "tolerations[0].operator=Exists",
        "resources.limits.memory=1Gi",
        "affinity.nodeAffinity.x=y",
        "topologySpreadConstraints[0].maxSkew=2",
        "replicas=5",
        "imagePullSecrets[0].name=registry",
        "podAnnotations.mesh=none",
        "egress[0].to[0].ipBlock.cidr=10.0.3.0/24",
    ): {
        f"{POD}/containers/0/image": "registry.example.org/watchslo:1.2.3",
        f"{POD}/containers/0/resources": {"limits": {"memory": "1Gi"}},
        f"{POD}/nodeSelector": {"kubernetes.io/os": "linux", "disk": "fast"},
        f"{POD}/tolerations": [{"operator": "Exists"}],
        f"{POD}/affinity": {"nodeAffinity": {"x": "y"}},
        f"{POD}/topologySpreadConstraints": [{"maxSkew": 2}],
        f"{POD}/imagePullSecrets": [{"name": "registry"}],
        f"{TEMPLATE}/metadata/annotations": {"mesh": "none"},
        "Deployment/spec/replicas": 5,
        "NetworkPolicy/spec/egress": [{"to": [{"ipBlock": {"cidr": "10.0.3.0/24"}}]}],
    },
    (f"image.digest={DIGEST}",): {f"{POD}/containers/0/image": f"watchslo@{DIGEST}"},
    ("shared=false",): {"PriorityClass": None},
    # A new pod takes the threshold, and no rule names it.
    ("objective.threshold=2500ms",): {f"{TEMPLATE}/metadata/annotations": {"watchslo/threshold": "2500ms"}},
    ("rules=false", "networkPolicy=false", "serviceAccount.annotations.role=reader"): {
        "PrometheusRule": None,
        "NetworkPolicy": None,
        "ServiceAccount/metadata/annotations/role": "reader",
    },
    ("extraEnv[0].name=HTTPS_PROXY", "extraEnv[0].value=http://proxy:3128"): {
        f"{POD}/containers/0/env/3": {"name": "HTTPS_PROXY", "value": "http://proxy:3128"}
    },
    # Another priority class replaces ours.
    ("priorityClassName=system-cluster-critical",): {
        f"{POD}/priorityClassName": "system-cluster-critical",
        "PriorityClass": None,
    },
    ("authorization=true", "scraper.serviceAccount=prometheus", "scraper.namespace=observability"): {
        READER: ACCOUNT_OF_PROMETHEUS | {"name": "prometheus", "namespace": "observability"}
    },
    # A scrape class sends the token instead of the monitor.
    (*SCRAPE_CLASS, "scraper.monitor=PodMonitor"): {
        "PodMonitor/spec/scrapeClass": "own-token",
        "PodMonitor/spec/podMetricsEndpoints/0/authorization": None,
        "PodMonitor/spec/podMetricsEndpoints/0/bearerTokenFile": None,
    },
    (*SCRAPE_CLASS, "scraper.monitor=ServiceMonitor"): {
        "ServiceMonitor/spec/scrapeClass": "own-token",
        "ServiceMonitor/spec/endpoints/0/authorization": None,
        "ServiceMonitor/spec/endpoints/0/bearerTokenFile": None,
    },
    # Null removes a value.
    tuple(f"{name}=null" for name in (*REMOVABLE, "profiles.managed.priorityClassName")): {
        f"{POD}/priorityClassName": None
    },
}
"""Values of the profile `managed`, and what is then in its objects."""


@pytest.mark.parametrize("values", VALUES, ids=lambda values: values[0])
def test_values_reach_the_objects(values: tuple[str, ...]) -> None:
    made = charted("profile=managed", *values)
    assert {path: at(made, path) for path in VALUES[values]} == VALUES[values]


def test_labels_are_those_of_all_objects_but_select_none() -> None:
    made = charted("profile=managed", "labels.team=platform")
    assert {at(made, f"{TEMPLATE}/metadata/labels/team"), *(one["metadata"]["labels"]["team"] for one in made)} == {
        "platform"
    }
    assert "platform" not in as_text([at(made, "Deployment/spec/selector"), at(made, "Service/spec")])


def test_runbooks_can_be_at_another_address() -> None:
    made = charted("profile=managed", "runbooks=https://example.org/runbooks/")
    rules = [rule for group in at(made, "PrometheusRule/spec/groups") for rule in group["rules"] if "alert" in rule]
    assert rules
    for rule in rules:
        assert rule["annotations"]["runbook_url"] == f"https://example.org/runbooks/{rule['alert']}.md"


def test_dashboards_can_be_left_out() -> None:
    names = [{one["metadata"]["name"] for one in charted(f"dashboards={value}")} for value in ("true", "false")]
    assert {name.startswith("dashboard-") for name in names[0] - names[1]} == {True}
    assert names[1] < names[0]


WATCHED = (
    "",
    "leases.coordination.k8s.io",
    "leases.coordination.k8s.io,pods,endpointslices.discovery.k8s.io",
    "nodes,widgets.example.org",
)


@pytest.mark.parametrize(
    ("cluster", "threshold", "grafana"), [("", "", ""), ("prod: eu", "2500ms", "https://grafana.example.org/")]
)
@pytest.mark.parametrize(
    ("profile", "watch"),
    [(profile, watch) for profile in PROFILES for watch in WATCHED if not (watch and profile in WITH_OWN_WATCHES)],
)
def test_rights_and_rules_are_those_of_the_configuration(
    profile: str, watch: str, cluster: str, threshold: str, grafana: str, tmp_path: Path
) -> None:
    own = (f"cluster={cluster}", f"objective.threshold={threshold}", f"grafana={grafana}", "alerts=all")
    made = charted(f"profile={profile}", *own, *([f"watch={{{watch}}}"] if watch else ()))
    (tmp_path / "watchslo.yaml").write_text(at(made, f"ConfigMap:watchslo-{profile}/data/watchslo.yaml"))
    config, _ = load(tmp_path / "watchslo.yaml", POD_ENVIRONMENT)
    assert config.cluster == (cluster or None)
    assert config.objective.threshold == (2.5 if threshold else 1.0)
    if watch:
        assert [watched.resource for watched in config.watch] == watch.split(",")
    assert granted(made) == granted(parsed(manifests(config, None, RbacOptions())[0]))
    rules = rule_groups(config, RuleSettings(job_selector=f'job="watchslo-{profile}"', grafana=grafana))
    written = [rule for group in rule_file(rules)["groups"] for rule in group["rules"]]
    objects = (at(made, f"PrometheusRule:watchslo-{profile}{part}/spec/groups") for part in ("", "-warnings"))
    assert in_order(rule for groups in objects for group in groups for rule in group["rules"]) == in_order(written)


def in_order(rules: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rules, key=lambda rule: json.dumps(rule, sort_keys=True))


def granted(objects: Objects) -> set[tuple[str, ...]]:
    """Return the rights of roles: namespace, group, resource, name, verb. A wider one takes the place of others."""
    rights = {
        (one["metadata"].get("namespace", "") if one["kind"] == "Role" else "", group, resource, name, verb)
        for one in objects
        if one["kind"] in ("Role", "ClusterRole")
        for rule in one["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }
    return {
        (namespace, group, resource, name, verb)
        for namespace, group, resource, name, verb in rights
        if not (namespace or name) or ("", group, resource, "", verb) not in rights
    }


def test_flow_schema_selects_only_our_accounts() -> None:
    """A release may share a namespace with Prometheus, which must not use the share of watchslo."""
    made = parsed(helm("template", "--namespace", "monitoring", "--set", "flowSchema=true").stdout)
    subjects = at(made, "FlowSchema/spec/rules/0/subjects")
    accounts = [{"namespace": "monitoring", "name": f"watchslo-{profile}"} for profile in PROFILES]
    assert [subject["serviceAccount"] for subject in subjects] == accounts
    assert len(at(made, "FlowSchema/spec/rules")) == 1


@pytest.mark.parametrize("profile", ["managed", "node", "sharded"])
def test_another_name_is_that_of_all_objects_and_of_the_job(profile: str) -> None:
    values = (f"profile={profile}", "alerts=all", "shared=false", *PROTECTED)
    named, usual = (charted(*values, f"fullnameOverride={name}") for name in ("other", ""))
    renamed = json.loads(json.dumps(usual).replace(f"watchslo-{profile}", "other"))
    assert by_identity(named) == by_identity(renamed)


def test_second_release_shares_no_object_with_the_first() -> None:
    first, second = charted("profile=managed", *PROTECTED), charted("profile=node", "shared=false", *PROTECTED)
    assert by_identity(first).keys().isdisjoint(by_identity(second).keys())
    assert at(second, "ServiceMonitor/spec/endpoints/0/bearerTokenFile") == OWN_TOKEN


@pytest.mark.parametrize(
    ("values", "reference"), [((), "pods"), (("reference=jobs.batch",), "jobs.batch"), (("reference=none",), None)]
)
def test_reference_names_the_resource_whose_whole_objects_are_watched(
    values: tuple[str, ...], reference: str | None
) -> None:
    config = at(charted("profile=control-plane", *values), "ConfigMap:watchslo-control-plane/data/watchslo.yaml")
    assert yaml.safe_load(config)["reference"] == reference


HOSTILE = 'x"}\n  - {kind: Group, name: "system:authenticated"}\n# \\'


def test_value_of_the_chart_is_text_at_its_place_and_nothing_else() -> None:
    """A person who may set values may lack rights, so a value must not add a subject, for example."""

    def made(text: str) -> Any:
        values = {
            "scraper": {"serviceAccount": text, "namespace": text, "scrapeClass": text, "labels": {text: text}},
            "image": {"repository": text, "tag": text},
            **dict.fromkeys(("tlsSecret", "priorityClassName", "config", "cluster"), text),
            **{key: {text: text} for key in ("labels", "podAnnotations", "nodeSelector")},
            "profiles": {"managed": {"env": {text: text}, "spread": [text]}, text: {}},
            "authorization": True,
            "flowSchema": True,
        }
        options = [option for key, value in values.items() for option in ("--set-json", f"{key}={json.dumps(value)}")]
        done = helm("template", *options)
        assert done.returncode == 0, done.stderr
        return parsed(done.stdout)

    def harmless(part: Any) -> Any:
        match part:
            case dict():
                return {harmless(key): harmless(value) for key, value in part.items()}
            case list():
                return [harmless(value) for value in part]
            case str():
                return part.replace(HOSTILE, "text")
        return part

    assert harmless(made(HOSTILE)) == made("text")


OUTSIDE_OF_SCHEMA = "values don't meet the specifications of the schema"
INVALID = {
    **dict.fromkeys(
        (
            "profile=nodes",
            "imge.tag=1",
            "replicas=0",
            "scraper.monitor=Probe",
            "scraper.serviceAccount=",
            "scraper.tokenSecret=watchslo-reader",
            "image.digest=latest",
            "runbooks=docs/runbooks",
            "watch={deployments}",
            "watch={widgets.v1.example.org}",
            "watch={*}",
        ),
        OUTSIDE_OF_SCHEMA,
    ),
    "profile=node,watch={pods}": "remove the value watch",
    "authorization=true,scraper.monitor=PodMonitor": "a PodMonitor needs scraper.scrapeClass or scraper.tokenSecret",
}


@pytest.mark.parametrize("values", INVALID)
def test_chart_refuses_invalid_values(values: str) -> None:
    done = helm("template", "--set", values)
    assert done.returncode != 0
    assert INVALID[values] in done.stderr


def test_helm_lint_finds_nothing() -> None:
    done = helm("lint", "--strict")
    assert done.returncode == 0, done.stdout


# --- the kustomizations of deploy/README.md ---------------------------------------------------------------------------

README = (DEPLOY / "README.md").read_text()
BLOCKS = tuple(dedent(block) for block in re.findall(r"```yaml\n(.*?) *```", README, re.DOTALL))


def built(block: str, folder: Path) -> Objects:
    """Return the objects of a kustomization next to a clone named `watchslo`."""
    if not (folder / "watchslo").exists():
        (folder / "watchslo").symlink_to(ROOT)
    (folder / "watchslo.yaml").write_text("paused: true\n")
    (folder / "kustomization.yaml").write_text(block)
    return kustomized(folder)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_documented_kustomizations_can_be_built(block: str, tmp_path: Path) -> None:
    assert built(block, tmp_path)


def test_documented_parameters_reach_the_objects(tmp_path: Path) -> None:
    (block,) = (block for block in BLOCKS if "observability" in block)
    text = as_text(built(block, tmp_path))
    assert text.count("release: kube-prometheus-stack") == 2
    for part in ("name: observability", "cidr: 10.0.3.0/24", "registry.example.org/watchslo:0.1.0", "512Mi"):
        assert part in text
    # The patch of the account needs the component.
    protected = block.replace("patches:", "components: [watchslo/deploy/components/authorization]\npatches:")
    subject = at(built(protected, tmp_path), READER)
    assert (subject["namespace"], subject["name"]) == ("observability", "kube-prometheus-stack-prometheus")
