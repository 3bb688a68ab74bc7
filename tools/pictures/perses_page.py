"""Shows a dashboard by the components of Perses in a browser, with the data of a Prometheus.

`make tools` and `make pictures` build the page from `tools/pictures/page` into `.cache/pictures`.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode, urlsplit

import yaml
from playwright.sync_api import Page, Route

ROOT = Path(__file__).parents[2]
BUILT = ROOT / ".cache/pictures"
PROMETHEUS = "/prometheus"
HTML = """<!doctype html>
<meta charset="utf-8">
<link rel="stylesheet" href="/page.css">
<style>html, body, #root { height: 100%; margin: 0; }</style>
<div id="root"></div>
<script type="module" src="/page.js"></script>
"""
TYPES = {".css": "text/css", ".js": "text/javascript"}
WIDTH, LOADING_HEIGHT, MARGIN = 1480, 8000, 16  # pixels; Perses loads only the panels that are visible
BOTTOM = """Math.max(...[...document.querySelectorAll("[data-testid=panel]")].map(
  (panel) => panel.getBoundingClientRect().bottom))"""
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@dataclass(frozen=True, slots=True)
class Source:
    """A Prometheus: its URL, the interval of its scrapes, and the length of the range to show, which ends now."""

    url: str
    scrape_interval: str
    length: str


@dataclass(frozen=True, slots=True)
class ShownPanel:
    """A panel as Perses shows it: its title, its errors, and whether its queries returned no number."""

    title: str
    errors: tuple[str, ...]
    empty: bool


def dashboard(name: str) -> dict[str, Any]:
    """Return the specification of a dashboard in `dashboards/perses`."""
    spec: dict[str, Any] = yaml.safe_load((ROOT / f"dashboards/perses/{name}.yaml").read_text())["spec"]["config"]
    return spec


class PersesPage:
    """A page of a browser that shows one dashboard at a time.

    The page has no server: this class answers its requests, and sends those to `/prometheus` to the source.
    """

    def __init__(self, page: Page, source: Source) -> None:
        self._page, self._source = page, source
        self._origin = f"{urlsplit(source.url).scheme}://localhost"  # browsers give it the rights of a secure page
        self._dashboard = ""
        page.route("**/*", self._answer)

    def open(self, spec: Mapping[str, Any], selected: Mapping[str, str] = MappingProxyType({})) -> list[ShownPanel]:
        """Show a dashboard with these values of variables, and wait until all panels have loaded.

        Raises:
            FileNotFoundError: if the page is not built.
        """
        if not (BUILT / "page.js").exists():
            raise FileNotFoundError(
                "there is no .cache/pictures/page.js: build it with `make pictures` or `make tools`"
            )
        datasource = {"directUrl": PROMETHEUS, "scrapeInterval": self._source.scrape_interval}
        default = {"default": True, "plugin": {"kind": "PrometheusDatasource", "spec": datasource}}
        with_source = {**spec, "datasources": {"prometheus": default}}
        metadata = {"name": "watchslo", "project": "watchslo"}
        self._dashboard = json.dumps({"kind": "Dashboard", "metadata": metadata, "spec": with_source})
        variables = {f"var-{variable}": value for variable, value in selected.items()}
        query = urlencode({"start": self._source.length, "refresh": "0s", **variables})
        self._page.set_viewport_size({"width": WIDTH, "height": LOADING_HEIGHT})
        self._page.goto(f"{self._origin}/?{query}")
        found = self._page.wait_for_function("() => window.panels?.()").json_value()
        return [ShownPanel(panel["title"], tuple(panel["errors"]), panel["empty"]) for panel in found]

    def picture(self) -> bytes:
        """Return a picture of the shown dashboard, as PNG."""
        height = math.ceil(self._page.evaluate(BOTTOM)) + MARGIN
        self._page.set_viewport_size({"width": WIDTH, "height": height})
        self._page.evaluate(DRAWN)
        return self._page.screenshot()

    def _answer(self, route: Route) -> None:
        path = route.request.url.removeprefix(self._origin)
        if path.startswith(PROMETHEUS):
            route.fulfill(response=route.fetch(url=self._source.url.rstrip("/") + path.removeprefix(PROMETHEUS)))
        elif path == "/dashboard.json":
            route.fulfill(content_type="application/json", body=self._dashboard)
        elif path.startswith("/?"):
            route.fulfill(content_type="text/html", body=HTML)
        elif (file := BUILT / Path(path).name).suffix in TYPES:
            route.fulfill(content_type=TYPES[file.suffix], body=file.read_bytes())
        else:
            route.fulfill(status=404)
