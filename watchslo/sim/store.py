"""Models of a storage with its revisions and of an apiserver's watch cache, and logs of the times of revisions.

The storage is etcd, or one whose revisions are commit times, as on GKE. The module is pure: time is an argument.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from watchslo.sim.kinds import Object


class RevisionGone(Exception):  # noqa: N818 - a state of the revision, not an error of the caller
    """The revision is no longer kept; `oldest` is the oldest revision that is."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} is gone, the oldest is {oldest}")
        self.revision = revision
        self.oldest = oldest


@dataclass(frozen=True, slots=True)
class StoredChange:
    """One commit. `object` carries the commit's revision, even for a deletion; `committed` is monotonic seconds."""

    revision: int
    type: str
    resource: str
    key: str
    object: Object
    previous: Object | None
    committed: float


_LAST = chr(0x10FFFF)
"""Sorts after every character of a key."""


class ObjectTable:
    """The objects of one resource, sorted by key."""

    def __init__(self, objects: dict[str, Object] | None = None) -> None:
        self._objects = objects or {}
        self._keys = sorted(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: str) -> Object | None:
        return self._objects.get(key)

    def put(self, key: str, obj: Object) -> None:
        if key not in self._objects:
            insort(self._keys, key)
        self._objects[key] = obj

    def remove(self, key: str) -> None:
        del self._objects[key]
        del self._keys[bisect_left(self._keys, key)]

    def apply(self, change: StoredChange) -> None:
        if change.type == "DELETED":
            self.remove(change.key)
        else:
            self.put(change.key, change.object)

    def items(self, prefix: str = "", start: str = "") -> Iterable[tuple[str, Object]]:
        """Iterate over the keys with this prefix and their objects, from the key `start` on."""
        first = bisect_left(self._keys, max(prefix, start))
        for key in islice(self._keys, first, None):
            if not key.startswith(prefix):
                return
            yield key, self._objects[key]

    def count(self, prefix: str, start: str) -> int:
        """Count the keys with this prefix, from the key `start` on."""
        return bisect_left(self._keys, prefix + _LAST) - bisect_left(self._keys, max(prefix, start))

    def copy(self) -> "ObjectTable":
        return ObjectTable(dict(self._objects))

    def before(self, changes: Iterable[StoredChange]) -> "ObjectTable":
        """Return the table as it was before these changes, which are ordered newest first."""
        objects = dict(self._objects)
        for change in changes:
            if change.previous is None:
                del objects[change.key]
            else:
                objects[change.key] = change.previous
        return ObjectTable(objects)


def _later(changes: deque[StoredChange], revision: int) -> list[StoredChange]:
    """Return the changes after a revision, newest first."""
    later = []
    for change in reversed(changes):
        if change.revision <= revision:
            break
        later.append(change)
    return later


