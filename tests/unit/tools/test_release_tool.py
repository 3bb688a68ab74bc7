"""What a release refuses, and archives that do not depend on when and where they were made."""

import io
import tarfile
from pathlib import Path

import pytest

from tools.release import archive
from tools.release.build import refuse_tag
from tools.release.changelog import notes, refuse_unreleased
from tools.release.checkout import Checkout
from tools.release.errors import ReleaseError

CHANGELOG = """# Changelog

## [Unreleased]

## [1.1.0] - 2026-02-28

### Added

- A thing.

## [1.0.0] - 2026-02-01

- The first.
"""


class TestChangelog:
    def test_notes_are_the_section_of_the_version(self) -> None:
        assert notes(CHANGELOG, "1.1.0") == "### Added\n\n- A thing."
        assert notes(CHANGELOG, "1.0.0") == "- The first."

    @pytest.mark.parametrize(
        ("changelog", "reason"),
        [
            (CHANGELOG.replace("[1.1.0]", "[1.2.0]"), r"has no section `## \[1\.1\.0\] - YYYY-MM-DD`"),
            (CHANGELOG.replace(" - 2026-02-28", ""), r"\[1\.1\.0\] of CHANGELOG.md has no date"),
            (CHANGELOG.replace("2026-02-28", "2026-02-30"), r"\[1\.1\.0\] of CHANGELOG.md has no date"),
            (CHANGELOG.replace("2026-02-28", "soon"), r"\[1\.1\.0\] of CHANGELOG.md has no date"),
            (CHANGELOG.replace("### Added\n\n- A thing.\n", ""), r"\[1\.1\.0\] of CHANGELOG.md is empty"),
            (f"{CHANGELOG}\n## [1.1.0] - 2026-02-28\n", r"two sections \[1\.1\.0\]"),
        ],
    )
    def test_version_without_a_dated_section_is_refused(self, changelog: str, reason: str) -> None:
        with pytest.raises(ReleaseError, match=reason):
            notes(changelog, "1.1.0")

    def test_unreleased_entries_are_refused(self) -> None:
        refuse_unreleased(CHANGELOG)
        refuse_unreleased(CHANGELOG.replace("## [Unreleased]\n", ""))
        with pytest.raises(ReleaseError, match=r"entries under \[Unreleased\]"):
            refuse_unreleased(CHANGELOG.replace("[Unreleased]\n", "[Unreleased]\n\n- Another.\n"))


class TestTag:
    @pytest.fixture
    def checkout(self, tmp_path: Path) -> Checkout:
        (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.1.0"\n')
        (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
        return Checkout(tmp_path, 0)

    def test_only_the_tag_of_the_version_is_accepted(self, checkout: Checkout) -> None:
        refuse_tag("v1.1.0", checkout, [])
        with pytest.raises(ReleaseError, match=r"^the tag v1\.2\.0 does not name the version 1\.1\.0"):
            refuse_tag("v1.2.0", checkout, [])

    def test_tag_with_uncommitted_changes_is_refused(self, checkout: Checkout) -> None:
        with pytest.raises(ReleaseError, match=r"^2 files differ from the commit"):
            refuse_tag("v1.1.0", checkout, [" M README.md", "?? new"])


def test_archive_holds_files_in_order_with_one_time_and_no_owner() -> None:
    files = {"b/run": b"#!/bin/sh\n", "a": b"text"}
    packed = archive.packed(files, 1_000_000_000, frozenset({"b/run"}))
    assert list(archive.unpacked(packed).items()) == list(files.items())
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        entries = tar.getmembers()
    assert [(one.mode, one.mtime, one.uid, one.uname) for one in entries] == [
        (0o755, 1_000_000_000, 0, ""),
        (0o644, 1_000_000_000, 0, ""),
    ]
    assert packed == archive.packed(files, 1_000_000_000, frozenset({"b/run"}))
