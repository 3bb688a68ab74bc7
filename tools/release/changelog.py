"""What CHANGELOG.md says of a version: its date and its notes."""

import re
from dataclasses import dataclass
from datetime import date

from tools.release.errors import ReleaseError

HEADING = re.compile(r"^## \[(?P<version>[^]]+)\](?P<rest>.*)$", re.MULTILINE)
UNRELEASED = "Unreleased"


@dataclass(frozen=True, slots=True)
class Section:
    """The section of one version: the rest of its heading, and the text below it."""

    after_version: str
    text: str


def notes(changelog: str, version: str) -> str:
    """Return the notes of a version; raises ReleaseError if it has no dated section with entries."""
    found = _sections(changelog).get(version)
    if found is None:
        raise ReleaseError(f"CHANGELOG.md has no section `## [{version}] - YYYY-MM-DD`: rename [{UNRELEASED}] to it")
    day = found.after_version.removeprefix(" - ")
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", day) or not _is_date(day):
        raise ReleaseError(f"the section [{version}] of CHANGELOG.md has no date: write `## [{version}] - YYYY-MM-DD`")
    if not found.text:
        raise ReleaseError(f"the section [{version}] of CHANGELOG.md is empty: write what users notice")
    return found.text


def refuse_unreleased(changelog: str) -> None:
    """Raise ReleaseError if there are entries that no version has."""
    found = _sections(changelog).get(UNRELEASED)
    if found is not None and found.text:
        raise ReleaseError(f"CHANGELOG.md has entries under [{UNRELEASED}]: move them to the section of the version")


def _sections(changelog: str) -> dict[str, Section]:
    """Return the sections by version; raises ReleaseError if a version has two."""
    found: dict[str, Section] = {}
    headings = [*HEADING.finditer(changelog)]
    ends = [*(heading.start() for heading in headings[1:]), len(changelog)]
    for heading, end in zip(headings, ends, strict=True):
        if heading["version"] in found:
            raise ReleaseError(f"CHANGELOG.md has two sections [{heading['version']}]: join them")
        found[heading["version"]] = Section(heading["rest"].rstrip(), changelog[heading.end() : end].strip())
    return found


def _is_date(day: str) -> bool:
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return True
