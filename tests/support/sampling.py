"""`watchslo` that also records the bounds of each sample, for comparison with the truth in tests.

    python sampling.py NOTES run --config ...

NOTES is a file of JSON lines: see `sampled.py`, which reads them. The values are the arguments of the methods of
the daemon, which does not change for that.
"""

import json
import sys
from pathlib import Path
from typing import Any

from watchslo.cli import main
from watchslo.latency.track import Track
from watchslo.monitor.watch_identity import WatchIdentity
from watchslo.monitor.watch_statistics import WatchStatistics


class Notes:
    """The file; what is written to it can be read at once."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)
        self._watches: dict[int, WatchIdentity] = {}  # by the id of their track

    def follow(self) -> None:
        """Record from now on the bounds of each sample when its second is sealed."""
        make, seal = WatchStatistics.__init__, Track.seal

        def make_and_remember(statistics: WatchStatistics, identity: WatchIdentity, *more: Any) -> None:
            make(statistics, identity, *more)
            self._watches[id(statistics.track)] = identity

        def seal_and_note(track: Track, sent: float, revision: int, measure: Any, *more: Any, **named: Any) -> Any:
            def measure_and_note(revisions: Any, received: Any) -> Any:
                bounds = measure(revisions, received)
                known = bounds.measurable
                self._add(
                    track, *(column[known].tolist() for column in (revisions, received, bounds.proven, bounds.upper))
                )
                return bounds

            return seal(track, sent, revision, measure_and_note, *more, **named)

        _replace(WatchStatistics, "__init__", make_and_remember)
        _replace(Track, "seal", seal_and_note)

    def _add(self, track: Track, revisions: Any, at: Any, least: Any, most: Any) -> None:
        watch = self._watches[id(track)]
        named = {"apiserver": watch.apiserver.name, "watch": watch.label}
        self._file.write(json.dumps({**named, "revisions": revisions, "at": at, "least": least, "most": most}) + "\n")


def _replace(owner: type, name: str, method: Any) -> None:
    setattr(owner, name, method)  # in a function, because mypy forbids the plain assignment


if __name__ == "__main__":
    _, notes, *sys.argv[1:] = sys.argv
    Notes(Path(notes)).follow()
    main()
