"""The runs of one strategy with one resource: what they have in common, and whether the strategy holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low

from watchslo.rehearse.rehearsal import Rehearsal
from watchslo.timeline.format import counted, duration


@dataclass(frozen=True, slots=True)
class Outcome:
    """All runs of one strategy with one resource."""

    strategy: str
    runs: tuple[Rehearsal, ...]

    @property
    def typical(self) -> Rehearsal:
        """Return the run with the median time to synced, or the last run if none synced."""
        times = [run.synced for run in self.runs if run.synced is not None]
        if not times:
            return self.runs[-1]
        return next(run for run in self.runs if run.synced == median_low(times))

    @property
    def synced(self) -> int:
        return sum(run.synced is not None for run in self.runs)

    @property
    def expired(self) -> int:
        return sum(run.expired for run in self.runs)

    @property
    def throttled(self) -> int:
        return sum(run.throttled for run in self.runs)

    @property
    def fell_back(self) -> bool:
        return any(run.fell_back for run in self.runs)

    @property
    def holds(self) -> bool:
        """Return whether each run synced with this strategy itself, without a fallback and without a 410."""
        return not self.expired and all(run.synced is not None and run.by == self.strategy for run in self.runs)


def outcomes(runs: Sequence[Rehearsal]) -> dict[str, Outcome]:
    """Group the runs of one resource by strategy, in the order in which they were first rehearsed."""
    names = dict.fromkeys(run.strategy for run in runs)
    return {name: Outcome(name, tuple(run for run in runs if run.strategy == name)) for name in names}


def failing(outcome: Outcome) -> str:
    """Say why a strategy does not hold."""
    if outcome.fell_back:
        return "fell back to pages, as the apiserver streams no lists"
    if outcome.expired:
        return _expiry(outcome)
    failures = [run.failure for run in outcome.runs if run.failure]
    return failures[-1].message.rstrip(".") if failures else f"{outcome.typical.by} was used instead"


def _expiry(outcome: Outcome) -> str:
    lists = sum(run.expired_lists for run in outcome.runs)
    what = "410 during the list" if lists else "410 when the watch opened"
    count = sum(run.expired > 0 for run in outcome.runs)
    return what if len(outcome.runs) == 1 else f"{what} in {runs_of(count, outcome)}"


def runs_of(count: int, outcome: Outcome) -> str:
    """Return `2 of 3 runs`."""
    return f"{count} of {counted(len(outcome.runs), 'run')}"


def seconds(outcome: Outcome) -> float:
    """Return the seconds until the typical run of an outcome that holds was synced."""
    synced = outcome.typical.synced
    assert synced is not None
    return synced


def took(outcome: Outcome) -> str:
    """Return the time until an outcome that holds was synced."""
    return duration(seconds(outcome))
