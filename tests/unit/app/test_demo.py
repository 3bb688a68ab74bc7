import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from tests.unit.app.conftest import Run
from tests.unit.monitor.cluster import PODS, Cluster, Log
from tests.unit.monitor.inside import keep_writing
from tests.unit.serve import readings
from watchslo.app import demo as app
from watchslo.app.demo import FAULT_SECONDS, QUIET_SECONDS, SCENARIO, WORKLOAD, DemoCluster, DemoState, schedule_of
from watchslo.app.table import plain_console
from watchslo.app.terminal import view_of
from watchslo.errors import ConfigError, WatchsloError
from watchslo.model import Resource
from watchslo.sim.faults import FAULTS
from watchslo.sim.link_faults import LINK_FAULTS

ADDRESS = "http://sim.test"
CONTROL = f"{ADDRESS}/sim"


class Control:
    """The simulator's control interface, as an aiohttp session."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, Any]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    async def post(self, path: str, json: Any) -> Self:
        self.posts.append((path, json))
        return self

    async def read(self) -> bytes:
        return b""


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> Control:
    made = Control()
    monkeypatch.setattr("watchslo.app.demo.aiohttp.ClientSession", lambda: made)
    return made


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, run_jumping: Run) -> Cluster:
    """Replaces the simulated cluster of the demo by the one in memory, whose pods change."""
    for name in (plan["resource"] for plan in WORKLOAD):
        plural, _, group = name.partition(".")
        resource = Resource(group, "v1", plural, namespaced=plural != "nodes")
        if resource not in cluster.served:
            cluster.served.append(resource)

    @asynccontextmanager
    async def in_memory(*, on_link: bool) -> AsyncIterator[DemoCluster]:
        writing = asyncio.create_task(keep_writing(cluster, PODS, seconds=1e6))
        yield DemoCluster(ADDRESS, "/proxy/faults" if on_link else "/sim/faults")
        writing.cancel()

    monkeypatch.setattr(app, "_simulated_cluster", in_memory)
    monkeypatch.setattr(app, "LISTED", {})  # the cluster in memory streams no lists
    monkeypatch.setattr(app, "run_on_loop", run_jumping)
    monkeypatch.setattr("watchslo.app.logs.set_up", lambda *_: None)
    return cluster


def test_without_figures_one_sentence_says_when_they_come(capsys: pytest.CaptureFixture[str]) -> None:
    app._print(plain_console(), DemoState(), view_of(readings.EMPTY))
    assert capsys.readouterr().out.splitlines() == ["--- injected fault: none", f"    {app.NO_FIGURES}"]


@pytest.mark.usefixtures("control", "log")
class TestDemo:
    def test_pipe_gets_lines(self, simulated: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
        app.demo(32.0, None)
        first, *lines = capsys.readouterr().out.splitlines()
        assert first.startswith("The page: http://127.0.0.1:")
        assert len([line for line in lines if line.startswith("---")]) in (7, 8), "one for each evaluation"
        pods = next(line for line in lines if line.startswith("pods "))
        assert pods.split()[2] != "0", "the first evaluation has figures"
        assert f"--- injected fault: pods: {FAULTS['slow-watch'].words}" in lines
        assert f"    over, but still in the figures of the last minute: pods: {FAULTS['slow-watch'].words}" in lines
        assert [line.split()[2] for line in lines if line.startswith("pods ")][-1] != "0"
        assert not simulated.is_open

    @pytest.mark.parametrize(
        ("fault", "on"),
        [
            ("cut", ("/sim/faults", {"name": "cut", "resource": "*"})),
            ("reset", ("/proxy/faults", {"name": "reset"})),
        ],
    )
    def test_named_fault_is_injected_repeatedly(
        self, simulated: Cluster, control: Control, fault: str, on: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        app.demo(35.0, None, fault)
        path, switch = on
        assert control.posts == [on, (path, {**switch, "on": False}), on]
        assert f"--- injected fault: {schedule_of(fault).faults[0].words}" in capsys.readouterr().out.splitlines()
        assert not simulated.is_open

    @pytest.mark.usefixtures("simulated")
    def test_short_demo_ends_with_figures(self, capsys: pytest.CaptureFixture[str]) -> None:
        app.demo(9.0, None)
        lines = capsys.readouterr().out.splitlines()
        (pods,) = [line for line in lines[-len(WORKLOAD) :] if line.startswith("pods ")]
        assert re.search(r"P99 +(~|< )?[\d.]+ m?s ", pods), pods

    def test_terminal_gets_a_table(
        self, simulated: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "140")
        app.demo(10.0, "127.0.0.1:0")
        said = capsys.readouterr().out
        assert "measures a simulated cluster" in said
        assert "Injected fault: none." in said
        assert not simulated.is_open

    def test_demo_continues_if_fault_injection_crashes(
        self, simulated: Cluster, control: Control, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(control, "post", lambda *_, **__: 1 / 0)
        app.demo(30.0, None)
        assert log.of("task_crashed")[0]["task"] == "faults"
        assert not simulated.is_open


def test_unknown_fault_is_refused_with_a_list() -> None:
    with pytest.raises(ConfigError) as refused:
        app.demo(None, None, "gremlins")
    said = str(refused.value)
    assert "\n" not in said
    assert all(name in said for name in (*FAULTS, *LINK_FAULTS))


def test_fault_names_are_unique() -> None:
    assert not set(FAULTS) & set(LINK_FAULTS)


def test_ended_fault_is_seen_in_figures_for_a_minute() -> None:
    state = DemoState(ended={"late": 100.0, "cut": 130.0})
    assert state.seen_in_figures(131.0) == "late; cut"
    assert state.seen_in_figures(166.0) == "cut"
    assert state.seen_in_figures(200.0) == ""


async def test_scenario_injects_faults_one_after_the_other(control: Control) -> None:
    state = DemoState()
    task = asyncio.create_task(app._inject("/faults", [app._in_cluster(*turn) for turn in SCENARIO], state))
    await asyncio.sleep(QUIET_SECONDS + 1)
    assert state.words == f"pods: {FAULTS['slow-watch'].words}"
    await asyncio.sleep(FAULT_SECONDS)
    assert state.words == DemoState().words
    await asyncio.sleep(len(SCENARIO) * (QUIET_SECONDS + FAULT_SECONDS))
    task.cancel()
    on, off = control.posts[:2]
    assert on == ("/faults", {"name": "slow-watch", "resource": "pods"})
    assert off == ("/faults", {"name": "slow-watch", "resource": "pods", "on": False})
    assert [fault["name"] for _, fault in control.posts[::2]] == [*(name for name, _ in SCENARIO), "slow-watch"]


class TestSimulatedCluster:
    @pytest.fixture
    def instead(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Callable[[], bool]]:
        """Replaces Python by a script; the returned function reports whether SIGTERM ended it."""
        path = tmp_path / "python"
        ended = tmp_path / "ended"
        monkeypatch.setattr(sys, "executable", str(path))

        def write(script: str) -> Callable[[], bool]:
            path.write_text(f"#!/bin/sh\ntrap 'touch {ended}; exit' TERM\n{script}\n")
            path.chmod(0o755)
            return ended.exists

        return write

    async def test_process_runs_while_the_context_lasts(self, instead: Callable[[str], Callable[[], bool]]) -> None:
        ended = instead(f"""echo '{{"url": "{ADDRESS}", "control": "{CONTROL}"}}'; while :; do sleep 0.02; done""")
        async with app._simulated_cluster(on_link=False) as cluster:
            assert cluster == DemoCluster(ADDRESS, f"{CONTROL}/faults")
            assert not ended()
        assert ended()

    async def test_link_faults_use_the_proxy(self, instead: Callable[[str], Callable[[], bool]]) -> None:
        announced = {"url": ADDRESS, "control": "http://proxy.test/proxy", "listen": "proxy.test:80"}
        ended = instead(f"""echo '{json.dumps(announced)}'; while :; do sleep 0.02; done""")
        async with app._simulated_cluster(on_link=True) as cluster:
            assert cluster == DemoCluster("http://proxy.test:80", "http://proxy.test/proxy/faults")
        assert ended()

    async def test_failed_start_raises_error(self, instead: Callable[[str], Callable[[], bool]]) -> None:
        instead("exit 3")
        with pytest.raises(WatchsloError, match="the simulated cluster does not start"):
            await app._simulated_cluster(on_link=False).__aenter__()


async def test_demo_connects_without_credentials() -> None:
    access = await app._credentials(ADDRESS).access()
    assert (access.url, access.headers) == (ADDRESS, ())
