"""The control API under /sim/: what tests and the demo turn while the cluster runs."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from watchslo.errors import ConfigError
from watchslo.sim import status
from watchslo.sim.cluster import Cluster, Settings
from watchslo.sim.delay import parse_law
from watchslo.sim.faults import EVERYTHING, FAULTS, Fault, Hop
from watchslo.sim.server import Server
from watchslo.sim.workload import Objects, Plan, Workload


class Latency(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Laws of delay for one resource, or for all; a hop without one stays as it is."""

    resource: str = EVERYTHING
    storage: str | None = None
    client: str | None = None


class Switch(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A fault to switch on or off; `law` takes the place of the fault's own."""

    name: str
    resource: str = EVERYTHING
    on: bool = True
    law: str = ""


class Compaction(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How far to compact; without a revision, up to the newest."""

    revision: int | None = None


class Nothing(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A request that needs no words."""


class Changes(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """Settings that may change while the cluster runs."""

    token: str | None = None
    clock_offset: float | None = None
    backlog: int | None = None


class Config(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a simulation starts with: settings, and then what the control API could also be told."""

    cluster: Settings = Settings()
    latency: tuple[Latency, ...] = ()
    faults: tuple[Switch, ...] = ()
    objects: tuple[Objects, ...] = ()
    workload: tuple[Plan, ...] = ()


@dataclass(frozen=True, slots=True)
class Control:
    """Turns what can be turned. Every request is answered with what is now in force."""

    cluster: Cluster
    server: Server
    workload: Workload

    async def start(self, config: Config) -> None:
        """Set all that a configuration says.

        Raises:
            ConfigError: for what cannot be set.
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
            web.get("/sim/state", self._get_state),
            web.get("/sim/faults", self._get_faults),
            web.get("/sim/truth", self._get_truth),
            web.get("/sim/arrivals", self._get_arrivals),
            web.post("/sim/latency", _posted(Latency, self.latency)),
            web.post("/sim/faults", _posted(Switch, self.fault)),
            web.post("/sim/workload", _posted(Plan, self.write)),
            web.post("/sim/objects", _posted(Objects, self.objects)),
            web.post("/sim/compact", _posted(Compaction, self.compact)),
            web.post("/sim/settings", _posted(Changes, self.settings)),
            web.post("/sim/restart", _posted(Nothing, self.restart)),
        ]

    async def latency(self, body: Latency) -> Any:
        for hop, text in ((Hop.STORAGE, body.storage), (Hop.CLIENT, body.client)):
            if text is not None:
                self.cluster.set_law(hop, body.resource, parse_law(text))
        return body

    async def fault(self, body: Switch) -> Any:
        if body.on:
            self.cluster.switch_on(body.name, body.resource, body.law)
        else:
            self.cluster.switch_off(body.name, body.resource)
        return {**_described(FAULTS[body.name]), "resource": body.resource, "on": body.on}

    async def write(self, body: Plan) -> Any:
        self.workload.set(body)
        return self.workload.state()

    async def objects(self, body: Objects) -> Any:
        started = time.monotonic()
        await self.workload.create(body)
        return {"created": body.count, "seconds": time.monotonic() - started}

    async def compact(self, body: Compaction) -> Any:
        self.cluster.compact(body.revision)
        return {"compacted": [etcd.compacted for etcd in self.cluster.etcds]}

    async def settings(self, body: Changes) -> Any:
        changed = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not None}
        self.cluster.settings = msgspec.structs.replace(self.cluster.settings, **changed)
        return self.cluster.settings

    async def restart(self, _body: Nothing) -> Any:
        self.cluster.restart()
        return {"revisions": [etcd.revision for etcd in self.cluster.etcds]}

    async def _get_faults(self, _request: web.Request) -> web.Response:
        return _json([_described(fault) for fault in FAULTS.values()])

    async def _get_truth(self, request: web.Request) -> web.Response:
        """Commits and sends of a resource after a time (monotonic seconds), as columns."""
        resource, since = request.query.get("resource", ""), float(request.query.get("since", 0.0))
        truth = self.cluster.truth
        commits, sends = truth.commits(resource).since(since), truth.sends(resource).since(since)
        return _json({"now": time.monotonic(), "commits": commits, "sends": sends})

    async def _get_arrivals(self, request: web.Request) -> web.Response:
        """When requests came after a time (monotonic seconds), whatever they were and whatever became of them."""
        since = float(request.query.get("since", 0.0))
        return _json({"now": time.monotonic(), "at": [at for at in self.server.arrivals if at > since]})

    async def _get_state(self, _request: web.Request) -> web.Response:
        cluster = self.cluster
        state = {
            "now": time.monotonic(),
            "settings": cluster.settings,
            "etcds": [{"revision": etcd.revision, "compacted": etcd.compacted} for etcd in cluster.etcds],
            "resources": cluster.state(),
            "faults": [{**_described(active.fault), "resource": active.resource} for active in cluster.faults],
            "workload": self.workload.state(),
            "requests": [
                {"verb": verb, "code": code, "count": count}
                for (verb, code), count in sorted(self.server.requests.items())
            ],
        }
        return _json(state)


def _described(fault: Fault) -> dict[str, Any]:
    return {"name": fault.name, "words": fault.words}


def _posted(kind: type[Any], act: Callable[[Any], Awaitable[Any]]) -> Callable[[web.Request], Awaitable[web.Response]]:
    """A handler that reads a body of this kind and acts on it."""

    async def handle(request: web.Request) -> web.Response:
        try:
            return _json(await act(msgspec.json.decode(await request.read() or b"{}", type=kind)))
        except (ConfigError, msgspec.MsgspecError, status.StatusError) as problem:
            return _json({"error": str(problem)}, code=400)

    return handle


def _json(document: Any, code: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(document), status=code, content_type="application/json")
