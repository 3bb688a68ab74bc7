"""What the tests of this folder share: bounds written out, and a simulated world where every latency is known."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.window import Tally, tally
from watchslo.model import Bounds, FloatArray

BINS = Bins()

Law = Callable[[np.random.Generator, int], FloatArray]
"""Draws n latencies, in seconds."""


def bounds(*events: tuple[float, ...]) -> Bounds:
    """Of events given as (lower, upper), or as (lower, upper, proven lower end)."""
    lower, upper, proven = np.array([(*event, event[0])[:3] for event in events], dtype=np.float64).T
    return Bounds(lower, upper, proven, np.ones(len(events), dtype=np.bool_))


def tallied(*events: tuple[float, ...], bins: Bins = BINS) -> Tally:
    return tally_of(bounds(*events), bins)


def tally_of(bounds: Bounds, bins: Bins = BINS) -> Tally:
    return tally(bins, bounds.lower, bounds.upper, bounds.proven)


@dataclass(frozen=True, slots=True)
class World:
    """What happened: true latencies, and the intervals that a clock would cut, by order of commit."""

    latency: FloatArray
    received: FloatArray
    bounds: Bounds

    def quantile(self, q: float) -> float:
        """The ceil(q * n)-th smallest of the true latencies."""
        return float(np.sort(self.latency)[int(np.ceil(round(q * len(self.latency), 6))) - 1])


def simulate(
    seed: int, law: Law, events: int, seconds: float = 60.0, gaps: tuple[float, float] = (0.25, 0.75)
) -> World:
    """Poisson commits, `events` of them on average, and ticks of about 2 ms in random gaps between.

    No event serves to prove the commit of another here, so the proven intervals are the cut ones.
    """
    rng = np.random.default_rng(seed)
    sent = np.cumsum(rng.uniform(*gaps, size=int((seconds + 100) / gaps[0]))) - 2.0
    round_trip = 0.001 + rng.exponential(0.001, len(sent))
    answered, read = sent + round_trip, sent + round_trip * rng.uniform(size=len(sent))
    commit = np.sort(rng.uniform(0, seconds, rng.poisson(events)))
    latency = law(rng, len(commit))
    received = commit + latency
    first_seen = np.searchsorted(read, commit)
    lower = received - np.minimum(received, answered[first_seen])
    upper = received - sent[first_seen - 1]
    return World(latency, received, Bounds(lower, upper, lower, np.ones(len(commit), dtype=np.bool_)))


def lognormal(median: float, sigma: float) -> Law:
    return lambda rng, n: rng.lognormal(np.log(median), sigma, n)


def normal(mean: float, deviation: float) -> Law:
    return lambda rng, n: np.abs(rng.normal(mean, deviation, n))


def exponential(mean: float) -> Law:
    return lambda rng, n: rng.exponential(mean, n)


def mostly(law: Law, other: Law, share: float) -> Law:
    """`law`, but for a share of `other`."""
    return lambda rng, n: np.where(rng.uniform(size=n) < share, other(rng, n), law(rng, n))
