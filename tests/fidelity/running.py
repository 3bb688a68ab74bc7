"""One run: observe the daemons for some seconds. The second daemon has another wall clock than the first."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fidelity.cases import Case
from tests.fidelity.daemons import Report, Reported
from tests.fidelity.outcome import Outcome, compare
from tests.fidelity.truth import Stamps, Truth
from tests.support.control_plane import write_kubeconfig

LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The cases to measure and the duration; `seed` determines all randomness except the daemon's own.

    `ahead` is the difference between two wall clocks in seconds: the apiserver's clock is ahead in the simulator, the
    second daemon's clock with a real apiserver.
    """

    folder: Path
    cases: Sequence[Case]
    seconds: float
    seed: int
    ahead: float


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a plan: an outcome for each case, and the second daemon's outcomes for cases with creations."""

    outcomes: tuple[Outcome, ...]
    others: tuple[Outcome, ...]


def daemons(plan: Plan, url: str, token: str, watches: Mapping[Case, Mapping[str, Any]]) -> list[Reported]:
    """Return a daemon with all watches, and one with another wall clock for the watches with creations, if any."""
    kubeconfig = plan.folder / "kubeconfig"
    write_kubeconfig(kubeconfig, {"server": url}, {"token": token})
    all_watches = [_watch(case, watch) for case, watch in watches.items()]
    of_creations = [_watch(case, watch) for case, watch in watches.items() if case.creation]
    first = Reported(plan.folder / "first", kubeconfig, all_watches)
    if not of_creations:
        return [first]
    return [first, Reported(plan.folder / "second", kubeconfig, of_creations, ahead=plan.ahead)]


def _watch(case: Case, watch: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": case.label, "creation": case.creation, **watch}


@contextlib.contextmanager
def started(observed: Sequence[Reported]) -> Iterator[None]:
    """Start the daemons in order; each starts when the watches of the previous one are open."""
    with contextlib.ExitStack() as stack:
        for daemon in observed:
            stack.enter_context(daemon)
            daemon.until_ready()
        yield


Reports = Sequence[Mapping[str, Report]]


def observe(observed: Sequence[Reported], seconds: float) -> Reports:
    """Read the status of all daemons once per second for `seconds`, stop the daemons, and return their reports.

    This time begins when all watches are measured.
    """
    for daemon in observed:
        daemon.process.until(daemon.measures, "all watches are measured")
        daemon.begin()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for daemon in observed:
            daemon.look()
        time.sleep(LOOK_SECONDS)
    return [daemon.conclude() for daemon in observed]


def judge(plan: Plan, reports: Reports, truth: Callable[[Case, int, Stamps], Truth]) -> Run:
    """Compare the reports with the truth, which `truth` returns for a case, a daemon's number, and what it received."""
    outcomes = [
        tuple(
            compare(case, said[case.label], truth(case, number, said[case.label].received))
            for case in plan.cases
            if case.label in said
        )
        for number, said in enumerate(reports)
    ]
    return Run(outcomes[0], outcomes[1] if len(outcomes) > 1 else ())
