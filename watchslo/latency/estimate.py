"""Estimate the distribution of latencies from intervals.

Ticks cut time at random places relative to the events, so many wide intervals determine a narrow distribution. The
estimate is that of Turnbull (1976) for interval-censored data: the distribution that is its own expectation, given the
intervals. It is found by EM with a light smoothing of each step (EMS: Silverman et al., 1990), because plain EM ends in
spikes. SQUAREM (Varadhan and Roland, 2008) accelerates it, because EM is slow if most intervals are wide.

Many distributions are estimated together, as the rows of one matrix: a step of a hundred rows costs little more than a
step of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.tally import Tally, merge
from watchslo.model import BoolArray, FloatArray, IntArray
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


@dataclass(frozen=True, slots=True, eq=False)
class _Cuts:
    """The cuts of several tallies: m cuts [i, j) with their share of the events of their row, and W rows."""

    rows: IntArray
    i: IntArray
    j: IntArray
    masses: FloatArray

    def of(self, chosen: BoolArray) -> "_Cuts":
        """Return the cuts of some rows, chosen by a mask of length W, and number these rows again."""
        kept = chosen[self.rows]
        return _Cuts((chosen.cumsum() - 1)[self.rows[kept]], self.i[kept], self.j[kept], self.masses[kept])


def _cuts(tallies: Sequence[Tally]) -> _Cuts:
    parts = [closed_cuts(tally) for tally in tallies]
    rows = np.repeat(np.arange(len(parts)), [len(i) for i, _, _ in parts])
    i, j, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _Cuts(rows, i, j, counts / np.array([tally.n for tally in tallies])[rows])


def estimate(tallies: Sequence[Tally], starts: FloatArray) -> FloatArray:
    """Return W distributions, as a matrix of W rows: the mass of each bin, 1 in total.

    Each of the W tallies has at least one event. Row k of `starts` must have mass in every bin; it is only the start of
    the search for row k, whose result depends on tally k alone.
    """
    cuts, p = _cuts(tallies), starts
    found, searched = np.empty_like(starts), np.arange(len(starts))
    for _ in range(ROUNDS):
        once = _step(p, cuts)
        moved = once - p
        is_found = np.abs(moved).sum(axis=1) < TOLERANCE
        if is_found.any():
            found[searched[is_found]] = once[is_found]
            left = ~is_found
            searched, cuts, p, once, moved = searched[left], cuts.of(left), p[left], once[left], moved[left]
            if not len(searched):
                return found
        twice = _step(once, cuts)
        bent = twice - once - moved
        strides = np.sqrt((moved**2).sum(axis=1) / ((bent**2).sum(axis=1) + 1e-20))  # bent may be 0
        stride = np.clip(strides, 1, LONGEST_STRIDE)[:, None]
        leap = np.maximum(p + 2 * stride * moved + stride**2 * bent, LEAST_KEPT * twice)
        p = _step(leap, cuts)
    found[searched] = p
    return found


def _step(p: FloatArray, cuts: _Cuts) -> FloatArray:
    """Smooth each row of p, then divide the mass of each cut among its bins in the proportions of p.

    The result sums to the sum of the masses, 1, for any sum of p. A step leaves mass in every cut, so there is no
    division by zero.
    """
    flow = SMOOTHING / 2 * (p[:, 1:] - p[:, :-1])
    smooth = p.copy()
    smooth[:, :-1] += flow
    smooth[:, 1:] -= flow
    below = cumulative(smooth)
    first = cuts.rows * below.shape[1]
    i, j, flat = first + cuts.i, first + cuts.j, below.ravel()
    factors = cuts.masses / (flat[j] - flat[i])
    changes = np.bincount(i, factors, len(flat)) - np.bincount(j, factors, len(flat))
    smooth *= np.maximum(changes.reshape(below.shape)[:, :-1].cumsum(axis=1), 0.0)  # rounding may leave a tiny negative
    return smooth


def cumulative(p: FloatArray) -> FloatArray:
    """Return the mass below each edge; p is a distribution, or a matrix with one in each row."""
    below = np.zeros((*p.shape[:-1], p.shape[-1] + 1))
    np.cumsum(p, axis=-1, out=below[..., 1:])
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


class Estimation:
    """A distribution to be estimated from `tally`, which has at least one event.

    `p` is the start of the search, with mass in every bin, and after `solve` the result.
    """

    def __init__(self, tally: Tally, start: FloatArray) -> None:
        self.tally = tally
        self.p = start


def solve(estimations: Sequence[Estimation]) -> None:
    """Estimate all distributions together; these must have the same bins."""
    if estimations:
        found = estimate([one.tally for one in estimations], np.array([one.p for one in estimations]))
        for one, p in zip(estimations, found, strict=True):
            one.p = p


class RollingEstimate:
    """The distribution of a rolling window; each search starts from the last result.

    `p` is the last result, `reading` the reading of the last evaluation. `length` is in seconds. An evaluation is
    `update`, then `solve`, then `publish`.
    """

    def __init__(self, bins: Bins, name: str, length: float) -> None:
        self.length = length
        self.p = uniform(bins)
        self.reading = WindowReading(name, length, 0, ())
        self._bins = bins
        self._tallies: tuple[Tally, ...] = ()
        self._due: Estimation | None = None

    def update(self, tallies: tuple[Tally, ...]) -> tuple[Estimation, ...]:
        """Take in all tallies of the window; return the estimation that is then due, if there is one."""
        if tallies == self._tallies:
            return ()
        self._tallies = tallies
        window = merge(self._bins, tallies)
        if not window.n:
            self.reading = WindowReading(self.reading.name, self.length, 0, ())
            return ()
        self._due = Estimation(window, (1 - UNIFORM_SHARE) * self.p + UNIFORM_SHARE * uniform(self._bins))
        return (self._due,)

    def publish(self, round_trip: float) -> None:
        """Read the quantiles of the estimation that was due, if there was one."""
        if self._due is None:
            return
        self.p = self._due.p.copy()  # not a view of the matrix of all
        quantiles = tuple(read_quantile(self._due.tally, self.p, q, round_trip) for q in QUANTILES)
        self.reading = WindowReading(self.reading.name, self.length, self._due.tally.n, quantiles)
        self._due = None
