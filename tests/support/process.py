"""Real processes under test: each starts in its own session, logs to files, and ends with the test."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

LAUNCH = Path(__file__).with_name("launch.py")
POLL_SECONDS = 0.1  # a look may open a connection, and takes CPU from what it waits for
LOG_TAIL_CHARACTERS = 4000
GRACE_SECONDS = 10.0  # of a process whose end no test judges
PATIENCE_SECONDS = 300.0
"""The only time-out of all waits. It ends a test whose condition never holds, and claims nothing about speed."""

T = TypeVar("T")


def eventually(condition: Callable[[], T | None], what: str, every: float = POLL_SECONDS) -> T:
    """Wait until `condition` holds, return its result; fail with the text `what` if it never does."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (given := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"after {PATIENCE_SECONDS:g} s still not: {what}")
        time.sleep(every)
    return given


def until_equal(read: Callable[[], object], expected: object, what: str, every: float = POLL_SECONDS) -> None:
    """Wait until `read` returns `expected`; a failure says what it returned last."""
    last: list[object] = []

    def equal() -> bool:
        last[:] = [read()]
        return last == [expected]

    with contextlib.suppress(AssertionError):
        eventually(equal, what, every)
    assert last == [expected], f"{what}: expected {expected}, found {last}"


class Started(ABC):
    """Is started when its context opens, and closed when that ends or the start fails."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def start(self) -> None:
        """Start it and wait until it can be used."""

    @abstractmethod
    def close(self) -> None:
        """Stop what was started of it, and release the rest."""


class Process:
    """One program with its children. Its output goes to `NAME.out` and `NAME.err` in `folder`, appended on restart.

    `start` may be called from the main thread only (see `launch.py`); everything else from any.
    """

    def __init__(
        self, folder: Path, name: str, command: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self._env = dict(os.environ if env is None else env)
        self._out = folder / f"{name}.out"
        self._err = folder / f"{name}.err"
        self._popen: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self._popen is not None, f"{self.name} was not started"
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it runs, negative after a signal."""
        assert self._popen is not None, f"{self.name} was not started"
        return self._popen.poll()

    @property
    def has_started(self) -> bool:
        """True from its first start on."""
        return self._popen is not None

    @property
    def running(self) -> bool:
        """True from its start to its end."""
        return self._popen is not None and self.exit_code is None

    @property
    def out(self) -> str:
        return self._out.read_text(errors="replace")

    @property
    def err(self) -> str:
        return self._err.read_text(errors="replace")

    def start(self) -> None:
        """Start it, or start it again after its end."""
        assert threading.current_thread() is threading.main_thread(), "the process would die with this thread"
        assert self._popen is None or self.exit_code is not None, f"{self.name} runs already"
        with self._out.open("ab") as out, self._err.open("ab") as err:
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", LAUNCH, str(os.getpid()), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self._env,
                start_new_session=True,
            )

    def signal(self, number: int) -> None:
        """Send a signal to it and its children."""
        os.killpg(self.pid, number)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop it by SIGSTOP while the context is open; its connections stay open."""
        self.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    def pause(self, seconds: float) -> None:
        """Stop it in that way for some seconds."""
        with self.paused():
            time.sleep(seconds)

    def wait(self) -> int:
        """Wait for its end, and return the exit code."""
        assert self._popen is not None, f"{self.name} was not started"
        return self._popen.wait(PATIENCE_SECONDS)

    def end(self) -> int:
        """Ask it to end by SIGTERM, and return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def stop(self) -> None:
        """Stop it by SIGTERM, then SIGKILL after `GRACE_SECONDS`; its children die with it."""
        if self._popen is None:
            return
        if self.exit_code is None:
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(GRACE_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Kill it and its children."""
        if self._popen is None:
            return
        with contextlib.suppress(ProcessLookupError):  # no process of the group is left
            self.signal(signal.SIGKILL)
        self.wait()

    def until(self, condition: Callable[[], T | None], what: str, every: float = POLL_SECONDS) -> T:
        """Like `eventually`, but fails at once with the log when the process ends before that."""

        def holds() -> T | None:
            if given := condition():
                return given
            assert self.exit_code is None, f"{self.name} ended with {self.exit_code} before {what}:\n{self.tail()}"
            return None

        try:
            return eventually(holds, f"{self.name}: {what}", every)
        except AssertionError as error:
            error.add_note(self.tail())
            raise

    def tail(self) -> str:
        """Return the end of its output, for messages."""
        return f"{self.err[-LOG_TAIL_CHARACTERS:]}{self.out[-LOG_TAIL_CHARACTERS:]}"

    def cpu_seconds(self) -> float:
        """Return user and system time so far, without children."""
        return _cpu_seconds(Path(f"/proc/{self.pid}/stat"))

    def cpu_seconds_of_other_threads(self) -> float:
        """Return the CPU time of all threads except the first, which measures in a daemon."""
        threads = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(_cpu_seconds(thread / "stat") for thread in threads if thread.name != str(self.pid))

    def resident_bytes(self) -> int:
        """Return its resident memory."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _cpu_seconds(stat: Path) -> float:
    """Return user and system time of a process or a thread, from /proc."""
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def group_members(group: int) -> list[int]:
    """Return the living processes of a process group, without zombies."""
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = stat.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended during the search
        if int(pgrp) == group and state != "Z":
            members.append(int(stat.parent.name))
    return members
