"""A real kube-apiserver while the way to it stalls, while delays change within the minute, or the daemon is stopped.

A stalled way holds ticks and events alike, so that ticks cannot show all of the delay. Then figures must carry a mark,
and their bounds must still hold the truth.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tests.fidelity.cases import BUSY, SOON, Case
from tests.fidelity.goals import aligned, ms
from tests.fidelity.outcome import P50, P99, Outcome
from tests.fidelity.real import During, undisturbed
from tests.support.background import repeated
from tests.support.process import Process

STOPPED_SECONDS, EVERY_SECONDS = 3.0, 20.0
NEAR, LEAST = 0.25, 0.025  # share of the true quantile, or seconds, by which a figure may be wrong
WRONG = 0.2  # share of the figures without a mark that may be wrong at most
COLUMNS = (
    "what happens",
    "events a window",
    "true P50 / P99, ms",
    "estimated, ms",
    "P99 bounds, ms",
    "inside",
    "figures without a mark",
    "wrong ones of these",
    "tainted",
)


def _stopping(process: Process) -> contextlib.AbstractContextManager[None]:
    """Stop a process for some seconds, again and again."""

    def stop() -> None:
        with process.paused():
            time.sleep(STOPPED_SECONDS)

    return repeated(EVERY_SECONDS - STOPPED_SECONDS, stop)


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What happens while a watch with this law of delays is measured."""

    name: str
    law: str
    during: During

    @property
    def case(self) -> Case:
        return Case(self.name, BUSY, self.law, bursts=True)


DISTURBANCES = (
    Disturbance("the way to the apiserver stalls", SOON, lambda proxy, _: _stopping(proxy)),
    Disturbance("5 ms, then 100 ms, by turns", "alternating 5ms 100ms 30s", undisturbed),
    Disturbance("the daemon is stopped", SOON, lambda _, daemon: _stopping(daemon)),
)


@dataclass(frozen=True, slots=True)
class Disturbed:
    """What was measured during a disturbance."""

    name: str
    outcome: Outcome

    @property
    def _wrong(self) -> float:
        """The share of the figures without a mark that are wrong."""
        true, found = self.outcome.measured.T
        far = np.abs(found - true) > np.maximum(NEAR * true, LEAST)
        return float(far.mean()) if len(far) else 0.0

    def missed(self) -> Iterator[str]:
        """Yield a sentence for each missed goal."""
        for sentence in self.outcome.outside:
            yield f"{self.name}: {sentence}"
        if self.outcome.contradictions:
            yield f"{self.name}: {self.outcome.contradictions} events have a wrong verdict"
        if self._wrong > WRONG:
            yield f"{self.name}: {self._wrong:.0%} of the figures without a mark are wrong"

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the row."""
        one, shown = self.outcome, len(self.outcome.measured)
        p99 = one.said[P99]
        return (
            self.name,
            f"{one.events:,}",
            f"{ms(one.true[P50])} / {ms(one.true[P99])}",
            f"{ms(one.said[P50].estimate)} / {ms(p99.estimate)}",
            f"{ms(p99.lower)} to {ms(p99.upper)}",
            f"{one.checked - len(one.outside)} of {one.checked}",
            f"{shown} of {shown + one.marked}",
            f"{self._wrong:.0%}",
            f"{one.tainted:,}",
        )


def table(rows: Sequence[Disturbed]) -> str:
    """Return an aligned Markdown table of all disturbances."""
    return aligned([COLUMNS, *(row.cells() for row in rows)])


Measure = Callable[[Case, During], Outcome]


def measured(measure: Measure) -> list[Disturbed]:
    """Measure during each disturbance."""
    return [Disturbed(one.name, measure(one.case, one.during)) for one in DISTURBANCES]
