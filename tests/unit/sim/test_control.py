"""The control API and the faults of a running cluster, over real HTTP."""

import asyncio
import time
from contextlib import AsyncExitStack

import aiohttp
import pytest

from tests.unit.sim.api import CONFIGMAPS, Api, Simulate
from watchslo.errors import ConfigError
from watchslo.sim import faults
from watchslo.sim.control import FaultSwitch, LatencySetting, SimConfig
from watchslo.sim.simulation import simulated
from watchslo.sim.workload import ObjectBatch, WorkloadPlan

EVENTS = "/api/v1/namespaces/default/events"


async def test_config_sets_latency_faults_objects_and_workload_at_start() -> None:
    config = SimConfig(
        latency=(LatencySetting("pods", client="constant 20s"),),
        faults=(FaultSwitch("overloaded", "nodes"),),
        objects=(ObjectBatch("pods", 5),),
        workload=(WorkloadPlan("configmaps", rate=1.0, pattern="bursty", objects=3),),
    )
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(simulated(config, seed=7))
        api = Api(url, await stack.enter_async_context(aiohttp.ClientSession()), stack)
        answer = await api.get("/api/v1/pods")
        assert len(answer.json["items"]) == 5
        assert (await api.get("/api/v1/nodes")).code == 429
        pods, configmaps = [await api.watch(f"/api/v1/{name}?watch=1") for name in ("pods", "configmaps")]
        assert [(await configmaps.event())[0] for _ in range(3)] == ["ADDED"] * 3
        for _ in range(5):
            await pods.event()
        began = time.monotonic()
        created = await api.configmap("a", "/api/v1/namespaces/default/pods")
        assert await pods.revision() == created
        assert time.monotonic() - began == pytest.approx(20, abs=0.1)


@pytest.mark.parametrize(
    "config",
    [
        SimConfig(latency=(LatencySetting("gremlins", client="none"),)),
        SimConfig(latency=(LatencySetting("events", storage="constant 1s"),)),
        SimConfig(latency=(LatencySetting("pods", client="soon"),)),
        SimConfig(faults=(FaultSwitch("gremlins"),)),
        SimConfig(faults=(FaultSwitch("cut", "gremlins"),)),
        SimConfig(workload=(WorkloadPlan("gremlins", rate=1.0),)),
    ],
)
async def test_simulated_refuses_an_invalid_config(config: SimConfig) -> None:
    with pytest.raises(ConfigError):
        async with simulated(config, seed=7):
            pass


async def test_a_workload_can_be_changed_and_stopped(simulate: Simulate) -> None:
    api = await simulate()
    watch = await api.watch("/api/v1/nodes?watch=1&resourceVersion=5")
    await api.control("workload", {"resource": "nodes", "rate": 500, "objects": 2})
    kinds = {(await watch.event())[0] for _ in range(200)}
    assert kinds == {"ADDED", "MODIFIED", "DELETED"}
    assert await api.control("workload", {"resource": "nodes", "rate": 300, "size": "full"})
    assert await api.control("workload", {"resource": "nodes", "rate": 0})
    last = await api.newest()
    await asyncio.sleep(1)
    assert await api.newest() == last


async def test_writer_continues_after_a_client_deletes_its_objects(simulate: Simulate) -> None:
    api = await simulate()
    await api.control("workload", {"resource": "configmaps", "rate": 1000, "objects": 20})
    for written in (await api.get(CONFIGMAPS)).json["items"]:
        await api.write("DELETE", f"{CONFIGMAPS}/{written['metadata']['name']}")
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    assert [await watch.revision() for _ in range(50)]


async def test_arrivals_include_requests_that_fail(simulate: Simulate) -> None:
    api = await simulate()
    await api.get(CONFIGMAPS)
    between = time.monotonic()
    await api.control("faults", {"name": "overloaded"})
    await api.get(CONFIGMAPS)
    await api.get("/version")
    arrivals = (await api.get("/sim/arrivals")).json
    assert [at > between for at in arrivals["at"]] == [False, True, True]
    assert arrivals["at"][-1] <= arrivals["now"] <= time.monotonic()


@pytest.mark.parametrize(("name", "code"), [("throttled", 429), ("gone", 410)])
async def test_partial_fault_fails_some_watches(simulate: Simulate, name: str, code: int) -> None:
    api = await simulate()
    await api.control("faults", {"name": name})
    unreadable = "watch=1&labelSelector=a%20b"  # answered with 400 without a fault
    codes = {(await api.get(f"{CONFIGMAPS}?{unreadable}")).code for _ in range(40)}
    assert codes == {code, 400}


async def test_garbage_fault_repeats_until_switched_off(simulate: Simulate) -> None:
    fault = faults.FAULTS["garbage"]
    api = await simulate()
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    await api.control("faults", {"name": "garbage", "resource": "configmaps"})
    await api.control("faults", {"name": "garbage", "resource": "configmaps"})
    assert {await watch.line() for _ in range(3)} == {fault.line}
    await api.control("faults", {"name": "garbage", "resource": "configmaps", "on": False})
    await api.configmap("a")
    while (line := await watch.line()) == fault.line:
        pass
    assert line.startswith(b'{"type":"ADDED"')


async def test_stalled_stream_fault_holds_open_watches_but_not_new_ones(simulate: Simulate) -> None:
    api = await simulate()
    newest = await api.newest()
    stalled = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={newest}")
    await api.control("faults", {"name": "stalled-stream", "resource": "configmaps"})
    line = asyncio.create_task(stalled.line())
    revision = await api.configmap("a")
    audit = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={newest}")
    assert await audit.revision() == revision
    assert not line.done()
    await api.control("faults", {"name": "stalled-stream", "resource": "configmaps", "on": False})
    assert str(revision).encode() in await line


async def test_frozen_cache_receives_no_change(simulate: Simulate) -> None:
    api = await simulate()
    await api.control("faults", {"name": "frozen-cache", "resource": "configmaps"})
    await api.configmap("a")
    assert (await api.get(f"{CONFIGMAPS}?resourceVersion=0")).json["items"] == []


async def test_watch_without_timeout_ends_after_half_an_hour_to_an_hour(simulate: Simulate) -> None:
    api = await simulate()
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    began = time.monotonic()
    assert await watch.rest() == []
    assert 1800 <= time.monotonic() - began <= 3600
