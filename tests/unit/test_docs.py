"""The documentation holds what it says: its configurations load, and its links lead somewhere."""

import re
from pathlib import Path

import pytest

from watchslo.config import load

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("dashboards/**/*.md"),
        *ROOT.glob("deploy/**/*.md"),
        *ROOT.glob("tests/**/*.md"),
    ]
)
YAML = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def blocks() -> list[str]:
    return [block for page in PAGES for block in YAML.findall(page.read_text()) if "watch:" in block]


@pytest.mark.parametrize("block", blocks())
def test_a_configuration_that_is_shown_loads(block: str, tmp_path: Path) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_text(block)
    config, _ = load(path, {"NODE_NAME": "node", "POD_NAME": "watchslo-2"})
    assert config.watch


def test_configurations_are_shown() -> None:
    assert blocks()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []
