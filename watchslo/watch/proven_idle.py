"""Where the second watch of a quiet watch may begin: after what is proven, and never far in the past without a cache.

A second watch that stayed empty, sent after a consistent read of revision R, proves that no event of the resource is
missing up to R. So the next one begins at R. That matters for a resource without a watch cache, such as `events`: its
watch gets no bookmarks, so its newest revision may be hours old, and for a watch from there etcd reads every change of
every key since (etcd, mvcc, `syncWatchers`) while it holds a lock that writes need.
"""

from watchslo.model import Reading

REACH_SECONDS = 60.0  # how far back a watch of an uncached resource begins at most
CONFIRMED_SECONDS = 120.0  # the same for the read that confirms a difference, which is rare and comes later


class ProvenIdle:
    """Up to which revision a quiet watch is proven to lack nothing.

    `now` is when the watch began: its first revision is no older, because it came from a list.
    """

    def __init__(self, now: float) -> None:
        self.forget(now)

    def forget(self, now: float) -> None:
        """Forget everything: the storage was restored, and the watch begins again at `now`."""
        self._began = now
        self._read: Reading | None = None  # the last one up to which nothing was missing
        self._skipped = 0

    def note(self, read: Reading) -> None:
        """Note that a second watch, sent after this read, was empty."""
        self._read = read

    @property
    def at(self) -> float | None:
        """When the watch was last proven to lack nothing, in monotonic seconds; None if it never was."""
        return self._read.sent if self._read else None

    def reach(self, now: float, ticked: int | None, seconds: float = REACH_SECONDS) -> int | None:
        """Return the oldest revision from which a watch without a cache may begin; None if none is known.

        `ticked` is the oldest revision of the ticks of the last `seconds`, if there were any.
        """
        if now - self._began < seconds:
            return 0
        read = self._read.revision if self._read and now - self._read.sent < seconds else None
        return min((known for known in (read, ticked) if known is not None), default=None)

    def start(self, newest: int, reach: int, read: Reading) -> int:
        """Return where the second watch begins that follows this consistent read; `newest` is known by the watch.

        If it begins beyond what is proven, the changes in between are skipped.
        """
        if self._read is not None and read.revision < self._read.revision:  # the storage was restored
            self._read, self._skipped = None, 0
        proven = max(newest, self._read.revision if self._read else 0)
        if proven < reach:
            self._skipped = reach
        return max(proven, reach)

    def has_skipped(self, newest: int) -> bool:
        """Return True if changes after the newest revision of the watch were skipped: they may be withheld unseen."""
        return newest < self._skipped
