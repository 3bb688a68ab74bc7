"""The windows and factors of burn rates, as a table."""

from collections.abc import Mapping
from dataclasses import dataclass

from watchslo.config.sections.objective import ObjectiveConfig
from watchslo.rules.rule import CRITICAL, WARNING

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
RATE_SECONDS = 5 * MINUTE  # the range of recorded rates
RECORDED_EVERY = MINUTE  # the 5m rates; sums over them count events
SLOWLY_RECORDED_EVERY = 2 * MINUTE  # windows of hours and days, and quantiles
SELDOM_RECORDED_EVERY = 4 * MINUTE  # the period; below the 5m for which Prometheus keeps a value current
SHORT_WINDOWS: Mapping[str, float] = {"5m": 5 * MINUTE, "30m": 30 * MINUTE, "1h": HOUR, "2h": 2 * HOUR}
LONG_WINDOWS: Mapping[str, float] = {"6h": 6 * HOUR, "1d": DAY, "3d": 3 * DAY}
LENGTHS = {**SHORT_WINDOWS, **LONG_WINDOWS}
STEP_SECONDS = 30 * MINUTE  # the step in which a period is summed up


@dataclass(frozen=True, slots=True)
class WindowPair:
    """A burn-rate alert on two windows: the long one shows that the burn matters, the short one that it continues.

    The alert fires if the long window spends more than the share `spent` of the period's error budget, and the short
    one burns at the same rate, for `wait` seconds.

    The long window must also hold `history` seconds of recorded rates: with less than the next shorter window, it would
    only repeat the burn rate of that one, against a lower limit. The alert that fires first needs no history.
    """

    long: str
    short: str
    spent: float
    wait: float
    severity: str
    history: float

    def factor(self, objective: ObjectiveConfig) -> float | None:
        """Return the burn rate that fires, at least 1: 14.4 for 2% in 1h of 30d. None if the pair cannot fire.

        A pair cannot fire if its long window exceeds the period, or if more than all events would have to be late.
        """
        period, long = objective.events.period, LENGTHS[self.long]
        factor = max(1.0, self.spent * period / long)
        return factor if long <= period and factor * error_budget(objective) < 1 else None


PAIRS = (
    WindowPair("1h", "5m", 0.02, 2 * MINUTE, CRITICAL, 0.0),
    WindowPair("6h", "30m", 0.05, 15 * MINUTE, CRITICAL, HOUR),
    WindowPair("1d", "2h", 0.10, HOUR, WARNING, 6 * HOUR),
    WindowPair("3d", "6h", 0.10, 3 * HOUR, WARNING, DAY),
)
FEWEST_LATE_EVENTS = 10  # in the long window, per instance: fewer are not a trend


def error_budget(objective: ObjectiveConfig) -> float:
    """Return the share of events that may be late."""
    return 1.0 - objective.events.target
