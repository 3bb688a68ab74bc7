"""Rights: the least ones are enough, each one is used, and a missing one is named and breaks nothing else."""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.assets import Assets
from tests.support.busy import steady_writes
from tests.support.control_plane import ControlPlane, Etcd
from tests.support.daemon import LOOK_SECONDS, Daemon, config_file, start_all
from tests.support.writer import Writer, configmap, pod
from watchslo.config.model import Config
from watchslo.rbac.permissions import required_permissions
from watchslo.rbac.watched_resources import watch_permissions

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
PODS = "/api/v1/namespaces/default/pods"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"

Rule = dict[str, list[str]]

WATCH: Rule = {
    "apiGroups": ["", "coordination.k8s.io"],
    "resources": ["configmaps", "leases"],
    "verbs": ["list", "watch"],
}
WATCH_PODS: Rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
LIST_SECRETS: Rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}
TICK: Rule = {
    "apiGroups": [""],
    "resources": ["events"],
    "resourceNames": ["watchslo-reads-nothing"],
    "verbs": ["list"],
}
WATCHED = [{"resource": name} for name in ("configmaps", "leases.coordination.k8s.io", "pods", "secrets")]


@pytest.fixture(scope="module")
def writer(control_plane: ControlPlane) -> Iterator[Writer]:
    with control_plane.writer() as writer:
        yield writer


@pytest.fixture(scope="module")
def daemons(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Daemon]]:
    """Daemons with service accounts of different rights, by name."""
    rights = {"least": (WATCH, LIST_SECRETS, TICK), "no-events": (WATCH,), "none": ()}
    with contextlib.ExitStack() as stack:
        daemons = {}
        for name, rules in rights.items():
            account = f"rights-{name}"
            kubeconfig = control_plane.kubeconfig(account, {"token": control_plane.service_account(account, *rules)})
            folder = tmp_path_factory.mktemp(account)
            config = config_file(folder, watch=WATCHED)
            daemons[name] = Daemon(folder, "--config", config, "--kubeconfig", kubeconfig)
        start_all(stack, daemons.values())
        yield daemons


def test_forbidden_watches_hurt_no_other_and_start_when_granted(daemons: dict[str, Daemon], writer: Writer) -> None:
    daemon = daemons["least"]
    daemon.until_ready()
    for watch, verb in (("pods", "list"), ("secrets", "watch")):
        until_away(daemon, watch, f"may not {verb} the resource")
    writer.patch(f"{ROLES}/rights-least", {"rules": [WATCH, LIST_SECRETS, TICK, WATCH_PODS]})

    daemon.until_measuring("configmaps", "leases.coordination.k8s.io")
    assert [entry["on"] for entry in daemon.log("ticking")] == [["events"]]
    daemon.until_sampled("configmaps", 1, lambda n: writer.create(CONFIGMAPS, configmap(f"rights-least-{n}")))
    daemon.until_measuring("pods")
    daemon.until_sampled("pods", 1, lambda n: writer.create(PODS, pod(f"rights-least-{n}")))

    scrape = daemon.scrape()
    assert scrape.total("watchslo_watches_closed_total", **{"class": "credentials"}) >= 1
    streams = daemon.streams()
    assert [close["class"] for close in streams["secrets"]["closed"]] == ["credentials"]
    assert streams["configmaps"]["closed"] == []
    assert [entry["reason"] for entry in daemon.log("list_failed") if entry["watch"] == "pods"] == ["forbidden"]


def until_away(daemon: Daemon, watch: str, why: str) -> None:
    """Wait until a watch is closed because it is forbidden; the daemon retries it now and then."""

    def is_away() -> bool:
        stream = daemon.streams()[watch]
        failure = stream["lastFailure"] or {}
        return stream["state"] == "away" and failure["reason"] == "forbidden" and why in failure["message"]

    daemon.process.until(is_away, f"{watch} is away: {why}", LOOK_SECONDS)


