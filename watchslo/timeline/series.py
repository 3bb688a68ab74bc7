"""The figures of every watch for an hour: 720 points of five columns, 9 kB a watch, in a bounded number."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray

from watchslo.model import FloatArray
from watchslo.timeline.condition import WatchCondition

POINTS = 720  # an hour of evaluations, one every five seconds
COLUMNS = ("p50", "judged", "lower", "upper", "events")
"""P50, the quantile that is judged and its bounds in seconds, and the number of events."""

LEAST_USUAL = 60  # points: five minutes with figures
MOST_ABSENT = 1000
"""Watches that are kept although they are absent, in case they return; of more, those that left last."""

_POINT = np.dtype([("seconds", np.float16, len(COLUMNS) - 1), ("events", np.float32)])
"""The columns of a ring: 16 bits keep three digits of the seconds, as many as the page shows."""

_ABSENT = np.array(((nan,) * (len(COLUMNS) - 1), nan), _POINT)

Key = tuple[str, str]
"""Identifies a watch: the name of its apiserver, and its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """Part of the hour of one watch: ascending `at_wall` of shape (n,), `values` of shape (n, 5); NaN is unknown."""

    at_wall: FloatArray
    values: NDArray[np.float32]


class Series:
    """One ring buffer for each watch, and one for the times: all watches are evaluated together."""

    def __init__(self) -> None:
        self._at = np.full(POINTS, np.nan)
        self._rings: dict[Key, NDArray[np.void]] = {}
        self._seen: dict[Key, int] = {}
        self._count = 0

    def add(self, at_wall: float, lines: Mapping[Key, WatchCondition]) -> None:
        """Add a point for every watch; remove those that were absent for an hour, and the first of too many absent."""
        place = self._count % POINTS
        self._at[place] = at_wall
        for key in lines.keys() - self._rings.keys():
            self._rings[key] = np.full(POINTS, _ABSENT, _POINT)
        for key, ring in self._rings.items():
            ring[place] = _point(lines[key]) if key in lines else _ABSENT
        self._seen.update(dict.fromkeys(lines, self._count))
        absent = sorted(self._seen.keys() - lines.keys(), key=self._seen.__getitem__, reverse=True)
        for rank, key in enumerate(absent):
            if rank >= MOST_ABSENT or self._count - self._seen[key] >= POINTS:
                del self._rings[key], self._seen[key]
        self._count += 1

    def figures(self, key: Key, since_wall: float) -> Figures:
        """Return a copy of the figures of one watch since that time."""
        newest = self._count % POINTS
        at = np.roll(self._at, -newest)
        chosen = at >= since_wall
        points = np.roll(self._rings[key], -newest)[chosen]
        return Figures(at[chosen], np.column_stack((points["seconds"], points["events"])))

    def usual_p50(self, key: Key, before_wall: float) -> float | None:
        """Return the median of the P50s of one watch up to that time; None with fewer than `LEAST_USUAL`."""
        known = self._rings[key]["seconds"][self._at < before_wall, 0].astype(np.float32)
        known = known[~np.isnan(known)]
        return float(np.median(known)) if len(known) >= LEAST_USUAL else None

    @property
    def nbytes(self) -> int:
        """Memory of the ring buffers in bytes."""
        return self._at.nbytes + sum(ring.nbytes for ring in self._rings.values())


def _point(line: WatchCondition) -> tuple[tuple[float, ...], float]:
    p50 = line.p50.estimate if line.p50 else nan
    if line.judged is None:
        return (p50, nan, nan, nan), line.window.events
    return (p50, line.judged.estimate, line.judged.lower, line.judged.upper), line.window.events
