"""The rules of the repository itself: locks, Makefile, names, forbidden content, and tests that can fail."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support import assets

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
LOCKED = re.compile(
    r"^(?P<name>[a-z0-9][a-z0-9._-]*)(?:\[(?P<extras>[^\]]+)\])?==(?P<version>\S+)(?: ; [^\\]+)? \\$",
    re.MULTILINE,
)

SITE_LOCK = "tools/site/requirements.lock"

FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.])/(?:work|root|home)/\w"),
    "the address of a package registry": re.compile(
        r"(?:pypi|pythonhosted|npmjs|crates)\.(?:org|io)|(?:proxy|sum)\.golang\.org|deb\.debian\.org"
    ),
}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def requirements(lock: str) -> list[str]:
    """Return the requirements of pyproject.toml that a lock must satisfy."""
    declared = project()
    runtime: list[str] = declared["project"]["dependencies"]
    building: list[str] = declared["dependency-groups"]["build"]
    site: list[str] = declared["dependency-groups"]["site"]
    pushing: list[str] = declared["project"]["optional-dependencies"]["otlp"]
    development = [one for one in declared["dependency-groups"]["dev"] if one != {"include-group": "build"}]
    return {
        "requirements.lock": runtime,
        "requirements-otlp.lock": runtime + pushing,
        "requirements-build.lock": building,
        "requirements-dev.lock": runtime + building + development,
        SITE_LOCK: site,
    }[lock]


def pins(lock: str) -> dict[str, set[str]]:
    """Return the versions that a lock pins for each package; several if they differ by Python version."""
    found: dict[str, set[str]] = {}
    for match in LOCKED.finditer((ROOT / lock).read_text()):
        found.setdefault(canonicalize_name(match["name"]), set()).add(match["version"])
    return found


def asked_for(lock: str) -> set[str]:
    """Return the packages of a lock that pyproject.toml names."""
    roots: set[str] = set()
    name = ""
    for line in (ROOT / lock).read_text().splitlines():
        if match := LOCKED.match(line):
            name = match["name"]
        elif line.lstrip(" #").removeprefix("via ").lstrip().startswith("watchslo (pyproject.toml"):
            roots.add(canonicalize_name(name))
    return roots


def make(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run make as from a shell, even if make runs these tests; `more` are variables of its environment."""
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")} | more
    return subprocess.run(["make", *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def tracked_files() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def class_names() -> dict[str, list[str]]:
    """Return the files of each class name of the package, without leading underscores."""
    found = defaultdict(list)
    for path in sorted((ROOT / "watchslo").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(str(path.relative_to(ROOT)))
    return found


def test_class_names_are_unique_in_the_package() -> None:
    names = class_names()
    assert len(names) > 100
    assert {name: files for name, files in names.items() if len(files) > 1} == {}


LOCKS = (
    "requirements.lock",
    "requirements-otlp.lock",
    "requirements-build.lock",
    "requirements-dev.lock",
    SITE_LOCK,
)


@pytest.mark.parametrize("lock", LOCKS)
class TestLock:
    def test_lock_satisfies_pyproject(self, lock: str) -> None:
        wanted = [Requirement(text) for text in requirements(lock)]
        assert asked_for(lock) == {canonicalize_name(one.name) for one in wanted}, "run `make lock`"
        locked = pins(lock)
        for one in wanted:
            for version in locked[canonicalize_name(one.name)]:
                assert one.specifier.contains(version), f"{one} does not allow {version}: run `make lock`"

    def test_lock_has_hashes_and_no_addresses(self, lock: str) -> None:
        text = (ROOT / lock).read_text()
        entries = [block for block in re.split(r"\n(?=\S)", text) if not block.startswith("#")]
        assert len(entries) == len(LOCKED.findall(text))
        assert all("--hash=sha256:" in entry for entry in entries)
        assert "://" not in text


def test_lock_names_the_extras_that_packages_require() -> None:
    """Else pip considers newer versions of `coverage[toml]` than the locked coverage, and refuses them without hash."""
    text = (ROOT / "requirements-dev.lock").read_text()
    locked = {canonicalize_name(one["name"]): (one["extras"] or "").split(",") for one in LOCKED.finditer(text)}
    required = [Requirement(one) for name in locked for one in _requirements_of(name)]
    with_extras = [one for one in required if one.extras]
    assert with_extras
    for one in with_extras:
        assert {*one.extras} <= {*locked[canonicalize_name(one.name)]}, f"{one}: run `make lock`"


def _requirements_of(name: str) -> list[str]:
    """Return what an installed package requires without extras of its own; nothing if it is not for this system."""
    try:
        stated = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []
    return [one for one in stated if (marker := Requirement(one).marker) is None or marker.evaluate({"extra": ""})]


def test_all_locks_pin_the_same_versions() -> None:
    development = pins("requirements-dev.lock")
    for lock in LOCKS:
        shared = pins(lock).keys() & development.keys()
        assert {name: development[name] for name in shared} == {name: pins(lock)[name] for name in shared}
        assert lock == SITE_LOCK or shared == pins(lock).keys()


def test_build_lock_matches_build_system() -> None:
    names = {canonicalize_name(Requirement(one).name) for one in project()["build-system"]["requires"]}
    assert names == asked_for("requirements-build.lock")


def test_no_file_contains_machine_paths_or_registry_hosts() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {what}: {match[0]}"
        for path in tracked_files()
        for what, pattern in FORBIDDEN.items()
        for match in pattern.finditer(path.read_text(errors="replace"))
    ]
    assert not found


class TestMakefile:
    targets = frozenset(re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[0].split())

    def test_make_without_target_prints_help_for_every_target(self) -> None:
        lines = make().stdout.splitlines()
        assert {line.split()[1] for line in lines} == self.targets
        assert all(len(line.split()) > 3 and len(line) <= 120 for line in lines)

    @pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", ".ci/run", ".ci/fresh"])
    def test_documented_make_targets_exist(self, name: str) -> None:
        documented = set(re.findall(r"(?:`|^\s*)make ([a-z0-9]+)", (ROOT / name).read_text(), re.MULTILINE))
        assert documented <= self.targets

    def test_ci_runs_every_part(self) -> None:
        parts = re.findall(r"^(?:part )?(?:make |\.ci/)(\w+)", (ROOT / ".ci/run").read_text(), re.MULTILINE)
        assert parts == ["install", "fresh", "assets", "check", "release", "e2e"]

    def test_ci_runs_demo_and_test_in_a_fresh_clone(self) -> None:
        fresh = (ROOT / ".ci/fresh").read_text()
        assert re.findall(r"^cleanly make (\w+)", fresh, re.MULTILINE) == ["demo", "test"]

    def test_setup_without_python_names_the_versions(self) -> None:
        done = make("-W", "pyproject.toml", "setup", "PYTHON=no-such-python")
        assert done.returncode != 0
        assert done.stderr.splitlines()[0] == (
            "error: watchslo runs on Python 3.11 to 3.13, and no-such-python is missing: "
            "install one, or name one, as in make setup PYTHON=python3.12"
        )

    def test_setup_with_an_old_python_names_its_version(self, tmp_path: Path) -> None:
        old = script(tmp_path / "python3", "[ $1 = --version ] && echo Python 3.10.13")
        done = make("-W", "pyproject.toml", "setup", f"PYTHON={old}")
        assert done.returncode != 0
        assert done.stderr.startswith(f"error: watchslo runs on Python 3.11 to 3.13, and {old} is Python 3.10.13: ")

    def test_setup_takes_the_first_python_that_fits(self, tmp_path: Path) -> None:
        for name in ("python3", "python3.13", "python3.11"):
            script(tmp_path / name, "exit 1")
        (tmp_path / "python3.12").symlink_to(sys.executable)
        done = make("--dry-run", "-W", "pyproject.toml", "setup", PATH=f"{tmp_path}:{os.environ['PATH']}")
        assert "\npython3.12 -m venv .venv " in done.stdout


class TestAssets:
    def test_pins_match_the_documented_versions(self) -> None:
        documented = (assets.PINS / "README.md").read_text()
        for program in (*assets.PROGRAMS, *assets.FURTHER_KUBE_APISERVERS, assets.KREW):
            assert f"{program.name} {program.version.removeprefix('v')}" in documented

    def test_assets_named_by_the_environment_are_used(self, tmp_path: Path) -> None:
        for program in assets.PROGRAMS:
            (tmp_path / program.name).touch(mode=0o755)
        named = {program.variable: str(tmp_path) for program in assets.PROGRAMS}
        assets.build_missing(named)
        for program in assets.PROGRAMS:
            assert assets.find(named, program) == tmp_path / program.name
        assert assets.newest(named) == assets.Assets(tmp_path / "kube-apiserver", tmp_path / "etcd")
        assert assets.old(named) == assets.newest(named)

    def test_assets_named_folder_without_programs_fails(self, tmp_path: Path) -> None:
        with pytest.raises(assets.AssetsError, match=r"KUBEBUILDER_ASSETS names .* no kube-apiserver to run in it$"):
            assets.newest({"KUBEBUILDER_ASSETS": str(tmp_path)})

    def test_assets_missing_error_names_the_make_target(self, tmp_path: Path) -> None:
        with pytest.raises(assets.AssetsError, match=r"^there is no kube-apiserver .* `make assets`"):
            assets.newest({"XDG_CACHE_HOME": str(tmp_path)})

    def test_assets_without_go_fail_with_the_remedy(self, tmp_path: Path) -> None:
        env = {"XDG_CACHE_HOME": str(tmp_path)}
        with pytest.raises(
            assets.AssetsError, match=r"no Go here to build kube-apiserver v1\.36.* KUBEBUILDER_ASSETS names"
        ):
            assets.build_missing(env)
        with pytest.raises(assets.AssetsError, match=r"no Go .* kube-apiserver v1\.30.* KUBEBUILDER_ASSETS_OLD names"):
            assets.build_missing(
                env | dict.fromkeys(("KUBEBUILDER_ASSETS", "CONTROLLERS_ASSETS", "KWOK_ASSETS"), "whatever")
            )

    def test_further_versions_are_found_and_built_only_for_make_versions(self, tmp_path: Path) -> None:
        env = {"XDG_CACHE_HOME": str(tmp_path)}
        assert not {*assets.PROGRAMS} & {*assets.FURTHER_KUBE_APISERVERS, *assets.NEXT_CONTROLLERS}
        with pytest.raises(assets.AssetsError, match=r"^there is no kube-apiserver v1\.33.* `make versions`"):
            assets.of_version(env, "1.33")
        named = dict.fromkeys(("KUBEBUILDER_ASSETS_1_37", "KUBEBUILDER_ASSETS_1_33"), "whatever")
        with pytest.raises(assets.AssetsError, match=r"no Go .* kube-apiserver v1\.28.* KUBEBUILDER_ASSETS_1_28 names"):
            assets.build_missing(env | named, assets.FURTHER_KUBE_APISERVERS)


WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yaml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
class TestWorkflow:
    def test_workflow_has_read_permissions_and_timeouts(self, path: Path) -> None:
        workflow = yaml.safe_load(path.read_text())
        assert workflow["permissions"] == {"contents": "read"}
        assert all("timeout-minutes" in job for job in workflow["jobs"].values())

    def test_workflow_actions_are_pinned_by_commit(self, path: Path) -> None:
        steps = [step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]]
        used = [step["uses"] for step in steps if "uses" in step]
        assert used
        assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one)] == []

    def test_workflow_make_targets_exist(self, path: Path) -> None:
        lines = re.findall(r"^\s*- run: make (.+)$", path.read_text(), re.MULTILINE)
        assert {target for line in lines for target in line.split()} <= TestMakefile.targets


