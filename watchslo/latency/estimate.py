"""Estimate the distribution of latencies from intervals.

Ticks cut time at random places relative to the events, so many wide intervals determine a narrow distribution. The
estimate is that of Turnbull (1976) for interval-censored data: the distribution that is its own expectation, given the
intervals. It is found by EM with a light smoothing of each step (EMS: Silverman et al., 1990), because plain EM ends in
spikes. SQUAREM (Varadhan and Roland, 2008) accelerates it, because EM is slow if most intervals are wide. The result
has the right place but ends too early, and spreads what does not vary: `mixture` refines it.

Many distributions are estimated together, as the rows of one matrix: a step of many rows costs little more than a step
of one.
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from watchslo.latency.bins import Bins
from watchslo.latency.cuts import Cuts, cumulative
from watchslo.latency.independence import independent_events
from watchslo.latency.mixture import refine
from watchslo.latency.tail import Tail
from watchslo.latency.tally import KeyCounts, Tally, sum_by_key
from watchslo.model import BoolArray, FloatArray, IntArray, Interval
from watchslo.snapshot import QuantileReading, WindowReading

P99, P999, MAXIMUM = 0.99, 0.999, 1.0  # the maximum is known only of samples that are known one by one
QUANTILES = (0.5, 0.9, P99, P999)
MINUTE_SECONDS = 60.0  # the length of the first window

SMOOTHING = 0.05  # share of a bin's mass that goes to its neighbours: from spikes, the refinement would start badly
UNIFORM_SHARE = 0.001  # share of a warm start that is uniform, because a bin without mass would stay empty
TOLERANCE = 2e-3  # stop if a step of EM moves less of the mass; with four times more, a second mode is not found
ROWS, REFILLED_ROWS = 64, 48  # searched at a time: a round of them takes about half a millisecond
REFINED_ROWS = 64  # at a time: with fewer each costs more; a step of them takes half a millisecond to one and a half
ROUNDS = 67  # of three steps each: 3 to 15 are usual
LONGEST_STRIDE = 256.0  # steps that one extrapolation replaces
WIDENED = 1.3  # the stated errors hold for the fitted law; without this, a probable interval of 90% held 52 to 100%
NINE_IN_TEN = 1.64  # standard errors to either side
WIDEST = 10.0  # of the logarithm: four decades
# A figure is rough if its error exceeds both of these in more than one of ten windows,
ONE_IN_TEN, TOLERABLE_SHARE, TOLERABLE_SECONDS = 1.28, 0.25, 0.01
SHORTEST_TAIL_SECONDS = 0.05  # or if ticks are not expected to cut one event that is later, by at least so much,
# or if it is P99.9: a law that fits all events says little about one in a thousand. In simulations with up to 20,000
# events, up to half of these were a quarter off, unless their bounds are narrow.
PULLED = 5.0  # a stall pulls the estimates of so many times as many events as it held
FEWEST_EVENTS_P999 = 1000  # with fewer, not even one event of the window is expected to be later
LEAST_KEPT = 0.01  # share of a bin's mass after plain steps that remains: extrapolation must not empty a bin


def closed_cuts(tally: Tally) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the cuts of a tally, with open ones closed at the lowest edge that all evidence permits.

    Beyond that edge any distribution fits the evidence; this choice claims the least lateness.
    """
    i, j, counts = tally.cuts()
    is_open = j == tally.bins.count
    top = max(int(i.max()) + 1, int(j[~is_open].max(initial=0)))
    return i, np.where(is_open, top, j), counts


