"""Every right that we ask for is used and none is missed, by the audit log; without any of them the rest goes on."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.assets import Assets
from tests.support.busy import somebody_writes
from tests.support.control_plane import ControlPlane, Etcd
from tests.support.daemon import Daemon, config_file
from tests.support.writer import Writer
from watchslo.config import Config
from watchslo.rights.needs import needs
from watchslo.rights.watched import watched

pytestmark = pytest.mark.patient

RBAC = "/apis/rbac.authorization.k8s.io/v1"
WATCHED = ("configmaps", "pods", "deployments.apps")
CONFIGURED: dict[str, Any] = {
    "watch": [{"resource": resource} for resource in WATCHED],
    "kubernetes": {"apiservers": "each"},
    "metrics": "full",
}
USED_SECONDS = 240.0  # the slices are watched once they have been read, and a quiet watch is audited
SAID_SECONDS = 120.0
SAMPLED_SECONDS = 240.0
NOBODY = "watchslo-reads-nothing"

# Metadata of what our accounts ask, once it is answered.
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
        """Whether it is the one that an entry of the audit log used."""
        asked = entry["objectRef"]
        return (
            (self.verb, self.group, self.resource) == (entry["verb"], asked.get("apiGroup", ""), asked["resource"])
            and self.namespace in ("", asked.get("namespace"))
            and self.name in ("", asked.get("name"))
        )


def rights() -> list[Right]:
    """What `watchslo rbac` writes for the configuration here, verb by verb."""
    config = Config.model_validate(CONFIGURED)
    return [
        Right(verb, need.target.group, need.target.resource, need.target.namespace or "", need.target.name or "")
        for need in needs(config, watched(config, None))
        for verb in sorted(need.verbs)
    ]


MISSING = {  # without which right what is said, and about what
    Right("list", "", "configmaps"): ("list_failed", "configmaps", "may not list"),
    Right("list", "", "pods"): ("list_failed", "pods", "may not list"),
    Right("list", "apps", "deployments"): ("list_failed", "deployments.apps", "may not list"),
    Right("watch", "", "configmaps"): ("watch_closed", "configmaps", "may not watch"),
    Right("watch", "", "pods"): ("watch_closed", "pods", "may not watch"),
    Right("watch", "apps", "deployments"): ("watch_closed", "deployments.apps", "may not watch"),
    Right("list", "", "events", "default", NOBODY): ("tick_failed", "events", "may not list"),
    Right("list", "discovery.k8s.io", "endpointslices", "default"): ("apiservers_unknown", None, "endpointslices"),
    Right("watch", "discovery.k8s.io", "endpointslices", "default"): ("apiservers_unwatched", None, "endpointslices"),
    Right("list", "coordination.k8s.io", "leases", "kube-system"): ("apiservers_uncounted", None, "leases"),
}


class Audited:
    """A control plane that writes down what each account asks."""

    def __init__(self, plane: ControlPlane, log: Path) -> None:
        self.plane = plane
        self._log = log

    def account(self, name: str, granted: Sequence[Right]) -> Path:
        """A kubeconfig of a service account with these rights and no others."""
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
        """What that account asked of resources."""
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
    """A daemon for each right that it lacks, all at once: they take their time to find out."""
    with contextlib.ExitStack() as stack:
        daemons = {}
        for number, missing in enumerate(MISSING):
            granted = [right for right in rights() if right != missing]
            folder = tmp_path_factory.mktemp(f"lacking-{number}")
            daemons[missing] = stack.enter_context(daemon(audited, folder, f"lacking-{number}", granted))
        yield daemons


def test_no_right_is_left_out_of_what_follows() -> None:
    assert set(MISSING) == set(rights())


def test_every_right_is_used_and_none_is_missed(audited: Audited, tmp_path: Path) -> None:
    with daemon(audited, tmp_path, "least", rights()) as least:
        least.until_measuring(*WATCHED)

        def unused() -> list[Right]:
            entries = audited.entries("least")
            return [right for right in rights() if not any(map(right.permits, entries))]

        least.process.until(lambda: not unused(), USED_SECONDS, "every right is used", every=1.0)
        with somebody_writes(audited.plane):  # all the while: what a late loop receives is no sample
            least.until_samples("configmaps", 1, SAMPLED_SECONDS)
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
def test_a_right_that_is_missing_is_named_and_the_rest_goes_on(
    lacking: dict[Right, Daemon], audited: Audited, missing: Right
) -> None:
    event, about, words = MISSING[missing]
    one = lacking[missing]
    one.until_said(event, SAID_SECONDS, reason="forbidden")
    said = next(entry for entry in one.log(event) if entry["reason"] == "forbidden")
    assert words in said["message"]
    assert about in (None, said.get("watch"), said.get("on"))
    one.until_measuring(
        *(watch for watch in WATCHED if not (event in ("list_failed", "watch_closed") and watch == about))
    )
    one.until_ready()

    name = f"lacking-{[*MISSING].index(missing)}"
    refused = [entry for entry in audited.entries(name) if entry["responseStatus"]["code"] == 403]
    assert refused
    assert all(missing.permits(entry) for entry in refused)
