"""Refine estimated distributions of latencies, above all their tails, by a shape: one lognormal law, or two.

A tick cuts few events of the tail, so their intervals do not determine its shape (Turnbull, 1976: any distribution
within an interval fits it equally). EM with smoothing therefore ends a tail too early, and spreads a delay that never
varies. A law with two or five parameters is determined by all events: latencies of many causes in succession are
nearly lognormal, and two laws describe a fast and a slow mode. Where the evidence contradicts the shape, a few
plain steps of EM repair it.

All functions treat W distributions together, as the rows of matrices. Latencies are natural logarithms of seconds.
`theta` has the parameters of K laws in each row: K means, K logarithms of deviations and, with two laws, the logit of
the second one's share: 2 or 5 columns.
"""

from collections.abc import Generator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.cuts import Cuts, cumulative
from watchslo.model import BoolArray, FloatArray, IntArray

NARROWEST_CUT = 0.04  # of the logarithm, half a bin: a narrower cut is wrong about as often as it is right
TINY_MASS = 1e-12  # of a cut, where a law leaves it none: its logarithm must be finite
LEAST_MASS = 1e-7  # of a bin before EM steps, because a bin without mass would stay empty

# The prior of the logarithm of a deviation, which only matters where the events do not determine it: most latencies are
# usually within a factor of 1.3 of the median, between 1.1 and 1.8.
USUAL_DEVIATION, DEVIATION_SPREAD = np.log(0.25), 0.8
DEVIATIONS = np.log(0.015), np.log(2.5)  # from a sixth of a bin, for a delay that never varies, to four decades
MEANS, LOGITS = (-9.0, 5.0), (-9.0, 9.0)  # from 0.1 ms to 148 s; shares from 0.01% on
FARTHEST = 9.0  # deviations from a mean at which a law is taken as 0 or 1
LONGEST_STEP = 1.0  # of any parameter: further away, the approximation by a parabola is wrong
FIRST_DAMPING, DAMPING_FLOOR, MOST_DAMPING = 0.01, 0.1, 1e3
EASED, DAMPED = 0.25, 8.0  # factors of the damping after a step that was better, or was not
CONVERGED = 0.05  # gain in log likelihood that a further step promises: far less than one event's
ITERATIONS_OF_ONE, ITERATIONS_OF_TWO = 8, 8  # with more, the figures are no better

TWO_WORTH_TRYING = 1.5  # by which EM is more likely than one law
TWO_BETTER = 2.0  # gain in log likelihood from which two laws are believed
LEAST_SHARE = 0.0008  # of a law where two begin: fewer than one event of a usual window
MODE_DEVIATION = 0.12  # added to the deviation of each part, as a bin adds it

FIRST_REPAIRS, MORE_REPAIRS = 4, 12  # steps of EM: more bring back the bias of EM
REPAIR_WORTH_MORE = 0.15  # gain in log likelihood by the first ones from which more are made
REPAIR_IGNORED, REPAIR_BELIEVED = 0.5, 2.0  # gains in log likelihood at which the repaired figure counts 0 and 1

BIN_DEVIATION = 0.05  # standard error of a logarithm by the width of bins, which is 0.087
BISECTIONS = 8  # of a bin, to 0.03%
SHORTEST_SECONDS = 1e-5  # the lower end of the first bin, which has no logarithm
LEAST_DENSITY = 1e-3  # at a quantile: between two modes it may vanish

Found = TypeVar("Found")
Steps = Generator[None, None, Found]
"""Work that pauses after each short step, with its result."""


@dataclass(frozen=True, slots=True, eq=False)
class Refined:
    """Refined distributions: `p` (W, bins), and of each quantile (W, Q) the logarithm and its standard error."""

    p: FloatArray
    quantiles: FloatArray
    errors: FloatArray


