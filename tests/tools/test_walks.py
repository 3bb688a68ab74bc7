"""The first commands of new users: their kubeconfigs, the real client, and simulated clusters over HTTP.

Time jumps, except for the user who logs in by a device code: a terminal and a plugin take part in that.
"""

import json
import re
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from aiohttp import web

from tests.support.daemon import WATCHSLO, Simulator, outside
from tests.support.kubeconfigs import free_port, kubeconfig, token_of
from tests.support.tmux import Tmux
from tests.unit.app.conftest import Run, run_jumping
from watchslo.cli import commands
from watchslo.sim import status
from watchslo.sim.cluster import ClusterSettings
from watchslo.sim.control import SimConfig
from watchslo.sim.server import SimServer
from watchslo.sim.simulation import simulated
from watchslo.sim.workload import WorkloadPlan

__all__ = ("run_jumping",)

PROJECT = "kube-public"  # a namespace that each simulated cluster has
Walk = Callable[..., tuple[int, str]]


def cluster_of(name: str) -> SimConfig:
    """Return a cluster that accepts the token of its own kubeconfig only, in which configmaps of the project change."""
    writer = WorkloadPlan(resource="configmaps", rate=20.0, namespace=PROJECT)
    return SimConfig(cluster=ClusterSettings(token=token_of(name)), workload=(writer,))


@pytest.fixture
def clusters() -> dict[str, int]:
    """The ports of the clusters by name."""
    return {"dev": free_port(), "prod": free_port()}


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ports that were asked."""
    ports: list[int] = []
    handle = SimServer.handle

    async def noted(server: SimServer, request: web.Request) -> web.StreamResponse:
        ports.append(int(request.host.rpartition(":")[2]))
        return await handle(server, request)

    monkeypatch.setattr(SimServer, "handle", noted)
    return ports


@pytest.fixture
def walk(
    clusters: dict[str, int],
    run_jumping: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Walk:
    """Runs a command as a user without a kubeconfig at the usual place; returns its exit code and its output."""

    def run(work: Coroutine[None, None, Any]) -> Any:
        async def with_clusters() -> Any:
            async with AsyncExitStack() as stack:
                for name, port in clusters.items():
                    await stack.enter_async_context(simulated(cluster_of(name), 7, port=port))
                return await work

        return run_jumping(with_clusters())

    for command in ("measurement", "doctor"):
        monkeypatch.setattr(f"watchslo.app.{command}.run_on_loop", run)
    monkeypatch.setattr("watchslo.app.logs.set_up", lambda *_: None)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    def walk(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            commands.main(arguments, standalone_mode=False)
        assert isinstance(ended.value.code, int)
        return ended.value.code, capsys.readouterr().out

    return walk


def test_user_with_two_files_measures_the_cluster_of_the_first_current_context(
    walk: Walk, clusters: dict[str, int], requests: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, session = tmp_path / "main.yaml", tmp_path / "session.yaml"
    main.write_text(json.dumps(kubeconfig(**clusters)))
    session.write_text("current-context: prod\n")
    monkeypatch.setenv("KUBECONFIG", f"{session}:{main}")
    code, said = walk("check", "configmaps", "--duration", "10s")
    assert code == 0, said
    first, *_, last = said.splitlines()
    assert (first, last) == (f"Context prod: http://127.0.0.1:{clusters['prod']}", "configmaps is within 1 s.")
    assert {*requests} == {clusters["prod"]}


@pytest.fixture
def project_only(clusters: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubeconfig at the usual place whose user may read one namespace only."""
    inject = SimServer._inject_fault

    def permitted(server: SimServer, request: web.Request, target: Any, verb: str) -> Any:
        if target and target.namespace != PROJECT:
            raise status.forbidden(target.kind, verb, target.namespace)
        return inject(server, request, target, verb)

    monkeypatch.setattr(SimServer, "_inject_fault", permitted)
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(json.dumps(kubeconfig(prod=clusters["prod"])))


@pytest.mark.usefixtures("project_only")
def test_user_of_one_project_is_led_to_a_measurement(walk: Walk, tmp_path: Path) -> None:
    code, said = walk("check", "configmaps", "--duration", "10s")
    assert code != 0, said
    assert "name a namespace in which it may (`--namespace` of `check` and `verify`)" in said
    for words in (("check", "configmaps"), ("verify", "--resource", "configmaps")):
        code, said = walk(*words, "-n", PROJECT, "--duration", "10s")
        assert code == 0, said
    file = tmp_path / "watchslo.yaml"
    file.write_text(f"watch: [{{resource: configmaps, namespace: {PROJECT}}}]\n")
    _, said = walk("doctor", "--config", str(file))
    assert re.search(r"^good +ticks ", said, re.MULTILINE), said


CODE = "To sign in, open https://login.example/device and enter the code ABCD-EFGH."
DEVICE_LOGIN = f"""\
#!/bin/sh
cd "$(dirname "$0")"
echo '{CODE}' >&2
echo asked >> asked
while kill -0 $PPID && [ ! -e approved ]; do sleep 0.1; done
cat approved
"""
CREDENTIAL = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "kind": "ExecCredential",
    "status": {"token": "token-of-prod"},
}


def test_user_of_a_device_code_sees_the_code_and_what_is_awaited(tmp_path: Path) -> None:
    """The user approves the login in a browser, while the command waits."""
    plugin, draft, approved, asked, config = (
        tmp_path / name for name in ("plugin", "draft", "approved", "asked", "config")
    )
    plugin.write_text(DEVICE_LOGIN)
    plugin.chmod(0o700)
    with Simulator(tmp_path, "--config", msgspec.json.encode(cluster_of("prod")).decode()) as simulator:
        content = kubeconfig(prod=urlsplit(simulator.url).port or 0)
        user = {"apiVersion": CREDENTIAL["apiVersion"], "command": "./plugin", "interactiveMode": "IfAvailable"}
        config.write_text(json.dumps(content | {"users": [{"name": "prod", "user": {"exec": user}}]}))
        command = (WATCHSLO, "check", "--kubeconfig", config, "configmaps", "--duration", "5s")
        with Tmux(tmp_path / "terminal", command, outside()) as terminal:
            terminal.until(lambda: "Waiting for credentials of the exec plugin" in terminal.screen, "what is awaited")
            assert terminal.lines[:2] == [f"Context prod: {simulator.url}", CODE]
            draft.write_text(json.dumps(CREDENTIAL))
            draft.rename(approved)
            terminal.until(lambda: re.search(r"^configmaps +\d+", terminal.screen, re.MULTILINE) is not None, "figures")
    assert asked.read_text().splitlines() == ["asked"]
