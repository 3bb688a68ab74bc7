"""Completion in the shells that people use and by kubectl, whose plugin it is."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from tests.support.daemon import WATCHSLO, outside
from tests.support.tmux import Tmux

pytestmark = pytest.mark.patient

PROMPT = "ready>"
SHOWN_SECONDS = 180.0  # a second or two when the machine is ours alone
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
"""How each is started without what its user likes, and what it is told first."""


def named(**more: str) -> dict[str, str]:
    """An environment in which a shell finds the programs."""
    return outside(PATH=f"{WATCHSLO.parent}{os.pathsep}{os.environ['PATH']}", **more)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes(shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # in which there is nothing else to complete
    command, setting = SHELLS[shell]
    assert shutil.which(shell), f"no {shell} here; install the package {shell}"
    with Tmux(tmp_path / "terminal", command.split(), named(HOME=str(tmp_path))) as terminal:
        terminal.until(lambda: bool(terminal.screen), SHOWN_SECONDS, "a prompt")
        terminal.enter(setting)
        terminal.until(lambda: last_line(terminal) == PROMPT, SHOWN_SECONDS, "our prompt")
        for typed, completed in (("watchslo ch", "watchslo check"), ("--thr", "watchslo check --threshold")):
            terminal.type(typed)
            terminal.press("Tab")
            terminal.until(partial(ends_with, terminal, f"{PROMPT} {completed}"), SHOWN_SECONDS, completed)


def ends_with(terminal: Tmux, line: str) -> bool:
    return last_line(terminal) == line


def last_line(terminal: Tmux) -> str:
    lines = terminal.screen.splitlines()
    return lines[-1] if lines else ""


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        (("ch",), ["check\tMeasure a cluster once.", ":4"]),
        (("check", "--thr"), ["--threshold\tWhat P99 must stay within; default: the configuration's (1s).", ":4"]),
        (("check", "--config", ""), [":0"]),
    ],
)
def test_kubectl_completes_it(typed: tuple[str, ...], completed: list[str]) -> None:
    """By what its own scripts for shells call; the number says whether they are to offer files too."""
    done = subprocess.run(
        ["kubectl", "__complete", "watchslo", *typed], env=named(), capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == completed, done.stderr


def test_kubectl_has_it_as_a_plugin() -> None:
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