def test_workflows_test_every_supported_python() -> None:
    text = (ROOT / ".github/workflows/check.yaml").read_text()
    (versions,) = re.findall(r"python: (\[.+\])", text)
    supported = [one.rpartition(" ")[2] for one in project()["project"]["classifiers"] if ":: Python :: 3." in one]
    assert yaml.safe_load(versions) == supported


IMAGE = re.compile(
    r"^(?:ARG BASE=|FROM (?:--platform=\S+ )?|COPY --from=| *(?:- )?(?:image|container): )(?![{#])(\S+)",
    re.MULTILINE,
)
PINNED = re.compile(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}")
UNPINNED = {
    "watchslo": "the manifests name the image that users push to their own registry",
    "watchslo:compose": "compose builds it from this checkout",
    "watchslo:compose-build": "compose builds it from this checkout",
    "${BASE}": "the argument BASE, whose default has a digest",
    "build": "a stage of the Dockerfile",
    "scratch": "no image: a stage that begins empty",
}


def image_files() -> list[Path]:
    """Return the files that name images: Dockerfiles, compose files, manifests and workflows; no templates."""
    named = [path for path in tracked_files() if path.suffix in {".yaml", ".yml"} or "Dockerfile" in path.name]
    return [path for path in named if path.parent.name != "templates"]


