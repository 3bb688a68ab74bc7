"""What one watch has delivered recently: by revision for audits, by time for comparison with other watches."""

from collections import deque
from collections.abc import Iterator

from watchslo.watch.audit import Delivered
from watchslo.watch.messages import Batch

RECENT_SECONDS = 60.0  # for which the time of each delivery is kept, to compare watches of one resource
RECENT_SPACING_SECONDS = 0.05


class Deliveries:
    """The recent deliveries of one watch.

    `newest` is when the newest event was received (monotonic seconds) and its revision. `recent` holds such pairs of
    the last minute, at least 50 ms apart, the oldest first. `delivered` holds the revisions for audits.
    """

    def __init__(self) -> None:
        self.newest: tuple[float, int] | None = None
        self.recent: deque[tuple[float, int]] = deque(maxlen=round(RECENT_SECONDS / RECENT_SPACING_SECONDS))
        self.delivered = Delivered()

    def add(self, batch: Batch) -> None:
        """Take in a batch of live events. This runs for every batch, so it must stay cheap."""
        self.newest = batch.received, batch.revisions[-1]
        if not self.recent or batch.received - self.recent[-1][0] >= RECENT_SPACING_SECONDS:
            self.recent.append(self.newest)
        self.delivered.extend(batch.revisions)

    def newer_than(self, revision: int) -> Iterator[tuple[float, int]]:
        """Yield when newer revisions were received, the oldest first."""
        return ((received, newest) for received, newest in self.recent if newest > revision)

    def forget(self) -> None:
        """Drop the recent deliveries: the storage was restored, and revisions start again."""
        self.recent.clear()
