"""Estimate the distribution of latencies from intervals.

Ticks cut time at random places relative to the events, so many wide intervals determine a narrow distribution. The
estimate is that of Turnbull (1976) for interval-censored data: the distribution that is its own expectation, given the
intervals. It is found by EM with a light smoothing of each step (EMS: Silverman et al., 1990), because plain EM ends in
spikes. SQUAREM (Varadhan and Roland, 2008) accelerates it, because EM is slow if most intervals are wide.

Many distributions are estimated together, as the rows of one matrix: a step of many rows costs little more than a step
of one.
"""

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from watchslo.latency.bins import Bins
from watchslo.latency.tally import KeyCounts, Tally, sum_by_key
from watchslo.model import BoolArray, FloatArray, IntArray
from watchslo.snapshot import QuantileReading, WindowReading

QUANTILES = (0.5, 0.9, 0.99)

SMOOTHING = 0.05  # share of a bin's mass that goes to its neighbours: it steadies P50 and every share, but not P99
UNIFORM_SHARE = 0.001  # share of a warm start that is uniform, because a bin without mass would stay empty
TOLERANCE = 1e-4  # stop if a step moves less of the mass: by then P99 is within about 1% of its final value
ROWS, REFILLED_ROWS = 64, 48  # searched at a time: a round of them takes about half a millisecond
ROUNDS = 67  # of three steps each: 7 to 40 are usual from a cold start, 5 to 15 from a warm one
LONGEST_STRIDE = 256.0  # steps that one extrapolation replaces
LEAST_KEPT = 0.01  # share of a bin's mass after plain steps that remains: extrapolation must not empty a bin


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

    def joined(self, other: "_Cuts", rows: int) -> "_Cuts":
        """Return the cuts of both; the first row of `other` becomes row number `rows`."""
        return _Cuts(
            np.concatenate((self.rows, other.rows + rows)),
            np.concatenate((self.i, other.i)),
            np.concatenate((self.j, other.j)),
            np.concatenate((self.masses, other.masses)),
        )


def _gather(estimations: Sequence["Estimation"]) -> _Cuts:
    """Return the closed cuts of all tallies of each estimation, and note the bounds of its quantiles."""
    bins = estimations[0].tallies[0].bins
    size, n = len(bins.edges), np.array([one.n for one in estimations])
    parts = [tally for one in estimations for tally in one.tallies]
    widths = [sum(len(tally.keys) for tally in one.tallies) for one in estimations]
    offsets = np.repeat(np.arange(len(widths)) * (size * size + size), widths)
    keys, counts = sum_by_key(
        np.concatenate([tally.keys for tally in parts]) + offsets, np.concatenate([tally.counts for tally in parts])
    )
    rows, keys = np.divmod(keys, size * size + size)
    is_cut = keys < size * size
    i, j = np.divmod(keys[is_cut], size)
    cut_rows, cut_counts = rows[is_cut], counts[is_cut]
    ranks = np.ceil(np.round([one.n * np.array(one.qs) for one in estimations], 6))
    lower = _ranked(bins, ranks, rows[~is_cut], keys[~is_cut] - size * size, counts[~is_cut])
    upper = _ranked(bins, ranks, cut_rows, j, cut_counts)
    for one, *limits in zip(estimations, lower, upper, strict=True):
        one.limits = tuple(limits)
    tops = np.maximum.reduceat(np.maximum(i + 1, np.where(j == bins.count, 0, j)), cut_rows.searchsorted(range(len(n))))
    return _Cuts(cut_rows, i, np.where(j == bins.count, tops[cut_rows], j), cut_counts / n[cut_rows])


