"""The last day of the objective: 1,440 minutes, each good, undecided, bad or without data; 1.4 kB a watch."""

import math
from collections.abc import Container, Mapping
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from watchslo.timeline.series import MOST_ABSENT, Key

MINUTES = 1440
MINUTE_SECONDS = 60.0
STOPPED_SECONDS = 90.0  # between two evaluations: the machine was suspended, or the wall clock set
JUDGED_AFTER_SECONDS = 5.0  # after its end, a window is sealed and evaluated: a few seconds on a healthy system


class Minute(IntEnum):
    """The verdict on one minute; the worst of several has the highest number."""

    NO_DATA = 0
    GOOD = 1
    UNDECIDED = 2
    BAD = 3


Minutes = NDArray[np.uint8]
"""Shape (1440,), values of `Minute`, the oldest first."""


class DayHistory:
    """Assigns verdicts to minutes, from counters that only say how many windows got which verdict.

    The windows of an objective are not minutes of the wall clock, and may be longer. A judged window covers the minutes
    with a middle between its own middle and that of the previous window: none is missed, and none counts twice. While
    a watch is absent, and while this process does not run, no window is judged.
    """

    def __init__(self) -> None:
        self._minutes: dict[Key, Minutes] = {}
        self._counts: dict[Key, Mapping[str, int]] = {}
        self._judged: dict[Key, float] = {}
        self._former = np.zeros(MINUTES, np.uint8)  # the worst minutes of watches that are not kept any more
        self._added = math.inf
        self._now = 0
        self._last_bad: int | None = None

    def add(self, at_wall: float, windows: Mapping[Key, Mapping[str, int]]) -> None:
        """Add the counters of all watches; `windows` maps each watch to its counts by verdict."""
        self._move_to(math.floor(at_wall / MINUTE_SECONDS))
        middle = at_wall - JUDGED_AFTER_SECONDS - MINUTE_SECONDS / 2
        if (stopped := at_wall - self._added) > STOPPED_SECONDS:
            self._judged = {key: judged + stopped for key, judged in self._judged.items()}
        self._added = at_wall
        for key, counts in windows.items():
            if key not in self._counts:
                self._minutes.setdefault(key, np.zeros(MINUTES, np.uint8))
                self._judged[key] = middle
            verdict = _newest(self._counts.get(key, {}), counts)
            if verdict is not None:
                self._mark(key, self._judged[key], middle, verdict)
                self._judged[key] = middle
            self._counts[key] = counts
        self._forget_absent(windows)

    def of(self, key: Key) -> Minutes:
        """Return the day of one known watch."""
        return np.roll(self._minutes[key], -(self._now + 1) % MINUTES)

    def overall(self) -> Minutes:
        """Return the day of all watches: of each minute, the worst verdict on any watch."""
        worst = self._former.copy()
        for minutes in self._minutes.values():
            np.maximum(worst, minutes, out=worst)
        return np.roll(worst, -(self._now + 1) % MINUTES)

    @property
    def last_bad_wall(self) -> float | None:
        """When the newest bad minute of any watch began, in Unix seconds; None if none was bad for a day."""
        if self._last_bad is None or self._now - self._last_bad >= MINUTES:
            return None
        return self._last_bad * MINUTE_SECONDS

    @property
    def last_minute_wall(self) -> float:
        """When the newest minute began, in Unix seconds."""
        return self._now * MINUTE_SECONDS

    def _forget_absent(self, present: Container[Key]) -> None:
        """Remove the watches that were absent for a day; of too many absent ones, combine those judged first."""
        absent = [key for key in self._minutes if key not in present]
        for rank, key in enumerate(sorted(absent, key=self._judged.__getitem__, reverse=True)):
            self._counts.pop(key, None)
            if rank >= MOST_ABSENT or not self._minutes[key].any():  # a day after its last verdict
                np.maximum(self._former, self._minutes.pop(key), out=self._former)
                del self._judged[key]

    def _move_to(self, minute: int) -> None:
        """Clear the minutes that begin; a wall clock that was set back clears nothing."""
        begun = [number % MINUTES for number in range(max(self._now, minute - MINUTES) + 1, minute + 1)]
        for minutes in (self._former, *self._minutes.values()):
            minutes[begun] = Minute.NO_DATA
        self._now = max(self._now, minute)

    def _mark(self, key: Key, after_wall: float, until_wall: float, verdict: Minute) -> None:
        first, last = (math.floor(wall / MINUTE_SECONDS - 0.5) for wall in (after_wall, until_wall))
        if verdict is Minute.BAD:
            self._last_bad = max(self._last_bad or 0, last)
        for number in range(max(first + 1, self._now - MINUTES + 1), last + 1):
            place = number % MINUTES
            self._minutes[key][place] = max(self._minutes[key][place], verdict)


def _newest(before: Mapping[str, int], now: Mapping[str, int]) -> Minute | None:
    """Return the worst new verdict, or None without one. Counters that fell were reset."""
    return max((Minute[name.upper()] for name, count in now.items() if count > before.get(name, 0)), default=None)
