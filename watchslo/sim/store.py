"""What is stored, and since when: etcd with its one revision sequence, an apiserver's watch cache, and the truth.

All of it is plain data; time comes as an argument.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from watchslo.sim.kinds import Object


class Gone(Exception):  # noqa: N818 - a state of the revision, not a fault of anybody's
    """A revision that is no longer kept; `oldest` is the oldest one that is."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} is gone, the oldest is {oldest}")
        self.revision = revision
        self.oldest = oldest


@dataclass(frozen=True, slots=True)
class Change:
    """One commit. `object` carries the commit's revision, also when it is deleted; `committed` is monotonic seconds."""

    revision: int
    type: str
    resource: str
    key: str
    object: Object
    previous: Object | None
    committed: float


_LAST = chr(0x10FFFF)
"""Sorts after every letter of a key."""


class Table:
    """The objects of one resource, in the order of their keys."""

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

    def apply(self, change: Change) -> None:
        if change.type == "DELETED":
            self.remove(change.key)
        else:
            self.put(change.key, change.object)

    def items(self, prefix: str = "", start: str = "") -> Iterable[tuple[str, Object]]:
        """Keys and objects whose keys begin with `prefix`, from the key `start` on."""
        first = bisect_left(self._keys, max(prefix, start))
        for key in islice(self._keys, first, None):
            if not key.startswith(prefix):
                return
            yield key, self._objects[key]

    def count(self, prefix: str, start: str) -> int:
        """How many keys begin with `prefix`, from the key `start` on."""
        return bisect_left(self._keys, prefix + _LAST) - bisect_left(self._keys, max(prefix, start))

    def copy(self) -> "Table":
        return Table(dict(self._objects))

    def before(self, changes: Iterable[Change]) -> "Table":
        """As it was before these changes, which come newest first."""
        objects = dict(self._objects)
        for change in changes:
            if change.previous is None:
                del objects[change.key]
            else:
                objects[change.key] = change.previous
        return Table(objects)


def _later(changes: deque[Change], revision: int) -> list[Change]:
    """The changes after a revision, newest first."""
    later = []
    for change in reversed(changes):
        if change.revision <= revision:
            break
        later.append(change)
    return later


class Etcd:
    """Objects under one revision sequence, and their history back to the last compaction.

    No more than `retain` revisions are kept: older ones are compacted by themselves.
    """

    def __init__(self, retain: int) -> None:
        self.revision = 1
        self.compacted = 0
        self._retain = retain
        self._tables: dict[str, Table] = {}
        self._logs: dict[str, deque[Change]] = {}

    def table(self, resource: str) -> Table:
        return self._tables.setdefault(resource, Table())

    def put(self, resource: str, key: str, obj: Object, now: float) -> Change:
        previous = self.table(resource).get(key)
        return self._commit("MODIFIED" if previous else "ADDED", resource, key, obj, now)

    def delete(self, resource: str, key: str, now: float) -> Change:
        """Delete an object that exists."""
        obj = self.table(resource).get(key)
        assert obj is not None
        return self._commit("DELETED", resource, key, obj, now)

    def since(self, resource: str, revision: int) -> list[Change]:
        """The changes after a revision, in order.

        Raises:
            Gone: when some of them are compacted.
        """
        if revision + 1 < self.compacted:
            raise Gone(revision, self.compacted)
        return _later(self._log(resource), revision)[::-1]

    def at(self, resource: str, revision: int) -> Table:
        """The objects as they were at a revision.

        Raises:
            Gone: when it is compacted.
        """
        if revision < self.compacted:
            raise Gone(revision, self.compacted)
        later = _later(self._log(resource), revision)
        return self.table(resource).before(later) if later else self.table(resource)

    def compact(self, revision: int) -> None:
        """Forget how it was before a revision; one from the future is taken as the newest."""
        self.compacted = max(self.compacted, min(revision, self.revision))
        for log in self._logs.values():
            while log and log[0].revision <= self.compacted:
                log.popleft()

    def skip(self, revisions: int) -> None:
        """Use up revisions for what nobody here watches."""
        self.revision += revisions

    def restore(self, revision: int) -> None:
        """Be as it was at a revision, or as near to it as is not compacted; what came after never was."""
        self.revision = min(max(revision, self.compacted), self.revision)
        for resource, log in self._logs.items():
            self._tables[resource] = self.at(resource, self.revision)
            while log and log[-1].revision > self.revision:
                log.pop()

    def _log(self, resource: str) -> deque[Change]:
        return self._logs.setdefault(resource, deque())

    def _commit(self, kind: str, resource: str, key: str, obj: Object, now: float) -> Change:
        table = self.table(resource)
        self.revision += 1
        stamped = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
        change = Change(self.revision, kind, resource, key, stamped, table.get(key), now)
        table.apply(change)
        self._log(resource).append(change)
        if self.revision - self.compacted > 2 * self._retain:
            self.compact(self.revision - self._retain)
        return change


