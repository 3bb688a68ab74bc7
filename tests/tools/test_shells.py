"""Completion in real shells, and kubectl with watchslo as its plugin."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.daemon import WATCHSLO, outside
from tests.support.tmux import Tmux

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

        def until_last(line: str) -> None:
            terminal.until(lambda: terminal.screen.splitlines()[-1:] == [line], line)

        terminal.until(lambda: bool(terminal.screen), "a prompt")
        terminal.enter(setting)
        until_last(PROMPT)
        for typed, completed in (("watchslo ch", "watchslo check"), ("--thr", "watchslo check --threshold")):
            terminal.type(typed)
            terminal.press("Tab")
            until_last(f"{PROMPT} {completed}")


def kubectl(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["kubectl", *arguments], env=named(), capture_output=True, text=True, check=False)


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
    done = kubectl("__complete", "watchslo", *typed)
    assert done.stdout.splitlines() == completed, done.stderr


def test_kubectl_runs_the_plugin() -> None:
    done = kubectl("watchslo", "check", "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: kubectl watchslo check [OPTIONS] [RESOURCE]...")
    assert "Example:  kubectl watchslo check pods" in done.stdout
    wrong = kubectl("watchslo", "check", "--duration", "1s")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "--duration: 1s is out of range; write 5s to 5m" in wrong.stderr
