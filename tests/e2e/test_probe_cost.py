"""What all that is asked besides watching costs the apiservers: few reads a second, by our count and by theirs."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.confusion.stage import WATCHES, Stage
from tests.support.assets import Assets

SECONDS = 60.0
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
APART = 0.03  # by which counts may differ: requests that are under way at the beginning and the end

QUIET = ("services", "endpoints", "daemonsets.apps", "deployments.apps")
LISTED = {"events", *(watch["resource"] for watch in WATCHES), *(resource.partition(".")[0] for resource in QUIET)}

pytestmark = pytest.mark.timeout(400)


@dataclass(frozen=True, slots=True)
class Counted:
    """Requests by kind, as the daemon counts them; lists in one namespace, as all apiservers do."""

    kinds: dict[str, float]
    theirs: float

    def since(self, before: "Counted") -> "Counted":
        kinds = {kind: count - before.kinds.get(kind, 0.0) for kind, count in self.kinds.items()}
        return Counted({kind: count for kind, count in kinds.items() if count}, self.theirs - before.theirs)

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


def counted(stage: Stage) -> Counted:
    kinds: dict[str, float] = {}
    for family in stage.daemon.scrape().families.values():
        for sample in family.samples:
            if sample.name == "watchslo_api_requests_total":
                kind = sample.labels["kind"]
                kinds[kind] = kinds.get(kind, 0.0) + sample.value
    return Counted(kinds, sum(served(stage, number) for number in range(len(stage.lab.members))))


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


def measured(stage: Stage, what: str) -> Counted:
    """What a minute costs."""
    before = counted(stage)
    time.sleep(SECONDS)
    cost = counted(stage).since(before)
    rates = ", ".join(f"{kind} {count / SECONDS:.2f}" for kind, count in sorted(cost.kinds.items()))
    counts = (
        f"{cost.of_nothing:.0f} of nothing and {cost.lists:.0f} of objects by our count, {cost.theirs:.0f} by theirs"
    )
    print(f"{what}: {cost.reads / SECONDS:.2f} reads a second ({rates}); lists: {counts}")
    apart = max(5.0, APART * cost.theirs)
    assert cost.of_nothing - apart <= cost.theirs <= cost.of_nothing + cost.lists + apart
    return cost


def test_while_all_is_well_there_are_few(stage: Stage) -> None:
    time.sleep(WARM_SECONDS)
    cost = measured(stage, "all healthy")
    assert "probe_cache" not in cost.kinds
    assert (cost.reads - cost.audits) / SECONDS <= STEADY_READS
    assert cost.audits / SECONDS <= MOST_AUDITS


def test_at_worst_there_are_more(stage: Stage) -> None:
    """All storage is slow, so that each watch is late at each apiserver."""
    links = [*(member.storage for member in stage.lab.members), *stage.lab.overrides.values()]
    with ExitStack() as stack:
        for link in links:
            stack.enter_context(link.late("normal 600ms 60ms"))
        time.sleep(NEEDED_SECONDS)
        cost = measured(stage, "all late")
    assert cost.kinds["probe_cache"] > 0
    assert cost.reads / SECONDS <= MOST_READS
