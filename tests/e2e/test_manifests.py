"""The manifests in deploy: valid for real apiservers of two versions, admitted as `restricted`, with enough rights.

The objects of kustomize and of Helm are compared with each other.
"""

import contextlib
import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane, Etcd
from tests.support.daemon import Daemon, config_file, watchslo
from tests.support.kubectl import DEPLOY, ROOT, Objects, as_text, charted, helm, kubectl, kustomized, overlay
from tests.support.process import eventually
from tests.support.writer import StatusError, crd

PROFILES = ("control-plane", "managed", "node", "sharded")
COMPONENTS = ("authorization", "flow-schema", "service-monitor", "tls")
WORKLOADS = ("DaemonSet", "Deployment", "StatefulSet")
RBAC = "rbac.authorization.k8s.io"
ASKED = "watchslo_api_requests_total"
each_profile = pytest.mark.parametrize("profile", PROFILES)

TEXT = {"type": "string"}
TEXTS = {"type": "object", "additionalProperties": TEXT}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def several(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


RELABELLING = of(sourceLabels=several(TEXT), targetLabel=TEXT)
CREDENTIALS = of(credentials=of(name=TEXT, key=TEXT))
TLS = of(serverName=TEXT, ca=of(secret=of(name=TEXT, key=TEXT)))
ENDPOINT = of(
    port=TEXT,
    path=TEXT,
    interval=TEXT,
    relabelings=several(RELABELLING),
    authorization=CREDENTIALS,
    scheme=TEXT,
    tlsConfig=TLS,
)
SELECTOR = of(matchLabels=TEXTS)
RULE = of(record=TEXT, alert=TEXT, expr=TEXT, labels=TEXTS, annotations=TEXTS) | {"required": ["expr"]}
RULE["properties"]["for"] = TEXT
TOKEN_FILE = {"bearerTokenFile": TEXT}  # no field of a PodMonitor
OPERATOR = {  # the used fields of objects of the Prometheus operator, from its API reference
    "PodMonitor": of(jobLabel=TEXT, scrapeClass=TEXT, selector=SELECTOR, podMetricsEndpoints=several(ENDPOINT)),
    "ServiceMonitor": of(
        jobLabel=TEXT,
        scrapeClass=TEXT,
        selector=SELECTOR,
        endpoints=several(of(**ENDPOINT["properties"], **TOKEN_FILE)),
    ),
    "PrometheusRule": of(groups=several(of(name=TEXT, interval=TEXT, rules=several(RULE)))),
}


def operators_crd(kind: str) -> dict[str, Any]:
    made = crd(f"{kind.lower()}s", kind, "monitoring.coreos.com")
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = of(spec=OPERATOR[kind])
    return made


class Cluster:
    """A control plane with the CRDs of the Prometheus operator, accessed by kubectl."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._kubeconfig = plane.kubeconfig("manifests")

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """Run kubectl; return its complaint, or nothing on success."""
        done = kubectl(*arguments, kubeconfig=self._kubeconfig, given=given)
        return "" if done.returncode == 0 else done.stderr or done.stdout

    def apply(self, objects: Objects) -> str:
        """Apply objects on the server, which refuses fields that its version does not know."""
        options = ("--server-side", "--field-manager=tests", "--validate=strict")
        return self.kubectl("apply", *options, "-f", "-", given=as_text(objects))

    def admit(self, pod: dict[str, Any]) -> str:
        """Create a pod in a dry run; retry until the apiserver knows its priority class."""
        said: list[str] = []

        def asked() -> bool:
            options = ("--dry-run=server", "--validate=strict")
            said.append(self.kubectl("create", *options, "-f", "-", given=as_text([pod])))
            return "no PriorityClass" not in said[-1]

        eventually(asked, "its priority is known")
        return said[-1]

    def token(self, account: str) -> str:
        """Return a new token of one of our service accounts."""
        with self.plane.writer() as writer:
            return writer.service_account_token("watchslo", account)

    def permits(self, account: str, role: dict[str, Any]) -> bool:
        """Return True if the first rule of a role is in force for a service account; True for other objects."""
        for rule in role.get("rules", [])[:1]:
            place = ["-n", role["metadata"]["namespace"]] if role["kind"] == "Role" else ["-A"]
            what = "/".join([rule["resources"][0], *rule.get("resourceNames", [])])
            user = f"--as=system:serviceaccount:watchslo:{account}"
            if self.kubectl("auth", "can-i", rule["verbs"][0], what, *place, user):
                return False
        return True

    def delete(self, objects: Objects) -> None:
        """Delete the objects, but not namespaces: these clusters have no namespace controller."""
        rest = [one for one in objects if one["kind"] != "Namespace"]
        assert self.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", given=as_text(rest)) == ""


@pytest.fixture(scope="module", params=["control_plane", "old_control_plane"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    cluster = Cluster(request.getfixturevalue(request.param))
    crds = [operators_crd(kind) for kind in OPERATOR]
    namespace = yaml.safe_load((DEPLOY / "shared/namespace.yaml").read_text())
    assert cluster.apply([*crds, namespace]) == ""
    names = [f"crd/{one['metadata']['name']}" for one in crds]
    assert cluster.kubectl("wait", "--for=condition=Established", "--timeout=120s", *names) == ""
    kinds = ",".join(one["metadata"]["name"] for one in crds)
    eventually(lambda: cluster.kubectl("get", kinds) == "", "discovery tells of them")
    yield cluster
    cluster.delete(crds)
    with cluster.plane.writer() as writer:
        writer.delete("/api/v1/namespaces/watchslo")
        left = writer.get("/api/v1/namespaces/watchslo")
        left["spec"]["finalizers"] = []
        writer.replace("/api/v1/namespaces/watchslo/finalize", left)


def pods(objects: Objects) -> list[dict[str, Any]]:
    """Return the pods that controllers would create for the workloads."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": one["metadata"]["name"], "namespace": "watchslo", **template(one)["metadata"]},
            "spec": template(one)["spec"],
        }
        for one in objects
        if one["kind"] in WORKLOADS
    ]


