"""The commands against a cluster in memory, on a loop whose time jumps."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.support.loop import JumpingLoop
from tests.unit.monitor.cluster import PODS, Cluster, Log, nowhere
from tests.unit.monitor.conftest import cluster, jumping_time, log, pytest_asyncio_loop_factories
from tests.unit.monitor.inside import BUILD, keep_writing, set_clocks, verified_tls
from watchslo.config.model import Config
from watchslo.kube.credentials import ClusterPlace, PluginRun
from watchslo.monitor.supervisor import Supervisor

__all__ = ("cluster", "jumping_time", "log", "pytest_asyncio_loop_factories")

Run = Callable[[Coroutine[None, None, Any]], Any]


@pytest.fixture
def run_jumping(monkeypatch: pytest.MonkeyPatch) -> Run:
    """What a command may use instead of `run_on_loop`."""

    def run(work: Coroutine[None, None, Any]) -> Any:
        loop = JumpingLoop()
        set_clocks(loop, monkeypatch)
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(work)

    return run


@pytest.fixture
def place() -> list[ClusterPlace]:
    """Which cluster commands measure: the last of these, or none."""
    return []


@pytest.fixture
def plugin() -> PluginRun:
    """The exec plugin that commands wait for, if any."""
    return PluginRun()


@pytest.fixture
def measured_cluster(
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    run_jumping: Run,
    log: Log,
    place: list[ClusterPlace],
    plugin: PluginRun,
) -> Cluster:
    """The cluster that commands measure, in which 10 pods change each second."""
    del log

    def run(work: Coroutine[None, None, Any]) -> Any:
        async def with_writes() -> Any:
            writing = asyncio.create_task(keep_writing(cluster, PODS, seconds=1e6))
            try:
                return await work
            finally:
                writing.cancel()

        return run_jumping(with_writes())

    def supervise(config: Config, *_: object, replay: bool = False) -> Supervisor:
        tls = verified_tls() if config.kubernetes.apiservers == "each" else None
        credentials = nowhere(place[-1] if place else None, plugin, tls)
        return Supervisor(config, credentials, BUILD, lambda: 0.5, replay=replay)

    monkeypatch.setattr("watchslo.app.measurement.run_on_loop", run)
    monkeypatch.setattr("watchslo.app.measurement.supervise", supervise)
    monkeypatch.setattr("watchslo.app.logs.set_up", lambda *_: None)
    monkeypatch.setenv("COLUMNS", "140")
    return cluster
