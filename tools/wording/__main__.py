"""`python -m tools.wording [FILE ...]` prints what to reword, and exits with 1 if there is anything to reword."""

import subprocess
import sys
from pathlib import Path

from tools.wording.check import check_subject, check_text, is_checked

COMMITS_FROM = "38681019a06ad335e71c7d63fa57df264fba513a"  # the rules for subjects apply to the commits after this one


def main(names: list[str]) -> int:
    """Check the named files, or all tracked files and the commit subjects."""
    files = names or _git("ls-files", "-z").split("\0")
    paths = [path for name in files if is_checked(name) and (path := Path(name)).is_file()]
    findings = [f"{path}:{finding}" for path in paths for finding in check_text(path.read_text())]
    findings += [] if names else _subjects()
    print("\n".join([*findings, f"wording: {len(findings)} findings in {len(paths)} files"]))
    spelling = subprocess.run([sys.executable, "-m", "codespell_lib", *map(str, paths)], check=False)  # noqa: S603
    return 1 if findings or spelling.returncode else 0


def _subjects() -> list[str]:
    known = subprocess.run(["git", "cat-file", "-e", COMMITS_FROM], capture_output=True, check=False)  # noqa: S603, S607
    commits = f"{COMMITS_FROM}..HEAD" if known.returncode == 0 else "-1"  # a shallow clone has the last one only
    subjects = _git("log", "--no-merges", "--format=%s", commits).splitlines()
    return [finding for subject in subjects if (finding := check_subject(subject))]


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout  # noqa: S603, S607


sys.exit(main(sys.argv[1:]))
