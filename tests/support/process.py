"""Real processes under test: started in a session of their own, logged to files, and never left behind."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

LAUNCH = Path(__file__).with_name("launch.py")
POLL_SECONDS = 0.02
LOG_TAIL_CHARACTERS = 4000

T = TypeVar("T")


def eventually(condition: Callable[[], T | None], timeout: float, what: str, every: float = POLL_SECONDS) -> T:
    """Waits until `condition` holds, and returns what it gave; fails after `timeout` seconds, saying `what` did not."""
    deadline = time.monotonic() + timeout
    while not (given := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout:g} s still not: {what}")
        time.sleep(every)
    return given


class Process:
    """One program with its children. Its two outputs go to `NAME.out` and `NAME.err` in `folder`, appended on restart.

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
        """None while it runs; negative after a signal."""
        assert self._popen is not None, f"{self.name} was not started"
        return self._popen.poll()

    @property
    def out(self) -> str:
        return self._out.read_text(errors="replace")

    @property
    def err(self) -> str:
        return self._err.read_text(errors="replace")

    def start(self) -> None:
        """Starts it; a second call after it ended starts it again."""
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
        """Sends a signal to it and its children."""
        os.killpg(self.pid, number)

    def wait(self, timeout: float) -> int:
        """Waits for its end and returns the exit code."""
        assert self._popen is not None, f"{self.name} was not started"
        return self._popen.wait(timeout)

    def stop(self, timeout: float = 10.0) -> None:
        """Ends it: SIGTERM, then SIGKILL after `timeout` seconds; its children die with it."""
        if self._popen is None:
            return
        if self.exit_code is None:
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.wait(timeout)
        self.kill()

    def kill(self) -> None:
        """Ends it and its children at once."""
        if self._popen is None:
            return
        with contextlib.suppress(ProcessLookupError):  # nobody of the group is left
            self.signal(signal.SIGKILL)
        self.wait(timeout=60.0)  # what runs as idle work ends as such

    def until(self, condition: Callable[[], T | None], timeout: float, what: str, every: float = POLL_SECONDS) -> T:
        """Like `eventually`, but fails at once with the log when the process ends meanwhile."""

        def holds() -> T | None:
            if given := condition():
                return given
            assert self.exit_code is None, f"{self.name} ended with {self.exit_code} before {what}:\n{self.tail()}"
            return None

        try:
            return eventually(holds, timeout, f"{self.name}: {what}", every)
        except AssertionError as error:
            error.add_note(self.tail())
            raise

    def tail(self) -> str:
        """The end of what it printed, for messages."""
        return f"{self.err[-LOG_TAIL_CHARACTERS:]}{self.out[-LOG_TAIL_CHARACTERS:]}"

    def cpu_seconds(self) -> float:
        """User and system time so far, of it alone."""
        return _cpu_seconds(Path(f"/proc/{self.pid}/stat"))

    def cpu_seconds_beside(self) -> float:
        """The same of its threads but the first one, which in a daemon is the one that measures."""
        threads = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(_cpu_seconds(thread / "stat") for thread in threads if thread.name != str(self.pid))

    def resident_bytes(self) -> int:
        """The memory it holds now."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _cpu_seconds(stat: Path) -> float:
    """User and system time, as /proc has it of a process or of a thread."""
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def group_members(group: int) -> list[int]:
    """The living processes of a process group; zombies are not alive."""
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = stat.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if int(pgrp) == group and state != "Z":
            members.append(int(stat.parent.name))
    return members
