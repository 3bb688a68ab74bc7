"""The mixture of lognormal laws: its formulas against plain numerical ones, and what it finds in exact evidence."""

import math
from collections.abc import Generator
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.latency.truth import BINS, Law, constant, exponential, lognormal, mostly, simulate, solved, tally_of
from watchslo.latency import mixture as module
from watchslo.latency.cuts import Cuts, cumulative
from watchslo.latency.estimate import closed_cuts
from watchslo.latency.mixture import (
    Refined,
    fit,
    normal,
    quantiles,
    refine,
    share_below,
    slopes,
    start_of_one,
    start_of_two,
)
from watchslo.latency.tally import Tally
from watchslo.model import FloatArray

Result = TypeVar("Result")
ONE = np.array([[-4.0, -0.7], [-1.0, -3.0]])
TWO = np.array([[-4.0, -1.0, -0.7, -2.0, -3.0], [-5.0, 0.5, -1.0, 0.0, 0.4]])
X = np.array([[-9.0, -4.5, -3.9, -1.1, 0.3], [-6.0, -5.0, -1.05, -0.9, 1.0]])


def run(steps: Generator[None, None, Result]) -> Result:
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: Result = ended.value
            return result


def cuts_of(*tallies: Tally) -> tuple[Cuts, FloatArray]:
    """Return the cuts of tallies as rows, and their numbers of events."""
    parts = [closed_cuts(counted) for counted in tallies]
    rows = np.repeat(np.arange(len(parts)), [len(i) for i, _, _ in parts])
    masses = [counts / counts.sum() for _, _, counts in parts]
    i, j = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    return Cuts(rows, i, j, np.concatenate(masses)), np.array([float(counted.n) for counted in tallies])


def refined(*laws: Law, events: int = 1200, q: float = 0.99) -> Refined:
    tallies = [tally_of(simulate(seed, law, events).bounds) for seed, law in enumerate(laws)]
    cuts, n = cuts_of(*tallies)
    p = np.array([solved(counted).smooth for counted in tallies])
    return run(refine(BINS, p, cuts, n, np.full((len(n), 1), q), np.full(len(n), 0.002), np.full(len(n), 0.5)))


class TestLaw:
    def test_normal_is_near_the_exact_function(self) -> None:
        z = np.linspace(-9, 9, 1001)
        below, density = normal(z)
        exact = np.array([(1 + math.erf(one / math.sqrt(2))) / 2 for one in z])
        assert np.abs(below - exact).max() < 1.5e-4
        assert np.abs(density - np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)).max() < 1e-3

    @pytest.mark.parametrize("theta", [ONE, TWO])
    def test_share_below_rises_from_none_to_all(self, theta: FloatArray) -> None:
        assert share_below(theta, np.full((2, 1), -np.inf)) == pytest.approx(np.zeros((2, 1)), abs=1e-9)
        assert share_below(theta, np.full((2, 1), np.inf)) == pytest.approx(np.ones((2, 1)), abs=1e-9)
        assert (np.diff(share_below(theta, X)) >= 0).all()

    def test_second_law_has_its_share(self) -> None:
        between = np.array([[-2.0], [-2.2]])
        second = 1 / (1 + np.exp(-TWO[:, 4:]))
        assert share_below(TWO, between) == pytest.approx(1 - second, abs=0.01)

    @pytest.mark.parametrize("theta", [ONE, TWO])
    def test_slopes_are_those_of_the_share(self, theta: FloatArray) -> None:
        below, by = slopes(theta, X)
        assert below == pytest.approx(share_below(theta, X))
        for k in range(theta.shape[1]):
            step = np.zeros(theta.shape[1])
            step[k] = 1e-6
            change = (share_below(theta + step, X) - share_below(theta - step, X)) / 2e-6
            assert by[:, :, k] == pytest.approx(change, abs=1e-8)

    def test_quantiles_invert_the_share(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "BISECTIONS", 40)
        qs = np.array([[0.01, 0.5, 0.99], [0.1, 0.7, 0.999]])
        found = quantiles(TWO, qs, np.full(qs.shape, -12.0), np.full(qs.shape, 8.0))
        assert share_below(TWO, found) == pytest.approx(qs, abs=1e-9)