def refine(
    bins: Bins, p: FloatArray, cuts: Cuts, n: FloatArray, qs: FloatArray, round_trips: FloatArray, gaps: FloatArray
) -> Steps[Refined]:
    """Refine distributions p (W, bins), estimated by EM from cuts of n events (W,).

    `qs` (W, Q) are the quantiles to be read. Ticks take `round_trips` (W,) and are `gaps` (W,) apart, in seconds.
    """
    evidence = _ObservedCuts.of(bins, cuts, n, round_trips)
    repair = _Repair.of(cuts, n, p.shape[1])
    yield
    shape = yield from _fitted(bins, p, evidence, repair)
    yield
    start = shape.masses(bins, p.shape[1])
    repaired, gain = yield from repair.run(start)
    plain, bent = _read(bins, repaired, start, shape, qs)
    yield
    weight = np.clip((gain - REPAIR_IGNORED) / (REPAIR_BELIEVED - REPAIR_IGNORED), 0.0, 1.0)[:, None]
    difference = np.where(weight < 0.5, bent - plain, 0.0)  # noqa: PLR2004 - a half
    errors = np.sqrt(shape.variances(plain, qs, n, gaps) + BIN_DEVIATION**2 + difference**2)
    return Refined(repaired, weight * bent + (1 - weight) * plain, errors)


# --- the law ----------------------------------------------------------------------------------------------------------


