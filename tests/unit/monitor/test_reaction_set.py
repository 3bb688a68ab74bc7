"""Next to which watches whole objects are watched for reactions, and what stays known when one of them ends."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.unit.monitor.cluster import PODS, Cluster, because_of, nowhere
from tests.unit.monitor.inside import config
from watchslo.config.model import Config
from watchslo.config.sections.watch import WatchConfig
from watchslo.kube.limiter import Limiter
from watchslo.model import Bounds, FloatArray, IntArray, Resource
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.protocol.watch_identity import WatchIdentity
from watchslo.monitor.reactions.reaction_set import MOST_RESOURCES, ReactionSet
from watchslo.monitor.tasks.lag import Lag
from watchslo.monitor.tasks.task_supervisor import TaskSupervisor
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.reaction.resource_reactions import CacheProof
from watchslo.snapshot import ReactionReading
from watchslo.watch.failure import Phase, Reason

DEPLOYMENTS = Resource("apps", "v1", "deployments", namespaced=True)
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", namespaced=True)
SOON_SECONDS = 0.1
END_OF_LIST = (
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"100","annotations":'
    b'{"k8s.io/initial-events-end":"true"}}}}\n'
)
CREATED: dict[str, Any] = {"spec": {}}
SCHEDULED = {"spec": {"nodeName": "n"}}
READY = {**SCHEDULED, "status": {"startTime": "t", "conditions": [{"type": "Ready", "status": "True"}]}}
ROUTED = {"endpoints": [{"targetRef": {"uid": "a"}}]}


def measured(revisions: IntArray, received: FloatArray) -> Bounds:
    """Return that each event arrived at once."""
    zeros = np.zeros(len(received))
    return Bounds(zeros, zeros, zeros, zeros, np.full(len(revisions), fill_value=True))


def monitored(
    number: int,
    resource: Resource = PODS,
    apiserver: str = "first",
    *,
    is_member: bool = True,
    replay: bool = False,
    **watch: Any,
) -> MonitoredWatch:
    """Return a watch whose clock has passed every revision, and can date its events if it `is_member`."""
    made = WatchConfig.model_validate({"resource": resource.key, **watch})
    served = Apiserver(apiserver, nowhere(), Limiter(1000))
    identity = WatchIdentity(number, "", made, resource, served, 1000, "default", replay=replay)
    domain = SimpleNamespace(clock=SimpleNamespace(newest=10**9, measure=measured))
    statistics = SimpleNamespace(threshold=1.0, measured=is_member, clock=SimpleNamespace(domain=domain))
    return MonitoredWatch(identity, cast("Any", None), cast("Any", None), cast("Any", statistics))


class Reacting:
    """A set of reactions whose tasks run, and the watches that it may run next to."""

    def __init__(self, cluster: Cluster, tasks: TaskSupervisor, made: Config) -> None:
        self._lag = Lag(time.monotonic())
        self.reactions = ReactionSet(tasks, self._lag, lambda: 0.5)
        self._cluster = cluster
        self.config = made
        self._watches: list[MonitoredWatch] = []

    async def settle(self, *watches: MonitoredWatch) -> None:
        """Let exactly these watches run, as the watch set does."""
        for watch in self._watches:
            if watch not in watches:
                await self.reactions.release(watch)
        self._watches = [*watches]
        before = self._cluster.open_watches()
        await self.reactions.settle(self.config, watches)
        await asyncio.sleep(SOON_SECONDS)
        for opened in self._cluster.open_watches():
            if opened not in before:
                opened.send(END_OF_LIST)
        await asyncio.sleep(SOON_SECONDS)

    @property
    def open(self) -> list[tuple[str, str]]:
        """The apiserver and the resource of each watch of whole objects."""
        return [(watch.apiserver, watch.resource.key) for watch in self._cluster.open_watches()]

    async def send(self, type_: str, parts: dict[str, Any], resource: Resource = PODS) -> None:
        """Send an event of the object `a`, and date it."""
        self._lag.beat(time.monotonic(), None, 0.0)
        self._cluster.revision += 1
        metadata = {"uid": "a", "resourceVersion": str(self._cluster.revision)}
        event = json.dumps({"type": type_, "object": {"metadata": metadata, **parts}}).encode() + b"\n"
        for watch in self._cluster.open_watches(resource):
            watch.send(event)
        await asyncio.sleep(SOON_SECONDS)
        self.reactions.update()

    def readings(self, *, is_current: bool = True) -> list[ReactionReading]:
        proof = CacheProof(time.monotonic(), self._cluster.revision) if is_current else None
        return [*self.reactions.readings(lambda _: proof)]

    def reading(self, step: str, *, is_current: bool = True) -> ReactionReading:
        return next(found for found in self.readings(is_current=is_current) if found.step == step)


@asynccontextmanager
async def reacting(cluster: Cluster, *resources: str) -> AsyncIterator[Reacting]:
    async with TaskSupervisor(asyncio.Event()) as tasks:
        yield Reacting(cluster, tasks, config(*resources, reactions=[*resources]))
    await asyncio.sleep(SOON_SECONDS)
    assert not cluster.open_watches()


async def test_whole_objects_are_watched_at_one_apiserver_without_selectors(cluster: Cluster) -> None:
    async with reacting(cluster, "pods") as set_:
        await set_.settle(
            monitored(1, labelSelector="a=b"),
            monitored(2, replay=True),
            monitored(3, DEPLOYMENTS),
            monitored(4, apiserver="second"),
            monitored(5, apiserver="third"),
        )
        assert set_.open == [("second", "pods")]


async def test_other_apiserver_takes_over_and_earlier_reactions_stay_known(cluster: Cluster) -> None:
    first, second = monitored(1), monitored(2, apiserver="second")
    async with reacting(cluster, "pods") as set_:
        await set_.settle(first, second)
        await set_.send("ADDED", CREATED)
        await set_.send("MODIFIED", SCHEDULED)
        await set_.settle(second)
        assert set_.open == [("second", "pods")]
        assert first.others == []
        assert set_.reading("scheduled").histogram.total == 1
        assert set_.reading("started").unmeasured == {"gap": 1}, "the pod may have started in between"


async def test_watch_stays_where_it_is_while_its_host_runs(cluster: Cluster) -> None:
    first, second = monitored(1), monitored(2, apiserver="second")
    async with reacting(cluster, "pods") as set_:
        await set_.settle(second)
        await set_.settle(first, second)
        assert set_.open == [("second", "pods")]


async def test_resource_without_a_watch_is_forgotten(cluster: Cluster) -> None:
    async with reacting(cluster, "pods") as set_:
        await set_.settle(monitored(1))
        await set_.send("ADDED", CREATED)
        await set_.send("MODIFIED", SCHEDULED)
        await set_.settle()
        assert not set_.readings()
        await set_.settle(monitored(2))
        assert set_.reading("scheduled").histogram.total == 0


async def test_end_of_another_watch_of_the_resource_changes_nothing(cluster: Cluster) -> None:
    host, other = monitored(1), monitored(2, apiserver="second")
    async with reacting(cluster, "pods") as set_:
        await set_.settle(host, other)
        await set_.settle(host)
        assert [watch.open for watch in cluster.watches] == [True], "it was never closed"


async def test_number_of_resources_is_limited(cluster: Cluster) -> None:
    resources = [Resource("example.io", "v1", f"things{number:02}", namespaced=True) for number in range(40)]
    async with reacting(cluster, *(resource.key for resource in resources)) as set_:
        await set_.settle(*(monitored(number, resource) for number, resource in enumerate(resources[1:])))
        assert len(set_.open) == MOST_RESOURCES
        await set_.settle(*(monitored(number, resource) for number, resource in enumerate(resources[::-1], start=100)))
        assert len(set_.open) == MOST_RESOURCES
        assert ("first", resources[0].key) in set_.open, "the first in the alphabet are watched"


@pytest.mark.parametrize("is_current", [True, False])
async def test_pending_is_known_only_while_the_host_is_current(cluster: Cluster, *, is_current: bool) -> None:
    async with reacting(cluster, "pods") as set_:
        await set_.settle(monitored(1))
        await set_.send("ADDED", CREATED)
        assert set_.reading("scheduled", is_current=is_current).pending == (1 if is_current else None)


async def test_pending_is_unknown_while_whole_objects_are_not_received(cluster: Cluster) -> None:
    async with reacting(cluster, "pods") as set_:
        await set_.settle(monitored(1))
        await set_.send("ADDED", CREATED)
        cluster.fail(Reason.UNREACHABLE)
        cluster.open_watches()[0].send(because_of(Reason.RESET, Phase.STREAM))
        await asyncio.sleep(SOON_SECONDS)
        assert set_.reading("scheduled").pending is None


async def test_reaction_is_no_sample_before_the_clock_can_date_it(cluster: Cluster) -> None:
    async with reacting(cluster, "pods") as set_:
        await set_.settle(monitored(1, is_member=False))
        await set_.send("ADDED", CREATED)
        await set_.send("MODIFIED", SCHEDULED)
        assert set_.reading("scheduled").histogram.total == 0


async def test_resource_that_is_no_longer_wanted_is_not_watched(cluster: Cluster) -> None:
    host = monitored(1)
    async with reacting(cluster, "pods") as set_:
        await set_.settle(host)
        set_.config = config("pods", reactions="none")
        await set_.settle(host)
        assert set_.open == []


async def test_ready_pod_is_passed_to_the_slices(cluster: Cluster) -> None:
    async with reacting(cluster, "pods", SLICES.key) as set_:
        await set_.settle(monitored(1), monitored(2, SLICES))
        await set_.send("ADDED", CREATED)
        await set_.send("MODIFIED", READY)
        await set_.send("ADDED", ROUTED, SLICES)
        assert set_.reading("routed").histogram.total == 1


async def test_ready_pod_is_ignored_without_slices(cluster: Cluster) -> None:
    async with reacting(cluster, "pods") as set_:
        await set_.settle(monitored(1))
        await set_.send("ADDED", CREATED)
        await set_.send("MODIFIED", READY)
        assert set_.open == [("first", "pods")], "nothing has crashed"
        assert set_.reading("scheduled").histogram.total == 1
