"""A day of one instance of a shipped profile, in simulated time: what it asks of the apiservers, by kind of request.

Some stretches of the day are played, and the day is computed from them: most of its hours are alike.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from random import Random
from string import Template
from typing import Any

import yaml

from tests.support.daemonset import PROFILES
from tests.unit.monitor.cluster import PODS, Cluster, Watch, line
from tests.unit.monitor.inside import BUILD, verified
from tests.unit.monitor.test_witnesses import HOSTS
from watchslo.config.model import Config
from watchslo.kube.call import TICK_SECONDS
from watchslo.model import SERVICE, Resource
from watchslo.monitor.supervisor import Supervisor
from watchslo.watch.failure import Reason

SEED = 35
PLACE = {"HOST_IP": HOSTS[0], "NODE_NAME": "node-1", "POD_NAME": "watchslo-0"}
GROUPS = {
    "ticks": {"tick"},
    "audits": {"nudge", "audit"},
    "watches": {"watch", "list", "probe", "confirm_selector"},
}
"""The kinds of requests in each column of the table; all others are in the column `others`."""

COLUMNS = (*GROUPS, "others", "lists with objects", "watches from the past", "TLS handshakes", "kB")
CLUSTER_SCOPED = ("nodes", "namespaces", "persistentvolumes")
OTHER_REVISIONS = 50  # a second, of objects that are not watched
EVENTS_GAP_SECONDS = {"node": 120.0}  # between two events of pods; all other watches are quiet, so they are audited
USUAL_GAP_SECONDS = 0.5  # so busy that the headroom is probed
BOOKMARK_SECONDS = 60.0
WATCH_SECONDS = 300.0, 600.0  # how long a watch lasts
PAST_SECONDS = 60.0  # a watch without a watch cache from an older revision burdens etcd
SETTLED_SECONDS = 300.0  # after which the start, or a disturbance, has passed
QUIET_SECONDS = {"node": 3600.0}  # that are played of quiet hours; few requests need a longer time
USUAL_QUIET_SECONDS = 1200.0
HOUR_SECONDS = 3600.0
DAY_SECONDS = 86_400.0
RESTART_SECONDS = 5.0
OUTAGE_SECONDS = 180.0
STRETCHES = {
    "a start": SETTLED_SECONDS,
    "a quiet hour": HOUR_SECONDS,
    "a restart of an apiserver": OUTAGE_SECONDS + SETTLED_SECONDS,
    "an outage of three minutes": OUTAGE_SECONDS + SETTLED_SECONDS,
    "a silence of three minutes": OUTAGE_SECONDS + SETTLED_SECONDS,
}
"""The stretches that are played, and how long each is."""

DAY = {"a start": 1, "a restart of an apiserver": 4, "an outage of three minutes": 1, "a silence of three minutes": 1}
"""How often each stretch is in the day; the rest of it are quiet hours."""

# Bytes from the apiserver, with its headers and the records of TLS, as kube-apiserver 1.36 sends them.
EVENT_BYTES = 330
HANDSHAKE_BYTES = 2_500
REQUEST_BYTES = {"discovery": 20_000, "metrics_page": 1_000_000}
USUAL_REQUEST_BYTES = 700

Cost = Mapping[str, float]
"""Values by the columns of the table."""


def shipped(profile: str) -> Config:
    """Return the configuration of a profile, for an instance next to the first apiserver."""
    text = (PROFILES / profile / "watchslo.yaml").read_text()
    return Config.model_validate(yaml.safe_load(Template(text).substitute(PLACE)))


class ProfileDay:
    """An instance that runs, and the cluster that it asks."""

    def __init__(self, profile: str, cluster: Cluster) -> None:
        self.config = shipped(profile)
        self._profile = profile
        self._cluster = cluster
        self._random = Random(SEED)
        self._events = 0
        self._known: set[int] = set()
        cluster.announce(*HOSTS)
        cluster.date_skew, cluster.leases, cluster.catches_up = 0.0, len(HOSTS), True
        cluster.patience = TICK_SECONDS
        cluster.oldest = cluster.compacted
        cluster.served = sorted(map(_resource, _watched()), key=lambda resource: resource.group)

    async def play(self, quiet_seconds: float, *disturbances: str) -> dict[str, Cost]:
        """Return the cost of a start, of a quiet hour, of which only some seconds are played, and of disturbances."""
        supervisor = Supervisor(self.config, verified(), BUILD, self._random.random)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            measuring = tasks.create_task(supervisor.run(stop))
            life = [
                tasks.create_task(self._write()),
                tasks.create_task(self._change()),
                tasks.create_task(self._serve()),
            ]
            found = {"a start": await self._cost(SETTLED_SECONDS)}
            quiet = await self._cost(quiet_seconds)
            found["a quiet hour"] = {name: value * HOUR_SECONDS / quiet_seconds for name, value in quiet.items()}
            for name in disturbances:
                disturbance = tasks.create_task(self._disturbances[name]())
                found[name] = await self._cost(STRETCHES[name])
                await disturbance
            stop.set()
            await measuring
            for task in life:
                task.cancel()
        return found

    async def play_day(self) -> dict[str, Cost]:
        """Return the cost of each stretch, and of the day."""
        seconds = QUIET_SECONDS.get(self._profile, USUAL_QUIET_SECONDS)
        found = await self.play(seconds, *self._disturbances)
        return found | {"a day": _day(found)}

    # What happens in the cluster

    async def _write(self) -> None:
        """Change what is not watched, many times a second."""
        while True:
            self._cluster.revision += OTHER_REVISIONS
            await asyncio.sleep(1.0)

    async def _change(self) -> None:
        while True:
            await asyncio.sleep(EVENTS_GAP_SECONDS.get(self._profile, USUAL_GAP_SECONDS))
            self._cluster.write(PODS)
            self._events += len(self._cluster.open_watches(PODS))

    async def _serve(self) -> None:
        """Bring each watch its bookmarks, and end it after some minutes."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                for watch in self._cluster.open_watches():
                    if id(watch) not in self._known:
                        self._known.add(id(watch))
                        tasks.create_task(self._serve_one(watch))
                await asyncio.sleep(1.0)

    async def _serve_one(self, watch: Watch) -> None:
        lasts = self._random.uniform(*WATCH_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(lasts):
                while watch.open:
                    await asyncio.sleep(BOOKMARK_SECONDS)
                    if not self._is_silent(watch):
                        watch.send(line("BOOKMARK", self._cluster.revision))
        if not self._is_silent(watch):
            watch.send()

    def _is_silent(self, watch: Watch) -> bool:
        return watch.apiserver.partition(":")[0] in self._cluster.mute

    @property
    def _own(self) -> str:
        """The host of an apiserver that is watched."""
        return SERVICE if self.config.kubernetes.apiservers == "service" else HOSTS[0]

    @property
    def _disturbances(self) -> Mapping[str, Callable[[], Coroutine[Any, Any, None]]]:
        return {
            "a restart of an apiserver": self._restart,
            "an outage of three minutes": self._outage,
            "a silence of three minutes": self._silence,
        }

    async def _restart(self) -> None:
        """Cut all watches at one apiserver, which then has an empty cache and is not ready for some seconds."""
        self._cluster.kill(self._own)
        await asyncio.sleep(RESTART_SECONDS)
        self._cluster.dead.discard(self._own)
        before, self._cluster.oldest = self._cluster.oldest, self._cluster.revision + 1
        refused = ("list", "watch")
        for kind in refused:
            self._cluster.fail(Reason.THROTTLED, kind, retry_after=1.0)
        await asyncio.sleep(RESTART_SECONDS)
        for kind in refused:
            self._cluster.fail(None, kind)
        await asyncio.sleep(SETTLED_SECONDS / 2)
        self._cluster.oldest = before

    async def _outage(self) -> None:
        for host in (SERVICE, *HOSTS):
            self._cluster.kill(host)
        await asyncio.sleep(OUTAGE_SECONDS)
        self._cluster.dead.clear()

    async def _silence(self) -> None:
        self._cluster.mute.update((SERVICE, *HOSTS))
        await asyncio.sleep(OUTAGE_SECONDS)
        self._cluster.mute.clear()

    # What the instance asks

    async def _cost(self, seconds: float) -> Cost:
        before = self._counted()
        await asyncio.sleep(seconds)
        return {name: value - before[name] for name, value in self._counted().items()}

    def _counted(self) -> dict[str, float]:
        cluster = self._cluster
        kinds = Counter(kind for _, kind, _ in cluster.asked)
        counted: dict[str, float] = {name: sum(kinds[kind] for kind in group) for name, group in GROUPS.items()}
        counted["others"] = kinds.total() - sum(counted.values())
        counted["lists with objects"] = cluster.counted.lists_with_objects
        far = PAST_SECONDS * OTHER_REVISIONS
        counted["watches from the past"] = sum(
            key in cluster.uncached and behind > far for _, key, behind in cluster.counted.started
        )
        counted["TLS handshakes"] = cluster.counted.handshakes
        sizes = sum(REQUEST_BYTES.get(kind, USUAL_REQUEST_BYTES) * count for kind, count in kinds.items())
        counted["kB"] = (sizes + HANDSHAKE_BYTES * cluster.counted.handshakes + EVENT_BYTES * self._events) / 1000
        return counted


def _day(stretches: Mapping[str, Cost]) -> Cost:
    quiet = DAY_SECONDS - sum(count * STRETCHES[name] for name, count in DAY.items())
    parts = {**DAY, "a quiet hour": quiet / HOUR_SECONDS}
    return {column: sum(stretches[name][column] * count for name, count in parts.items()) for column in COLUMNS}


def _watched() -> set[str]:
    """Return the resources that any profile watches, and those that are ticked on."""
    return {watch.resource for watch in Config().watch} | {"events"}


def _resource(key: str) -> Resource:
    plural, _, group = key.partition(".")
    return Resource(group, "v1", plural, namespaced=plural not in CLUSTER_SCOPED)
