"""The statistics of one watch, from the revisions that arrive to the readings that are shown.

An arrival is provisional until the clock has enough evidence to seal its second. All events that were sealed are
counted together at the next evaluation, so that the parts of a reading agree with each other.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from math import floor

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.creation import PROVISIONAL_EVENTS, PROVISIONAL_SECONDS, Creation, Creators
from watchslo.latency.distribution import Distribution, runs
from watchslo.latency.hops import CacheAges, Hops, cache_to_client, storage_to_cache
from watchslo.latency.objective import EventVerdict, Objective, Windows, judge_events
from watchslo.latency.tally import Tally, later_than, tally
from watchslo.model import Bounds, FloatArray, IntArray, Measure
from watchslo.snapshot import Hop, ObjectiveReading, TrackReading

INITIAL = "initial"  # not live: part of a list
BEFORE_CLOCK = "before_clock"  # committed before the first tick
DOMAIN = "domain"  # its revision belongs to another sequence, or is not known to belong to this one
TAINTED = "tainted"  # this process was late to read it
UNSEALED = "unsealed"  # no tick came in time to seal it
UNPARSABLE = "unparsable"  # its revision is not a number
UNMEASURED = (INITIAL, BEFORE_CLOCK, DOMAIN, TAINTED, UNSEALED, UNPARSABLE)
"""The reasons why an event is not a sample."""

ROLLING_WINDOWS = (("1m", 60.0), ("5m", 300.0), ("15s", 15.0))  # the last one is for diagnosis


class Track:
    """The statistics of one watch, from `start` (monotonic seconds) on.

    `record` adds arrivals in the order of their times. Call `seal` after each tick, and `evaluate` every few seconds.
    Without `quantiles`, readings have no estimates, because the ticks are too slow for them.
    """

    def __init__(
        self, bins: Bins, objective: Objective, start: float, *, creation: bool = False, quantiles: bool = True
    ) -> None:
        self._bins = bins
        self._objective = objective
        self._quantiles = quantiles
        self._received = array("d")
        self._revisions = array("q")
        self._sealed = floor(start)
        self._slots: list[tuple[float, Tally]] = []
        self._round_trip = 0.0
        self._distribution = Distribution(bins, start, ROLLING_WINDOWS)
        self._hops = Hops(bins, start)
        self._creation = Creation(bins, start) if creation else None
        self._windows = Windows(bins, objective, start)
        self._verdicts = Counter(dict.fromkeys(EventVerdict, 0))
        self._unresolved = 0
        self._unmeasured = dict.fromkeys(UNMEASURED, 0)
        self._reading = self._read()

    def record(self, received: float, revisions: Sequence[int]) -> None:
        """Add live events that arrived together; their revisions fit in 64 bits."""
        if len(self._received) + len(revisions) > PROVISIONAL_EVENTS:
            self._unmeasured[UNSEALED] += len(revisions)
            return
        self._revisions.extend(array("q", revisions))
        self._received.extend(array("d", (received,)) * len(revisions))

    def note_creations(self, received: float, revisions: Sequence[int], created_wall: Sequence[float]) -> None:
        """Add the creation timestamps of live events that arrived together, if creation is enabled.

        The hop from creation to storage is measured for the events that are also passed to `record`.
        """
        assert self._creation is not None
        self._creation.note(received, revisions, created_wall)

    def seal(
        self,
        horizon_sent: float,
        horizon_revision: int,
        measure: Measure,
        round_trip: float,
        cache: CacheAges | None = None,
    ) -> bool:
        """Measure the events of the whole seconds before `horizon_sent`, when the latest tick was sent.

        `horizon_revision` is the revision that this tick returned. An event that is newer belongs to another sequence:
        all events of its second are dropped, and the result is False. `round_trip` is the median of the ticks in
        seconds; `cache` is the clock of the apiserver's cache, if it is probed.
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
        latency = measure(revisions, received)
        self._count(received, latency)
        if self._creation:
            self._creation.seal(received, revisions, latency)
        if cache:
            self._divide(received, revisions, latency, cache)
        return not bool(foreign.any())

    def drop(self, reason: str) -> None:
        """Drop all provisional events, for this reason."""
        self.unmeasured(reason, len(self._received))
        del self._received[:], self._revisions[:]

    def unmeasured(self, reason: str, count: int) -> None:
        """Count events that are not samples."""
        self._unmeasured[reason] += count

    def evaluate(
        self,
        now: float,
        withheld: Sequence[float] = (),
        *,
        unjudgeable: bool = False,
        creators: Creators | None = None,
    ) -> None:
        """Update the reading with all events sealed since the last evaluation.

        `withheld` are the ages, in seconds, of events that are proven to be undelivered: they count in the rolling
        windows of this reading only, and permanently when they arrive. `unjudgeable` means that the windows since
        the last evaluation have no data, as when this process was late. `creators` date the creations, if their clocks
        are known.
        """
        overdue, _ = self._take_before(now - PROVISIONAL_SECONDS)
        self.unmeasured(UNSEALED, len(overdue))
        slots, self._slots = self._slots, []
        censored = (later_than(self._bins, withheld),) if withheld else ()
        self._distribution.evaluate(now, slots, censored, self._round_trip)
        self._windows.note(now, withheld, unjudgeable=unjudgeable)
        self._windows.periods.add(slots)
        self._windows.judge(now, self._sealed)
        if self._creation:
            self._creation.evaluate(now, self._sealed, creators, self._hops, self._round_trip)
        self._hops.evaluate(now)
        self._reading = self._read()

    def reading(self) -> TrackReading:
        """Return the reading of the last evaluation."""
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
        # All events of a span belong to the same block and the same window.
        for span in runs(self._distribution.blocks.numbers(received), self._windows.periods.numbers(received)):
            counted = tally(self._bins, lower[span], upper[span], proven[span])
            self._slots.append((float(received[span.start]), counted))

    def _divide(self, received: FloatArray, revisions: IntArray, latency: Bounds, cache: CacheAges) -> None:
        """Count the hops from the storage to the apiserver's cache, and from there to the client."""
        located = cache.locate(revisions, received)
        round_trip = max(self._round_trip, cache.median_round_trip)
        for hop, part in ((Hop.STORAGE_TO_CACHE, storage_to_cache), (Hop.CACHE_TO_CLIENT, cache_to_client)):
            self._hops.count(hop, received, part(latency, received, *located), round_trip)

    def _read(self) -> TrackReading:
        judged = self._windows.verdicts if self._quantiles else {}
        objective = ObjectiveReading(
            threshold=self._objective.threshold,
            events_target=self._objective.events_target,
            minutes_target=self._objective.minutes_target,
            min_events=self._objective.min_events,
            verdicts={str(verdict): count for verdict, count in self._verdicts.items()},
            windows={str(verdict): count for verdict, count in judged.items()},
        )
        return TrackReading(
            timespan=self._distribution.histogram.reading(),
            windows=tuple(rolling.reading for rolling in self._distribution.rolling) if self._quantiles else (),
            objective=objective,
            unresolved=self._unresolved,
            unmeasured=dict(self._unmeasured),
            creation=self._creation.distribution.histogram.reading() if self._creation else None,
            hops=self._hops.reading(),
        )
