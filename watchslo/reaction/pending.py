"""What was asked for in one step, and is not done yet."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

from watchslo.reaction.steps import Reaction, Report, Sighted, Unmeasured
from watchslo.snapshot import ReactionStep

HORIZON_SECONDS = 3600.0  # what takes longer counts as `expired`
MOST_PENDING = 20_000  # of one step of one resource: about 6 MB


@dataclass(frozen=True, slots=True)
class PendingAge:
    """How many are pending, and for how many seconds the oldest one is proven to have been."""

    count: int
    seconds: float


class PendingStep:
    """What is pending in one step, by a key of the object, in the order in which it was asked for.

    `report` gets the reactions, and `unmeasured` counts by reason what will be no sample.
    """

    def __init__(self, step: ReactionStep, report: Report) -> None:
        self.step = step
        self._report = report
        self.unmeasured: Counter[Unmeasured] = Counter()
        self._asked: dict[Hashable, Sighted] = {}

    def ask(self, key: Hashable, sighted: Sighted) -> None:
        """Note that something was asked for."""
        self._asked[key] = sighted
        if len(self._asked) > MOST_PENDING:
            del self._asked[next(iter(self._asked))]
            self.unmeasured[Unmeasured.CROWDED] += 1

    def act(self, key: Hashable, sighted: Sighted) -> None:
        """Report the reaction that a change shows, if it is known when that was asked for."""
        asked = self._asked.pop(key, None)
        if asked is not None:
            self._report(Reaction(self.step, asked, sighted))

    def drop(self, key: Hashable, reason: Unmeasured) -> None:
        """Forget what was asked for, if it was."""
        if self._asked.pop(key, None) is not None:
            self.unmeasured[reason] += 1

    def clear(self) -> None:
        """Forget everything: the watch began again."""
        self.unmeasured[Unmeasured.GAP] += len(self._asked)
        self._asked.clear()

    def expire(self, now: float) -> None:
        """Forget what was asked for longer ago than the horizon."""
        for key, sighted in [*self._asked.items()]:
            if now - sighted.received <= HORIZON_SECONDS:
                break
            self.drop(key, Unmeasured.EXPIRED)

    def oldest(self, until: float) -> PendingAge:
        """Return what is pending. Its age counts up to `until`, when the watch was last known to lack nothing."""
        first = next(iter(self._asked.values()), None)
        return PendingAge(len(self._asked), 0.0 if first is None else max(0.0, until - first.received))
