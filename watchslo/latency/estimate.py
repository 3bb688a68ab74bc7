"""Estimate the distribution of latencies from intervals.

Ticks cut time at random places relative to the events, so many wide intervals determine a narrow distribution. The
estimate is that of Turnbull (1976) for interval-censored data: the distribution that is its own expectation, given the
intervals. It is found by EM with a light smoothing of each step (EMS: Silverman et al., 1990), because plain EM ends in
spikes. SQUAREM (Varadhan and Roland, 2008) accelerates it, because EM is slow if most intervals are wide.
"""

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.tally import Tally, merge
from watchslo.model import FloatArray, IntArray
from watchslo.snapshot import QuantileReading, WindowReading

QUANTILES = (0.5, 0.9, 0.99)

SMOOTHING = 0.05  # share of a bin's mass that goes to its neighbours: it steadies P50 and every share, but not P99
UNIFORM_SHARE = 0.001  # share of a warm start that is uniform, because a bin without mass would stay empty
TOLERANCE = 1e-4  # stop if a step moves less of the mass: by then P99 is within about 1% of its final value
ROUNDS = 67  # of three steps each: 7 to 40 are usual from a cold start, 5 to 15 from a warm one
LONGEST_STRIDE = 256.0  # steps that one extrapolation replaces
LEAST_KEPT = 0.01  # share of a bin's mass after plain steps that remains: extrapolation must not empty a bin


def uniform(bins: Bins) -> FloatArray:
    """Return the cold start: the same mass in each bin."""
    return np.full(bins.count, 1 / bins.count)


def closed_cuts(tally: Tally) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the cuts of a tally, with open ones closed at the lowest edge that all evidence permits.

    Beyond that edge any distribution fits the evidence; this choice claims the least lateness.
    """
    i, j, counts = tally.cuts()
    is_open = j == tally.bins.count
    top = max(int(i.max()) + 1, int(j[~is_open].max(initial=0)))
    return i, np.where(is_open, top, j), counts


def estimate(tally: Tally, start: FloatArray) -> FloatArray:
    """Return the distribution of the latencies of at least one event: the mass of each bin, 1 in total.

    `start` must have mass in every bin. It is only the start of the search; the result depends on the tally.
    """
    i, j, counts = closed_cuts(tally)
    cuts = i, j, counts / tally.n
    p = start
    for _ in range(ROUNDS):
        once = _step(p, *cuts)
        moved = once - p
        if np.abs(moved).sum() < TOLERANCE:
            return once
        twice = _step(once, *cuts)
        bent = twice - once - moved
        stride = np.clip(np.sqrt(moved @ moved / (bent @ bent + 1e-20)), 1, LONGEST_STRIDE)  # bent may be 0
        leap = np.maximum(p + 2 * stride * moved + stride**2 * bent, LEAST_KEPT * twice)
        p = _step(leap, *cuts)
    return p


def _step(p: FloatArray, i: IntArray, j: IntArray, masses: FloatArray) -> FloatArray:
    """Smooth p, then divide the mass of each interval among its bins in the proportions of p.

    The result sums to the sum of the masses, 1, for any sum of p. A step leaves mass in every interval, so there is no
    division by zero.
    """
    flow = SMOOTHING / 2 * (p[1:] - p[:-1])
    smooth = p.copy()
    smooth[:-1] += flow
    smooth[1:] -= flow
    below = cumulative(smooth)
    factors = masses / (below[j] - below[i])
    changes = np.bincount(i, factors, len(below)) - np.bincount(j, factors, len(below))
    smooth *= np.maximum(changes[:-1].cumsum(), 0.0)  # rounding may leave a tiny negative value
    return smooth


def cumulative(p: FloatArray) -> FloatArray:
    """Return the mass below each edge."""
    below = np.zeros(len(p) + 1)
    np.cumsum(p, out=below[1:])
    return below


def quantile(bins: Bins, p: FloatArray, q: float) -> float:
    """Return the q-quantile (0 < q <= 1) of the distribution p, in seconds.

    Within a bin, the logarithm of the latency is assumed to be uniform; in the first bin, which begins at 0, the
    latency itself. In the open bin the result is its lower edge: "at least this".
    """
    below = cumulative(p)
    below /= below[-1]
    k = int(np.searchsorted(below, q)) - 1
    share = float((q - below[k]) / (below[k + 1] - below[k]))
    lower, upper = float(bins.edges[k]), float(bins.edges[k + 1])
    if k == 0:
        return share * upper
    if k == bins.count - 1:
        return lower
    return float(min(lower * (upper / lower) ** share, upper))


def read_quantile(tally: Tally, p: FloatArray, q: float, round_trip: float) -> QuantileReading:
    """Return the q-quantile of at least one event, estimated from p and limited to its certain bounds.

    An estimate below the ticks' median `round_trip`, in seconds, is marked as not resolved.
    """
    bounds = tally.bounds(q)
    estimated = min(max(quantile(tally.bins, p, q), bounds.lower), bounds.upper)
    return QuantileReading(q, bounds.lower, estimated, bounds.upper, estimated >= round_trip)


class RollingEstimate:
    """The distribution of a rolling window; each search starts from the last result.

    `p` is the last result, `reading` the reading of the last evaluation. `length` is in seconds.
    """

    def __init__(self, bins: Bins, name: str, length: float) -> None:
        self.length = length
        self.p = uniform(bins)
        self.reading = WindowReading(name, length, 0, ())
        self._bins = bins
        self._tallies: tuple[Tally, ...] = ()

    def evaluate(self, tallies: tuple[Tally, ...], round_trip: float) -> None:
        """Estimate from all tallies of the window, unless they are the same as before."""
        if tallies == self._tallies:
            return
        self._tallies = tallies
        window = merge(self._bins, tallies)
        quantiles: tuple[QuantileReading, ...] = ()
        if window.n:
            self.p = estimate(window, (1 - UNIFORM_SHARE) * self.p + UNIFORM_SHARE * uniform(self._bins))
            quantiles = tuple(read_quantile(window, self.p, q, round_trip) for q in QUANTILES)
        self.reading = WindowReading(self.reading.name, self.length, window.n, quantiles)
