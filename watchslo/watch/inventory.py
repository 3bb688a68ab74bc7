"""The objects of one resource and their revisions, to count what a gap hid.

An object takes 16 bytes in two arrays: the 64-bit hash of its uid, sorted, and its revision. A small dict collects
changes until a sixteenth of the objects has changed. Measured with 1,000,000 objects: 16 bytes per object after a
list, 23 with collected changes, and 57 for a quarter of a second while a list ends. The probability that any two
objects share a hash, and count as one object, is 1 in 37 million (n²/2⁶⁵).
"""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence

import numpy as np

from watchslo.model import IntArray
from watchslo.watch.decode import parse_revision
from watchslo.watch.messages import Unseen

FEWEST_CHANGES = 1024  # collected before they are merged, even with very few objects
CHANGED_SHARE = 16  # a merge costs time in proportion to the objects: so it is some ten operations for each change
MOST_HELD = 500_000  # events during a list: 100 s of 5,000 events per second, which is much for a cluster
HELD_BYTES = 24  # for each held event: 12 MB in all
_GONE = -1
_CHANGE_BYTES = 2 * sys.getsizeof(2**62)  # key and revision of a change, in addition to its slot in the dict


class Inventory:
    """The objects of one watch, known from lists and events.

    A complete list replaces all objects. Events that arrive during a list are held until its revision is known. If
    there are too many, the list is dropped and the inventory is no longer `synced`; the watch is not affected.
    While all objects are known for certain, the type of each event must agree with them.
    """

    def __init__(self) -> None:
        self.synced = False
        self._doubted = True
        self._listed_at = 0
        self._keys = _integers()
        self._revisions = _integers()
        self._changes: dict[int, int] = {}
        # the list in progress
        self._listing = False
        self._listed_keys: list[IntArray] = []
        self._listed_revisions: list[IntArray] = []
        self._overflown = False
        self._forget_held()

    def forget(self) -> None:
        """Forget all objects, so that the next list is not compared with earlier ones."""
        self.synced = False
        self.abandon()
        self._keys, self._revisions, self._changes = _integers(), _integers(), {}

    @property
    def is_certain(self) -> bool:
        """Whether all objects are known, so that the types of events can be compared with them."""
        return self.synced and not self._listing and not self._doubted

    def __len__(self) -> int:
        keys, states = self._change_columns()
        known = _find(self._keys, keys)[1]
        gone = states == _GONE
        return len(self._keys) + int(np.count_nonzero(~known & ~gone)) - int(np.count_nonzero(known & gone))

    def __contains__(self, uid: str) -> bool:
        self._merge()
        return bool(_find(self._keys, np.array([hash(uid)]))[1][0])

    @property
    def held(self) -> int:
        """The number of events that wait for the end of a list."""
        return len(self._held_keys)

    @property
    def nbytes(self) -> int:
        """The memory in use, in bytes."""
        arrays = (self._keys, self._revisions, *self._listed_keys, *self._listed_revisions)
        changes = sys.getsizeof(self._changes) + len(self._changes) * _CHANGE_BYTES
        return sum(int(part.nbytes) for part in arrays) + changes + self.held * HELD_BYTES

    # Events

    def doubt(self) -> None:
        """Compare no types until the next list: an event may have been missed, as when a line could not be read."""
        self._doubted = True

    def apply(
        self, types: Iterable[str], uids: Iterable[str | None], revisions: Iterable[int]
    ) -> tuple[int, ...] | None:
        """Apply live events in their order, or hold them during a list. Events without a uid are ignored.

        Returns the revisions of events whose type is wrong: ADDED of a known object, MODIFIED or DELETED of an unknown
        one. Returns None while it is not certain that all objects are known. Events that are older than the list say
        nothing: the list may have been ahead of the watch.
        """
        events = [
            (hash(uid), revision, _GONE if type_ == "DELETED" else revision, type_ == "ADDED")
            for type_, uid, revision in zip(types, uids, revisions, strict=True)
            if uid
        ]
        if self._listing:
            for key, revision, state, _ in events:
                self._hold(key, revision, state)
            return None
        wrong = self._mistyped(events) if self.is_certain else None
        self._changes.update((key, state) for key, _, state, _ in events)
        if len(self._changes) > max(FEWEST_CHANGES, len(self._keys) // CHANGED_SHARE):
            self._merge()
        return wrong

    def _mistyped(self, events: Sequence[tuple[int, int, int, bool]]) -> tuple[int, ...]:
        merged = self._keys.data  # for a few keys, a third of the time that numpy takes
        known: dict[int, bool] = {}
        wrong = []
        for key, revision, state, is_added in events:
            if key not in known:
                place = bisect_left(merged, key)
                is_merged = place < len(merged) and merged[place] == key
                known[key] = self._changes[key] != _GONE if key in self._changes else is_merged
            if known[key] == is_added and revision > self._listed_at:
                wrong.append(revision)
            known[key] = state != _GONE
        return tuple(wrong)

    def _hold(self, key: int, revision: int, state: int) -> None:
        if self._overflown:
            return
        self._held_keys.append(key)
        self._held_revisions.append(revision)
        self._held_states.append(state)
        if self.held > MOST_HELD:
            self._forget_held()
            self._overflown = True
            self.synced = False

    # Lists

    def begin(self) -> None:
        """Begin a list, and abandon the one in progress."""
        self.abandon()
        self._listing, self._doubted = True, False

    def list(self, uids: Sequence[str | None], revisions: Sequence[str | None]) -> None:
        """Add a page: uids and revisions as the apiserver writes them."""
        listed = [(hash(uid), parse_revision(text) or 0) for uid, text in zip(uids, revisions, strict=True) if uid]
        columns = np.array(listed, np.int64).reshape(-1, 2)
        self._listed_keys.append(columns[:, 0].copy())
        self._listed_revisions.append(columns[:, 1].copy())

    def abandon(self) -> None:
        """Drop the list in progress, if any, and apply the held events to the objects known before.

        These may lack what a gap before the list hid, so no types are compared until the next list.
        """
        self.doubt()
        if self.synced:
            self._changes.update(zip(self._held_keys, self._held_states, strict=True))
            self._merge()
        self._drop_list()

    def finish(self, revision: int, delivered: int) -> Unseen | None:
        """End a list of `revision` and return what a gap hid: changes that no event up to `delivered` brought.

        Returns None if this cannot be known: on the first list, or when too many events were held. Changes newer than
        `delivered` are still to come and never count. An object that is missing in a list newer than `delivered` does
        not count either: its DELETED event may still come.
        """
        if self._overflown:
            self.doubt()
            self._drop_list()
            return None
        keys, revisions = self._take_listed()
        held = list(zip(self._held_keys, self._held_revisions, self._held_states, strict=True))
        unseen = None
        if self.synced:
            self._changes.update((key, state) for key, at, state in held if at <= revision)
            self._merge()
            unseen = self._compare(keys, revisions, delivered, sweep=revision <= delivered)
        self._keys, self._revisions = keys, revisions
        self._changes = {key: state for key, at, state in held if at > revision}
        self._merge()
        self.synced, self._listed_at = True, revision
        self._drop_list()
        return unseen

    def _compare(self, keys: IntArray, revisions: IntArray, delivered: int, *, sweep: bool) -> Unseen:
        places, known = _find(self._keys, keys)
        due = revisions <= delivered
        created = np.count_nonzero(due & ~known)
        changed = np.count_nonzero(due[known] & (self._revisions[places[known]] != revisions[known]))
        deleted = len(self._keys) - np.count_nonzero(known) if sweep else 0
        return Unseen(changed=int(changed), created=int(created), deleted=int(deleted))

    def _take_listed(self) -> tuple[IntArray, IntArray]:
        keys = np.concatenate([_integers(), *self._listed_keys])
        revisions = np.concatenate([_integers(), *self._listed_revisions])
        keys, places = np.unique(keys, return_index=True)
        return keys, revisions[places]

    # Storage

    def _change_columns(self) -> tuple[IntArray, IntArray]:
        """Return the keys and revisions of the collected changes."""
        count = len(self._changes)
        return np.fromiter(self._changes.keys(), np.int64, count), np.fromiter(self._changes.values(), np.int64, count)

    def _merge(self) -> None:
        """Move the changes into the arrays: update known objects, remove deleted ones, insert new ones."""
        if not self._changes:
            return
        keys, states = self._change_columns()
        self._changes = {}
        places, known = _find(self._keys, keys)
        self._revisions[places[known]] = states[known]
        gone = places[known & (states == _GONE)]
        new = ~known & (states != _GONE)
        self._keys = np.delete(self._keys, gone)
        self._revisions = np.delete(self._revisions, gone)
        order = np.argsort(keys[new])
        keys, states = keys[new][order], states[new][order]
        places = np.searchsorted(self._keys, keys)
        self._keys = np.insert(self._keys, places, keys)
        self._revisions = np.insert(self._revisions, places, states)

    def _drop_list(self) -> None:
        self._listing = False
        self._listed_keys, self._listed_revisions = [], []
        self._overflown = False
        self._forget_held()

    def _forget_held(self) -> None:
        self._held_keys = array("q")
        self._held_revisions = array("q")
        self._held_states = array("q")


def _integers() -> IntArray:
    return np.empty(0, np.int64)


def _find(sorted_keys: IntArray, keys: IntArray) -> tuple[IntArray, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
    """Return the place of each key, or where it would be inserted, and whether it is present."""
    places = np.searchsorted(sorted_keys, keys)
    known = np.zeros(len(keys), np.bool_)
    within = places < len(sorted_keys)
    known[within] = sorted_keys[places[within]] == keys[within]
    return places, known
