"""An hour of figures of every watch, at a fixed cost: 720 points of five columns, 14 kB a watch."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from watchslo.history.judgement import Line
from watchslo.model import FloatArray

POINTS = 720  # an hour of evaluations, one every five seconds
COLUMNS = ("p50", "p99", "lower", "upper", "events")
"""P50 and P99, the bounds of the P99, all in seconds, and the number of events behind them."""

Key = tuple[str, str]
"""Of a stream: its apiserver's name, and the watch's."""


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """Some of the hour of one watch: `at_wall` of length n, ascending, and n rows of `COLUMNS`; NaN is not known."""

    at_wall: FloatArray
    values: NDArray[np.float32]


class Series:
    """The rings of all watches, over one ring of times: all are evaluated together."""

    def __init__(self) -> None:
        self._at = np.full(POINTS, np.nan)
        self._rings: dict[Key, NDArray[np.float32]] = {}
        self._seen: dict[Key, int] = {}
        self._count = 0

    def add(self, at_wall: float, lines: Mapping[Key, Line]) -> None:
        """Adds a point to every watch; one that has been gone for an hour is forgotten."""
        place = self._count % POINTS
        self._at[place] = at_wall
        for key in lines.keys() - self._rings.keys():
            self._rings[key] = np.full((POINTS, len(COLUMNS)), np.nan, np.float32)
        for key, ring in self._rings.items():
            ring[place] = _point(lines[key]) if key in lines else np.nan
        self._seen.update(dict.fromkeys(lines, self._count))
        for key in [key for key, seen in self._seen.items() if self._count - seen >= POINTS]:
            del self._rings[key], self._seen[key]
        self._count += 1

    def figures(self, key: Key, since_wall: float) -> Figures:
        """A copy of what is known of one watch since then."""
        newest = self._count % POINTS
        at = np.roll(self._at, -newest)
        chosen = at >= since_wall
        return Figures(at[chosen], np.roll(self._rings[key], -newest, axis=0)[chosen])

    @property
    def nbytes(self) -> int:
        """What the rings take."""
        return self._at.nbytes + sum(ring.nbytes for ring in self._rings.values())


def _point(line: Line) -> tuple[float, ...]:
    nothing = float("nan")
    p50 = line.p50.estimate if line.p50 else nothing
    if line.p99 is None:
        return p50, nothing, nothing, nothing, line.window.events
    return p50, line.p99.estimate, line.p99.lower, line.p99.upper, line.window.events
