"""Link faults that edit watches, through the proxy to a simulated apiserver."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.unit.sim.api import CONFIGMAPS, Api
from watchslo.sim.control import SimConfig
from watchslo.sim.delay_law import parse_law
from watchslo.sim.proxy import control
from watchslo.sim.simulation import simulated
from watchslo.sim.tcp_proxy import TcpProxy

Control = TestClient[Any, Any]
TIMEOUT_SECONDS = 30.0


@pytest.fixture
async def proxied() -> AsyncIterator[tuple[Api, Control]]:
    """A client of a cluster behind a proxy, and the control API of the proxy."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(simulated(SimConfig(), seed=7))
        host, port = url.removeprefix("http://").split(":")
        proxy = await stack.enter_async_context(TcpProxy([(host, int(port))], parse_law("none"), Random(7)))
        http = await stack.enter_async_context(TestClient(TestServer(control(proxy))))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        yield Api("http://{}:{}".format(*proxy.address), session, stack), http


async def edits(http: Control) -> Any:
    return await (await http.get("/proxy/edits")).json()


async def edits_of(http: Control, seen: int) -> Any:
    """Wait until the proxy has seen that many events, and return its edits."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while (answer := await edits(http))["seen"] < seen:
            pass
    return answer


async def switch(http: Control, name: str, value: float | None = None, *, on: bool = True) -> None:
    assert (await http.post("/proxy/faults", json={"name": name, "value": value, "on": on})).status == 200


async def test_fault_edits_an_open_watch_and_records_it(proxied: tuple[Api, Control]) -> None:
    api, http = proxied
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    first = await api.configmap("a")
    assert await watch.revision() == first
    await switch(http, "lossy", 1)
    for serial in range(3):
        await api.touch(f"{CONFIGMAPS}/a", str(serial))
    answer = await edits_of(http, 3)
    await switch(http, "lossy", on=False)
    last = await api.configmap("b")
    assert await watch.revision() == last
    assert (answer["seen"], answer["edited"]) == (3, {"lossy": 3})
    assert (await edits(http))["seen"] == 3  # no fault is on
