"""Objectives and verdicts: events are judged by proven bounds, windows of time by estimated quantiles."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from watchslo.latency.bins import Bins
from watchslo.latency.estimate import Estimation, TickSpacing
from watchslo.latency.tally import BLOCK_SECONDS, Periods, Slot, Tally

GIVE_UP_SECONDS = 600.0  # the clock keeps the evidence for sealing no longer


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective: a share of events within the threshold, and a share of good windows.

    `events_target` of all events must arrive within `threshold` seconds, and `minutes_target` of all windows must be
    good. A window of `window` seconds, a multiple of `BLOCK_SECONDS`, is good if the `quantile` of its latencies is
    within the threshold. A window with fewer than `min_events` (at least 1) is not judged.
    """

    threshold: float = 1.0
    events_target: float = 0.99
    quantile: float = 0.99
    window: float = 60.0
    minutes_target: float = 0.999
    min_events: int = 100


class EventVerdict(StrEnum):
    """The verdict on an event: certainly in time, certainly late, or undecided."""

    WITHIN = "within"
    BEYOND = "beyond"
    UNCERTAIN = "uncertain"


class WindowVerdict(StrEnum):
    """The verdict on a window of time."""

    GOOD = "good"
    BAD = "bad"
    NO_DATA = "no_data"


def judge_events(tally: Tally, threshold: float) -> Counter[EventVerdict]:
    """Count the events that are proven to be within the threshold, which is an edge, beyond it, or neither."""
    edge = tally.bins.edge(threshold)
    within, beyond = tally.within(edge), tally.beyond(edge)
    uncertain = tally.n - within - beyond
    return Counter({EventVerdict.WITHIN: within, EventVerdict.BEYOND: beyond, EventVerdict.UNCERTAIN: uncertain})


class Windows:
    """The successive windows of an objective; each is judged once, by its own events alone.

    The first window begins with the first block after `start`. `verdicts` counts the verdicts. A window is judged when
    all of it is sealed, or without data after `GIVE_UP_SECONDS`: so at most that many seconds are kept. An evaluation
    is `note`, then `judge`, then `solve` of what that returned, then `publish`.
    """

    def __init__(self, bins: Bins, objective: Objective, start: float) -> None:
        self.verdicts = dict.fromkeys(WindowVerdict, 0)
        self._periods = Periods(bins, ceil(start / BLOCK_SECONDS) * BLOCK_SECONDS, objective.window)
        self._cold = bins.uniform
        self._objective = objective
        self._next = 0
        self._noted = start
        self._unjudgeable: set[int] = set()
        self._withheld: set[int] = set()
        self._undecided: list[Estimation] = []

    def note(self, now: float, slots: Sequence[Slot], withheld: Sequence[float], *, unjudgeable: bool) -> None:
        """Add newly sealed events and the ages, in seconds, of withheld ones.

        An event makes every window bad in which it was withheld for longer than the threshold. `unjudgeable` means that
        the windows since the last call have no data.
        """
        self._periods.add(slots)
        if unjudgeable:
            self._unjudgeable.update(self._unjudged(self._noted, now))
        late = max(withheld, default=0.0) - self._objective.threshold
        if late > 0:
            self._withheld.update(self._unjudged(now - late, now))
        self._noted = now

    def judge(self, now: float, sealed: float, ticks: TickSpacing, *, estimable: bool = True) -> list[Estimation]:
        """Judge the windows that ended by `sealed`, and close the ones that ended too long ago.

        The result has the estimations of those windows that the bounds of their events do not decide. Unless
        `estimable`, these have no data.
        """
        while (end := self._periods.end(self._next)) <= max(sealed, now - GIVE_UP_SECONDS):
            verdict = self._verdict(self._next, is_sealed=end <= sealed)
            if verdict is None and estimable:
                window = self._periods.tally(self._next)
                self._undecided.append(Estimation((window,), self._cold, ticks, self._objective.quantile))
            else:
                self.verdicts[verdict or WindowVerdict.NO_DATA] += 1
            self._unjudgeable.discard(self._next)
            self._withheld.discard(self._next)
            self._next += 1
            self._periods.forget(end)
        return self._undecided

    def publish(self) -> None:
        """Judge the windows whose estimations are solved."""
        for solved in self._undecided:
            _, estimate, _ = solved.figures[-1]
            is_good = estimate <= self._objective.threshold
            self.verdicts[WindowVerdict.GOOD if is_good else WindowVerdict.BAD] += 1
        self._undecided = []

    def _unjudged(self, first: float, last: float) -> range:
        """Return the windows between two times that are not judged yet."""
        return range(max(self._next, self._periods.number(first)), self._periods.number(last) + 1)

    def _verdict(self, number: int, *, is_sealed: bool) -> WindowVerdict | None:
        """Return the verdict on a window; None if its quantile has to be estimated."""
        window = self._periods.tally(number)
        if number in self._unjudgeable:  # the lateness may be that of this process
            return WindowVerdict.NO_DATA
        if number in self._withheld:
            return WindowVerdict.BAD
        if not is_sealed or window.n < self._objective.min_events:
            return WindowVerdict.NO_DATA
        bounds = window.bounds(self._objective.quantile)  # the estimate lies between them
        if bounds.upper <= self._objective.threshold:
            return WindowVerdict.GOOD
        return WindowVerdict.BAD if bounds.lower > self._objective.threshold else None
