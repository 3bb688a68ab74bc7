"""Builds the image with buildah, as root on Debian, without a container engine and without pulling a base image.

debootstrap makes the base once, from the mirror of the local apt. pip gets its local settings as a build secret.
"""

import ast
import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
STORAGE = ROOT / ".cache" / "image"
SUITE = "bookworm"
PACKAGES = "ca-certificates,python3-venv"
BASE = f"localhost/watchslo-base:{SUITE}"
NAME = "localhost/watchslo"
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
SECRET_BUNDLE = "/run/secrets/ca"  # noqa: S105 - the Dockerfile mounts it there
PIP_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "timeout", "retries", "proxy")  # passed to the build


class ImageError(Exception):
    """The build failed; the message says why and what to do, in one sentence."""


def buildah(*arguments: str | Path) -> str:
    """Run buildah with the storage of this checkout and return its standard output; stderr is passed through."""
    storage = ("--root", STORAGE / "storage", "--runroot", STORAGE / "run", "--storage-driver", "vfs")
    return run("buildah", *storage, *arguments)


def run(*command: str | Path) -> str:
    """Run a program and return its standard output; raises ImageError if it fails."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise ImageError(f"{command[0]} failed with {done.returncode}: see its messages above")
    return done.stdout


def build(revision: str) -> str:
    """Build `localhost/watchslo:latest` from this checkout and return its id; raises ImageError."""
    for program in ("buildah", "debootstrap"):
        if shutil.which(program) is None:
            raise ImageError(
                f"{program} is not installed: install the Debian package of that name, or run `docker build .`"
            )
    if os.geteuid() != 0:
        raise ImageError("debootstrap and chroot builds need root: run this as root, or run `docker build .`")
    STORAGE.mkdir(parents=True, exist_ok=True)
    _import_base(base_archive(os.environ))
    with tempfile.TemporaryDirectory() as folder:
        secrets = _secrets(Path(folder))
        # Docker format: OCI images have no health check.
        options = ("--format", "docker", "--isolation", "chroot", "--tag", NAME, "--iidfile", STORAGE / "id")
        arguments = (f"BASE={BASE}", f"REVISION={revision}")
        buildah(
            "bud", *options, *secrets, *(part for argument in arguments for part in ("--build-arg", argument)), ROOT
        )
    buildah("rmi", "--prune")  # the previous image, which has no name now
    return (STORAGE / "id").read_text().strip()


def base_archive(env: Mapping[str, str]) -> Path:
    """Return a tar file of a Debian root file system with Python; all local checkouts share it."""
    cache = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "watchslo" / "image"
    cache.mkdir(parents=True, exist_ok=True)
    archive = cache / f"{SUITE}.tar"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two checkouts may build at the same time
        if not archive.exists():
            print(f"making a base of Debian {SUITE}, which takes minutes the first time", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(dir=cache) as folder:
                system, draft = Path(folder) / "root", Path(folder) / archive.name
                log = run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, system, _mirror())
                (cache / "debootstrap.log").write_text(log)
                run("tar", "--create", "--one-file-system", "--file", draft, "--directory", system, ".")
                draft.replace(archive)
    return archive


def _mirror() -> str:
    """Return the mirror from which apt installs this suite."""
    listed = run("apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages")
    for line in listed.splitlines():
        release, uri = line.split()
        if release == SUITE:
            return uri
    raise ImageError(f"apt has no source for Debian {SUITE}: add one, or run `docker build .`")


def _import_base(archive: Path) -> None:
    if BASE in buildah("images", "--format", "{{.Name}}:{{.Tag}}").split():
        return
    container = buildah("from", "scratch").strip()
    try:
        buildah("add", "--quiet", container, archive, "/")
        buildah("commit", "--quiet", container, BASE)
    finally:
        buildah("rm", container)


def _secrets(folder: Path) -> list[str]:
    """Return the build options that pass pip's settings as secrets: they may hold passwords, so no layer keeps them."""
    settings = _pip_settings(run(sys.executable, "-m", "pip", "config", "list"))
    (folder / "pip.conf").write_text("\n".join(["[global]", f"cert = {SECRET_BUNDLE}", *settings, ""]))
    return ["--secret", f"id=pip,src={folder / 'pip.conf'}", "--secret", f"id=ca,src={BUNDLE}"]


def _pip_settings(listed: str) -> list[str]:
    """Convert the output of `pip config list` to lines of a pip.conf; later sections take precedence."""
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in sections and key in PIP_SETTINGS:
            sections[section][key] = " ".join(ast.literal_eval(value).split())
    merged = sections["global"] | sections["install"] | sections[":env:"]
    return [f"{key} = {value}" for key, value in merged.items()]


@contextlib.contextmanager
def unpacked(image: str) -> Iterator[Path]:
    """Mount a container of the image and yield its root; no process runs in it."""
    container = buildah("from", image).strip()
    try:
        yield Path(buildah("mount", container).strip())
    finally:
        buildah("rm", container)


def size(root: Path) -> int:
    """Return the total size of all files in a folder, in bytes."""
    return sum(path.lstat().st_size for path in root.rglob("*"))
