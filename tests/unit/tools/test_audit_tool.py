"""The report and the exit code of tools.audit for outputs of pip-audit."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tools.audit.judge import audit

CLEAN = {"name": "click", "version": "8.4.2", "vulns": []}
SKIPPED = {"name": "rich", "skip_reason": "rich is not installed"}
FLAWED = {
    "name": "pyyaml",
    "version": "5.3",
    "vulns": [{"id": "PYSEC-2021-142", "fix_versions": ["5.4"]}, {"id": "PYSEC-0", "fix_versions": []}],
}


@pytest.fixture
def pip_audit_prints(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return a function that sets the output of pip-audit."""

    def prints(out: str, err: str) -> None:
        done = subprocess.CompletedProcess[str]([], 1, out, err)
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)

    return prints


@pytest.mark.parametrize(
    ("packages", "code", "report"),
    [
        ([CLEAN], 0, "lock: no known vulnerabilities in 1 packages"),
        (
            [CLEAN, SKIPPED],
            0,
            "lock: not audited for vulnerabilities: 1 of 2 packages, e.g. rich is not installed",
        ),
        (
            [CLEAN, SKIPPED, FLAWED],
            1,
            """lock: versions with known vulnerabilities:
pyyaml 5.3: PYSEC-2021-142, lock 5.4 instead
pyyaml 5.3: PYSEC-0, no version fixes it: remove the package""",
        ),
    ],
)
def test_audit_fails_only_for_known_vulnerabilities(
    packages: list[dict[str, Any]],
    code: int,
    report: str,
    pip_audit_prints: Callable[[str, str], None],
) -> None:
    pip_audit_prints(json.dumps({"dependencies": packages}), "")
    assert audit("lock") == (code, report)


def test_audit_passes_if_no_service_is_reachable(pip_audit_prints: Callable[[str, str], None]) -> None:
    pip_audit_prints("", "a long\ntraceback\nConnectionError: unreachable\n")
    assert audit("lock") == (0, "lock: not audited for vulnerabilities: ConnectionError: unreachable")
