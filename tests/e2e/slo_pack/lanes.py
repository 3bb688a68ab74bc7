"""The table of faults, and the alerts that each of them must raise.

A lane is a daemon and its faults, which are made one after the other. All lanes run at the same time: for Prometheus,
each is a cluster, by the label `cluster`.
"""

import contextlib
import json
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.slo_pack.place import FROZEN_RESOURCE, LATE_RESOURCE, Place
from tests.support.background import repeated
from tests.support.control_plane import EVERYTHING_READABLE, HOST, Port
from tests.support.high_availability import announce, withdraw

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
STARVED_SECONDS, FED_SECONDS = 0.4, 0.4
LATE, SLOW = "constant 2s", "constant 700ms"
SLOW_BYTES_A_SECOND = 40_000  # 20 changes a second fit, and a list of 1,000 objects takes several seconds
CROWD = "crowd"  # a cluster of instances that the demo and the clusters below have, too
IN_CROWD = {"starved", "expired", "stale"}


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert by its name, and the labels that distinguish it from others of that name.

    `slow` alerts have windows of days; their windows are shrunk more, in a second Prometheus. `cluster` is the cluster
    of the alert if that is not the one of its lane.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    slow: bool = False
    cluster: str | None = None

    @property
    def id(self) -> str:
        return "-".join((self.name, *self.labels.values()))

    def firing_labels(self, cluster: str) -> dict[str, str]:
        """Return the labels of the alert when it fires for a lane of this cluster."""
        return {"alertname": self.name, **self.labels, "cluster": self.cluster or cluster}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that lasts while the context of `strike` is open."""

    words: str
    strike: Callable[[Place], AbstractContextManager[None]]
    alerts: tuple[Alert, ...]


@dataclass(frozen=True, slots=True)
class Lane:
    """A daemon with these watches, of the real apiserver or of the simulator; `linked` ones go through a proxy.

    `twice` means that it watches the apiserver past the proxy too, as if that were another one. `keys` are further keys
    of its configuration.
    """

    cluster: str
    watches: tuple[Mapping[str, Any], ...]
    faults: tuple[Fault, ...]
    real: bool = False
    linked: bool = False
    twice: bool = False
    keys: Mapping[str, Any] = field(default_factory=dict)

    @property
    def alerts(self) -> tuple[Alert, ...]:
        return tuple(alert for fault in self.faults for alert in fault.alerts)


def watching(*resources: str, **keys: Any) -> tuple[dict[str, Any], ...]:
    return tuple({"resource": resource, **keys} for resource in resources)


def burn(long: str, short: str, *, slow: bool = False) -> Alert:
    return Alert("WatchLatencyBudgetBurn", {"long": long, "short": short}, slow)


# Faults of the real apiserver


def late_storage(place: Place) -> AbstractContextManager[None]:
    return place.ground.storage[LATE_RESOURCE].late(LATE)


def frozen_cache(place: Place) -> AbstractContextManager[None]:
    return place.ground.storage[FROZEN_RESOURCE].fault("frozen-link")


@contextlib.contextmanager
def unreachable(place: Place) -> Iterator[None]:
    with place.link.fault("reset", connections="new"):
        place.link.switch_on("reset", connections="open")
        yield


def slow_link(place: Place) -> AbstractContextManager[None]:
    return place.link.late(SLOW)


@contextlib.contextmanager
def rights_taken(place: Place) -> Iterator[None]:
    """Take the rights away; open watches outlive them, so a new configuration makes the daemon open others."""
    role = f"{ROLES}/{place.cluster}"
    with place.ground.plane.writer() as writer:
        writer.patch(role, {"rules": []})
    place.ground.plane.until_permitted("default", place.cluster, EVERYTHING_READABLE, permitted=False)
    place.configure(*({**watch, "namespace": "kube-system"} for watch in place.watches))
    try:
        yield
    finally:
        with place.ground.plane.writer() as writer:
            writer.patch(role, {"rules": [EVERYTHING_READABLE]})


@contextlib.contextmanager
def unreachable_witnesses(place: Place) -> Iterator[None]:
    """Announce two apiservers at which nothing listens."""
    ports = Port(), Port()
    urls = [f"https://{HOST}:{port.number}" for port in ports]
    etcd = place.ground.plane.etcd
    for url in urls:
        announce(etcd, url)
    try:
        yield
    finally:
        for port, url in zip(ports, urls, strict=True):
            withdraw(etcd, url)
            port.release()


# Faults of the simulator


def simulated(*names: str) -> Callable[[Place], AbstractContextManager[None]]:
    """Return a fault that switches on these faults of the simulator, for the first resource that the daemon watches."""

    @contextlib.contextmanager
    def strike(place: Place) -> Iterator[None]:
        resource = place.watches[0]["resource"]
        switches = [{"name": name, "resource": resource} for name in names]
        for switch in switches:
            place.ground.simulator.control(switch, "/faults")
        try:
            yield
        finally:
            for switch in reversed(switches):
                place.ground.simulator.control({**switch, "on": False}, "/faults")

    return strike


@contextlib.contextmanager
def short_history(place: Place) -> Iterator[None]:
    """Lists are slow before the first write, because the daemon probes the headroom of busy resources only."""
    with place.link.fault("thin-link", SLOW_BYTES_A_SECOND), simulated("short-history")(place):
        place.ground.simulator.control({"resource": place.watches[0]["resource"], "rate": 20}, "/workload")
        yield


# Faults of the daemon itself


def starved(place: Place) -> AbstractContextManager[None]:
    """Stop the daemon for half of the time."""
    return repeated(FED_SECONDS, lambda: place.daemon.process.pause(STARVED_SECONDS))


@contextlib.contextmanager
def hung(place: Place) -> Iterator[None]:
    place.daemon.process.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        place.daemon.process.signal(signal.SIGCONT)


@contextlib.contextmanager
def misconfigured(place: Place) -> Iterator[None]:
    place.configure({"resource": "No Such Resource"})
    try:
        yield
    finally:
        place.configure(*place.watches)


LANES = (
    Lane(
        "late",
        (
            {"resource": LATE_RESOURCE, "namespace": "default"},
            {"resource": "leases.coordination.k8s.io", "list": "stream"},
            {"resource": "serviceaccounts", "namespace": "default", "creation": True, "reference": True},
        ),
        (
            Fault(
                "the commits of one resource reach its watch cache 2 s late",
                late_storage,
                (
                    burn("1h", "5m"),
                    burn("6h", "30m"),
                    burn("1d", "2h", slow=True),
                    burn("3d", "6h", slow=True),
                    Alert("WatchLatencyBadMinutes"),
                    Alert("WatchClusterBadMinutes", {"scope": "cluster"}),
                    Alert("WatchClusterBadMinutes", {"scope": "apiserver"}),
                ),
            ),
        ),
        real=True,
        keys={"metrics": "full", "kubernetes": {"apiserverMetrics": True}},
    ),
    Lane(
        "frozen",
        watching(FROZEN_RESOURCE, "leases.coordination.k8s.io"),
        (Fault("the watch cache of one resource has lost etcd", frozen_cache, (Alert("WatchStalled"),)),),
        real=True,
    ),
    Lane(
        "refused",
        watching(
            "pods",
            "services",
            "serviceaccounts",
            "endpointslices.discovery.k8s.io",
            "deployments.apps",
            "replicasets.apps",
            "jobs.batch",
            "leases.coordination.k8s.io",
            namespace="default",
        ),
        (Fault("the rights to list and watch are taken away", rights_taken, (Alert("WatchsloForbidden"),)),),
        real=True,
    ),
    Lane(
        "linked",
        watching("leases.coordination.k8s.io"),
        (
            Fault(
                "every connection is reset",
                unreachable,
                (Alert("WatchApiserverUnresponsive"), Alert("WatchDown"), Alert("WatchsloClockStopped")),
            ),
            Fault("everything from the apiserver is 700 ms late", slow_link, (Alert("WatchsloClockSlow"),)),
        ),
        real=True,
        linked=True,
    ),
    Lane(
        "compared",
        watching("leases.coordination.k8s.io"),
        (Fault("one of two addresses answers 700 ms late", slow_link, (Alert("WatchApiserverTicksSlow"),)),),
        real=True,
        linked=True,
        twice=True,
    ),
    Lane(
        "alone",
        watching("leases.coordination.k8s.io"),
        (
            Fault(
                "the other announced apiservers cannot be reached",
                unreachable_witnesses,
                (Alert("WatchsloWitnessesUnreached"),),
            ),
        ),
        real=True,
    ),
    Lane(
        "expired",
        watching("leases.coordination.k8s.io"),
        (
            Fault(
                "all watches end with 410 every 5 s",
                simulated("expired"),
                (Alert("WatchExpiredLoop"), Alert("WatchRelistStorm")),
            ),
        ),
    ),
    Lane(
        "stale",
        watching("configmaps", list="cache"),
        (
            Fault(
                "lists come from a frozen cache, and watches end with 410",
                simulated("frozen-cache", "expired"),
                (Alert("WatchGuaranteeViolated"),),
            ),
        ),
    ),
    Lane(
        "forgetful",
        watching("pods"),
        (Fault("the watch cache holds 20 changes, and lists are slow", short_history, (Alert("WatchHistoryShort"),)),),
        linked=True,
    ),
    Lane(
        "starved",
        watching("nodes"),
        (
            Fault(
                "the daemon stands still for half of the time",
                starved,
                (
                    Alert("WatchsloOverloaded", {"instances": "most"}),
                    Alert("WatchsloOverloaded", {"instances": "some"}, cluster=CROWD),
                    Alert("WatchsloUnmeasurable"),
                    Alert("WatchsloCoverageLow"),
                ),
            ),
        ),
    ),
    Lane(
        "hung",
        watching("services"),
        (
            Fault("its configuration is invalid", misconfigured, (Alert("WatchsloConfigReloadFailed"),)),
            Fault("the only daemon hangs", hung, (Alert("WatchsloTargetDown"), Alert("WatchsloAbsent"))),
        ),
    ),
)
SIMULATED = json.dumps(
    {
        "objects": [{"resource": "pods", "count": 1000}],
        "workload": [
            {"resource": "leases.coordination.k8s.io", "rate": 5},
            {"resource": "configmaps", "rate": 5},
            {"resource": "nodes", "rate": 30},
            {"resource": "services", "rate": 2},
        ],
    }
)
"""The configuration of the simulator: the objects that exist, and the writes of the whole run."""
