"""The plugin for krew: krew accepts its manifest, installs it, and the launcher runs the wheel of the release."""

import hashlib
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.assets import KREW, KREW_CHECK, find
from tests.support.daemon import outside
from tools.release import archive
from tools.release.checkout import Checkout

UV = Path(sys.executable).with_name("uv")
MANIFEST = "watchslo.yaml"


@pytest.fixture
def packed(dist: Path, checkout: Checkout) -> Path:
    return dist / f"kubectl-watchslo-{checkout.version}.tar.gz"


def script(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def path_with_krew(tmp_path: Path, packed: Path) -> str:
    """A PATH with a krew that takes our archive instead of downloading it: no release is published yet."""
    folder = tmp_path / "programs"
    folder.mkdir()
    script(folder, "kubectl-krew", f'exec "{find(os.environ, KREW)}" "$@" ${{1:+--archive="{packed}"}}')
    kubectl = shutil.which("kubectl")
    assert kubectl is not None, "there is no kubectl here"
    return f"{folder}:{Path(kubectl).parent}:/usr/bin:/bin"


@pytest.fixture
def launcher(packed: Path, tmp_path: Path) -> Path:
    path = tmp_path / "kubectl-watchslo"
    path.write_bytes(archive.unpacked(packed.read_bytes())["kubectl-watchslo"])
    path.chmod(0o755)
    return path


@pytest.fixture
def downloads(dist: Path) -> Iterator[str]:
    """Serve the files of the release; yields the address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=dist)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_krew_accepts_the_manifest_and_installs_the_plugin(dist: Path, path_with_krew: str) -> None:
    done = subprocess.run(
        [find(os.environ, KREW_CHECK), "-manifest", dist / MANIFEST],
        env=outside(PATH=path_with_krew),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "all 1 spec.platforms installed fine" in done.stderr
    assert not re.search(r"^W", done.stderr, re.MULTILINE), done.stderr


def test_krew_refuses_an_archive_with_another_hash(dist: Path, path_with_krew: str, tmp_path: Path) -> None:
    """A counter-check: the test above compares the archive with the manifest."""
    spoilt = tmp_path / MANIFEST
    spoilt.write_text(re.sub(r"sha256: \w+", f"sha256: {'a' * 64}", (dist / MANIFEST).read_text()))
    done = subprocess.run(
        [find(os.environ, KREW_CHECK), "-manifest", spoilt],
        env=outside(PATH=path_with_krew),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "checksum does not match" in done.stderr


def test_manifest_names_the_archive_of_the_release(dist: Path, packed: Path, checkout: Checkout) -> None:
    spec = yaml.safe_load((dist / MANIFEST).read_text())["spec"]
    assert spec["version"] == f"v{checkout.version}"
    (platform,) = spec["platforms"]
    assert platform["uri"].endswith(f"/v{checkout.version}/{packed.name}")
    assert platform["sha256"] == hashlib.sha256(packed.read_bytes()).hexdigest()


def test_launcher_runs_the_wheel_of_the_release_by_uv(
    launcher: Path, downloads: str, dist: Path, checkout: Checkout, tmp_path: Path
) -> None:
    text = launcher.read_text()
    (wheel,) = dist.glob("*.whl")
    assert f"{wheel.name}#sha256={hashlib.sha256(wheel.read_bytes()).hexdigest()}'" in text
    launcher.write_text(re.sub(r"https://\S+(?=/watchslo-)", downloads, text))
    (tmp_path / "uv").symlink_to(UV)
    env = outside(PATH=f"{tmp_path}:/usr/bin:/bin", UV_PYTHON=sys.executable)
    done = subprocess.run([launcher, "--version"], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"watchslo, version {checkout.version}\n"), done.stderr


def test_launcher_prefers_pipx(launcher: Path, tmp_path: Path) -> None:
    """It checks the hash; a stand-in shows what it would run."""
    script(tmp_path, "pipx", 'echo pipx "$@"')
    (tmp_path / "uv").symlink_to(UV)
    shown = subprocess.run(
        [launcher, "check", "-o", "json"], env={"PATH": f"{tmp_path}:/bin"}, capture_output=True, text=True, check=True
    ).stdout
    assert re.fullmatch(
        r"pipx run --quiet --spec watchslo\[top\] @ https://\S+\.whl#sha256=\w{64} kubectl-watchslo check -o json\n",
        shown,
    )


def test_launcher_without_pipx_and_uv_says_what_to_install(launcher: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", launcher], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kubectl watchslo: there is neither pipx nor uv to run watchslo with: install one of them\n"
