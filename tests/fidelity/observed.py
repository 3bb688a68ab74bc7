"""`watchslo` with two additions for tests: a wrong wall clock, and a record of each arrival and each sample.

    python observed.py SECONDS NOTES run --config ...

Its wall clock is SECONDS ahead. When it ends, the file NOTES holds for each watch the times at which its samples were
received (monotonic seconds) and their revisions, exactly as the daemon passed them to its statistics; and the revisions
of those that it measured, with the proven bounds of each.
"""

import sys
import time
from array import array
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from watchslo.cli import main
from watchslo.latency.pending import Arrivals
from watchslo.model import BoolArray, Bounds, FloatArray
from watchslo.monitor.clocks.domain_clock import DomainClock
from watchslo.monitor.clocks.sealer import Sealer
from watchslo.monitor.protocol.watch_identity import WatchIdentity
from watchslo.monitor.watches.watch_statistics import WatchStatistics


class Notes:
    """Records the arrivals and samples of all watches, by label."""

    def __init__(self) -> None:
        self._columns: dict[str, tuple[array[float], array[int]]] = {}
        self._samples: defaultdict[str, list[list[float]]] = defaultdict(lambda: [[], [], []])

    def follow(self) -> None:
        """Record from now on the arrivals that watches pass to their sealers, and what the sealers measure."""
        make, move = WatchStatistics.__init__, WatchStatistics.date_by
        labels: dict[int, str] = {}
        names: dict[WatchStatistics, str] = {}

        def make_and_remember(statistics: WatchStatistics, identity: WatchIdentity, *more: Any) -> None:
            labels[identity.number] = names[statistics] = identity.label
            make(statistics, identity, *more)

        def forget_and_move(statistics: WatchStatistics, clock: DomainClock) -> None:
            self._columns.pop(names[statistics], None)  # its first clock has measured none of them
            move(statistics, clock)

        def noting(take: Callable[[Sealer, int, float, list[int]], None]) -> Any:
            def note_and_take(sealer: Sealer, number: int, received: float, revisions: list[int]) -> None:
                at, revision = self._columns.setdefault(labels[number], (array("d"), array("q")))
                at.extend([received] * len(revisions))
                revision.extend(revisions)
                take(sealer, number, received, revisions)

            return note_and_take

        judge = Sealer._usable

        def judge_and_note(
            sealer: Sealer,
            arrivals: Arrivals,
            index: Any,
            watches: Any,
            bounds: Bounds,
            delays: FloatArray,
            queued: Any,
        ) -> BoolArray:
            good = judge(sealer, arrivals, index, watches, bounds, delays, queued)
            samples, latency = arrivals.at(good), bounds.less(delays).at(good)
            for watch in set(samples.watches.tolist()):
                mine = samples.watches == watch
                noted = samples.revisions[mine], latency.proven[mine], latency.proven_upper[mine]
                for column, values in zip(self._samples[labels[watch]], noted, strict=True):
                    column.extend(values.tolist())
            return good

        _replace(Sealer, "_usable", judge_and_note)
        _replace(WatchStatistics, "__init__", make_and_remember)
        _replace(WatchStatistics, "date_by", forget_and_move)
        _replace(Sealer, "record", noting(Sealer.record))
        _replace(Sealer, "hold", noting(Sealer.hold))  # until its clock is known

    def write(self, path: Path) -> None:
        path.write_bytes(
            msgspec.json.encode(
                {
                    label: {"at": at.tolist(), "revision": revision.tolist(), "samples": self._samples[label]}
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
