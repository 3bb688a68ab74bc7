"""The number of independent events: how many events behind one delay count as one."""

import numpy as np
import pytest

from tests.unit.latency.truth import BINS, TICKS, Law, World, constant, lognormal, mostly, simulate, tally_of
from watchslo.latency.cuts import Cuts
from watchslo.latency.estimate import Estimation, solve
from watchslo.latency.independence import independent_events
from watchslo.latency.tally import BLOCK_SECONDS, Blocks

LAWS = lognormal(0.005, 0.5), lognormal(0.02, 0.5), constant(0.3), mostly(lognormal(0.005, 0.5), constant(0.08), 0.02)


def solved_by_blocks(world: World, copies: int = 1) -> Estimation:
    """Solve the estimation of a window by its blocks; each event comes so many times."""
    blocks, numbers = Blocks(BINS), np.floor(world.received / BLOCK_SECONDS)
    for number in np.unique(numbers):
        bounds = world.bounds.at(np.repeat(np.flatnonzero(numbers == number), copies))
        blocks.add([(number * BLOCK_SECONDS, tally_of(bounds))])
    estimation = Estimation(blocks.window(60.0, 60.0), BINS.uniform, TICKS)
    solve([estimation])
    return estimation


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("events", [50, 300, 1200, 6000])
def test_independent_events_all_count(law: Law, events: int) -> None:
    found = solved_by_blocks(simulate(1, law, events))
    assert 0.6 * found.n < found.independent <= found.n


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("copies", [3, 10, 100])
def test_events_behind_one_delay_count_once(law: Law, copies: int) -> None:
    found = solved_by_blocks(simulate(1, law, 300), copies)
    assert found.n / copies == pytest.approx(found.independent, rel=0.15)


def test_each_row_is_judged_by_itself() -> None:
    cuts = Cuts(np.array([0, 0, 1]), np.array([1, 2, 1]), np.array([3, 4, 3]), np.array([0.5, 0.5, 1.0]))
    found = independent_events(cuts, np.array([40, 40]), np.array([20, 20]), np.array([38, 1]))
    assert found.tolist() == [40, pytest.approx(1, abs=0.05)]


def test_figures_of_few_independent_events_are_rough() -> None:
    world = simulate(1, lognormal(0.02, 0.5), 120)
    assert not simulated_p99_is_rough(simulate(1, lognormal(0.02, 0.5), 6000), 1)
    assert simulated_p99_is_rough(world, 50)


def simulated_p99_is_rough(world: World, copies: int) -> bool:
    return next(one.rough for one in solved_by_blocks(world, copies).readings() if one.q == 0.99)
