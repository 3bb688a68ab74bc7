"""What one watch has delivered recently: by revision for audits, by time for comparison with other watches."""

from bisect import bisect_right
from collections import deque
from operator import itemgetter

from watchslo.watch.audit import Delivered
from watchslo.watch.messages import Batch

RECENT_SECONDS = 60.0  # before the newest: a watch that is further behind its peers has a longer trouble
RECENT_SPACING_SECONDS = 0.05


class Deliveries:
    """The recent deliveries of one watch.

    `newest` is when the newest event was received (monotonic seconds) and its revision. `recent` holds such pairs of
    the minute before the newest, at least 50 ms apart and so at most 1,201, the oldest first. `delivered` holds the
    revisions for audits.
    """

    def __init__(self) -> None:
        self.newest: tuple[float, int] | None = None
        self.recent: deque[tuple[float, int]] = deque()
        self.delivered = Delivered()

    def add(self, batch: Batch) -> None:
        """Take in a batch of live events. This runs for every batch, so it must stay cheap."""
        self.newest = batch.received, batch.revisions[-1]
        if not self.recent or batch.received - self.recent[-1][0] >= RECENT_SPACING_SECONDS:
            self.recent.append(self.newest)
            while batch.received - self.recent[0][0] > RECENT_SECONDS:
                self.recent.popleft()
        self.delivered.extend(batch.revisions)

    def since(self, revision: int) -> float | None:
        """Return since when a newer revision is there, by the recent deliveries; None if there is none."""
        place = bisect_right(self.recent, revision, key=itemgetter(1))
        return self.recent[place][0] if place < len(self.recent) else None

    def forget(self) -> None:
        """Drop the recent deliveries: the storage was restored, and revisions start again."""
        self.recent.clear()