class TestEvidence:
    def test_cuts_end_in_the_middles_of_their_outer_bins_and_half_a_round_trip_inside(self) -> None:
        i, j = BINS.edge(0.1), BINS.edge(0.5)
        evidence = self.of(i, j)
        lower, upper = evidence.x[0, evidence.lower[0]], evidence.x[0, evidence.upper[0]]
        assert lower == pytest.approx(math.log(math.sqrt(0.1 * BINS.edges[i + 1]) + 0.01))
        assert upper == pytest.approx(math.log(math.sqrt(0.5 * BINS.edges[j - 1]) - 0.01))

    def test_ends_are_never_below_a_quarter_of_their_edge(self) -> None:
        evidence = self.of(0, 3)
        assert evidence.x[0, evidence.upper[0]] == pytest.approx(math.log(BINS.edges[3] / 4))

    def test_first_and_open_cuts_have_no_end(self) -> None:
        evidence = self.of(0, BINS.count)
        assert evidence.x[0, evidence.lower[0]] == -np.inf
        assert evidence.x[0, evidence.upper[0]] == np.inf

    def test_a_cut_of_one_bin_ends_in_the_middles_of_its_neighbours(self) -> None:
        evidence, edges = self.of(40, 41, round_trip=0.0), BINS.edges[39:43]
        lower, upper = evidence.x[0, evidence.lower[0]], evidence.x[0, evidence.upper[0]]
        assert (lower, upper) == pytest.approx((np.log(edges[:2]).mean(), np.log(edges[2:]).mean()))

    def test_a_cut_of_the_last_closed_bin_is_widened_to_infinity(self) -> None:
        evidence = self.of(BINS.count - 2, BINS.count - 1)
        assert evidence.x[0, evidence.upper[0]] == np.inf

    def of(self, i: int, j: int, round_trip: float = 0.02) -> module._ObservedCuts:
        cuts = Cuts(np.array([0]), np.array([i]), np.array([j]), np.array([1.0]))
        return module._ObservedCuts.of(BINS, cuts, np.array([7.0]), np.array([round_trip]))


class TestStarts:
    def test_one_law_starts_at_the_moments(self) -> None:
        p = np.zeros((2, BINS.count))
        p[0, 40], p[0, 60], p[1, 50] = 0.5, 0.5, 1.0
        at = np.log(BINS.midpoints)
        expected = [[(at[40] + at[60]) / 2, math.log((at[60] - at[40]) / 2)], [at[50], math.log(0.05)]]
        assert start_of_one(BINS, p) == pytest.approx(np.array(expected))

    def test_two_laws_start_at_two_modes(self) -> None:
        p = np.zeros((1, BINS.count))
        p[0, 40], p[0, 41], p[0, 90] = 0.45, 0.45, 0.1
        at = np.log(BINS.midpoints)
        first, second, _, _, logit = start_of_two(BINS, p)[0]
        assert (first, second) == pytest.approx(((at[40] + at[41]) / 2, at[90]))
        assert logit == pytest.approx(math.log(0.1 / 0.9))


