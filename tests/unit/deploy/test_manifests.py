"""What deploy holds is made from what there is now; tests/e2e/test_manifests.py applies it."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.manifests.files import DEPLOY, PROFILES, config, files, folder

ROOT = DEPLOY.parent
LARGEST_CONFIGMAP_BYTES = 2**20
FILES = files()
each_profile = pytest.mark.parametrize("profile", PROFILES)


def document(path: Path | str) -> Any:
    return yaml.safe_load((DEPLOY / path).read_text())


@pytest.mark.parametrize("path", FILES, ids=str)
def test_what_is_written_is_current(path: Path) -> None:
    assert (DEPLOY / path).read_text() == FILES[path], "run `make manifests`"


def test_nothing_is_left_of_what_was_written_before() -> None:
    there = {*DEPLOY.glob("chart/dashboards/*.json"), *DEPLOY.glob("chart/profiles/*/ri*.yaml")}
    assert {path.relative_to(DEPLOY) for path in there} <= FILES.keys()


def test_there_is_an_overlay_and_a_configuration_for_each_profile() -> None:
    for found in (DEPLOY / "overlays", DEPLOY / "chart/profiles"):
        assert tuple(sorted(path.name for path in found.iterdir())) == PROFILES
    assert document("chart/values.yaml")["profiles"].keys() == set(PROFILES)


@each_profile
def test_rights_are_for_no_secret_and_for_nothing_but_reading(profile: str) -> None:
    for role in yaml.safe_load_all(FILES[folder(profile) / "rights.yaml"]):
        for rule in role.get("rules", []):
            assert "secrets" not in rule["resources"]
            assert {"*"}.isdisjoint((*rule["apiGroups"], *rule["resources"], *rule["verbs"]))
            assert set(rule["verbs"]) <= {"list", "watch"}


@each_profile
def test_rules_look_at_the_instances_of_their_profile(profile: str) -> None:
    """The job is the label `app.kubernetes.io/instance`, which the overlay gives and the monitor takes."""
    assert f'job="watchslo-{profile}"' in FILES[folder(profile) / "rules.yaml"]
    (given,) = document(f"overlays/{profile}/instance/kustomization.yaml")["labels"]
    assert given["pairs"]["app.kubernetes.io/instance"] == f"watchslo-{profile}"
    assert document("base/pod-monitor.yaml")["spec"]["jobLabel"] == "app.kubernetes.io/instance"


def test_every_dashboard_is_in_a_config_map_of_its_own() -> None:
    made = document("chart/dashboards/kustomization.yaml")["configMapGenerator"]
    taken = [path for one in made for path in one["files"]]
    assert sorted(taken) == sorted(path.name for path in FILES if path.suffix == ".json")
    assert len(made) == len(taken)
    for path, text in FILES.items():
        if path.suffix == ".json":
            assert json.loads(text) == json.loads((ROOT / "dashboards" / path.name).read_text())
            assert len(text.encode()) < LARGEST_CONFIGMAP_BYTES


def test_a_node_costs_little() -> None:
    told = config("node")
    assert told.clock.interval >= 10
    assert told.limits.requests_per_second <= 1
    assert told.limits.probes_per_second == 0, "else all of them ask more when everything is late"
    assert told.start_delay
    assert told.metrics == "proven"
    (watch,) = told.watch
    assert watch.field_selector == "spec.nodeName=node"


def test_no_pod_goes_to_a_node_that_cannot_run_it() -> None:
    """A DaemonSet that tolerates every taint would otherwise wait for ever on nodes of Windows."""
    assert document("base/pod.yaml")["spec"]["template"]["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}


def test_control_plane_nodes_are_known_by_their_label_whatever_its_value() -> None:
    """kubeadm leaves it empty, k3s writes `true`."""
    pod = document("overlays/control-plane/instance/workload.yaml")["spec"]["template"]["spec"]
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    expression = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
    assert required == {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


def test_there_are_as_many_pods_as_shards() -> None:
    shard = config("sharded").shard
    assert shard is not None
    assert document("overlays/sharded/instance/workload.yaml")["spec"]["replicas"] == shard.count
    assert document("chart/values.yaml")["profiles"]["sharded"]["replicas"] == shard.count


def test_the_chart_is_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = document("chart/Chart.yaml")
    assert chart["version"] == chart["appVersion"] == project["version"]


def test_the_audit_policy_leaves_out_reads_only() -> None:
    (rule,) = document("audit-policy.yaml")["rules"]
    assert rule == {"level": "None", "userGroups": ["system:serviceaccounts:watchslo"], "verbs": ["list", "watch"]}
