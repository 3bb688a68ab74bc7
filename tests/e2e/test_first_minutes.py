"""First minutes: what does a new user see of `check`, `demo` and `top`, and what if something is wrong?"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from tests.support.busy import steady_writes
from tests.support.certs import Authority
from tests.support.control_plane import HOST, ControlPlane, Port, write_kubeconfig
from tests.support.daemon import (
    LENIENT_OBJECTIVE,
    LOOK_SECONDS,
    WATCHSLO,
    Daemon,
    Simulator,
    asking,
    config_file,
    outside,
    watchslo,
)
from tests.support.process import Process, eventually
from tests.support.tmux import Tmux

# `check`


AT_ONCE = 4
QUIET = ("networkpolicies.networking.k8s.io", "customresourcedefinitions.apiextensions.k8s.io")
LATE = {
    "workload": [{"resource": "pods", "rate": 60}],
    "faults": [{"name": "slow-watch", "resource": "pods", "law": "normal 1500ms 100ms"}],
}
TOKEN = "no-such-token"
Kubeconfig = Callable[[ControlPlane, Path], Path]


def at(url: str, **cluster: Any) -> Kubeconfig:
    """Return a kubeconfig of an administrator whose cluster entry is this."""
    return lambda plane, folder: plane.kubeconfig(folder.name, None, server=url, **cluster)


def as_user(**user: Any) -> Kubeconfig:
    """Return a kubeconfig with this user entry."""
    return lambda plane, folder: plane.kubeconfig(folder.name, user)


def without_rights(plane: ControlPlane, folder: Path) -> Path:
    return plane.kubeconfig(folder.name, {"token": plane.service_account("newcomer")})


def of_unknown_authority(plane: ControlPlane, folder: Path) -> Path:
    return plane.kubeconfig(folder.name, None, **{"certificate-authority": str(Authority(folder / "other").ca)})


def with_expired_certificate(plane: ControlPlane, folder: Path) -> Path:
    pair = plane.authority.client("former", days=-1)
    return plane.kubeconfig(folder.name, {"client-certificate": str(pair.certificate), "client-key": str(pair.key)})


ERRORS: Mapping[str, tuple[Kubeconfig, str]] = {
    "rejected token": (as_user(token=TOKEN), r"The apiserver rejects the credentials; renew them\."),
    "expired certificate": (with_expired_certificate, r"The apiserver rejects the credentials; renew them\."),
    "no rights": (
        without_rights,
        r"This identity may not list and watch configmaps: grant it these two verbs \(`watchslo rbac` writes",
    ),
    "closed port": (
        at(f"https://{HOST}:1"),
        rf"Connection refused by https://{HOST}:1; check that the apiserver runs there\.",
    ),
    "unknown name": (
        at("https://no-such-host.invalid:6443"),
        r"The host name in https://no-such-host\.invalid:6443 does not resolve; check the address and the DNS\.",
    ),
    "unknown authority": (
        of_unknown_authority,
        r"The certificate of https://\S+ is not accepted \(.+\); name the CA of the cluster as certificate-authority\.",
    ),
    "other name in the certificate": (
        lambda plane, folder: plane.kubeconfig(folder.name, None, **{"tls-server-name": "other.example.org"}),
        r"The certificate of https://\S+ is not accepted \(.+\); set tls-server-name to a name in the certificate\.",
    ),
    "missing plugin": (
        as_user(exec={"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}),
        r"context tests: the plugin no-such-plugin cannot be run \(No such file or directory\); install it, or add",
    ),
}
SILENT = r"No connection to https://\S+ in time; check the network path\."
TOO_LATE = re.compile(r"No connection to \S+ in time|No answer from|The cluster is being discovered")


@dataclass(frozen=True, slots=True)
class Check:
    """A run of `check`, made again while this machine is too slow for its answer."""

    kubeconfig: Path
    resources: Sequence[str]
    too_late: re.Pattern[str] | None = TOO_LATE
    options: Sequence[str] = ()

    def run(self) -> subprocess.CompletedProcess[str]:
        arguments: tuple[str | Path, ...] = (
            *("check", "--duration", "5s", "--kubeconfig", self.kubeconfig),
            *self.resources,
            *self.options,
        )

        def answered() -> subprocess.CompletedProcess[str] | None:
            done = watchslo(*arguments, env=outside())
            return None if self.too_late and self.too_late.search(done.stdout) else done

        return eventually(answered, f"in time: {arguments}")


def run_all(checks: Mapping[str, Check]) -> dict[str, subprocess.CompletedProcess[str]]:
    """Run checks at once, because each waits for seconds."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return dict(zip(checks, threads.map(Check.run, checks.values()), strict=True))


