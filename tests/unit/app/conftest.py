"""The commands against a cluster in memory, on a loop whose time jumps."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from typing import Any

import pytest

from tests.support.loop import JumpingLoop
from tests.unit.monitor.conftest import WALL_SECONDS, cluster, jumping_time, log, pytest_asyncio_loop_factories

__all__ = ("cluster", "jumping_time", "log", "pytest_asyncio_loop_factories")

Run = Callable[[Coroutine[None, None, Any]], Any]


@pytest.fixture
def run_jumping(monkeypatch: pytest.MonkeyPatch) -> Run:
    """What a command may use instead of `run_on_loop`."""

    def run(work: Coroutine[None, None, Any]) -> Any:
        loop = JumpingLoop()
        monkeypatch.setattr(time, "monotonic", loop.time)
        monkeypatch.setattr(time, "time", lambda: WALL_SECONDS + loop.time())
        monkeypatch.setattr("watchslo.monitor.lag.cpu_wait_reader", lambda: nullcontext(lambda: 0.0))
        monkeypatch.setattr("watchslo.monitor.lag.suspended_seconds", lambda: 0.0)
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(work)

    return run
