"""The accuracy of the estimate against simulated truth, and that certain bounds hold.

Ticks come in random gaps of 0.375 to 0.625 s and take 2 ms. Run with `-s` to print the figures.
"""

from random import Random

import numpy as np
import pytest

from tests.unit.latency.truth import (
    BINS,
    MINUTE_SECONDS,
    TICKS,
    Law,
    World,
    constant,
    exponential,
    lognormal,
    mostly,
    normal,
    simulate,
    solved,
    stalled,
    tally_of,
)
from watchslo.clock.answered import HiddenTimes
from watchslo.clock.burst import Burst, BurstBudget
from watchslo.clock.revision import Origins, RevisionClock
from watchslo.clock.tick_schedule import TickSchedule
from watchslo.latency.cuts import cumulative
from watchslo.latency.estimate import QUANTILES, Estimation, TickSpacing, solve
from watchslo.latency.tally import tally
from watchslo.model import SERVICE, FloatArray, Reading
from watchslo.snapshot import BurstReason, BurstWish

SEEDS = range(9)
MANY_EVENTS = 6000  # of which the shares can be known, and a bias
SECOND = BINS.les.index(1.0)

LAWS = {
    "lognormal 0.8 ms": lognormal(0.0008, 0.4),
    "lognormal 10 ms": lognormal(0.01, 0.6),
    "lognormal 25 ms": lognormal(0.025, 0.43),
    "normal 500 ms": normal(0.5, 0.1),
    "exponential 300 ms": exponential(0.3),
    "1.5% at 3 s": mostly(lognormal(0.02, 0.2), normal(3.0, 0.01), 0.015),
    "20% at 2 s": mostly(lognormal(0.017, 0.3), normal(2.0, 0.1), 0.2),
}


def measured(world: World) -> tuple[FloatArray, FloatArray]:
    """Return P50 and P99, and the share at each `le`, each as rows of truth and estimate."""
    counted = tally_of(world.bounds)
    found = solved(counted)
    quantiles, shares = [], []
    for q in (0.5, 0.99):
        true, reading = world.quantile(q), next(one for one in found.readings() if one.q == q)
        assert reading.lower <= true <= reading.upper
        assert reading.lower <= reading.estimate <= reading.upper
        quantiles.append((true, reading.estimate))
    for le, below in zip(BINS.les, cumulative(found.p)[BINS.le_cuts], strict=True):
        shares.append((float(np.mean(world.latency <= le)), below))
    return np.array(quantiles), np.array(shares)


def over_seeds(law: Law, events: int) -> tuple[FloatArray, FloatArray]:
    quantiles, shares = zip(*(measured(simulate(seed, law, events)) for seed in SEEDS), strict=True)
    return np.array(quantiles), np.array(shares)


def typical_error(pairs: FloatArray) -> FloatArray:
    """Return the median of |estimate - truth| over the seeds."""
    return np.asarray(np.median(np.abs(pairs[..., 1] - pairs[..., 0]), axis=0))


@pytest.mark.parametrize("events", [1000, MANY_EVENTS])
@pytest.mark.parametrize("name", LAWS)
def test_p99_and_shares_are_near_the_truth(name: str, events: int) -> None:
    """Stronger smoothing is biased: with 30%, P99 is some 4% too high for a narrow law."""
    quantiles, shares = over_seeds(LAWS[name], events)
    (median, p99), (truth, _) = typical_error(quantiles), np.median(quantiles[:, 1], axis=0)
    bias, errors = np.median(quantiles[:, 1, 1] - quantiles[:, 1, 0]), typical_error(shares)
    print(
        f"\n{name}, {events}: P50, P99 true and estimated {np.median(quantiles, axis=0).round(4).tolist()}, "
        f"typical errors {median * 1000:.1f} and {p99 * 1000:.1f} ms, "
        f"over 1 s {errors[SECOND]:.2%}, worst at a le {errors.max():.1%}",
        end="",
    )
    assert p99 < (0.005 if truth < 0.02 else max(0.1 * truth, 0.025))
    if events == MANY_EVENTS:
        assert abs(bias) < max(0.05 * truth, 0.0025)
        assert errors[SECOND] < 0.005
        assert errors.max() < 0.05


