"""Somebody who has just cloned the repository types what its pages tell them, and sees what these promise."""

import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.busy import somebody_writes
from tests.support.control_plane import ControlPlane
from tests.support.daemon import outside
from tests.support.newcomer import told_by
from tests.support.process import Process

ROOT = Path(__file__).parents[2]
SETUP_SECONDS = 600.0  # where packages come from afar
COMMAND_SECONDS = 150.0


@pytest.mark.timeout(SETUP_SECONDS + 4 * COMMAND_SECONDS)
def test_the_pages_lead_to_a_first_p99(control_plane: ControlPlane, tmp_path: Path) -> None:
    clone = tmp_path / "watchslo"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    env = outside(KUBECONFIG=str(control_plane.kubeconfig()))
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VIRTUAL_ENV"):  # as in a shell, even where make runs these tests
        env.pop(name, None)

    setup, check = told_by(clone / "docs/quickstart.md")
    assert setup == "make setup"
    done = typed(setup, clone, env, SETUP_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr

    with somebody_writes(control_plane):
        done = typed(check, clone, env, COMMAND_SECONDS)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert re.search(r"^configmaps +\d.* within *$", done.stdout, re.MULTILINE), done.stdout
    assert done.stdout.splitlines()[-1].startswith("Within the objective: "), done.stdout

    for command in told_by(clone / "README.md"):
        shown_until_ctrl_c(command, clone, env)


def typed(command: str, clone: Path, env: dict[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, shell=True, cwd=clone, env=env, capture_output=True, text=True, timeout=timeout, check=False
    )


def shown_until_ctrl_c(command: str, clone: Path, env: dict[str, str]) -> None:
    """It shows what is going on, until somebody has seen enough."""
    folder = clone / "shown"
    folder.mkdir(exist_ok=True)
    name = command.replace(" ", "-")
    with Process(folder, name, ["/bin/sh", "-c", f"cd '{clone}' && exec {command}"], env) as demo:
        pods = re.compile(r"^pods +events +[1-9][\d,]* +P50 ", re.MULTILINE)
        demo.until(lambda: bool(pods.search(demo.out)), COMMAND_SECONDS, "measured")
        demo.signal(signal.SIGINT)
        demo.wait(30.0)
        assert "--- in the cluster now: " in demo.out
        assert "Traceback" not in demo.out + demo.err
