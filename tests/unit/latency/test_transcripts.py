"""Windows of objectives, compared arrivals and waiting events: transcripts in `tests/golden/latency`."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.transcripts import Step, calls, replay, value
from tests.unit.latency.one_watch import OneWatch
from tests.unit.latency.truth import BINS, regular, tallied
from watchslo.latency.objective import Objective, Windows
from watchslo.latency.own_delay import OwnDelays
from watchslo.latency.pending import Arrivals, HeldEvents, PendingEvents
from watchslo.latency.representation_delay import RepresentationDelay
from watchslo.latency.tally import Slot
from watchslo.model import Bounds, IntArray

TRANSCRIPTS = sorted((Path(__file__).parents[2] / "golden" / "latency").glob("*.txt"))
assert TRANSCRIPTS
SPEEDS = {"fast": (0.1, 0.4), "slow": (1.5, 2.0), "wide": (0.1, 2.0)}


def settings(words: str) -> dict[str, Any]:
    """Return the values of `name=value ...`."""
    return {name: value(word) for name, equals, word in (one.partition("=") for one in words.split()) if equals}


def interval(word: str) -> tuple[float, ...]:
    """Return the bounds of an event: a speed, or `0.1-2`, or `0.1-2-0.5` with a proven lower end."""
    return SPEEDS.get(word) or tuple(map(float, word.split("-")))


class JudgedWindows(Windows):
    """Windows from 1000 s on, and the numbers of their verdicts."""

    def __init__(self, start: float = 1000.0, **objective: Any) -> None:
        super().__init__(BINS, Objective(**{"window": 60.0, "min_events": 100, **objective}), start)

    def events(self, time: float, *events: str) -> None:
        """Add events, written as `100*fast`."""
        parts = (one.split("*") for one in events)
        slots: list[Slot] = [(time, tallied(*(interval(word) for count, word in parts for _ in range(int(count)))))]
        self.note(self._noted, slots, [], unjudgeable=False)

    def withheld(self, now: float, *seconds: float) -> None:
        self.note(now, [], seconds, unjudgeable=False)

    def overloaded(self, now: float, *seconds: float) -> None:
        self.note(now, [], seconds, unjudgeable=True)

    def judged(self, now: float, sealed: float = -math.inf, gap: float = 0.5) -> str:
        """Judge with ticks at equal gaps."""
        self.judge(now, sealed, lambda start, end: regular(start, end, gap))
        return self.said

    @property
    def said(self) -> str:
        return ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts.items() if count) or "nothing"


class ComparedCopies(RepresentationDelay):
    """Arrivals of watches that have been open for long."""

    def __init__(self) -> None:
        self.own = OwnDelays()
        super().__init__(self.own)
        self.small.opened = self.full.opened = 0.0

    def arrived(self, copy: str, revisions: Sequence[int], received: float, tainted: bool = False) -> None:  # noqa: FBT001, FBT002 - a word
        self._copies(copy).add(revisions, received, tainted=tainted)

    def opened(self, copy: str, at: float) -> None:
        self._copies(copy).opened = at

    def read_late(self, start: float, end: float, since: float) -> None:
        self.own.add_late_reads(start, end, since)

    def stopped(self, before: float, after: float) -> None:
        self.own.add_stop(before, after)

    def known_until(self, at: float) -> None:
        self.own.known_until = at

    def delays(self, now: float) -> list[str]:
        received, bounds = self.match(now)
        assert bounds.measurable.all()
        assert bounds.lower.tolist() == bounds.proven.tolist()
        assert bounds.upper.tolist() == bounds.proven_upper.tolist()
        columns = zip(received, bounds.lower, bounds.upper, strict=True)
        return [f"{lower:.6g} to {upper:.6g} s at {at:g}" for at, lower, upper in columns]

    def no_delay(self) -> list[str]:
        return [f"{count} {reason}" for reason, count in self.without.items() if count]

    def waiting(self) -> list[int]:
        return [len(self.small), len(self.full)]

    def _copies(self, copy: str) -> Any:
        return {"small": self.small, "full": self.full}[copy]


class OwnTimes(OwnDelays):
    def delays(self, *received: float) -> list[float]:
        return [float(delay) for delay in self.of(np.array(received, dtype=np.float64))]

    def spanned(self, committed: float, received: float) -> bool:
        return bool(self.span_stop(np.array([committed]), np.array([received]))[0])


def listed(arrivals: Arrivals) -> list[str]:
    columns = (arrivals.watches, arrivals.received, arrivals.revisions)
    return [f"{watch}: {revision} at {at:g}" for watch, at, revision in zip(*columns, strict=True)]


class Pending(PendingEvents):
    def take(self, time: float, limit: int = 100, watches: int = 100) -> list[str]:
        return listed(self.take_before(time, limit, watches))


class Held(HeldEvents):
    def take(self, watch: int, time: float, limit: int = 100) -> list[str]:
        return listed(self.take_before(watch, time, limit))

    def count(self) -> int:
        return len(self)

    def ages(self) -> list[str]:
        return [f"{watch}: {at:g}" for watch, at in self.oldest().items()]


class TrackedWatch(OneWatch):
    """A watch whose revisions 1 to 9 take 0 to 0.5 s, and 11 to 19 take 1.5 to 2.5 s; others cannot be measured."""

    def __init__(self, start: float = 1000.25, **objective: Any) -> None:
        super().__init__(BINS, Objective(**objective), start)
        self.measured: list[list[int]] = []

    def sealed(self, sent: float, revision: int, round_trip: float = 0.002) -> bool:
        return self.seal(sent, revision, lambda revisions, _: self._measure(revisions), round_trip)

    def evaluated(self, now: float, *withheld: float, down_for: float = 0.0, unjudgeable: bool = False) -> str:
        """Return what is read after an evaluation: samples, events of windows, why others are none, and verdicts."""
        self.evaluate(now, withheld, down_for=down_for, unjudgeable=unjudgeable)
        reading = self.reading()
        one, five, _ = reading.windows
        counts = {**reading.unmeasured, **reading.objective.verdicts, **reading.objective.windows}
        others = [f"{count} {name}" for name, count in counts.items() if count]
        return ", ".join([f"{reading.timespan.total} samples, {one.events} in 1m, {five.events} in 5m", *others])

    def _measure(self, revisions: IntArray) -> Bounds:
        self.measured.append(revisions.tolist())
        is_slow, known = revisions > 10, (revisions % 10 > 0) & (revisions < 20)
        lower, upper = np.where(is_slow, 1.5, 0.0), np.where(is_slow, 2.5, 0.5)
        return Bounds(lower, upper, lower, upper, known)


SUBJECTS: dict[str, Callable[[str], Step]] = {
    "held": lambda _: calls(Held()),
    "own-delays": lambda _: calls(OwnTimes()),
    "pending": lambda _: calls(Pending()),
    "representation-delays": lambda _: calls(ComparedCopies()),
    "track": lambda beginning: calls(TrackedWatch(**settings(beginning))),
    "windows": lambda beginning: calls(JudgedWindows(**settings(beginning))),
}


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_part_does_what_its_transcripts_say(path: Path, golden: Callable[[str, str], None]) -> None:
    golden(f"latency/{path.name}", replay(path.read_text(), SUBJECTS[path.stem]))