@pytest.mark.parametrize(
    ("law", "events", "windows"),
    [
        (constant(0.02), 300, 60),
        (constant(0.3), 300, 60),
        (constant(1.0), 1200, 60),
        (lognormal(0.02, 0.5), 1200, 60),
        (mostly(lognormal(0.02, 0.5), constant(3.0), 0.005), 1200, 240),
    ],
    ids=["always 20 ms", "always 300 ms", "always 1 s", "lognormal 20 ms", "0.5% at 3 s"],
)
def test_p99_reaches_its_goal(law: Law, events: int, windows: int) -> None:
    """The typical error is within 10%, and four of five windows are within 25%; 10 ms are always permitted.

    In 60 windows, a share of four of five has a standard error of 5 points; the last law is nearer to the goal.
    """
    worlds = [simulate(seed, law, events) for seed in range(windows)]
    estimations = [Estimation((tally_of(world.bounds),), BINS.uniform, TICKS) for world in worlds]
    solve(estimations)
    true = np.array([world.quantile(0.99) for world in worlds])
    found = np.array([one.figures[2][1] for one in estimations])
    print(f"\nmedian {np.median(found / true):.3f} of the truth", end="")
    assert abs(np.median(found - true)) <= max(0.1 * np.median(true), 0.01)
    assert np.mean(np.abs(found - true) <= np.maximum(0.25 * true, 0.01)) >= 0.8


@pytest.mark.parametrize("median", [0.005, 0.02])
@pytest.mark.parametrize(
    ("begins", "seconds"), [(30.0, 1.0), (30.0, 1.5), (30.0, 3.0), (20.0, 8.0), (20.0, 20.0), (-5.0, 10.0)]
)
def test_no_quantile_of_a_stall_that_holds_ticks_and_events_alike_is_wrong(
    begins: float, seconds: float, median: float
) -> None:
    """At most one of ten windows shows less than half of the truth or more than twice, unless it is marked."""
    worlds = [stalled(begins, seconds, median=median)(seed) for seed in range(60)]
    estimations, hiding = [], []
    for world, ticks in worlds:
        hiding.append(
            HiddenTimes(ticks.sent[ticks.sent <= MINUTE_SECONDS], ticks.answered[ticks.sent <= MINUTE_SECONDS])
        )
        spacing = TickSpacing(0.002, 0.5, lambda _, q, hidden=hiding[-1]: hidden.quantile(q))  # type: ignore[misc]
        estimations.append(Estimation((tally_of(world.bounds),), BINS.uniform, spacing))
    solve(estimations)
    for place, q in enumerate(QUANTILES[:3]):
        true = np.array([world.quantile(q) for world, _ in worlds])
        found = [one.readings()[place] for one in estimations]
        shown = np.array([one.resolved and not one.rough for one in found])
        estimates = np.array([one.estimate for one in found])
        assert np.mean(shown & (estimates + 0.01 < 0.5 * true)) <= 0.1
        assert np.mean(shown & (estimates > 2.0 * true + 0.01)) <= 0.1
        assert np.median([hidden.quantile(q) for hidden in hiding]) < 1.5 * np.median(true) + 0.1
        assert all(one.probable is None for one in found if not one.resolved)


def test_p99_of_few_prompt_events_is_not_late() -> None:
    """900 watches with 67 events each in a minute, all 0.3 ms late: with half a second between two ticks."""
    worlds = [simulate(seed, constant(0.0003), 67) for seed in range(900)]
    estimations = [Estimation((tally_of(world.bounds),), BINS.uniform, TICKS) for world in worlds]
    solve(estimations)
    assert max(one.figures[2][1] for one in estimations) <= 0.01


def test_few_events_are_rough_and_many_are_not() -> None:
    """A tenth of a percent of an event beyond P99 is cut by a tick, or one and a half of them are."""
    few, many = (solved(tally_of(simulate(1, lognormal(0.02, 0.5), events).bounds)) for events in (100, 6000))
    assert [one.rough for one in few.readings()] == [False, True, True]
    assert [one.rough for one in many.readings()] == [False, False, False, True], "P99.9"


def test_reads_through_a_late_cache_lower_the_upper_bound_and_do_not_move_the_estimate() -> None:
    """Reads of the watched resource itself wait for its cache: they prove, but must not cut."""
    found = [estimate_with_reads(seed) for seed in range(12)]
    assert np.median([estimate / true for estimate, true, _ in found]) == pytest.approx(1.0, abs=0.1)
    assert all(upper <= without for _, _, (upper, without) in found)
    assert np.mean([upper / without for _, _, (upper, without) in found]) < 0.98


def estimate_with_reads(seed: int) -> tuple[float, float, tuple[float, float]]:
    """Return the median, its truth, and the upper bound of the P99 with and without the reads.

    Two reads a second are sent at random, and their cache is 0.3 s late.
    """
    rng = np.random.default_rng(seed)
    committed = np.sort(rng.uniform(2, 62, 1200))
    latency = lognormal(0.02, 0.5)(rng, len(committed))
    with_reads, without = RevisionClock(), RevisionClock()
    for sent in np.cumsum(rng.uniform(0.375, 0.625, 140)).tolist():
        for clock in (with_reads, without):
            clock.tick(Reading("events", sent, sent + 0.002, int(committed.searchsorted(sent + 0.001))))
    for sent in rng.uniform(1, 62, 122).tolist():
        with_reads.add_read(Reading("pods", sent, sent + 0.3, int(committed.searchsorted(sent))))
    origins = Origins(np.zeros(len(committed), np.int64), [(SERVICE, "pods")], [True])
    tallies = [
        tally_of(clock.measure(np.arange(1, len(committed) + 1), committed + latency, origins))
        for clock in (with_reads, without)
    ]
    found, other = (solved(counted).figures for counted in tallies)
    return found[0][1], float(np.median(latency)), (found[2][2], other[2][2])


