"""`watchslo` with two additions for tests: a wrong wall clock, and a record of each arrival.

    python observed.py SECONDS NOTES run --config ...

Its wall clock is SECONDS ahead. When it ends, the file NOTES holds for each watch the times at which its samples were
received (monotonic seconds) and their revisions, exactly as the daemon passed them to its statistics.
"""

import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from watchslo.cli import main
from watchslo.monitor.sealer import Sealer
from watchslo.monitor.watch_identity import WatchIdentity
from watchslo.monitor.watch_statistics import WatchStatistics


class Notes:
    """Records the arrivals of all watches, by label."""

    def __init__(self) -> None:
        self._columns: dict[str, tuple[array[float], array[int]]] = {}

    def follow(self) -> None:
        """Record from now on the arrivals that watches pass to their sealers."""
        make = WatchStatistics.__init__
        labels: dict[int, str] = {}

        def make_and_remember(statistics: WatchStatistics, identity: WatchIdentity, *more: Any) -> None:
            labels[identity.number] = identity.label
            make(statistics, identity, *more)

        def noting(take: Callable[[Sealer, int, float, list[int]], None]) -> Any:
            def note_and_take(sealer: Sealer, number: int, received: float, revisions: list[int]) -> None:
                at, revision = self._columns.setdefault(labels[number], (array("d"), array("q")))
                at.extend([received] * len(revisions))
                revision.extend(revisions)
                take(sealer, number, received, revisions)

            return note_and_take

        _replace(WatchStatistics, "__init__", make_and_remember)
        _replace(Sealer, "record", noting(Sealer.record))
        _replace(Sealer, "hold", noting(Sealer.hold))  # until its clock is known

    def write(self, path: Path) -> None:
        path.write_bytes(
            msgspec.json.encode(
                {
                    label: {"at": at.tolist(), "revision": revision.tolist()}
                    for label, (at, revision) in self._columns.items()
                }
            )
        )


def _shift_wall_clock(seconds: float) -> None:
    right = time.time
    time.time = lambda: right() + seconds


def _replace(owner: type, name: str, method: Any) -> None:
    setattr(owner, name, method)  # in a function, because mypy forbids the plain assignment


if __name__ == "__main__":
    _, wall_ahead, target, *sys.argv[1:] = sys.argv
    notes = Notes()
    _shift_wall_clock(float(wall_ahead))
    notes.follow()
    try:
        main()
    finally:
        notes.write(Path(target))