def test_ticks_without_the_right_to_events_alternate_between_two_resources(
    daemons: dict[str, Daemon], writer: Writer
) -> None:
    daemon, watches = daemons["no-events"], ("configmaps", "leases.coordination.k8s.io")
    daemon.until_measuring(*watches)
    (ticking,) = daemon.log("ticking")
    assert sorted(ticking["on"]) == sorted(watches)
    assert daemon.status()["domains"][0]["ticksOn"] == ticking["on"]
    before = {watch: daemon.samples(watch) for watch in watches}
    writes: tuple[Callable[[int], object], ...] = (
        lambda n: writer.create(CONFIGMAPS, configmap(f"rights-no-events-{n}")),
        lambda n: writer.create(LEASES, {"metadata": {"name": f"rights-no-events-{n}"}}),
    )
    for watch, write in zip(watches, writes, strict=True):
        daemon.until_sampled(watch, before[watch] + 1, write)


def test_daemon_without_any_right_names_the_reason(daemons: dict[str, Daemon]) -> None:
    daemons["none"].until_not_ready("This identity may not list the resource")
    assert daemons["none"].scrape().total("watchslo_watch_up") == 0


# Each right, by the audit log


RBAC = "/apis/rbac.authorization.k8s.io/v1"
AUDITED_WATCHES = ("configmaps", "pods", "deployments.apps")
CONFIGURED: dict[str, Any] = {
    "cluster": "audited",
    "watch": [{"resource": resource} for resource in AUDITED_WATCHES],
    "kubernetes": {"apiservers": "each"},
    "metrics": "full",
}
TICK_NAME = "watchslo-reads-nothing"