class Cache:
    """The watch cache of one resource in one apiserver: its objects, how fresh they are, and a window of changes.

    `advanced` says whether anything has reached it since it was filled: only then it sends bookmarks.
    """

    def __init__(self, table: Table, revision: int, capacity: int) -> None:
        self.table = table.copy()
        self.revision = revision
        self.advanced = False
        self._filled_at = revision
        self._capacity = capacity
        self._window: deque[Change] = deque()
        self._evicted = False

    @property
    def oldest(self) -> int:
        """The oldest revision from which a watch can start."""
        return self._window[0].revision - 1 if self._evicted else self._filled_at

    def apply(self, change: Change) -> None:
        self.table.apply(change)
        self.progress(change.revision)
        self._window.append(change)
        self._evict()

    def remember(self, capacity: int) -> None:
        """Keep no more changes than this from now on."""
        self._capacity = capacity
        self._evict()

    def progress(self, revision: int) -> None:
        """Nothing of this resource has changed up to a revision that it has not seen."""
        self.revision = max(self.revision, revision)
        self.advanced = True

    def _evict(self) -> None:
        while len(self._window) > self._capacity:
            self._window.popleft()
            self._evicted = True

    def forget(self) -> None:
        """Drop the window: from now on every older revision is too old."""
        self._window.clear()
        self._evicted = False
        self._filled_at = self.revision

    def since(self, revision: int) -> list[Change]:
        """The changes after a revision, in order.

        Raises:
            Gone: when some of them have left the window.
        """
        if revision < self.oldest:
            raise Gone(revision, self.oldest)
        return _later(self._window, revision)[::-1]

    def at(self, revision: int) -> Table:
        """The objects as they were at a revision that the cache has reached.

        Raises:
            Gone: when the window does not reach back that far.
        """
        if revision < self.oldest:
            raise Gone(revision, self.oldest)
        later = _later(self._window, revision)
        return self.table.before(later) if later else self.table


class Log:
    """A bounded log of stamped revisions, in the order of their times; `stream` is 0 where none is meant."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._at = array("d")
        self._revision = array("q")
        self._stream = array("q")

    def __len__(self) -> int:
        return len(self._at)

    def append(self, at: float, revision: int, stream: int = 0) -> None:
        self._at.append(at)
        self._revision.append(revision)
        self._stream.append(stream)
        if len(self._at) >= 2 * self._capacity:
            for column in (self._at, self._revision, self._stream):
                del column[: self._capacity]

    def since(self, at: float) -> dict[str, list[float] | list[int]]:
        """What was stamped after a time, as columns."""
        first = bisect_right(self._at, at)
        return {
            "revision": self._revision[first:].tolist(),
            "at": self._at[first:].tolist(),
            "stream": self._stream[first:].tolist(),
        }


class Truth:
    """What really happened: when each revision was committed, and when each stream was sent it (monotonic seconds).

    At least the last `capacity` of each are kept for each resource.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._commits: dict[str, Log] = {}
        self._sends: dict[str, Log] = {}

    def commits(self, resource: str) -> Log:
        return self._commits.setdefault(resource, Log(self._capacity))

    def sends(self, resource: str) -> Log:
        return self._sends.setdefault(resource, Log(self._capacity))
