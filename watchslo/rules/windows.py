"""The windows of a burn rate as a table, and what a rule and a group of rules are."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from watchslo.config import ObjectiveConfig

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
RATE_SECONDS = 5 * MINUTE  # the range of recorded rates
RECORDED_EVERY = MINUTE  # the 5m rates; sums over them count events
SLOWLY_RECORDED_EVERY = 2 * MINUTE  # what looks back over hours and days, and quantiles
SELDOM_RECORDED_EVERY = 4 * MINUTE  # what looks back over the period; below the 5m for which a value lasts
SHORT_WINDOWS: Mapping[str, float] = {"5m": 5 * MINUTE, "30m": 30 * MINUTE, "1h": HOUR, "2h": 2 * HOUR}
LONG_WINDOWS: Mapping[str, float] = {"6h": 6 * HOUR, "1d": DAY, "3d": 3 * DAY}
LENGTHS = {**SHORT_WINDOWS, **LONG_WINDOWS}
STEP_SECONDS = 30 * MINUTE  # in which a period is summed up


@dataclass(frozen=True, slots=True)
class Rule:
    """A recording rule, or an alert if it has labels; `wait` is the alert's `for`."""

    name: str
    expression: str
    wait: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after the other, every `interval` seconds."""

    name: str
    interval: float
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """An alert on two windows: the long one says that it matters, the short one that it still goes on.

    It fires where the long window spends more than `spent` of the period's error budget, and so does the short one in
    proportion, for `wait` seconds.
    """

    long: str
    short: str
    spent: float
    wait: float
    severity: str

    def factor(self, objective: ObjectiveConfig) -> float | None:
        """The burn rate that fires, at least 1: 14.4 for 2% in 1h of 30d. None where none can or may.

        A window that is longer than the period says nothing of it, and no more than all events can be late.
        """
        period, long = objective.events.period, LENGTHS[self.long]
        factor = max(1.0, self.spent * period / long)
        return factor if long <= period and factor * budget(objective) < 1 else None


PAIRS = (
    Pair("1h", "5m", 0.02, 2 * MINUTE, "critical"),
    Pair("6h", "30m", 0.05, 15 * MINUTE, "critical"),
    Pair("1d", "2h", 0.10, HOUR, "warning"),
    Pair("3d", "6h", 0.10, 3 * HOUR, "warning"),
)
FEWEST_LATE_EVENTS = 10  # in the long window, of each instance: less is no trend


def budget(objective: ObjectiveConfig) -> float:
    """The error budget: the share of events that may be late."""
    return 1.0 - objective.events.target
