"""How long ago were they created that arrive? By the clocks of those who stamp them, and only where that is sure."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import nan
from typing import Protocol

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.distribution import Distribution
from watchslo.latency.hops import Hops, creation_to_storage
from watchslo.latency.window import tally
from watchslo.model import BoolArray, Bounds, FloatArray, IntArray
from watchslo.snapshot import Hop

PROVISIONAL_EVENTS = 65_536  # a megabyte a watch, and three of creations, at most
PROVISIONAL_SECONDS = 600.0  # the clock's memory goes no further back
SEALED_WITHIN_SECONDS = 30.0  # what is of no known sequence never is
WINDOWS = (("5m", 300.0),)  # its intervals are wide and its events few; nobody reads the window itself


class Creators(Protocol):
    """Whoever stamps what is created, by clocks that are known until `confirmed`."""

    @property
    def confirmed(self) -> float: ...

    def ages(
        self, created_wall: FloatArray, received: FloatArray, committed: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """How long before they were received objects were created, at least and at most, and of which that is sure.

        They were `committed` at most so many seconds before they were received.
        """


class Creation:
    """The statistics of the creation clock.

    What is noted waits until the clocks that stamped it are confirmed; meanwhile sealing tells of its commit.
    """

    def __init__(self, bins: Bins, start: float) -> None:
        self.distribution = Distribution(bins, start, WINDOWS)
        self._bins = bins
        self._received = array("d")
        self._revisions = array("q")
        self._created = array("d")
        self._lower, self._upper, self._proven = array("d"), array("d"), array("d")  # since the commit; NaN: not known

    def note(self, received: float, revisions: Sequence[int], created_wall: Sequence[float]) -> None:
        if len(self._received) + len(revisions) <= PROVISIONAL_EVENTS:
            self._received.extend(array("d", (received,)) * len(revisions))
            self._revisions.extend(revisions)
            self._created.extend(created_wall)
            for column in (self._lower, self._upper, self._proven):
                column.extend(array("d", (nan,)) * len(revisions))

    def seal(self, received: FloatArray, revisions: IntArray, latency: Bounds) -> None:
        """Takes how long ago all those were committed that are sealed now, in the order in which they were received."""
        received, revisions, latency = (
            received[latency.measurable],
            revisions[latency.measurable],
            latency.at(latency.measurable),
        )
        if not len(received):
            return
        first, end = bisect_left(self._received, received[0]), bisect_right(self._received, received[-1])
        _, noted, at = np.intersect1d(np.array(self._revisions[first:end]), revisions, return_indices=True)
        if len(noted):
            known = (self._lower, latency.lower), (self._upper, latency.upper), (self._proven, latency.proven)
            for column, values in known:
                np.frombuffer(column)[first + noted] = values[at]

    def evaluate(self, now: float, sealed: float, creators: Creators | None, hops: Hops, round_trip: float) -> None:
        """Dates what the creators are known for; what sealing may still tell of it is waited for."""
        self._take_before(now - PROVISIONAL_SECONDS)
        slots = []
        if creators is not None:
            until = min(creators.confirmed, max(sealed, now - SEALED_WITHIN_SECONDS))
            received, created, latency = self._take_before(until)
            committed = np.where(latency.measurable, latency.upper, np.inf)
            lower, upper, sure = creators.ages(created, received, committed)
            received, lower, upper, latency = received[sure], lower[sure], upper[sure], latency.at(sure)
            slots = [(now, tally(self._bins, lower, upper, lower))] if len(lower) else []
            bounds = creation_to_storage(latency, lower, upper)
            hops.count(Hop.CREATION_TO_STORAGE, received, bounds, round_trip)
        self.distribution.evaluate(now, slots, (), round_trip)

    def _take_before(self, time: float) -> tuple[FloatArray, FloatArray, Bounds]:
        """When they were received, their stamps, and how long ago they were committed."""
        count = bisect_left(self._received, time)
        columns = self._received, self._created, self._lower, self._upper, self._proven
        received, created, lower, upper, proven = (np.array(column[:count]) for column in columns)
        for column in (self._revisions, *columns):
            del column[:count]
        return received, created, Bounds(lower, upper, proven, ~np.isnan(lower))
