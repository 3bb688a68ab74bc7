"""`python -m benchmarks.blocks FILE watchslo run …` runs watchslo and notes in FILE each long block of its event loop.

A block is what runs between two looks at the sockets. Each line has when it ended (monotonic seconds), how long it
took, how much CPU its thread used, and the callback that used most of that: on a busy machine only the CPU says what
the daemon itself did.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from selectors import SelectorKey
from typing import Any

from watchslo import cli, event_loop

NOTED_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class Block:
    """When a block ended, its elapsed and CPU seconds, and its longest callback."""

    ended: float
    elapsed: float
    cpu: float
    longest: str


def read(file: Path) -> Sequence[Block]:
    """Return the blocks that were noted so far; the last line may be half written."""
    lines = [line.split(maxsplit=3) for line in file.read_text().split("\n")[:-1]]
    return [Block(float(ended), float(elapsed), float(cpu), longest) for ended, elapsed, cpu, longest in lines]


def noting_blocks(file: Path) -> Sequence[str | Path]:
    """Return the beginning of a command that runs watchslo and notes its blocks in a file."""
    return sys.executable, "-m", "benchmarks.blocks", file


def note_blocks(file: Path) -> None:
    """Make the event loops of this process note their blocks."""
    out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    longest: tuple[float, Callable[..., object]] = 0.0, print

    class NotingSelector(event_loop.TimedSelector):
        """A selector that notes how long the callbacks ran before each `select`."""

        _began: tuple[float, float] | None = None

        def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
            nonlocal longest
            if self._began is not None:
                ended, cpu = time.monotonic(), time.thread_time()
                if ended - self._began[0] >= NOTED_SECONDS:
                    figures = f"{ended} {ended - self._began[0]} {cpu - self._began[1]}"
                    os.write(out, f"{figures} {name_of(longest[1])}\n".encode())
            longest = 0.0, print
            ready = super().select(timeout)
            self._began = time.monotonic(), time.thread_time()
            return ready

    def run(handle: Any) -> None:
        nonlocal longest
        callback, began = handle._callback, time.thread_time()  # noqa: SLF001
        run_handle(handle)
        took = time.thread_time() - began
        if took > longest[0] and isinstance(handle._loop, event_loop.TimedEventLoop):  # noqa: SLF001
            longest = took, callback

    run_handle = vars(asyncio.Handle)["_run"]
    setattr(asyncio.Handle, "_run", run)  # noqa: B010 - asyncio offers nothing else
    vars(event_loop)["TimedSelector"] = NotingSelector


def name_of(callback: Any) -> str:
    """Return the name of a callback; of a task, those of its coroutines and the lines at which they are paused."""
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        return ">".join(_paused(task.get_coro())) or "?"
    return str(getattr(getattr(callback, "func", callback), "__qualname__", callback))


def _paused(coroutine: Any) -> Iterator[str]:
    while hasattr(coroutine, "__qualname__"):
        frame = getattr(coroutine, "cr_frame", None)
        yield f"{coroutine.__qualname__}:{frame.f_lineno if frame else 'end'}"
        coroutine = getattr(coroutine, "cr_await", None)


if __name__ == "__main__":
    _, name, *sys.argv = sys.argv
    note_blocks(Path(name))
    cli.main()
