"""The control API under /sim/, by which tests and the demo change the running cluster."""

import time
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from watchslo.sim import process
from watchslo.sim.cluster import Cluster, ClusterSettings
from watchslo.sim.delay_law import parse_law
from watchslo.sim.faults import ALL_RESOURCES, SimHop
from watchslo.sim.server import SimServer
from watchslo.sim.workload import ObjectBatch, Workload, WorkloadPlan


class LatencySetting(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Delay laws for one resource, or for all; a hop without a law does not change."""

    resource: str = ALL_RESOURCES
    storage: str | None = None
    client: str | None = None


class FaultSwitch(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A fault to switch on or off; `law` replaces the fault's own delay law."""

    name: str
    resource: str = ALL_RESOURCES
    on: bool = True
    law: str = ""


class Compaction(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Compact etcd up to its newest revision."""


class SimConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The configuration of a simulation: cluster settings, and requests to the control API at the start."""

    cluster: ClusterSettings = ClusterSettings()
    latency: tuple[LatencySetting, ...] = ()
    faults: tuple[FaultSwitch, ...] = ()
    objects: tuple[ObjectBatch, ...] = ()
    workload: tuple[WorkloadPlan, ...] = ()


@dataclass(frozen=True, slots=True)
class ControlApi:
    """Handles control requests. A response repeats the request."""

    cluster: Cluster
    server: SimServer
    workload: Workload

    async def start(self, config: SimConfig) -> None:
        """Apply a configuration.

        Raises:
            ConfigError: for an invalid value.
        """
        for latency in config.latency:
            await self.latency(latency)
        for switch in config.faults:
            await self.fault(switch)
        for objects in config.objects:
            await self.objects(objects)
        for plan in config.workload:
            await self.write(plan)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/sim/truth", self._get_truth),
            web.get("/sim/edits", self._get_edits),
            web.get("/sim/arrivals", self._get_arrivals),
            web.post("/sim/latency", process.posted(LatencySetting, self.latency)),
            web.post("/sim/faults", process.posted(FaultSwitch, self.fault)),
            web.post("/sim/workload", process.posted(WorkloadPlan, self.write)),
            web.post("/sim/objects", process.posted(ObjectBatch, self.objects)),
            web.post("/sim/compact", process.posted(Compaction, self.compact)),
        ]

    async def latency(self, body: LatencySetting) -> Any:
        for hop, text in ((SimHop.STORAGE, body.storage), (SimHop.CLIENT, body.client)):
            if text is not None:
                self.cluster.set_law(hop, body.resource, parse_law(text))
        return body

    async def fault(self, body: FaultSwitch) -> Any:
        if body.on:
            self.cluster.switch_on(body.name, body.resource, body.law)
        else:
            self.cluster.switch_off(body.name, body.resource)
        return body

    async def write(self, body: WorkloadPlan) -> Any:
        self.workload.set(body)
        return body

    async def objects(self, body: ObjectBatch) -> Any:
        await self.workload.create(body)
        return body

    async def compact(self, body: Compaction) -> Any:
        self.cluster.etcd.compact(self.cluster.etcd.revision)
        return body

    async def _get_truth(self, request: web.Request) -> web.Response:
        """Return the commits and sends of a resource after a time (monotonic seconds), as columns."""
        resource, since = request.query.get("resource", ""), float(request.query.get("since", 0.0))
        commits, sends = (log[resource].since(since) for log in (self.cluster.commits, self.cluster.sends))
        return process.answer({"now": time.monotonic(), "commits": commits, "sends": sends})

    async def _get_edits(self, request: web.Request) -> web.Response:
        """Return what faults have changed in watches after a time (monotonic seconds), as columns."""
        since = float(request.query.get("since", 0.0))
        return process.answer({"now": time.monotonic(), "edits": self.cluster.edits.since(since)})

    async def _get_arrivals(self, _request: web.Request) -> web.Response:
        """Return the arrival times of all requests (monotonic seconds), whether or not they succeeded."""
        return process.answer({"now": time.monotonic(), "at": tuple(self.server.arrivals)})
