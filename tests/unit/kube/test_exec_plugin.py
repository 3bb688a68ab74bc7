"""Exec plugins that do not end, or print without end."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from watchslo.errors import ConnectError
from watchslo.kube.exec_plugin import PluginError, run_plugin
from watchslo.kube.merged_kubeconfig import read_kubeconfigs

ALIASES = "".join(f"a{number}: &a{number} [*a{number - 1}, *a{number - 1}]\n" for number in range(1, 18))


def plugin(folder: Path, script: str) -> dict[str, Any]:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"command": str(path)}


async def test_plugin_that_prints_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"the output of the plugin .* is longer than 1 MiB; run it by hand"):
        await run_plugin(plugin(tmp_path, "exec cat /dev/zero"), {}, os.environ)


@pytest.mark.parametrize("output", ["[" * 200, "a0: &a0 [1, 1]\n" + ALIASES])
async def test_output_that_is_no_credential_is_refused(tmp_path: Path, output: str) -> None:
    (tmp_path / "output").write_text(output)
    with pytest.raises(PluginError, match="printed no ExecCredential; run it by hand"):
        await run_plugin(plugin(tmp_path, f"exec cat {tmp_path}/output"), {}, os.environ)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("[" * 200, "not a kubeconfig; look at it"),
        ("[" * 1_000_000, "not a kubeconfig; look at it"),
        ("a0: &a0 [1, 1]\n" + ALIASES, "not a kubeconfig; look at it"),
        ("#" * (8 * 2**20 + 1), "longer than 8 MiB; put a readable kubeconfig there"),
    ],
)
def test_kubeconfig_beyond_the_limits_is_refused(tmp_path: Path, content: str, why: str) -> None:
    """Such a one ended the process, or took all of its memory."""
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(ConnectError, match=f"kubeconfig: {why}"):
        read_kubeconfigs([str(path)])


@pytest.mark.parametrize("turns", [2, 50])
async def test_programs_that_a_plugin_started_are_killed_with_it(tmp_path: Path, turns: int) -> None:
    """The pipe ends when no program has it open any more. After two turns, asyncio does not have its pipes yet."""
    os.mkfifo(tmp_path / "pipe")
    script = f"exec 3> {tmp_path}/pipe; sleep 3600 & echo started >&3; wait"
    running = asyncio.create_task(run_plugin(plugin(tmp_path, script), {}, os.environ))
    for _ in range(turns):
        await asyncio.sleep(0)
    with (tmp_path / "pipe").open("rb") as started:
        assert started.readline() == b"started\n"
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert started.read() == b""


async def test_program_that_outlives_its_plugin_delays_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, a plugin stays in the group of processes that the terminal interrupts, and is killed alone."""
    monkeypatch.setattr("watchslo.kube.exec_plugin._is_on_terminal", lambda: True)
    monkeypatch.setattr("watchslo.kube.exec_plugin.LOGIN_SECONDS", 0.0)
    with pytest.raises(PluginError, match=r"printed no credentials within 0 s; run it by hand"):
        await run_plugin(plugin(tmp_path, "sleep 3; exit"), {}, os.environ)
