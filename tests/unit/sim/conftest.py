"""A simulated cluster over real HTTP, whose time jumps."""

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest

from tests.support.loop import JumpingLoop
from tests.unit.sim.api import Api, Simulate
from watchslo.sim.cluster import ClusterSettings
from watchslo.sim.control import SimConfig
from watchslo.sim.simulation import simulated

WALL_SECONDS = 1_700_000_000.0
TURN_SECONDS = 1e-6
REAL = "test_process.py"
"""The file whose tests start processes, and wait for them on the real clock."""


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.path.name == REAL:
        return {"real": asyncio.new_event_loop}
    return {"jumping": functools.partial(JumpingLoop, TURN_SECONDS)}


@pytest.fixture(autouse=True)
async def jumping_time(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Let the clocks show the time of the loop, if that jumps."""
    loop = asyncio.get_running_loop()
    with monkeypatch.context() as patched:
        if isinstance(loop, JumpingLoop):
            patched.setattr(time, "monotonic", loop.time)
            patched.setattr(time, "time", lambda: WALL_SECONDS + loop.time())
        yield


@pytest.fixture
async def simulate() -> AsyncIterator[Simulate]:
    """`await simulate(**settings)` starts a cluster and returns a client of it."""
    async with AsyncExitStack() as stack:

        async def start(**settings: Any) -> Api:
            url = await stack.enter_async_context(simulated(SimConfig(cluster=ClusterSettings(**settings)), seed=7))
            session = await stack.enter_async_context(aiohttp.ClientSession())
            return Api(url, session, stack)

        yield start
