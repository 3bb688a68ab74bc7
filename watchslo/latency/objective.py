"""Objectives and verdicts: events are judged by proven bounds, windows of time by estimated quantiles."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.estimate import estimate, read_quantile, uniform
from watchslo.latency.tally import Periods
from watchslo.model import FloatArray

GIVE_UP_SECONDS = 600.0  # the clock keeps the evidence for sealing no longer


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective: a share of events within the threshold, and a share of good windows.

    `events_target` of all events must arrive within `threshold` seconds, and `minutes_target` of all windows must be
    good. A window of `window` seconds is good if the `quantile` of its latencies is within the threshold. A window with
    fewer than `min_events` (at least 1) is not judged.
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


def judge_events(upper: FloatArray, proven: FloatArray, threshold: float) -> dict[EventVerdict, int]:
    """Count the events that are proven to be within the threshold, beyond it, or neither."""
    within = int(np.count_nonzero(upper <= threshold))
    beyond = int(np.count_nonzero(proven > threshold))
    uncertain = len(upper) - within - beyond
    return {EventVerdict.WITHIN: within, EventVerdict.BEYOND: beyond, EventVerdict.UNCERTAIN: uncertain}


class Windows:
    """The successive windows of an objective from `start` on; each is judged once, by its own events alone.

    `verdicts` counts the verdicts. A window is judged when all of it is sealed, or without data after
    `GIVE_UP_SECONDS`.
    """

    def __init__(self, bins: Bins, objective: Objective, start: float) -> None:
        self.verdicts = dict.fromkeys(WindowVerdict, 0)
        self.periods = Periods(bins, start, objective.window)
        self._cold = uniform(bins)
        self._objective = objective
        self._next = 0
        self._noted = start
        self._unjudgeable: set[int] = set()
        self._withheld: set[int] = set()

    def note(self, now: float, withheld: Sequence[float], *, unjudgeable: bool) -> None:
        """Record whether the windows since the last call have no data, and the ages in seconds of withheld events.

        An event makes every window bad in which it was withheld for longer than the threshold.
        """
        if unjudgeable:
            self._unjudgeable.update(self._unjudged(self._noted, now))
        late = max(withheld, default=0.0) - self._objective.threshold
        if late > 0:
            self._withheld.update(self._unjudged(now - late, now))
        self._noted = now

    def judge(self, now: float, sealed: float) -> None:
        """Judge the windows that ended by `sealed`, and close the ones that ended too long ago."""
        while (end := self.periods.end(self._next)) <= max(sealed, now - GIVE_UP_SECONDS):
            self.verdicts[self._verdict(self._next, is_sealed=end <= sealed)] += 1
            self._next += 1
            self.periods.forget(end)

    def _unjudged(self, first: float, last: float) -> range:
        """Return the windows between two times that are not judged yet."""
        return range(max(self._next, self.periods.number(first)), self.periods.number(last) + 1)

    def _verdict(self, number: int, *, is_sealed: bool) -> WindowVerdict:
        window = self.periods.tally(number)
        if number in self._unjudgeable:  # the lateness may be that of this process
            return WindowVerdict.NO_DATA
        if number in self._withheld:
            return WindowVerdict.BAD
        if not is_sealed or window.n < self._objective.min_events:
            return WindowVerdict.NO_DATA
        p = estimate(window, self._cold)
        reading = read_quantile(window, p, self._objective.quantile, round_trip=0.0)
        return WindowVerdict.GOOD if reading.estimate <= self._objective.threshold else WindowVerdict.BAD
