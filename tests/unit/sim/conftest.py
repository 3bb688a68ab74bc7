"""Fixture: a simulated cluster over real HTTP."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest

from tests.unit.sim.api import Api, Simulate
from watchslo.sim.cluster import ClusterSettings
from watchslo.sim.control import SimConfig
from watchslo.sim.simulation import simulated


@pytest.fixture
async def simulate() -> AsyncIterator[Simulate]:
    """`await simulate(**settings)` starts a cluster and returns a client of it."""
    async with AsyncExitStack() as stack:

        async def start(**settings: Any) -> Api:
            url = await stack.enter_async_context(simulated(SimConfig(cluster=ClusterSettings(**settings)), seed=7))
            session = await stack.enter_async_context(aiohttp.ClientSession())
            return Api(url, session, stack)

        yield start
