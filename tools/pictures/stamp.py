"""The stamp of a picture: a hash of the panel titles of its dashboard, in a text chunk of the PNG file."""

import hashlib
import io
from pathlib import Path
from typing import Any

from PIL import Image, PngImagePlugin

KEY = "panel-titles"
COLOURS = 128  # of the palette: enough for lines, and halves the size of the file


def titles_hash(spec: dict[str, Any]) -> str:
    """Return the hash of the panel titles of a dashboard for Perses, in their order."""
    titles = [panel["spec"]["display"]["name"] for panel in spec["panels"].values()]
    return hashlib.sha256("\n".join(titles).encode()).hexdigest()


def write(png: bytes, spec: dict[str, Any], path: Path) -> None:
    """Write a picture of a dashboard with its stamp, in few colours."""
    info = PngImagePlugin.PngInfo()
    info.add_text(KEY, titles_hash(spec))
    with Image.open(io.BytesIO(png)) as picture:
        picture.convert("RGB").quantize(COLOURS).save(path, optimize=True, pnginfo=info)


def read(path: Path) -> str | None:
    """Return the stamp of a picture, or None if it has none."""
    with Image.open(path) as picture:
        stamp = picture.info.get(KEY)
    return stamp if isinstance(stamp, str) else None
