"""The creation clock: how long before its arrival an object was created, if the stamping clock is known."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import nan
from typing import Protocol

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.distribution import Distribution
from watchslo.latency.estimate import Estimation, TickSpacing
from watchslo.latency.hops import Hops, creation_to_storage
from watchslo.latency.own_delay import OwnDelays
from watchslo.latency.tally import BLOCK_SECONDS, tally
from watchslo.model import BoolArray, Bounds, FloatArray, IntArray
from watchslo.snapshot import Hop

PROVISIONAL_EVENTS = 65_536  # of each watch, in 3 MB
PROVISIONAL_SECONDS = 600.0  # as long as the evidence of the clock
SEALED_WITHIN_SECONDS = 30.0  # events that are not sealed by then belong to no known sequence
WINDOWS = (("5m", 300.0),)  # long, because intervals are wide and events few; only the histogram is exported


class Creators(Protocol):
    """The clocks that stamp new objects; their offsets are known until `confirmed`."""

    @property
    def confirmed(self) -> float: ...

    def ages(
        self, created_wall: FloatArray, received: FloatArray, committed: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return the least and greatest ages of objects when their events were received, and which are certain.

        Each object was committed at most `committed` seconds before `received`.
        """


class Creation:
    """The statistics of the creation clock.

    An event waits until the clocks that may have stamped it are confirmed. Until then, sealing adds how long before its
    arrival it was committed. At most `PROVISIONAL_EVENTS` wait.
    """

    def __init__(self, bins: Bins, own_delays: OwnDelays) -> None:
        self.distribution = Distribution(bins, WINDOWS)
        self._bins = bins
        self._own_delays = own_delays
        self._received = array("d")
        self._revisions = array("q")
        self._created = array("d")
        # Seconds from the commit to the arrival; NaN if unknown.
        self._lower, self._upper, self._proven = array("d"), array("d"), array("d")
        self._own = array("d")  # seconds that a sealed event may have waited for this process; NaN if it is not sealed

    def note(self, received: float, revisions: Sequence[int], created_wall: Sequence[float]) -> None:
        if len(self._received) + len(revisions) <= PROVISIONAL_EVENTS:
            self._received.extend(array("d", (received,)) * len(revisions))
            self._revisions.extend(revisions)
            self._created.extend(created_wall)
            for column in (self._lower, self._upper, self._proven, self._own):
                column.extend(array("d", (nan,)) * len(revisions))

    def seal(self, received: FloatArray, revisions: IntArray, latency: Bounds, own_delay: FloatArray) -> None:
        """Add the latencies of the events that are sealed now, in the order in which they were received."""
        first, end = bisect_left(self._received, received[0]), bisect_right(self._received, received[-1])
        _, noted, at = np.intersect1d(np.array(self._revisions[first:end]), revisions, return_indices=True)
        if len(noted):
            known = (self._lower, latency.lower), (self._upper, latency.upper), (self._proven, latency.proven)
            for column, values in known:
                np.frombuffer(column)[first + noted] = np.where(latency.measurable, values, nan)[at]
            np.frombuffer(self._own)[first + noted] = own_delay[at]

    def update(
        self, now: float, sealed: float, ticks: TickSpacing, creators: Creators | None, hops: Hops
    ) -> list[Estimation]:
        """Measure the events whose stamping clocks are confirmed and that are sealed, or too old to be sealed.

        Return the estimations that are due.
        """
        self._take_before(now - PROVISIONAL_SECONDS)
        slots = []
        if creators is not None:
            until = min(creators.confirmed, max(sealed, now - SEALED_WITHIN_SECONDS))
            received, created, latency, own = self._take_before(until)
            committed = np.where(latency.measurable, latency.upper, np.inf)
            lower, upper, certain = creators.ages(created, received, committed)
            own = np.where(np.isnan(own), self._own_delays.of(received), own)
            certain &= np.isfinite(own) & ~self._own_delays.span_stop(received - upper, received)
            received, lower, upper, latency = received[certain], lower[certain], upper[certain], latency.at(certain)
            arrived = np.maximum(0.0, lower - own[certain])
            block = now // BLOCK_SECONDS * BLOCK_SECONDS
            slots = [(block, tally(self._bins, arrived, upper, arrived, upper))] if len(lower) else []
            bounds = creation_to_storage(latency, lower, upper)
            hops.count(Hop.CREATION_TO_STORAGE, received, bounds)
        return self.distribution.update(now, slots, ticks)

    def _take_before(self, time: float) -> tuple[FloatArray, FloatArray, Bounds, FloatArray]:
        """Remove the events before `time`; return their arrivals, stamps, latencies and own delays."""
        count = bisect_left(self._received, time)
        columns = self._received, self._created, self._lower, self._upper, self._proven, self._own
        received, created, lower, upper, proven, own = (np.array(column[:count]) for column in columns)
        for column in (self._revisions, *columns):
            del column[:count]
        return received, created, Bounds(lower, upper, proven, upper, ~np.isnan(lower)), own
