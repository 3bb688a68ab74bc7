"""Draws each dashboard of `dashboards/` to `dashboards/pictures/UID.png`."""

import argparse
import json
import time
from pathlib import Path

from tools.pictures.draw import draw
from tools.pictures.prometheus import Prometheus, Range

FOLDER = Path(__file__).parents[2] / "dashboards"
POINTS = 150
COLOURS = 128  # of the palette: enough for lines, and halves the file size


def main() -> None:
    """Query the given Prometheus and write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prometheus", help="URL, such as http://localhost:9090")
    parser.add_argument("--minutes", type=float, default=15.0, help="length of the range (default: 15)")
    parser.add_argument(
        "--scrape-interval", type=float, default=15.0, metavar="SECONDS", help="of Prometheus (default: 15)"
    )
    parser.add_argument("--uid", action="append", help="only this dashboard; may be given again")
    parser.add_argument(
        "--choose",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="value of a variable, such as cluster=prod-eu",
    )
    parser.add_argument("--out", type=Path, default=FOLDER / "pictures", metavar="FOLDER")
    arguments = parser.parse_args()

    step = max(arguments.minutes * 60 / POINTS, arguments.scrape_interval)
    rate_interval = max(step + arguments.scrape_interval, 4 * arguments.scrape_interval)  # the formula of Grafana
    end = time.time() // step * step
    span = Range(end - round(arguments.minutes * 60 / step) * step, end, step)
    selected = dict(choice.split("=", 1) for choice in arguments.choose)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for file in sorted(FOLDER.glob("*.json")):
        if arguments.uid is None or file.stem in arguments.uid:
            dashboard = json.loads(file.read_text())
            picture = draw(dashboard, Prometheus(arguments.prometheus), span, rate_interval, selected)
            path = arguments.out / f"{file.stem}.png"
            picture.savefig(path, facecolor=picture.get_facecolor())
            _shrink(path)
            print(path)


def _shrink(path: Path) -> None:
    from PIL import Image  # noqa: PLC0415 - comes with matplotlib

    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(COLOURS)
    small.save(path, optimize=True)


main()