def test_images_of_others_are_pinned_by_digest() -> None:
    found = {name: path for path in image_files() for name in IMAGE.findall(path.read_text())}
    assert UNPINNED.keys() <= found.keys(), "remove exceptions that nothing needs"
    others = {name: str(path.relative_to(ROOT)) for name, path in found.items() if name not in UNPINNED}
    assert {name: path for name, path in others.items() if not PINNED.fullmatch(name)} == {}
    tags = [name.partition("@")[0] for name in others]
    assert {"debian", "grafana/grafana", "prom/prometheus", "python"} <= {tag.partition(":")[0] for tag in tags}
    assert len(tags) == len({*tags}), "one tag with two digests"


@pytest.mark.parametrize(
    "line",
    [
        "FROM debian:12",
        "FROM --platform=linux/amd64 debian:12 AS build",
        "ARG BASE=debian:12",
        "COPY --from=debian:12 /etc /etc",
        "    image: debian:12 # a comment",
        "  - image: debian:12",
        "    container: debian:12",
    ],
)
def test_an_image_without_digest_is_found(line: str) -> None:
    assert IMAGE.findall(line) == ["debian:12"]
    assert not PINNED.fullmatch("debian:12")


def test_renovate_renews_every_kind_of_pin() -> None:
    renovate = json.loads((ROOT / ".github/renovate.json").read_text())
    assert {"docker-compose", "dockerfile", "github-actions", "npm", "pip_requirements"} == {
        *renovate["enabledManagers"]
    }
    patterns = [re.compile(one.strip("/")) for one in renovate["pip_requirements"]["managerFilePatterns"]]
    files = [str(path.relative_to(ROOT)) for path in tracked_files()]
    assert {file for file in files if any(one.search(file) for one in patterns)} == {*LOCKS}
    exact = {one.partition("==")[0] for one in requirements("requirements-dev.lock") if "==" in one}
    kept = {
        name
        for rule in renovate["packageRules"]
        if rule["matchManagers"] == ["pip_requirements"]
        for name in rule.get("matchPackageNames", ())
    }
    assert kept == exact, "a package of which pyproject.toml permits one version only is not renewed"


