"""One run: some seconds of looking at daemons, of which the second one has another wall clock than the first."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fidelity.cases import Case
from tests.fidelity.daemons import Clock, Observed, Said
from tests.fidelity.outcome import Outcome, compare
from tests.fidelity.truth import Stamps, Truth
from tests.support.control_plane import write_kubeconfig

LOOK_SECONDS = 1.0
MEASURED_SECONDS = 90.0  # until there are samples: eight, when the machine is ours alone


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure and for how long; all chance but the daemon's own comes from `seed`.

    `ahead` is by how many seconds one of two wall clocks is ahead of the other: the apiserver's in the simulator, the
    second daemon's before a real one.
    """

    folder: Path
    cases: Sequence[Case]
    seconds: float
    seed: int
    ahead: float


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a plan: an outcome for each case, and those of the second daemon for the cases with creations."""

    outcomes: tuple[Outcome, ...]
    others: tuple[Outcome, ...]


def daemons(plan: Plan, url: str, token: str, watches: Mapping[Case, Mapping[str, Any]]) -> list[Observed]:
    """One daemon with all watches, and where there are creations another one with those and another wall clock."""
    kubeconfig = plan.folder / "kubeconfig"
    write_kubeconfig(kubeconfig, {"server": url}, {"token": token})
    all_watches = [_watch(case, watch) for case, watch in watches.items()]
    of_creations = [_watch(case, watch) for case, watch in watches.items() if case.creation]
    first = Observed(plan.folder / "first", kubeconfig, all_watches, ahead=0.0)
    if not of_creations:
        return [first]
    return [first, Observed(plan.folder / "second", kubeconfig, of_creations, ahead=plan.ahead)]


def _watch(case: Case, watch: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": case.label, "creation": case.creation, **watch}


@contextlib.contextmanager
def started(observed: Sequence[Observed]) -> Iterator[None]:
    """Starts daemons, each when the watches of the one before it are open."""
    with contextlib.ExitStack() as stack:
        for daemon in observed:
            stack.enter_context(daemon)
            daemon.until_ready()
        yield


Told = Sequence[tuple[Mapping[str, Said], Clock]]


def listen(observed: Sequence[Observed], seconds: float) -> Told:
    """Looks at daemons once a second, for so long after all have samples; ends them, and returns what they said."""
    for daemon in observed:
        daemon.process.until(daemon.measures, MEASURED_SECONDS, "all watches are measured")
        daemon.begin()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for daemon in observed:
            daemon.look()
        time.sleep(LOOK_SECONDS)
    return [daemon.conclude() for daemon in observed]


def judge(plan: Plan, told: Told, truth: Callable[[Case, int, Stamps], Truth]) -> Run:
    """Compares; `truth` is told the case, which daemon it was, and what that one received."""
    outcomes = [
        tuple(
            compare(case, said[case.label], clock, truth(case, number, said[case.label].received))
            for case in plan.cases
            if case.label in said
        )
        for number, (said, clock) in enumerate(told)
    ]
    return Run(outcomes[0], outcomes[1] if len(outcomes) > 1 else ())
