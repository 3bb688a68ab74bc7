"""The cases: how events are written, and the law of their delays."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal

OBJECTS = 20
CREATED = 0.1  # the share of writes that create an object; the others change one
MADE_UP_SECONDS = 0.05  # how far a late writer catches up with its schedule, if there are stalls


@dataclass(frozen=True, slots=True)
class Stalls:
    """All writing pauses for `length` at the beginning of each `period` (seconds of the monotonic clock).

    A watch is one ordered stream: an event that is seconds late delays all events behind it. To make only a `share` of
    the events late, they are written together when the stall begins, and no other event until it ends.
    """

    length: float
    period: float
    share: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """Writes at random times, `rate` per second outside of stalls."""

    name: str
    rate: float
    stalls: Stalls | None = None

    def schedule(self, random: Random, clock: Callable[[], float]) -> Iterator[float]:
        """Yield the times of writes (monotonic seconds) without end. A late writer catches up, but not in a stall."""
        due = clock()
        while True:
            earliest = clock() - MADE_UP_SECONDS if self.stalls else due
            due = max(due, earliest) + random.expovariate(self.rate)
            if self.stalls and due % self.stalls.period < self.stalls.length:
                began = due - due % self.stalls.period
                yield from [began] * self._together(self.stalls)
                due = began + self.stalls.length
            else:
                yield due

    def _together(self, stalls: Stalls) -> int:
        others = self.rate * (stalls.period - stalls.length)
        return round(others * stalls.share / (1 - stalls.share))


CALM = Traffic("calm", rate=20.0)
"""More than a thousand events per window."""
BUSY = Traffic("busy", rate=112.0)
"""More than six thousand events per window."""
STALLING = Traffic("stalling", rate=60.0, stalls=Stalls(length=3.0, period=15.0, share=0.02))
"""One event in fifty is written when a stall of 3 s begins."""


@dataclass(frozen=True, slots=True)
class Case:
    """One watch: how its events are written, the law of their delays, and the delayed hop.

    `creation` also measures from the creation timestamp, and with a second daemon that has another wall clock.
    `bursts` means that many events are sent at once after one delay: some goals cannot be reached then.
    """

    name: str
    traffic: Traffic
    law: str
    hop: Literal["client", "storage"] = "client"
    creation: bool = False
    bursts: bool = False

    @property
    def label(self) -> str:
        """The name of the watch, and of the label that selects its objects if all cases share them."""
        return re.sub(r"\W+", "-", f"{self.name} {self.traffic.name}")


SOON = "lognormal 20ms 0.5"
HALF = "normal 500ms 100ms"
HELD = "hold 2s 8s"
TAIL = "hold 3s 15s"

SHORT = Case("20 ms", BUSY, SOON, creation=True)
CASES = (
    Case("at once", CALM, "none"),
    Case("at once", BUSY, "none"),
    Case("20 ms", CALM, SOON),
    SHORT,
    Case("500 ms", CALM, HALF),
    Case("500 ms", BUSY, HALF),
    Case("held 2 s", CALM, HELD, bursts=True),
    Case("held 2 s", BUSY, HELD, bursts=True),
    Case("2% at 3 s", STALLING, TAIL),
    Case("always 300 ms", CALM, "constant 300ms"),
    Case("storage 300 ms", CALM, "normal 300ms 30ms", hop="storage"),
)
