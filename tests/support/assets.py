"""The programs of a real control plane: found on this machine, or built from the pins in `tests/envtest`.

`python -m tests.support.assets` builds what is missing and prints the folders.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PINS = Path(__file__).parent.parent / "envtest"
VERSION_PACKAGE = "k8s.io/component-base/version"


class AssetsError(Exception):
    """There is no control plane to test against; one sentence says why and what to do."""


@dataclass(frozen=True, slots=True)
class Assets:
    """The programs of one control plane."""

    kube_apiserver: Path
    etcd: Path


@dataclass(frozen=True, slots=True)
class Program:
    """A program that a pinned module builds: its file name, Go package, and the module that gives the version."""

    name: str
    package: str
    module: str


KUBE_APISERVER = Program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes")
ETCD = Program("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3")


def newest(env: Mapping[str, str]) -> Assets:
    """The current kube-apiserver and etcd; raises `AssetsError` without them."""
    folder = _named(env, "KUBEBUILDER_ASSETS", (KUBE_APISERVER, ETCD))
    if folder is not None:
        return Assets(folder / "kube-apiserver", folder / "etcd")
    return Assets(_built(env, "1.36", KUBE_APISERVER), _built(env, "1.36", ETCD))


def old(env: Mapping[str, str]) -> Assets:
    """A kube-apiserver before WatchList and consistent reads from cache, with the current etcd; or `AssetsError`."""
    folder = _named(env, "KUBEBUILDER_ASSETS_OLD", (KUBE_APISERVER,))
    path = folder / "kube-apiserver" if folder is not None else _built(env, "1.30", KUBE_APISERVER)
    return Assets(path, newest(env).etcd)


def build_missing(env: Mapping[str, str]) -> None:
    """Builds what neither the environment names nor the cache holds; raises `AssetsError` where that fails."""
    if "KUBEBUILDER_ASSETS" not in env:
        _build(env, "1.36", KUBE_APISERVER)
        _build(env, "1.36", ETCD)
    if "KUBEBUILDER_ASSETS_OLD" not in env:
        _build(env, "1.30", KUBE_APISERVER)


def pinned(minor: str, program: Program) -> str:
    """The version that the pins of Kubernetes `minor` give a program, e.g. `v1.36.3`."""
    text = (PINS / minor / "go.mod").read_text()
    found = re.search(rf"^(?:require|\t)\s*{re.escape(program.module)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise AssetsError(f"tests/envtest/{minor}/go.mod pins no {program.module}")
    return found[1]


def _named(env: Mapping[str, str], variable: str, programs: tuple[Program, ...]) -> Path | None:
    if variable not in env:
        return None
    folder = Path(env[variable]).absolute()
    for program in programs:
        if not os.access(folder / program.name, os.X_OK):
            raise AssetsError(f"{variable} names {folder}, but there is no {program.name} to run in it")
    return folder


def _built(env: Mapping[str, str], minor: str, program: Program) -> Path:
    path = _place(env, minor, program)
    if not path.exists():
        raise AssetsError(
            f"there is no {program.name} {pinned(minor, program)} to test against: build it with `make assets`, "
            "or name a folder that has one in KUBEBUILDER_ASSETS"
        )
    return path


def _place(env: Mapping[str, str], minor: str, program: Program) -> Path:
    cache = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "watchslo" / "envtest" / pinned(minor, program) / program.name


def _build(env: Mapping[str, str], minor: str, program: Program) -> None:
    path = _place(env, minor, program)
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two clones may start at once
        if not path.exists():
            _compile(env, minor, program, path)


def _compile(env: Mapping[str, str], minor: str, program: Program, path: Path) -> None:
    version = pinned(minor, program)
    if shutil.which("go", path=env.get("PATH")) is None:
        raise AssetsError(
            f"there is no Go here to build {program.name} {version} with, and KUBEBUILDER_ASSETS names no folder "
            "that has one"
        )
    major, minor_only = version.removeprefix("v").split(".")[:2]
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor_only}
    flags = " ".join(["-s -w", *(f"-X {VERSION_PACKAGE}.{key}={value}" for key, value in stamps.items())])
    print(f"building {program.name} {version}, which takes minutes the first time", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        output = Path(folder) / program.name
        command = ["go", "build", "-trimpath", "-ldflags", flags, "-o", str(output), program.package]
        if subprocess.run(command, cwd=PINS / minor, env=dict(env), check=False).returncode != 0:
            raise AssetsError(f"{program.name} {version} could not be built: what Go said stands above")
        output.replace(path)


def main() -> int:
    """Builds what is missing; says where everything is, or in one sentence why not."""
    try:
        build_missing(os.environ)
        current, previous = newest(os.environ), old(os.environ)
    except AssetsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for path in (current.kube_apiserver, previous.kube_apiserver, current.etcd):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
