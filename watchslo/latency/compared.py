"""Compare the latencies of the same events by all ticks with those by the ticks of their own apiserver alone.

Ticks that share a slow path with the events hide its delay. The difference shows how much they hide.
"""

from collections.abc import Sequence

from watchslo.latency.bins import Bins
from watchslo.latency.estimate import Estimation, RollingEstimate, TickSpacing
from watchslo.latency.tally import Blocks, Slot
from watchslo.snapshot import WindowReading

WINDOW = ("1m", 60.0)


class Comparison:
    """Two rolling windows of the same events of one apiserver.

    `combined` is measured by all ticks, `alone` by the ticks of that apiserver. An evaluation is `update`, then `solve`
    of what that returned, then `publish`.
    """

    def __init__(self, bins: Bins) -> None:
        self._combined = _ComparedWindow(bins)
        self._alone = _ComparedWindow(bins)

    def update(self, now: float, combined: Sequence[Slot], alone: Sequence[Slot], gap: float) -> list[Estimation]:
        """Add newly sealed events that both can measure; return the estimations that are due.

        `gap` is the mean gap between ticks, in seconds.
        """
        ticks = TickSpacing(0.0, gap)  # the round trips of an apiserver's own ticks are not those of all
        return [*self._combined.update(now, combined, ticks), *self._alone.update(now, alone, ticks)]

    def publish(self) -> None:
        """Update both readings."""
        self._combined.rolling.publish()
        self._alone.rolling.publish()

    @property
    def combined(self) -> WindowReading:
        return self._combined.rolling.reading

    @property
    def alone(self) -> WindowReading:
        return self._alone.rolling.reading


class _ComparedWindow:
    def __init__(self, bins: Bins) -> None:
        self.rolling = RollingEstimate(bins, *WINDOW)
        self._blocks = Blocks(bins)

    def update(self, now: float, slots: Sequence[Slot], ticks: TickSpacing) -> tuple[Estimation, ...]:
        self._blocks.add(slots)
        self._blocks.forget(now - self.rolling.length)
        return self.rolling.update(self._blocks.window(now, self.rolling.length), ticks)
