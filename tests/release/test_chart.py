"""The packaged chart installs the same objects as the folder from which it was made."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.assets import HELM, find
from tests.support.kubectl import CHARTED_FOR
from tools.release import archive
from tools.release.checkout import Checkout
from watchslo.app.doctor.panels import OF_FLEET

PROFILES = ("control-plane", "managed", "node", "sharded")


def templated(chart: Path, profile: str) -> str:
    options = ["--kube-version", CHARTED_FOR, "--namespace", "watchslo", "--set", f"profile={profile}"]
    command: list[str | Path] = [find(os.environ, HELM), "template", "watchslo", chart, *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def packaged(dist: Path, checkout: Checkout) -> Path:
    return dist / f"watchslo-{checkout.version}.tgz"


@pytest.mark.parametrize("profile", PROFILES)
def test_chart_renders_as_its_folder(packaged: Path, checkout: Checkout, profile: str) -> None:
    assert templated(packaged, profile) == templated(checkout.folder / "deploy/chart", profile)


def test_chart_has_all_files_but_those_of_kustomize(packaged: Path, checkout: Checkout) -> None:
    """The link to the dashboards is not in the package, but the dashboards of a cluster are."""
    folder = checkout.folder / "deploy/chart"
    own = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}
    linked = {path.relative_to(folder) for path in folder.glob("dashboards/*.json") if path.name != OF_FLEET}
    assert set(archive.unpacked(packaged.read_bytes())) == {
        f"watchslo/{path}" for path in own | linked if path.name != "kustomization.yaml"
    }
