"""What cannot work is refused at once: one sentence with what, where and the remedy, and exit code 2."""

import os
import socket
from pathlib import Path

import pytest

from tests.support.control_plane import HOST, ControlPlane
from tests.support.daemon import config_file, outside, watchslo

pytestmark = pytest.mark.patient


def refusal(*arguments: str | Path) -> str:
    """The one line that a command says before it ends with 2."""
    done = watchslo(*arguments, env=outside(HOME="/nonexistent"))
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0].removeprefix("watchslo: ")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("watch: [\n", ":2: not YAML: "),
        ("", ": empty; write at least one key, "),
        ("watch:\n  - resorce: pods\n", ":2: watch[0].resorce: unknown key; did you mean resource?"),
        ("objective: {threshold: soon}\n", ":1: objective.threshold: soon is no duration; write for example 500ms"),
        (
            "watch:\n- resource: pods\n- resource: pods\n",
            ":1: watch: 2 entries are named pods; give each its own `name`",
        ),
        ("paused: true\npaused: false\n", ":1: paused: written twice; keep one of them"),
    ],
)
def test_a_bad_configuration(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_text(content)
    said = refusal("run", "--config", path)
    assert said.startswith(f"{path}{says}"), said


def test_validate_says_the_same(tmp_path: Path) -> None:
    path = config_file(tmp_path, metrics="some")
    assert refusal("validate", path) == refusal("check", "--config", path)


def test_a_configuration_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    assert (
        refusal("run", "--config", path)
        == f"{path}: no such file; name one that exists, or none at all for the defaults"
    )
    assert refusal("run", "--config", tmp_path) == f"{tmp_path}: is a directory; name the file in it"


def test_a_configuration_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "watchslo.yaml"
    if os.geteuid() == 0:
        path.symlink_to(path)  # root may read all files; only what leads nowhere stops it
    else:
        path.touch(mode=0)
    said = refusal("run", "--config", path)
    assert said.startswith(f"{path}: ")
    assert said.endswith("; make it readable for the user that runs watchslo")


def test_a_valid_configuration(tmp_path: Path) -> None:
    path = config_file(tmp_path, watch=[{"resource": "pods"}])
    done = watchslo("validate", path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{path}: valid\n", "")


def test_resources_that_the_cluster_does_not_have(control_plane: ControlPlane, tmp_path: Path) -> None:
    for resource, remedy in (
        ("podz", "the apiserver serves no resource podz; did you mean pods?"),
        ("bindings", "bindings cannot be listed and watched, the apiserver only offers create; remove it"),
    ):
        path = config_file(tmp_path, watch=[{"resource": "configmaps"}, {"resource": resource}])
        cluster = ("--kubeconfig", control_plane.kubeconfig(), "--listen", f"{HOST}:0")
        done = watchslo("run", "--config", path, *cluster)
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1] == f"watchslo: {path}: watch: {remedy}"


def test_no_cluster_at_all() -> None:
    assert refusal("run", "--listen", f"{HOST}:0").startswith("no cluster: this is no pod, ")
    assert refusal("check").startswith("no cluster: this is no pod, ")


def test_kubeconfigs_that_are_none(control_plane: ControlPlane, tmp_path: Path) -> None:
    missing = tmp_path / "none"
    assert refusal("run", "--listen", f"{HOST}:0", "--kubeconfig", missing).startswith(f"{missing}: no such kubeconfig")
    garbage = tmp_path / "garbage"
    garbage.write_text("- this\n- is none\n")
    assert refusal("run", "--listen", f"{HOST}:0", "--kubeconfig", garbage).startswith(f"{garbage}: not a kubeconfig")
    kubeconfig = control_plane.kubeconfig()
    said = refusal("run", "--listen", f"{HOST}:0", "--kubeconfig", kubeconfig, "--context", "test")
    assert said == f"{kubeconfig}: has no context test; did you mean tests?"


def test_a_port_in_use(control_plane: ControlPlane) -> None:
    with socket.create_server((HOST, 0)) as taken:
        address = f"{HOST}:{taken.getsockname()[1]}"
        said = refusal("run", "--listen", address, "--kubeconfig", control_plane.kubeconfig())
    assert said == f"cannot listen on {address}: the port is already in use; choose another one with --listen"
    assert refusal("run", "--listen", "9477").startswith("--listen: 9477 is no address to listen on")


def test_options_of_check() -> None:
    assert refusal("check", "--duration", "60").startswith("--duration: 60 has no unit; write for example 60s")
    assert refusal("check", "--duration", "1h").startswith("--duration: 1h is out of range")
