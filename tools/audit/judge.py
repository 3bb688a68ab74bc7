"""Runs pip-audit on a lock file; any known vulnerability is a failure.

If no vulnerability service is reachable, for example behind a plain package mirror, the check passes and says so: a
change must not depend on a service.
"""

import json
import subprocess
import sys
from typing import Any


def audit(lock: str) -> tuple[int, str]:
    """Run pip-audit on a lock file; returns the exit code and the report."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "-r", lock]
    done = subprocess.run(  # noqa: S603
        [*command, "--format", "json", "--progress-spinner", "off"], capture_output=True, text=True, check=False
    )
    try:
        return _judged(lock, json.loads(done.stdout)["dependencies"])
    except (ValueError, KeyError):
        return 0, _not_audited(lock, (done.stderr.strip() or "no answer").splitlines()[-1])


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
        return 0, _not_audited(lock, f"{len(skipped)} of {len(packages)} packages, e.g. {skipped[0]}")
    return 0, f"{lock}: no known vulnerabilities in {len(packages)} packages"


def _remedy(fixed: list[str]) -> str:
    return f"lock {' or '.join(fixed)} instead" if fixed else "no version fixes it: remove the package"


def _not_audited(lock: str, why: str) -> str:
    return f"{lock}: not audited for vulnerabilities: {why}"
