"""`python -m tools.dashboards FOLDER` writes the dashboards to a folder, and those of Perses to `perses` in it."""

import sys
from pathlib import Path

from tools.dashboards.files import files, perses_files


def main(folder: Path) -> None:
    """Write all dashboards; existing files are overwritten."""
    for place, texts in ((folder, files()), (folder / "perses", perses_files())):
        place.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (place / name).write_text(text)


main(Path(sys.argv[1]))
