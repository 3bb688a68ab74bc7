"""`python -m benchmarks.blocks FILE watchslo run …` runs watchslo and notes in FILE each long block of its event loop.

A block is what runs between two looks at the sockets. Each line has when it ended (monotonic seconds), how long it
took, and how much CPU its thread used: on a busy machine only the latter says what the daemon itself did.
"""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from selectors import SelectorKey

from watchslo import cli, event_loop

NOTED_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class Block:
    """When a block ended, and its elapsed and CPU seconds."""

    ended: float
    elapsed: float
    cpu: float


def read(file: Path) -> Sequence[Block]:
    """Return the blocks that were noted so far; the last line may be half written."""
    lines = file.read_text().split("\n")[:-1]
    return [Block(*map(float, line.split())) for line in lines]


def noting_blocks(file: Path) -> Sequence[str | Path]:
    """Return the beginning of a command that runs watchslo and notes its blocks in a file."""
    return sys.executable, "-m", "benchmarks.blocks", file


def note_blocks(file: Path) -> None:
    """Make the event loops of this process note their blocks."""
    out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    class NotingSelector(event_loop.TimedSelector):
        """A selector that notes how long the callbacks ran before each `select`."""

        _began: tuple[float, float] | None = None

        def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
            if self._began is not None:
                ended, cpu = time.monotonic(), time.thread_time()
                if ended - self._began[0] >= NOTED_SECONDS:
                    os.write(out, f"{ended} {ended - self._began[0]} {cpu - self._began[1]}\n".encode())
            ready = super().select(timeout)
            self._began = time.monotonic(), time.thread_time()
            return ready

    vars(event_loop)["TimedSelector"] = NotingSelector


if __name__ == "__main__":
    _, name, *sys.argv = sys.argv
    note_blocks(Path(name))
    cli.main()
