"""What was proven in the last hour: late events and violated guarantees, for instances without quantiles. Pure."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from watchslo.changes import CountedIncreases
from watchslo.timeline.format import MINUTE, lasting
from watchslo.timeline.series import Key

HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class ProvenHour:
    """What was proven in the last `seconds`, an hour or since the start: late events, and violations of guarantees."""

    late: int = 0
    violations: int = 0
    seconds: float = 0.0

    @property
    def span(self) -> str:
        """The time in words: `hour`, `12 min`."""
        return "hour" if self.seconds >= HOUR_SECONDS else lasting(self.seconds)


NOTHING_PROVEN = ProvenHour()


class ProvenHistory:
    """Remembers what was proven since the start, once a minute."""

    def __init__(self) -> None:
        self._late: CountedIncreases[Key] = CountedIncreases()
        self._violations: CountedIncreases[Key] = CountedIncreases()
        self._totals: deque[tuple[float, int, int]] = deque()

    def observe(self, at_wall: float, late: Mapping[Key, int], violations: Mapping[Key, int]) -> ProvenHour:
        """Take in the counts of each watch; return what was added in the last hour."""
        total_late, total_violations = self._late.observe(late), self._violations.observe(violations)
        if not self._totals or at_wall - self._totals[-1][0] >= MINUTE:
            self._totals.append((at_wall, total_late, total_violations))
        while len(self._totals) > 1 and at_wall - self._totals[1][0] >= HOUR_SECONDS:
            self._totals.popleft()
        began, late_before, violations_before = self._totals[0]
        return ProvenHour(total_late - late_before, total_violations - violations_before, max(0.0, at_wall - began))
