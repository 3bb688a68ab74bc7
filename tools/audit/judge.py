"""What pip-audit knows of a lock, and whether that is a reason to fail: each vulnerability that is found is.

Where no service knows the packages, as behind a mirror of their index alone, nothing is known, and that is said. A
change is not to wait for a service.
"""

import json
import subprocess
import sys
from typing import Any


def audit(lock: str) -> tuple[int, str]:
    """Asks pip-audit about a lock; the exit code that follows, and what to say."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "-r", lock]
    done = subprocess.run(  # noqa: S603
        [*command, "--format", "json", "--progress-spinner", "off"], capture_output=True, text=True, check=False
    )
    try:
        return _judged(lock, json.loads(done.stdout)["dependencies"])
    except (ValueError, KeyError):
        return 0, _unknown(lock, (done.stderr.strip() or "no answer").splitlines()[-1])


def _judged(lock: str, packages: list[dict[str, Any]]) -> tuple[int, str]:
    found = [
        f"{package['name']} {package['version']}: {flaw['id']}, {_remedy(flaw['fix_versions'])}"
        for package in packages
        for flaw in package.get("vulns", ())
    ]
    if found:
        return 1, "\n".join([f"{lock}: versions with known vulnerabilities:", *found])
    skipped = [package["skip_reason"] for package in packages if "skip_reason" in package]
    if skipped:
        return 0, _unknown(lock, f"{len(skipped)} of {len(packages)} packages, e.g. {skipped[0]}")
    return 0, f"{lock}: no known vulnerability in {len(packages)} packages"


def _remedy(fixed: list[str]) -> str:
    return f"lock {' or '.join(fixed)} instead" if fixed else "which no version mends: do without it"


def _unknown(lock: str, why: str) -> str:
    return f"{lock}: not audited for vulnerabilities: {why}"
