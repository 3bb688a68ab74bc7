"""A cluster in memory, and a loop whose time jumps and drives all clocks."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext

import pytest
import structlog
from structlog.testing import CapturingLogger

from tests.support.loop import JumpingLoop
from tests.unit.monitor.cluster import Cluster, Log

WALL_SECONDS = 1_700_000_000.0


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"jumping": JumpingLoop}


@pytest.fixture(autouse=True)
async def jumping_time(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    with monkeypatch.context() as patched:
        if isinstance(loop, JumpingLoop):  # tests that are not coroutines have another loop
            _set_clocks(loop, patched)
        yield


def _set_clocks(loop: JumpingLoop, patched: pytest.MonkeyPatch) -> None:
    patched.setattr(time, "monotonic", loop.time)
    patched.setattr(time, "time", lambda: WALL_SECONDS + loop.time())
    patched.setattr("watchslo.monitor.lag.cpu_wait_reader", lambda: nullcontext(lambda: 0.0))
    patched.setattr("watchslo.monitor.lag.suspended_seconds", lambda: 0.0)


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return the cluster that every `Apiserver` created from now on talks to."""
    made = Cluster()
    monkeypatch.setattr("watchslo.monitor.apiserver.Client", made.client)
    monkeypatch.setattr("watchslo.kube.client._session", made.session)
    return made


@pytest.fixture
def refresh(monkeypatch: pytest.MonkeyPatch) -> float:
    """Return after how many seconds a supervisor that is created from now on refreshes: less than usual."""
    monkeypatch.setattr("watchslo.monitor.supervisor.REFRESH_SECONDS", 40.0)
    return 40.0


@pytest.fixture
def log() -> Log:
    """Return the log from now on."""
    logger = CapturingLogger()
    structlog.configure(processors=[], logger_factory=lambda *_: logger, cache_logger_on_first_use=False)
    return Log(logger)
