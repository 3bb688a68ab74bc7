"""The commit that is released: its files, version and time."""

import subprocess
import tarfile
import tomllib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from tools.release.errors import ReleaseError


@dataclass(frozen=True, slots=True)
class Checkout:
    """The committed files of HEAD in a folder of their own, and the time of the commit (Unix seconds)."""

    folder: Path
    time: int

    @property
    def project(self) -> dict[str, Any]:
        """The table `[project]` of pyproject.toml."""
        found: dict[str, Any] = tomllib.loads((self.folder / "pyproject.toml").read_text())["project"]
        return found

    @property
    def version(self) -> str:
        return str(self.project["version"])

    @property
    def changelog(self) -> str:
        return (self.folder / "CHANGELOG.md").read_text()


def export(repository: Path, folder: Path) -> Checkout:
    """Write the files of HEAD to a folder: files without a commit have no time, and would change what is built."""
    files = git(repository, "archive", "--format=tar", "HEAD")
    with tarfile.open(fileobj=BytesIO(files)) as archive:
        archive.extractall(folder, filter="data")
    return Checkout(folder, int(git(repository, "log", "-1", "--format=%ct")))


def changed(repository: Path) -> list[str]:
    """Return the files that differ from HEAD, so that the release does not have them as they are here."""
    return git(repository, "status", "--porcelain").decode().splitlines()


def git(repository: Path, *arguments: str) -> bytes:
    """Run git and return its output; raises ReleaseError."""
    done = subprocess.run(["git", *arguments], cwd=repository, capture_output=True, check=False)  # noqa: S603, S607
    if done.returncode != 0:
        raise ReleaseError(f"git {arguments[0]} failed: {done.stderr.decode().strip()}: run this in a clone")
    return done.stdout
