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
from watchslo.latency.pending import Arrivals
from watchslo.model import Bounds
from watchslo.monitor.clocks.sealer import Sealer
from watchslo.monitor.protocol.watch_identity import WatchIdentity


class Notes:
    """The file; what is written to it can be read at once."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)

    def follow(self) -> None:
        """Record from now on the bounds of each sample when its second is sealed."""
        usable = Sealer._usable

        def note_and_return(
            sealer: Sealer, arrivals: Arrivals, index: Any, watches: Any, bounds: Bounds, own_delays: Any, queued: Any
        ) -> Any:
            good = usable(sealer, arrivals, index, watches, bounds, own_delays, queued)
            latency = bounds.less(own_delays)
            for at, watch in enumerate(watches):
                of = good & (index == at)
                columns = arrivals.revisions, arrivals.received, latency.proven, latency.upper
                self._add(watch.identity, *(column[of].tolist() for column in columns))
            return good

        _replace(Sealer, "_usable", note_and_return)

    def _add(self, watch: WatchIdentity, revisions: Any, at: Any, least: Any, most: Any) -> None:
        named = {"apiserver": watch.apiserver.name, "watch": watch.label}
        self._file.write(json.dumps({**named, "revisions": revisions, "at": at, "least": least, "most": most}) + "\n")


def _replace(owner: type, name: str, method: Any) -> None:
    setattr(owner, name, method)  # in a function, because mypy forbids the plain assignment


if __name__ == "__main__":
    _, notes, *sys.argv[1:] = sys.argv
    Notes(Path(notes)).follow()
    main()
