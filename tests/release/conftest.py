"""The files in `dist`, as `make release` has built them from the last commit just before these tests."""

from pathlib import Path

import pytest

from tools.release.checkout import Checkout, export

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def dist() -> Path:
    folder = ROOT / "dist"
    assert (folder / "SHA256SUMS").exists(), "there is no release to test in dist: run `make release`"
    return folder


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The committed files, of which the release consists."""
    return export(ROOT, tmp_path_factory.mktemp("committed") / "watchslo")
