"""What all unit tests share: no file of the user, no compiler, no wait on a real clock, and a loop whose time jumps."""

import asyncio
import atexit
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.loop import JumpingLoop

ROOT = Path(__file__).parents[2]

STARTED = frozenset(("bash", "git", "ldd", "make", "openssl", "fc-list", "uname"))
"""The programs that a unit test may start, besides Python and scripts that the test wrote; libraries start the last."""

HOME = Path.home()
OWN_FOLDERS = tuple(
    f"{os.path.realpath(folder)}/"
    for folder in (str(ROOT), sys.prefix, sys.base_prefix, tempfile.gettempdir(), *filter(None, sys.path))
)
"""What the tests consist of, and what they write: it may lie in the home of the user."""

TESTED = tuple(f"{folder}/" for folder in (ROOT / "watchslo", sys.prefix, sys.base_prefix))
"""Code that may sleep: the product and libraries, for example to wait for a process."""

EMPTY_HOME = Path(tempfile.mkdtemp(prefix="empty-home-"))
atexit.register(shutil.rmtree, EMPTY_HOME, ignore_errors=True)


class Guard:
    """Refuses what makes a unit test depend on its machine, while one is collected or runs."""

    def __init__(self) -> None:
        self.is_on = False
        self.refused: list[str] = []

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Look at an audit event of Python; see its documentation, "Audit events table"."""
        if not self.is_on:
            return
        if event in ("open", "os.listdir", "os.scandir"):
            self._look_at_file(arguments[0])
        elif event == "subprocess.Popen":
            self._look_at_program(os.fsdecode(arguments[0]))

    def refuse(self, what: str) -> None:
        """Fail the test now; and at its end, in case something catches that."""
        self.refused.append(what)
        pytest.fail(what)

    def _look_at_file(self, path: object) -> None:
        if not isinstance(path, str | bytes | os.PathLike):  # the number of an open file, or the current folder
            return
        place = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - this runs for every file, and must not read one
        if f"{place}/".startswith(f"{HOME}/") and not f"{place}/".startswith(OWN_FOLDERS):
            self.refuse(f"a unit test reads {place}, in the home of the user")

    def _look_at_program(self, program: str) -> None:
        is_own = Path(program).is_absolute() and program.startswith(OWN_FOLDERS)
        if not is_own and Path(program).name not in STARTED and shutil.which(program):
            self.refuse(f"a unit test starts {program}: that may be missing elsewhere, or be a compiler")


GUARD = Guard()
sys.addaudithook(GUARD.audit)


def is_of_tests() -> bool:
    """Return True if the caller of the calling function is code of the tests."""
    return not sys._getframe(2).f_code.co_filename.startswith(TESTED)


def sleep(seconds: float, really: Any = time.sleep) -> None:
    """Sleep in place of `time.sleep`."""
    if is_of_tests():
        GUARD.refuse("a unit test sleeps: let a fake clock decide when")
    really(seconds)


def asyncio_sleep(delay: float, result: Any = None, really: Any = asyncio.sleep) -> Any:
    """Sleep in place of `asyncio.sleep`."""
    if delay > 0 and is_of_tests() and not isinstance(asyncio._get_running_loop(), JumpingLoop):
        GUARD.refuse("a unit test sleeps on a real clock: use a loop whose time jumps")
    return really(delay, result)


@contextlib.contextmanager
def guarded(*, may_sleep: bool = False) -> Iterator[None]:
    """Refuse what a unit test must not do, and hide the home of the user."""
    with pytest.MonkeyPatch.context() as patched:
        for name in [name for name in os.environ if name.startswith("XDG_") or name == "KUBECONFIG"]:
            patched.delenv(name)
        patched.setenv("HOME", str(EMPTY_HOME))
        if not may_sleep:
            patched.setattr(time, "sleep", sleep)
            patched.setattr(asyncio, "sleep", asyncio_sleep)
        patched.setattr(GUARD, "is_on", True)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    """Guard the import of the modules in this folder."""
    with guarded():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Guard the tests in this folder."""
    with guarded(may_sleep=item.get_closest_marker("real_clock") is not None):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, None, None]:
    yield
    refused, GUARD.refused = GUARD.refused, []
    assert not refused, refused


@pytest.fixture
def jumping(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Runner]:
    """Return a runner whose time jumps to the next timer."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner, monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", runner.get_loop().time)
        yield runner
