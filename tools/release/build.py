"""Builds the files of a release from the committed files of a repository."""

import hashlib
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.release import archive, krew
from tools.release.changelog import notes, refuse_unreleased
from tools.release.checkout import Checkout, changed, export
from tools.release.errors import ReleaseError

BILL = "watchslo.cdx.json"
SCHEMA = "watchslo.schema.json"
SUMS = "SHA256SUMS"


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs that the release is built with, in addition to this Python: Helm, and a Python with mkdocs."""

    helm: Path
    site_python: Path


def release(repository: Path, into: Path, programs: Programs, tag: str | None = None) -> list[Path]:
    """Build all files of the release into an empty folder and return them; with a tag, refuse what may not get it."""
    with tempfile.TemporaryDirectory() as folder:
        checkout = export(repository, Path(folder) / "watchslo")
        notes(checkout.changelog, checkout.version)
        if tag is not None:
            refuse_tag(tag, checkout, changed(repository))
        into.mkdir(parents=True, exist_ok=True)
        if any(into.iterdir()):
            raise ReleaseError(f"{into} is not empty: remove it, so that the release has no file of another build")
        packages(checkout, into)
        bill_of_materials(checkout, into)
        chart(checkout, into, programs.helm)
        plugin(checkout, into)
        (into / SCHEMA).write_bytes((checkout.folder / "docs/reference" / SCHEMA).read_bytes())
        dashboards(checkout, into)
        site(checkout, into, programs.site_python)
    sums(into)
    return sorted(into.iterdir())


def refuse_tag(tag: str, checkout: Checkout, changes: list[str]) -> None:
    """Raise ReleaseError if this commit is not the version that the tag names."""
    if tag != f"v{checkout.version}":
        raise ReleaseError(f"the tag {tag} does not name the version {checkout.version} of pyproject.toml: change one")
    refuse_unreleased(checkout.changelog)
    if changes:
        raise ReleaseError(f"{len(changes)} files differ from the commit: commit or remove them before a release")


def packages(checkout: Checkout, into: Path) -> None:
    """Write the wheel and the source distribution."""
    _run(checkout, "-m", "hatchling", "build", "-d", into.absolute())


def bill_of_materials(checkout: Checkout, into: Path) -> None:
    """Write a CycloneDX list of the locked packages with their hashes."""
    output = into.absolute() / BILL
    options = ("--pyproject", "pyproject.toml", "--output-reproducible", "--output-file", output)
    _run(checkout, "-W", "ignore", "-m", "cyclonedx_py", "requirements", *options, "requirements.lock")


def chart(checkout: Checkout, into: Path, helm: Path) -> None:
    """Write the chart as Helm packages it, but with the time of the commit instead of now."""
    with tempfile.TemporaryDirectory() as folder:
        _run(checkout, "package", "deploy/chart", "--destination", folder, program=helm)
        (made,) = Path(folder).iterdir()
        files = archive.unpacked(made.read_bytes())
        (into / made.name).write_bytes(archive.packed(files, checkout.time))


def plugin(checkout: Checkout, into: Path) -> None:
    """Write the archive and the manifest of the plugin for krew, which names the wheel by its hash."""
    homepage = checkout.project["urls"]["Homepage"]
    described = krew.Plugin(checkout.version, homepage, f"{homepage}/releases/download/v{checkout.version}")
    (wheel,) = into.glob("*.whl")
    license_text = (checkout.folder / "LICENSE").read_bytes()
    made = krew.archive(described, wheel.name, wheel.read_bytes(), license_text, checkout.time)
    (into / described.archive_name).write_bytes(made)
    (into / "watchslo.yaml").write_text(krew.manifest(described, made))


def dashboards(checkout: Checkout, into: Path) -> None:
    """Write the dashboards of Grafana and Perses in one archive: an installation has none."""
    _pack(checkout, checkout.folder / "dashboards", into / f"watchslo-dashboards-{checkout.version}.tar.gz")


def site(checkout: Checkout, into: Path, python: Path) -> None:
    """Write the documentation as a site, in one archive."""
    with tempfile.TemporaryDirectory() as folder:
        options = ("--strict", "--quiet", "--config-file", "tools/site/mkdocs.yml", "--site-dir", folder)
        _run(checkout, "-m", "mkdocs", "build", *options, program=python)
        _pack(checkout, Path(folder), into / f"watchslo-site-{checkout.version}.tar.gz")


def _pack(checkout: Checkout, folder: Path, into: Path) -> None:
    """Write all files of a folder as one archive."""
    files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    into.write_bytes(archive.packed(files, checkout.time))


def sums(into: Path) -> None:
    """Write the SHA-256 of each file, in the form that `sha256sum --check` reads."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(into.iterdir())]
    (into / SUMS).write_text("".join(lines))


def _run(checkout: Checkout, *arguments: str | Path, program: Path | None = None) -> None:
    """Run Python, or a program, in the checkout; raises ReleaseError if it fails."""
    command = [str(part) for part in (program or sys.executable, *arguments)]
    env = dict(os.environ) | {"SOURCE_DATE_EPOCH": str(checkout.time), "PYTHONHASHSEED": "0"}
    done = subprocess.run(  # noqa: S603
        command, cwd=checkout.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
        raise ReleaseError(f"{' '.join(command[:4])} failed with {done.returncode}: see its messages above")
