"""The kind of a storage, from the revisions of its ticks alone.

A *sequence* counts commits, as etcd does. A *timestamp* is the time of the commit in nanoseconds of Unix time, as on
GKE: no counter reaches such numbers, and none of them is ever ahead of the storage's clock. The clocks of the storage
and of this machine may differ by any amount: what counts is that revisions grow, but not faster than time passes.
"""

from watchslo.model import Reading
from watchslo.snapshot import StorageKind

LEAST_TIMESTAMP = 10**18  # September 2001; a counter of a million commits a second needs 30,000 years for that
MOST_COUNTED = 10**15  # a counter of a million commits a second needs 30 years for that
GROWN_SECONDS = 20.0  # after which revisions are known to be times: a quarter faster than time would be refuted
STALE_SECONDS = 5.0  # an empty list may carry the last commit, which is rarely older; a clock may be set by less


class KindDetector:
    """Finds out what kind of revisions the ticks of a domain return: `unknown` until that is proven."""

    def __init__(self) -> None:
        self.kind = StorageKind.UNKNOWN
        self._first: tuple[int, float] | None = None  # a revision, and by how many seconds it was ahead of this machine

    def observe(self, tick: Reading) -> None:
        """Take in a tick."""
        if tick.revision < LEAST_TIMESTAMP:
            self._first = None
            self.kind = StorageKind.SEQUENCE if tick.revision <= MOST_COUNTED else StorageKind.UNKNOWN
            return
        ahead = tick.revision / 1e9 - tick.answered
        if self._first is None or ahead > self._first[1] + STALE_SECONDS:
            self._first = tick.revision, ahead
            self.kind = StorageKind.UNKNOWN
        elif tick.revision - self._first[0] >= GROWN_SECONDS * 1e9:
            self.kind = StorageKind.TIMESTAMP
