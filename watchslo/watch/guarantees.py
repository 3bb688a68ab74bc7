"""Which guarantee of a watch a late event breaks.

A watch of the Kubernetes API delivers every change after the revision that it was requested from, once, in the order of
revisions. etcd defines these guarantees and gives them their names (its documentation, "API guarantees", and
`tests/robustness/validate/watch.go`). docs/concepts/guarantees.md says which part of each a client can see.
"""

from watchslo.snapshot import Guarantee
from watchslo.watch.decode import Deleted, ObjectChange

NO_ROWS = (b"", b"null", b"[]")


class ReceivedPosition:
    """How far one attempt at a watch has got: its newest event with its objects, and its newest bookmark.

    Several events may have one revision: what etcd deletes with one lease, such as expired `events`. Their objects
    differ; an object is known by its uid, or by the hash of its row where a Table has no uid. Only deleted objects may
    share a revision, and their rows do not tell their namespaces.
    """

    __slots__ = ("_objects", "bookmark", "event")

    def __init__(self) -> None:
        self.event: int | None = None
        self.bookmark: int | None = None
        self._objects: set[str | int | None] = set()

    def move(self, revision: int, event: ObjectChange) -> None:
        """Take in an event that was newer than everything before it."""
        if revision != self.event:
            self.event = revision
            self._objects = {_identity(event)}

    def judge(self, revision: int, event: ObjectChange) -> Guarantee | None:
        """Return the guarantee that an event breaks if it is not newer than everything before it.

        None if it is one of several events with the revision of the newest one. An object without an identity is taken
        for another one.
        """
        if self.event is not None and revision < self.event:
            return Guarantee.ORDERED
        if revision == self.event:
            identity = _identity(event)
            if identity is not None and identity in self._objects:
                return Guarantee.UNIQUE
            if self.bookmark is None or self.bookmark <= revision:
                self._objects.add(identity)
                return None
        is_marked = self.bookmark is not None and revision <= self.bookmark
        return Guarantee.BOOKMARKABLE if is_marked else Guarantee.RESUMABLE


def _identity(event: ObjectChange) -> str | int | None:
    """Return what identifies the object. The row of a deleted one may equal that of another one elsewhere."""
    changed = event.object
    if changed.metadata.uid or isinstance(event, Deleted):
        return changed.metadata.uid
    row = bytes(changed.rows)
    return hash(row) if row not in NO_ROWS else None
