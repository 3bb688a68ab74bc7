"""From intervals to a distribution: the clock's ticks cut at random places, so many wide intervals tell narrow things.

The estimate is Turnbull's (1976) for interval-censored data: the distribution that is its own expectation, given the
intervals. It is found by EM with a light smoothing of each step (EMS: Silverman et al., 1990), because the plain one
ends in spikes, and sped up by SQUAREM (Varadhan and Roland, 2008), because EM creeps where most intervals are wide.
"""

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.window import Tally, merge
from watchslo.model import FloatArray, IntArray
from watchslo.snapshot import QuantileReading, WindowReading

QUANTILES = (0.5, 0.9, 0.99)

SMOOTHING = 0.05  # of a bin's mass goes to its neighbours: it steadies P50 and every share, and leaves P99 alone
UNSEEN = 0.001  # of a warm start is uniform, because a bin without mass would stay without
TOLERANCE = 1e-4  # of the mass still moves in a step: by then P99 is about 1% from where it would end
ROUNDS = 67  # of three steps each: 7 to 40 are usual from a cold start, 5 to 15 from a warm one
LONGEST_STRIDE = 256.0  # steps that one extrapolation stands for
LEAST_KEPT = 0.01  # of what plain steps gave a bin: extrapolation must not empty any


def uniform(bins: Bins) -> FloatArray:
    """The cold start: the same mass in each bin."""
    return np.full(bins.count, 1 / bins.count)


def closed_cuts(tally: Tally) -> tuple[IntArray, IntArray, FloatArray]:
    """The tally's cuts, those that are open to the right closed at the first edge that no evidence asks to exceed.

    Beyond it, any distribution fits the evidence, and this one claims least.
    """
    i, j, counts = tally.cuts()
    is_open = j == tally.bins.count
    top = max(int(i.max()) + 1, int(j[~is_open].max(initial=0)))
    return i, np.where(is_open, top, j), counts


def estimate(tally: Tally, start: FloatArray) -> FloatArray:
    """The distribution of the latencies of at least one event: the mass of each bin, 1 in all.

    `start` must have mass in every bin. It is where the search begins; what it finds depends on the tally.
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
    """Smooths p, then divides the mass of each interval among its bins in the proportions of p.

    So the sum of what comes out is that of the masses, 1, whatever the sum of p. A step leaves no interval without
    mass, so none ever divides by zero.
    """
    flow = SMOOTHING / 2 * (p[1:] - p[:-1])
    smooth = p.copy()
    smooth[:-1] += flow
    smooth[1:] -= flow
    below = cumulative(smooth)
    factors = masses / (below[j] - below[i])
    changes = np.bincount(i, factors, len(below)) - np.bincount(j, factors, len(below))
    smooth *= np.maximum(changes[:-1].cumsum(), 0.0)  # rounding may leave a little less than nothing
    return smooth


def cumulative(p: FloatArray) -> FloatArray:
    """The mass below each edge."""
    below = np.zeros(len(p) + 1)
    np.cumsum(p, out=below[1:])
    return below


def quantile(bins: Bins, p: FloatArray, q: float) -> float:
    """The q-quantile (0 < q <= 1) of the distribution p, in seconds.

    Inside a bin the logarithm of the latency is taken to be uniform; in the first one, which begins at 0, the latency
    itself. In the open bin the answer is its lower edge: "at least this".
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
    """The q-quantile of at least one event, estimated by p, but never outside of what is certain.

    What comes out below the ticks' median `round_trip` is not resolved.
    """
    bounds = tally.bounds(q)
    estimated = min(max(quantile(tally.bins, p, q), bounds.lower), bounds.upper)
    return QuantileReading(q, bounds.lower, estimated, bounds.upper, estimated >= round_trip)


class RollingEstimate:
    """The distribution of a window that moves on with time: each search starts from the last result.

    `p` is that result. `reading` is of the last evaluation.
    """

    def __init__(self, bins: Bins, name: str, length: float) -> None:
        self.length = length
        self.p = uniform(bins)
        self.reading = WindowReading(name, length, 0, ())
        self._bins = bins
        self._tallies: tuple[Tally, ...] = ()

    def evaluate(self, tallies: tuple[Tally, ...], round_trip: float) -> None:
        """Takes all the tallies of the window, and does nothing if they are the ones that it knows."""
        if tallies == self._tallies:
            return
        self._tallies = tallies
        window = merge(self._bins, tallies)
        quantiles: tuple[QuantileReading, ...] = ()
        if window.n:
            self.p = estimate(window, (1 - UNSEEN) * self.p + UNSEEN * uniform(self._bins))
            quantiles = tuple(read_quantile(window, self.p, q, round_trip) for q in QUANTILES)
        self.reading = WindowReading(self.reading.name, self.length, window.n, quantiles)
