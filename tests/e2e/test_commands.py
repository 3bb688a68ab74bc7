"""The commands that answer and end: check, demo, help. The slow ones run beside each other."""

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

import pytest

from tests.support.busy import somebody_writes
from tests.support.control_plane import HOST, ControlPlane, write_kubeconfig
from tests.support.daemon import WATCHSLO, Simulator, config_file, outside, watchslo

DEMO_SECONDS = 30
END_SECONDS = 100.0  # whatever is asked here ends within

pytestmark = pytest.mark.timeout(400)
RESOURCES = (
    "configmaps",
    "deployments.apps",
    "endpointslices.discovery.k8s.io",
    "leases.coordination.k8s.io",
    "nodes",
    "pods",
)
QUIET = ("networkpolicies.networking.k8s.io", "customresourcedefinitions.apiextensions.k8s.io")
LATE = {
    "workload": [{"resource": "pods", "rate": 60}],
    "faults": [{"name": "slow-watch", "resource": "pods", "law": "normal 1500ms 100ms"}],
}
ROWS, COLUMNS = 40, 140


class Command:
    """A command of watchslo under way, with pipes at its outputs."""

    def __init__(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> None:
        self._popen = subprocess.Popen(
            [WATCHSLO, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.communicate()

    def first_line(self) -> str:
        assert self._popen.stdout is not None
        return self._popen.stdout.readline()

    def interrupt(self) -> None:
        self._popen.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, str, str]:
        """Waits for its end: the exit code and what it said; that is never a traceback."""
        out, err = self._popen.communicate(timeout=END_SECONDS)
        assert "Traceback" not in out + err, err
        return self._popen.returncode, out, err


class Terminal:
    """A command of watchslo under way in a terminal."""

    def __init__(self, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._popen = subprocess.Popen(
            [WATCHSLO, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=os.environ | {"TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(slave)
        self._said = bytearray()
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
        self._reader.join()
        os.close(self._master)

    def end(self) -> tuple[int, str]:
        """Waits for its end: the exit code and what was shown."""
        code = self._popen.wait(END_SECONDS)
        self._reader.join()
        return code, self._said.decode()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # how a terminal says that nobody is left on the other side
            while chunk := os.read(self._master, 65536):
                self._said += chunk


@pytest.fixture(scope="module")
def demo_in_pipe() -> Iterator[Command]:
    with Command("demo", "--duration", str(DEMO_SECONDS), "--listen", f"{HOST}:0") as demo:
        yield demo


@pytest.fixture(scope="module")
def demo_in_terminal() -> Iterator[Terminal]:
    with Terminal("demo", "--duration", str(DEMO_SECONDS)) as demo:
        yield demo


@pytest.fixture(scope="module", autouse=True)
def under_way(demo_in_pipe: Command, demo_in_terminal: Terminal) -> None:
    """Starts what takes long before the first test."""


def test_check_answers_by_its_exit_code(control_plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig, late = control_plane.kubeconfig(), tmp_path / "late"
    duration = ("--duration", "5s")
    with contextlib.ExitStack() as stack:
        simulator = stack.enter_context(Simulator(tmp_path, "--config", json.dumps(LATE)))
        write_kubeconfig(late, {"server": simulator.url}, {})
        stack.enter_context(somebody_writes(control_plane))
        real = (*duration, "--kubeconfig", kubeconfig)
        longer = ("--duration", "15s", "--kubeconfig", kubeconfig)  # of few events, a moment's standstill decides
        within = stack.enter_context(Command("check", *longer, "--resource", "configmaps", "-o", "json"))
        beyond = stack.enter_context(Command("check", *duration, "--kubeconfig", late, "--resource", "pods"))
        unmeasured = stack.enter_context(
            Command("check", *real, *(word for name in QUIET for word in ("--resource", name)))
        )
        interrupted = stack.enter_context(
            Command("check", "--resource", "configmaps", env=outside(KUBECONFIG=str(kubeconfig)))
        )

        code, out, _ = within.end()
        (answer,) = json.loads(out)["watches"]
        assert (code, answer["watch"], answer["verdict"], answer["state"]) == (0, "configmaps", "within", "watching")
        assert answer["events"] > 10
        assert answer["p99"]["lower"] <= answer["p99"]["estimate"] <= answer["p99"]["upper"]

        code, out, _ = beyond.end()
        assert code == 1, out
        assert re.search(r"pods .* beyond", out), out

        code, out, _ = unmeasured.end()
        assert code == 2, out
        for name in QUIET:  # as long as they are, scripts can read them
            assert re.search(rf"^{re.escape(name)} .* not measured", out, re.MULTILINE), out

        interrupted.interrupt()
        code, out, _ = interrupted.end()
        assert code in (0, 2), out  # what was measured by then is judged
        assert "configmaps" in out


def test_check_of_a_resource_that_is_not_there(control_plane: ControlPlane, tmp_path: Path) -> None:
    done = watchslo("check", "--kubeconfig", control_plane.kubeconfig(), "--resource", "podz")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].endswith(
        "--resource: the apiserver serves no resource podz; did you mean pods?"
    )
    path = config_file(tmp_path, watch=[{"resource": "podz"}])
    done = watchslo("check", "--kubeconfig", control_plane.kubeconfig(), "--config", path)
    assert done.stderr.splitlines()[-1].endswith(
        f"{path}: watch: the apiserver serves no resource podz; did you mean pods?"
    )


@pytest.mark.parametrize("command", ["run", "check", "demo", "validate"])
def test_help_shows_an_example(command: str) -> None:
    done = watchslo(command, "--help")
    assert done.returncode == 0
    assert f"Example:  watchslo {command} " in done.stdout


def test_demo_in_a_pipe(demo_in_pipe: Command) -> None:
    code, out, err = demo_in_pipe.end()
    assert (code, err) == (0, "")
    assert f"The page: http://{HOST}:" in out
    last = out.rpartition("--- in the cluster now: ")[2].splitlines()
    watches = [line for line in last[1:] if not line.startswith("    ")]  # else of the cause, and of what is over
    assert tuple(line.split(maxsplit=1)[0] for line in watches) == RESOURCES
    assert all(re.search(r" P99 +[≲\d]", line) for line in watches), out


def test_demo_ends_with_ctrl_c() -> None:
    with Command("demo", "--listen", f"{HOST}:0") as demo:
        assert demo.first_line().startswith("The page: ")
        demo.interrupt()
        code, _, err = demo.end()
    assert (code, err) == (0, "")


def test_demo_in_a_terminal(demo_in_terminal: Terminal) -> None:
    code, shown = demo_in_terminal.end()
    assert code == 0
    assert "Traceback" not in shown
    assert "In the cluster now: " in shown
    for resource in RESOURCES:
        assert resource in shown
