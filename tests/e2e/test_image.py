"""The image, built as `make image` does, and run as a strict cluster would: read-only, as nobody, as a pod's container.

There is no container engine here: what an engine makes of the image's configuration, `Container` makes by hand.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.busy import somebody_writes
from tests.support.control_plane import EVERYTHING_READABLE, HOST, ControlPlane
from tests.support.daemon import Daemon
from tests.support.process import eventually
from tools.image.build import build, buildah, size, unpacked

pytestmark = [pytest.mark.patient, pytest.mark.timeout(1200)]  # the first one builds

REVISION = "0123456789abcdef0123456789abcdef01234567"
SERVICE_ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount"
NOBODY = 65534
LARGEST = 300e6  # bytes
STOP_SECONDS = 60.0  # as idle work
RUN_SECONDS = 300.0
HEALTHY_SECONDS = 120.0
SAMPLED_SECONDS = 240.0
UNWANTED = ("sh", "bash", "dash", "busybox", "pip", "pip3", "gcc", "cc", "ld", "as", "apt", "dpkg", "perl", "ensurepip")
ENTER = (  # the root, where the service account is mounted, where it is; then a command
    'root=$1 secrets=$2; shift 2; "$MOUNT" --make-rprivate / && "$MOUNT" --bind "$root" "$root" && '
    '"$MOUNT" --options remount,bind,ro "$root" && "$MOUNT" --types proc proc "$root/proc" && '
    f'"$MOUNT" --bind --options ro "$secrets" "$root/{SERVICE_ACCOUNT}" && unset MOUNT && exec "$@"'
)


def program(name: str) -> str:
    path = shutil.which(name)
    assert path is not None, f"there is no {name} here"
    return path


class Container:
    """What the image says, and how to start something in it: nothing of it is left mounted when that ends."""

    def __init__(self, image: str, root: Path) -> None:
        self.root = root
        self.config: dict[str, Any] = json.loads(buildah("inspect", "--type", "image", image))["Docker"]["config"]
        (root / SERVICE_ACCOUNT).mkdir(parents=True)  # as every engine does for its mounts

    def env(self, **more: str) -> dict[str, str]:
        return dict(entry.split("=", 1) for entry in self.config["Env"]) | more | {"MOUNT": program("mount")}

    def wrapper(self, secrets: Path) -> list[str]:
        """A command that becomes the one that follows it: inside, with `secrets` as its service account."""
        enter = [program("unshare"), "--mount", program("sh"), "-c", ENTER, "sh", str(self.root), str(secrets)]
        return [*enter, program("chroot"), f"--userspec={self.config['User']}", "--groups=", str(self.root)]

    def run(self, secrets: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Runs a command in it to its end."""
        full = [*self.wrapper(secrets), *command]
        return subprocess.run(
            full, env=self.env(**env), capture_output=True, text=True, timeout=RUN_SECONDS, check=False
        )


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    image = build(REVISION)
    with unpacked(image) as root:
        yield Container(image, root)


