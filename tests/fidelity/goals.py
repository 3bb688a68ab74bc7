"""The goals, and the rows of the table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, median

import numpy as np

from tests.fidelity.cases import Case
from tests.fidelity.outcome import P50, P99, THRESHOLD, Outcome
from tests.fidelity.truth import Floats

WINDOW_EVENTS = 1000  # the minimum for the goal on the P99
COUNTED_EVENTS = 6000  # the minimum for the goals on shares
STEEP = (
    0.10  # with more of all events within a quarter of an edge, the share depends on the edge more than on latencies
)
SHARE_GOAL, LATE_GOAL = 0.05, 0.005
BURSTS_SHARE_LIMIT, BURSTS_LATE_LIMIT = 0.15, 0.02  # a minute has few bursts, even with many events
CREATION_GOAL = 0.05
CREATION_EDGE = 0.25  # seconds: some hundred intervals of a second each have no finer resolution
CHANCE = 1.1  # the factor by which the median of some hundred random gaps may exceed their mean
COLUMNS = (
    "case",
    "events a window",
    "true P50 / P99, ms",
    "estimated, ms",
    "P99 bounds, ms",
    "inside",
    "P99 error / goal",
    "over 1 s: true / estimated",
    "worst share",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One case: its outcomes in all runs, and for creations also the outcomes of the other daemon."""

    name: str
    outcomes: Sequence[Outcome]
    others: Sequence[Outcome] = ()

    @property
    def case(self) -> Case:
        return self.outcomes[0].case

    def missed(self) -> Iterator[str]:
        """Yield a sentence for each missed goal."""
        for outcome in self.outcomes:
            yield from outcome.outside
            if outcome.contradictions:
                yield f"{outcome.contradictions} events were wrongly reported within or beyond the threshold"
        yield from self._missed_quantiles()
        if sum(self._samples) >= COUNTED_EVENTS:
            yield from self._missed_shares()
        yield from self._missed_creations()

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the row: the run with the median P99 error, and the counts of all runs."""
        shown = self._median_outcome()
        checked = sum(outcome.checked for outcome in self.outcomes)
        inside = checked - sum(len(outcome.outside) for outcome in self.outcomes)
        late_true, late_said = (1 - float(shares[self._threshold]) for shares in (self._true, self._said))
        p99 = shown.said[P99]
        return (
            self.name,
            f"{shown.events:,}",
            f"{ms(shown.true[P50])} / {ms(shown.true[P99])}",
            f"{ms(shown.said[P50].estimate)} / {ms(p99.estimate)}",
            f"{ms(p99.lower)} to {ms(p99.upper)}",
            f"{100 * inside / checked:g}% of {checked}",
            f"{shown.error:.2f}",
            f"{100 * late_true:.2f}% / {100 * late_said:.2f}%",
            f"{100 * self._share_error:.1f} pp",
        )

    def _missed_quantiles(self) -> Iterator[str]:
        few = min(outcome.events for outcome in self.outcomes)
        if few < WINDOW_EVENTS:
            yield f"a window has only {few} events"
        shown = self._median_outcome()
        if shown.error > 1.0:
            yield f"the P99 is {ms(shown.true[P99])} ms, and the estimate {ms(shown.said[P99].estimate)} ms"

    def _missed_shares(self) -> Iterator[str]:
        goal, late_goal = (BURSTS_SHARE_LIMIT, BURSTS_LATE_LIMIT) if self.case.bursts else (SHARE_GOAL, LATE_GOAL)
        if self._share_error > goal:
            yield f"a share is wrong by {100 * self._share_error:.1f} percentage points"
        late = abs(float((self._said - self._true)[self._threshold]))
        if late > late_goal:
            yield f"the share over {THRESHOLD:g} s is wrong by {100 * late:.2f} percentage points"

    def _missed_creations(self) -> Iterator[str]:
        """Both daemons must be right in spite of their different clocks."""
        if not self.case.creation:
            return
        for outcome in (*self.outcomes, *self.others):
            wrong = outcome.creation_error(CREATION_EDGE)
            if not outcome.creation.total:
                yield "no creations were measured"
            elif wrong > CREATION_GOAL:
                yield f"the share of a creation latency is wrong by {100 * wrong:.1f} percentage points"

    def _median_outcome(self) -> Outcome:
        return sorted(self.outcomes, key=lambda outcome: outcome.error)[len(self.outcomes) // 2]

    @property
    def _threshold(self) -> int:
        return self.outcomes[0].counted.edges.index(THRESHOLD)

    @property
    def _share_error(self) -> float:
        """The largest error of all edges except the steep ones."""
        flat = self._pooled([outcome.counted.near for outcome in self.outcomes]) < STEEP
        return float(np.abs(self._said - self._true)[flat].max())

    @property
    def _said(self) -> Floats:
        return self._pooled([outcome.counted.said for outcome in self.outcomes])

    @property
    def _true(self) -> Floats:
        return self._pooled([outcome.counted.true for outcome in self.outcomes])

    @property
    def _samples(self) -> list[int]:
        return [outcome.counted.samples for outcome in self.outcomes]

    def _pooled(self, shares: Sequence[Floats]) -> Floats:
        """Return the shares of all runs together, as the sum of their counters has them."""
        pooled: Floats = np.average(np.stack(shares), axis=0, weights=self._samples)
        return pooled


@dataclass(frozen=True, slots=True)
class Ticking:
    """A revision clock of one daemon in all runs, in seconds."""

    domain: str
    width: float
    gap: float
    round_trip: float

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> "Ticking":
        """Return the clock from one outcome of each run."""
        clocks = [outcome.clock for outcome in outcomes]
        return cls(
            domain=clocks[0].domain,
            width=median(width for clock in clocks for width in clock.widths),
            gap=mean(clock.gap for clock in clocks),
            round_trip=median(clock.round_trip for clock in clocks),
        )

    def __str__(self) -> str:
        return (
            f"{self.domain}: the median interval is {ms(self.width)} ms wide, "
            f"and ticks are {ms(self.gap)} ms apart, with round trips of {ms(self.round_trip)} ms"
        )

    def missed(self) -> bool:
        return self.width > CHANCE * self.gap + self.round_trip


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an aligned Markdown table of the cells of all rows."""
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in (head, ["-" * width for width in widths], *rows)
    )


def ms(seconds: float) -> str:
    """Return milliseconds as text, with one decimal below 100 ms; ∞ if there is no bound."""
    if seconds == float("inf"):
        return "∞"
    milliseconds = 1e3 * seconds
    return f"{milliseconds:.0f}" if milliseconds >= 99.95 else f"{milliseconds:.1f}"
