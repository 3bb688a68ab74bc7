"""Staircases: points that ascend in revision and time, to look up the bounds that reads give for each revision.

For the storage and for a watch cache alike: a read sent at s and answered at e with revision R shows that all revisions
up to R existed by e, and no later one before s.

A staircase has at most one point for each read that was added since the time of the last `prune`.
"""

from typing import Self

import numpy as np

from watchslo.model import FloatArray, IntArray

BEFORE_ALL = int(np.iinfo(np.int64).min)  # older than any revision
AFTER_ALL = int(np.iinfo(np.int64).max)  # newer than any revision


class Staircase:
    """Points (revision, time) that ascend in both, between two sentinels; redundant points are dropped."""

    def __init__(self) -> None:
        self._revisions: IntArray = np.array([BEFORE_ALL, AFTER_ALL])
        self._times: FloatArray = np.array([-np.inf, np.inf])

    def prune(self, before: float) -> None:
        """Drop the points before that time, except the newest of them, which still bounds later revisions."""
        kept = int(self._times.searchsorted(before, side="right")) - 1
        if kept > 1:
            self._revisions = np.concatenate((self._revisions[:1], self._revisions[kept:]))
            self._times = np.concatenate((self._times[:1], self._times[kept:]))

    def _with(self, other: Self) -> tuple[IntArray, FloatArray]:
        """Return the points of both, ascending in revision; of equal revisions, the latest time comes first."""
        revisions = np.concatenate((self._revisions, other._revisions))
        times = np.concatenate((self._times, other._times))
        order = np.lexsort((-times, revisions))
        return revisions[order], times[order]

    def _older_but_later(self, revision: int, time: float) -> slice:
        return slice(int(self._times.searchsorted(time)), int(self._revisions.searchsorted(revision, side="right")))

    def _newer_but_earlier(self, revision: int, time: float) -> slice:
        return slice(int(self._revisions.searchsorted(revision)), int(self._times.searchsorted(time, side="right")))

    def _put(self, revision: int, time: float, *, over: slice) -> None:
        self._revisions = np.concatenate((self._revisions[: over.start], [revision], self._revisions[over.stop :]))
        self._times = np.concatenate((self._times[: over.start], [time], self._times[over.stop :]))


class Starts(Staircase):
    """L: no revision newer than a point's existed before its time. An older revision or a later time says more."""

    def add(self, revision: int, time: float) -> None:
        better = self._older_but_later(revision, time)
        if better.start >= better.stop:
            self._put(revision, time, over=self._newer_but_earlier(revision, time))

    def merge(self, other: "Starts") -> None:
        """Add all points of another staircase."""
        revisions, times = self._with(other)
        latest = np.maximum.accumulate(times)
        kept = np.append(True, times[1:] > latest[:-1])
        self._revisions, self._times = revisions[kept], times[kept]

    def at(self, revisions: IntArray) -> FloatArray:
        return self._times[self._revisions.searchsorted(revisions) - 1]

    def oldest_after(self, time: float) -> int:
        return int(self._revisions[self._times.searchsorted(time, side="right")])


class Ends(Staircase):
    """U: all revisions up to a point's existed by its time. A newer revision or an earlier time says more."""

    def add(self, revision: int, time: float) -> None:
        better = self._newer_but_earlier(revision, time)
        if better.start >= better.stop:
            self._put(revision, time, over=self._older_but_later(revision, time))

    def merge(self, other: "Ends") -> None:
        """Add all points of another staircase."""
        revisions, times = self._with(other)
        earliest = np.minimum.accumulate(times[::-1])[::-1]
        kept = np.append(times[:-1] < earliest[1:], True)
        self._revisions, self._times = revisions[kept], times[kept]

    def at(self, revisions: IntArray) -> FloatArray:
        return self._times[self._revisions.searchsorted(revisions)]

    def newest_before(self, time: float) -> int:
        return int(self._revisions[self._times.searchsorted(time) - 1])
