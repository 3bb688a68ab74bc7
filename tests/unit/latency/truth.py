"""Helpers of the latency tests: explicit bounds, and a simulated world with known latencies."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from watchslo.clock.tick_schedule import JITTER, SLOW_SECONDS
from watchslo.latency.bins import Bins
from watchslo.latency.estimate import Estimation, TickSpacing, solve
from watchslo.latency.tally import Tally, tally
from watchslo.model import AnsweredTicks, Bounds, FloatArray, Interval

BINS = Bins()

Law = Callable[[np.random.Generator, int], FloatArray]
"""Draws n latencies, in seconds."""
MINUTE_SECONDS = 60.0


def bounds(*events: tuple[float, ...]) -> Bounds:
    """Return the bounds of events given as (lower, upper), optionally with one or both proven ends."""
    rows = [(*event, *(event[0], event[1])[len(event) - 2 :]) for event in events]
    lower, upper, proven, proven_upper = np.array(rows, dtype=np.float64).T
    return Bounds(lower, upper, proven, proven_upper, np.ones(len(events), dtype=np.bool_))


def regular(start: float, end: float, gap: float = 0.5) -> AnsweredTicks:
    """Return ticks at equal gaps, without round trips."""
    sent = np.arange(start, end + gap, gap)
    return AnsweredTicks(start, end, sent, sent)


def tallied(*events: tuple[float, ...], bins: Bins = BINS) -> Tally:
    return tally_of(bounds(*events), bins)


def tally_of(bounds: Bounds, bins: Bins = BINS) -> Tally:
    return tally(bins, bounds.lower, bounds.upper, bounds.proven, bounds.proven_upper)


TICKS = TickSpacing(0.002, 0.5)  # as `simulate` does by default


def solved(counted: Tally, start: FloatArray = BINS.uniform, ticks: TickSpacing = TICKS, q: float = 0.99) -> Estimation:
    """Return the solved estimation of one distribution."""
    estimation = Estimation((counted,), start, ticks, q)
    solve([estimation])
    return estimation


def bounds_of(counted: Tally, q: float = 0.99) -> Interval:
    """Return the certain bounds of the q-quantile."""
    lower, _, upper = solved(counted, counted.bins.uniform, q=q).figures[-1]
    return Interval(lower, upper)


def cut_by(sent: FloatArray, answered: FloatArray, commit: FloatArray, received: FloatArray) -> Bounds:
    """Return the intervals that ticks cut, if each tick reads when it is sent, and no event proves another commit."""
    after = sent.searchsorted(commit)
    lower, upper = received - np.minimum(received, answered[after]), received - sent[after - 1]
    return Bounds(lower, upper, lower, upper, np.ones(len(commit), dtype=np.bool_))


@dataclass(frozen=True, slots=True)
class World:
    """True latencies, and the intervals that a clock would cut, in the order of commits."""

    latency: FloatArray
    received: FloatArray
    bounds: Bounds

    def quantile(self, q: float) -> float:
        """Return the ceil(q * n)-th smallest true latency."""
        return float(np.sort(self.latency)[int(np.ceil(round(q * len(self.latency), 6))) - 1])


Simulation = Callable[[int], tuple[World, AnsweredTicks]]
"""Simulates a minute, and its ticks from those on that were answered a second before it, from a seed."""


def simulate(seed: int, law: Law, events: int, seconds: float = 60.0, gap: float = 0.5) -> World:
    """Simulate Poisson commits, `events` of them on average, and ticks of about 2 ms with the gaps of a `TickSchedule`.

    No event proves the commit of another one here, so the proven intervals equal the cut ones.
    """
    rng = np.random.default_rng(seed)
    sent = np.cumsum(gap * rng.uniform(1 - JITTER, 1 + JITTER, int((seconds + 100) / gap))) - 2.0
    round_trip = 0.001 + rng.exponential(0.001, len(sent))
    answered, read = sent + round_trip, sent + round_trip * rng.uniform(size=len(sent))
    commit = np.sort(rng.uniform(0, seconds, rng.poisson(events)))
    latency = law(rng, len(commit))
    received = commit + latency
    first_seen = np.searchsorted(read, commit)
    lower = received - np.minimum(received, answered[first_seen])
    upper = received - sent[first_seen - 1]
    return World(latency, received, Bounds(lower, upper, lower, upper, np.ones(len(commit), dtype=np.bool_)))


def constant(delay: float) -> Law:
    return lambda _, n: np.full(n, delay)


def lognormal(median: float, sigma: float) -> Law:
    return lambda rng, n: rng.lognormal(np.log(median), sigma, n)


def normal(mean: float, deviation: float) -> Law:
    return lambda rng, n: np.abs(rng.normal(mean, deviation, n))


def exponential(mean: float) -> Law:
    return lambda rng, n: rng.exponential(mean, n)


def uniform(shortest: float, longest: float) -> Law:
    return lambda rng, n: rng.uniform(shortest, longest, n)


def pareto(shortest: float, exponent: float) -> Law:
    """Return a heavy tail."""
    return lambda rng, n: shortest * (1.0 + rng.pareto(exponent, n))


def changing(law: Law, other: Law, share: float) -> Law:
    """Return a law of events in the order of their commits, of which the last `share` follow the other one."""
    return lambda rng, n: np.where(np.arange(n) < (1.0 - share) * n, law(rng, n), other(rng, n))


def mostly(law: Law, other: Law, share: float) -> Law:
    """Return `law`, with a share of `other`."""
    return lambda rng, n: np.where(rng.uniform(size=n) < share, other(rng, n), law(rng, n))


def stalled(begins: float, seconds: float, bunched: int = 0, median: float = 0.005) -> Simulation:
    """Return a minute with a stall, at the end of which everything passes that would have passed in it, ticks too.

    Events take their usual time after that, so the answer of the tick that was held comes before most of them. Of the
    about 300 events and more, so many are committed in the first 0.3 s of the stall.
    """

    def simulated(seed: int) -> tuple[World, AnsweredTicks]:
        rng, ends = np.random.default_rng(seed), begins + seconds

        def held(times: FloatArray) -> FloatArray:
            return np.where((times > begins) & (times < ends), ends, times)

        sent = np.cumsum(rng.uniform(0.375, 0.625, 400)) - 100
        sent = sent[(sent < begins) | (sent >= ends) | ((sent - begins) % SLOW_SECONDS < 0.5)]
        seen = held(sent + 0.002)
        commit = np.sort(np.append(rng.uniform(-30, MINUTE_SECONDS, 450), begins + rng.uniform(0, 0.3, bunched)))
        received = np.maximum.accumulate(held(commit) + lognormal(median, 0.5)(rng, len(commit)))
        inside = (received >= 0) & (received < MINUTE_SECONDS)
        commit, received = commit[inside], received[inside]
        bounds = cut_by(sent, seen, commit, received)
        at = (seen >= -1.0) & (sent <= MINUTE_SECONDS + 10)
        return World(received - commit, received, bounds), AnsweredTicks(-1.0, MINUTE_SECONDS, sent[at], seen[at])

    return simulated