def test_check_exits_with_its_verdict(control_plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig, late = control_plane.kubeconfig(), tmp_path / "late"
    overloaded = re.compile("monitor_problem")
    options = ("-o", "json", "--threshold", LENIENT_OBJECTIVE["threshold"])
    with Simulator(tmp_path, "--config", json.dumps(LATE)) as simulator, steady_writes(control_plane):
        write_kubeconfig(late, {"server": simulator.url}, {})
        done = run_all(
            {
                "within": Check(kubeconfig, ["configmaps"], overloaded, options),
                "late": Check(late, ["pods"], overloaded, ("-o", "json")),
                "unmeasured": Check(kubeconfig, QUIET, overloaded),
                "unknown": Check(kubeconfig, ["podz"]),
            }
        )
    (within,), (beyond,) = (json.loads(done[name].stdout)["watches"] for name in ("within", "late"))
    assert (done["within"].returncode, within["verdict"], within["state"]) == (0, "within", "watching")
    assert within["p99"]["lower"] <= within["p99"]["estimate"] <= within["p99"]["upper"]
    assert (done["late"].returncode, beyond["verdict"]) == (1, "beyond")
    unmeasured = done["unmeasured"]
    # 0 if audits could prove that both are idle.
    assert unmeasured.returncode == (0 if "are idle (proven by audits)" in unmeasured.stdout else 3)
    for name in QUIET:  # long names are not cut, so scripts can read them
        assert re.search(rf"^{re.escape(name)} .* (not measured|idle)", unmeasured.stdout, re.MULTILINE)
    assert done["unknown"].returncode == 2
    assert re.fullmatch(r"Context tests: https://\S+\n", done["unknown"].stdout), "only which cluster it is"
    assert done["unknown"].stderr.endswith("RESOURCE: the apiserver serves no resource podz; did you mean pods?\n")


def test_first_error_says_what_where_and_what_to_do(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> None:
    checks = {
        name: Check(write(control_plane, tmp_path_factory.mktemp(re.sub(r"\W", "-", name))), ["configmaps"])
        for name, (write, _) in ERRORS.items()
    }
    expected = {name: message for name, (_, message) in ERRORS.items()} | {"silent server": SILENT}
    with socket.create_server((HOST, 0)) as silent:
        kubeconfig = control_plane.kubeconfig("silent", server=f"https://{HOST}:{silent.getsockname()[1]}")
        done = run_all(checks | {"silent server": Check(kubeconfig, ["configmaps"], None)})
    said = {name: one.stdout + one.stderr for name, one in done.items()}
    assert {name: said[name] for name, message in expected.items() if not re.search(message, said[name])} == {}
    assert {one.returncode for one in done.values()} <= {1, 2, 3}
    assert TOKEN not in "".join(said.values())


# `demo` and `top`


RESOURCES = ["configmaps", "deployments.apps", "endpointslices.discovery.k8s.io", "leases.coordination.k8s.io"]
RESOURCES += ["nodes", "pods"]
PROMPT = "ready>"
SHELL = ("env", f"PS1={PROMPT} ", "sh")
PLUGIN = """#!/bin/sh
echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{"token": "{token}"}}}}'
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of the shells."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextlib.contextmanager
def shell(folder: Path, command: str, **env: str) -> Iterator[Tmux]:
    """Open a shell in a terminal and run a command of watchslo in it."""
    with Tmux(folder / "terminal", SHELL, outside(**env)) as terminal:
        terminal.until_shown(PROMPT)
        terminal.enter("stty -a > before; clear")
        terminal.enter(f"'{WATCHSLO}' {command}; echo left with $?")
        yield terminal


def watches(terminal: Tmux) -> list[str]:
    """Return the names of the watches on the screen of `top`."""
    lines = terminal.lines
    heads = [number for number, line in enumerate(lines) if line.lstrip().startswith("WATCH")]
    return [line.split()[0] for line in takewhile(str.strip, lines[heads[0] + 1 : -1])] if heads else []


def left(terminal: Tmux, folder: Path) -> None:
    """Assert that the modes, cursor and content of the terminal are restored."""
    terminal.until_shown("left with 0")
    assert terminal.asks("#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{keypad_flag}") == "0 1 0 0"
    terminal.enter("stty -a > after; clear; echo compared")
    terminal.until(lambda: terminal.lines.count("compared") == 1, "compared")
    assert (folder / "before").read_text() == (folder / "after").read_text()


def child_of(process: int) -> int:
    """Return its only child process."""
    (child,) = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return int(child)


def test_demo_shows_all_watches_until_ctrl_c(home: Path) -> None:
    with shell(home, f"demo --listen {HOST}:0") as terminal:
        terminal.until_shown("Injected fault: ")
        terminal.until(lambda: all(resource in terminal.screen for resource in RESOURCES), "all watches")
        terminal.press("C-c")
        left(terminal, home)


def test_top_sorts_filters_and_explains_the_watches_of_a_demo(home: Path) -> None:
    """The demo writes its figures as lines, because it is in no terminal."""
    command: list[str | Path] = [WATCHSLO, "demo", "--listen", f"{HOST}:0", "--fault", "slow-watch"]
    with Process(home, "demo", command) as demo:
        url = demo.until(lambda: re.search(r"^The page: (\S+)", demo.out, re.MULTILINE), "listening")[1]
        with shell(home, f"top {url}") as terminal:
            terminal.until(lambda: sorted(watches(terminal)) == RESOURCES, "all watches shown")
            terminal.until_shown("Can I trust this? ")
            terminal.until_shown("CONTROLLERS")
            terminal.press("1")
            terminal.until(lambda: watches(terminal) == RESOURCES, "sorted by name")
            terminal.press("Home", *["Down"] * RESOURCES.index("pods"), "Enter")
            terminal.until_shown("back to all watches")
            terminal.until(lambda: any(line.lstrip().startswith("pods: ") for line in terminal.lines), "pods explained")
            terminal.press("Escape")
            terminal.until(lambda: watches(terminal) == RESOURCES, "back at all watches")
            terminal.type("/node")
            terminal.until(lambda: watches(terminal) == ["nodes"], "filtered")
            terminal.press("Escape")
            terminal.until(lambda: len(watches(terminal)) == len(RESOURCES), "all again")
            terminal.press("q")
            left(terminal, home)
        measured = [rf"^{re.escape(name)} .* P99 +[<~\d]" for name in RESOURCES]
        demo.until(lambda: all(re.search(one, demo.out, re.MULTILINE) for one in measured), "a line for each")
        demo.signal(signal.SIGINT)
        assert (demo.wait(), demo.err) == (0, "")


def test_top_reconnects_to_a_restarted_daemon(home: Path) -> None:
    kubeconfig = home / "kubeconfig"
    config = config_file(home, watch=[{"resource": name} for name in ("pods", "secrets")], objective=LENIENT_OBJECTIVE)
    with contextlib.ExitStack() as stack:
        simulator = stack.enter_context(Simulator(home))
        simulator.control({"resource": "pods", "rate": 50}, "/workload")
        write_kubeconfig(kubeconfig, {"server": simulator.url}, {})
        port = Port()
        stack.callback(port.release)
        address = f"{HOST}:{port.number}"
        arguments = ("--config", config, "--kubeconfig", kubeconfig, "--listen", address)
        daemon = stack.enter_context(Daemon(home / "first", *arguments))
        terminal = stack.enter_context(shell(home, f"top {address}"))
        daemon.until_samples("pods", 1)
        measured = re.compile(r"^ *pods +[1-9][\d,]* ", re.MULTILINE)
        terminal.until(lambda: bool(measured.search(terminal.screen)), "events of pods are shown")
        eventually(lambda: measured.search(asking("top", "--once", address).stdout), "--once prints them", LOOK_SECONDS)
        details = asking("top", "--once", "--watch", "pods", address).stdout
        assert details.startswith("pods: ")
        assert re.search(r"^  Measured +[\d.]+% of [\d,]+ events$", details, re.MULTILINE), details

        daemon.stop()
        terminal.until_shown("Disconnected since ")
        gone = watchslo("top", "--once", address)
        reason = gone.stderr.removeprefix(f"watchslo: http://{address}: ").removesuffix("\n")
        assert (gone.returncode, gone.stderr) == (2, f"watchslo: http://{address}: {reason}\n")
        # It may report a cut connection first. The line wraps at the edge of the screen.
        notice = f"{reason}. Figures are from "
        terminal.until(lambda: notice in " ".join(terminal.screen.split()), "the reason is shown")
        terminal.until(lambda: sorted(watches(terminal)) == ["pods", "secrets"], "both shown still")

        stack.enter_context(Daemon(home / "second", *arguments))
        terminal.until(lambda: "Disconnected" not in terminal.screen, "connected again")
        terminal.press("C-c")
        left(terminal, home)


def test_top_without_a_url_measures_the_cluster(control_plane: ControlPlane, home: Path) -> None:
    """The token comes from a plugin, which is started by a thread other than the main one."""
    plugin = home / "plugin"
    plugin.write_text(PLUGIN.format(token=control_plane.token))
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}
    kubeconfig = control_plane.kubeconfig("by-plugin", user)
    with steady_writes(control_plane, "serviceaccounts"), shell(home, "top", KUBECONFIG=str(kubeconfig)) as terminal:
        terminal.until_shown("Context ")
        terminal.until(lambda: bool(re.search(r" serviceaccounts +[1-9][\d,]* ", terminal.screen)), "measured")
        os.kill(child_of(int(terminal.asks("#{pane_pid}"))), signal.SIGTERM)
        left(terminal, home)
