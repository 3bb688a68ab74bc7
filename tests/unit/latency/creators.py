"""Clocks that say of each stamp what they are told to."""

from collections.abc import Sequence
from math import inf

import numpy as np

from watchslo.latency.track import Track
from watchslo.model import BoolArray, FloatArray, Interval


class Told:
    """Creators whose stamps are numbers of ages that they were told; of None they are not sure."""

    def __init__(self, confirmed: float = inf) -> None:
        self.confirmed = confirmed
        self.committed: list[float] = []
        self._ages: list[Interval | None] = []

    def stamps(self, ages: Sequence[Interval | None]) -> list[float]:
        """A stamp for each age."""
        first = len(self._ages)
        self._ages.extend(ages)
        return [float(number) for number in range(first, len(self._ages))]

    def ages(
        self, created_wall: FloatArray, received: FloatArray, committed: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        self.committed = committed.tolist()
        told = [self._ages[int(number)] for number in created_wall]
        lower = np.array([age.lower if age else np.nan for age in told])
        upper = np.array([age.upper if age else np.nan for age in told])
        return lower, upper, np.array([age is not None for age in told], dtype=bool) & (received <= self.confirmed)


def note(
    track: Track, creators: Told, received: float, revisions: Sequence[int], ages: Sequence[Interval | None]
) -> None:
    """Lets creations of these ages arrive."""
    track.note_creations(received, revisions, creators.stamps(ages))
