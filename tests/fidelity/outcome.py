"""The outcome of one watch in one run: the daemon's report compared with the truth."""

from dataclasses import dataclass

import numpy as np

from tests.fidelity.cases import Case
from tests.fidelity.daemons import Clock, Report
from tests.fidelity.truth import Floats, Quantile, Shares, Truth, Window, quantile, violations

THRESHOLD = 1.0
WINDOW = "1m"
P50, P99 = 0.5, 0.99
QUARTER = 1.25


@dataclass(frozen=True, slots=True)
class Counted:
    """The histogram of all samples of a run, the true one, and the true share `near` each edge."""

    samples: int
    edges: tuple[float, ...]
    said: Floats
    true: Floats
    near: Floats


@dataclass(frozen=True, slots=True)
class Outcome:
    """The last minute of a watch (reported in `said`, and `true`), the counts of the whole run, and the errors.

    `outside` has a sentence for each of the `checked` quantiles with a true value outside of its bounds.
    `contradictions` counts the events that were wrongly reported within or beyond the threshold. Durations are seconds.

    Two values show how busy the machine was: `lag`, the P99 of the time from sending an event to the daemon's time
    stamp, and `tainted`, the number of events that the daemon knew it had read late and did not use as samples.
    """

    case: Case
    clock: Clock
    events: int
    said: dict[float, Quantile]
    true: dict[float, float]
    checked: int
    outside: tuple[str, ...]
    contradictions: int
    counted: Counted
    creation: Shares
    lag: float
    tainted: int

    @property
    def error(self) -> float:
        """The error of the P99, as a multiple of the allowed one."""
        return abs(self.said[P99].estimate - self.true[P99]) / allowed(self.true[P99])

    def creation_error(self, first: float) -> float:
        """Return the largest error of the shares of creation latencies, at all edges from `first` on.

        In these tests no time passes between creation and commit, so both latencies have the same truth.
        """
        judged = np.array(self.creation.edges) >= first
        return float(np.abs(self.creation.shares - self.counted.true)[judged].max())


def allowed(p99: float) -> float:
    """Return the allowed error of the estimate of a P99, in seconds."""
    return 0.005 if p99 < 0.02 else max(0.1 * p99, 0.025)


def compare(case: Case, said: Report, truth: Truth) -> Outcome:
    """Compare a report with the truth of all samples of the daemon."""
    first, last = said.looks[0], said.looks[-1]
    assert (first.dropped, first.skipped) == (last.dropped, last.skipped), f"{case.label}: samples were dropped"
    windows = [window for look in said.looks for window in look.windows if window.events]
    newest = next(window for window in reversed(windows) if window.name == WINDOW)
    samples = truth[: said.timespan.total]
    lower, upper = (ends.when(said.received.revisions[: len(samples)]) for ends in (said.lower, said.upper))
    wrong = (lower > samples.most) | (upper < samples.least)
    return Outcome(
        case=case,
        clock=said.clock,
        events=newest.events,
        said=dict(newest.quantiles),
        true={q: quantile(newest.of(truth).likely, q) for q in newest.quantiles},
        checked=sum(len(window.quantiles) for window in windows),
        outside=(
            *(_violation(window, *found) for window in windows for found in violations(window, truth)),
            *([f"{wrong.sum()} of {len(wrong)} events lie outside of their bounds"] if wrong.any() else []),
        ),
        contradictions=sum(look.contradictions(truth, THRESHOLD) for look in said.looks),
        counted=_counted(said.timespan, samples.likely),
        creation=said.creation,
        lag=quantile(samples.lag, P99),
        tainted=last.tainted,
    )


def _counted(said: Shares, latencies: Floats) -> Counted:
    edges = np.array(said.edges)
    near = share(latencies, edges * QUARTER) - share(latencies, edges / QUARTER)
    return Counted(said.total, said.edges, said.shares, share(latencies, edges), near)


def share(latencies: Floats, edges: Floats) -> Floats:
    """Return the share of the latencies that are at most each edge."""
    return np.searchsorted(np.sort(latencies), edges, side="right") / max(len(latencies), 1)


def _violation(window: Window, q: float, least: float, most: float) -> str:
    said = window.quantiles[q]
    return (
        f"P{q * 100:g} of {window.events} events is {1e3 * least:.1f} to {1e3 * most:.1f} ms, "
        f"but its reported bounds are {1e3 * said.lower:.1f} to {1e3 * said.upper:.1f} ms"
    )
