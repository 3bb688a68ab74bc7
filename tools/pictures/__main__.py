"""Takes a picture of each dashboard of `dashboards/perses`, to `dashboards/pictures/UID.png`."""

import argparse
import contextlib
from pathlib import Path

from tests.support.browser import ANSWER_MILLISECONDS, browser
from tools.dashboards.files import BOARDS
from tools.pictures.perses_page import ROOT, PersesPage, Source, dashboard
from tools.pictures.stamp import write


def main() -> None:
    """Show the dashboards with the data of the given Prometheus and write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prometheus", help="URL, such as http://localhost:9090")
    parser.add_argument("--length", default="15m", metavar="DURATION", help="of the range (default: 15m)")
    parser.add_argument("--scrape-interval", default="15s", metavar="DURATION", help="of Prometheus (default: 15s)")
    parser.add_argument("--uid", action="append", help="only this dashboard; may be given again")
    parser.add_argument(
        "--choose", action="append", default=[], metavar="NAME=VALUE", help="value of a variable, as cluster=prod-eu"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dashboards/pictures", metavar="FOLDER")
    arguments = parser.parse_args()

    source = Source(arguments.prometheus, arguments.scrape_interval, arguments.length)
    selected = dict(choice.split("=", 1) for choice in arguments.choose)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with browser() as started, contextlib.closing(started.new_context()) as context:
        context.set_default_timeout(ANSWER_MILLISECONDS)
        page = PersesPage(context.new_page(), source)
        for uid in arguments.uid or [board.uid for board in BOARDS]:
            spec, path = dashboard(uid), arguments.out / f"{uid}.png"
            page.open(spec, selected)
            write(page.picture(), spec, path)
            print(path)


main()
