"""`python -m tools.docs` writes `docs/reference/` and the drawing of the revision clock."""

from pathlib import Path

from tools.docs.pages import PAGES

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Write all generated pages."""
    for name, page in PAGES.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page())
        print(path.relative_to(ROOT))


main()
