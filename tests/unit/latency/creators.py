"""Creators with given ages, for the tests of the creation clock."""

from collections.abc import Sequence
from math import inf

import numpy as np

from tests.unit.latency.one_watch import OneWatch
from watchslo.model import BoolArray, FloatArray, Interval


class KnownAges:
    """Creators whose stamps are indexes into a list of given ages; None is an uncertain age."""

    def __init__(self, confirmed: float = inf) -> None:
        self.confirmed = confirmed
        self.committed: list[float] = []
        self._ages: list[Interval | None] = []

    def stamps(self, ages: Sequence[Interval | None]) -> list[float]:
        """Return a stamp for each age."""
        first = len(self._ages)
        self._ages.extend(ages)
        return [float(number) for number in range(first, len(self._ages))]

    def ages(
        self, created_wall: FloatArray, received: FloatArray, committed: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        self.committed = committed.tolist()
        known = [self._ages[int(number)] for number in created_wall]
        lower = np.array([age.lower if age else np.nan for age in known])
        upper = np.array([age.upper if age else np.nan for age in known])
        return lower, upper, np.array([age is not None for age in known], dtype=bool) & (received <= self.confirmed)


def note(
    watch: OneWatch, creators: KnownAges, received: float, revisions: Sequence[int], ages: Sequence[Interval | None]
) -> None:
    """Pass creations of these ages to the watch."""
    watch.track.note_creations(received, revisions, creators.stamps(ages))
