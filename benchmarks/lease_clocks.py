"""`python -m benchmarks.lease_clocks` tries the clocks of nodes as evidence of when events were committed.

A node stamps its Lease just before it writes it, every ten seconds. Ticks bound the commit by our clock, so the least
of `latest commit - stamp` of the node's last 60 renewals bounds the difference of both clocks from above. If one of
these renewals was written and ticked within `MARGIN_SECONDS`, that bound is right to the margin, and a stamp dates its
commit from below: so also every event with a later revision. The table compares the upper bounds of a healthy P99 with
those of ticks alone, and shows how many are false.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tests.fidelity.goals import aligned
from watchslo.model import FloatArray

RENEWAL_SECONDS, KEPT = 10.0, 60
BEFORE_SECONDS, WINDOW_SECONDS = 900.0, 60.0
GAP_SECONDS, JITTER, ROUND_TRIP = 0.5, 0.25, 0.003
MARGIN_SECONDS = 0.1
DRIFT = 50e-6  # by which a clock may gain, which widens older bounds
WRITE_SECONDS, WRITE_SIGMA = 0.003, 0.8  # lognormal
EVENTS, EVENT_SECONDS, EVENT_SIGMA = 1200, 0.005, 0.5  # in the window, and how late they are: lognormal
WORLDS = 100  # of each kind

CHANGE_SECONDS = 20.0  # after the beginning of the window


@dataclass(frozen=True, slots=True)
class Kind:
    """A cluster with so many nodes; the writes of the first `changed` differ before the change, or after it.

    They take `slower` seconds longer, and their clock is ahead by `ahead` seconds.
    """

    name: str
    nodes: int
    changed: int = 0
    slower: float = 0.0
    ahead: float = 0.0
    before: bool = False
    after: bool = False

    def differ(self, began: FloatArray) -> FloatArray:
        """Return 1 for each write that differs, else 0, in the shape of `began`."""
        differ = np.where(began < CHANGE_SECONDS, self.before, self.after).astype(float)
        differ[self.changed :] = 0.0
        return differ


KINDS = (
    *(Kind(f"{nodes} steady nodes", nodes) for nodes in (10, 100, 300, 1000)),
    Kind("300, one always writes 1.5 s late", 300, 1, slower=1.5, before=True, after=True),
    Kind("300, all writes become 0.4 s slower", 300, 300, slower=0.4, after=True),
    Kind("300, one clock steps back by 0.5 s", 300, 1, ahead=-0.5, after=True),
    Kind("300, one clock steps ahead by 0.5 s", 300, 1, ahead=0.5, after=True),
    Kind("300, one node's writes become 0.4 s faster", 300, 1, slower=0.4, before=True),
    Kind("300, all writes become 0.4 s faster", 300, 300, slower=0.4, before=True),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """P99 in seconds: true, and its upper bounds by ticks and by leases; and the share of false bounds of events."""

    true: float
    ticks: float
    leases: float
    false: float
    worst: float


def measured(kind: Kind, chance: np.random.Generator) -> Figures:
    """Simulate a window of a minute and the quarter of an hour before it."""
    sent = _ticks(chance)
    began, took, stamps = _renewals(kind, chance)
    committed = began + took
    latest = sent[np.searchsorted(sent, committed)] + ROUND_TRIP
    dated = stamps + _difference(latest - stamps) - MARGIN_SECONDS
    events = np.sort(chance.uniform(0.0, WINDOW_SECONDS, EVENTS))
    arrived = events + chance.lognormal(np.log(EVENT_SECONDS), EVENT_SIGMA, EVENTS)
    ticked = sent[np.searchsorted(sent, events) - 1]
    leased = np.maximum(ticked, _newest_before(committed.ravel(), dated.ravel(), events))
    excess = leased - events
    true, ticks, leases = (float(np.quantile(arrived - one, 0.99)) for one in (events, ticked, leased))
    return Figures(true, ticks, leases, float(np.mean(excess > 0.0)), float(max(excess.max(), 0.0)))


def _ticks(chance: np.random.Generator) -> FloatArray:
    count = int(1.5 * (BEFORE_SECONDS + WINDOW_SECONDS) / GAP_SECONDS)
    gaps = GAP_SECONDS * chance.uniform(1.0 - JITTER, 1.0 + JITTER, count)
    return np.cumsum(gaps) - BEFORE_SECONDS - 2.0


def _renewals(kind: Kind, chance: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return when each write begins, how long it takes, and its stamp: a row for each node."""
    count = int((BEFORE_SECONDS + WINDOW_SECONDS) / RENEWAL_SECONDS)
    began = np.arange(count) * RENEWAL_SECONDS - BEFORE_SECONDS + chance.uniform(0.0, RENEWAL_SECONDS, (kind.nodes, 1))
    began = began + chance.uniform(0.0, 0.4, began.shape)  # client-go's jitter
    took = chance.lognormal(np.log(WRITE_SECONDS), WRITE_SIGMA, began.shape)
    ahead = chance.normal(0.0, 1.0, (kind.nodes, 1)) + 20e-6 * chance.uniform(-1.0, 1.0, (kind.nodes, 1)) * began
    differ = kind.differ(began)
    return began, took + kind.slower * differ, began + ahead + kind.ahead * differ


def _difference(bounds: FloatArray) -> FloatArray:
    """Return the least of the last `KEPT` bounds of each node, widened by the drift since then."""
    least = bounds.copy()
    for back in range(1, KEPT):
        older = bounds[:, :-back] + back * RENEWAL_SECONDS * DRIFT
        least[:, back:] = np.minimum(least[:, back:], older)
    return least


def _newest_before(committed: FloatArray, dated: FloatArray, events: FloatArray) -> FloatArray:
    """Return the latest date of all leases with an earlier revision than each event."""
    order = np.argsort(committed)
    newest = np.maximum.accumulate(dated[order])
    found: FloatArray = newest[np.searchsorted(committed[order], events) - 1]
    return found


def rows() -> Iterator[tuple[str, ...]]:
    """Yield a row of the table for each kind of cluster."""
    yield "nodes", "P99: true", "at most, by ticks", "at most, by leases too", "false bounds of events", "by up to"
    for kind in KINDS:
        found = [measured(kind, np.random.default_rng(seed)) for seed in range(WORLDS)]
        figures = np.array([(window.true, window.ticks, window.leases) for window in found])
        false, worst = np.mean([window.false for window in found]), max(window.worst for window in found)
        yield (
            kind.name,
            *(f"{1e3 * one:.0f} ms" for one in np.median(figures, axis=0)),
            f"{false:.2%}",
            f"{1e3 * worst:.0f} ms",
        )


if __name__ == "__main__":
    print(aligned(list(rows())))