def normal(z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the standard normal law's distribution function and density, approximated by a logistic function.

    The error of the former is below 0.00015 (Page, 1977, with the constants of Bowling et al., 2009); the latter is its
    derivative.
    """
    square = z * z
    below = 1 / (1 + np.exp(-z * (1.5976 + 0.070565776 * square)))
    density = below * (1 - below) * (1.5976 + 0.211697328 * square)
    return below, density


def _laws(theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the means, deviations and shares of the laws of each row, each (W, K)."""
    k = theta.shape[1] // 2
    if k == 1:
        return theta[:, :1], np.exp(theta[:, 1:]), np.ones((len(theta), 1))
    second = 1 / (1 + np.exp(-theta[:, 4:]))
    return theta[:, :2], np.exp(theta[:, 2:4]), np.concatenate((1 - second, second), axis=1)


def _distances(theta: FloatArray, x: FloatArray) -> FloatArray:
    """Return how many deviations each of x (W, N) lies above the mean of each law (W, K, N), at most 9."""
    means, deviations, _ = _laws(theta)
    z = (x[:, None] - means[:, :, None]) / deviations[:, :, None]
    return np.clip(z, -FARTHEST, FARTHEST, out=z)


def share_below(theta: FloatArray, x: FloatArray) -> FloatArray:
    """Return the share of latencies below each of x (W, N)."""
    _, _, shares = _laws(theta)
    below: FloatArray = (shares[:, :, None] * normal(_distances(theta, x))[0]).sum(axis=1)
    return below


def slopes(theta: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the share below each of x (W, N), and its derivative by each parameter (W, N, D)."""
    _, deviations, shares = _laws(theta)
    z = _distances(theta, x)
    parts, density = normal(z)
    density *= shares[:, :, None]
    below = (shares[:, :, None] * parts).sum(axis=1)
    k = shares.shape[1]
    by = np.empty((*x.shape, theta.shape[1]))
    by[:, :, :k] = (density / -deviations[:, :, None]).transpose(0, 2, 1)
    by[:, :, k : 2 * k] = (density * -z).transpose(0, 2, 1)
    if k > 1:
        by[:, :, 4] = shares[:, 1:] * (parts[:, 1] - below)
    return below, by


def quantiles(theta: FloatArray, qs: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the quantiles qs (W, Q) of the laws, by bisection between `low` and `high`."""
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        is_below = share_below(theta, middle) < qs
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return (low + high) / 2


# --- what was observed ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _ObservedCuts:
    """The cuts of W distributions with their events: cut k lies between x[rows[k], lower[k]] and x[rows[k], upper[k]].

    Cuts end in the middles of their outer bins, and half a round trip further inside: where the truth is on average.
    Outward ends, which bounds need, would make the law narrower than it is.
    """

    x: FloatArray
    rows: IntArray
    lower: IntArray
    upper: IntArray
    counts: FloatArray

    @classmethod
    def of(cls, bins: Bins, cuts: Cuts, n: FloatArray, round_trips: FloatArray) -> "_ObservedCuts":
        """Return the evidence of cuts of n events (W,), by ticks that take `round_trips` seconds (W,)."""
        edges, half = bins.edges, round_trips[:, None] / 2
        width = min(int(cuts.j.max()) + 2, len(edges))
        middles = np.sqrt(edges[:-1] * np.minimum(edges[1:], 2 * edges[-2]))
        middles[0] = edges[1] / 2
        x = np.full((len(n), 2 * width), -np.inf)
        x[:, 1:width] = np.log(np.append(middles, np.inf)[1:width] + half)
        x[:, width + 1 :] = np.log(np.maximum(middles[: width - 1] - half, edges[1:width] / 4))
        lower, upper = cuts.i, cuts.j + width
        is_narrow = x[cuts.rows, upper] - x[cuts.rows, lower] < NARROWEST_CUT
        lower = np.maximum(lower - is_narrow, 0)
        upper = np.minimum(upper + is_narrow, 2 * width - 1)
        is_used = np.bincount(np.concatenate((lower, upper)), minlength=2 * width) > 0
        places = is_used.cumsum() - 1
        return cls(x[:, is_used], cuts.rows, places[lower], places[upper], cuts.masses * n[cuts.rows])

    def of_rows(self, chosen: BoolArray) -> "_ObservedCuts":
        """Return the evidence of some rows, chosen by a mask (W,), and number these rows again."""
        kept = chosen[self.rows]
        rows = (chosen.cumsum() - 1)[self.rows[kept]]
        return _ObservedCuts(self.x[chosen], rows, self.lower[kept], self.upper[kept], self.counts[kept])


# --- the fit ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Fit:
    """The most likely parameters so far, their penalised log likelihood (W,), its gradient and its information."""

    theta: FloatArray
    likelihood: FloatArray
    gradient: FloatArray
    information: FloatArray

    def at(self, rows: IntArray | BoolArray) -> "_Fit":
        return _Fit(self.theta[rows], self.likelihood[rows], self.gradient[rows], self.information[rows])

    def put(self, rows: IntArray, other: "_Fit") -> None:
        """Replace some rows."""
        self.theta[rows], self.likelihood[rows] = other.theta, other.likelihood
        self.gradient[rows], self.information[rows] = other.gradient, other.information


def _judged(theta: FloatArray, evidence: _ObservedCuts) -> _Fit:
    """Return the log likelihood of theta with the prior, its gradient, and the sum of the outer products of gradients.

    The latter approximates the information (BHHH: Berndt, Hall, Hall and Hausman, 1974).
    """
    below, by = slopes(theta, evidence.x)
    w, size = evidence.x.shape
    first = evidence.rows * size
    lower, upper = first + evidence.lower, first + evidence.upper
    masses = np.maximum(below.ravel()[upper] - below.ravel()[lower], TINY_MASS)
    starts = evidence.rows.searchsorted(np.arange(w + 1)).tolist()
    likelihood = np.add.reduceat(evidence.counts * np.log(masses), starts[:-1])
    flat, roots = by.reshape(w * size, -1), np.sqrt(evidence.counts)
    d = theta.shape[1]
    scores = np.empty((len(roots), d + 1))
    scores[:, d] = roots
    differences = flat.take(upper, axis=0)
    differences -= flat.take(lower, axis=0)
    np.multiply(differences, (roots / masses)[:, None], out=scores[:, :d])
    products = np.empty((w, d + 1, d + 1))
    for row, (start, end) in enumerate(pairwise(starts)):
        scored = scores[start:end]
        np.dot(scored.T, scored, out=products[row])
    gradient, information = products[:, d, :d], products[:, :d, :d]
    k = d // 2
    place = np.arange(k, 2 * k)
    distance = (theta[:, place] - USUAL_DEVIATION) / DEVIATION_SPREAD
    likelihood -= (distance**2).sum(axis=1) / 2
    gradient[:, place] -= distance / DEVIATION_SPREAD
    information[:, place, place] += 1 / DEVIATION_SPREAD**2
    return _Fit(theta, likelihood, gradient, information)


def fit(theta: FloatArray, evidence: _ObservedCuts, iterations: int) -> Steps[_Fit]:
    """Find the most likely parameters near theta, by a damped Gauss-Newton method; pause after each iteration.

    From far away it takes dozens of iterations: so each search starts from a result of EM, not from an older fit.
    """
    best = _judged(theta.copy(), evidence)
    damping, active = np.full(len(theta), FIRST_DAMPING), np.arange(len(theta))
    for _ in range(iterations - 1):
        yield
        step, gains = _steps(best.at(active), damping[active])
        promising = (gains > CONVERGED) & (damping[active] < MOST_DAMPING)
        if not promising.any():
            break
        if not promising.all():
            evidence, active, step = evidence.of_rows(promising), active[promising], step[promising]
        tried = _judged(best.theta[active] + step, evidence)
        better = tried.likelihood > best.likelihood[active]
        best.put(active[better], tried.at(better))
        damping[active] *= np.where(better, EASED, DAMPED)
    return best


def _steps(fit: _Fit, damping: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the next step of each row, and the gain in log likelihood that it promises."""
    matrix = _regular(fit.information, damping[:, None], DAMPING_FLOOR)
    step = np.linalg.solve(matrix, fit.gradient[:, :, None])[:, :, 0]
    step = _limited(fit.theta + np.clip(step, -LONGEST_STEP, LONGEST_STEP)) - fit.theta
    return step, (step * fit.gradient).sum(axis=1) / 2


def _regular(information: FloatArray, share: FloatArray | float, floor: float = 0.0) -> FloatArray:
    """Return the matrices with a share of their diagonals more, so that they are not singular."""
    matrix = information.copy()
    diagonal = np.arange(matrix.shape[1])
    matrix[:, diagonal, diagonal] += share * (matrix[:, diagonal, diagonal] + floor) + 1e-6
    return matrix


def _limited(theta: FloatArray) -> FloatArray:
    k = theta.shape[1] // 2
    parts = theta[:, :k], theta[:, k : 2 * k], theta[:, 2 * k :]
    limits = MEANS, DEVIATIONS, LOGITS
    return np.concatenate([np.clip(part, *limit) for part, limit in zip(parts, limits, strict=True)], axis=1)


def start_of_one(bins: Bins, p: FloatArray) -> FloatArray:
    """Return the mean and the deviation of each row of p as theta."""
    x = np.log(bins.midpoints[: p.shape[1]])
    mean = p @ x
    deviation = np.sqrt(np.maximum(p @ x**2 - mean**2, BIN_DEVIATION**2))
    return np.stack((mean, np.clip(np.log(deviation), *DEVIATIONS)), axis=1)


def start_of_two(bins: Bins, p: FloatArray) -> FloatArray:
    """Return the theta of two laws, the parts of p below and above the edge that separates them best."""
    x = np.log(bins.midpoints[: p.shape[1]])
    share, first, second = np.cumsum(p, axis=1), np.cumsum(p * x, axis=1), np.cumsum(p * x**2, axis=1)
    shares = np.maximum(np.stack((share, 1 - share)), 1e-9)
    means = np.stack((first, first[:, -1:] - first)) / shares
    squares = np.stack((second, second[:, -1:] - second)) / shares
    variances = np.maximum(squares - means**2, 0) + MODE_DEVIATION**2
    cost = (shares * (np.log(variances) / 2 - np.log(shares))).sum(axis=0)
    cost[(shares < LEAST_SHARE).any(axis=0)] = np.inf
    rows, place = np.arange(len(p)), cost.argmin(axis=1)
    logits = np.log(shares[1] / shares[0])
    theta = np.stack((*means, *(np.log(variances) / 2), logits))[:, rows, place].T
    return _limited(theta)


# --- one law or two ---------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Shape:
    """The shapes of W distributions: one law each, or for the rows of the mask `is_two` two laws."""

    one_law: _Fit
    two_laws: _Fit
    is_two: BoolArray

    def masses(self, bins: Bins, width: int) -> FloatArray:
        """Return the mass in each of the first so many bins; the last one has the rest of the tail."""
        x = np.broadcast_to(np.append(-np.inf, np.log(bins.edges[1:width])), (len(self.is_two), width))
        below = np.concatenate((self.share_below(x), np.ones((len(x), 1))), axis=1)
        return np.maximum(np.diff(below, axis=1), LEAST_MASS)

    def share_below(self, x: FloatArray) -> FloatArray:
        below = np.empty(x.shape)
        below[~self.is_two] = share_below(self.one_law.theta[~self.is_two], x[~self.is_two])
        below[self.is_two] = share_below(self.two_laws.theta, x[self.is_two])
        return below

    def quantiles(self, qs: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the quantiles qs (W, Q), which lie between `low` and `high`."""
        found = np.empty(qs.shape)
        for theta, rows in ((self.one_law.theta[~self.is_two], ~self.is_two), (self.two_laws.theta, self.is_two)):
            found[rows] = quantiles(theta, qs[rows], low[rows], high[rows])
        return found

    def variances(self, x: FloatArray, qs: FloatArray, n: FloatArray, gaps: FloatArray) -> FloatArray:
        found = np.empty(qs.shape)
        for fitted, rows in ((self.one_law.at(~self.is_two), ~self.is_two), (self.two_laws, self.is_two)):
            found[rows] = _variances(fitted, x[rows], qs[rows], n[rows], gaps[rows])
        return found


def _fitted(bins: Bins, p: FloatArray, evidence: _ObservedCuts, repair: "_Repair") -> Steps[_Shape]:
    """Fit one law to each row, and two where EM is much more likely than one; keep two if they are better."""
    one_law = yield from fit(start_of_one(bins, p), evidence, ITERATIONS_OF_ONE)
    nothing = np.zeros(len(p), np.bool_)
    single = _Shape(one_law, _Fit(np.empty((0, 5)), np.empty(0), np.empty((0, 5)), np.empty((0, 5, 5))), nothing)
    worth = repair.likelihood(p + 1e-9) - repair.likelihood(single.masses(bins, p.shape[1])) > TWO_WORTH_TRYING
    if not worth.any():
        return single
    yield
    two_laws = yield from fit(start_of_two(bins, p[worth]), evidence.of_rows(worth), ITERATIONS_OF_TWO)
    is_better = two_laws.likelihood - one_law.likelihood[worth] > TWO_BETTER
    is_two = nothing
    is_two[np.flatnonzero(worth)[is_better]] = True
    return _Shape(one_law, two_laws.at(is_better), is_two)


def _variances(fitted: _Fit, x: FloatArray, qs: FloatArray, n: FloatArray, gaps: FloatArray) -> FloatArray:
    """Return the variances of the quantiles x (W, Q): of the parameters, by the delta method, and of the sample.

    The true quantile is that of n events and differs from the law's; the more exactly the ticks cut at it, the less
    this matters, because the events themselves are seen.
    """
    _, deviations, shares = _laws(fitted.theta)
    density = (shares / deviations)[:, :, None] * normal(_distances(fitted.theta, x))[1]
    density = np.maximum(density.sum(axis=1), LEAST_DENSITY)
    _, by = slopes(fitted.theta, x)
    by = by / density[:, :, None]
    solved = np.linalg.solve(_regular(fitted.information, 1e-9)[:, None], by[..., None])[..., 0]
    own = np.minimum(qs * (1 - qs) / (n[:, None] * density**2), 1.0)
    unseen = 1 - np.minimum(1.0, np.exp(x) / gaps[:, None])
    variances: FloatArray = np.maximum((solved * by).sum(axis=2), 0.0) + own * unseen
    return variances


# --- the repair -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Repair:
    """Steps of plain EM with cuts that end in the middles of their outer bins: these count half.

    `ends` has four places in the matrix of cumulative masses for each cut: the two ends from outside, and from inside.
    """

    ends: tuple[IntArray, IntArray, IntArray, IntArray]
    rows: IntArray
    masses: FloatArray
    n: FloatArray
    width: int

    @classmethod
    def of(cls, cuts: Cuts, n: FloatArray, width: int) -> "_Repair":
        """Return the steps for matrices of so many bins; a single bin, and the first one, are not halved."""
        is_wide = cuts.j > cuts.i + 1
        first = cuts.rows * (width + 1)
        i, j = first + cuts.i, first + cuts.j
        return cls((i, j, i + (is_wide & (cuts.i > 0)), j - is_wide), cuts.rows, cuts.masses, n, width)

    def of_rows(self, chosen: BoolArray) -> "_Repair":
        """Return the steps of some rows, chosen by a mask (W,)."""
        kept = chosen[self.rows]
        rows = (chosen.cumsum() - 1)[self.rows[kept]]
        shift = (rows - self.rows[kept]) * (self.width + 1)
        i, j, inner_i, inner_j = (end[kept] + shift for end in self.ends)
        return _Repair((i, j, inner_i, inner_j), rows, self.masses[kept], self.n[chosen], self.width)

    def held(self, p: FloatArray) -> FloatArray:
        """Return the mass of p in each cut."""
        below = cumulative(p).ravel()
        i, j, inner_i, inner_j = self.ends
        held: FloatArray = np.maximum((below[j] + below[inner_j] - below[i] - below[inner_i]) / 2, TINY_MASS)
        return held

    def likelihood(self, p: FloatArray) -> FloatArray:
        """Return the log likelihood of each row of p."""
        starts = self.rows.searchsorted(range(len(self.n)))
        likelihood: FloatArray = self.n * np.add.reduceat(self.masses * np.log(self.held(p)), starts)
        return likelihood

    def step(self, p: FloatArray) -> FloatArray:
        """Divide the mass of each cut among its bins in the proportions of p."""
        factors = self.masses / self.held(p) / 2
        size = len(p) * (self.width + 1)
        i, j, inner_i, inner_j = (np.bincount(end, factors, size) for end in self.ends)
        changes = (i + inner_i - j - inner_j).reshape(len(p), -1)[:, :-1]
        stepped: FloatArray = p * np.maximum(changes.cumsum(axis=1), 0.0)
        return stepped

    def run(self, p: FloatArray) -> Steps[tuple[FloatArray, FloatArray]]:
        """Repair each row of p; return the result with the gain in log likelihood (W,). Pause now and then."""
        before = self.likelihood(p)
        for _ in range(FIRST_REPAIRS):
            p = self.step(p)
        gain = self.likelihood(p) - before
        more = gain > REPAIR_WORTH_MORE
        yield
        if more.any():
            some, part = self.of_rows(more), p[more]
            for _ in range(MORE_REPAIRS // 4):
                for _ in range(4):
                    part = some.step(part)
                yield
            p[more], gain[more] = part, some.likelihood(part) - before[more]
        return p, gain


def _read(bins: Bins, p: FloatArray, start: FloatArray, shape: _Shape, qs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the quantiles qs (W, Q) of the shape, and of the repaired distributions p.

    `start` is the shape's mass in each bin. Within a bin, latencies are distributed as in the shape.
    """
    edges = np.log(np.maximum(bins.edges, SHORTEST_SECONDS))
    edges[-1] = edges[-2]  # the open bin has the figure of its lower edge: "at least this"
    below, of_shape = (cumulative(matrix) for matrix in (p, start))
    below, of_shape = below / below[:, -1:], of_shape / of_shape[:, -1:]
    plain, bent = _bins_of(of_shape, qs), _bins_of(below, qs)
    ends = [np.take_along_axis(matrix, bent + side, axis=1) for matrix in (below, of_shape) for side in (0, 1)]
    share = (qs - ends[0]) / (ends[1] - ends[0])
    k = np.concatenate((plain, bent), axis=1)
    levels = np.concatenate((qs, ends[2] + share * (ends[3] - ends[2])), axis=1)
    found = shape.quantiles(levels, edges[k], edges[k + 1])
    return found[:, : qs.shape[1]], found[:, qs.shape[1] :]


def _bins_of(below: FloatArray, qs: FloatArray) -> IntArray:
    """Return the bins in which the quantiles qs (W, Q) lie, by the mass below each edge (W, edges)."""
    bins: IntArray = (below[:, None] < qs[:, :, None]).sum(axis=2) - 1
    return bins
