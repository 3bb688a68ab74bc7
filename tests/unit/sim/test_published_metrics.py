"""The page of the simulated apiserver: what happens shows in it, and a client reads it as that of a real one."""

import asyncio

import pytest

from tests.unit.own_metrics.pages import page
from tests.unit.sim.api import CONFIGMAPS, Api, Simulate
from watchslo.own_metrics.families import Figure
from watchslo.own_metrics.history import figures
from watchslo.own_metrics.page import FigureKey, MetricsPage
from watchslo.snapshot import ApiserverFigures

SETTLED_SECONDS = 0.05


async def read(api: Api, at: float = 100.0) -> MetricsPage:
    answer = await api.get("/metrics", accept="text/plain")
    assert answer.headers["Content-Type"].startswith("text/plain")
    found = page(answer.text, at=at, resources=("configmaps",))
    assert found.garbled == 0
    return found


async def since(api: Api, before: MetricsPage) -> ApiserverFigures:
    found = figures(before, await read(api, at=115.0))
    assert found is not None
    return found


async def test_events_into_the_cache_and_writes_to_etcd_are_counted(simulate: Simulate) -> None:
    api = await simulate(etcd_seconds=0.3)
    before = await read(api)
    for number in range(6):
        await api.configmap(f"a{number}")
    await asyncio.sleep(SETTLED_SECONDS)
    found = await since(api, before)
    assert found.resources["configmaps"].received == 6
    assert found.etcd is not None
    assert found.etcd.total == 6
    assert found.etcd.sum == pytest.approx(1.8)


async def test_dispatch_is_as_slow_as_the_way_to_the_client(simulate: Simulate) -> None:
    api = await simulate(dispatch_metrics=True)
    await api.control("latency", {"resource": "configmaps", "client": "constant 300ms"})
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    before = await read(api)
    await api.configmap("a")
    await watch.revision()
    dispatch = (await since(api, before)).resources["configmaps"].dispatch["total"]
    assert dispatch.total == 1
    assert dispatch.sum == pytest.approx(0.3, abs=0.003)


async def test_reads_that_wait_for_the_cache_are_counted(simulate: Simulate) -> None:
    api = await simulate()
    await api.control("latency", {"resource": "configmaps", "storage": "constant 300ms"})
    before = await read(api)
    await api.configmap("a")
    await api.newest()
    waits = (await since(api, before)).read_wait
    assert waits is not None
    assert waits.sum >= 0.2


async def test_lists_and_initial_events_are_counted(simulate: Simulate) -> None:
    api = await simulate()
    for number in range(3):
        await api.configmap(f"a{number}")
    before = await read(api)
    await api.get(CONFIGMAPS)
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion=0")
    await watch.event()
    assert (await since(api, before)).listed == 6


async def test_refused_requests_are_counted(simulate: Simulate) -> None:
    api = await simulate()
    before = await read(api)
    await api.control("faults", {"name": "throttled", "resource": "configmaps"})
    codes = [(await api.get(CONFIGMAPS)).code for _ in range(20)]
    assert (await since(api, before)).rejected == codes.count(429) > 0


async def test_watch_of_a_client_that_does_not_read_is_counted(simulate: Simulate) -> None:
    api = await simulate(backlog=1000)
    await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    before = await read(api)
    await api.control("faults", {"name": "endless-line", "resource": "configmaps"})
    closed = 0
    while not closed:
        await asyncio.sleep(SETTLED_SECONDS)
        of_resource = (await since(api, before)).resources.get("configmaps")
        closed = of_resource.terminated if of_resource else 0
    assert closed == 1


async def test_restart_begins_with_another_process(simulate: Simulate) -> None:
    api = await simulate()
    before = await read(api)
    await asyncio.sleep(1)
    await api.control("restart")
    after = await read(api, at=115.0)
    assert before.started != after.started
    assert figures(before, after) is None
    assert FigureKey(Figure.CPU) in after.values


async def test_page_needs_the_token(simulate: Simulate) -> None:
    api = await simulate(token="secret")
    assert (await api.get("/metrics")).code == 401
