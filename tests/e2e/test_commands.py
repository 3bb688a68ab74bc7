"""The commands that answer and end: check, demo, help, refused input, and completion in shells."""

import contextlib
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import socket
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Self

import pytest

from tests.support.busy import steady_writes
from tests.support.control_plane import HOST, ControlPlane, write_kubeconfig
from tests.support.daemon import WATCHSLO, Simulator, config_file, outside, watchslo
from tests.support.process import PATIENCE_SECONDS
from tests.support.tmux import Tmux

DEMO_SECONDS = 30
END_SECONDS = PATIENCE_SECONDS

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
    """A running command of watchslo, with its output in pipes."""

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
        """Wait for its end; return the exit code, stdout and stderr, which must hold no traceback."""
        out, err = self._popen.communicate(timeout=END_SECONDS)
        assert "Traceback" not in out + err, err
        return self._popen.returncode, out, err


class Terminal:
    """A running command of watchslo in a terminal."""

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
        """Wait for its end; return the exit code and the output."""
        code = self._popen.wait(END_SECONDS)
        self._reader.join()
        return code, self._said.decode()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # how a terminal reports that the other side is closed
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
    """Start both demos before the first test."""


def test_check_exits_with_its_verdict(control_plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig, late = control_plane.kubeconfig(), tmp_path / "late"
    duration = ("--duration", "5s")
    with contextlib.ExitStack() as stack:
        simulator = stack.enter_context(Simulator(tmp_path, "--config", json.dumps(LATE)))
        write_kubeconfig(late, {"server": simulator.url}, {})
        stack.enter_context(steady_writes(control_plane))
        real = (*duration, "--kubeconfig", kubeconfig)
        longer = ("--duration", "15s", "--threshold", "30s", "--kubeconfig", kubeconfig)  # no machine is too slow
        checked = ("check", *longer, "--resource", "configmaps", "-o", "json")
        within = stack.enter_context(Command(*checked))
        beyond = stack.enter_context(Command("check", *duration, "--kubeconfig", late, "--resource", "pods"))
        unmeasured = stack.enter_context(
            Command("check", *real, *(word for name in QUIET for word in ("--resource", name)))
        )
        interrupted = stack.enter_context(
            Command("check", "--resource", "configmaps", env=outside(KUBECONFIG=str(kubeconfig)))
        )

        code, out, _ = within.end()
        while json.loads(out)["verdict"] == "monitor_problem":  # this machine was too slow to tell
            assert code == 2, out
            code, out, _ = stack.enter_context(Command(*checked)).end()
        (answer,) = json.loads(out)["watches"]
        assert (code, answer["watch"], answer["verdict"], answer["state"]) == (0, "configmaps", "within", "watching")
        assert answer["events"] > 10
        assert answer["p99"]["lower"] <= answer["p99"]["estimate"] <= answer["p99"]["upper"]

        code, out, _ = beyond.end()
        assert code == 1, out
        assert re.search(r"pods .* late", out), out

        code, out, _ = unmeasured.end()
        assert code == (0 if "are idle (proven by audits)" in out else 2), out  # if all were audited in time
        for name in QUIET:  # long names are not cut, so scripts can read them
            assert re.search(rf"^{re.escape(name)} .* (not measured|idle)", out, re.MULTILINE), out

        interrupted.interrupt()
        code, out, _ = interrupted.end()
        assert code in (0, 2), out  # the verdict is of the time until then
        assert "configmaps" in out


def test_check_of_an_unknown_resource_suggests_another(control_plane: ControlPlane, tmp_path: Path) -> None:
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


def test_demo_in_a_pipe_prints_all_watches(demo_in_pipe: Command) -> None:
    code, out, err = demo_in_pipe.end()
    assert (code, err) == (0, "")
    assert f"The page: http://{HOST}:" in out
    last = out.rpartition("--- injected fault: ")[2].splitlines()
    watches = [line for line in last[1:] if not line.startswith("    ")]  # other lines are causes and ended events
    assert tuple(line.split(maxsplit=1)[0] for line in watches) == RESOURCES
    assert all(re.search(r" P99 +[≲~\d]", line) for line in watches), out


def test_demo_ends_with_ctrl_c() -> None:
    with Command("demo", "--listen", f"{HOST}:0") as demo:
        assert demo.first_line().startswith("The page: ")
        demo.interrupt()
        code, _, err = demo.end()
    assert (code, err) == (0, "")


def test_demo_in_a_terminal_shows_all_watches(demo_in_terminal: Terminal) -> None:
    code, shown = demo_in_terminal.end()
    assert code == 0
    assert "Traceback" not in shown
    assert "Injected fault: " in shown
    for resource in RESOURCES:
        assert resource in shown


# What cannot work is refused


def refusal(*arguments: str | Path) -> str:
    """Run a command that must exit with 2; return its only line of output."""
    done = watchslo(*arguments, env=outside(HOME="/nonexistent"))
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0].removeprefix("watchslo: ")


def test_run_with_an_invalid_configuration_names_the_line_and_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_text("watch:\n  - resorce: pods\n")
    assert refusal("run", "--config", path) == f"{path}:2: watch[0].resorce: unknown key; did you mean resource?"


def test_validate_prints_the_same_error_as_check(tmp_path: Path) -> None:
    path = config_file(tmp_path, metrics="some")
    assert refusal("validate", path) == refusal("check", "--config", path)


