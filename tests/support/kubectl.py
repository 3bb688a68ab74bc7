"""kubectl as a user runs it, and what kustomize and Helm make of the folder `deploy`."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tests.support.assets import HELM, find

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMMAND_SECONDS = 300.0  # 1 s when the machine is ours alone
CHARTED_FOR = "1.36"  # Helm asks no cluster here

Objects = list[dict[str, Any]]


def kubectl(
    *arguments: str | Path, kubeconfig: Path | None = None, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs kubectl to its end; `given` is what it reads from `-f -`."""
    program = shutil.which("kubectl")
    assert program is not None, "there is no kubectl here"
    access: list[str | Path] = [] if kubeconfig is None else ["--kubeconfig", kubeconfig]
    return subprocess.run(
        [program, *access, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )


def kustomized(folder: Path) -> Objects:
    """What `kubectl kustomize` makes of a folder."""
    done = kubectl("kustomize", folder)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def overlay(folder: Path, profile: str, *components: str) -> Objects:
    """An overlay with components, by a kustomization that is written to `folder`."""
    at = os.path.relpath(DEPLOY, folder.resolve())  # kustomize takes no absolute path
    document = {
        "resources": [f"{at}/overlays/{profile}"],
        "components": [f"{at}/components/{name}" for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(document))
    return kustomized(folder)


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs Helm on the chart: `helm("template", "--set", "profile=node")`."""
    verb, *rest = arguments
    release = ["watchslo"] if verb == "template" else []
    command = [find(os.environ, HELM), verb, *release, DEPLOY / "chart", "--kube-version", CHARTED_FOR, *rest]
    return subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)


def charted(*values: str) -> Objects:
    """What the chart makes of these values, in the namespace `watchslo`."""
    told = [argument for value in values for argument in ("--set", value)]
    done = helm("template", "--namespace", "watchslo", *told)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def as_text(objects: Iterable[dict[str, Any]]) -> str:
    """For `kubectl -f -`."""
    return yaml.safe_dump_all(objects)