class TestFit:
    @pytest.mark.parametrize(("median", "sigma"), [(0.005, 0.5), (0.3, 0.2), (1.0, 1.0)])
    def test_finds_the_law(self, median: float, sigma: float) -> None:
        counted = tally_of(simulate(3, lognormal(median, sigma), 30_000).bounds)
        cuts, n = cuts_of(counted)
        evidence = module._ObservedCuts.of(BINS, cuts, n, np.array([0.002]))
        found = run(fit(start_of_one(BINS, solved(counted).smooth[None]), evidence, 8))
        assert found.theta[0] == pytest.approx([math.log(median), math.log(sigma)], abs=0.1)

    def test_never_becomes_less_likely(self) -> None:
        evidence = evidence_of(*(tally_of(simulate(seed, law, 300).bounds) for seed, law in enumerate(LAWS)))
        starts = np.tile([3.0, 0.5], (len(LAWS), 1))
        likelihoods = [run(fit(starts, evidence, steps)).likelihood for steps in (1, 2, 5, 10, 20)]
        assert starts.tolist() == [[3.0, 0.5]] * len(LAWS)
        assert (np.diff(likelihoods, axis=0) >= 0).all()


LAWS = lognormal(0.02, 0.5), constant(0.3), exponential(0.3), mostly(lognormal(0.005, 0.5), constant(0.5), 0.1)


def evidence_of(*tallies: Tally) -> module._ObservedCuts:
    cuts, n = cuts_of(*tallies)
    return module._ObservedCuts.of(BINS, cuts, n, np.full(len(n), 0.002))


class TestRepair:
    def test_step_is_that_of_em_with_half_bins(self) -> None:
        cuts = Cuts(np.array([0, 0, 0]), np.array([0, 1, 2]), np.array([2, 4, 3]), np.array([0.2, 0.5, 0.3]))
        p = np.array([0.1, 0.4, 0.3, 0.2])
        held = np.array([p[0] + p[1] / 2, p[1] / 2 + p[2] + p[3] / 2, p[2]])
        expected = [
            0.2 * p[0] / held[0],
            0.2 * p[1] / 2 / held[0] + 0.5 * p[1] / 2 / held[1],
            0.5 * p[2] / held[1] + 0.3,
            0.5 * p[3] / 2 / held[1],
        ]
        repair = module._Repair.of(cuts, np.array([10.0]), 4)
        assert repair.step(p[None])[0] == pytest.approx(expected)
        assert repair.likelihood(p[None]) == pytest.approx(10 * np.log(held) @ cuts.masses)


class TestRefine:
    def test_finds_one_mode_and_two(self) -> None:
        slow = mostly(lognormal(0.005, 0.5), constant(0.5), 0.05)
        found = np.exp(refined(lognormal(0.02, 0.5), slow, constant(0.3), events=6000).quantiles[:, 0])
        assert found == pytest.approx([0.064, 0.5, 0.3], rel=0.15)

    def test_repairs_a_law_of_another_shape(self) -> None:
        """An exponential law has fewer late events than the lognormal law that is nearest to it."""
        found = refined(exponential(0.3), events=6000)
        assert np.exp(found.quantiles[0, 0]) == pytest.approx(-0.3 * math.log(0.01), rel=0.1)
        assert cumulative(found.p)[0, BINS.edge(1.0)] == pytest.approx(1 - math.exp(-1 / 0.3), abs=0.01)

    def test_errors_shrink_with_more_events(self) -> None:
        few, many = (refined(lognormal(0.02, 0.5), events=events).errors[0, 0] for events in (200, 20_000))
        assert few > 2 * many

    @given(st.integers(1, 9), st.integers(0, BINS.count - 1), st.integers(1, BINS.count))
    def test_has_finite_figures_for_any_single_cut(self, n: int, i: int, j: int) -> None:
        i, j = min(i, j - 1), max(i + 1, j)
        cuts = Cuts(np.array([0]), np.array([i]), np.array([j]), np.array([1.0]))
        p = np.zeros((1, BINS.count))
        p[0, i:j] = 1 / (j - i)
        qs = np.array([[0.5, 0.99]])
        found = run(refine(BINS, p, cuts, np.array([float(n)]), qs, np.array([0.002]), np.array([0.5])))
        assert np.isfinite(found.quantiles).all()
        assert np.isfinite(found.errors).all()
        assert found.p.sum() == pytest.approx(1)
        assert found.p[0, :i].sum() + found.p[0, j:].sum() == 0