def _ranked(
    bins: Bins, ranks: FloatArray, rows: NDArray[np.integer], edges: NDArray[np.integer], counts: NDArray[np.integer]
) -> FloatArray:
    """Return the ends, in seconds, that have some ranks in each row, both of shape (W, Q); see `Tally.bounds`."""
    size = len(bins.edges)
    below = np.bincount(rows * size + edges, counts, len(ranks) * size).reshape(len(ranks), size).cumsum(axis=1)
    ends: FloatArray = bins.edges[(below[:, None] < ranks[:, :, None]).sum(axis=2)]
    return ends


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The distributions that are searched at present, and after how many rounds each."""

    estimations: Sequence["Estimation"]
    rounds: IntArray
    p: FloatArray
    cuts: _Cuts

    @classmethod
    def of(cls, estimations: Sequence["Estimation"]) -> "_Rows":
        """Begin to search; what is outside of all cuts of a row cannot keep any mass."""
        cuts = _gather(estimations)
        firsts = cuts.rows.searchsorted(range(len(estimations)))
        tops = np.maximum.reduceat(cuts.j, firsts)
        p = np.array([one.p for one in estimations])
        p[np.arange(p.shape[1]) >= tops[:, None]] = 0.0
        width = min(int(tops.max()) + 1, p.shape[1])  # the last bin takes what smoothing moves out of the others
        return cls(estimations, np.zeros(len(estimations), np.int64), p[:, :width], cuts)

    def __len__(self) -> int:
        return len(self.estimations)

    def joined(self, other: "_Rows") -> "_Rows":
        """Return the rows of both."""
        width = max(self.p.shape[1], other.p.shape[1])
        return _Rows(
            [*self.estimations, *other.estimations],
            np.concatenate((self.rounds, other.rounds)),
            np.concatenate((_widened(self.p, width), _widened(other.p, width))),
            self.cuts.joined(other.cuts, len(self)),
        )

    def without(self, found: BoolArray, p: FloatArray) -> "_Rows":
        """Return the other rows; what is found gets its row of `p` as its result."""
        if not found.any():
            return self
        results = _widened(p[found], len(self.estimations[0].p))
        for k, result in zip(np.flatnonzero(found).tolist(), results, strict=True):
            self.estimations[k].p = result.copy()  # not a view of all
        left = ~found
        return _Rows(
            [one for one, is_left in zip(self.estimations, left.tolist(), strict=True) if is_left],
            self.rounds[left],
            self.p[left],
            self.cuts.of(left),
        )


def _widened(p: FloatArray, width: int) -> FloatArray:
    """Return the rows of p with so many bins; those that are added have no mass."""
    wide = np.zeros((len(p), width))
    wide[:, : p.shape[1]] = p
    return wide


def rounds(estimations: Sequence["Estimation"]) -> Generator[None, None, None]:
    """Estimate all distributions, which have the same bins; pause after each round of up to `ROWS` of them.

    The result of each depends on its own tallies alone. What is found makes room for the next ones, because a round of
    one row takes nearly as long as a round of many, and a few rows need all rounds.
    """
    waiting = deque(estimations)
    rows = None
    while rows := _refilled(rows, waiting):
        rows = _round(rows)
        yield
    for first in range(0, len(estimations), ROWS):
        _read(estimations[first : first + ROWS])
        yield


def _refilled(rows: _Rows | None, waiting: deque["Estimation"]) -> _Rows | None:
    """Let estimations join that wait for room; None if there were no rows, and none wait."""
    if not waiting or (rows and len(rows) > REFILLED_ROWS):
        return rows
    room = ROWS - len(rows or ())
    joining = _Rows.of([waiting.popleft() for _ in range(min(room, len(waiting)))])
    return rows.joined(joining) if rows else joining


def _read(solved: Sequence["Estimation"]) -> None:
    """Note the quantiles of solved estimations, limited to their certain bounds."""
    qs = np.array([one.qs for one in solved])
    estimates = quantiles(solved[0].tallies[0].bins, np.array([one.p for one in solved]), qs)
    limits = np.array([one.limits for one in solved])
    lower, upper = limits[:, 0], limits[:, 1]
    figures = np.stack((lower, np.clip(estimates, lower, upper), upper), axis=2)
    for one, found in zip(solved, figures.tolist(), strict=True):
        one.figures = found


def _round(rows: _Rows) -> _Rows:
    """Return the rows that are not found in this round."""
    once = _step(rows.p, rows.cuts)
    moved = once - rows.p
    is_found = np.abs(moved).sum(axis=1) < TOLERANCE
    rows = rows.without(is_found, once)
    if not rows:
        return rows
    if is_found.any():
        once, moved = once[~is_found], moved[~is_found]
    twice = _step(once, rows.cuts)
    bent = twice - once - moved
    strides = np.sqrt((moved**2).sum(axis=1) / ((bent**2).sum(axis=1) + 1e-20))  # bent may be 0
    stride = np.clip(strides, 1, LONGEST_STRIDE)[:, None]
    leap = np.maximum(rows.p + 2 * stride * moved + stride**2 * bent, LEAST_KEPT * twice)
    rows = _Rows(rows.estimations, rows.rounds + 1, _step(leap, rows.cuts), rows.cuts)
    return rows.without(rows.rounds == ROUNDS, rows.p)


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


def quantiles(bins: Bins, p: FloatArray, qs: FloatArray) -> FloatArray:
    """Return some quantiles of the distribution in each row of p, in seconds; `qs` (0 < q <= 1) has a row for each.

    Within a bin, the logarithm of the latency is assumed to be uniform; in the first bin, which begins at 0, the
    latency itself. In the open bin the result is its lower edge: "at least this".
    """
    below = cumulative(p)
    below /= below[:, -1:]
    k = (below[:, None] < qs[:, :, None]).sum(axis=2) - 1
    start, end = np.take_along_axis(below, k, axis=1), np.take_along_axis(below, k + 1, axis=1)
    share = (qs - start) / (end - start)
    inner = np.clip(k, 1, bins.count - 2)
    lower, upper = bins.edges[inner], bins.edges[inner + 1]
    logarithmic = np.minimum(lower * (upper / lower) ** share, upper)
    found: FloatArray = np.where(k == 0, share * bins.edges[1], np.where(k == bins.count - 1, upper, logarithmic))
    return found


def quantile(bins: Bins, p: FloatArray, q: float) -> float:
    """Return one quantile of one distribution, in seconds."""
    return float(quantiles(bins, p[None], np.array([[q]]))[0, 0])


def read_quantile(tally: Tally, p: FloatArray, q: float, round_trip: float) -> QuantileReading:
    """Return the q-quantile of at least one event, estimated from p and limited to its certain bounds.

    An estimate below the ticks' median `round_trip`, in seconds, is marked as not resolved.
    """
    bounds = tally.bounds(q)
    estimated = min(max(quantile(tally.bins, p, q), bounds.lower), bounds.upper)
    return QuantileReading(q, bounds.lower, estimated, bounds.upper, estimated >= round_trip)


class Estimation:
    """A distribution to be estimated from `tallies`, which have at least one event together.

    `p` is the start of the search, with mass in every bin, and after `solve` the result. `figures` has then the lower
    bound, the estimate and the upper bound of each of `qs`, in seconds: of `QUANTILES` and of the q of an objective.
    """

    def __init__(self, tallies: tuple[KeyCounts, ...], start: FloatArray, q: float = QUANTILES[-1]) -> None:
        self.tallies = tallies
        self.n = sum(tally.n for tally in tallies)
        self.p = start
        self.qs = (*QUANTILES, q)
        self.limits: tuple[FloatArray, ...] = ()
        self.figures: Sequence[Sequence[float]] = ()


def solve(estimations: Sequence[Estimation]) -> None:
    """Estimate all distributions at once; these must have the same bins."""
    for _ in rounds(estimations):
        pass


class RollingEstimate:
    """The distribution of a rolling window; each search starts from the last result.

    `p` is the last result, `reading` the reading of the last evaluation: of `QUANTILES`, and of `q` if it is another
    one. `length` is in seconds. An evaluation is `update`, then `solve`, then `publish`.
    """

    def __init__(self, bins: Bins, name: str, length: float, q: float = QUANTILES[-1]) -> None:
        self.length = length
        self._q = q
        self.p = bins.uniform
        self.reading = WindowReading(name, length, 0, ())
        self._tallies: tuple[KeyCounts, ...] = ()
        self._due: Estimation | None = None

    def update(self, tallies: tuple[KeyCounts, ...]) -> tuple[Estimation, ...]:
        """Take in all tallies of the window; return the estimation that is then due, if there is one."""
        if tallies == self._tallies:
            return ()
        self._tallies = tallies
        due = Estimation(tallies, (1 - UNIFORM_SHARE) * self.p + UNIFORM_SHARE / len(self.p), self._q)
        if not due.n:
            self.reading = WindowReading(self.reading.name, self.length, 0, ())
            return ()
        self._due = due
        return (due,)

    def publish(self, round_trip: float) -> None:
        """Read the quantiles of the estimation that was due, if there was one."""
        if self._due is None:
            return
        self.p = self._due.p
        figures = dict(zip(self._due.qs, self._due.figures, strict=True))
        readings = tuple(
            QuantileReading(q, lower, estimate, upper, estimate >= round_trip)
            for q, (lower, estimate, upper) in figures.items()
        )
        self.reading = WindowReading(self.reading.name, self.length, self._due.n, readings)
        self._due = None
