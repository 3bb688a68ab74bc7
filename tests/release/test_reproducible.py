"""Another build of the same commit has the same bytes, so that anyone can verify a release."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.assets import HELM, find

ROOT = Path(__file__).parents[2]
SITE_PYTHON = ROOT / ".cache/site/bin/python"
PRIVATE = 0o077
ELSEWHERE = {"TZ": "Pacific/Auckland", "LC_ALL": "C", "PYTHONHASHSEED": "1"}


def test_build_elsewhere_has_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    """In another folder, at another time, with other rights of new files and another time zone."""
    clone = tmp_path / "another name"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True, umask=PRIVATE)
    programs: list[str | Path] = ["--helm", find(os.environ, HELM), "--site-python", SITE_PYTHON]
    subprocess.run(
        [sys.executable, "-m", "tools.release", "build", *programs],
        cwd=clone,
        env=os.environ | ELSEWHERE | {"PYTHONPATH": str(clone)},
        umask=PRIVATE,
        check=True,
    )
    built = {path.name: path.read_bytes() for path in dist.iterdir()}
    again = {path.name: path.read_bytes() for path in (clone / "dist").iterdir()}
    assert built.keys() == again.keys()
    assert [name for name in built if built[name] != again[name]] == []


def test_sums_are_those_of_the_files(dist: Path) -> None:
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=dist, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line.partition(":")[0] for line in done.stdout.splitlines()} == {
        path.name for path in dist.iterdir() if path.name != "SHA256SUMS"
    }
