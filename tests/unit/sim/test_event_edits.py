"""Edits of the events of a watch, without a cluster."""

import pytest

from watchslo.sim import event_edits
from watchslo.sim.event_edits import BOOKMARK, EditLog, EditRecord, EventEdit, EventEditor, WatchEvent, bookmark_event

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


@pytest.mark.parametrize(
    ("edit", "sent", "wrong"),
    [
        (event_edits.LOSE, [("DELETED", 12), ("MODIFIED", 13), ("DELETED", 14)], 11),
        (event_edits.LOSE_DELETED, [("ADDED", 11), ("MODIFIED", 13), ("DELETED", 14)], 12),
        (
            event_edits.DUPLICATE,
            [("ADDED", 11), ("ADDED", 11), ("DELETED", 12), ("MODIFIED", 13), ("DELETED", 14)],
            11,
        ),
        (event_edits.SWAP, [("DELETED", 12), ("ADDED", 11), ("MODIFIED", 13), ("DELETED", 14)], 11),
        (event_edits.RETYPE, [("ADDED", 11), ("DELETED", 12), ("ADDED", 13), ("DELETED", 14)], 13),
        (
            event_edits.SEND_EARLY_BOOKMARK,
            [(BOOKMARK, 11), ("ADDED", 11), ("DELETED", 12), ("MODIFIED", 13), ("DELETED", 14)],
            11,
        ),
        (
            event_edits.SEND_BACKWARD_BOOKMARK,
            [("ADDED", 11), (BOOKMARK, 11), (BOOKMARK, 10), ("DELETED", 12), ("MODIFIED", 13), ("DELETED", 14)],
            10,
        ),
    ],
)
def test_edit_acts_once_and_records_the_wrong_revision(edit: EventEdit, sent: Shown, wrong: int) -> None:
    editing = Editing()
    editing.editor.arm("fault", edit)
    assert editing.send(*events("ADDED", "DELETED", "MODIFIED", "DELETED")) == sent
    assert editing.recorded == [("fault", wrong)]
    assert not editing.editor.armed


def test_lost_range_is_ten_events_and_each_is_recorded() -> None:
    editing = Editing()
    editing.editor.arm("lost-range", event_edits.LOSE_TEN)
    due = events(*["MODIFIED"] * 4)
    assert editing.send(*due) == []
    editing.editor.arm("lost-range", event_edits.LOSE_TEN)  # the fault repeats before the range has ended
    due = events(*["MODIFIED"] * 12)
    assert editing.send(*due[4:]) == [("MODIFIED", 21), ("MODIFIED", 22)]
    assert editing.recorded == [("lost-range", revision) for revision in range(11, 21)]


def test_editor_withholds_the_first_of_two_events_until_it_is_disarmed() -> None:
    editing = Editing()
    editing.editor.arm("swapped", event_edits.SWAP)
    due = events("ADDED", "MODIFIED")
    assert editing.send(due[0]) == []
    assert editing.editor.withholds
    assert editing.editor.disarm("swapped") == [due[0]]
    assert editing.editor.disarm("swapped") == []
    assert editing.send(due[1]) == [("MODIFIED", 12)]
    assert editing.recorded == []


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
    assert log.counts == {"lost-event": 5}
