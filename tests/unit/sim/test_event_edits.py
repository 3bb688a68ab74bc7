"""Edits of the events of a watch, without a cluster."""

from watchslo.sim import event_edits
from watchslo.sim.event_edits import BOOKMARK, EditLog, EditRecord, EventEditor, WatchEvent, bookmark_event

Shown = list[tuple[str, int]]


def events(*types: str) -> list[WatchEvent]:
    """Return events of these types, with the revisions 11, 12 and so on."""
    return [WatchEvent(each, revision, {}) for revision, each in enumerate(types, 11)]


class Editing:
    """An editor with all that it has recorded."""

    def __init__(self) -> None:
        self.recorded: list[tuple[str, int]] = []
        self.editor = EventEditor(lambda name, revision: self.recorded.append((name, revision)))

    def send(self, *due: WatchEvent) -> Shown:
        return [(sent.type, sent.revision) for event in due for sent in self.editor.edited(event)]


def test_lost_range_is_ten_events_and_each_is_recorded() -> None:
    editing = Editing()
    editing.editor.arm("lost-range", event_edits.LOSE_TEN)
    due = events(*["MODIFIED"] * 4)
    assert editing.send(*due) == []
    editing.editor.arm("lost-range", event_edits.LOSE_TEN)  # the fault repeats before the range has ended
    due = events(*["MODIFIED"] * 12)
    assert editing.send(*due[4:]) == [("MODIFIED", 21), ("MODIFIED", 22)]
    assert editing.recorded == [("lost-range", revision) for revision in range(11, 21)]


def test_bookmarks_are_never_edited() -> None:
    editing = Editing()
    editing.editor.arm("lost", event_edits.LOSE)
    assert editing.send(bookmark_event(9)) == [(BOOKMARK, 9)]
    assert editing.editor.armed


def test_edits_act_together_in_the_order_in_which_they_were_armed() -> None:
    editing = Editing()
    editing.editor.arm("duplicate", event_edits.DUPLICATE)
    editing.editor.arm("lost", event_edits.LOSE)
    assert editing.send(*events("ADDED", "ADDED")) == [("ADDED", 11), ("ADDED", 12)]
    assert editing.recorded == [("duplicate", 11), ("lost", 11)]


def test_edit_log_is_bounded_and_returns_columns_after_a_time() -> None:
    log = EditLog(capacity=3)
    for at in range(5):
        log.append(EditRecord(float(at), "pods", 7, "lost-event", 100 + at))
    assert log.since(0.0)["revision"] == [102, 103, 104]
    assert log.since(3.0) == {
        "at": [4.0],
        "resource": ["pods"],
        "stream": [7],
        "fault": ["lost-event"],
        "revision": [104],
    }