def _gather(estimations: Sequence["Estimation"]) -> Cuts:
    """Return the closed cuts of all tallies of each estimation; note its bounds, and its independent events."""
    bins = estimations[0].tallies[0].bins
    size, n = len(bins.edges), np.array([estimation.n for estimation in estimations])
    parts = [tally for estimation in estimations for tally in estimation.tallies]
    widths = [sum(len(tally.keys) for tally in estimation.tallies) for estimation in estimations]
    keys_each = size * (size + 2)
    offsets = np.repeat(np.arange(len(widths)) * keys_each, widths)
    by_block = np.concatenate([tally.keys for tally in parts]) + offsets
    keys, counts = sum_by_key(by_block, np.concatenate([tally.counts for tally in parts]))
    rows, keys = np.divmod(keys, keys_each)
    is_cut, is_upper = keys < size * size, keys >= size * (size + 1)
    is_lower = ~(is_cut | is_upper)
    i, j = np.divmod(keys[is_cut], size)
    cut_rows, cut_counts = rows[is_cut], counts[is_cut]
    ranks = np.array([estimation.ranks for estimation in estimations])
    lower = _ranked(bins, ranks, rows[is_lower], keys[is_lower] - size * size, counts[is_lower])
    upper = _ranked(bins, ranks, rows[is_upper], keys[is_upper] - size * (size + 1), counts[is_upper])
    tops = np.maximum.reduceat(np.maximum(i + 1, np.where(j == bins.count, 0, j)), cut_rows.searchsorted(range(len(n))))
    cuts = Cuts(cut_rows, i, np.where(j == bins.count, tops[cut_rows], j), cut_counts / n[cut_rows])
    # Keys ascend in each block, and begin again with the next one.
    in_rows, keys = np.divmod(by_block, keys_each)
    blocks = 1 + np.bincount(in_rows[1:][by_block[1:] <= by_block[:-1]], minlength=len(n))
    distinct = np.bincount(in_rows[keys < size * size], minlength=len(n))
    independent = independent_events(cuts, n, blocks, distinct)
    for estimation, *limits, events in zip(estimations, lower, upper, independent.tolist(), strict=True):
        estimation.limits, estimation.independent = estimation.narrowed(*limits), events
    return cuts


def _ranked(
    bins: Bins, ranks: FloatArray, rows: NDArray[np.integer], edges: NDArray[np.integer], counts: NDArray[np.integer]
) -> FloatArray:
    """Return the ends, in seconds, that have some ranks in each row, both of shape (W, Q).

    The latency of a rank is at least the same rank of the lower ends, and at most that of the upper ends.
    """
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
    cuts: Cuts

    @classmethod
    def of(cls, estimations: Sequence["Estimation"]) -> "_Rows":
        """Begin to search; what is outside of all cuts of a row cannot keep any mass."""
        cuts = _gather(estimations)
        firsts = cuts.rows.searchsorted(range(len(estimations)))
        tops = np.maximum.reduceat(cuts.j, firsts)
        p = np.array([estimation.smooth for estimation in estimations])
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

    def at(self, chosen: BoolArray) -> "_Rows":
        """Return some rows, chosen by a mask."""
        if chosen.all():
            return self
        estimations = [
            estimation for estimation, is_chosen in zip(self.estimations, chosen.tolist(), strict=True) if is_chosen
        ]
        return _Rows(estimations, self.rounds[chosen], self.p[chosen], self.cuts.of(chosen))


def _widened(p: FloatArray, width: int) -> FloatArray:
    """Return the rows of p with so many bins; those that are added have no mass."""
    wide = np.zeros((len(p), width))
    wide[:, : p.shape[1]] = p
    return wide


def rounds(estimations: Sequence["Estimation"]) -> Generator[None, None, None]:
    """Estimate all distributions, which have the same bins; pause after each step of up to `ROWS` of them.

    The result of each depends on its own tallies alone. What EM has found makes room for the next ones, because a round
    of one row takes nearly as long as a round of many, and a few rows need all rounds.
    """
    waiting = deque(estimations)
    rows, found = None, None
    while rows := _refilled(rows, waiting):
        rows, more = _round(rows)
        yield
        found = found.joined(more) if found and more else found or more
        while found and (len(found) >= REFINED_ROWS or not (rows or waiting)):
            is_next = np.arange(len(found)) < REFINED_ROWS
            yield from _refined(found.at(is_next))
            found = found.at(~is_next)
            yield


def _refilled(rows: _Rows | None, waiting: deque["Estimation"]) -> _Rows | None:
    """Let estimations join that wait for room; None if there were no rows, and none wait."""
    if not waiting or (rows and len(rows) > REFILLED_ROWS):
        return rows
    room = ROWS - len(rows or ())
    joining = _Rows.of([waiting.popleft() for _ in range(min(room, len(waiting)))])
    return rows.joined(joining) if rows else joining


def _round(rows: _Rows) -> tuple[_Rows, _Rows]:
    """Search by EM for a round; return the rows that are not found yet, and those that are."""
    once = _step(rows.p, rows.cuts)
    moved = once - rows.p
    is_found = np.abs(moved).sum(axis=1) < TOLERANCE
    found, rows = _Rows(rows.estimations, rows.rounds, once, rows.cuts).at(is_found), rows.at(~is_found)
    if not rows:
        return rows, found
    once, moved = once[~is_found], moved[~is_found]
    twice = _step(once, rows.cuts)
    bent = twice - once - moved
    strides = np.sqrt((moved**2).sum(axis=1) / ((bent**2).sum(axis=1) + 1e-20))  # bent may be 0
    stride = np.clip(strides, 1, LONGEST_STRIDE)[:, None]
    leap = np.maximum(rows.p + 2 * stride * moved + stride**2 * bent, LEAST_KEPT * twice)
    rows = _Rows(rows.estimations, rows.rounds + 1, _step(leap, rows.cuts), rows.cuts)
    is_last = rows.rounds == ROUNDS
    return rows.at(~is_last), found.joined(rows.at(is_last))


