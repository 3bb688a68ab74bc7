"""Edits of the events that a watch sends. Faults break the guarantees of watches by these edits.

The module is pure: time is an argument.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """An event or a bookmark of a watch. `content` is its object, or its whole line."""

    type: str
    revision: int
    content: Any


def bookmark_event(revision: int) -> WatchEvent:
    """Return a bookmark of this revision."""
    return WatchEvent(BOOKMARK, revision, {"metadata": {"resourceVersion": str(revision)}})


@dataclass(frozen=True, slots=True)
class EventEdit:
    """Replaces the next events of a watch.

    `substitute` maps `together` events to the events that are sent in their place; it does so `times` times. With
    `only`, the edit takes events of that type and passes others. It never takes bookmarks. An edit that sends
    bookmarks `needs_bookmarks`: it is for watches that have requested them.
    """

    substitute: Callable[[Sequence[WatchEvent]], list[WatchEvent]]
    together: int = 1
    times: int = 1
    only: str = ""
    needs_bookmarks: bool = False


def _lose(_events: Sequence[WatchEvent]) -> list[WatchEvent]:
    return []


def _swap(events: Sequence[WatchEvent]) -> list[WatchEvent]:
    return [*reversed(events)]


def _duplicate(events: Sequence[WatchEvent]) -> list[WatchEvent]:
    return [*events, *events]


def _retype(events: Sequence[WatchEvent]) -> list[WatchEvent]:
    return [replace(event, type="ADDED") for event in events]


def _precede_with_bookmark(events: Sequence[WatchEvent]) -> list[WatchEvent]:
    return [bookmark_event(events[0].revision), *events]


def _follow_with_backward_bookmarks(events: Sequence[WatchEvent]) -> list[WatchEvent]:
    revision = events[-1].revision
    return [*events, bookmark_event(revision), bookmark_event(revision - 1)]


LOSE = EventEdit(_lose)
LOSE_TEN = EventEdit(_lose, times=10)
LOSE_DELETED = EventEdit(_lose, only="DELETED")
DUPLICATE = EventEdit(_duplicate)
SWAP = EventEdit(_swap, together=2)
RETYPE = EventEdit(_retype, only="MODIFIED")
SEND_EARLY_BOOKMARK = EventEdit(_precede_with_bookmark, needs_bookmarks=True)
SEND_BACKWARD_BOOKMARK = EventEdit(_follow_with_backward_bookmarks, needs_bookmarks=True)


class _ArmedEdit:
    """An edit with the events that it has taken, and the number of times that it still acts."""

    def __init__(self, edit: EventEdit) -> None:
        self.edit = edit
        self.taken: list[WatchEvent] = []
        self.left = edit.times


class EventEditor:
    """Edits the events of one watch. Each edit has a name, such as that of a fault, and ends once it has acted.

    `record` is called for each action of an edit, with the name of the edit and the revision of the wrong line: the
    lowest revision of the events that the edit has taken or sent.
    """

    def __init__(self, record: Callable[[str, int], None]) -> None:
        self._record = record
        self._armed: dict[str, _ArmedEdit] = {}

    @property
    def armed(self) -> bool:
        """True if an edit has not ended yet."""
        return bool(self._armed)

    @property
    def withholds(self) -> bool:
        """True if an edit has taken an event and waits for more events."""
        return any(armed.taken for armed in self._armed.values())

    def arm(self, name: str, edit: EventEdit) -> None:
        """Edit the next events, unless an edit of this name has not ended yet."""
        self._armed.setdefault(name, _ArmedEdit(edit))

    def disarm(self, name: str) -> list[WatchEvent]:
        """End an edit, and return the events that it withholds."""
        armed = self._armed.pop(name, None)
        return armed.taken if armed else []

    def edited(self, event: WatchEvent) -> list[WatchEvent]:
        """Return the events to send now that this event is due."""
        events = [event]
        for name, armed in tuple(self._armed.items()):
            events = [sent for each in events for sent in self._apply(name, armed, each)]
        return events

    def _apply(self, name: str, armed: _ArmedEdit, event: WatchEvent) -> list[WatchEvent]:
        edit = armed.edit
        if not armed.left or event.type == BOOKMARK or edit.only not in ("", event.type):
            return [event]
        armed.taken.append(event)
        if len(armed.taken) < edit.together:
            return []
        taken, armed.taken = armed.taken, []
        armed.left -= 1
        if not armed.left:
            del self._armed[name]
        sent = edit.substitute(taken)
        self._record(name, min(event.revision for event in (*taken, *sent)))
        return sent


@dataclass(frozen=True, slots=True)
class EditRecord:
    """One action of an edit: when (monotonic seconds), on which watch, by which fault, and the wrong revision."""

    at: float
    resource: str
    stream: int
    fault: str
    revision: int


class EditLog:
    """A bounded log of edits, in order of time."""

    def __init__(self, capacity: int) -> None:
        self._records: deque[EditRecord] = deque(maxlen=capacity)

    def append(self, record: EditRecord) -> None:
        self._records.append(record)

    def since(self, at: float) -> dict[str, list[Any]]:
        """Return the edits after a time, as columns."""
        records = tuple(self._records)
        later = records[bisect_right(records, at, key=lambda record: record.at) :]
        return {name: [getattr(record, name) for record in later] for name in EditRecord.__slots__}
