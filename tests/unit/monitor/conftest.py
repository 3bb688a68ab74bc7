"""A cluster in memory, and a loop whose time jumps and drives all clocks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import structlog
from structlog.testing import CapturingLogger

from tests.conftest import GOLDEN
from tests.support.loop import JumpingLoop
from tests.support.transcripts import replay
from tests.unit.monitor.cluster import Cluster, Log
from tests.unit.monitor.inside import serve, set_clocks
from tests.unit.monitor.scene import Play, Scene, Stage


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
    serve(made, monkeypatch)
    return made


@pytest.fixture
def play(golden: Callable[[str, str], None]) -> Iterator[Play]:
    """`play(name, scene)` plays the transcripts of `tests/golden/NAME`."""
    stages: list[Stage] = []

    def play_all(name: str, scene: Callable[[str], Scene]) -> None:
        stages.append(Stage(scene))
        golden(name, replay((GOLDEN / name).read_text(), stages[-1].begin))

    yield play_all
    for stage in stages:
        stage.end()


@pytest.fixture
def log() -> Log:
    """Return the log from now on."""
    logger = CapturingLogger()
    structlog.configure(processors=[], logger_factory=lambda *_: logger, cache_logger_on_first_use=False)
    return Log(logger)