def _refined(rows: _Rows) -> Generator[None, None, None]:
    """Refine the rows that EM has found, and note the results."""
    solved = rows.estimations
    bins, qs = solved[0].tallies[0].bins, np.array([estimation.qs for estimation in solved])
    n = np.array([estimation.independent for estimation in solved])
    round_trips, gaps = np.array([(estimation.ticks.round_trip, estimation.ticks.gap) for estimation in solved]).T
    refined = yield from refine(bins, rows.p, rows.cuts, n, qs, round_trips, gaps)
    lower, upper = np.array([estimation.limits for estimation in solved]).transpose(1, 0, 2)
    # In the open bin the result is its lower edge: "at least this".
    estimates = np.clip(np.minimum(np.exp(refined.quantiles), bins.edges[-2]), lower, upper)
    errors = WIDENED * refined.errors
    error = ONE_IN_TEN * errors * estimates
    tolerable = np.maximum(TOLERABLE_SHARE * estimates, TOLERABLE_SECONDS)
    seen = n[:, None] * (1 - qs) * np.minimum(1.0, np.maximum(estimates, SHORTEST_TAIL_SECONDS) / gaps[:, None])
    is_rough = ((error > tolerable) | (seen < 1) | (qs >= P999)) & (upper - lower > tolerable)
    figures = np.stack((lower, estimates, upper), axis=2)
    widths = np.exp(np.minimum(NINE_IN_TEN * errors, WIDEST))
    probable = np.stack((np.maximum(lower, estimates / widths), np.minimum(upper, estimates * widths)), axis=2)
    smooth, p = (_widened(matrix, bins.count) for matrix in (rows.p, refined.p))
    for row, estimation in enumerate(solved):
        estimation.smooth, estimation.p = smooth[row].copy(), p[row].copy()  # not views of all
        estimation.figures = figures[row].tolist()
        estimation.probable = probable[row].tolist()
        estimation.rough = is_rough[row].tolist()


def _step(p: FloatArray, cuts: Cuts) -> FloatArray:
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


@dataclass(frozen=True, slots=True)
class TickSpacing:
    """What the precision of an estimate depends on, in seconds: the ticks' median round trip, and their mean gap.

    `hidden` returns for how long they hid latencies: the quantile of that for the length of a window and a q.
    """

    round_trip: float
    gap: float
    hidden: Callable[[float, float], float] = lambda _length, _q: 0.0

    def resolution(self, length: float, q: float) -> float:
        """Return below which latency, in seconds, a quantile of a window of this length is not resolved."""
        return max(self.round_trip, self.hidden(length, q))


