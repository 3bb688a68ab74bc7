"""Run kubectl, kustomize and Helm as a user does: on the folder `deploy`, and on a cluster."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.support.assets import HELM, find
from tests.support.control_plane import ControlPlane
from tests.support.process import PATIENCE_SECONDS, eventually

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMMAND_SECONDS = PATIENCE_SECONDS
TRIES = 5
NOTHING_WRITTEN = ("TLS handshake timeout", "failed to download openapi")  # after 10 and 32 s: long at idle priority
NO_PINGS = {"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "0"}  # else a connection is lost that is silent for 45 s
WORKLOADS = ("DaemonSet", "Deployment", "StatefulSet")
CHARTED_FOR = "1.36"  # Helm does not contact a cluster for `template` and `lint`
HELM_OPTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "template": (
        ("watchslo",),
        ("--kube-version", CHARTED_FOR, "--api-versions", "monitoring.coreos.com/v1", "--no-hooks"),
    ),
    "lint": ((), ("--kube-version", CHARTED_FOR)),
    "install": (("watchslo",), ()),
}
"""The arguments before and after the chart: the name of a release, and what Helm assumes about the cluster."""
HELM_LABELS = ("helm.sh/chart", "app.kubernetes.io/managed-by")


Objects = list[dict[str, Any]]
LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the manifests hold large dashboards


def kubectl(
    *arguments: str | Path, kubeconfig: Path | None = None, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run kubectl to its end, again if it failed before it wrote anything; `given` is its input for `-f -`."""
    program = shutil.which("kubectl")
    assert program is not None, "there is no kubectl here"
    access: list[str | Path] = [] if kubeconfig is None else ["--kubeconfig", kubeconfig]
    for _ in range(TRIES):
        done = subprocess.run(
            [program, *access, *arguments],
            input=given,
            capture_output=True,
            text=True,
            env=dict(os.environ) | NO_PINGS,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if not any(text in done.stderr for text in NOTHING_WRITTEN):
            break
    return done


def kustomized(folder: Path) -> Objects:
    """Return the objects that `kubectl kustomize` builds from a folder."""
    done = kubectl("kustomize", folder)
    assert done.returncode == 0, done.stderr
    return parsed(done.stdout)


def overlay(folder: Path, profile: str, *components: str) -> Objects:
    """Write a kustomization of an overlay with components to `folder`; return its objects."""
    at = os.path.relpath(DEPLOY, folder.resolve())  # kustomize accepts no absolute path
    document = {
        "resources": [f"{at}/overlays/{profile}"],
        "components": [f"{at}/components/{name}" for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(document))
    return kustomized(folder)


def helm(*arguments: str | Path, chart: Path = DEPLOY / "chart") -> subprocess.CompletedProcess[str]:
    """Run Helm on the chart: `helm("template", "--set", "profile=node")`."""
    verb, *rest = arguments
    release, known = HELM_OPTIONS[str(verb)]
    command = [find(os.environ, HELM), verb, *release, chart, *known, *rest]
    return subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)


def charted(*values: str) -> Objects:
    """Return the objects of the chart with these values, as the overlays have them.

    They are in the namespace `watchslo`, with the overlays' image, and without the labels that Helm recommends.
    """
    options = [argument for value in ("image.repository=watchslo", *values) for argument in ("--set", value)]
    done = helm("template", "--namespace", "watchslo", *options)
    assert done.returncode == 0, done.stderr
    objects = parsed(done.stdout)
    of_helm = [[one["metadata"]["labels"].pop(label) for label in HELM_LABELS] for one in objects]
    assert all(chart.startswith("watchslo-") and service == "Helm" for chart, service in of_helm)
    return objects


def parsed(text: str) -> Objects:
    """Return the objects of a stream of YAML documents."""
    return [document for document in yaml.load_all(text, LOADER) if document]


def by_identity(objects: Objects) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return objects by kind, namespace and name, without the namespace of the release, which Helm creates."""
    found = [one for one in objects if one["kind"] != "Namespace"]
    named: dict[tuple[str, ...], dict[str, Any]] = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in found
    }
    assert len(named) == len(found), "one object twice"
    return named


def pods(objects: Objects) -> Objects:
    """Return the pods that controllers would create for the workloads."""
    templates = [(one["metadata"]["name"], one["spec"]["template"]) for one in objects if one["kind"] in WORKLOADS]
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "watchslo", **template["metadata"]},
            "spec": template["spec"],
        }
        for name, template in templates
    ]


def as_text(objects: Iterable[dict[str, Any]]) -> str:
    """Return the objects as input for `kubectl -f -`."""
    return yaml.safe_dump_all(objects)


class Cluster:
    """A control plane accessed by kubectl, whose methods return a complaint, or nothing on success."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._kubeconfig = plane.kubeconfig("manifests")

    def kubectl(self, *arguments: str, given: Objects | None = None) -> str:
        text = None if given is None else as_text(given)
        done = kubectl(*arguments, kubeconfig=self._kubeconfig, given=text)
        return "" if done.returncode == 0 else done.stderr or done.stdout

    def apply(self, objects: Objects) -> str:
        """Apply objects on the server, which refuses fields that its version does not know."""
        options = ("--server-side", "--field-manager=tests", "--validate=strict")
        return self.kubectl("apply", *options, "-f", "-", given=objects)

    @contextlib.contextmanager
    def applied(self, objects: Objects) -> Iterator[None]:
        """Apply objects while the context is open, but keep namespaces: no controller would empty them."""
        assert self.apply(objects) == ""
        try:
            yield
        finally:
            rest = [one for one in objects if one["kind"] != "Namespace"]
            assert self.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", given=rest) == ""

    def admit(self, pod: dict[str, Any]) -> str:
        """Create a pod in a dry run; retry until the apiserver knows its priority class."""
        said: list[str] = []

        def asked() -> bool:
            said.append(self.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", given=[pod]))
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