def template(workload: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = workload["spec"]["template"]
    return found


SPOILT: dict[str, Callable[[dict[str, Any]], object]] = {
    "host namespaces": lambda spec: spec.update(hostNetwork=True),
    "runAsNonRoot != true": lambda spec: spec.update(securityContext={}),
    "allowPrivilegeEscalation != false": lambda spec: spec["containers"][0].update(securityContext={}),
    "restricted volume types": lambda spec: spec["volumes"].append({"name": "host", "hostPath": {"path": "/"}}),
}
"""Changes to a pod that `restricted` refuses, by the message of the apiserver."""


class TestApiserver:
    @pytest.mark.parametrize("name", [*PROFILES, "k3s"])
    def test_accepts_each_overlay_and_admits_its_pod(self, cluster: Cluster, name: str) -> None:
        objects = kustomized(DEPLOY / "overlays" / name)
        try:
            assert cluster.apply(objects) == ""
            (pod,) = pods(objects)
            assert cluster.admit(pod) == ""
        finally:
            cluster.delete(objects)

    def test_accepts_the_components(self, cluster: Cluster, tmp_path: Path) -> None:
        objects = overlay(tmp_path, "managed", *COMPONENTS)
        try:
            assert cluster.apply(objects) == ""
            (pod,) = pods(objects)
            assert cluster.admit(pod) == ""
            with cluster.plane.writer() as writer, cluster.plane.writer(cluster.token("watchslo-managed")) as ours:
                dispatched = (
                    'apiserver_flowcontrol_dispatched_requests_total{flow_schema="watchslo",priority_level="watchslo"}'
                )
                ours.get("/version")
                eventually(
                    lambda: bool(ours.get("/version")) and dispatched in writer.text("/metrics"),
                    "its own share",
                    0.2,
                )
        finally:
            cluster.delete(objects)

    @pytest.mark.parametrize("kind", ["PodMonitor", "ServiceMonitor"])
    def test_accepts_monitors_that_refer_to_a_secret(self, cluster: Cluster, tmp_path: Path, kind: str) -> None:
        components = ["authorization-secret", *(["service-monitor"] if kind == "ServiceMonitor" else [])]
        objects = overlay(tmp_path, "managed", *components)
        assert kind in {one["kind"] for one in objects}
        try:
            assert cluster.apply(objects) == ""
        finally:
            cluster.delete(objects)

    def test_refuses_pods_that_are_not_restricted(self, cluster: Cluster) -> None:
        """A counter-check for the tests above."""
        objects = kustomized(DEPLOY / "overlays/managed")
        priority = [one for one in objects if one["kind"] == "PriorityClass"]
        assert cluster.apply(priority) == ""
        try:
            for why, spoil in SPOILT.items():
                (pod,) = pods(objects)
                bad = copy.deepcopy(pod["spec"])
                spoil(bad)
                said = cluster.admit(pod | {"spec": bad})
                assert 'violates PodSecurity "restricted:latest"' in said
                assert why in said
        finally:
            cluster.delete(priority)

    @pytest.mark.parametrize("kind", ["Deployment", "PodMonitor"])
    def test_refuses_a_misspelt_key(self, cluster: Cluster, kind: str) -> None:
        (one,) = (one for one in kustomized(DEPLOY / "overlays/managed") if one["kind"] == kind)
        one["spec"]["minReadySecond"] = 1
        assert ".spec.minReadySecond: field not declared in schema" in cluster.apply([one])


def test_overlay_for_k3s_has_its_profile_without_the_objects_of_the_prometheus_operator() -> None:
    whole, own = (kustomized(DEPLOY / "overlays" / name) for name in ("control-plane", "k3s"))
    assert {one["kind"] for one in whole} - {one["kind"] for one in own} == {"PodMonitor", "PrometheusRule"}


def test_audit_policy_drops_only_our_reads(assets: Assets, tmp_path: Path) -> None:
    policy, log = yaml.safe_load((DEPLOY / "audit-policy.yaml").read_text()), tmp_path / "audit.log"
    policy["rules"].append({"level": "Metadata"})
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy))
    flags = [f"--audit-policy-file={tmp_path / 'policy.yaml'}", f"--audit-log-path={log}"]
    with (
        Etcd(tmp_path, assets.etcd) as etcd,
        ControlPlane(tmp_path, assets.kube_apiserver, etcd, flags=flags) as plane,
        plane.writer() as writer,
    ):
        writer.create("/api/v1/namespaces", {"metadata": {"name": "watchslo"}})
        tokens = [plane.service_account("ours", namespace="watchslo"), plane.service_account("other")]
        for token in tokens:
            with plane.writer(token) as reader, contextlib.suppress(StatusError):
                reader.get("/api/v1/nodes")  # refused requests are logged as well
    readers = {json.loads(line)["user"]["username"] for line in log.read_text().splitlines()}
    assert "system:serviceaccount:default:other" in readers
    assert "system:serviceaccount:watchslo:ours" not in readers


