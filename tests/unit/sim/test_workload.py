import asyncio
import json
from itertools import islice
from random import Random

import pytest

from watchslo.errors import ConfigError
from watchslo.sim.cluster import Cluster, ClusterSettings
from watchslo.sim.kinds import BUILT_IN
from watchslo.sim.workload import ObjectBatch, Workload, WorkloadPlan, sample, schedule


@pytest.mark.parametrize(("pattern", "writes"), [("poisson", 1), ("bursty", 25)])
def test_schedule_matches_the_configured_rate(pattern: str, writes: int) -> None:
    plan = WorkloadPlan("pods", rate=50.0, pattern=pattern, burst=25)  # type: ignore[arg-type]
    times = list(islice(schedule(plan, Random(7)), 4000))
    assert {count for _, count in times} == {writes}
    assert 4000 * writes / sum(gap for gap, _ in times) == pytest.approx(50.0, rel=0.05)


def test_full_pod_sample_has_a_realistic_size() -> None:
    pod = sample(BUILT_IN["pods"], "full", "web")
    assert 3300 < len(json.dumps(pod, separators=(",", ":"))) < 3900
    assert len(json.dumps(sample(BUILT_IN["pods"], "small", "web"))) < 400


def cluster() -> Cluster:
    return Cluster(ClusterSettings(), Random(7))


async def test_bursty_writer_keeps_the_number_of_objects_of_its_plan() -> None:
    """A write deletes an object, and the next one creates its replacement."""
    plan = WorkloadPlan("leases.coordination.k8s.io", rate=1000.0, pattern="bursty", objects=3)
    simulated = cluster()
    workload = Workload(simulated, Random(7))
    workload.set(plan)
    await asyncio.sleep(0.1)
    numbers = set()
    for _ in range(200):
        await asyncio.sleep(0.01)
        numbers.add(len(simulated.etcd.table(plan.resource)))
    written = workload._writers[plan.resource].written
    await workload.stop()
    simulated.stop()
    assert numbers == {2, 3}
    assert written == pytest.approx(2100, rel=0.3)


async def test_controller_observes_each_new_object() -> None:
    plan = WorkloadPlan("deployments.apps", rate=1e-9, objects=3, observed=0.001)
    simulated = cluster()
    workload = Workload(simulated, Random(7))
    workload.set(plan)

    def observed() -> list[int | None]:
        objects = simulated.etcd.table(plan.resource).items()
        return [deployment["status"].get("observedGeneration") for _, deployment in objects]

    while observed() != [1, 1, 1]:  # noqa: ASYNC110 - the simulator has no condition to wait for
        await asyncio.sleep(0.001)
    await workload.stop()
    simulated.stop()


@pytest.mark.parametrize(("resource", "namespace"), [("gremlins", "default"), ("pods", "nowhere")])
async def test_workload_refuses_unknown_resources_and_namespaces(resource: str, namespace: str) -> None:
    simulated = cluster()
    workload = Workload(simulated, Random(7))
    with pytest.raises(ConfigError):
        workload.set(WorkloadPlan(resource, rate=1.0, namespace=namespace))
    with pytest.raises(ConfigError):
        await workload.create(ObjectBatch(resource, 1, namespace=namespace))
    simulated.stop()
