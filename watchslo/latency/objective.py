"""Objectives and verdicts, which follow from proven bounds and from the times of the ticks, never from an estimate."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from watchslo.latency.bins import Bins
from watchslo.latency.confidence import late_events, most_late
from watchslo.latency.tally import BLOCK_SECONDS, KeyCounts, Periods, Slot, Tally
from watchslo.model import AnsweredTicks
from watchslo.snapshot import WindowVerdict

GIVE_UP_SECONDS = 600.0  # the clock keeps the evidence for sealing no longer


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective: a share of events within the threshold, and a share of good windows.

    `events_target` of all events must arrive within `threshold` seconds, and `minutes_target` of all windows must be
    good. A window of `window` seconds, a multiple of `BLOCK_SECONDS`, is good if the `quantile` of its latencies is
    within the threshold. A window with fewer than `min_events` (at least 1) is judged only if its bounds decide.
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


Ticks = Callable[[float, float], AnsweredTicks]
"""Returns the ticks of the time from its first to its second argument, in monotonic seconds."""


def judge_events(tally: Tally, threshold: float) -> Counter[EventVerdict]:
    """Count the events that are proven to be within the threshold, which is an edge, beyond it, or neither."""
    edge = tally.bins.edge(threshold)
    within, beyond = tally.within(edge), tally.beyond(edge)
    uncertain = tally.n - within - beyond
    return Counter({EventVerdict.WITHIN: within, EventVerdict.BEYOND: beyond, EventVerdict.UNCERTAIN: uncertain})


def judge_window(window: Sequence[KeyCounts], objective: Objective, ticks: AnsweredTicks) -> WindowVerdict:
    """Return the verdict on the events of a window: by their proven bounds, then by what the times of `ticks` show."""
    n = sum(part.n for part in window)
    if not n:
        return WindowVerdict.NO_DATA
    allowed = n - ceil(round(objective.quantile * n, 6))  # 0.07 * 100 is 7.000000000000001, but rank 7 is meant
    late = late_events(window, objective.threshold)
    if late.upper <= allowed:
        return WindowVerdict.GOOD
    if late.lower > allowed:
        return WindowVerdict.BAD
    if n < objective.min_events:
        return WindowVerdict.NO_DATA
    is_good = most_late(window, objective.threshold, ticks) <= allowed
    return WindowVerdict.GOOD if is_good else WindowVerdict.UNDECIDED


class Windows:
    """The successive windows of an objective; each is judged once, by its own events alone.

    The first window begins with the first block after `start`. `verdicts` counts the verdicts. A window is judged when
    all of it is sealed, or without data after `GIVE_UP_SECONDS`: so at most that many seconds are kept.
    """

    def __init__(self, bins: Bins, objective: Objective, start: float) -> None:
        self.verdicts = dict.fromkeys(WindowVerdict, 0)
        self._periods = Periods(bins, ceil(start / BLOCK_SECONDS) * BLOCK_SECONDS, objective.window)
        self._objective = objective
        self._next = 0
        self._noted = start
        self._unjudgeable: set[int] = set()
        self._late: set[int] = set()

    def note(self, now: float, slots: Sequence[Slot], waiting: Sequence[float], *, unjudgeable: bool) -> None:
        """Add newly sealed events, and for how many seconds clients have been `waiting`.

        That is the age of a withheld event, or the time since the watch went down. It makes every window bad in which
        it was longer than the threshold. `unjudgeable` means that the windows since the last call have no data.
        """
        self._periods.add(slots)
        if unjudgeable:
            self._unjudgeable.update(self._unjudged(self._noted, now))
        late = max(waiting, default=0.0) - self._objective.threshold
        if late > 0:
            self._late.update(self._unjudged(now - late, now))
        self._noted = now

    def judge(self, now: float, sealed: float, ticks: Ticks) -> None:
        """Judge the windows that ended by `sealed`, and close the ones that ended too long ago."""
        while (end := self._periods.end(self._next)) <= max(sealed, now - GIVE_UP_SECONDS):
            self.verdicts[self._verdict(self._next, ticks, is_sealed=end <= sealed)] += 1
            self._unjudgeable.discard(self._next)
            self._late.discard(self._next)
            self._next += 1
            self._periods.forget(end)

    def _unjudged(self, first: float, last: float) -> range:
        """Return the windows between two times that are not judged yet."""
        return range(max(self._next, self._periods.number(first)), self._periods.number(last) + 1)

    def _verdict(self, number: int, ticks: Ticks, *, is_sealed: bool) -> WindowVerdict:
        if number in self._unjudgeable:  # the lateness may be that of this process
            return WindowVerdict.NO_DATA
        if number in self._late:
            return WindowVerdict.BAD
        if not is_sealed:
            return WindowVerdict.NO_DATA
        end, objective = self._periods.end(number), self._objective
        committed = end - objective.window - objective.threshold  # what was committed earlier is late
        return judge_window((self._periods.tally(number),), objective, ticks(committed, end))
