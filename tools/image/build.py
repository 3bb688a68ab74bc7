"""Builds the image where there is no container engine and no base to pull: on Debian, as root, by buildah.

The base is made once by debootstrap, from the mirror that apt uses here; pip gets this machine's settings as a secret.
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
SECRET_BUNDLE = "/run/secrets/ca"  # noqa: S105 - where the Dockerfile mounts it
HANDED_ON = ("index-url", "extra-index-url", "trusted-host", "timeout", "retries", "proxy")  # of pip's settings


class ImageError(Exception):
    """There is no image; one sentence says why and what to do."""


def buildah(*arguments: str | Path) -> str:
    """Runs buildah on a storage of this checkout's own and returns what it answers; what it tells goes to stderr."""
    storage = ("--root", STORAGE / "storage", "--runroot", STORAGE / "run", "--storage-driver", "vfs")
    return run("buildah", *storage, *arguments)


def run(*command: str | Path) -> str:
    """Runs a program to its end and returns what it answers; raises ImageError where it fails."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise ImageError(f"{command[0]} failed with {done.returncode}: what it said stands above")
    return done.stdout


def build(revision: str) -> str:
    """Builds the image of this checkout, named `localhost/watchslo:latest`, and returns its id; raises ImageError."""
    for program in ("buildah", "debootstrap"):
        if shutil.which(program) is None:
            raise ImageError(f"there is no {program} here: install Debian's package of that name, or `docker build .`")
    if os.geteuid() != 0:
        raise ImageError("debootstrap and a build by chroot need root: run this as root, or `docker build .`")
    STORAGE.mkdir(parents=True, exist_ok=True)
    _import_base(base_archive(os.environ))
    with tempfile.TemporaryDirectory() as folder:
        secrets = _secrets(Path(folder))
        # The Docker format, because OCI's has no health check.
        told = ("--format", "docker", "--isolation", "chroot", "--tag", NAME, "--iidfile", STORAGE / "id")
        arguments = (f"BASE={BASE}", f"REVISION={revision}")
        buildah("bud", *told, *secrets, *(part for one in arguments for part in ("--build-arg", one)), ROOT)
    buildah("rmi", "--prune")  # the one before, which has lost its name
    return (STORAGE / "id").read_text().strip()


def base_archive(env: Mapping[str, str]) -> Path:
    """A root file system of Debian with Python, as a tar file, which all checkouts here share."""
    cache = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "watchslo" / "image"
    cache.mkdir(parents=True, exist_ok=True)
    archive = cache / f"{SUITE}.tar"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two checkouts may start at once
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
    """Where apt gets this suite from."""
    listed = run("apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages")
    for line in listed.splitlines():
        release, uri = line.split()
        if release == SUITE:
            return uri
    raise ImageError(f"apt has no source for Debian {SUITE} here: add one, or `docker build .`")


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
    """How pip here finds its packages, for pip there; such settings may hold passwords, so no layer keeps them."""
    settings = _pip_settings(run(sys.executable, "-m", "pip", "config", "list"))
    (folder / "pip.conf").write_text("\n".join(["[global]", f"cert = {SECRET_BUNDLE}", *settings, ""]))
    return ["--secret", f"id=pip,src={folder / 'pip.conf'}", "--secret", f"id=ca,src={BUNDLE}"]


def _pip_settings(listed: str) -> list[str]:
    """What `pip config list` shows, as lines of a pip.conf: what goes before what is told by the sections' order."""
    told: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in told and key in HANDED_ON:
            told[section][key] = " ".join(ast.literal_eval(value).split())
    return [f"{key} = {value}" for key, value in {**told["global"], **told["install"], **told[":env:"]}.items()]


@contextlib.contextmanager
def unpacked(image: str) -> Iterator[Path]:
    """The root of a container made of an image, as long as the context lives; nothing runs in it."""
    container = buildah("from", image).strip()
    try:
        yield Path(buildah("mount", container).strip())
    finally:
        buildah("rm", container)


def size(root: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(path.lstat().st_size for path in root.rglob("*"))
