"""What the daemon says is compared with the truth, in small: `make fidelity` does it at length."""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median

import pytest

from tests.fidelity import real, simulated
from tests.fidelity.cases import Case, Traffic
from tests.fidelity.outcome import P99, Outcome, allowed
from tests.fidelity.running import Plan, Run
from tests.support.assets import Assets

CASE = Case("20 ms", Traffic("busy", rate=80.0), "lognormal 20ms 0.25")  # narrow: there are few ticks in this time
SECONDS = 25.0
JUDGED_EVENTS = 1000
MOST_RUNS = 3


def error(outcome: Outcome) -> float:
    """Of the P99, as a multiple of what may be: the goal, and by how much this machine held up the daemon."""
    true = outcome.true[P99]
    return abs(outcome.said[P99].estimate - true) / (allowed(true) + outcome.lag)


def outcomes(measure: Callable[[Plan], Run], folder: Path) -> list[Outcome]:
    """One run; more of them if that one's P99 missed its goal, which is one of medians."""
    found: list[Outcome] = []
    while not found or (error(found[0]) > 1 and len(found) < MOST_RUNS):
        place = folder / f"run-{len(found)}"
        place.mkdir()
        seed = Random(os.urandom(8)).getrandbits(32)
        print(f"seed {seed}")
        (outcome,) = measure(Plan(place, (CASE,), SECONDS, seed, ahead=0.0)).outcomes
        assert not outcome.outside
        assert outcome.contradictions == 0
        assert outcome.events >= JUDGED_EVENTS
        found.append(outcome)
    return found


@pytest.mark.timeout(400)
def test_simulated_latencies_are_measured_right(tmp_path: Path) -> None:
    assert median(map(error, outcomes(simulated.run, tmp_path))) <= 1


@pytest.mark.timeout(400)
def test_latencies_of_a_real_apiserver_are_measured_right(tmp_path: Path, assets: Assets) -> None:
    with real.cluster(tmp_path, assets, (CASE,)) as plane:
        found = outcomes(lambda plan: real.run(plan, plane), tmp_path)
    assert median(map(error, found)) <= 1
