"""The faults of `make confusion` on a fake control plane, with random strengths, as two kinds of instance see them.

An instance watches all three apiservers, or, as in a DaemonSet, its own only, with the others as witnesses. No answer
of high confidence may be wrong, and the most certain one must be right.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import pytest

from tests.unit.diagnose.cluster import TICK_SECONDS, TICKS, Cluster
from tests.unit.serve.readings import HEADROOM
from watchslo.model import Interval
from watchslo.snapshot import Cause, Confidence

OWN = "a:1"
NAMED_STEPS, HELD_STEPS = 6, 2
SEEDS = range(8)

Change = Callable[[Cluster, Random], None]


@dataclass(frozen=True, slots=True)
class SimulatedFault:
    """What a fault changes in each step, and the right answer: a cause, with a watch if it has one."""

    change: Change
    cause: Cause | None
    watch: str | None = None
    apiserver: str | None = None


def own_loop_blocked(cluster: Cluster, random: Random) -> None:
    cluster.taints = random.uniform(0.2, 0.6)


def etcd_slow(cluster: Cluster, random: Random) -> None:
    seconds = random.uniform(0.3, 1.0)
    for name in cluster.apiservers:
        late_before_cache(cluster, name, seconds)


def one_etcd_link_slow(cluster: Cluster, random: Random) -> None:
    late_before_cache(cluster, OWN, random.uniform(0.3, 1.2))


def late_before_cache(cluster: Cluster, apiserver: str, seconds: float) -> None:
    cluster.apiservers[apiserver].ticks(seconds)
    for watch in cluster.at(apiserver):
        watch.late = watch.storage = seconds
        watch.client = watch.cache_trip = 0.001


def one_resource_slow(cluster: Cluster, random: Random) -> None:
    for watch in cluster.of("pods"):
        watch.late = watch.storage = random.uniform(0.3, 1.2)
        watch.client = watch.cache_trip = 0.001


def one_client_side_slow(cluster: Cluster, random: Random) -> None:
    seconds = random.uniform(0.3, 1.2)
    cluster.apiservers[OWN].ticks(seconds)
    for watch in cluster.at(OWN):
        watch.late = watch.cache_trip = seconds
        watch.storage, watch.client, watch.hops_resolved = seconds / 3, seconds / 3, False


def throttled(cluster: Cluster, random: Random) -> None:
    """Let about forty of a hundred events through at a steady rate, so that the delay grows."""
    for watch in cluster.at(OWN):
        watch.late += random.uniform(1.0, 3.0)
        watch.client, watch.storage, watch.events = watch.late, 0.001, random.randint(38, 42)
    cluster.apiservers[OWN].ticks(min(watch.late for watch in cluster.at(OWN)))


def webhook_slow(cluster: Cluster, random: Random) -> None:
    for watch in cluster.of("pods"):
        watch.creation = random.uniform(0.8, 3.0)


def headroom_short(cluster: Cluster, random: Random) -> None:
    seconds = random.uniform(3.0, 5.0)
    for watch in cluster.of("pods"):
        watch.headroom = replace(HEADROOM, seconds=Interval(seconds, seconds + 0.5))


def watch_stalled(cluster: Cluster, random: Random) -> None:
    watch = cluster[OWN, random.choice(("pods", "leases", "nodes"))]
    if not any(one.stalled for one in cluster.at(OWN)):
        watch.events, watch.stalled, watch.audit = 0, random.uniform(3.0, 9.0), "stalled"


def cache_frozen(cluster: Cluster, random: Random) -> None:
    for watch in cluster.of("pods"):
        watch.events, watch.stalled, watch.audit = 0, random.uniform(6.0, 12.0), "frozen"


def watch_parked(cluster: Cluster, random: Random) -> None:
    watch = cluster[OWN, "pods"]
    watch.catches_up, watch.late, watch.spread = random.randint(1, 2), random.uniform(1.0, 2.0), 1.4


def storm(cluster: Cluster, random: Random) -> None:
    cluster.apiservers[OWN].trips = tuple(random.uniform(0.03, 0.9) for _ in range(TICKS))
    cluster.apiservers[OWN].answers = {("tick", "200"): TICKS, ("tick", "429"): random.randint(1, 3)}
    for watch in cluster.at(OWN):
        watch.late, watch.spread = random.uniform(0.2, 0.5), random.uniform(1.8, 3.0)


def unreachable(cluster: Cluster, random: Random) -> None:
    cluster.apiservers[OWN].silence(random.uniform(12.0, 20.0))
    cluster.apiservers[OWN].answers = {("tick", "timeout"): 1}
    for watch in cluster.at(OWN):
        watch.events = 0


FAULTS = {
    "own loop blocked": SimulatedFault(own_loop_blocked, Cause.MONITOR_OVERLOADED),
    "etcd slow": SimulatedFault(etcd_slow, Cause.STORAGE_SLOW),
    "one etcd link slow": SimulatedFault(one_etcd_link_slow, Cause.CACHE_BEHIND, apiserver=OWN),
    "one resource slow": SimulatedFault(one_resource_slow, Cause.RESOURCE_DECODING, "pods"),
    "one client side slow": SimulatedFault(one_client_side_slow, Cause.APISERVER_SENDING, apiserver=OWN),
    "throttled": SimulatedFault(throttled, Cause.BANDWIDTH, apiserver=OWN),
    "relist storm": SimulatedFault(storm, Cause.RELIST_STORM),
    "unreachable": SimulatedFault(unreachable, Cause.APISERVER_SENDING, apiserver=OWN),
    "headroom too short": SimulatedFault(headroom_short, Cause.HEADROOM_SHORT, "pods"),
    "webhook slow": SimulatedFault(webhook_slow, Cause.WRITE_PATH, "pods"),
    "watch stalled": SimulatedFault(watch_stalled, Cause.STALLED_STREAM, apiserver=OWN),
    "watch parked": SimulatedFault(watch_parked, Cause.PARKED_WATCH, "pods", apiserver=OWN),
    "cache frozen": SimulatedFault(cache_frozen, Cause.STALLED_STREAM, "pods"),
    "no fault": SimulatedFault(lambda _cluster, _random: None, None),
}
INSTANCES: dict[str, Callable[[], Cluster]] = {
    "each": Cluster,
    "daemonset": lambda: Cluster(OWN, witnesses=("b:1", "c:1")),
}


def noise(cluster: Cluster, random: Random) -> None:
    """Change what is healthy a little."""
    for one in cluster.apiservers.values():
        if one.trips == (TICK_SECONDS,) * TICKS:
            one.trips = tuple(TICK_SECONDS * random.uniform(0.7, 3.0) for _ in range(TICKS))
    for watch in cluster.watches.values():
        if watch.events > 90:
            watch.events = random.randint(95, 105)


@pytest.mark.parametrize("instance", INSTANCES)
@pytest.mark.parametrize("name", FAULTS)
def test_most_certain_cause_is_right_and_no_wrong_one_is_certain(name: str, instance: str) -> None:
    fault = FAULTS[name]
    for seed in SEEDS:
        random, cluster = Random(f"{name} {seed}"), INSTANCES[instance]()
        for step in range(NAMED_STEPS + HELD_STEPS):
            noise(cluster, random)
            fault.change(cluster, random)
            causes = cluster.step()
            wrong = [one for one in causes if one.cause is not fault.cause and one.confidence is Confidence.HIGH]
            assert not wrong, f"seed {seed}, step {step}"
        found = [(one.cause, one.watch or fault.watch, one.apiserver or fault.apiserver) for one in causes[:1]]
        expected = [(fault.cause, fault.watch or found[0][1], fault.apiserver or found[0][2])] if fault.cause else []
        assert found == expected, f"seed {seed}"
