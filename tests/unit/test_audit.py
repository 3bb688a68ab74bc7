"""What `make check` makes of pip-audit's answers."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tools.audit.judge import audit

CLEAN = {"name": "click", "version": "8.4.2", "vulns": []}
SKIPPED = {"name": "rich", "skip_reason": "rich is not there"}
FLAWED = {
    "name": "pyyaml",
    "version": "5.3",
    "vulns": [{"id": "PYSEC-2021-142", "fix_versions": ["5.4"]}, {"id": "PYSEC-0", "fix_versions": []}],
}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Lets pip-audit answer this."""

    def answer(out: str, err: str) -> None:
        done = subprocess.CompletedProcess[str]([], 1, out, err)
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)

    return answer


@pytest.mark.parametrize(
    ("packages", "code", "said"),
    [
        ([CLEAN], 0, "lock: no known vulnerability in 1 packages"),
        (
            [CLEAN, SKIPPED],
            0,
            "lock: not audited for vulnerabilities: 1 of 2 packages, e.g. rich is not there",
        ),
        (
            [CLEAN, SKIPPED, FLAWED],
            1,
            """lock: versions with known vulnerabilities:
pyyaml 5.3: PYSEC-2021-142, lock 5.4 instead
pyyaml 5.3: PYSEC-0, which no version mends: do without it""",
        ),
    ],
)
def test_answers(
    packages: list[dict[str, Any]],
    code: int,
    said: str,
    answers: Callable[[str, str], None],
) -> None:
    answers(json.dumps({"dependencies": packages}), "")
    assert audit("lock") == (code, said)


def test_nobody_to_ask_is_no_failure(answers: Callable[[str, str], None]) -> None:
    answers("", "a long\ntraceback\nConnectionError: unreachable\n")
    assert audit("lock") == (0, "lock: not audited for vulnerabilities: ConnectionError: unreachable")
