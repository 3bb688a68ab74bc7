"""All statistics of one watch: from revisions that arrive to the readings that are shown.

An arrival is provisional until the clock has seen enough to seal the second it came in. What is sealed is counted at
the next evaluation, all at once, so that the parts of a reading agree with each other.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import floor

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.estimate import RollingEstimate
from watchslo.latency.histogram import MassHistogram
from watchslo.latency.objective import EventVerdict, Objective, Windows, judge_events
from watchslo.latency.window import Periods, Tally, later_than, merge, tally
from watchslo.model import Bounds, FloatArray, IntArray, Interval, Measure
from watchslo.snapshot import ObjectiveReading, TrackReading

INITIAL = "initial"  # not live: part of a list
BEFORE_CLOCK = "before_clock"  # committed before the first tick
DOMAIN = "domain"  # its revision is of another sequence, or not known to be of this one
TAINTED = "tainted"  # we ourselves were late to read it
UNSEALED = "unsealed"  # no tick came in time to vouch for it
UNPARSABLE = "unparsable"  # its revision is no number
UNMEASURED = (INITIAL, BEFORE_CLOCK, DOMAIN, TAINTED, UNSEALED, UNPARSABLE)
"""Why an event is no sample."""

BLOCK_SECONDS = 5.0  # the grain of rolling windows: as often as they are evaluated
ROLLING_WINDOWS = (("1m", 60.0), ("5m", 300.0))
CREATION_WINDOWS = ROLLING_WINDOWS[1:]  # its intervals are wide and its events few; nobody reads the window itself

PROVISIONAL_EVENTS = 65_536  # a megabyte a watch, at most
PROVISIONAL_SECONDS = 600.0  # the clock's memory goes no further back


class _Distribution:
    """Rolling windows over what was sealed, and a histogram of all of it, divided as the first of them says."""

    def __init__(self, bins: Bins, start: float, windows: Iterable[tuple[str, float]]) -> None:
        self.blocks = Periods(bins, start, BLOCK_SECONDS)
        self.rolling = tuple(RollingEstimate(bins, name, length) for name, length in windows)
        self.histogram = MassHistogram(bins)
        self._bins = bins
        self._longest = max(rolling.length for rolling in self.rolling)

    def evaluate(
        self, now: float, slots: Sequence[tuple[float, Tally]], withheld: tuple[Tally, ...], round_trip: float
    ) -> None:
        self.blocks.add(slots)
        self.blocks.forget(now - self._longest)
        for rolling in self.rolling:
            rolling.evaluate((*self.blocks.since(now - rolling.length), *withheld), round_trip)
        if slots:
            self.histogram.add(merge(self._bins, (part for _, part in slots)), self.rolling[0].p)


class _Creation:
    """The statistics of the creation clock: its intervals need no sealing."""

    def __init__(self, bins: Bins, start: float) -> None:
        self.distribution = _Distribution(bins, start, CREATION_WINDOWS)
        self._bins = bins
        self._lower = array("d")
        self._upper = array("d")

    def record(self, bounds: Sequence[Interval]) -> None:
        self._lower.extend(interval.lower for interval in bounds)
        self._upper.extend(interval.upper for interval in bounds)

    def evaluate(self, now: float, round_trip: float) -> None:
        lower, upper = np.array(self._lower), np.array(self._upper)
        del self._lower[:], self._upper[:]
        slots = [(now, tally(self._bins, lower, upper, lower))] if len(lower) else []
        self.distribution.evaluate(now, slots, (), round_trip)


class Track:
    """The statistics of one watch, from `start` (monotonic seconds) on.

    `record` takes arrivals in the order of their times. `seal`, as often as the clock ticks, and `evaluate`, every few
    seconds, move them on.
    """

    def __init__(self, bins: Bins, objective: Objective, start: float, *, creation: bool = False) -> None:
        self._bins = bins
        self._objective = objective
        self._received = array("d")
        self._revisions = array("q")
        self._sealed = floor(start)
        self._slots: list[tuple[float, Tally]] = []
        self._round_trip = 0.0
        self._distribution = _Distribution(bins, start, ROLLING_WINDOWS)
        self._creation = _Creation(bins, start) if creation else None
        self._windows = Windows(bins, objective, start)
        self._verdicts = Counter(dict.fromkeys(EventVerdict, 0))
        self._unresolved = 0
        self._unmeasured = dict.fromkeys(UNMEASURED, 0)
        self._reading = self._read()

    def record(self, received: float, revisions: Sequence[int]) -> None:
        """Takes live events that arrived together; their revisions fit in 64 bits."""
        if len(self._received) + len(revisions) > PROVISIONAL_EVENTS:
            self._unmeasured[UNSEALED] += len(revisions)
            return
        self._revisions.extend(array("q", revisions))
        self._received.extend(array("d", (received,)) * len(revisions))

    def record_creation(self, bounds: Sequence[Interval]) -> None:
        """Takes what the creation clock tells of live events; only where creation is enabled."""
        assert self._creation is not None
        self._creation.record(bounds)

    def seal(self, horizon_sent: float, horizon_revision: int, measure: Measure, round_trip: float) -> bool:
        """Measures what was received in whole seconds before a tick, sent at `horizon_sent`, that answered a revision.

        False if something was newer than that revision: then it is of another sequence, and all of its second is
        dropped. `round_trip` is the median of the ticks.
        """
        self._round_trip = round_trip
        second = floor(horizon_sent)
        if second <= self._sealed:
            return True
        self._sealed = second
        received, revisions = self._take_before(second)
        if not len(received):
            return True
        seconds = np.floor(received)
        foreign = np.isin(seconds, seconds[revisions > horizon_revision])
        self.unmeasured(DOMAIN, int(np.count_nonzero(foreign)))
        received, revisions = received[~foreign], revisions[~foreign]
        self._count(received, measure(revisions, received))
        return not bool(foreign.any())

    def drop(self, reason: str) -> None:
        """Gives up what is provisional."""
        self.unmeasured(reason, len(self._received))
        del self._received[:], self._revisions[:]

    def unmeasured(self, reason: str, count: int) -> None:
        """Counts events that are no samples."""
        self._unmeasured[reason] += count

    def evaluate(self, now: float, withheld: Sequence[float] = (), *, overloaded: bool = False) -> None:
        """Makes a new reading of what was sealed.

        `withheld` are the ages, in seconds, of events that are proven not to have been delivered yet: they count in the
        rolling windows of this reading, and again, for good, when they arrive. `overloaded` says that since the last
        evaluation we could not keep up: then no window is blamed.
        """
        overdue, _ = self._take_before(now - PROVISIONAL_SECONDS)
        self.unmeasured(UNSEALED, len(overdue))
        slots, self._slots = self._slots, []
        censored = (later_than(self._bins, withheld),) if withheld else ()
        self._distribution.evaluate(now, slots, censored, self._round_trip)
        self._windows.note(now, withheld, overloaded=overloaded)
        self._windows.periods.add(slots)
        self._windows.judge(now, self._sealed)
        if self._creation:
            self._creation.evaluate(now, self._round_trip)
        self._reading = self._read()

    def reading(self) -> TrackReading:
        """What the last evaluation found."""
        return self._reading

    def _take_before(self, time: float) -> tuple[FloatArray, IntArray]:
        count = bisect_left(self._received, time)
        received, revisions = np.array(self._received[:count]), np.array(self._revisions[:count])
        del self._received[:count], self._revisions[:count]
        return received, revisions

    def _count(self, received: FloatArray, bounds: Bounds) -> None:
        known = bounds.measurable
        self.unmeasured(BEFORE_CLOCK, int(np.count_nonzero(~known)))
        received, lower, upper, proven = received[known], bounds.lower[known], bounds.upper[known], bounds.proven[known]
        self._unresolved += int(np.count_nonzero(upper < self._round_trip))
        self._verdicts.update(judge_events(upper, proven, self._objective.threshold))
        for span in self._spans(received):
            counted = tally(self._bins, lower[span], upper[span], proven[span])
            self._slots.append((float(received[span.start]), counted))

    def _spans(self, received: FloatArray) -> Iterable[slice]:
        """Divides arrivals so that all of a span are of the same block and of the same window."""
        numbers = np.stack((self._distribution.blocks.numbers(received), self._windows.periods.numbers(received)))
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[:, :1] - 1).any(axis=0)).tolist()
        return (slice(*ends) for ends in pairwise((*starts, len(received))))

    def _read(self) -> TrackReading:
        objective = ObjectiveReading(
            threshold=self._objective.threshold,
            events_target=self._objective.events_target,
            minutes_target=self._objective.minutes_target,
            verdicts={str(verdict): count for verdict, count in self._verdicts.items()},
            windows={str(verdict): count for verdict, count in self._windows.verdicts.items()},
        )
        return TrackReading(
            timespan=self._distribution.histogram.reading(),
            windows=tuple(rolling.reading for rolling in self._distribution.rolling),
            objective=objective,
            unresolved=self._unresolved,
            unmeasured=dict(self._unmeasured),
            creation=self._creation.distribution.histogram.reading() if self._creation else None,
        )
