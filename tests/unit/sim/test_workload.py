import json
from itertools import islice
from random import Random

import pytest

from watchslo.errors import ConfigError
from watchslo.sim.cluster import Cluster, Settings
from watchslo.sim.kinds import BUILT_IN
from watchslo.sim.workload import Objects, Plan, Workload, sample, schedule, touch


@pytest.mark.parametrize(("pattern", "writes"), [("poisson", 1), ("bursty", 25)])
def test_writers_write_at_the_rate_they_were_told(pattern: str, writes: int) -> None:
    plan = Plan("pods", rate=50.0, pattern=pattern, burst=25)  # type: ignore[arg-type]
    times = list(islice(schedule(plan, Random(7)), 4000))
    assert {count for _, count in times} == {writes}
    assert 4000 * writes / sum(gap for gap, _ in times) == pytest.approx(50.0, rel=0.05)


def test_a_full_pod_is_as_large_as_in_real_life() -> None:
    pod = sample(BUILT_IN["pods"], "full", "web")
    assert 3300 < len(json.dumps(pod, separators=(",", ":"))) < 3900
    assert len(json.dumps(sample(BUILT_IN["pods"], "small", "web"))) < 400


def test_every_kind_has_a_sample() -> None:
    for kind in BUILT_IN.values():
        assert sample(kind, "full", "a")["metadata"]["name"] == "a"


def test_a_touched_object_is_another_one() -> None:
    old = sample(BUILT_IN["pods"], "small", "a")
    assert touch(1)(old) != touch(2)(old)
    assert old == sample(BUILT_IN["pods"], "small", "a")


def cluster() -> Cluster:
    return Cluster(Settings(), Random(7))


async def test_objects_are_created_at_once() -> None:
    simulated = cluster()
    workload = Workload(simulated, Random(7))
    await workload.create(Objects("nodes", 150))
    await workload.create(Objects("pods", 3, namespace="kube-system"))
    assert (simulated.state()["nodes"]["objects"], simulated.state()["pods"]["objects"]) == (150, 3)
    simulated.stop()


@pytest.mark.parametrize(
    ("resource", "namespace"), [("gremlins", "default"), ("pods", "nowhere"), ("componentstatuses", "")]
)
async def test_what_cannot_be_written_is_refused(resource: str, namespace: str) -> None:
    simulated = cluster()
    workload = Workload(simulated, Random(7))
    with pytest.raises(ConfigError):
        workload.set(Plan(resource, rate=1.0, namespace=namespace))
    with pytest.raises(ConfigError):
        await workload.create(Objects(resource, 1, namespace=namespace))
    simulated.stop()