@pytest.fixture(scope="module")
def secrets(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a pod finds as its service account."""
    folder = tmp_path_factory.mktemp("image") / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text(control_plane.service_account("image", EVERYTHING_READABLE))
    shutil.copy(control_plane.ca, folder / "ca.crt")
    for path in (folder.parent.parent, folder.parent, folder):
        path.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o644)
    return folder


@pytest.fixture(scope="module")
def daemon(
    container: Container, secrets: Path, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Daemon]:
    host, port = control_plane.url.removeprefix("https://").split(":")
    env = container.env(KUBERNETES_SERVICE_HOST=host, KUBERNETES_SERVICE_PORT=port)
    folder = tmp_path_factory.mktemp("image-daemon")
    with Daemon(folder, env=env, wrapper=container.wrapper(secrets), program="watchslo") as daemon:
        daemon.until_measuring("configmaps")
        yield daemon


def test_what_it_says_of_itself(container: Container) -> None:
    config = container.config
    assert config["Entrypoint"] + config["Cmd"] == ["watchslo", "run"]
    assert config["User"] == f"{NOBODY}:{NOBODY}"
    assert config["StopSignal"] == "SIGTERM"
    assert config["Healthcheck"]["Test"] == ["CMD", "watchslo", "healthy"]
    assert list(config["ExposedPorts"]) == ["9477/tcp"]
    assert config["Labels"]["org.opencontainers.image.revision"] == REVISION


def test_holds_nothing_that_is_of_use_to_anybody_else(container: Container) -> None:
    files = list(container.root.rglob("*"))
    assert size(container.root) < LARGEST
    assert [path for path in files if path.name in UNWANTED and path.is_file()] == []
    assert [path for path in files if path.name.startswith("pip-")] == []
    assert [path for path in files if not path.is_symlink() and path.stat().st_mode & 0o6000] == []
    writable = [path for path in files if not path.is_symlink() and path.stat().st_mode & 0o002]
    assert writable == [container.root / "tmp"]


def test_leads_nowhere(container: Container) -> None:
    """Links that end outside of what was gathered would be found missing one day, by a user."""
    for link in (path for path in container.root.rglob("*") if path.is_symlink()):
        target = link.readlink()
        found = container.root / target.relative_to("/") if target.is_absolute() else link.parent / target
        assert found.exists(), f"{link} → {target}"


def test_says_of_which_packages_its_libraries_are(container: Container) -> None:
    """For scanners, which would find nothing to complain of in an image that does not say what is in it."""
    told = {path.name: path.read_text() for path in (container.root / "var/lib/dpkg/status.d").iterdir()}
    assert {"libc6", "libssl3", "python3.11-minimal", "zlib1g"} <= told.keys()
    for name, status in told.items():
        assert f"Package: {name}\n" in status
        assert "\nVersion: " in status
        assert (container.root / "usr/share/doc" / name / "copyright").stat().st_size > 0


def test_keeps_nothing_of_the_machine_that_built_it(container: Container) -> None:
    assert not (container.root / "run").exists()
    assert not (container.root / "etc/pip.conf").exists()
    assert not list(container.root.glob("root/*"))


def test_measures(container: Container, daemon: Daemon, control_plane: ControlPlane) -> None:
    with somebody_writes(control_plane):  # all the while: what a late loop receives is no sample
        daemon.until_samples("configmaps", 1, SAMPLED_SECONDS)
    python = container.run(
        Path("/"), "python", "-c", "import platform; print(platform.python_version())"
    ).stdout.strip()
    build_info = {"revision": REVISION, "python_version": python}
    assert daemon.scrape().value("watchslo_build_info", **build_info) == 1


def test_is_nobody_and_has_no_rights(daemon: Daemon) -> None:
    lines = dict(line.split(":\t", 1) for line in Path(f"/proc/{daemon.process.pid}/status").read_text().splitlines())
    assert lines["Uid"].split() == lines["Gid"].split() == [str(NOBODY)] * 4
    assert lines["Groups"].strip() == ""
    assert int(lines["CapEff"], 16) == int(lines["CapPrm"], 16) == 0


def test_asks_itself_for_its_health(container: Container, secrets: Path, daemon: Daemon) -> None:
    ask = (*container.config["Healthcheck"]["Test"][1:], "--url", daemon.url)
    # As idle work its loop may stand still for longer than is healthy, now and then.
    eventually(lambda: container.run(secrets, *ask).stdout == f"{daemon.url}: ok\n", HEALTHY_SECONDS, "healthy", 1.0)
    done = container.run(secrets, "watchslo", "healthy", "--url", f"http://{HOST}:1")
    assert (done.returncode, done.stdout) == (1, "")


def test_ends_when_it_is_told_to(daemon: Daemon) -> None:
    assert daemon.stop(STOP_SECONDS) == 0
    assert len(daemon.log("stopped")) == 1
