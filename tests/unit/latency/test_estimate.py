"""The estimator, by exact numbers and against a plain version of EM; test_accuracy tests its accuracy."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.latency.truth import BINS, TICKS, bounds_of, exponential, lognormal, simulate, solved, tallied, tally_of
from watchslo.latency import estimate as module
from watchslo.latency.bins import Bins
from watchslo.latency.cuts import Cuts, cumulative
from watchslo.latency.estimate import (
    Estimation,
    RollingEstimate,
    TickSpacing,
    closed_cuts,
    rounds,
    solve,
)
from watchslo.latency.tally import Tally, later_than, merge
from watchslo.model import FloatArray, IntArray, Interval
from watchslo.snapshot import WindowReading

INF = math.inf
ONE = Bins([1.0])  # its edges are powers of 2^(1/8), 0 and infinity


def edge(eighths: int) -> float:
    return float(2 ** (eighths / 8))


def k_of(eighths: int) -> int:
    """Return the number of the bin of ONE that begins at this power of 2^(1/8)."""
    return eighths + 81


def mass_within(p: FloatArray, lower: float, upper: float, bins: Bins = BINS) -> float:
    (i,), (j,) = bins.cover(np.array([lower]), np.array([upper]))
    return float(p[i:j].sum())


def plain(counted: Tally, steps: int) -> FloatArray:
    """Run EMS as textbooks define it: interval by interval, without acceleration."""
    p = counted.bins.uniform
    for _ in range(steps):
        outward = 0.025 * p
        smooth = p - 2 * outward
        smooth[1:] += outward[:-1]
        smooth[:-1] += outward[1:]
        smooth[0] += outward[0]
        smooth[-1] += outward[-1]
        p = np.zeros(len(p))
        for i, j, count in zip(*closed_cuts(counted), strict=True):
            p[i:j] += count / counted.n * smooth[i:j] / smooth[i:j].sum()
    return p


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with each EM step, by the number of distributions."""
    taken: list[int] = []
    step: Callable[..., FloatArray] = module._step

    def counted(p: FloatArray, cuts: Any) -> FloatArray:
        taken.append(len(p))
        return step(p, cuts)

    monkeypatch.setattr(module, "_step", counted)
    return taken


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let EM search until it hardly moves any mass."""
    monkeypatch.setattr(module, "TOLERANCE", 1e-4)


class TestClosedCuts:
    def test_does_not_change_closed_cuts(self) -> None:
        i, j, counts = closed_cuts(tallied((1.0, 2.0), (1.0, 2.0), (0, 1.0), bins=ONE))
        assert (i.tolist(), j.tolist(), counts.tolist()) == ([0, 81], [81, 89], [1, 2])

    def test_closes_open_cuts_at_the_highest_closed_end(self) -> None:
        i, j, _ = closed_cuts(tallied((1.0, 2.0), (0, 1.0), (0.5, INF), bins=ONE))
        assert list(zip(i.tolist(), j.tolist(), strict=True)) == [(0, 81), (73, 89), (81, 89)]

    def test_closes_open_cuts_after_the_bin_of_the_last_lower_end(self) -> None:
        i, j, _ = closed_cuts(tallied((1.0, 2.0), (4.0, INF), (0.5, INF), bins=ONE))
        assert list(zip(i.tolist(), j.tolist(), strict=True)) == [(73, 98), (81, 89), (97, 98)]

    def test_closes_cuts_of_the_open_bin_at_infinity(self) -> None:
        i, j, _ = closed_cuts(tallied((200, INF), (3, INF), bins=ONE))
        assert (i.tolist(), j.tolist()) == ([k_of(12), ONE.count - 1], [ONE.count, ONE.count])


def step(p: FloatArray, i: IntArray, j: IntArray, masses: FloatArray) -> FloatArray:
    """Return one step of one distribution."""
    found: FloatArray = module._step(p[None], Cuts(np.zeros(len(i), np.int64), i, j, masses))[0]
    return found


class TestStep:
    def test_divides_mass_in_proportion_to_the_smoothed_distribution(self) -> None:
        p = np.array([0.5, 0.3, 0.2])
        smooth = [0.495, 0.3025, 0.2025]
        i, j, masses = np.array([0, 1]), np.array([2, 3]), np.array([0.75, 0.25])
        expected = [
            0.75 * smooth[0] / (smooth[0] + smooth[1]),
            0.75 * smooth[1] / (smooth[0] + smooth[1]) + 0.25 * smooth[1] / (smooth[1] + smooth[2]),
            0.25 * smooth[2] / (smooth[1] + smooth[2]),
        ]
        assert step(p, i, j, masses) == pytest.approx(expected, rel=1e-12)
        assert p.tolist() == [0.5, 0.3, 0.2]

    def test_leaves_no_mass_outside_of_intervals(self) -> None:
        p = step(np.full(5, 0.2), np.array([1]), np.array([3]), np.array([1.0]))
        assert p == pytest.approx([0, 0.5, 0.5, 0, 0], abs=1e-15)
        assert (p >= 0).all()


class TestEstimate:
    def test_cold_start_is_uniform(self) -> None:
        assert ONE.uniform.tolist() == [1 / 138] * 138

    def test_puts_mass_where_intervals_overlap(self) -> None:
        p = solved(tallied(*[(1.0, 2.0), (edge(6), 4.0), (edge(4), edge(10))] * 5, bins=ONE), ONE.uniform).smooth
        assert mass_within(p, edge(6), edge(8), ONE) > 0.9

    def test_puts_wide_intervals_where_the_others_are(self) -> None:
        p = solved(tallied(*[(0.02, 0.021)] * 10, *[(0, 60)] * 90), BINS.uniform).smooth
        assert mass_within(p, 0.015, 0.03) > 0.95

    def test_puts_right_censored_events_as_early_as_possible(self) -> None:
        counted = merge(BINS, [tallied(*[(0.02, 0.02)] * 9), later_than(BINS, [3.0])])
        p = solved(counted, BINS.uniform).smooth
        assert mass_within(p, 3.0, 3.0) == pytest.approx(0.1, abs=1e-12)

    def test_puts_right_censored_events_where_late_ones_are(self) -> None:
        counted = merge(BINS, [tallied(*[(0.02, 0.02)] * 8, (7.0, 7.0)), later_than(BINS, [3.0])])
        p = solved(counted, BINS.uniform).smooth
        assert mass_within(p, 6.0, 8.0) > 0.19
        assert p[BINS.edges[:-1] > 7].sum() < 1e-12

    @pytest.mark.usefixtures("exact")
    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("law", [exponential(0.3), lognormal(0.02, 0.5)])
    def test_equals_the_result_of_plain_em(self, law: Callable[..., FloatArray], seed: int) -> None:
        counted = tally_of(simulate(seed, law, 300).bounds)
        p, slow = solved(counted, BINS.uniform).smooth, plain(counted, 1000)
        assert np.abs(cumulative(p) - cumulative(slow)).max() < 0.01

    def test_is_a_fixed_point_of_em(self) -> None:
        counted = tally_of(simulate(7, exponential(0.1), 1000).bounds)
        i, j, counts = closed_cuts(counted)
        p = solved(counted, BINS.uniform).smooth
        assert np.abs(step(p, i, j, counts / counted.n) - p).sum() < module.TOLERANCE

    @pytest.mark.usefixtures("exact")
    def test_depends_little_on_the_start(self) -> None:
        counted = tally_of(simulate(3, exponential(0.3), 1000).bounds)
        late = np.linspace(0.0001, 1, BINS.count) ** 3
        p, other = solved(counted, BINS.uniform).smooth, solved(counted, late / late.sum()).smooth
        assert np.abs(cumulative(p) - cumulative(other)).max() < 0.01

    def test_needs_few_steps_and_fewer_from_a_warm_start(self, steps: list[int]) -> None:
        counted = tally_of(simulate(3, lognormal(0.02, 0.4), 6000).bounds)
        p = solved(counted, BINS.uniform).smooth
        assert 20 < len(steps) < 100
        steps.clear()
        solved(counted, p)
        assert len(steps) <= 4

    def test_stops_at_once_at_its_own_result(self, steps: list[int]) -> None:
        counted = tallied((1.0, 1.05), bins=ONE)
        solved(counted, solved(counted, ONE.uniform).smooth)
        assert len(steps) == 3 + 1 + 1

    def test_stops_after_the_maximum_of_rounds(self, steps: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "ROUNDS", 2)
        p = solved(tally_of(simulate(3, exponential(0.3), 1000).bounds), BINS.uniform).smooth
        assert len(steps) == 6
        assert p.sum() == pytest.approx(1, abs=1e-12)

    @settings(max_examples=60)
    @given(
        st.lists(
            st.tuples(st.integers(0, BINS.count - 1), st.integers(1, BINS.count), st.sampled_from([1, 3, 1000, 10**8])),
            min_size=1,
            max_size=10,
        )
    )
    def test_is_a_distribution_within_the_intervals(self, drawn: list[tuple[int, int, int]]) -> None:
        size = len(BINS.edges)
        cuts = {(min(i, j - 1), max(i + 1, j)): count for i, j, count in drawn}
        pairs = np.array(sorted(cuts))
        counts = np.array([cuts[i, j] for i, j in sorted(cuts)])
        n = int(counts.sum())
        ends = [size * size, size * (size + 1) + BINS.count]  # all proven intervals are as wide as possible
        keys = np.append(pairs[:, 0] * size + pairs[:, 1], ends)
        counted = Tally(BINS, keys, np.append(counts, [n, n]), n)
        p = solved(counted, BINS.uniform).smooth
        assert (p >= 0).all()
        assert p.sum() == pytest.approx(1, abs=1e-9)
        below = cumulative(p)
        held = below[pairs[:, 1]] - below[pairs[:, 0]]
        assert (held >= counts / n * (1 - 1e-6) - 1e-12).all()


def unrefined(rows: Any) -> Iterator[None]:
    """Note the results of EM only."""
    for one, p in zip(rows.estimations, rows.p, strict=True):
        one.smooth = p
        yield


class TestAcceleration:
    """One round with artificial steps: two steps, an extrapolation from their start, and a step from its result."""

    START, TARGET = np.array([0.5, 0.5]), np.array([0.75, 0.25])

    def after_a_round(self, monkeypatch: pytest.MonkeyPatch, step: Callable[[FloatArray], FloatArray]) -> FloatArray:
        monkeypatch.setattr(module, "ROUNDS", 1)
        monkeypatch.setattr(module, "_step", lambda p, *_: np.array([step(row) for row in p]))
        monkeypatch.setattr(module, "_refined", unrefined)
        return solved(tallied((1.0, 1.05)), self.START).smooth

    def test_reaches_the_limit_of_shrinking_steps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        p = self.after_a_round(monkeypatch, lambda p: p + (self.TARGET - p) / 4)
        assert p.tolist() == self.TARGET.tolist()

    def test_is_no_shorter_than_the_steps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        p = self.after_a_round(monkeypatch, lambda p: 2 * self.TARGET - p)
        assert p.tolist() == [1.0, 0.0]

    def test_extrapolates_by_at_most_256_steps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Equal steps that move just enough mass not to stop the search."""
        drift = np.array([2**-13, -(2**-13)])
        monkeypatch.setattr(module, "TOLERANCE", 2**-12)
        p = self.after_a_round(monkeypatch, lambda p: p + drift)
        assert p.tolist() == (self.START + 513 * drift).tolist()


