"""`watchslo` with two additions for tests: a wrong wall clock, and a record of each arrival.

    python observed.py SECONDS NOTES run --config ...

Its wall clock is SECONDS ahead. When it ends, the file NOTES holds for each watch the times at which its samples were
received (monotonic seconds) and their revisions, exactly as the daemon passed them to its statistics.
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
from watchslo.latency.track import Track
from watchslo.monitor.watch_identity import WatchIdentity
from watchslo.monitor.watch_statistics import WatchStatistics

Record = Callable[[float, Sequence[int]], None]


class Notes:
    """Records the arrivals of all watches, by label."""

    def __init__(self) -> None:
        self._columns: dict[str, tuple[array[float], array[int]]] = {}

    def follow(self, label: str, track: Track) -> None:
        """Record from now on the arrivals that this watch passes to its track."""
        columns = self._columns[label] = array("d"), array("q")
        noted: Any = partial(_note, *columns, track.record)
        setattr(track, "record", noted)  # noqa: B010 - a method, so mypy would forbid the plain assignment

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
    make = WatchStatistics.__init__

    def make_and_follow(self: WatchStatistics, identity: WatchIdentity, *more: Any) -> None:
        make(self, identity, *more)
        notes.follow(identity.label, self.track)

    setattr(WatchStatistics, "__init__", make_and_follow)  # noqa: B010 - the same


if __name__ == "__main__":
    _, wall_ahead, target, *sys.argv[1:] = sys.argv
    notes = Notes()
    _shift_wall_clock(float(wall_ahead))
    _follow_streams(notes)
    try:
        main()
    finally:
        notes.write(Path(target))