# Log the metadata of each answered request of our accounts.
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts:default"]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource, in one namespace or in all; on one name only, if there is one."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    @property
    def rule(self) -> dict[str, list[str]]:
        names = {"resourceNames": [self.name]} if self.name else {}
        return {"apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb], **names}

    def permits(self, entry: dict[str, Any]) -> bool:
        """Return True if an entry of the audit log used this right."""
        asked = entry["objectRef"]
        return (
            (self.verb, self.group, self.resource) == (entry["verb"], asked.get("apiGroup", ""), asked["resource"])
            and self.namespace in ("", asked.get("namespace"))
            and self.name in ("", asked.get("name"))
        )


def rights() -> list[Right]:
    """Return the rights that `watchslo rbac` writes for this configuration, one for each verb."""
    config = Config.model_validate(CONFIGURED)
    return [
        Right(verb, need.scope.group, need.scope.resource, need.scope.namespace or "", need.scope.name or "")
        for need in required_permissions(config, watch_permissions(config, None))
        for verb in sorted(need.verbs)
    ]


MISSING = {  # by missing right: the log event, the watch, and words of the message
    Right("list", "", "configmaps"): ("list_failed", "configmaps", "may not list"),
    Right("list", "", "pods"): ("list_failed", "pods", "may not list"),
    Right("list", "apps", "deployments"): ("list_failed", "deployments.apps", "may not list"),
    Right("watch", "", "configmaps"): ("watch_closed", "configmaps", "may not watch"),
    Right("watch", "", "pods"): ("watch_closed", "pods", "may not watch"),
    Right("watch", "apps", "deployments"): ("watch_closed", "deployments.apps", "may not watch"),
    Right("list", "", "events", "default", TICK_NAME): ("tick_failed", "events", "may not list"),
    Right("watch", "", "events", "default", TICK_NAME): ("storage_unknown", None, "may not watch"),
    Right("list", "discovery.k8s.io", "endpointslices", "default"): ("apiservers_unknown", None, "endpointslices"),
    Right("watch", "discovery.k8s.io", "endpointslices", "default"): ("apiservers_unwatched", None, "endpointslices"),
    Right("list", "coordination.k8s.io", "leases", "kube-system"): ("apiservers_uncounted", None, "leases"),
}


class Audited:
    """A control plane that logs the requests of each account."""

    def __init__(self, plane: ControlPlane, log: Path) -> None:
        self.plane = plane
        self._log = log

    def account(self, name: str, granted: Sequence[Right]) -> Path:
        """Create a service account with exactly these rights; return its kubeconfig."""
        with self.plane.writer() as writer:
            writer.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
            for namespace in sorted({right.namespace for right in granted}):
                rules = [right.rule for right in granted if right.namespace == namespace]
                self._bind(writer, name, namespace, rules)
                self.plane.until_permitted("default", name, rules[0], namespace)
            token = writer.service_account_token("default", name)
        return self.plane.kubeconfig(name, {"token": token})

    def _bind(self, writer: Writer, name: str, namespace: str, rules: list[Any]) -> None:
        kind = "Role" if namespace else "ClusterRole"
        at = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
        metadata = {"metadata": {"name": name}}
        writer.create(f"{at}/{kind.lower()}s", {**metadata, "rules": rules})
        writer.create(f"{at}/{kind.lower()}bindings", {**metadata, "roleRef": role, "subjects": [subject]})

    def entries(self, name: str) -> list[dict[str, Any]]:
        """Return the requests of an account for resources."""
        entries = [json.loads(line) for line in self._log.read_text().splitlines() if line.endswith("}")]
        user = f"system:serviceaccount:default:{name}"
        return [entry for entry in entries if entry["user"]["username"] == user and "objectRef" in entry]


@pytest.fixture(scope="module")
def audited(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    folder = tmp_path_factory.mktemp("audited")
    policy, log = folder / "policy.yaml", folder / "audit.log"
    policy.write_text(yaml.safe_dump(POLICY))
    log.touch()
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-mode=blocking"]
    with (
        Etcd(folder, assets.etcd) as etcd,
        ControlPlane(folder, assets.kube_apiserver, etcd, flags=flags) as plane,
    ):
        yield Audited(plane, log)


def daemon(audited: Audited, folder: Path, name: str, granted: Sequence[Right]) -> Daemon:
    config = config_file(folder, **CONFIGURED)
    return Daemon(folder, "--config", config, "--kubeconfig", audited.account(name, granted))


@pytest.fixture(scope="module")
def lacking(audited: Audited, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Right, Daemon]]:
    """A daemon for each missing right, all at once, because each takes a while to detect it."""
    with contextlib.ExitStack() as stack:
        daemons = {}
        for number, missing in enumerate(MISSING):
            granted = [right for right in rights() if right != missing]
            folder = tmp_path_factory.mktemp(f"lacking-{number}")
            daemons[missing] = daemon(audited, folder, f"lacking-{number}", granted)
        start_all(stack, daemons.values())
        yield daemons


def test_every_right_has_a_case() -> None:
    assert set(MISSING) == set(rights())


def test_every_right_is_used_and_sufficient(audited: Audited, tmp_path: Path) -> None:
    with daemon(audited, tmp_path, "least", rights()) as least:
        least.until_measuring(*AUDITED_WATCHES)

        def unused() -> list[Right]:
            entries = audited.entries("least")
            return [right for right in rights() if not any(map(right.permits, entries))]

        least.process.until(lambda: not unused(), "every right is used", every=1.0)
        with steady_writes(audited.plane):  # continuously: an event received by a late loop is no sample
            least.until_samples("configmaps", 1)
        failed = [entry for event in ("list_failed", "watch_closed", "tick_failed") for entry in least.log(event)]
        assert not any(entry["reason"] == "forbidden" for entry in failed)
    refused = [entry["objectRef"] for entry in audited.entries("least") if entry["responseStatus"]["code"] == 403]
    assert refused == []
    beyond = [
        (entry["verb"], entry["objectRef"])
        for entry in audited.entries("least")
        if not any(right.permits(entry) for right in rights())
    ]
    assert beyond == []


@pytest.mark.parametrize("missing", MISSING, ids=lambda right: f"{right.verb}-{right.resource}")
def test_missing_right_is_named_and_the_rest_continues(
    lacking: dict[Right, Daemon], audited: Audited, missing: Right
) -> None:
    event, about, words = MISSING[missing]
    one = lacking[missing]
    one.until_said(event, reason="forbidden")
    said = next(entry for entry in one.log(event) if entry["reason"] == "forbidden")
    assert words in said["message"]
    assert about in (None, said.get("watch"), said.get("on"))
    one.until_measuring(
        *(watch for watch in AUDITED_WATCHES if not (event in ("list_failed", "watch_closed") and watch == about))
    )
    one.until_ready()

    name = f"lacking-{[*MISSING].index(missing)}"
    refused = [entry for entry in audited.entries(name) if entry["responseStatus"]["code"] == 403]
    assert refused
    assert all(missing.permits(entry) for entry in refused)
