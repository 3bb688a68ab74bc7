import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from tests.unit.app.conftest import Run
from tests.unit.monitor.cluster import PODS, Cluster, Log
from tests.unit.monitor.inside import keep_writing
from watchslo.app import demo as app
from watchslo.app.demo import FAULT_SECONDS, QUIET_SECONDS, SCENARIO, WORKLOAD, Scene, Stage, play_of
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
    """The simulated cluster of the demo, which is the one in memory; its pods change."""
    for name in (plan["resource"] for plan in WORKLOAD):
        plural, _, group = name.partition(".")
        resource = Resource(group, "v1", plural, namespaced=plural != "nodes")
        if resource not in cluster.served:
            cluster.served.append(resource)

    @asynccontextmanager
    async def stage(*, on_the_way: bool) -> AsyncIterator[Stage]:
        writing = asyncio.create_task(keep_writing(cluster, PODS, seconds=1e6))
        yield Stage(ADDRESS, "/proxy/faults" if on_the_way else "/sim/faults")
        writing.cancel()

    monkeypatch.setattr(app, "_stage", stage)
    monkeypatch.setattr(app, "LISTED", {})  # the cluster in memory streams no lists
    monkeypatch.setattr(app, "run_on_loop", run_jumping)
    monkeypatch.setattr("watchslo.app.logs.set_up", lambda *_: None)
    return cluster


@pytest.mark.usefixtures("control", "log")
class TestDemo:
    def test_prints_lines_without_a_terminal(self, simulated: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
        app.demo(32.0, None)
        first, *lines = capsys.readouterr().out.splitlines()
        assert first.startswith("The page: http://127.0.0.1:")
        assert len([line for line in lines if line.startswith("---")]) == 6
        assert f"--- in the cluster now: pods: {FAULTS['slow-watch'].words}" in lines
        assert f"    in the last minute, and so in the figures: pods: {FAULTS['slow-watch'].words}" in lines
        assert [line.split()[2] for line in lines if line.startswith("pods ")][-1] != "0"
        assert not simulated.is_open

    @pytest.mark.parametrize(
        ("fault", "on"),
        [
            ("cut", ("/sim/faults", {"name": "cut", "resource": "*"})),
            ("reset", ("/proxy/faults", {"name": "reset"})),
        ],
    )
    def test_plays_a_single_fault(
        self, simulated: Cluster, control: Control, fault: str, on: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        app.demo(35.0, None, fault)
        path, switch = on
        assert control.posts == [on, (path, {**switch, "on": False}), on]
        assert f"--- in the cluster now: {play_of(fault).troubles[0].words}" in capsys.readouterr().out.splitlines()
        assert not simulated.is_open

    def test_draws_a_table_on_a_terminal(
        self, simulated: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "140")
        app.demo(10.0, "127.0.0.1:0")
        said = capsys.readouterr().out
        assert "looks at a simulated cluster" in said
        assert "In the cluster now: nothing is wrong." in said
        assert not simulated.is_open

    def test_goes_on_without_its_faults(
        self, simulated: Cluster, control: Control, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(control, "post", lambda *_, **__: 1 / 0)
        app.demo(30.0, None)
        assert log.of("task_crashed")[0]["task"] == "faults"
        assert not simulated.is_open


def test_an_unknown_fault_is_refused_with_all_that_there_are() -> None:
    with pytest.raises(ConfigError) as refused:
        app.demo(None, None, "gremlins")
    said = str(refused.value)
    assert "\n" not in said
    assert all(name in said for name in (*FAULTS, *LINK_FAULTS))


def test_no_two_faults_have_one_name() -> None:
    assert not set(FAULTS) & set(LINK_FAULTS)


def test_figures_tell_of_what_ended_in_the_last_minute() -> None:
    scene = Scene(ended={"late": 100.0, "cut": 130.0})
    assert scene.seen_in_figures(131.0) == "late; cut"
    assert scene.seen_in_figures(166.0) == "cut"
    assert scene.seen_in_figures(200.0) == ""


async def test_plays_one_fault_after_the_other(control: Control) -> None:
    scene = Scene()
    task = asyncio.create_task(app._play("/faults", [app._in_cluster(*turn) for turn in SCENARIO], scene))
    await asyncio.sleep(QUIET_SECONDS + 1)
    assert scene.words == f"pods: {FAULTS['slow-watch'].words}"
    await asyncio.sleep(FAULT_SECONDS)
    assert scene.words == Scene().words
    await asyncio.sleep(len(SCENARIO) * (QUIET_SECONDS + FAULT_SECONDS))
    task.cancel()
    on, off = control.posts[:2]
    assert on == ("/faults", {"name": "slow-watch", "resource": "pods"})
    assert off == ("/faults", {"name": "slow-watch", "resource": "pods", "on": False})
    assert [fault["name"] for _, fault in control.posts[::2]] == [*(name for name, _ in SCENARIO), "slow-watch"]


class TestStage:
    @pytest.fixture
    def instead(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Callable[[], bool]]:
        """What is started instead of Python; the answer tells whether it ended in peace."""
        path = tmp_path / "python"
        ended = tmp_path / "ended"
        monkeypatch.setattr(sys, "executable", str(path))

        def write(script: str) -> Callable[[], bool]:
            path.write_text(f"#!/bin/sh\ntrap 'touch {ended}; exit' TERM\n{script}\n")
            path.chmod(0o755)
            return ended.exists

        return write

    async def test_is_a_process_as_long_as_it_is_used(self, instead: Callable[[str], Callable[[], bool]]) -> None:
        ended = instead(f"""echo '{{"url": "{ADDRESS}", "control": "{CONTROL}"}}'; while :; do sleep 0.02; done""")
        async with app._stage(on_the_way=False) as stage:
            assert stage == Stage(ADDRESS, f"{CONTROL}/faults")
            assert not ended()
        assert ended()

    async def test_has_a_proxy_before_the_cluster(self, instead: Callable[[str], Callable[[], bool]]) -> None:
        announced = {"url": ADDRESS, "control": "http://proxy.test/proxy", "listen": "proxy.test:80"}
        ended = instead(f"""echo '{json.dumps(announced)}'; while :; do sleep 0.02; done""")
        async with app._stage(on_the_way=True) as stage:
            assert stage == Stage("http://proxy.test:80", "http://proxy.test/proxy/faults")
        assert ended()

    async def test_that_does_not_start_is_said(self, instead: Callable[[str], Callable[[], bool]]) -> None:
        instead("exit 3")
        with pytest.raises(WatchsloError, match="the simulated cluster does not start"):
            await app._stage(on_the_way=False).__aenter__()


async def test_connects_without_credentials() -> None:
    access = await app._connection(ADDRESS).access()
    assert (access.url, access.headers) == (ADDRESS, ())
