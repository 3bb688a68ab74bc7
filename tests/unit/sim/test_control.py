"""What can be turned while the cluster runs, over real HTTP."""

import asyncio
import time
from dataclasses import replace

import aiohttp
import pytest

from tests.unit.sim.api import CONFIGMAPS, Simulate
from watchslo.errors import ConfigError
from watchslo.sim import faults, server
from watchslo.sim.cluster import Settings
from watchslo.sim.control import Config, Latency, Switch
from watchslo.sim.simulation import simulated
from watchslo.sim.workload import Objects, Plan

EVENTS = "/api/v1/namespaces/default/events"


async def test_a_configuration_is_what_the_control_api_could_also_say() -> None:
    config = Config(
        latency=(Latency("pods", storage="constant 1ms", client="constant 2ms"),),
        faults=(Switch("slow-watch", "nodes"),),
        objects=(Objects("pods", 5),),
        workload=(Plan("leases.coordination.k8s.io", rate=1000.0, pattern="bursty", objects=3),),
    )
    async with simulated(config, seed=7) as url, aiohttp.ClientSession() as session:
        while True:
            async with session.get(f"{url}/sim/state") as response:
                state = await response.json()
            if state["workload"]["leases.coordination.k8s.io"]["written"] > 100:
                break
    resources = state["resources"]
    assert (resources["pods"]["storage"], resources["pods"]["client"]) == ("constant 1ms", "constant 2ms")
    assert resources["nodes"]["client"] == faults.FAULTS["slow-watch"].law
    assert resources["pods"]["objects"] == 5
    assert 2 <= resources["leases.coordination.k8s.io"]["objects"] <= 3
    assert [fault["name"] for fault in state["faults"]] == ["slow-watch"]


@pytest.mark.parametrize(
    "config",
    [
        Config(cluster=Settings(version="1.12")),
        Config(latency=(Latency("gremlins", client="none"),)),
        Config(latency=(Latency("events", storage="constant 1s"),)),
        Config(latency=(Latency("pods", client="soon"),)),
        Config(faults=(Switch("gremlins"),)),
        Config(faults=(Switch("cut", "gremlins"),)),
        Config(workload=(Plan("gremlins", rate=1.0),)),
    ],
)
async def test_what_cannot_be_simulated_is_refused(config: Config) -> None:
    with pytest.raises(ConfigError):
        async with simulated(config, seed=7):
            pass


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("latency", {"resource": "pods", "client": "soon"}),
        ("latency", {"resources": "pods"}),
        ("faults", {"name": "gremlins"}),
        ("faults", {"name": "gremlins", "on": False}),
        ("workload", {"resource": "pods"}),
        ("settings", {"token": 5}),
    ],
)
async def test_what_cannot_be_turned_is_a_bad_request(simulate: Simulate, path: str, body: object) -> None:
    api = await simulate()
    answer = await api.write("POST", f"/sim/{path}", body)
    assert answer.code == 400
    assert answer.json["error"]


async def test_the_faults_there_are_say_what_they_are(simulate: Simulate) -> None:
    api = await simulate()
    listed = (await api.get("/sim/faults")).json
    assert {fault["name"]: fault["words"] for fault in listed} == {
        name: fault.words for name, fault in faults.FAULTS.items()
    }
    assert await api.control("faults", {"name": "cut", "resource": "pods"}) == {
        "name": "cut",
        "words": faults.FAULTS["cut"].words,
        "resource": "pods",
        "on": True,
    }


async def test_storage_is_delayed_only_where_there_is_a_cache(simulate: Simulate) -> None:
    api = await simulate()
    await api.control("latency", {"storage": "constant 5ms"})
    watch = await api.watch(f"{EVENTS}?watch=1&resourceVersion={await api.newest(EVENTS)}")
    assert await api.configmap("a", EVENTS) == await watch.revision()


async def test_a_workload_can_be_changed_and_stopped(simulate: Simulate) -> None:
    api = await simulate()
    watch = await api.watch("/api/v1/nodes?watch=1&resourceVersion=5")
    await api.control("workload", {"resource": "nodes", "rate": 500, "objects": 2})
    kinds = {(await watch.event())[0] for _ in range(200)}
    assert kinds == {"ADDED", "MODIFIED", "DELETED"}
    assert await api.control("workload", {"resource": "nodes", "rate": 300, "size": "full"})
    assert await api.control("workload", {"resource": "nodes", "rate": 0}) == {}
    assert (await api.state())["workload"] == {}


async def test_a_writer_does_not_mind_that_somebody_deletes_its_objects(simulate: Simulate) -> None:
    api = await simulate()
    await api.control("workload", {"resource": "configmaps", "rate": 1000, "objects": 20})
    await api.write("DELETE", CONFIGMAPS)
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    assert [await watch.revision() for _ in range(50)]


async def test_requests_are_counted(simulate: Simulate) -> None:
    api = await simulate()
    await api.get(CONFIGMAPS)
    await api.get("/nope")
    await api.get(f"{CONFIGMAPS}?watch=1&resourceVersion=abc")
    await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion=5")
    counted = {(entry["verb"], entry["code"]): entry["count"] for entry in (await api.state())["requests"]}
    assert counted == {("list", 200): 1, ("discover", 404): 1, ("watch", 500): 1, ("watch", 200): 1}