class StorageClock:
    """The clock of a storage whose revisions are commit times, in nanoseconds of Unix time.

    `unix` is that clock minus the monotonic one, in seconds; `drift` is by how much it is too fast (1e-6: by one
    microsecond a second). If `dates_reads`, a consistent read has the revision of its own time; otherwise, of the last
    commit. `wait` draws for how many seconds a commit waits after its time, as those of Spanner do: its time has then
    passed on each of its clocks before the commit is visible.
    """

    def __init__(
        self, unix: float, drift: float, *, dates_reads: bool, wait: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._unix = round(unix * 1e9)
        self._rate = 1e9 * (1 + drift)
        self.dates_reads = dates_reads
        self.wait = wait

    def nanoseconds(self, now: float) -> int:
        return self._unix + round(now * self._rate)

    def seconds(self, nanoseconds: int) -> float:
        """Return the monotonic time at which the clock showed this."""
        return (nanoseconds - self._unix) / self._rate


class Etcd:
    """Objects under one revision sequence, with all their changes since the last compaction.

    Revisions count commits, or are their times by a `clock`. Such a time is later than all commits before, and than all
    reads that have not seen the commit: a read at time t has seen exactly the commits up to t. It
    compacts itself once it holds twice `retain` commits, and then keeps `retain` of them.
    """

    def __init__(self, retain: int, clock: StorageClock | None = None) -> None:
        self.revision = 1
        self.compacted = 0
        self._retain = retain
        self._clock = clock
        self._read_at = 0  # the time of the last read, by that clock
        self._commits: deque[int] = deque()  # since the last compaction
        self._tables: dict[str, ObjectTable] = {}
        self._logs: dict[str, deque[StoredChange]] = {}

    def read(self, now: float) -> int:
        """Return the revision of a consistent read."""
        if self._clock:
            self._read_at = max(self.revision, self._clock.nanoseconds(now))
            if self._clock.dates_reads:
                self.revision = self._read_at
        return self.revision

    def earlier(self, commits: int) -> int:
        """Return the revision before the last commits, or the oldest kept one."""
        return self._commits[-commits - 1] if commits < len(self._commits) else self.compacted

    def table(self, resource: str) -> ObjectTable:
        return self._tables.setdefault(resource, ObjectTable())

    def put(self, resource: str, key: str, obj: Object, now: float) -> StoredChange:
        previous = self.table(resource).get(key)
        return self._commit("MODIFIED" if previous else "ADDED", resource, key, obj, now)

    def delete(self, resource: str, key: str, now: float) -> StoredChange:
        """Delete an object, which must exist."""
        obj = self.table(resource).get(key)
        assert obj is not None
        return self._commit("DELETED", resource, key, obj, now)

    def since(self, resource: str, revision: int) -> list[StoredChange]:
        """Return the changes after a revision, oldest first.

        Raises:
            RevisionGone: if some of them are compacted.
        """
        if revision + 1 < self.compacted:
            raise RevisionGone(revision, self.compacted)
        return _later(self._log(resource), revision)[::-1]

    def at(self, resource: str, revision: int) -> ObjectTable:
        """Return the objects as they were at a revision.

        Raises:
            RevisionGone: if the revision is compacted.
        """
        if revision < self.compacted:
            raise RevisionGone(revision, self.compacted)
        later = _later(self._log(resource), revision)
        return self.table(resource).before(later) if later else self.table(resource)

    def compact(self, revision: int) -> None:
        """Compact up to a revision; a future revision counts as the newest one."""
        self.compacted = max(self.compacted, min(revision, self.revision))
        for log in self._logs.values():
            while log and log[0].revision <= self.compacted:
                log.popleft()
        while self._commits and self._commits[0] <= self.compacted:
            self._commits.popleft()

    def skip(self, revisions: int) -> None:
        """Advance the revision without a change, as writes to other resources do."""
        self.revision += revisions

    def _next(self, now: float) -> tuple[int, float]:
        """Return the revision of a commit that becomes visible now, and when it was committed."""
        if self._clock is None:
            return self.revision + 1, now
        time = max(self.revision + 1, self._read_at + 1, self._clock.nanoseconds(now - self._clock.wait()))
        return time, min(now, self._clock.seconds(time))

    def _log(self, resource: str) -> deque[StoredChange]:
        return self._logs.setdefault(resource, deque())

    def _commit(self, kind: str, resource: str, key: str, obj: Object, now: float) -> StoredChange:
        table = self.table(resource)
        self.revision, now = self._next(now)
        self._commits.append(self.revision)
        stamped = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
        change = StoredChange(self.revision, kind, resource, key, stamped, table.get(key), now)
        table.apply(change)
        self._log(resource).append(change)
        if len(self._commits) > 2 * self._retain:
            self.compact(self.earlier(self._retain))
        return change


class CacheModel:
    """The watch cache of one resource in one apiserver: its objects, its revision and a window of changes.

    `advanced` is True once a change or a progress notification has arrived since the cache was filled. Only then does
    the apiserver send bookmarks.
    """

    def __init__(self, table: ObjectTable, revision: int, capacity: int) -> None:
        self.table = table.copy()
        self.revision = revision
        self.advanced = False
        self._filled_at = revision
        self._capacity = capacity
        self._window: deque[StoredChange] = deque()
        self._evicted = False

    @property
    def oldest(self) -> int:
        """The oldest revision from which a watch can start."""
        return self._window[0].revision - 1 if self._evicted else self._filled_at

    def apply(self, change: StoredChange) -> None:
        self.table.apply(change)
        self.progress(change.revision)
        self._window.append(change)
        self._evict()

    def set_capacity(self, capacity: int) -> None:
        """Set the maximum number of changes in the window."""
        self._capacity = capacity
        self._evict()

    def progress(self, revision: int) -> None:
        """Advance to a revision up to which this resource has not changed."""
        self.revision = max(self.revision, revision)
        self.advanced = True

    def _evict(self) -> None:
        while len(self._window) > self._capacity:
            self._window.popleft()
            self._evicted = True

    def drop_window(self) -> None:
        """Drop the window: every older revision is then too old."""
        self._window.clear()
        self._evicted = False
        self._filled_at = self.revision

    def since(self, revision: int) -> list[StoredChange]:
        """Return the changes after a revision, oldest first.

        Raises:
            RevisionGone: if some of them have left the window.
        """
        if revision < self.oldest:
            raise RevisionGone(revision, self.oldest)
        return _later(self._window, revision)[::-1]


class RevisionLog:
    """A log of the last revisions with their times (monotonic seconds), in order of time; at least `capacity` are kept.

    `stream` is the watch's number, or 0 for none.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._at = array("d")
        self._revision = array("q")
        self._watch = array("q")

    def append(self, at: float, revision: int, watch: int = 0) -> None:
        self._at.append(at)
        self._revision.append(revision)
        self._watch.append(watch)
        if len(self._at) >= 2 * self._capacity:
            for column in (self._at, self._revision, self._watch):
                del column[: self._capacity]

    def since(self, at: float) -> dict[str, list[float] | list[int]]:
        """Return the entries after a time, as columns."""
        first = bisect_right(self._at, at)
        return {
            "revision": self._revision[first:].tolist(),
            "at": self._at[first:].tolist(),
            "stream": self._watch[first:].tolist(),
        }
