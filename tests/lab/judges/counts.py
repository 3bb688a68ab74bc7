"""Judges what the daemon counted, lost and measured, against the complete log of a writer."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from tests.lab.expected import Counts
from tests.lab.judges.judge import Judge
from tests.lab.scene import LOOK_SECONDS, Fault, Hit, Scene
from tests.support.notes import Judgement, judge
from tests.support.observed import USUAL, Observed, until_settled
from tests.support.process import PATIENCE_SECONDS

EVALUATED_SECONDS = 6.0  # samples are counted every five seconds; then all is counted that happened before the fault
EXPLAINED_SECONDS = 4.0  # the reason of an early close is counted after the next requests


@dataclass(frozen=True, slots=True)
class CountsOutcome:
    """What was observed; `after_end` and `after_begin` are seconds to the first live event after the fault."""

    counted: frozenset[str]
    after_end: float
    after_begin: float
    judgement: Judgement


class CountsJudge(Judge):
    """Expects that the counters of `Counts` rise and no other, and that each write is received or reported."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._expected = Counts(frozenset())
        self._since = 0.0
        self.outcome: CountsOutcome | None = None

    def concerns(self, fault: Fault) -> bool:
        return fault.counts is not None

    def prepare(self, fault: Fault) -> None:
        """Wait until the daemon measures and has received an event; from then on every write must be seen."""
        self._expected = fault.counts or self._expected
        self.least_seconds = self._expected.seconds
        daemon = self._scene.daemon
        daemon.until_measuring(*daemon.watches)
        self._since = time.monotonic()
        self._until_seen(self._since)
        time.sleep(EVALUATED_SECONDS)

    def struck(self, hit: Hit) -> None:
        """Counters and writes do not depend on the place of the fault."""

    def seen(self) -> bool:
        return all(self._scene.risen(name) >= self._expected.times for name in self._expected.until)

    def finish(self) -> None:
        scene, daemon = self._scene, self._scene.daemon
        before = {} if self._expected.from_start else scene.counted_before
        ended = scene.ended or time.monotonic()
        first = self._until_seen(ended)
        time.sleep(EXPLAINED_SECONDS)
        until = time.monotonic()
        writes = until_settled(daemon, daemon.watches[0], scene.writing, self._since, until)
        # Samples wait for a tick, and ticks may be rare.
        daemon.process.until(
            lambda: any(sample.at >= until for sample in reversed(daemon.notes().samples)), "measured", LOOK_SECONDS
        )
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._missing(_rising(daemon, before)) and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        time.sleep(EVALUATED_SECONDS)
        daemon.process.until(
            lambda: all(one["up"] for one in daemon.watches_by_name().values()), "all open", LOOK_SECONDS
        )
        judgement = judge(daemon.notes(), daemon.watches[0], writes, until)
        self.outcome = CountsOutcome(_rising(daemon, before), first - ended, first - scene.began, judgement)
        print(self.outcome)
        self._verify(judgement)

    def complaints(self) -> list[str]:
        assert self.outcome is not None
        counted, expected = self.outcome.counted, self._expected
        allowed = expected.counted | expected.also | USUAL
        unexpected = counted.difference(*(_matching(counted, name) for name in allowed))
        wrong = {
            "no sample": not self.outcome.judgement.samples,
            f"not counted: {self._missing(counted)}": self._missing(counted),
            f"counted unexpectedly: {sorted(unexpected)}": unexpected,
        }
        return [sentence for sentence, holds in wrong.items() if holds]

    def _verify(self, judgement: Judgement) -> None:
        """Fail if an event was lost, or a sample cannot be true: no slowness excuses that."""
        assert judgement.lost == (), f"lost and not reported: {judgement.lost}"
        assert judgement.wrong == (), f"samples that cannot be true: {judgement.wrong}"
        assert judgement.false_alarms == 0
        in_gaps = judgement.in_gaps
        assert self._expected.forgets or not in_gaps, f"{in_gaps} writes are in a gap, but were available"

    def _until_seen(self, since: float) -> float:
        """Wait for the first event of a write after `since`, and return the time of its arrival."""
        daemon, scribe = self._scene.daemon, self._scene.writing
        watch = daemon.watches[0]

        def first() -> float:
            return daemon.notes().first_seen(watch, (write for write in scribe.answered() if write.before >= since))

        daemon.process.until(lambda: first() < inf, "an event", LOOK_SECONDS)
        return first()

    def _missing(self, counted: frozenset[str]) -> list[str]:
        return sorted(name for name in self._expected.counted if not _matching(counted, name))


def _rising(daemon: Observed, before: Mapping[str, float]) -> frozenset[str]:
    return frozenset(name for name, count in daemon.counted().items() if count > before.get(name, 0.0))


def _matching(counted: Sequence[str] | frozenset[str], name: str) -> set[str]:
    """The counters that a name stands for: the counter of that name, or all closes of that class."""
    return {each for each in counted if each == name or each.startswith(f"{name}/")}
