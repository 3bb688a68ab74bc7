"""A cluster in memory, and a loop whose time jumps and drives all clocks."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import structlog
from structlog.testing import CapturingLogger

from tests.support.loop import JumpingLoop
from tests.unit.monitor.cluster import Cluster, Log
from tests.unit.monitor.inside import set_clocks


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"jumping": JumpingLoop}


@pytest.fixture(autouse=True)
async def jumping_time(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    with monkeypatch.context() as patched:
        if isinstance(loop, JumpingLoop):  # tests that are not coroutines have another loop
            set_clocks(loop, patched)
        yield


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return the cluster that every `Apiserver` created from now on talks to."""
    made = Cluster()
    monkeypatch.setattr("watchslo.monitor.apiserver.Client", made.client)
    monkeypatch.setattr("watchslo.kube.client._session", made.session)
    return made


@pytest.fixture
def log() -> Log:
    """Return the log from now on."""
    logger = CapturingLogger()
    structlog.configure(processors=[], logger_factory=lambda *_: logger, cache_logger_on_first_use=False)
    return Log(logger)
