"""Run kubectl, kustomize and Helm on the folder `deploy` as a user does."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tests.support.assets import HELM, find
from tests.support.process import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMMAND_SECONDS = PATIENCE_SECONDS
TRIES = 5
NOTHING_WRITTEN = ("TLS handshake timeout", "failed to download openapi")  # after 10 and 32 s: long at idle priority
NO_PINGS = {"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "0"}  # else a connection is lost that is silent for 45 s
CHARTED_FOR = "1.36"  # Helm does not contact a cluster here

Objects = list[dict[str, Any]]


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
    return list(yaml.safe_load_all(done.stdout))


def overlay(folder: Path, profile: str, *components: str) -> Objects:
    """Write a kustomization of an overlay with components to `folder`; return its objects."""
    at = os.path.relpath(DEPLOY, folder.resolve())  # kustomize accepts no absolute path
    document = {
        "resources": [f"{at}/overlays/{profile}"],
        "components": [f"{at}/components/{name}" for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(document))
    return kustomized(folder)


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Helm on the chart: `helm("template", "--set", "profile=node")`."""
    verb, *rest = arguments
    release = ["watchslo"] if verb == "template" else []
    command = [find(os.environ, HELM), verb, *release, DEPLOY / "chart", "--kube-version", CHARTED_FOR, *rest]
    return subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)


def charted(*values: str) -> Objects:
    """Return the objects of the chart with these values, in the namespace `watchslo`, and with the overlays' image."""
    options = [argument for value in ("image.repository=watchslo", *values) for argument in ("--set", value)]
    done = helm("template", "--namespace", "watchslo", *options)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def as_text(objects: Iterable[dict[str, Any]]) -> str:
    """Return the objects as input for `kubectl -f -`."""
    return yaml.safe_dump_all(objects)