def test_run_with_unknown_resources_is_refused(control_plane: ControlPlane, tmp_path: Path) -> None:
    for resource, remedy in (
        ("podz", "the apiserver serves no resource podz; did you mean pods?"),
        ("bindings", "bindings cannot be listed and watched, because it only supports create; remove it"),
    ):
        path = config_file(tmp_path, watch=[{"resource": "configmaps"}, {"resource": resource}])
        cluster = ("--kubeconfig", control_plane.kubeconfig(), "--listen", f"{HOST}:0")
        done = watchslo("run", "--config", path, *cluster)
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1] == f"watchslo: {path}: watch: {remedy}"


def test_run_and_check_without_a_cluster_are_refused() -> None:
    assert refusal("run", "--listen", f"{HOST}:0").startswith("no cluster: this is not a pod, ")
    assert refusal("check").startswith("no cluster: this is not a pod, ")


def test_run_with_an_invalid_kubeconfig_is_refused(control_plane: ControlPlane, tmp_path: Path) -> None:
    missing = tmp_path / "none"
    assert refusal("run", "--listen", f"{HOST}:0", "--kubeconfig", missing).startswith(f"{missing}: no such kubeconfig")
    garbage = tmp_path / "garbage"
    garbage.write_text("- this\n- is none\n")
    assert refusal("run", "--listen", f"{HOST}:0", "--kubeconfig", garbage).startswith(f"{garbage}: not a kubeconfig")
    kubeconfig = control_plane.kubeconfig()
    said = refusal("run", "--listen", f"{HOST}:0", "--kubeconfig", kubeconfig, "--context", "test")
    assert said == f"{kubeconfig}: has no context test; did you mean tests?"


def test_run_on_a_used_port_is_refused(control_plane: ControlPlane) -> None:
    with socket.create_server((HOST, 0)) as taken:
        address = f"{HOST}:{taken.getsockname()[1]}"
        said = refusal("run", "--listen", address, "--kubeconfig", control_plane.kubeconfig())
    assert said == f"cannot listen on {address}: the port is already in use; choose another one with --listen"
    assert refusal("run", "--listen", "9477").startswith("--listen: 9477 is not an address to listen on")


# Completion


PROMPT = "ready>"
FISH_PROMPT = f"function fish_prompt; echo -n '{PROMPT} '; end"
SHELLS: Mapping[str, tuple[str, str]] = {
    "bash": ("bash --norc -i", f"PS1='{PROMPT} '; source <(watchslo completion bash)"),
    "zsh": (
        "zsh -f -i",
        f"autoload -Uz compinit && compinit -u -D; source <(watchslo completion zsh); PS1='{PROMPT} '",
    ),
    "fish": (
        "fish --no-config -i",
        f"set -g fish_autosuggestion_enabled 0; watchslo completion fish | source; {FISH_PROMPT}",
    ),
}
"""How each shell starts without user settings, and the first line to type."""


def named(**more: str) -> dict[str, str]:
    """Return an environment with watchslo in its PATH."""
    return outside(PATH=f"{WATCHSLO.parent}{os.pathsep}{os.environ['PATH']}", **more)


@pytest.mark.parametrize("shell", SHELLS)
def test_shell_completes_commands_and_options(shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # an empty folder, so nothing else can be completed
    command, setting = SHELLS[shell]
    assert shutil.which(shell), f"no {shell} here; install the package {shell}"
    with Tmux(tmp_path / "terminal", command.split(), named(HOME=str(tmp_path))) as terminal:
        terminal.until(lambda: bool(terminal.screen), "a prompt")
        terminal.enter(setting)
        terminal.until(lambda: last_line(terminal) == PROMPT, "our prompt")
        for typed, completed in (("watchslo ch", "watchslo check"), ("--thr", "watchslo check --threshold")):
            terminal.type(typed)
            terminal.press("Tab")
            terminal.until(partial(ends_with, terminal, f"{PROMPT} {completed}"), completed)


def ends_with(terminal: Tmux, line: str) -> bool:
    return last_line(terminal) == line


def last_line(terminal: Tmux) -> str:
    lines = terminal.screen.splitlines()
    return lines[-1] if lines else ""


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        (("ch",), ["check\tMeasure a cluster once and print the result.", ":4"]),
        (
            ("check", "--thr"),
            ["--threshold\tThreshold of the objective; default: that of the configuration (1s).", ":4"],
        ),
        (("check", "--config", ""), [":0"]),
    ],
)
def test_kubectl_completes_the_plugin(typed: tuple[str, ...], completed: list[str]) -> None:
    """The number tells the completion scripts of kubectl whether to offer files."""
    done = subprocess.run(
        ["kubectl", "__complete", "watchslo", *typed], env=named(), capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == completed, done.stderr


def test_kubectl_runs_the_plugin() -> None:
    done = subprocess.run(
        ["kubectl", "watchslo", "check", "--help"], env=named(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: kubectl watchslo check [OPTIONS]")
    assert "Example:  kubectl watchslo check --duration 60s" in done.stdout
    wrong = subprocess.run(
        ["kubectl", "watchslo", "check", "--duration", "1s"], env=named(), capture_output=True, text=True, check=False
    )
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "--duration: 1s is out of range; write 5s to 5m" in wrong.stderr