LEAKY_TESTS = """
import asyncio

async def test_leaves_a_task_behind():
    test_leaves_a_task_behind.task = asyncio.create_task(asyncio.sleep(60))

async def test_loses_an_exception():
    async def fail():
        raise ValueError("lost")
    asyncio.create_task(fail())
    await asyncio.sleep(0)

async def test_is_clean():
    await asyncio.create_task(asyncio.sleep(0))
"""


DEPENDENT_TESTS = """
import asyncio
import os
import subprocess
import time
from pathlib import Path

import pytest

def test_starts_another_program():
    subprocess.run(["cat", "/dev/null"])

def test_reads_the_home():
    Path(HOME, ".kube/config").read_text()

def test_lists_the_home_and_catches_what_refuses_that():
    try:
        os.listdir(HOME)
    except BaseException:
        pass

def test_sleeps():
    time.sleep(0.001)

async def test_sleeps_on_a_real_loop():
    await asyncio.sleep(0.001)

@pytest.mark.real_clock
def test_may_sleep():
    time.sleep(0.001)

async def test_is_clean():
    subprocess.run(["git", "--version"], check=True)
    await asyncio.sleep(0)
    assert Path.home() != Path(HOME)
    assert not [name for name in os.environ if name == "KUBECONFIG" or name.startswith("XDG_")]
"""


def run_tests(path: Path, *plugins: str, **more: str) -> str:
    """Run the tests of a file with these conftests, and return the output; `more` are variables of its environment."""
    options = [f"-p{name}" for name in (*plugins, "no:cacheprovider")]
    command = [
        sys.executable,
        "-m",
        "pytest",
        *options,
        "-q",
        "--rootdir",
        str(ROOT),
        "-c",
        "pyproject.toml",
        str(path),
    ]
    env = os.environ | more
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False).stdout


def test_leaked_tasks_and_lost_exceptions_fail_tests(tmp_path: Path) -> None:
    path = tmp_path / "test_leaky.py"
    path.write_text(LEAKY_TESTS)
    output = run_tests(path, "tests.conftest")
    assert "1 failed" not in output
    assert re.search(r"3 passed, 2 errors in", output), output
    assert "tasks left behind" in output
    assert "exceptions lost" in output


def test_unit_tests_that_depend_on_the_machine_fail(tmp_path: Path) -> None:
    home, other = (tmp_path / name for name in ("home", "other"))
    for folder in (home / ".kube", other):
        folder.mkdir(parents=True)
    (home / ".kube/config").touch()
    path = tmp_path / "test_dependent.py"
    path.write_text(f"HOME = {str(home)!r}\n{DEPENDENT_TESTS}")
    variables = {"HOME": str(home), "TMPDIR": str(other), "KUBECONFIG": "of-the-user", "XDG_CACHE_HOME": "of-the-user"}
    output = run_tests(path, "tests.conftest", "tests.unit.conftest", **variables)
    assert re.search(r"4 failed, 3 passed, 5 errors in", output), output
    refusals = ("starts cat:", f"reads {home}/.kube/config,", f"reads {home},", "sleeps:", "sleeps on a real clock:")
    assert [refusal for refusal in refusals if f"a unit test {refusal}" not in output] == []


def test_changelog_has_unreleased_and_current_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert project()["project"]["version"] in headings or len(headings) == 1
