"""`python -m tools.dashboards FOLDER` writes the dashboards to a folder."""

import sys
from pathlib import Path

from tools.dashboards.files import files


def main(folder: Path) -> None:
    """Write all dashboards; existing files are overwritten."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text)


main(Path(sys.argv[1]))
