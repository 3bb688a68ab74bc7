"""Find the programs of other projects that the tests run, or build them from `tests/envtest`.

`python -m tests.support.assets` builds the missing programs and prints the paths of all; with `--every-version` also
the kube-apiservers that only `make versions` needs. `--helm` and `--krew` build only these.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

PINS = Path(__file__).parent.parent / "envtest"
VERSION_PACKAGE = "k8s.io/component-base/version"


class AssetsError(Exception):
    """A program is missing; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Assets:
    """The programs of one control plane, of a minor version such as `1.36`."""

    kube_apiserver: Path
    etcd: Path
    minor: str = field(default="1.36", compare=False)


@dataclass(frozen=True, slots=True)
class ControllerAssets:
    """The programs of the other half of a control plane; kwok plays its kubelets."""

    controller_manager: Path
    scheduler: Path
    kwok: Path


@dataclass(frozen=True, slots=True)
class Program:
    """A Go program: its file name, package, and the module that gives its version.

    `pins` is the folder in `tests/envtest` that pins it; `variable` names another folder in the environment.
    `cgo` is for a program with parts in C: then a C compiler is needed too. `tags` are build tags.
    """

    name: str
    package: str
    module: str
    pins: str
    variable: str
    cgo: bool = False
    tags: str = ""

    @property
    def version(self) -> str:
        """The pinned version, for example `v1.36.3`."""
        found = re.search(rf"\s{re.escape(self.module)} (v\S+)", (self.module_folder / "go.mod").read_text())
        assert found is not None, f"{self.pins} pins no {self.module}"
        return found[1]

    @property
    def module_folder(self) -> Path:
        return PINS / self.pins


