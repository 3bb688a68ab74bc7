"""The control API and the clocks of a running cluster, over real HTTP; the transcripts of watches have its faults."""

import asyncio
import time
from contextlib import AsyncExitStack
from datetime import datetime
from email.utils import parsedate_to_datetime

import aiohttp
import pytest

from tests.unit.sim.api import CONFIGMAPS, RETRY_SECONDS, Api, Simulate
from watchslo.errors import ConfigError
from watchslo.sim.cluster import CommitTimes
from watchslo.sim.control import FaultSwitch, LatencySetting, SimConfig
from watchslo.sim.simulation import simulated
from watchslo.sim.workload import ObjectBatch, WorkloadPlan

EVENTS = "/api/v1/namespaces/default/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
APISERVER_LEASES = f"{LEASES}?labelSelector=apiserver.kubernetes.io/identity%3Dkube-apiserver"


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


async def test_watch_without_timeout_ends_after_half_an_hour_to_an_hour(simulate: Simulate) -> None:
    api = await simulate()
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    began = time.monotonic()
    assert await watch.rest() == []
    assert 1800 <= time.monotonic() - began <= 3600


async def test_events_are_delayed_by_the_law_and_ground_truth_records_it(simulate: Simulate) -> None:
    api = await simulate()
    await api.control("latency", {"resource": "configmaps", "storage": "constant 20ms", "client": "constant 30ms"})
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    before = time.monotonic()
    revision = await api.configmap("a")
    committed_by = time.monotonic()
    assert await watch.revision() == revision
    received = time.monotonic()
    truth = (await api.get(f"/sim/truth?resource=configmaps&since={before}")).json
    assert truth["commits"]["revision"] == truth["sends"]["revision"] == [revision]
    (commit,), (send,) = truth["commits"]["at"], truth["sends"]["at"]
    assert before <= commit <= committed_by
    assert commit + 0.05 == pytest.approx(send, abs=0.003)
    assert send <= received


@pytest.mark.parametrize(
    ("accept", "is_late"),
    [
        ("application/json", True),
        ("application/vnd.kubernetes.protobuf", True),
        ("application/json;as=Table;g=meta.k8s.io;v=v1", False),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", False),
    ],
)
async def test_slow_encoding_delays_whole_objects_only(simulate: Simulate, accept: str, *, is_late: bool) -> None:
    api = await simulate()
    await api.control("latency", {"resource": "configmaps", "client": "constant 20ms"})
    await api.control("faults", {"name": "slow-encoding", "law": "constant 300ms"})
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}", accept)
    before = time.monotonic()
    await api.configmap("a")
    await watch.response.content.readany()
    truth = (await api.get(f"/sim/truth?resource=configmaps&since={before}")).json
    (commit,), (send,) = truth["commits"]["at"], truth["sends"]["at"]
    assert send - commit == pytest.approx(0.3 if is_late else 0.02, abs=0.003)  # encoding and sending overlap


async def test_watch_of_a_disconnected_client_is_removed(simulate: Simulate) -> None:
    api = await simulate()
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    watch.response.close()
    while True:
        before = time.monotonic()
        await api.configmap(f"at-{before}")
        await asyncio.sleep(RETRY_SECONDS)
        if not (await api.get(f"/sim/truth?resource=configmaps&since={before}")).json["sends"]["revision"]:
            break


async def test_clock_offset_shifts_dates_and_timestamps(simulate: Simulate) -> None:
    api = await simulate(clock_offset=-7200.0)
    answer = await api.get(CONFIGMAPS)
    assert parsedate_to_datetime(answer.headers["Date"]).timestamp() == pytest.approx(time.time() - 7200, abs=1)
    await api.control("faults", {"name": "clock-step"})
    created = await api.write("POST", CONFIGMAPS, {"metadata": {"name": "a"}})
    stamp = datetime.fromisoformat(created.json["metadata"]["creationTimestamp"])
    for at in (parsedate_to_datetime(created.headers["Date"]), stamp):
        assert at.timestamp() == pytest.approx(time.time() - 3600, abs=1)


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("collection", [CONFIGMAPS, EVENTS])
async def test_commit_times_order_reads_and_commits(simulate: Simulate, collection: str, *, reads: bool) -> None:
    api = await simulate(commit_times=CommitTimes(offset=60.0, reads=reads))
    began = (time.time() + 60) * 1e9
    first = await api.configmap("a", collection)
    read, again = await api.newest(collection), await api.newest(collection)
    second = await api.configmap("b", collection)
    assert began < first <= read <= again < second < (time.time() + 60) * 1e9
    assert (first < read < again) if reads else (first == read == again)
    exact = await api.get(f"{collection}?resourceVersion={first}&resourceVersionMatch=Exact")
    assert [item["metadata"]["name"] for item in exact.json["items"]] == ["a"]
    assert exact.revision == first


async def test_identity_lease_is_renewed_each_ten_seconds(simulate: Simulate) -> None:
    api = await simulate()
    (first,) = (await api.get(APISERVER_LEASES)).json["items"]
    await asyncio.sleep(10.0)
    (later,) = (await api.get(APISERVER_LEASES)).json["items"]
    assert first["metadata"]["uid"] == later["metadata"]["uid"]
    assert (instant(later) - instant(first)).total_seconds() == pytest.approx(10.0, abs=0.01)


def instant(lease: dict[str, dict[str, str]]) -> datetime:
    return datetime.fromisoformat(lease["spec"]["renewTime"])
