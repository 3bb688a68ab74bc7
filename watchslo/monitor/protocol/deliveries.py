"""What one watch has delivered recently: by revision for audits, by time for comparison with other watches."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from watchslo.informer.delivered_runs import DeliveredRuns
from watchslo.watch.audit import Delivered
from watchslo.watch.catch_up import BurstFinder, EventBurst
from watchslo.watch.messages import Batch

RECENT_SECONDS = 60.0  # before the newest: a watch that is further behind its peers has a longer trouble
RECENT_SPACING_SECONDS = 0.05


class Deliveries:
    """The recent deliveries of one watch.

    `newest` is when the newest event was received (monotonic seconds) and its revision. Such pairs of the minute before
    the newest are kept, at least 50 ms apart and so at most 1,201, as columns: `times` and `revisions`, the oldest
    first. `delivered` holds the revisions for audits; with `replay`, also those of the past. `runs` are those of the
    last minutes, as long as the caches of other programs are compared with this watch.
    """

    def __init__(self, *, replay: bool = False) -> None:
        self.newest: tuple[float, int] | None = None
        self.delivered = Delivered(replay=replay)
        self.runs: DeliveredRuns | None = None
        self._times = array("d")
        self._revisions = array("q")
        self._bursts = BurstFinder()

    @property
    def times(self) -> Sequence[float]:
        return self._times

    @property
    def revisions(self) -> Sequence[int]:
        return self._revisions

    def opened(self, now: float) -> None:
        """Note that the watch was opened."""
        self._bursts.restart(now)

    def listed(self, revision: int) -> None:
        """Note a list: events up to this revision may have been missed."""
        self.delivered.begin(revision, listed=True)
        if self.runs is not None:
            self.runs.begin(revision)

    def lost_line(self) -> None:
        """Note that a line could not be read, which may have been an event."""
        self.delivered.begin_later()
        if self.runs is not None:
            self.runs.begin_later()

    def mark(self, revision: int) -> None:
        """Note a bookmark."""
        self.delivered.mark(revision)
        if self.runs is not None:
            self.runs.mark(revision)

    def add(self, batch: Batch) -> EventBurst | None:
        """Take in a batch of live events; return the burst that had ended before it, if there was one.

        This runs for every batch, so it must stay cheap.
        """
        received, revision = self.newest = batch.received, batch.revisions[-1]
        times = self._times
        if not times or received - times[-1] >= RECENT_SPACING_SECONDS:
            times.append(received)
            self._revisions.append(revision)
            if received - times[0] > RECENT_SECONDS:
                old = bisect_left(times, received - RECENT_SECONDS)
                del times[:old], self._revisions[:old]
                self.delivered.forget(self._revisions[0])
        self.delivered.extend(batch.revisions)
        if self.runs is not None:
            self.runs.add(received, batch.revisions)
        return self._bursts.add(received, batch.revisions)

    def since(self, revision: int) -> float | None:
        """Return since when a newer revision is there, by the recent deliveries; None if there is none."""
        place = bisect_right(self._revisions, revision)
        return self._times[place] if place < len(self._times) else None

    def forget(self) -> None:
        """Drop the recent deliveries: the storage was restored, and revisions start again."""
        del self._times[:], self._revisions[:]
        if self.runs is not None:
            self.runs.begin_later()
        self._bursts = BurstFinder()
