"""The wheel and the source distribution: complete, and usable without a checkout."""

import re
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.support.daemon import outside
from tests.support.process import Process
from tools.release import archive
from tools.release.checkout import Checkout

UV = Path(sys.executable).with_name("uv")
COMMAND_SECONDS = 120.0
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
OF_PAGE = re.compile(r'(?:src|href)="([^":#]+\.(?:js|css))"')
AROUND = {".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
"""What the source distribution has in addition to the package; hatchling always adds the first and needs it."""


def package(checkout: Checkout) -> set[str]:
    """Return the committed files of the package."""
    folder = checkout.folder
    return {str(path.relative_to(folder)) for path in (folder / "watchslo").rglob("*") if path.is_file()}


def sdist(folder: Path, checkout: Checkout) -> Path:
    return folder / f"watchslo-{checkout.version}.tar.gz"


def wheel(folder: Path) -> Path:
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def wheel_from_sdist(dist: Path, checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel from nothing but the source distribution."""
    folder = tmp_path_factory.mktemp("sdist")
    for name, content in archive.unpacked(sdist(dist, checkout).read_bytes()).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (source,) = folder.iterdir()
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=source,
        env=outside(SOURCE_DATE_EPOCH=str(checkout.time)),
        check=True,
    )
    return wheel(folder)


class Installed:
    """The programs of a wheel in an environment of its own, as `pipx install` makes it, called far from a checkout."""

    def __init__(self, folder: Path, built: Path, constraints: Path) -> None:
        self.folder = folder
        self.programs = folder / "bin"
        tools = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(self.programs)}
        options = ("--quiet", "--python", sys.executable, "--constraints", constraints)
        self.env = outside(PATH=f"{self.programs}:/usr/bin:/bin")
        self.env.pop("PYTHONPATH", None)
        command: list[str | Path] = [UV, "tool", "install", *options, f"watchslo[top] @ {built.as_uri()}"]
        subprocess.run(command, cwd=folder, env=self.env | tools, check=True)

    def run(self, *command: str) -> str:
        """Run a program to its end and return its output."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(dist: Path, checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    return Installed(folder, wheel(dist), checkout.folder / "requirements-dev.lock")


def test_wheel_has_all_files_of_the_package_and_no_others(dist: Path, checkout: Checkout) -> None:
    with zipfile.ZipFile(wheel(dist)) as opened:
        files = {name for name in opened.namelist() if ".dist-info/" not in name}
    assert files == package(checkout)


def test_sdist_has_the_package_and_what_builds_it(dist: Path, checkout: Checkout) -> None:
    root = f"watchslo-{checkout.version}/"
    files = {name.removeprefix(root) for name in archive.unpacked(sdist(dist, checkout).read_bytes())}
    assert files == package(checkout) | AROUND


def test_sdist_can_be_installed(wheel_from_sdist: Path, checkout: Checkout, tmp_path: Path) -> None:
    installed = Installed(tmp_path, wheel_from_sdist, checkout.folder / "requirements-dev.lock")
    assert installed.run("watchslo", "--version") == f"watchslo, version {checkout.version}\n"
    assert yaml.safe_load(installed.run("watchslo", "rules"))["kind"] == "PrometheusRule"


def test_sdist_builds_the_very_wheel(dist: Path, wheel_from_sdist: Path) -> None:
    assert wheel_from_sdist.name == wheel(dist).name
    assert wheel_from_sdist.read_bytes() == wheel(dist).read_bytes()


class TestInstalled:
    def test_programs_know_their_version(self, installed: Installed, checkout: Checkout) -> None:
        named = {path.name for path in installed.programs.iterdir()}
        assert named == {"kubectl-watchslo", "kubectl_complete-watchslo", "watchslo"}
        for program in ("watchslo", "kubectl-watchslo"):
            assert installed.run(program, "--version") == f"watchslo, version {checkout.version}\n"
        assert "Usage: kubectl watchslo check" in installed.run("kubectl-watchslo", "check", "--help")
        assert "check\tMeasure a cluster once" in installed.run("kubectl_complete-watchslo", "che")

    def test_no_file_comes_from_a_checkout(self, installed: Installed) -> None:
        python = installed.folder / "tools/watchslo/bin/python"
        origin = installed.run(str(python), "-c", "import watchslo; print(watchslo.__file__)")
        assert Path(origin.strip()).is_relative_to(installed.folder)

    def test_rules_are_written(self, installed: Installed) -> None:
        assert yaml.safe_load(installed.run("watchslo", "rules"))["kind"] == "PrometheusRule"

    def test_demo_measures_and_shows_its_page_table_and_report(self, installed: Installed) -> None:
        """The simulator, the page and the report need files that are not Python."""
        with Process(installed.folder, "demo", [installed.programs / "watchslo", "demo"], installed.env) as demo:
            demo.until(lambda: re.search(r"^pods +events +[1-9]", demo.out, re.MULTILINE), "figures")
            found = ADDRESS.search(demo.out)
            assert found is not None, demo.out
            url = found[0]
            page = fetched(url)
            assets = OF_PAGE.findall(page)
            assert len(assets) > 2
            assert all(fetched(f"{url}/{path.lstrip('/')}") for path in assets)
            assert "WATCH" in installed.run("watchslo", "top", "--once", url)
            assert "<svg" in installed.run("watchslo", "report", "--since", "1m", url)


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def test_dashboards_are_those_of_the_repository(dist: Path, checkout: Checkout) -> None:
    folder = checkout.folder / "dashboards"
    files = archive.unpacked((dist / f"watchslo-dashboards-{checkout.version}.tar.gz").read_bytes())
    assert files == {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {"watchslo-slo.json", "perses/watchslo-slo.yaml"} <= files.keys()