@pytest.mark.parametrize(
    ("before", "after", "change", "burst"),
    [
        (lognormal(0.005, 0.5), lognormal(0.1, 0.2), 42.0, 47.0),
        (lognormal(0.005, 0.5), lognormal(0.1, 0.2), 52.0, 57.0),
        (lognormal(0.1, 0.2), lognormal(0.005, 0.5), 22.0, 12.0),
    ],
    ids=["20 s late", "10 s late", "recovery"],
)
def test_burst_in_a_changed_regime_does_not_change_the_estimated_shares(
    before: Law, after: Law, change: float, burst: float
) -> None:
    """Events are 100 ms late before or after the change; the true share of these is estimated, with a burst or not."""
    for begins in (burst, None):
        made = [changed(seed, before, after, change, begins) for seed in range(40)]
        solve([estimation for estimation, _ in made])
        below = BINS.edge(0.05)
        estimated = np.mean([1.0 - one.p[:below].sum() / one.p.sum() for one, _ in made])
        assert estimated == pytest.approx(np.mean([true for _, true in made]), abs=0.03)


def changed(seed: int, before: Law, after: Law, change: float, burst: float | None) -> tuple[Estimation, float]:
    """Return an estimation of 1200 latencies of a minute whose law changes, and the true share of those over 50 ms."""
    rng, bursts = np.random.default_rng(seed), Burst(BurstBudget(10.0, 10_000.0))
    schedule, now = TickSchedule(Random(seed).random, bursts), 0.0
    committed = np.sort(rng.uniform(2, 62, 1200))
    latency = np.where(committed < change, before(rng, 1200), after(rng, 1200))
    clock = RevisionClock()
    while now < 70:
        if burst is not None and now >= burst:
            bursts.begin(BurstWish(BurstReason.LATE, 60.0), now)
        schedule.allow({"a": 0.5}, now)
        cuts = schedule.sent("a", now)
        schedule.answered("a", now, now + 0.002)
        clock.tick(Reading("events", now, now + 0.002, int(committed.searchsorted(now + 0.001)), "a", cuts))
        schedule.allow({"a": 0.5}, now)
        now = (schedule.next() or (0.0, ""))[0]
    counted = tally_of(clock.measure(np.arange(1, 1201), committed + latency))
    return Estimation((counted,), BINS.uniform, TICKS), float((latency > 0.05).mean())


@pytest.mark.parametrize("gap", [0.5, 1 / 6])
@pytest.mark.parametrize("period", [0.5, 1.0, 1 / 6])
def test_periodic_writer_is_estimated_as_a_random_one(gap: float, period: float) -> None:
    """The jitter of the ticks is small; a writer whose period is their mean gap must not be biased by it."""

    def ratios(period: float | None) -> FloatArray:
        made = [written(seed, gap, period) for seed in range(60)]
        solve([estimation for estimation, _ in made])
        return np.array([estimation.figures[0][1] / true for estimation, true in made])

    periodic, by_chance = ratios(period), ratios(None)
    assert np.mean(periodic) == pytest.approx(np.mean(by_chance), abs=4 * np.std(periodic) / np.sqrt(60))
    assert np.median(periodic) == pytest.approx(1.0, abs=0.1)


def written(seed: int, gap: float, period: float | None) -> tuple[Estimation, float]:
    """Return an estimation of 600 latencies of about 20 ms, written at once in each period, and the true median."""
    rng, schedule = np.random.default_rng(seed), TickSchedule(Random(seed).random, Burst(BurstBudget(10.0, 0.0)))
    schedule.allow({"a": gap}, 0.0)
    sent = [0.0]
    while sent[-1] < 65:
        schedule.sent("a", sent[-1])
        schedule.answered("a", sent[-1], sent[-1] + 0.002)
        sent.append((schedule.next() or (0.0, ""))[0])
    ticks, committed = np.array(sent), rng.uniform(2, 62, 600)
    if period is not None:
        begun = np.arange(2 + rng.uniform(0, period), 62, period)
        committed = (begun[:, None] + rng.uniform(0, 0.002, round(600 * period / 60))).ravel()
    latency = lognormal(0.02, 0.5)(rng, len(committed))
    received, after = committed + latency, (ticks + 0.001).searchsorted(committed)
    lower, upper = received - np.minimum(received, ticks[after] + 0.002), received - ticks[after - 1]
    counted = tally(BINS, lower, upper, lower, upper)
    return Estimation((counted,), BINS.uniform, TickSpacing(0.002, gap)), float(np.median(latency))
