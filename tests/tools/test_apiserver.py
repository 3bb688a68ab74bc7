"""Real apiservers of two versions accept the manifests in deploy, and admit their pods as `restricted`."""

import contextlib
import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import assets as programs
from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane, Etcd
from tests.support.kubectl import DEPLOY, Cluster, helm, kustomized, overlay, parsed, pods
from tests.support.process import eventually
from tests.support.writer import StatusError, crd

pytestmark = pytest.mark.xdist_group("apiserver")

TEXT = {"type": "string"}
TEXTS = {"type": "object", "additionalProperties": TEXT}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def several(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


ENDPOINT = {
    "port": TEXT,
    "path": TEXT,
    "interval": TEXT,
    "relabelings": several(of(sourceLabels=several(TEXT), targetLabel=TEXT)),
    "authorization": of(credentials=of(name=TEXT, key=TEXT)),
    "scheme": TEXT,
    "tlsConfig": of(serverName=TEXT, ca=of(secret=of(name=TEXT, key=TEXT))),
}
TOKEN_FILE = {"bearerTokenFile": TEXT}  # no field of a PodMonitor
MONITOR = {"jobLabel": TEXT, "scrapeClass": TEXT, "selector": of(matchLabels=TEXTS)}
RULE = of(record=TEXT, alert=TEXT, expr=TEXT, labels=TEXTS, annotations=TEXTS, **{"for": TEXT}) | {"required": ["expr"]}
OPERATOR = {  # the used fields of objects of the Prometheus operator, from its API reference
    "PodMonitor": of(**MONITOR, podMetricsEndpoints=several(of(**ENDPOINT))),
    "ServiceMonitor": of(**MONITOR, endpoints=several(of(**ENDPOINT, **TOKEN_FILE))),
    "PrometheusRule": of(groups=several(of(name=TEXT, interval=TEXT, rules=several(RULE)))),
}


def operators_crd(kind: str) -> dict[str, Any]:
    made = crd(f"{kind.lower()}s", kind, "monitoring.coreos.com")
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = of(spec=OPERATOR[kind])
    return made


class AuditedCluster(Cluster):
    """A cluster with the CRDs of the Prometheus operator, and with our policy of the audit log `log`."""

    def __init__(self, plane: ControlPlane, log: Path) -> None:
        super().__init__(plane)
        self.log = log
        crds = [operators_crd(kind) for kind in OPERATOR]
        namespace = yaml.safe_load((DEPLOY / "shared/namespace.yaml").read_text())
        assert self.apply([*crds, namespace]) == ""
        kinds = [one["metadata"]["name"] for one in crds]
        eventually(lambda: self.kubectl("get", ",".join(kinds)) == "", "discovery tells of them")


@pytest.fixture(scope="module", params=[programs.KUBE_APISERVER.pins, programs.OLD_KUBE_APISERVER.pins])
def cluster(
    request: pytest.FixtureRequest,
    assets_of: Callable[[str], Assets],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[AuditedCluster]:
    folder, found = tmp_path_factory.mktemp("cluster"), assets_of(request.param)
    policy = yaml.safe_load((DEPLOY / "audit-policy.yaml").read_text())
    policy["rules"].append({"level": "Metadata"})
    (folder / "policy.yaml").write_text(yaml.safe_dump(policy))
    flags = [f"--audit-policy-file={folder / 'policy.yaml'}", f"--audit-log-path={folder / 'audit.log'}"]
    with Etcd(folder, found.etcd) as etcd, ControlPlane(folder, found.kube_apiserver, etcd, flags=flags) as plane:
        yield AuditedCluster(plane, folder / "audit.log")


@pytest.mark.parametrize("name", ["control-plane", "managed", "node", "sharded", "k3s"])
def test_apiserver_accepts_each_overlay_and_admits_its_pod(cluster: AuditedCluster, name: str) -> None:
    objects = kustomized(DEPLOY / "overlays" / name)
    (pod,) = pods(objects)
    with cluster.applied(objects):
        assert cluster.admit(pod) == ""


def test_apiserver_accepts_the_components(cluster: AuditedCluster, tmp_path: Path) -> None:
    objects = overlay(tmp_path, "managed", "authorization", "flow-schema", "service-monitor", "tls")
    (pod,) = pods(objects)
    share = 'apiserver_flowcontrol_dispatched_requests_total{flow_schema="watchslo",priority_level="watchslo"}'
    with cluster.applied(objects):
        assert cluster.admit(pod) == ""
        with cluster.plane.writer() as writer, cluster.plane.writer(cluster.token("watchslo-managed")) as ours:
            eventually(lambda: bool(ours.get("/version")) and share in writer.text("/metrics"), "its own share", 0.2)


def test_apiserver_admits_the_pod_of_helm_test(cluster: AuditedCluster) -> None:
    only = ("--show-only", "templates/test.yaml", "--no-hooks=false")
    (pod,) = parsed(helm("template", "--namespace", "watchslo", *only).stdout)
    with cluster.applied(kustomized(DEPLOY / "overlays/managed")):
        assert cluster.admit(pod) == ""


@pytest.mark.parametrize("kind", ["PodMonitor", "ServiceMonitor"])
def test_apiserver_accepts_monitors_that_refer_to_a_secret(cluster: AuditedCluster, tmp_path: Path, kind: str) -> None:
    components = ["authorization-secret", *(["service-monitor"] if kind == "ServiceMonitor" else [])]
    objects = overlay(tmp_path, "managed", *components)
    assert kind in {one["kind"] for one in objects}
    with cluster.applied(objects):
        pass


SPOILT: dict[str, Callable[[dict[str, Any]], object]] = {
    "host namespaces": lambda spec: spec.update(hostNetwork=True),
    "runAsNonRoot != true": lambda spec: spec.update(securityContext={}),
    "allowPrivilegeEscalation != false": lambda spec: spec["containers"][0].update(securityContext={}),
    "restricted volume types": lambda spec: spec["volumes"].append({"name": "host", "hostPath": {"path": "/"}}),
}
"""Changes to a pod that `restricted` refuses, by the message of the apiserver."""


def test_apiserver_refuses_pods_that_are_not_restricted(cluster: AuditedCluster) -> None:
    """A counter-check for the tests above."""
    objects = kustomized(DEPLOY / "overlays/managed")
    (pod,) = pods(objects)
    with cluster.applied([one for one in objects if one["kind"] == "PriorityClass"]):
        for why, spoil in SPOILT.items():
            bad = copy.deepcopy(pod)
            spoil(bad["spec"])
            said = cluster.admit(bad)
            assert 'violates PodSecurity "restricted:latest"' in said
            assert why in said


@pytest.mark.parametrize("kind", ["Deployment", "PodMonitor"])
def test_apiserver_refuses_a_misspelt_key(cluster: AuditedCluster, kind: str) -> None:
    (one,) = (one for one in kustomized(DEPLOY / "overlays/managed") if one["kind"] == kind)
    one["spec"]["minReadySecond"] = 1
    assert ".spec.minReadySecond: field not declared in schema" in cluster.apply([one])


def test_audit_policy_drops_only_our_reads(cluster: AuditedCluster) -> None:
    for token in (cluster.plane.service_account("ours", namespace="watchslo"), cluster.plane.service_account("other")):
        with cluster.plane.writer(token) as reader, contextlib.suppress(StatusError):
            reader.get("/api/v1/nodes")  # refused requests are logged as well
    readers = {json.loads(line)["user"]["username"] for line in cluster.log.read_text().splitlines()}
    assert "system:serviceaccount:default:other" in readers
    assert "system:serviceaccount:watchslo:ours" not in readers
