"""The generated files of `deploy/` are current and consistent; tests/tools applies them."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.manifests.files import DEPLOY, PROFILES, config, files, folder
from tools.manifests.values import values
from watchslo.app.doctor.panels import OF_FLEET
from watchslo.kube.connect import SERVICE_ACCOUNT
from watchslo.rules.settings import RuleSettings

ROOT = DEPLOY.parent
LARGEST_CONFIGMAP_BYTES = 2**20
FILES = files()
DASHBOARDS = ROOT / "dashboards"
ALL_DASHBOARDS = sorted(DASHBOARDS.glob("*.json"))
CLUSTER_DASHBOARDS = [path for path in ALL_DASHBOARDS if path.name != OF_FLEET]
each_profile = pytest.mark.parametrize("profile", PROFILES)


def document(path: Path | str) -> Any:
    return yaml.safe_load((DEPLOY / path).read_text())


@pytest.mark.parametrize("path", FILES, ids=str)
def test_generated_files_are_current(path: Path) -> None:
    assert (DEPLOY / path).read_text() == FILES[path], "run `make manifests`"


def test_no_generated_file_is_stale() -> None:
    existing = DEPLOY.glob("chart/profiles/**/r*.yaml")
    assert {path.relative_to(DEPLOY) for path in existing} <= FILES.keys()


def test_mixin_imports_every_dashboard_under_its_name() -> None:
    text = (DEPLOY / "mixin/mixin.libsonnet").read_text()
    imported = re.findall(r"'(\S+)': import '\.\./\.\./dashboards/(\S+)'", text)
    assert imported == [(path.name, path.name) for path in ALL_DASHBOARDS]


def test_mixin_replaces_what_the_rules_begin_with() -> None:
    """It replaces the selector and the address of runbooks in the texts of rules."""
    text = (DEPLOY / "mixin/mixin.libsonnet").read_text()
    assert f"selector = '{RuleSettings().job_selector}'" in text
    assert f"runbooks = '{RuleSettings().runbooks}'" in text


def test_each_profile_has_an_overlay_and_a_configuration() -> None:
    assert tuple(sorted(path.name for path in (DEPLOY / "chart/profiles").iterdir())) == PROFILES
    assert {path.name for path in (DEPLOY / "overlays").iterdir()} == {*PROFILES, "k3s"}
    assert document("chart/values.yaml")["profiles"].keys() == set(PROFILES)


@each_profile
def test_roles_are_read_only_and_without_secrets(profile: str) -> None:
    for role in yaml.safe_load_all(FILES[folder(profile) / "rights.yaml"]):
        for rule in role.get("rules", []):
            assert "secrets" not in rule["resources"]
            assert {"*"}.isdisjoint((*rule["apiGroups"], *rule["resources"], *rule["verbs"]))
            named = (rule["resources"], rule.get("resourceNames")) == (["namespaces"], ["kube-system"])
            assert set(rule["verbs"]) <= ({"get"} if named else {"list", "watch"})


@each_profile
def test_profile_pages_and_its_warnings_are_apart(profile: str) -> None:
    pages, others = (yaml.safe_load(FILES[folder(profile) / name]) for name in ("rules.yaml", "warnings/rules.yaml"))
    assert {severity for severity in severities(pages) if severity} == {"critical"}
    assert severities(others) == {"warning"}


def severities(made: Any) -> set[str | None]:
    """Return the severities of rules; that of a recording rule is None."""
    return {rule.get("labels", {}).get("severity") for group in made["spec"]["groups"] for rule in group["rules"]}


@each_profile
def test_rules_select_the_instances_of_their_profile(profile: str) -> None:
    """The job is the label `app.kubernetes.io/instance`: the overlay sets it, and the PodMonitor reads it."""
    for name in ("rules.yaml", "warnings/rules.yaml"):
        assert f'job="watchslo-{profile}"' in FILES[folder(profile) / name]
    (given,) = document(f"overlays/{profile}/instance/kustomization.yaml")["labels"]
    assert given["pairs"]["app.kubernetes.io/instance"] == f"watchslo-{profile}"
    assert document("base/pod-monitor.yaml")["spec"]["jobLabel"] == "app.kubernetes.io/instance"


def test_network_policy_permits_ticks_through_every_apiserver() -> None:
    """Their addresses are not known beforehand, so the default has no `to`."""
    egress = document("base/network-policy.yaml")["spec"]["egress"]
    ports = {port["port"] for rule in egress if "to" not in rule for port in rule["ports"]}
    assert {443, 6443} <= ports


def test_each_dashboard_of_a_cluster_has_its_own_config_map() -> None:
    assert "../../dashboards" in document("shared/kustomization.yaml")["resources"]
    generators = yaml.safe_load((DASHBOARDS / "kustomization.yaml").read_text())["configMapGenerator"]
    assert [generator["files"] for generator in generators] == [[path.name] for path in CLUSTER_DASHBOARDS]
    for path in CLUSTER_DASHBOARDS:
        assert path.stat().st_size < LARGEST_CONFIGMAP_BYTES


def test_chart_links_to_the_dashboards_and_leaves_out_all_but_those_of_a_cluster() -> None:
    """A chart can read only its own files, and Helm follows links; tests/tools renders and packs it."""
    link = DEPLOY / "chart/dashboards"
    assert (link.is_symlink(), link.readlink()) == (True, Path("../../dashboards"))
    lines = (DEPLOY / "chart/.helmignore").read_text().splitlines()
    ignored = {line.removeprefix("dashboards/").rstrip("/") for line in lines if not line.startswith("#")}
    assert {path.name for path in DASHBOARDS.iterdir()} - ignored == {path.name for path in CLUSTER_DASHBOARDS}


def test_node_profile_sends_few_requests() -> None:
    node = config("node")
    assert node.clock.interval >= 10
    assert node.limits.requests_per_second <= 1
    assert node.limits.resumes_per_second <= 1
    assert node.limits.probes_per_second == 0, "probes would add load when all watches are late"
    assert not node.probes_storage, "thousands of instances would probe the same storage"
    assert node.start_delay
    assert node.mode == "node"
    (watch,) = node.watch
    assert watch.field_selector == "spec.nodeName=node"


def test_node_profile_takes_little_memory() -> None:
    assert not config("node").server.page
    chart = document("chart/values.yaml")["profiles"]["node"]
    overlay = document("overlays/node/instance/kustomization.yaml")["patches"][0]["patch"]
    patches = [(patch["path"].split("/containers/0/")[1], patch["value"]) for patch in yaml.safe_load(overlay)]
    assert patches == [
        ("resources", chart["resources"]),
        *(("env/-", {"name": name, "value": value}) for name, value in chart["env"].items()),
    ]
    assert chart["env"] == {"PYTHONOPTIMIZE": "2", "SSL_CERT_FILE": f"{SERVICE_ACCOUNT}/ca.crt"}


def test_pods_select_linux_nodes() -> None:
    """A DaemonSet that tolerates every taint would otherwise create pods on Windows nodes that never start."""
    assert document("base/pod.yaml")["spec"]["template"]["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}


def test_control_plane_nodes_are_selected_by_label_with_any_value() -> None:
    """kubeadm leaves the value empty, k3s sets `true`."""
    pod = document("overlays/control-plane/instance/workload.yaml")["spec"]["template"]["spec"]
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    expression = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
    assert required == {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


def test_control_plane_pods_tolerate_the_taints_of_kubeadm_rke2_and_k3s() -> None:
    """With any effect: `CriticalAddonsOnly` and `etcd` are NoExecute, which evicts pods that run already."""
    pod = document("overlays/control-plane/instance/workload.yaml")["spec"]["template"]["spec"]
    keys = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/etcd", "CriticalAddonsOnly")
    assert pod["tolerations"] == [{"key": key, "operator": "Exists"} for key in keys]


def test_only_pods_on_control_plane_nodes_may_preempt_others() -> None:
    """A full control-plane node has no other place for the pod; elsewhere a monitor must not evict what it watches."""
    classes = yaml.safe_load_all((DEPLOY / "shared/priority-class.yaml").read_text())
    policies = {one["metadata"]["name"]: one["preemptionPolicy"] for one in classes}
    values = document("chart/values.yaml")["profiles"]
    used = {profile: policies[values[profile]["priorityClassName"]] for profile in PROFILES}
    assert used == dict.fromkeys(PROFILES, "Never") | {"control-plane": "PreemptLowerPriority"}


def test_sharded_profile_has_one_pod_per_shard() -> None:
    shard = config("sharded").shard
    assert shard is not None
    assert document("overlays/sharded/instance/workload.yaml")["spec"]["replicas"] == shard.count
    assert document("chart/values.yaml")["profiles"]["sharded"]["replicas"] == shard.count


def test_chart_has_the_version_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = document("chart/Chart.yaml")
    assert chart["version"] == chart["appVersion"] == project["version"]
    assert document("chart/values.yaml")["image"]["tag"] == "", "the chart then takes its appVersion"


def test_every_value_of_the_chart_is_explained_and_in_its_schema() -> None:
    listed = [*values((DEPLOY / "chart/values.yaml").read_text())]
    assert [value.path for value in listed if not value.meaning] == []
    schema = json.loads((DEPLOY / "chart/values.schema.json").read_text())["properties"]
    allowed = {(name,) for name in schema} | {
        (name, key) for name in schema for key in schema[name].get("properties", {})
    }
    assert {value.path for value in listed} == allowed - {("global",)}, "Helm passes `global` to every chart"


def test_values_are_read_with_the_comments_above_and_behind_them() -> None:
    text = "# Of no value.\n\n# Above,\n# twice.\na:\n  b: 1 # behind\nc: [x] # y\nprofiles:\n  d: 2\n"
    assert [(value.path, value.default, value.meaning) for value in values(text)] == [
        (("a",), {"b": 1}, "Above, twice."),
        (("a", "b"), 1, "behind"),
        (("c",), ["x"], "y"),
        (("profiles",), {"d": 2}, ""),
    ]


@each_profile
def test_images_have_the_version_of_the_project(profile: str) -> None:
    """The pods of a moving tag can run different versions, and no manifest says which."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert document(f"overlays/{profile}/kustomization.yaml")["images"] == [{"name": "watchslo", "newTag": version}]


