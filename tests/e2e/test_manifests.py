"""The generated rights are enough for a daemon: it is ready and gets no 403, at apiservers of two versions."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.control_plane import ControlPlane
from tests.support.daemon import Daemon, config_file, watchslo
from tests.support.kubectl import DEPLOY, Cluster, Objects, helm, kustomized
from tests.support.process import eventually

RBAC = "rbac.authorization.k8s.io"
ASKED = "watchslo_api_requests_total"


@pytest.fixture(scope="module", params=["control_plane", "old_control_plane"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster with our namespace."""
    cluster = Cluster(request.getfixturevalue(request.param))
    assert cluster.apply([yaml.safe_load((DEPLOY / "shared/namespace.yaml").read_text())]) == ""
    yield cluster
    with cluster.plane.writer() as writer:
        writer.delete("/api/v1/namespaces/watchslo")
        left = writer.get("/api/v1/namespaces/watchslo")
        left["spec"]["finalizers"] = []
        writer.replace("/api/v1/namespaces/watchslo/finalize", left)


def test_rights_of_a_profile_are_enough(cluster: Cluster, tmp_path: Path) -> None:
    objects = kustomized(DEPLOY / "overlays/managed")
    rights = [one for one in objects if one["kind"] == "ServiceAccount" or one["apiVersion"].startswith(RBAC)]
    assert_enough(cluster, rights, DEPLOY / "chart/profiles/managed/watchslo.yaml", tmp_path)


def test_rights_for_all_resources_are_enough(cluster: Cluster, tmp_path: Path) -> None:
    limits = {"requestsPerSecond": 100, "auditsPerSecond": 10}
    config = config_file(tmp_path, watch=[{"resource": "*"}], exclude=["secrets"], limits=limits)
    done = watchslo("rbac", "--config", config, "--kubeconfig", cluster.plane.kubeconfig())
    assert (done.returncode, done.stderr) == (0, "")
    account = yaml.safe_load((DEPLOY / "base/service-account.yaml").read_text())
    assert_enough(cluster, [account, *yaml.safe_load_all(done.stdout)], config, tmp_path)


def test_chart_installs_in_a_cluster_without_the_prometheus_operator(control_plane: ControlPlane) -> None:
    done = helm("install", "--dry-run=server", "--kubeconfig", control_plane.kubeconfig())
    assert done.returncode == 0, done.stderr
    made, notes = done.stdout.split("NOTES:")
    assert "kind: Deployment" in made
    assert "monitoring.coreos.com" not in made
    assert "this cluster has no Prometheus operator" in notes


def assert_enough(cluster: Cluster, rights: Objects, config: Path, folder: Path) -> None:
    account = next(one["metadata"]["name"] for one in rights if one["kind"] == "ServiceAccount")
    with cluster.applied(rights):
        eventually(lambda: all(cluster.permits(account, role) for role in rights), "permitted", every=0.2)
        kubeconfig = cluster.plane.kubeconfig(account, {"token": cluster.token(account)})
        with Daemon(folder / "daemon", "--config", config, "--kubeconfig", kubeconfig) as daemon:
            daemon.until_ready()
            daemon.until(lambda scrape: scrape.total(ASKED, kind="audit") > 0, "audited")
            assert daemon.scrape().total(ASKED, code="403") == 0
            daemon.process.until(
                lambda: all(stream["up"] for stream in daemon.watches_by_name().values()), "all are up", 0.5
            )
        # As the pod of `helm test` runs it.
        done = watchslo("doctor", "--config", config, "--kubeconfig", kubeconfig)
        assert done.returncode == 0, done.stdout + done.stderr
