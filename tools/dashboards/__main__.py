"""Writes the dashboards to the folder that is named."""

import sys
from pathlib import Path

from tools.dashboards.files import files


def main(folder: Path) -> None:
    """Overwrites what is there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text)


main(Path(sys.argv[1]))
