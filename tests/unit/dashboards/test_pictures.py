"""The pictures of the dashboards show the panels that the dashboards have."""

import copy
import io
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

from tools.dashboards.files import BOARDS, perses_files
from tools.pictures import stamp

FOLDER = Path(__file__).parents[3] / "dashboards/pictures"


def spec(name: str) -> dict[str, Any]:
    """Return the specification of a dashboard for Perses."""
    found: dict[str, Any] = yaml.safe_load(perses_files()[f"{name}.yaml"])["spec"]["config"]
    return found


@pytest.mark.parametrize("name", [board.uid for board in BOARDS])
def test_picture_shows_the_panels_of_its_dashboard(name: str) -> None:
    remedy = f"the panels of {name} changed: run `make pictures` with a Prometheus that has data of it"
    assert stamp.read(FOLDER / f"{name}.png") == stamp.titles_hash(spec(name)), remedy


def test_written_picture_has_the_stamp_of_its_dashboard_and_of_no_other_one(tmp_path: Path) -> None:
    png, path = io.BytesIO(), tmp_path / "picture.png"
    Image.new("RGB", (8, 4), "red").save(png, "PNG")
    shown = spec("watchslo-slo")
    stamp.write(png.getvalue(), shown, path)
    with Image.open(path) as picture:
        assert (picture.size, picture.convert("RGB").getpixel((0, 0))) == ((8, 4), (255, 0, 0))
    assert stamp.read(path) == stamp.titles_hash(shown)
    renamed = copy.deepcopy(shown)
    next(iter(renamed["panels"].values()))["spec"]["display"]["name"] += " of all"
    assert stamp.read(path) != stamp.titles_hash(renamed)


def test_picture_without_stamp_has_none(tmp_path: Path) -> None:
    Image.new("RGB", (8, 4)).save(tmp_path / "picture.png")
    assert stamp.read(tmp_path / "picture.png") is None
