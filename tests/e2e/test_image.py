"""The image: does it hold only what it needs, and does it run as in a strict pod?"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.busy import steady_writes
from tests.support.control_plane import EVERYTHING_READABLE, HOST, ControlPlane
from tests.support.daemon import Daemon
from tests.support.process import PATIENCE_SECONDS, eventually
from tools.image.build import build, buildah, size, unpacked

REVISION = "0123456789abcdef0123456789abcdef01234567"
SERVICE_ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount"
UNPRIVILEGED_ID = 65534
LARGEST = 300e6  # bytes
UNWANTED = ("sh", "bash", "dash", "busybox", "pip", "pip3", "gcc", "cc", "ld", "as", "apt", "dpkg", "perl", "ensurepip")
ENTER = (  # arguments: the root, the folder of the service account, then a command
    'root=$1 secrets=$2; shift 2; "$MOUNT" --make-rprivate / && "$MOUNT" --bind "$root" "$root" && '
    '"$MOUNT" --options remount,bind,ro "$root" && "$MOUNT" --types proc proc "$root/proc" && '
    f'"$MOUNT" --bind --options ro "$secrets" "$root/{SERVICE_ACCOUNT}" && unset MOUNT && exec "$@"'
)


def program(name: str) -> str:
    path = shutil.which(name)
    assert path is not None, f"there is no {name} here"
    return path


class Container:
    """The configuration of the image, and commands run in it, without mounts that outlive them."""

    def __init__(self, image: str, root: Path) -> None:
        self.root = root
        self.config: dict[str, Any] = json.loads(buildah("inspect", "--type", "image", image))["Docker"]["config"]
        (root / SERVICE_ACCOUNT).mkdir(parents=True)  # as every engine does for its mounts

    def env(self, **more: str) -> dict[str, str]:
        return dict(entry.split("=", 1) for entry in self.config["Env"]) | more | {"MOUNT": program("mount")}

    def wrapper(self, secrets: Path) -> list[str]:
        """Return a command that runs its arguments inside the image, with `secrets` as service account."""
        enter = [program("unshare"), "--mount", program("sh"), "-c", ENTER, "sh", str(self.root), str(secrets)]
        return [*enter, program("chroot"), f"--userspec={self.config['User']}", "--groups=", str(self.root)]

    def run(self, secrets: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the image to its end."""
        full = [*self.wrapper(secrets), *command]
        return subprocess.run(
            full, env=self.env(**env), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    image = build(REVISION)
    with unpacked(image) as root:
        yield Container(image, root)


@pytest.fixture(scope="module")
def secrets(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of a service account, as in a pod."""
    folder = tmp_path_factory.mktemp("image") / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text(control_plane.service_account("image", EVERYTHING_READABLE))
    shutil.copy(control_plane.ca, folder / "ca.crt")
    for path in (folder.parent.parent, folder.parent, folder):
        path.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o644)
    return folder


def test_image_configuration_names_command_user_and_revision(container: Container) -> None:
    config = container.config
    assert config["Entrypoint"] + config["Cmd"] == ["watchslo", "run"]
    assert config["User"] == f"{UNPRIVILEGED_ID}:{UNPRIVILEGED_ID}"
    assert config["StopSignal"] == "SIGTERM"
    assert config["Healthcheck"]["Test"] == ["CMD", "watchslo", "healthy"]
    assert list(config["ExposedPorts"]) == ["9477/tcp"]
    assert config["Labels"]["org.opencontainers.image.revision"] == REVISION


def test_image_holds_no_shell_compiler_or_setuid_file(container: Container) -> None:
    files = list(container.root.rglob("*"))
    assert size(container.root) < LARGEST
    assert [path for path in files if path.name in UNWANTED and path.is_file()] == []
    assert [path for path in files if path.name.startswith("pip-")] == []
    assert [path for path in files if not path.is_symlink() and path.stat().st_mode & 0o6000] == []
    writable = [path for path in files if not path.is_symlink() and path.stat().st_mode & 0o002]
    assert writable == [container.root / "tmp"]


def test_image_has_no_broken_link(container: Container) -> None:
    """A link to a file outside the image would fail at run time."""
    for link in (path for path in container.root.rglob("*") if path.is_symlink()):
        target = link.readlink()
        found = container.root / target.relative_to("/") if target.is_absolute() else link.parent / target
        assert found.exists(), f"{link} → {target}"


def test_image_lists_the_packages_of_its_libraries(container: Container) -> None:
    """Scanners find vulnerabilities only in listed packages."""
    packages = {path.name: path.read_text() for path in (container.root / "var/lib/dpkg/status.d").iterdir()}
    assert {"libc6", "libssl3", "python3.11-minimal", "zlib1g"} <= packages.keys()
    for name, status in packages.items():
        assert f"Package: {name}\n" in status
        assert "\nVersion: " in status
        assert (container.root / "usr/share/doc" / name / "copyright").stat().st_size > 0


def test_image_holds_nothing_of_the_build_machine(container: Container) -> None:
    assert not (container.root / "run").exists()
    assert not (container.root / "etc/pip.conf").exists()
    assert not list(container.root.glob("root/*"))


def test_image_runs_as_in_a_strict_pod(
    container: Container, secrets: Path, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Read-only and without privileges, with a mounted service account."""
    host, port = control_plane.url.removeprefix("https://").split(":")
    env = container.env(KUBERNETES_SERVICE_HOST=host, KUBERNETES_SERVICE_PORT=port)
    with Daemon(tmp_path, env=env, wrapper=container.wrapper(secrets), program="watchslo") as daemon:
        daemon.until_measuring("serviceaccounts")
        with steady_writes(control_plane, "serviceaccounts"):  # continuously: a late loop makes no samples
            daemon.until_samples("serviceaccounts", 1)
        version = container.run(Path("/"), "python", "-c", "import platform; print(platform.python_version())").stdout
        build_info = {"revision": REVISION, "python_version": version.strip()}
        assert daemon.scrape().value("watchslo_build_info", **build_info) == 1

        status = Path(f"/proc/{daemon.process.pid}/status").read_text()
        facts = dict(line.split(":\t", 1) for line in status.splitlines())
        assert facts["Uid"].split() == facts["Gid"].split() == [str(UNPRIVILEGED_ID)] * 4
        assert facts["Groups"].strip() == ""
        assert int(facts["CapEff"], 16) == int(facts["CapPrm"], 16) == 0

        ask = (*container.config["Healthcheck"]["Test"][1:], "--url")
        eventually(lambda: container.run(secrets, *ask, daemon.url).stdout == f"{daemon.url}: ok\n", "healthy")
        failed = container.run(secrets, *ask, f"http://{HOST}:1")
        assert (failed.returncode, failed.stdout) == (1, "")
        assert daemon.stop() == 0
        assert len(daemon.log("stopped")) == 1
