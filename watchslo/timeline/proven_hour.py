"""What was proven in the last hour: late and lost events, for instances without quantiles. Pure."""

from collections import deque
from dataclasses import dataclass

from watchslo.timeline.format import MINUTE, lasting

HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class ProvenHour:
    """The events of all watches that were proven late, or lost, in the last `seconds`: an hour, or since the start."""

    late: int = 0
    lost: int = 0
    seconds: float = 0.0

    @property
    def span(self) -> str:
        """The time in words: `hour`, `12 min`."""
        return "hour" if self.seconds >= HOUR_SECONDS else lasting(self.seconds)


NOTHING_PROVEN = ProvenHour()


class ProvenHistory:
    """Remembers totals of all watches, one a minute."""

    def __init__(self) -> None:
        self._totals: deque[tuple[float, int, int]] = deque()

    def observe(self, at_wall: float, late: int, lost: int) -> ProvenHour:
        """Take in totals since the start; return what was added in the last hour."""
        if not self._totals or at_wall - self._totals[-1][0] >= MINUTE:
            self._totals.append((at_wall, late, lost))
        while len(self._totals) > 1 and at_wall - self._totals[1][0] >= HOUR_SECONDS:
            self._totals.popleft()
        began, late_before, lost_before = self._totals[0]
        return ProvenHour(max(0, late - late_before), max(0, lost - lost_before), max(0.0, at_wall - began))
