"""The distribution of one latency of one watch: rolling windows, and a histogram of all events."""

from collections.abc import Iterable, Sequence

from watchslo.latency.bins import Bins
from watchslo.latency.estimate import P99, Estimation, RollingEstimate, TickSpacing
from watchslo.latency.histogram import MassHistogram
from watchslo.latency.tally import Blocks, KeyCounts, Slot, Tally, merge


class Distribution:
    """Rolling windows of sealed events, with the `QUANTILES` of an estimation and `q`, and a histogram of all of them.

    The histogram divides each event's interval among bins in the proportions of the first window's estimate. An
    evaluation is `update`, then `solve` of what that returned, then `publish`.
    """

    def __init__(self, bins: Bins, windows: Iterable[tuple[str, float]], q: float = P99) -> None:
        self.rolling = tuple(RollingEstimate(bins, name, length, q) for name, length in windows)
        self.histogram = MassHistogram(bins)
        self._bins = bins
        self._blocks = Blocks(bins)
        self._longest = max(rolling.length for rolling in self.rolling)
        self._new: Tally | None = None

    def update(
        self, now: float, slots: Sequence[Slot], ticks: TickSpacing, withheld: tuple[Tally, ...] = ()
    ) -> list[Estimation]:
        """Add newly sealed events; return the estimations that are due. `withheld` counts in the windows only."""
        self._blocks.add(slots)
        self._blocks.forget(now - self._longest)
        self._new = merge(self._bins, [part for _, part in slots]) if slots else None
        return [
            due
            for rolling in self.rolling
            for due in rolling.update((*self._blocks.window(now, rolling.length), *withheld), ticks)
        ]

    def window(self, now: float, length: float) -> tuple[KeyCounts, ...]:
        """Return the sealed events of the last so many seconds, in whole blocks; `length` is that of a window."""
        return self._blocks.window(now, length)

    def publish(self) -> None:
        """Update the readings, once the estimations are solved."""
        for rolling in self.rolling:
            rolling.publish()
        if self._new is not None:
            self.histogram.add(self._new, self.rolling[0].p)
            self._new = None