SECRET_CHOICE = ("authorization=true", "scraper.tokenSecret=true")
OWN_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
READER = ("ClusterRoleBinding", "", "watchslo-reader")
ACCOUNT_OF_PROMETHEUS = {"kind": "ServiceAccount", "name": "prometheus-k8s", "namespace": "monitoring"}


def eternal_tokens(objects: Objects) -> list[str]:
    """Return the names of the Secrets that hold a token which never expires."""
    return [one["metadata"]["name"] for one in objects if one.get("type") == "kubernetes.io/service-account-token"]


class TestTokens:
    """Which token Prometheus sends. A token that never expires is made only on request."""

    @pytest.mark.parametrize("name", [*PROFILES, "k3s"])
    def test_overlays_have_no_token_that_never_expires(self, name: str, tmp_path: Path) -> None:
        assert eternal_tokens(kustomized(DEPLOY / "overlays" / name)) == []
        assert eternal_tokens(overlay(tmp_path, name, *COMPONENTS)) == []

    @each_profile
    def test_chart_has_no_token_that_never_expires(self, profile: str) -> None:
        every = ("authorization=true", "flowSchema=true", "tlsSecret=watchslo-tls")
        for values in ((), every, (*every, "scraper.monitor=ServiceMonitor"), (*every, "scraper.scrapeClass=own")):
            assert eternal_tokens(charted(f"profile={profile}", *values)) == []

    def test_authorization_uses_the_own_token_of_prometheus(self, tmp_path: Path) -> None:
        made = by_identity(overlay(tmp_path, "managed", "authorization"))
        assert made == by_identity(charted("profile=managed", "authorization=true"))
        assert made[READER]["subjects"] == [ACCOUNT_OF_PROMETHEUS]
        (endpoint,) = made["ServiceMonitor", "watchslo", "watchslo-managed"]["spec"]["endpoints"]
        assert endpoint["bearerTokenFile"] == OWN_TOKEN
        assert "authorization" not in endpoint, "Prometheus accepts only one of both"
        assert "PodMonitor" not in {kind for kind, *_ in made}

    def test_secret_is_a_choice_of_its_own(self, tmp_path: Path) -> None:
        made = overlay(tmp_path, "managed", "authorization-secret")
        assert eternal_tokens(made) == ["watchslo-reader"]
        assert by_identity(made) == by_identity(charted("profile=managed", *SECRET_CHOICE))
        (endpoint,) = by_identity(made)["PodMonitor", "watchslo", "watchslo-managed"]["spec"]["podMetricsEndpoints"]
        assert endpoint["authorization"] == {"credentials": {"name": "watchslo-reader", "key": "token"}}
        other = by_identity(overlay(tmp_path, "managed", "authorization-secret", "service-monitor"))
        assert other == by_identity(overlay(tmp_path, "managed", "service-monitor", "authorization-secret"))
        assert other == by_identity(charted("profile=managed", *SECRET_CHOICE, "scraper.monitor=ServiceMonitor"))

    def test_account_of_prometheus_is_a_value_of_the_chart(self) -> None:
        values = ("authorization=true", "scraper.serviceAccount=prometheus", "scraper.namespace=observability")
        (subject,) = by_identity(charted(*values))[READER]["subjects"]
        assert subject == ACCOUNT_OF_PROMETHEUS | {"name": "prometheus", "namespace": "observability"}

    @pytest.mark.parametrize(
        ("kind", "endpoints"), [("PodMonitor", "podMetricsEndpoints"), ("ServiceMonitor", "endpoints")]
    )
    def test_scrape_class_sends_the_token_instead_of_the_monitor(self, kind: str, endpoints: str) -> None:
        made = charted("authorization=true", "scraper.scrapeClass=own-token", f"scraper.monitor={kind}")
        spec = by_identity(made)[kind, "watchslo", "watchslo-managed"]["spec"]
        assert spec["scrapeClass"] == "own-token"
        assert {"authorization", "bearerTokenFile"}.isdisjoint(spec[endpoints][0])

    def test_chart_refuses_a_pod_monitor_that_could_send_no_token(self) -> None:
        done = helm("template", "--set", "authorization=true", "--set", "scraper.monitor=PodMonitor")
        assert done.returncode != 0
        assert "a PodMonitor needs scraper.scrapeClass or scraper.tokenSecret" in done.stderr