KUBE_APISERVER = Program(
    "kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes", "1.36", "KUBEBUILDER_ASSETS"
)
ETCD = Program("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", "1.36", "KUBEBUILDER_ASSETS")
OLD_KUBE_APISERVER = replace(KUBE_APISERVER, pins="1.30", variable="KUBEBUILDER_ASSETS_OLD")
FURTHER_KUBE_APISERVERS = tuple(
    replace(KUBE_APISERVER, pins=minor, variable=f"KUBEBUILDER_ASSETS_{minor.replace('.', '_')}")
    for minor in ("1.37", "1.33", "1.28")
)
"""Only `make versions` needs these."""
KUBE_APISERVERS = {program.pins: program for program in (KUBE_APISERVER, OLD_KUBE_APISERVER, *FURTHER_KUBE_APISERVERS)}
CONTROLLERS = tuple(
    Program(name, f"k8s.io/kubernetes/cmd/{name}", "k8s.io/kubernetes", KUBE_APISERVER.pins, "CONTROLLERS_ASSETS")
    for name in ("kube-controller-manager", "kube-scheduler")
)
NEXT_CONTROLLERS = tuple(replace(program, pins="1.37", variable="CONTROLLERS_ASSETS_1_37") for program in CONTROLLERS)
"""Only `make versions` builds these; `python -m tests.lab night --minor 1.37` runs them."""
INFORMERS = Program("informers", "./informers", "k8s.io/client-go", "1.37", "INFORMERS_ASSETS")
"""A small client of ours with informers of client-go; only `make versions` builds it, for `tests.lab`."""
FURTHER_PROGRAMS = (*FURTHER_KUBE_APISERVERS, *NEXT_CONTROLLERS, INFORMERS)
CONTROLLERS_OF = {programs[0].pins: programs for programs in (CONTROLLERS, NEXT_CONTROLLERS)}
KWOK = Program("kwok", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok", "kwok", "KWOK_ASSETS")
HELM = Program("helm", "helm.sh/helm/v3/cmd/helm", "helm.sh/helm/v3", "helm", "HELM_ASSETS")
KINE = Program("kine", "github.com/k3s-io/kine", "github.com/k3s-io/kine", "kine", "KINE_ASSETS", cgo=True)
THANOS = Program(
    "thanos",
    "github.com/thanos-io/thanos/cmd/thanos",
    "github.com/thanos-io/thanos",
    "thanos",
    "THANOS_ASSETS",
    tags="slicelabels",  # the querier panics without it: it reads labels of Prometheus in this form
)
SLOTH = Program("sloth", "github.com/slok/sloth/cmd/sloth", "github.com/slok/sloth", "sloth", "SLOTH_ASSETS")
OSLO = Program("oslo", "github.com/OpenSLO/oslo/cmd/oslo", "github.com/OpenSLO/oslo", "oslo", "OSLO_ASSETS")
PYRRA_RULES = Program("pyrra-rules", ".", "github.com/pyrra-dev/pyrra", "pyrra", "PYRRA_ASSETS")
"""A small program of ours around the packages of Pyrra."""

JSONNET = Program(
    "jsonnet", "github.com/google/go-jsonnet/cmd/jsonnet", "github.com/google/go-jsonnet", "jsonnet", "JSONNET_ASSETS"
)
PERCLI = Program("percli", "github.com/perses/perses/cmd/percli", "github.com/perses/perses", "percli", "PERCLI_ASSETS")
FORMATS = (SLOTH, OSLO, PYRRA_RULES, JSONNET, PERCLI)
"""The tools that read what watchslo writes for them."""

OTELCOL = Program("otelcol", ".", "go.opentelemetry.io/collector/otelcol", "otelcol", "OTELCOL_ASSETS")
"""Its distributions are no modules, so `tests/envtest/otelcol` has a `main`."""
PROMETHEUS = Program(
    "prometheus",
    "github.com/prometheus/prometheus/cmd/prometheus",
    "github.com/prometheus/prometheus",
    "prometheus",
    "PROMETHEUS_ASSETS",
    tags="remove_all_sd",  # a third of the packages are libraries of clouds
)
"""Newer than Debian's."""
KREW = Program("krew", "sigs.k8s.io/krew/cmd/krew", "sigs.k8s.io/krew", "krew", "KREW_ASSETS")
KREW_CHECK = replace(KREW, name="validate-krew-manifest", package="sigs.k8s.io/krew/cmd/validate-krew-manifest")
"""Only `make release` needs these."""
PROGRAMS = (
    KUBE_APISERVER,
    ETCD,
    *CONTROLLERS,
    KWOK,
    OLD_KUBE_APISERVER,
    HELM,
    KINE,
    PROMETHEUS,
    THANOS,
    OTELCOL,
    *FORMATS,
)


def newest(env: Mapping[str, str]) -> Assets:
    """Return the current kube-apiserver and etcd, or raise `AssetsError`."""
    return of_version(env, KUBE_APISERVER.pins)


def old(env: Mapping[str, str]) -> Assets:
    """Return a kube-apiserver without WatchList and consistent reads from cache, with the current etcd."""
    return of_version(env, OLD_KUBE_APISERVER.pins)


def of_version(env: Mapping[str, str], minor: str) -> Assets:
    """Return the kube-apiserver of a minor version, such as `1.33`, with the current etcd; or raise `AssetsError`."""
    return Assets(find(env, KUBE_APISERVERS[minor]), find(env, ETCD), minor)


def controllers(env: Mapping[str, str], minor: str = KUBE_APISERVER.pins) -> ControllerAssets:
    """Return a controller manager and a scheduler of a minor version, and kwok; or raise `AssetsError`."""
    manager, scheduler = (find(env, program) for program in CONTROLLERS_OF[minor])
    return ControllerAssets(manager, scheduler, find(env, KWOK))


def find(env: Mapping[str, str], program: Program) -> Path:
    """Return the path of a program: named by the environment, or built earlier; else raise `AssetsError`."""
    if named := env.get(program.variable):
        path = Path(named).absolute() / program.name
        if not os.access(path, os.X_OK):
            raise AssetsError(f"{program.variable} names {path.parent}, but there is no {program.name} to run in it")
        return path
    path = _place(env, program)
    if not path.exists():
        targets = {
            **dict.fromkeys(FURTHER_PROGRAMS, "make versions"),
            **dict.fromkeys((KREW, KREW_CHECK), "make release"),
        }
        target = targets.get(program, "make assets")
        raise AssetsError(
            f"there is no {program.name} {program.version} to test with: build it with `{target}`, "
            f"or name a folder that has one in {program.variable}"
        )
    return path


def build_missing(env: Mapping[str, str], programs: Iterable[Program] = PROGRAMS) -> None:
    """Build the programs that are neither named by the environment nor cached; raise `AssetsError` on failure."""
    for program in programs:
        if not env.get(program.variable):
            _build(env, program, _place(env, program))


def _place(env: Mapping[str, str], program: Program) -> Path:
    cache = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "watchslo" / "envtest" / program.version / program.name


def _build(env: Mapping[str, str], program: Program, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two clones may start at once
        if not path.exists():
            _compile(env, program, path)


def _compile(env: Mapping[str, str], program: Program, path: Path) -> None:
    named = f"{program.name} {program.version}"
    if shutil.which("go", path=env.get("PATH", "")) is None:  # without a path, `which` would take that of this process
        raise AssetsError(f"there is no Go here to build {named} with, and {program.variable} names no folder with one")
    major, minor = program.version.removeprefix("v").split(".")[:2]
    stamps = {"gitVersion": program.version, "gitMajor": major, "gitMinor": minor}
    flags = " ".join(["-s -w", *(f"-X {VERSION_PACKAGE}.{key}={value}" for key, value in stamps.items())])
    print(f"building {named}, which takes minutes the first time", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        output = Path(folder) / program.name
        options = ["-trimpath", "-ldflags", flags, "-tags", program.tags, "-o", str(output)]
        command = ["go", "build", *options, program.package]
        building = dict(env) | ({"CGO_ENABLED": "1"} if program.cgo else {})
        if subprocess.run(command, cwd=program.module_folder, env=building, check=False).returncode != 0:
            raise AssetsError(f"{named} could not be built: the output of Go is above")
        output.replace(path)


def main() -> int:
    """Build what is missing and print the paths, or print why the build failed."""
    options = {*sys.argv[1:]}
    programs = (
        *PROGRAMS,
        *(FURTHER_PROGRAMS if "--every-version" in options else ()),
    )
    only = {"--helm": (HELM,), "--krew": (KREW, KREW_CHECK)}
    programs = next((found for option, found in only.items() if option in options), programs)
    try:
        build_missing(os.environ, programs)
        for program in programs:
            print(find(os.environ, program))
    except AssetsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