def test_audit_policy_leaves_out_only_reads() -> None:
    (rule,) = document("audit-policy.yaml")["rules"]
    assert rule == {"level": "None", "userGroups": ["system:serviceaccounts:watchslo"], "verbs": ["list", "watch"]}


def test_only_one_component_makes_a_token_that_never_expires() -> None:
    """A leaked token of this kind is valid until its Secret is deleted; a pod's own token ends with the pod."""
    kind = "kubernetes.io/service-account-token"
    found = {path.relative_to(DEPLOY) for path in DEPLOY.rglob("*.yaml") if kind in path.read_text()}
    assert found == {Path("components/authorization-secret/reader.yaml"), Path("chart/templates/authorization.yaml")}
    parts = {
        path.parent.name for path in DEPLOY.rglob("kustomization.yaml") if "authorization-secret" in included(path)
    }
    assert parts == set(), "nothing includes the component"
    assert document("chart/values.yaml")["scraper"]["tokenSecret"] is False
    template = (DEPLOY / "chart/templates/authorization.yaml").read_text()
    assert kind in template.split("{{- if .Values.scraper.tokenSecret }}")[-1], "in the block of this value"


def included(kustomization: Path) -> set[str]:
    """Return the names of the folders that a kustomization includes."""
    made = yaml.safe_load(kustomization.read_text())
    return {Path(entry).name for key in ("resources", "components") for entry in made.get(key, [])}


def test_account_of_prometheus_is_the_same_in_component_and_chart() -> None:
    (subject,) = document("components/authorization/prometheus.yaml")["subjects"]
    scraper = document("chart/values.yaml")["scraper"]
    assert (subject["name"], subject["namespace"]) == (scraper["serviceAccount"], scraper["namespace"])
