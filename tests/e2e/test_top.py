"""`watchslo top` in a real terminal, against the demo, a real daemon, and a real cluster."""

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.busy import steady_writes
from tests.support.control_plane import HOST, ControlPlane, Port
from tests.support.daemon import WATCHSLO, Daemon, asking, config_file, outside, watchslo
from tests.support.process import Process
from tests.support.tmux import Tmux

WATCHES = ["configmaps", "deployments.apps", "endpointslices.discovery.k8s.io", "leases.coordination.k8s.io"]
WATCHES += ["nodes", "pods"]
SEEN_SECONDS = 150.0  # late events leave the last minute within this time; other changes take seconds
PROMPT = "ready>"

SHELL = ("env", f"PS1={PROMPT} ", "sh")
PLUGIN = """#!/bin/sh
echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{"token": "{token}"}}}}'
"""


@contextlib.contextmanager
def demo(folder: Path) -> Iterator[str]:
    """Run a demo with intervals in which watches of pods are late; yield its URL."""
    command: list[str | Path] = [WATCHSLO, "demo", "--listen", f"{HOST}:0", "--fault", "slow-watch"]
    with Process(folder, "demo", command) as process:
        page = re.compile(r"^The page: (\S+)", re.MULTILINE)
        process.until(lambda: bool(page.search(process.out)), "listening")
        found = page.search(process.out)
        assert found
        yield found[1]


@contextlib.contextmanager
def looking(folder: Path, *arguments: str | Path, **env: str) -> Iterator[Tmux]:
    """Open a shell in a terminal and run `watchslo top` in it."""
    with Tmux(folder / "terminal", SHELL, outside(**env)) as terminal:
        terminal.until_shown(PROMPT)
        terminal.enter("stty -a > before; clear")
        terminal.enter(f"'{WATCHSLO}' top {' '.join(map(str, arguments))}; echo left with $?")
        yield terminal


def watches(terminal: Tmux) -> list[str]:
    """Return the names of the watches on the screen."""
    lines = terminal.lines
    heads = [number for number, line in enumerate(lines) if line.lstrip().startswith("WATCH")]
    return [line.split()[0] for line in lines[heads[0] + 1 : -1] if line.strip()] if heads else []


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


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of the shells."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_keys_sort_and_filter_the_demo(home: Path) -> None:
    with demo(home) as url, looking(home, url) as terminal:
        terminal.until(lambda: sorted(watches(terminal)) == WATCHES, "all watches shown")
        late = re.compile(r": late(, the first)? since \d\d:\d\d UTC")
        terminal.until(lambda: bool(late.search(terminal.screen)), "the verdict is there")
        terminal.until_shown("Can I trust this? ")
        # A screen may be half drawn.
        gravest = re.compile(r"^ +WATCH .*\n(?: *\n)* \S+ .* (late|stalled|closed)", re.MULTILINE)
        terminal.until(lambda: bool(gravest.search(terminal.screen)), "the gravest stands above")

        terminal.press("1")
        terminal.until(lambda: watches(terminal) == WATCHES, "sorted by name")
        terminal.press("1")
        terminal.until(lambda: watches(terminal) == WATCHES[::-1], "and turned round")

        terminal.press("1")
        terminal.until(lambda: watches(terminal) == WATCHES, "sorted by name again")
        terminal.press("Home", *["Down"] * WATCHES.index("pods"), "Enter")
        terminal.until_shown("Highest P99")
        assert any(line.lstrip().startswith("pods: ") for line in terminal.lines)
        terminal.press("Escape")
        terminal.until(lambda: watches(terminal) == WATCHES, "back at all watches")

        terminal.type("/node")
        terminal.until(lambda: watches(terminal) == ["nodes"], "filtered")
        terminal.press("Escape")
        terminal.until(lambda: len(watches(terminal)) == len(WATCHES), "all again")

        terminal.press("q")
        left(terminal, home)


def test_top_reconnects_to_a_restarted_daemon(control_plane: ControlPlane, home: Path) -> None:
    config = config_file(home, watch=[{"resource": "configmaps"}, {"resource": "secrets"}])
    arguments = ("--config", config, "--kubeconfig", control_plane.kubeconfig())
    with contextlib.ExitStack() as stack:
        stack.enter_context(steady_writes(control_plane))
        port = Port()
        stack.callback(port.release)
        address = f"{HOST}:{port.number}"
        daemon = stack.enter_context(Daemon(home / "first", *arguments, "--listen", address))
        terminal = stack.enter_context(looking(home, address))
        daemon.until_measuring("configmaps")
        daemon.until_samples("configmaps", 100)
        verdict = "No watch is late; 1 within 1 s, 1 "  # idle, or with too few events for a verdict
        terminal.until_shown(verdict)
        shown = re.compile(r"^ configmaps .* within( \(95%\))?$", re.MULTILINE)
        terminal.until(lambda: bool(shown.search(terminal.screen)), "configmaps are within")

        def printed() -> bool:
            """A pause of this machine may change the verdict in between."""
            *rows, last = asking("top", "--once", address).stdout.splitlines()
            (row,) = (row for row in rows if row.startswith("configmaps"))
            within = re.fullmatch(r"configmaps +[\d,]+ +[≲~\d].* … .* within( \(95%\))? *", row)
            return bool(within) and last.startswith(verdict)

        terminal.until(printed, "--once prints it")

        details = asking("top", "--once", "--watch", "configmaps", address).stdout
        assert details.startswith("configmaps: ")
        assert re.search(r"^  Measured +[\d.]+% of [\d,]+ events$", details, re.MULTILINE), details

        daemon.stop()
        terminal.until_shown("Disconnected since ")
        gone = watchslo("top", "--once", address)
        reason = gone.stderr.removeprefix(f"watchslo: http://{address}: ").removesuffix("\n")
        assert (gone.returncode, gone.stderr) == (2, f"watchslo: http://{address}: {reason}\n")
        # It may report a cut connection first. The line wraps at the edge of the screen.
        notice = f"{reason}. Figures are from "
        terminal.until(lambda: notice in " ".join(terminal.screen.split()), "the reason is shown")
        terminal.until(lambda: sorted(watches(terminal)) == ["configmaps", "secrets"], "both shown still")

        stack.enter_context(Daemon(home / "second", *arguments, "--listen", address))
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
    with contextlib.ExitStack() as stack:
        stack.enter_context(steady_writes(control_plane))
        terminal = stack.enter_context(looking(home, KUBECONFIG=str(kubeconfig)))
        command: list[str | Path] = [WATCHSLO, "top", "--once", "--kubeconfig", kubeconfig]
        once = stack.enter_context(Process(home, "once", command))
        terminal.until_shown("local measurement")
        terminal.until(lambda: bool(re.search(r" configmaps +\d+.* within", terminal.screen)), "measured")
        assert (once.wait(), once.err) == (0, "")
        assert re.search(r"^configmaps +[1-9][\d,]* +[≲~\d].* … ", once.out, re.MULTILINE), once.out
        os.kill(child_of(int(terminal.asks("#{pane_pid}"))), signal.SIGTERM)
        left(terminal, home)
