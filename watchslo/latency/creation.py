"""How long ago were they created that arrive? By the clocks of those who stamp them, and only where that is sure."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.distribution import Distribution
from watchslo.latency.hops import Hops, creation_to_storage
from watchslo.latency.window import tally
from watchslo.model import BoolArray, Bounds, FloatArray, IntArray
from watchslo.snapshot import Hop

PROVISIONAL_EVENTS = 65_536  # a megabyte a watch, at most
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

    What is noted waits until the clocks that stamped it are confirmed, and so does what sealing tells of its commit.
    """

    def __init__(self, bins: Bins, start: float) -> None:
        self.distribution = Distribution(bins, start, WINDOWS)
        self._bins = bins
        self._received = array("d")
        self._revisions = array("q")
        self._created = array("d")
        self._sealed: list[tuple[IntArray, Bounds]] = []

    def note(self, received: float, revisions: Sequence[int], created_wall: Sequence[float]) -> None:
        if len(self._received) + len(revisions) <= PROVISIONAL_EVENTS:
            self._received.extend(array("d", (received,)) * len(revisions))
            self._revisions.extend(revisions)
            self._created.extend(created_wall)

    def seal(self, revisions: IntArray, latency: Bounds) -> None:
        """Takes how long ago all those were committed that are sealed now."""
        at = np.isin(revisions, np.array(self._revisions))
        if at.any():
            self._sealed.append((revisions[at], latency.at(at)))

    def evaluate(self, now: float, sealed: float, creators: Creators | None, hops: Hops, round_trip: float) -> None:
        """Dates what the creators are known for; what sealing may still tell of it is waited for."""
        self._take_before(now - PROVISIONAL_SECONDS)
        slots = []
        if creators is not None:
            until = min(creators.confirmed, max(sealed, now - SEALED_WITHIN_SECONDS))
            received, revisions, created = self._take_before(until)
            known = [(*_common(revisions, of_sealed), latency) for of_sealed, latency in self._sealed]
            committed = np.full(len(received), np.inf)
            for of, at, latency in known:
                committed[of] = np.where(latency.measurable[at], latency.upper[at], np.inf)
            lower, upper, sure = creators.ages(created, received, committed)
            slots = [(now, tally(self._bins, lower[sure], upper[sure], lower[sure]))] if sure.any() else []
            for of, at, latency in known:
                dated = sure[of]
                bounds = creation_to_storage(latency.at(at[dated]), lower[of[dated]], upper[of[dated]])
                hops.count(Hop.CREATION_TO_STORAGE, received[of[dated]], bounds, round_trip)
        waiting = np.array(self._revisions)
        self._sealed = [one for one in self._sealed if np.isin(one[0], waiting).any()]
        self.distribution.evaluate(now, slots, (), round_trip)

    def _take_before(self, time: float) -> tuple[FloatArray, IntArray, FloatArray]:
        count = bisect_left(self._received, time)
        taken = np.array(self._received[:count]), np.array(self._revisions[:count]), np.array(self._created[:count])
        for column in (self._received, self._revisions, self._created):
            del column[:count]
        return taken


def _common(these: IntArray, those: IntArray) -> tuple[IntArray, IntArray]:
    """The places, in each, of the revisions that are in both."""
    _, of_these, of_those = np.intersect1d(these, those, return_indices=True)
    return of_these, of_those
