"""`python -m tests.lane` runs tests in processes side by side, and each test that failed once more, alone, at the end.

A test that passes alone failed because of what ran in parallel. Such tests are listed, and more than `MOST_ALONE` of
them are a failure: then the tests depend on the speed of the machine, whatever each of them says.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

MOST_ALONE = 3
PASSED, FAILED = 0, 1
"""Exit codes of pytest: all tests passed, or some failed. Others mean that it could not run them."""


@dataclass(frozen=True, slots=True)
class Run:
    """The exit code of pytest, and the ids of the tests that failed."""

    code: int
    failed: tuple[str, ...] = ()


def judge(run: Callable[[Sequence[str]], Run], arguments: Sequence[str], say: Callable[[str], object]) -> int:
    """Run the tests that `arguments` select, then those that failed, alone; return the exit code.

    `run` runs pytest with arguments. `say` gets the sentences for the reader, each once.
    """
    together = run(arguments)
    if together.code != FAILED:
        return together.code
    if len(together.failed) > MOST_ALONE:
        say(f"failed: {len(together.failed)}, which is more than {MOST_ALONE}, so none runs alone.")
        return FAILED
    say(f"failed: {len(together.failed)}; each runs once more, alone:")
    again = [run([test]) for test in together.failed]
    alone = [test for test, found in zip(together.failed, again, strict=True) if found.code == PASSED]
    if alone:
        say("passed only alone:")
    for test in alone:
        say(f"  {test}")
    return max(found.code for found in again)


def pytest(arguments: Sequence[str]) -> Run:
    """Run pytest in a process of its own, with a cache that knows no earlier run."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "pytest", "--override-ini", f"cache_dir={cache}", *arguments]
        code = subprocess.run(command, check=False, env=os.environ).returncode
        known = Path(cache) / "v" / "cache" / "lastfailed"
        return Run(code, tuple(json.loads(known.read_text())) if known.exists() else ())


if __name__ == "__main__":
    sys.exit(judge(pytest, sys.argv[1:], lambda sentence: print(sentence, flush=True)))