class Estimation:
    """A distribution to be estimated from `tallies`, which have at least one event together, cut by `ticks`.

    `smooth` is the start of the search, with mass in every bin, and after `solve` the result of EM, which smooths. `p`
    is then the distribution, and `figures` has the lower bound, the estimate and the upper bound of each of `qs`, in
    seconds: of `QUANTILES` and of the q of an objective. `probable` has the ends of an interval of 90%. `length` is
    that of the window, in seconds. `rough` says which of the estimates may be far off, given so many `independent`
    events.
    """

    def __init__(
        self,
        tallies: tuple[KeyCounts, ...],
        start: FloatArray,
        ticks: TickSpacing,
        q: float = P99,
        length: float = MINUTE_SECONDS,
    ) -> None:
        self.tallies = tallies
        self._length = length
        self.n = sum(tally.n for tally in tallies)
        self.ticks = ticks
        self.qs = (*QUANTILES, q)
        self.smooth = self.p = start
        self.independent = float(self.n)
        self.limits: tuple[FloatArray, ...] = ()
        self.figures: Sequence[Sequence[float]] = ()
        self.probable: Sequence[Sequence[float]] = ()
        self.rough: Sequence[bool] = ()
        self._tail = _tail_of(tallies)

    @property
    def ranks(self) -> IntArray:
        """The ranks of `qs` among the n events, from the shortest latency (rank 1)."""
        return np.array([_rank(q, self.n) for q in self.qs])

    def narrowed(self, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the bounds of `qs`, narrower than these of their bins if samples are known one by one."""
        if self._tail is None:
            return lower, upper
        known = [self._tail.bounds(self.n - rank + 1) for rank in self.ranks.tolist()]
        return (
            np.maximum(lower, [bounds.lower for bounds in known]),
            np.minimum(upper, [bounds.upper for bounds in known]),
        )

    def readings(self) -> tuple[QuantileReading, ...]:
        """Return the quantiles, and the maximum if samples are known one by one.

        Estimates below what the ticks hid are not resolved. Without samples that are known one by one, there
        is no P99.9 of so few events that it would be the quantile of the longest one, unless an objective has it.
        """
        found = {
            q: self._reading(q, *figures, probable=Interval(*probable), rough=rough)
            for q, figures, probable, rough in zip(self.qs, self.figures, self.probable, self.rough, strict=True)
        }
        if self.n < FEWEST_EVENTS_P999 and self._tail is None and self.qs[-1] != P999:
            del found[P999]
        if self._tail:
            found[MAXIMUM] = self._tail_reading(MAXIMUM, max(reading.estimate for reading in found.values()))
        return tuple(found.values())

    def _tail_reading(self, q: float, least: float) -> QuantileReading:
        """Return a quantile of the tail: the middle of its bounds, but no less than the estimates of lower ones."""
        assert self._tail
        known = self._tail.bounds(self.n - _rank(q, self.n) + 1)
        middle = max(least, (known.lower + known.upper) / 2 if known.upper < np.inf else known.lower)
        rough = known.width > max(TOLERABLE_SHARE * middle, TOLERABLE_SECONDS)
        return self._reading(q, known.lower, middle, known.upper, probable=None, rough=rough)

    def _reading(
        self, q: float, lower: float, estimate: float, upper: float, *, probable: Interval | None, rough: bool
    ) -> QuantileReading:
        """Return a quantile; it is rough if more was hidden from a part of the events beyond it.

        Events that a stall held arrive just after the tick that it held, so they are cut only there, and not at random:
        the estimate is pulled towards that place (`docs/measurement.md`).
        """
        resolution = self.ticks.resolution(self._length, q)
        pulled = self.ticks.hidden(self._length, 1.0 - (1.0 - q) / PULLED) > estimate
        known = None if pulled or estimate < resolution else probable
        return QuantileReading(q, lower, estimate, upper, resolution, rough or pulled, known)


def _rank(q: float, n: int) -> int:
    return ceil(round(q * n, 6))  # 0.07 * 100 is above 7


def _tail_of(tallies: Sequence[KeyCounts]) -> Tail | None:
    """Return the longest latencies, if all are known one by one, and not all are of events that are withheld."""
    tails = [tally.tail for tally in tallies if tally.tail]
    if not tails or len(tails) < len(tallies):
        return None
    tail = Tail.joined(tails)
    return tail if tail.upper[-1] < np.inf else None


def solve(estimations: Sequence[Estimation]) -> None:
    """Estimate all distributions at once; these must have the same bins."""
    for _ in rounds(estimations):
        pass


class RollingEstimate:
    """The distribution of a rolling window; each search starts from the last result.

    `reading` is the reading of the last evaluation: of `QUANTILES`, and of `q` if it is another one. `length` is in
    seconds. An evaluation is `update`, then `solve`, then `publish`.
    """

    def __init__(self, bins: Bins, name: str, length: float, q: float = P99) -> None:
        self.length = length
        self._q = q
        self._p = self._smooth = bins.uniform.astype(np.float32)  # there are thousands of these
        self.reading = WindowReading(name, length, 0, ())
        self._tallies: tuple[KeyCounts, ...] = ()
        self._due: Estimation | None = None

    @property
    def p(self) -> FloatArray:
        """The last distribution."""
        return self._p.astype(np.float64)

    def update(self, tallies: tuple[KeyCounts, ...], ticks: TickSpacing) -> tuple[Estimation, ...]:
        """Take in all tallies of the window; return the estimation that is then due, if there is one."""
        if tallies == self._tallies:
            return ()
        self._tallies = tallies
        start = (1 - UNIFORM_SHARE) * self._smooth.astype(np.float64) + UNIFORM_SHARE / len(self._smooth)
        due = Estimation(tallies, start, ticks, self._q, self.length)
        if not due.n:
            self.reading = WindowReading(self.reading.name, self.length, 0, ())
            return ()
        self._due = due
        return (due,)

    def publish(self) -> None:
        """Read the quantiles of the estimation that was due, if there was one."""
        if self._due is None:
            return
        self._p, self._smooth = self._due.p.astype(np.float32), self._due.smooth.astype(np.float32)
        self.reading = WindowReading(self.reading.name, self.length, self._due.n, self._due.readings())
        self._due = None
