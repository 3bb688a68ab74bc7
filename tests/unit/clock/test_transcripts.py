"""Small parts of the clocks, call by call: transcripts in `tests/golden/clock`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import GOLDEN
from tests.support.transcripts import Step, calls, replay
from watchslo.clock.answered import TickTimes
from watchslo.clock.burst import Burst, BurstBudget
from watchslo.clock.cache import CacheClock
from watchslo.clock.commit_offset import CommitOffset
from watchslo.clock.offset import ClockOffset, Dating
from watchslo.clock.reserve import TickReserve
from watchslo.model import Bounds, FloatArray, IntArray, Interval, Reading
from watchslo.snapshot import BurstReason, BurstWish

TRANSCRIPTS = sorted((GOLDEN / "clock").glob("*.txt"))
assert TRANSCRIPTS
UNIX = 1_758_568_538_175_839_001  # a revision seen on GKE
GAP = 30.0


class StampDating:
    """A dating that a transcript begins with: its offset, since when, until when, and former offsets."""

    def __init__(self, beginning: str) -> None:
        offset, since, confirmed, *former = beginning.split()
        self._dating = Dating(_interval(offset), float(since), float(confirmed), tuple(map(_interval, former)))

    def ages(self, created: float, received: float, committed: float = np.inf) -> str:
        """Return the least and greatest age."""
        lower, upper, sure = self._dating.ages(np.array([created]), np.array([received]), np.array([committed]))
        return f"{lower[0]:g} to {upper[0]:g}" if sure[0] else "uncertain"


def _interval(text: str) -> Interval:
    lower, _, upper = text.partition("..")
    return Interval(float(lower), float(upper or lower))


class CommitTimes(CommitOffset):
    """A storage whose revisions are its seconds since `UNIX`."""

    def event(self, commit: float, since: float, until: float, now: float) -> bool:
        return self.observe(_revision(commit), _array(since), _array(until), now)

    def no_event(self, now: float) -> bool:
        nothing = np.array([])
        return self.observe(nothing.astype(np.int64), nothing, nothing, now)

    def date(self, commit: float, since: float, until: float) -> str:
        start, end = self.narrowed(_revision(commit), _array(since), _array(until))
        return f"{start[0]:.4f} to {end[0]:.4f}"


def _revision(seconds: float) -> Any:
    return np.array([UNIX + round(1e9 * seconds)], dtype=np.int64)


def _array(seconds: float) -> FloatArray:
    return np.array([seconds], dtype=np.float64)


class Commits:
    """A measure that knows between which times some revisions were committed."""

    def __init__(self, known: dict[int, tuple[float, float]]) -> None:
        self._known = known

    def __call__(self, revisions: IntArray, received: FloatArray) -> Bounds:
        rows = np.array([self._known.get(revision, (-1.0, -1.0)) for revision in revisions.tolist()]).reshape(-1, 2)
        later, earlier = received - rows[:, 1], received - rows[:, 0]
        return Bounds(later - 0.0, earlier, later, earlier, rows[:, 1] >= 0)


class ReadCache(CacheClock):
    """A cache clock whose reads take 10 ms."""

    def read(self, sent: float, revision: int, took: float = 0.01) -> None:
        self.add(Reading("pods", sent, sent + took, revision, "10.0.0.1:6443"))

    def find(self, *events: float) -> str:
        """Return when the cache had events, which are given as revision and time, one after the other."""
        revisions, received = np.array(events[::2], dtype=np.int64), np.array(events[1::2], dtype=np.float64)
        ends = zip(*self.locate(revisions, received), strict=True)
        return ", ".join(f"{start:g} to {end:g}" for start, end in ends) or "nothing"

    def behind_at(self, now: float, *commits: str) -> Interval | None:
        """Return how far the cache is behind changes as `11@3..3.5`; one without a time cannot be dated."""
        split = [commit.partition("@") for commit in map(str, commits)]
        dated = {int(revision): _interval(times) for revision, _, times in split if times}
        undated = [int(revision) for revision, _, times in split if not times]
        known = np.array(sorted((*dated, *undated)), dtype=np.int64)
        return self.behind(known, Commits({revision: (at.lower, at.upper) for revision, at in dated.items()}), now)


class Bursts:
    """Two bursts that share a budget, which a transcript begins with."""

    def __init__(self, beginning: str) -> None:
        self._budget = BurstBudget(10.0, float(beginning))
        self._bursts = {1: Burst(self._budget), 2: Burst(self._budget)}

    def begin(self, number: int, reason: str, now: float) -> bool:
        return self._bursts[number].begin(BurstWish(BurstReason(reason), 60.0), now)

    def shortening(self, number: int, rate: float, now: float) -> float:
        return self._bursts[number].shortening(rate, now)

    def rate(self, number: int, now: float) -> float:
        return self._bursts[number].rate(now)

    def is_active(self, number: int, now: float) -> bool:
        return self._bursts[number].is_active(now)

    def failed(self, number: int, retry_after: float | None, now: float) -> None:
        self._bursts[number].failed(retry_after, now)

    def limit(self, rate: float) -> None:
        self._budget.limit(rate)

    def begun(self, number: int) -> dict[str, int]:
        return dict(self._bursts[number].begun)


class Reserve(TickReserve):
    """A reserve for ticks every 30 s."""

    def widen(self, now: float) -> float:
        return self.factor(1 / GAP, now)

    def often(self, now: float) -> float:
        return self.factor(2.0, now)

    def sent_many(self, count: int, now: float) -> None:
        for _ in range(count):
            self.sent(now)

    def follow_all(self, now: float) -> int:
        """Return how many ticks follow events."""
        count = 0
        while self.follow(now):
            self.sent(now)
            count += 1
        return count


class Ticks(TickTimes):
    """The times of ticks; one is `1..1.5` if it was sent at 1 s and answered at 1.5 s."""

    def ticks(self, *times: str, apiserver: str = "near") -> None:
        for time in times:
            at = _interval(time)
            self.add(Reading("events", at.lower, at.upper, 1, apiserver))

    def steady(self) -> None:
        """Tick each second, for 0.1 s."""
        self.ticks(*(f"{second}..{second}.1" for second in range(11)))

    def shown(self, start: float, end: float) -> str:
        found = self.between(start, end)
        assert (found.start, found.end) == (start, end)
        return ", ".join(f"{at:g}..{end:g}" for at, end in zip(found.sent, found.answered, strict=True)) or "none"

    def hides(self, seconds: float, *quantiles: float) -> list[float]:
        return [round(self.hidden(seconds).quantile(q), 3) for q in quantiles]


def _plain(subject: object) -> Step:
    return calls(subject, lambda word: word if ".." in word or "@" in word else _number(word))


def _number(word: str) -> Any:
    return {"none": None}.get(word, word) if word[0].isalpha() and word != "inf" else float(word)


SUBJECTS: dict[str, Callable[[str], Step]] = {
    "bursts": lambda ticks: calls(Bursts(ticks)),
    "cache": lambda _: calls(ReadCache(), lambda word: word if "@" in word else _whole(word)),
    "commit-offset": lambda _: calls(CommitTimes()),
    "dating": lambda dating: calls(StampDating(dating)),
    "offset": lambda _: calls(ClockOffset()),
    "reserve": lambda spacing: calls(Reserve(float(spacing))),
    "ticks": lambda _: _plain(Ticks()),
}


def _whole(word: str) -> float:
    return int(word) if word.isdecimal() else float(word)


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_part_does_what_its_transcripts_say(path: Path, golden: Callable[[str, str], None]) -> None:
    golden(f"clock/{path.name}", replay(path.read_text(), SUBJECTS[path.stem]))