async def test_arrivals_are_timed_whatever_becomes_of_them(simulate: Simulate) -> None:
    api = await simulate()
    began = time.monotonic()
    await api.get(CONFIGMAPS)
    between = time.monotonic()
    await api.control("faults", {"name": "overloaded"})
    await api.get(CONFIGMAPS)
    await api.get("/version")
    told = (await api.get(f"/sim/arrivals?since={began}")).json
    assert [at > between for at in told["at"]] == [False, True, True]
    assert told["at"][-1] <= told["now"] <= time.monotonic()
    assert len((await api.get(f"/sim/arrivals?since={between}")).json["at"]) == 2


@pytest.mark.parametrize(
    ("name", "code"),
    [("unavailable", 503), ("unauthorized", 401), ("forbidden", 403), ("overloaded", 429), ("busy", 504)],
)
async def test_refusals(simulate: Simulate, name: str, code: int) -> None:
    api = await simulate()
    await api.control("faults", {"name": name, "resource": "configmaps"})
    for query in ("", "?watch=1"):
        answer = await api.get(f"{CONFIGMAPS}{query}")
        assert (answer.code, answer.json["kind"]) == (code, "Status")
    assert (await api.get(EVENTS)).code == 200
    await api.control("faults", {"name": name, "resource": "configmaps", "on": False})
    assert (await api.get(CONFIGMAPS)).code == 200


async def test_who_is_forbidden_is_told_what(simulate: Simulate) -> None:
    api = await simulate()
    await api.control("faults", {"name": "forbidden"})
    assert (await api.get(f"{CONFIGMAPS}?watch=1")).json["message"] == (
        'configmaps is forbidden: User "watchslo" cannot watch resource "configmaps" in API group "" '
        'in the namespace "default"'
    )
    assert (await api.get("/apis/apps/v1/deployments")).json["details"] == {"group": "apps", "kind": "deployments"}
    assert (await api.get("/apis")).code == 200


@pytest.mark.parametrize(("name", "code"), [("throttled", 429), ("errors", 500), ("gone", 410)])
async def test_half_of_the_watches_fail(simulate: Simulate, name: str, code: int) -> None:
    api = await simulate()
    await api.control("faults", {"name": name})
    query = (
        f"watch=1&timeoutSeconds=1&resourceVersion={5}&sendInitialEvents=x"  # refused with 422 where it is let through
    )
    codes = {(await api.get(f"{CONFIGMAPS}?{query}")).code for _ in range(40)}
    assert codes == {code, 422}


async def test_something_in_between_answers_with_html(simulate: Simulate) -> None:
    api = await simulate()
    await api.control("faults", {"name": "html"})
    answer = await api.get(CONFIGMAPS)
    assert (answer.code, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert answer.text.startswith("<html>")


async def test_watches_may_end_without_an_event(simulate: Simulate) -> None:
    api = await simulate()
    await api.control("faults", {"name": "empty-watch"})
    assert await (await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion=5")).rest() == []


async def test_nobody_can_be_reached(simulate: Simulate) -> None:
    api = await simulate()
    await api.control("faults", {"name": "unreachable"})
    for path in (CONFIGMAPS, "/readyz"):
        with pytest.raises(aiohttp.ClientConnectionError):
            await api.get(path)


async def test_a_stale_group_is_named_only(simulate: Simulate) -> None:
    api = await simulate()
    await api.control("faults", {"name": "stale-group", "resource": "leases.coordination.k8s.io"})
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    groups = {
        group["metadata"]["name"]: group["versions"][0]["freshness"]
        for group in (await api.get("/apis", accept)).json["items"]
    }
    assert (groups["coordination.k8s.io"], groups["apps"]) == ("Stale", "Current")


async def test_all_watches_end_in_a_410(simulate: Simulate) -> None:
    api = await simulate()
    newest = await api.newest()
    watches = [await api.watch(f"{path}?watch=1&resourceVersion={newest}") for path in (CONFIGMAPS, EVENTS)]
    await api.control("faults", {"name": "expired"})
    for watch in watches:
        kind, status = await watch.event()
        assert (kind, status["code"]) == ("ERROR", 410)
        assert await watch.line() == b""


async def test_garbage_comes_again_and_again_until_it_is_switched_off(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = faults.FAULTS["garbage"]
    monkeypatch.setitem(faults.FAULTS, "garbage", replace(fault, every=0.01))
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


async def test_connections_are_cut(simulate: Simulate) -> None:
    api = await simulate()
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    await api.control("faults", {"name": "cut"})
    with pytest.raises(aiohttp.ClientError):
        await watch.line()


async def test_a_stalled_stream_is_silent_but_a_new_one_is_not(simulate: Simulate) -> None:
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


async def test_a_frozen_cache_stays_frozen_over_a_restart(simulate: Simulate) -> None:
    api = await simulate(initialization=0.01)
    await api.control("faults", {"name": "frozen-cache", "resource": "configmaps"})
    await api.control("restart")
    while (await api.get(f"{CONFIGMAPS}?resourceVersion=0")).code == 429:
        pass
    await api.configmap("a")
    assert (await api.get(f"{CONFIGMAPS}?resourceVersion=0")).json["items"] == []


async def test_a_watch_without_a_timeout_ends_some_time(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_TIMEOUT_RANGE", (0.01, 0.02))
    api = await simulate()
    assert await (await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")).rest() == []