class TestTogether:
    """Several distributions as the rows of one matrix."""

    def test_of_none_there_is_nothing_to_solve(self) -> None:
        solve([])

    def test_each_is_found_as_if_it_were_alone(self) -> None:
        laws = lognormal(0.02, 0.4), exponential(0.3), lognormal(0.5, 0.1), lognormal(0.02, 0.4)
        tallies = [tally_of(simulate(seed, law, 40 * 5**seed).bounds) for seed, law in enumerate(laws)]
        starts = [BINS.uniform, BINS.uniform, solved(tallies[2], BINS.uniform).smooth, BINS.uniform]
        together = [Estimation((counted,), start, TICKS) for counted, start in zip(tallies, starts, strict=True)]
        solve(together)
        for counted, start, found in zip(tallies, starts, together, strict=True):
            alone = solved(counted, start)
            assert found.smooth == pytest.approx(alone.smooth, abs=1e-12)
            assert found.p == pytest.approx(alone.p, abs=1e-9)
            assert np.array(found.figures) == pytest.approx(np.array(alone.figures), abs=1e-9)

    def test_a_found_one_is_not_searched_any_further(self, steps: list[int]) -> None:
        counted = tally_of(simulate(3, exponential(0.3), 1000).bounds)
        start = BINS.uniform
        found = solved(counted, start).smooth
        alone = len(steps)
        steps.clear()
        solve([Estimation((counted,), found, TICKS), Estimation((counted,), start, TICKS)])
        assert len(steps) == alone
        assert set(steps[1:]) == {1}

    @pytest.mark.usefixtures("exact")
    def test_those_that_are_found_make_room_for_others(self, steps: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
        """The slow one takes part in all rounds; each other is found in its second one."""
        monkeypatch.setattr(module, "ROWS", 3)
        monkeypatch.setattr(module, "REFILLED_ROWS", 2)
        slow = tally_of(simulate(3, exponential(0.3), 1000).bounds)
        tallies = [slow, *(tallied((at, at * 1.01)) for at in np.linspace(0.01, 4.0, 9))]
        due = [Estimation((counted,), BINS.uniform, TICKS) for counted in tallies]
        taken = sum(1 for _ in rounds(due))
        together = len(steps)
        assert max(steps) == 3
        for one, counted in zip(due, tallies, strict=True):
            assert one.smooth == pytest.approx(solved(counted, BINS.uniform).smooth, abs=1e-12)
        steps.clear()
        solved(slow)
        assert together == len(steps)
        assert taken > together // 3 + 1  # in the last round there is one step only; refining has pauses of its own

    def test_bounds_are_those_of_each_tally_and_limit_the_estimates(self) -> None:
        worlds = [simulate(seed, lognormal(0.02, 0.4), 40 * 5**seed) for seed in range(3)]
        tallies = [tally_of(world.bounds) for world in worlds] + [merge(BINS, [tallied((0.1, INF)), tallied((0, 1))])]
        due = [Estimation((counted, counted), BINS.uniform, TICKS, 0.95) for counted in tallies]
        solve(due)
        for one, counted in zip(due, tallies, strict=True):
            assert one.qs == (0.5, 0.9, 0.99, 0.999, 0.95)
            twice = merge(BINS, (counted, counted))
            assert [(lower, upper) for lower, _, upper in one.figures] == [
                (bounds.lower, bounds.upper) for bounds in (bounds_of(twice, q) for q in one.qs)
            ]
            assert all(lower <= estimate <= upper for lower, estimate, upper in one.figures)


class TestQuantileBounds:
    def test_are_quantiles_of_the_ordered_ends(self) -> None:
        counted = tallied(*[(0.0, 1.0, 0.0)] * 98, (0.5, 2.5, 0.5), (0.5, 30.0, 1.0))
        assert bounds_of(counted, 0.98) == Interval(0, 1)
        assert bounds_of(counted, 0.981) == Interval(0.5, 2.5)
        assert bounds_of(counted, 0.99) == Interval(0.5, 2.5)
        assert bounds_of(counted, 0.991) == Interval(1, 30)

    def test_are_not_one_rank_too_high_by_rounding(self) -> None:
        counted = tallied(*[(0.0, 0.5)] * 7, *[(1.0, 2.5)] * 93)
        assert 0.07 * 100 > 7
        assert bounds_of(counted, 0.07) == Interval(0, 0.5)

    def test_are_infinite_without_an_upper_end(self) -> None:
        assert bounds_of(tallied((0.0, 1.0), (0.5, INF)), 0.99) == Interval(0.5, INF)

    @given(
        st.lists(
            st.tuples(st.floats(0, 200), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=40
        ),
        st.floats(0.001, 0.999),
    )
    def test_hold_the_true_sample_quantile(self, events: list[tuple[float, float, float, float]], q: float) -> None:
        """This holds for any latencies and any intervals around them."""
        counted = tallied(*[(max(0, x - a - b), x + c, max(0, x - a)) for x, a, b, c in events])
        true = sorted(x for x, *_ in events)[math.ceil(round(q * len(events), 6)) - 1]
        held = bounds_of(counted, q)
        assert held.lower <= true <= held.upper


def evaluate(rolling: RollingEstimate, tallies: tuple[Tally, ...], round_trip: float) -> None:
    solve(rolling.update(tallies, TickSpacing(round_trip, 0.5)))
    rolling.publish()


class TestRollingEstimate:
    @pytest.fixture
    def rolling(self) -> RollingEstimate:
        return RollingEstimate(BINS, "1m", 60.0)

    def test_is_empty_at_first(self, rolling: RollingEstimate) -> None:
        assert rolling.reading == WindowReading("1m", 60.0, 0, ())
        assert rolling.p == pytest.approx(BINS.uniform)

    def test_reads_three_quantiles(self, rolling: RollingEstimate) -> None:
        evaluate(rolling, (tallied((0.1, 0.1)), tallied((0.1, 0.1))), 0.05)
        reading = rolling.reading
        assert (reading.name, reading.length, reading.events) == ("1m", 60.0, 2)
        assert [quantile.q for quantile in reading.quantiles] == [0.5, 0.9, 0.99]
        assert all(quantile.lower <= 0.1 <= quantile.upper and quantile.resolved for quantile in reading.quantiles)
        assert rolling.p[BINS.cover(np.array([0.1]), np.array([0.1]))[0]] == pytest.approx(1)

    @pytest.mark.parametrize(("events", "qs"), [(999, (0.5, 0.9, 0.99)), (1000, (0.5, 0.9, 0.99, 0.999))])
    def test_has_p999_of_a_thousand_events(self, rolling: RollingEstimate, events: int, qs: tuple[float, ...]) -> None:
        evaluate(rolling, (tallied(*[(0.1, 0.1)] * (events - 1), (7.0, 7.0)),), 0.05)
        assert tuple(quantile.q for quantile in rolling.reading.quantiles) == qs

    def test_p999_is_rough_unless_its_bounds_are_narrow(self, rolling: RollingEstimate) -> None:
        """The proven bounds contain the true one all the same."""
        exact = tallied(*[(0.1, 0.1)] * 1000)
        evaluate(rolling, (exact,), 0.002)
        assert not rolling.reading.quantiles[-1].rough
        world = simulate(3, lognormal(0.02, 1.0), 20_000)
        evaluate(rolling, (tally_of(world.bounds),), 0.002)
        tail = rolling.reading.quantiles[-1]
        assert tail.q == 0.999
        assert tail.rough
        assert not rolling.reading.quantiles[-2].rough
        truth = np.sort(world.latency)[math.ceil(0.999 * len(world.latency)) - 1]
        assert tail.lower <= truth <= tail.upper
        assert tail.lower <= tail.estimate <= tail.upper

    def test_objective_has_its_p999_with_any_number_of_events(self) -> None:
        rolling = RollingEstimate(BINS, "1m", 60.0, 0.999)
        evaluate(rolling, (tallied((0.1, 0.1)),), 0.05)
        assert [quantile.q for quantile in rolling.reading.quantiles] == [0.5, 0.9, 0.99, 0.999]

    def test_has_no_quantiles_after_all_events_left(self, rolling: RollingEstimate) -> None:
        evaluate(rolling, (tallied((0.1, 0.1)),), 0.0)
        p = rolling.p
        evaluate(rolling, (), 0.0)
        assert rolling.reading == WindowReading("1m", 60.0, 0, ())
        assert rolling.p.tolist() == p.tolist()

    def test_does_nothing_for_the_same_tallies(self, rolling: RollingEstimate, steps: list[int]) -> None:
        parts = (tallied((0.1, 0.9)), tallied((0.1, 0.5)))
        evaluate(rolling, parts, 0.0)
        reading = rolling.reading
        steps.clear()
        evaluate(rolling, (parts[0], parts[1]), 0.0)
        assert rolling.reading is reading
        assert not steps
        evaluate(rolling, parts[1:], 0.0)
        assert steps

    def test_does_nothing_without_tallies(self, rolling: RollingEstimate) -> None:
        reading = rolling.reading
        evaluate(rolling, (), 0.0)
        assert rolling.reading is reading

    def test_starts_from_the_last_result(self, rolling: RollingEstimate, steps: list[int]) -> None:
        parts = tuple(tally_of(simulate(seed, lognormal(0.02, 0.4), 500, seconds=5).bounds) for seed in range(13))
        evaluate(rolling, parts[:-1], 0.0)
        cold = len(steps)
        steps.clear()
        evaluate(rolling, parts[1:], 0.0)
        assert len(steps) < 0.6 * cold

    def test_starts_with_a_little_mass_everywhere(self, rolling: RollingEstimate) -> None:
        evaluate(rolling, (tallied((0.1, 0.1)),), 0.0)
        (due,) = rolling.update((tallied((7.0, 7.0)),), TICKS)
        assert due.smooth == pytest.approx(0.999 * rolling._smooth + 0.001 / BINS.count, rel=1e-6)
