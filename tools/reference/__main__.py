"""Writes `docs/reference/` and the drawing of the revision clock."""

from pathlib import Path

from tools.reference.pages import PAGES

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Writes each page where it belongs."""
    for name, written in PAGES.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written())
        print(path.relative_to(ROOT))


main()
