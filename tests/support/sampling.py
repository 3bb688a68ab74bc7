"""`watchslo` that writes down the bounds of each sample: what a test holds against the truth, and no user can ask for.

    python sampling.py NOTES run --config ...

NOTES is a file of JSON lines: see `sampled.py`, which reads them. What is noted was handed over by the product's own
methods; nothing in it knows that it is observed.
"""

import json
import sys
from pathlib import Path
from typing import Any

from watchslo.cli import main
from watchslo.latency.track import Track
from watchslo.monitor.stream import Stream


class Notes:
    """The file; what is written to it can be read at once."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)
        self._streams: dict[int, Stream] = {}

    def follow(self) -> None:
        """Notes from now on the bounds that each sample is given when its second is sealed."""
        make, seal = Stream.__init__, Track.seal

        def make_and_remember(stream: Stream, *arguments: Any, **more: Any) -> None:
            make(stream, *arguments, **more)
            self._streams[id(stream.track)] = stream

        def seal_and_note(track: Track, sent: float, revision: int, measure: Any, *more: Any, **named: Any) -> Any:
            def measure_and_note(revisions: Any, received: Any) -> Any:
                bounds = measure(revisions, received)
                known = bounds.measurable
                self._add(
                    track, *(column[known].tolist() for column in (revisions, received, bounds.proven, bounds.upper))
                )
                return bounds

            return seal(track, sent, revision, measure_and_note, *more, **named)

        _replace(Stream, "__init__", make_and_remember)
        _replace(Track, "seal", seal_and_note)

    def _add(self, track: Track, revisions: Any, at: Any, least: Any, most: Any) -> None:
        stream = self._streams[id(track)]
        named = {"apiserver": stream.apiserver.name, "watch": stream.label}
        self._file.write(json.dumps({**named, "revisions": revisions, "at": at, "least": least, "most": most}) + "\n")


def _replace(owner: type, name: str, method: Any) -> None:
    setattr(owner, name, method)  # in a function, because mypy forbids the plain assignment


if __name__ == "__main__":
    _, notes, *sys.argv[1:] = sys.argv
    Notes(Path(notes)).follow()
    main()
