"""What all that is asked besides watching costs the apiservers: few reads a second, by our count and by theirs."""

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.confusion.stage import WATCHES, Stage
from tests.support.assets import Assets
from watchslo.monitor.stream import NEEDED_SHARE
from watchslo.monitor.supervisor import SNAPSHOT_SECONDS

SECONDS = 45.0
WARM_SECONDS = 45.0  # first come lists, memberships, and the first look at each history
NEEDED_SECONDS = 20.0  # until it is known which watches are late
STEADY_READS, MOST_READS = 2.5, 10.0  # a second
MOST_AUDITS = 4.0  # two audits a second, each of two requests, are permitted by default
WATCHING = ("watch", "discovery")
"""What is no read: our watches themselves. Discovery comes once in minutes."""
AUDITS = ("audit", "nudge")
"""Whether a quiet watch lives: as many as there are quiet watches, up to `limits.auditsPerSecond`."""
OF_NOTHING = ("tick", "probe", "nudge", "probe_cache")
"""What is a list of nothing, in one namespace."""
APART = 5  # by which counts may differ: requests that are under way at the beginning and the end
CALM_SECONDS = 300.0  # until nothing is late any more, and has not been for a minute
LATE_SECONDS = NEEDED_SHARE * 1.0  # of the threshold: a watch that is later is looked into

QUIET = ("services", "endpoints", "daemonsets.apps", "deployments.apps")
LISTED = {"events", *(watch["resource"] for watch in WATCHES), *(resource.partition(".")[0] for resource in QUIET)}

pytestmark = pytest.mark.timeout(700)


@dataclass(frozen=True, slots=True)
class Counted:
    """Requests by kind, as the daemon counts them: up to a moment in monotonic seconds, or within so many."""

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
        """Of objects: some in one namespace, some in all."""
        return self.kinds.get("list", 0.0)


@pytest.fixture(scope="module")
def stage(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Every second watch has nothing to say, and so has to be asked whether it lives."""
    quiet = [{"resource": resource} for resource in QUIET]
    with Stage(tmp_path_factory.mktemp("cost"), assets, [*WATCHES, *quiet]) as stage:
        yield stage


@dataclass(frozen=True, slots=True)
class Look:
    """What the daemon had counted, lists in one namespace that all apiservers had by then, and it again after that."""

    before: Counted
    theirs: float
    after: Counted


def look(stage: Stage) -> Look:
    before, theirs = counted(stage), sum(served(stage, number) for number in range(len(stage.lab.members)))
    time.sleep(SNAPSHOT_SECONDS)  # a scrape may be as old
    return Look(before, theirs, counted(stage))


def counted(stage: Stage) -> Counted:
    kinds: dict[str, float] = {}
    for family in stage.daemon.scrape().families.values():
        for sample in family.samples:
            if sample.name == "watchslo_api_requests_total":
                kind = sample.labels["kind"]
                kinds[kind] = kinds.get(kind, 0.0) + sample.value
    return Counted(kinds, time.monotonic())


def served(stage: Stage, number: int) -> float:
    """How many lists in one namespace an apiserver has answered; nobody else lists these resources there."""
    with stage.lab.writer(stage.lab.members[number]) as writer:
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


def is_late(stream: dict[str, Any]) -> bool:
    """Whether a watch is late by so much that it is looked into where."""
    shortest = min(stream["latency"]["windows"], key=lambda window: float(window["length"]))
    estimates = (quantile["estimate"] for quantile in shortest["quantiles"])
    slowest = max((math.inf if estimate is None else estimate for estimate in estimates), default=0.0)
    return max(slowest, stream["behindPeers"] or 0.0) > LATE_SECONDS or stream["stalledFor"] is not None


def until_over(stage: Stage, seconds: float) -> bool:
    """Looks on for some seconds; returns whether anything was late meanwhile."""
    was_late, end = False, time.monotonic() + seconds
    while time.monotonic() < end:
        was_late |= any(map(is_late, stage.daemon.status()["streams"]))
        time.sleep(SNAPSHOT_SECONDS)
    return was_late


def measured(stage: Stage, what: str) -> tuple[Counted, bool]:
    """What some time costs, and whether anything was late in it."""
    first = look(stage)
    was_late = until_over(stage, SECONDS)
    last = look(stage)
    was_late |= any(map(is_late, stage.daemon.status()["streams"]))  # it stays so for five seconds
    cost, theirs = last.before.since(first.before), last.theirs - first.theirs
    rates = ", ".join(f"{kind} {count / cost.seconds:.2f}" for kind, count in sorted(cost.kinds.items()))
    counts = f"{cost.of_nothing:.0f} of nothing and {cost.lists:.0f} of objects by our count, {theirs:.0f} by theirs"
    print(f"{what}: {cost.reads / cost.seconds:.2f} reads a second ({rates}); lists: {counts}")
    least, most = last.before.since(first.after), last.after.since(first.before)
    assert least.of_nothing - APART <= theirs <= most.of_nothing + most.lists + APART
    return cost, was_late


def test_while_all_is_well_there_are_few(stage: Stage) -> None:
    time.sleep(WARM_SECONDS)
    stage.daemon.process.until(
        lambda: not any(stream["probed"] for stream in stage.daemon.status()["streams"]), CALM_SECONDS, "calm", 0.5
    )
    cost, was_late = measured(stage, "all healthy")
    assert was_late or not cost.probes  # the machine may have been busy
    assert (cost.reads - cost.audits - cost.probes) / cost.seconds <= STEADY_READS
    assert cost.audits / cost.seconds <= MOST_AUDITS


def test_at_worst_there_are_more(stage: Stage) -> None:
    """All storage is slow, so that each watch is late at each apiserver."""
    links = [*(member.storage for member in stage.lab.members), *stage.lab.overrides.values()]
    with ExitStack() as stack:
        for link in links:
            stack.enter_context(link.late("normal 600ms 60ms"))
        time.sleep(NEEDED_SECONDS)
        cost, _ = measured(stage, "all late")
    assert cost.probes > 0
    assert cost.reads / cost.seconds <= MOST_READS
