"""The page of metrics of the simulated apiserver."""

from tests.unit.sim.api import Simulate


def reached(page: str, gauge: str) -> int:
    """Return the value of a gauge for configmaps."""
    (line,) = (line for line in page.splitlines() if line.startswith(gauge) and 'resource="configmaps"' in line)
    return int(line.split()[-1])


async def test_informers_and_watch_caches_reach_every_write(simulate: Simulate) -> None:
    api = await simulate()
    written = await api.configmap("a")
    page = (await api.get("/metrics")).text
    assert reached(page, "informer_store_resource_version") == written
    assert reached(page, "apiserver_watch_cache_resource_version") == written
    assert reached(page, "informer_queued_items") == 0


async def test_informers_of_a_resource_stay_as_they_are_while_the_fault_is_on(simulate: Simulate) -> None:
    api = await simulate()
    fault = {"name": "stale-informer", "resource": "configmaps"}
    before = await api.configmap("a")
    await api.control("faults", fault)
    after = await api.configmap("b")
    page = (await api.get("/metrics")).text
    assert reached(page, "informer_store_resource_version") == before
    assert reached(page, "apiserver_watch_cache_resource_version") == after
    await api.control("faults", {**fault, "on": False})
    assert reached((await api.get("/metrics")).text, "informer_store_resource_version") == after
