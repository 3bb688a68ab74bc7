"""`watchslo` with two things that a test needs and no user can have: a wrong wall clock, and a note of each arrival.

    python observed.py SECONDS NOTES run --config ...

Its wall clock is so many seconds ahead. At its end NOTES holds, for each watch, when its samples were received
(monotonic seconds) and their revisions, just as the daemon handed them to its statistics.
"""

import sys
import time
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from watchslo.cli import main
from watchslo.monitor.stream import Stream

Record = Callable[[float, Sequence[int]], None]


class Notes:
    """The arrivals of all watches, by label."""

    def __init__(self) -> None:
        self._columns: dict[str, tuple[array[float], array[int]]] = {}

    def follow(self, stream: Stream) -> None:
        """Notes from now on what this stream hands to its track."""
        columns = self._columns[stream.label] = array("d"), array("q")
        noted: Any = partial(_note, *columns, stream.track.record)
        setattr(stream.track, "record", noted)  # noqa: B010 - a method, so mypy would forbid the plain assignment

    def write(self, path: Path) -> None:
        path.write_bytes(
            msgspec.json.encode(
                {
                    label: {"at": at.tolist(), "revision": revision.tolist()}
                    for label, (at, revision) in self._columns.items()
                }
            )
        )


def _note(
    at: "array[float]", revision: "array[int]", record: Record, received: float, revisions: Sequence[int]
) -> None:
    at.extend([received] * len(revisions))
    revision.extend(revisions)
    record(received, revisions)


def _shift_wall_clock(seconds: float) -> None:
    right = time.time
    time.time = lambda: right() + seconds


def _follow_streams(notes: Notes) -> None:
    make = Stream.__init__

    def make_and_follow(self: Stream, *arguments: Any, **more: Any) -> None:
        make(self, *arguments, **more)
        notes.follow(self)

    setattr(Stream, "__init__", make_and_follow)  # noqa: B010 - the same


if __name__ == "__main__":
    _, wall_ahead, target, *sys.argv[1:] = sys.argv
    notes = Notes()
    _shift_wall_clock(float(wall_ahead))
    _follow_streams(notes)
    try:
        main()
    finally:
        notes.write(Path(target))
