"""From a clone or an image to a first P99: the documented commands, and the image run as a strict cluster runs it."""

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.busy import steady_writes
from tests.support.control_plane import EVERYTHING_READABLE, HOST, ControlPlane
from tests.support.daemon import Daemon, outside
from tests.support.newcomer import documented_commands
from tests.support.process import PATIENCE_SECONDS, Process, eventually
from tools.image.build import build, buildah, size, unpacked

# The image


REVISION = "0123456789abcdef0123456789abcdef01234567"
SERVICE_ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount"
UNPRIVILEGED_ID = 65534
LARGEST = 300e6  # bytes
STOP_SECONDS = 60.0  # at idle priority
RUN_SECONDS = PATIENCE_SECONDS
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
            full, env=self.env(**env), capture_output=True, text=True, timeout=RUN_SECONDS, check=False
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


def test_image_measures(container: Container, daemon: Daemon, control_plane: ControlPlane) -> None:
    with steady_writes(control_plane):  # continuously: an event received by a late loop is no sample
        daemon.until_samples("configmaps", 1)
    python = container.run(
        Path("/"), "python", "-c", "import platform; print(platform.python_version())"
    ).stdout.strip()
    build_info = {"revision": REVISION, "python_version": python}
    assert daemon.scrape().value("watchslo_build_info", **build_info) == 1


def test_image_runs_unprivileged(daemon: Daemon) -> None:
    lines = dict(line.split(":\t", 1) for line in Path(f"/proc/{daemon.process.pid}/status").read_text().splitlines())
    assert lines["Uid"].split() == lines["Gid"].split() == [str(UNPRIVILEGED_ID)] * 4
    assert lines["Groups"].strip() == ""
    assert int(lines["CapEff"], 16) == int(lines["CapPrm"], 16) == 0


def test_image_health_check_asks_the_daemon(container: Container, secrets: Path, daemon: Daemon) -> None:
    ask = (*container.config["Healthcheck"]["Test"][1:], "--url", daemon.url)
    # At idle priority its loop may stand still for longer than is healthy.
    eventually(lambda: container.run(secrets, *ask).stdout == f"{daemon.url}: ok\n", "healthy", 1.0)
    done = container.run(secrets, "watchslo", "healthy", "--url", f"http://{HOST}:1")
    assert (done.returncode, done.stdout) == (1, "")


def test_image_ends_with_sigterm(daemon: Daemon) -> None:
    assert daemon.stop() == 0
    assert len(daemon.log("stopped")) == 1


# A fresh clone


ROOT = Path(__file__).parents[2]
SETUP_SECONDS = PATIENCE_SECONDS


def test_documented_commands_lead_to_a_first_p99(control_plane: ControlPlane, tmp_path: Path) -> None:
    clone = tmp_path / "watchslo"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    env = outside(KUBECONFIG=str(control_plane.kubeconfig()))
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VIRTUAL_ENV"):  # as in a shell, even if make runs these tests
        env.pop(name, None)

    setup, check = documented_commands(clone / "docs/quickstart.md")
    assert setup == "make setup"
    done = typed(setup, clone, env, SETUP_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr

    with steady_writes(control_plane):
        done = typed(check, clone, env, PATIENCE_SECONDS)
    assert done.stderr == ""
    assert re.search(r"^configmaps +[1-9][\d,]* +[≲~\d].* … ", done.stdout, re.MULTILINE), done.stdout
    within = done.stdout.splitlines()[-1].startswith("No watch is late; ")  # unless this machine is busy
    assert (done.returncode == 0) == within, done.stdout

    for command in documented_commands(clone / "README.md"):
        shown_until_ctrl_c(command, clone, env)


def typed(command: str, clone: Path, env: dict[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, shell=True, cwd=clone, env=env, capture_output=True, text=True, timeout=timeout, check=False
    )


def shown_until_ctrl_c(command: str, clone: Path, env: dict[str, str]) -> None:
    """Run a demo command until it shows figures, and stop it with Ctrl-C."""
    folder = clone / "shown"
    folder.mkdir(exist_ok=True)
    name = command.replace(" ", "-")
    with Process(folder, name, ["/bin/sh", "-c", f"cd '{clone}' && exec {command}"], env) as demo:
        pods = re.compile(r"^pods +events +[1-9][\d,]* +P50 ", re.MULTILINE)
        demo.until(lambda: bool(pods.search(demo.out)), "measured")
        demo.signal(signal.SIGINT)
        demo.wait()
        assert "--- injected fault: " in demo.out
        assert "Traceback" not in demo.out + demo.err
