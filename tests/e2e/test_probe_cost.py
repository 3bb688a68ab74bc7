"""The reads in addition to the watches: few a second, by the count of watchslo and by that of the apiservers."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.lab.faults import THREE
from tests.lab.scene import Scene
from tests.lab.stage import Lane, Stage
from tests.support.assets import Assets
from watchslo.monitor.evaluator import SNAPSHOT_SECONDS

SECONDS = 20.0
WARM_SECONDS = 30.0  # for the first lists, memberships and headroom probes
NEEDED_SECONDS = 20.0  # until the late watches are known
MOST_READS = 7.0  # a second, to each apiserver; all ticks of a burst are ten a second
MOST_AUDITS = 4.0  # two audits a second, each of two requests, are permitted by default
WATCHING = ("watch", "discovery")
"""Requests that are no reads: the watches, and discovery once in minutes."""
AUDITS = ("audit", "nudge")
"""The audits of quiet watches, up to `limits.auditsPerSecond`."""
OF_NOTHING = ("tick", "probe", "nudge", "probe_cache")
"""Kinds that list nothing, in one namespace."""
APART = 5  # by which counts may differ: requests in flight at the start and the end

QUIET = ("services", "endpoints", "daemonsets.apps", "deployments.apps")
BUSY = [watch["resource"] for watch in THREE.watches]
LISTED = {"events", *BUSY, *(resource.partition(".")[0] for resource in QUIET)}


@dataclass(frozen=True, slots=True)
class Counted:
    """Requests by kind, as the daemon counts them: up to a moment, or within a number of seconds."""

    kinds: dict[str, float]
    seconds: float

    def since(self, before: "Counted") -> "Counted":
        kinds = {kind: count - before.kinds.get(kind, 0.0) for kind, count in self.kinds.items()}
        return Counted({kind: count for kind, count in kinds.items() if count}, self.seconds - before.seconds)

    @property
    def probes(self) -> float:
        return self.kinds.get("probe_cache", 0.0)

    @property
    def reads(self) -> float:
        return sum(count for kind, count in self.kinds.items() if kind not in WATCHING)

    @property
    def audits(self) -> float:
        return sum(self.kinds.get(kind, 0.0) for kind in AUDITS)

    @property
    def of_nothing(self) -> float:
        return sum(self.kinds.get(kind, 0.0) for kind in OF_NOTHING)

    @property
    def lists(self) -> float:
        """Lists of objects, in one namespace or in all."""
        return self.kinds.get("list", 0.0)


@pytest.fixture(scope="module")
def scene(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A scene where every second watch is quiet, so that it is audited."""
    quiet = [{"resource": resource} for resource in QUIET]
    lane = Lane(replace(THREE, watches=(*THREE.watches, *quiet)), (), name="cost")
    with Stage(tmp_path_factory.mktemp("cost"), assets, [lane]) as stage, ExitStack() as stack:
        scene = stage.open(stack, lane)
        scene.until_measured()
        yield scene


@dataclass(frozen=True, slots=True)
class Look:
    """The counts of the daemon, then those of all apiservers, then those of the daemon again."""

    before: Counted
    theirs: float
    after: Counted


def look(scene: Scene) -> Look:
    before, theirs = counted(scene), sum(served(scene, number) for number in range(len(scene.ground.members)))
    time.sleep(SNAPSHOT_SECONDS)  # a scrape may be as old
    return Look(before, theirs, counted(scene))


def counted(scene: Scene) -> Counted:
    kinds: dict[str, float] = {}
    for family in scene.daemon.scrape().families.values():
        for sample in family.samples:
            if sample.name == "watchslo_api_requests_total":
                kind = sample.labels["kind"]
                kinds[kind] = kinds.get(kind, 0.0) + sample.value
    return Counted(kinds, time.monotonic())


def served(scene: Scene, number: int) -> float:
    """Return how many lists in one namespace an apiserver answered; no other client lists these resources there."""
    with scene.ground.members[number].apiserver.writer(scene.plane.token) as writer:
        families = text_string_to_metric_families(writer.text("/metrics"))
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "apiserver_request_total"
        and sample.labels["verb"] == "LIST"
        and sample.labels["scope"] == "namespace"
        and sample.labels["resource"] in LISTED
    )


def measured(scene: Scene, what: str) -> Counted:
    """Return the requests within `SECONDS`; fail if the apiservers counted others."""
    first = look(scene)
    time.sleep(SECONDS)
    last = look(scene)
    cost, theirs = last.before.since(first.before), last.theirs - first.theirs
    rates = ", ".join(f"{kind} {count / cost.seconds:.2f}" for kind, count in sorted(cost.kinds.items()))
    counts = f"{cost.of_nothing:.0f} of nothing and {cost.lists:.0f} of objects by our count, {theirs:.0f} by theirs"
    print(f"{what}: {cost.reads / cost.seconds:.2f} reads a second ({rates}); lists: {counts}")
    least, most = last.before.since(first.after), last.after.since(first.before)
    assert least.of_nothing - APART <= theirs <= most.of_nothing + most.lists + APART
    return cost


def test_reads_are_bounded_and_the_apiservers_count_as_many(scene: Scene) -> None:
    """A busy machine makes watches late, so that a healthy cluster gets few reads is a unit test of the monitor."""
    time.sleep(WARM_SECONDS)
    cost = measured(scene, "all healthy")
    assert cost.reads / cost.seconds <= MOST_READS * len(scene.ground.members)
    assert cost.audits / cost.seconds <= MOST_AUDITS


def test_late_cluster_gets_a_bounded_number_of_reads(scene: Scene) -> None:
    """All storage links are slow, so each watch is late at each apiserver."""
    links = [*(member.storage for member in scene.ground.members), *scene.ground.storage.values()]
    with ExitStack() as stack:
        for link in links:
            stack.enter_context(link.late("normal 600ms 60ms"))
        time.sleep(NEEDED_SECONDS)
        cost = measured(scene, "all late")
    assert cost.probes > 0
    assert cost.reads / cost.seconds <= MOST_READS * len(scene.ground.members)
