"""Processes of tests end with the tests, however these end."""

import os
import signal
import sys
from pathlib import Path

from tests.support.process import Process, eventually, group_members

ROOT = Path(__file__).parents[2]
SCRIPT = """
import pathlib, sys, time
from tests.support.process import Process
with Process(pathlib.Path(sys.argv[1]), "sleep", ["/bin/sleep", "600"]) as sleeper:
    pathlib.Path(sys.argv[2]).write_text(str(sleeper.pid))
    time.sleep(600)
"""


def test_no_process_is_left_when_the_tests_are_killed(tmp_path: Path) -> None:
    child = tmp_path / "child.pid"
    command: list[str | Path] = [sys.executable, "-c", SCRIPT, tmp_path, child]
    with Process(tmp_path, "tests", command, env=os.environ | {"PYTHONPATH": str(ROOT)}) as killed:
        killed.until(lambda: child.exists() and child.read_text() != "", "the child's start")
        group = int(child.read_text())
        assert group_members(group)
        os.kill(killed.pid, signal.SIGKILL)
        eventually(lambda: not group_members(group), "the child's end")