class TestChart:
    @each_profile
    def test_renders_the_same_objects_as_the_overlay(self, profile: str) -> None:
        assert by_identity(charted(f"profile={profile}")) == by_identity(kustomized(DEPLOY / "overlays" / profile))

    @each_profile
    def test_renders_the_same_objects_as_the_components(self, profile: str, tmp_path: Path) -> None:
        values = ("authorization=true", "flowSchema=true", "scraper.monitor=ServiceMonitor", "tlsSecret=watchslo-tls")
        made = by_identity(charted(f"profile={profile}", *values))
        assert made == by_identity(overlay(tmp_path, profile, *COMPONENTS))
        assert made == by_identity(overlay(tmp_path, profile, *reversed(COMPONENTS))), "their order does not matter"

    def test_omits_the_same_objects_as_the_components(self, tmp_path: Path) -> None:
        plain = charted("profile=node", "scraper.monitor=none")
        assert by_identity(plain) == by_identity(overlay(tmp_path, "node", "without-operator"))
        own = by_identity(charted("profile=node", "config=paused: true"))
        theirs = by_identity(overlay(tmp_path, "node", "own-configuration"))
        assert own.keys() == theirs.keys()
        assert own["ConfigMap", "watchslo", "watchslo-node"]["data"] == {"watchslo.yaml": "paused: true"}

    def test_values_set_what_patches_set(self) -> None:
        """Values of one cluster: namespace and labels of the scraper, and the placement of pods."""
        values = (
            "scraper.namespace=observability",
            "scraper.labels.release=prometheus",
            "image.repository=registry.example.org/watchslo",
            "image.tag=1.2.3",
            "nodeSelector.disk=fast",
            "tolerations[0].operator=Exists",
            "resources.limits.memory=1Gi",
            "affinity.nodeAffinity.x=y",
            "topologySpreadConstraints[0].maxSkew=2",
            "replicas=5",
            "shared=false",
            "imagePullSecrets[0].name=registry",
            "labels.team=platform",
            "podAnnotations.mesh=none",
            "priorityClassName=system-cluster-critical",
            "egress[0].to[0].ipBlock.cidr=10.0.3.0/24",
        )
        made = by_identity(charted("profile=managed", *values))
        name = ("watchslo", "watchslo-managed")
        workload = made["Deployment", *name]["spec"]
        pod = workload["template"]["spec"]
        (container,) = pod["containers"]
        (source,) = made["NetworkPolicy", *name]["spec"]["ingress"][0]["from"]
        assert source["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "observability"}
        assert made["PodMonitor", *name]["metadata"]["labels"]["release"] == "prometheus"
        assert made["PrometheusRule", *name]["metadata"]["labels"]["release"] == "prometheus"
        assert container["image"] == "registry.example.org/watchslo:1.2.3"
        assert container["resources"] == {"limits": {"memory": "1Gi"}}
        assert (pod["nodeSelector"], pod["tolerations"]) == (
            {"kubernetes.io/os": "linux", "disk": "fast"},
            [{"operator": "Exists"}],
        )
        assert (pod["affinity"], pod["topologySpreadConstraints"]) == ({"nodeAffinity": {"x": "y"}}, [{"maxSkew": 2}])
        assert workload["replicas"] == 5
        assert (pod["imagePullSecrets"], pod["priorityClassName"]) == (
            [{"name": "registry"}],
            "system-cluster-critical",
        )
        assert workload["template"]["metadata"]["annotations"] == {"mesh": "none"}
        assert made["NetworkPolicy", *name]["spec"]["egress"] == [{"to": [{"ipBlock": {"cidr": "10.0.3.0/24"}}]}]
        labelled = [*made.values(), workload["template"]]
        assert {one["metadata"]["labels"]["team"] for one in labelled} == {"platform"}
        assert "platform" not in as_text([workload["selector"], made["Service", *name]["spec"]])
        assert not {kind for kind, *_ in made} & {"PriorityClass"}

    def test_pins_an_image_by_its_digest(self) -> None:
        digest = "sha256:" + "0123456789abcdef" * 4
        (pod,) = pods(charted("profile=managed", f"image.digest={digest}"))
        assert pod["spec"]["containers"][0]["image"] == f"watchslo@{digest}"

    def test_runbooks_can_be_at_another_address(self) -> None:
        made = by_identity(charted("profile=managed", "runbooks=https://example.org/runbooks/"))
        groups = made["PrometheusRule", "watchslo", "watchslo-managed"]["spec"]["groups"]
        alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
        assert alerts
        for rule in alerts:
            assert rule["annotations"]["runbook_url"] == f"https://example.org/runbooks/{rule['alert']}.md"

    def test_flow_schema_selects_only_our_accounts(self) -> None:
        """A release may share a namespace with Prometheus, which must not use the share of watchslo."""
        done = helm("template", "--namespace", "monitoring", "--set", "flowSchema=true")
        (schema,) = (one for one in yaml.safe_load_all(done.stdout) if one and one["kind"] == "FlowSchema")
        (rule,) = schema["spec"]["rules"]
        accounts = [subject["serviceAccount"] for subject in rule["subjects"]]
        assert accounts == [{"namespace": "monitoring", "name": f"watchslo-{profile}"} for profile in PROFILES]

    def test_values_can_be_removed_with_null(self) -> None:
        names = ("imagePullSecrets", "labels", "podAnnotations", "profiles.managed.priorityClassName", "egress")
        made = by_identity(charted("profile=managed", *(f"{name}=null" for name in names)))
        pod = made["Deployment", "watchslo", "watchslo-managed"]["spec"]["template"]["spec"]
        assert "priorityClassName" not in pod

    def test_another_priority_class_replaces_ours(self) -> None:
        made = by_identity(charted("profile=control-plane", "priorityClassName=system-cluster-critical"))
        (pod,) = pods([*made.values()])
        assert pod["spec"]["priorityClassName"] == "system-cluster-critical"
        assert "PriorityClass" not in {kind for kind, *_ in made}

    def test_second_release_shares_no_object_with_the_first(self) -> None:
        protected = ("authorization=true", "flowSchema=true", "tlsSecret=watchslo-tls")
        first = by_identity(charted("profile=managed", *protected))
        second = by_identity(charted("profile=node", "shared=false", *protected))
        assert first.keys().isdisjoint(second.keys())
        (endpoint,) = second["ServiceMonitor", "watchslo", "watchslo-node"]["spec"]["endpoints"]
        assert endpoint["bearerTokenFile"] == OWN_TOKEN

    @pytest.mark.parametrize(
        "value",
        [
            "profile=nodes",
            "imge.tag=1",
            "replicas=0",
            "scraper.monitor=Probe",
            "scraper.serviceAccount=",
            "scraper.tokenSecret=watchslo-reader",
            "image.digest=latest",
            "runbooks=docs/runbooks",
        ],
    )
    def test_refuses_invalid_values(self, value: str) -> None:
        done = helm("template", "--set", value)
        assert done.returncode != 0
        assert "values don't meet the specifications of the schema" in done.stderr

    @pytest.mark.parametrize(
        ("values", "reference"),
        [
            ((), "pods"),
            (("reference=jobs.batch",), "jobs.batch"),
            (("reference=none",), None),
        ],
    )
    def test_reference_names_the_resource_whose_whole_objects_are_watched(
        self, values: tuple[str, ...], reference: str | None
    ) -> None:
        made = by_identity(charted("profile=control-plane", *values))
        config = made["ConfigMap", "watchslo", "watchslo-control-plane"]["data"]["watchslo.yaml"]
        assert yaml.safe_load(config)["reference"] == reference

    def test_helm_lint_finds_nothing(self) -> None:
        done = helm("lint", "--strict")
        assert done.returncode == 0, done.stdout


def by_identity(objects: Objects) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return objects by kind, namespace and name, without the namespace of the release, which Helm creates."""
    found = [one for one in objects if one["kind"] != "Namespace"]
    named: dict[tuple[str, ...], dict[str, Any]] = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in found
    }
    assert len(named) == len(found), "one object twice"
    return named


class TestReadme:
    TEXT = (DEPLOY / "README.md").read_text()
    BLOCKS = tuple(dedent(block) for block in re.findall(r"```yaml\n(.*?) *```", TEXT, re.DOTALL))

    @pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
    def test_kustomizations_can_be_built(self, block: str, tmp_path: Path) -> None:
        (tmp_path / "watchslo").symlink_to(ROOT)
        (tmp_path / "watchslo.yaml").write_text("paused: true\n")
        (tmp_path / "kustomization.yaml").write_text(block)
        assert kustomized(tmp_path)

    def test_parameters_reach_the_objects(self, tmp_path: Path) -> None:
        (tmp_path / "watchslo").symlink_to(ROOT)
        (block,) = (block for block in self.BLOCKS if "observability" in block)
        (tmp_path / "kustomization.yaml").write_text(block)
        text = as_text(kustomized(tmp_path))
        assert text.count("release: kube-prometheus-stack") == 2
        # The patch of the account needs the component.
        protected = block.replace("patches:", "components: [watchslo/deploy/components/authorization]\npatches:")
        (tmp_path / "kustomization.yaml").write_text(protected)
        (subject,) = by_identity(kustomized(tmp_path))[READER]["subjects"]
        assert (subject["namespace"], subject["name"]) == ("observability", "kube-prometheus-stack-prometheus")
        for part in ("name: observability", "cidr: 10.0.3.0/24", "registry.example.org/watchslo:0.1.0", "512Mi"):
            assert part in text


class TestRights:
    """A daemon with exactly the generated rights is ready and gets no 403."""

    def test_rights_of_a_profile_are_enough(self, cluster: Cluster, tmp_path: Path) -> None:
        objects = kustomized(DEPLOY / "overlays/managed")
        rights = [one for one in objects if one["kind"] == "ServiceAccount" or one["apiVersion"].startswith(RBAC)]
        config = DEPLOY / "chart/profiles/managed/watchslo.yaml"
        assert_enough(cluster, rights, config, tmp_path)

    def test_rights_for_all_resources_are_enough(self, cluster: Cluster, tmp_path: Path) -> None:
        limits = {"requestsPerSecond": 100, "auditsPerSecond": 10}
        config = config_file(tmp_path, watch=[{"resource": "*"}], exclude=["secrets"], limits=limits)
        done = watchslo("rbac", "--config", config, "--kubeconfig", cluster.plane.kubeconfig())
        assert (done.returncode, done.stderr) == (0, "")
        account = yaml.safe_load((DEPLOY / "base/service-account.yaml").read_text())
        assert_enough(cluster, [account, *yaml.safe_load_all(done.stdout)], config, tmp_path)

    def test_rights_for_all_resources_need_a_cluster(self, tmp_path: Path) -> None:
        config = config_file(tmp_path, watch=[{"resource": "*"}])
        done = watchslo("rbac", "--config", config, "--kubeconfig", tmp_path / "none")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"watchslo: {tmp_path / 'none'}: no such kubeconfig; name a file that exists\n"


def assert_enough(cluster: Cluster, rights: Objects, config: Path, folder: Path) -> None:
    account = next(one["metadata"]["name"] for one in rights if one["kind"] == "ServiceAccount")
    assert cluster.apply(rights) == ""
    try:
        eventually(lambda: all(cluster.permits(account, role) for role in rights), "permitted", every=0.2)
        kubeconfig = cluster.plane.kubeconfig(account, {"token": cluster.token(account)})
        with Daemon(folder / "daemon", "--config", config, "--kubeconfig", kubeconfig) as daemon:
            daemon.until_ready()
            daemon.until(lambda scrape: scrape.total(ASKED, kind="audit") > 0, "audited")
            assert daemon.scrape().total(ASKED, code="403") == 0
            daemon.process.until(lambda: all(stream["up"] for stream in daemon.streams().values()), "all are up", 0.5)
    finally:
        cluster.delete(rights)
