"""The page in a real browser without a daemon: what it is told, and what time it is, is ours to say."""

import base64
import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.support.browser import browser
from tests.unit.serve import readings
from watchslo.history.chronicle import Chronicle
from watchslo.history.day import MINUTES
from watchslo.serve import page as served
from watchslo.serve import update
from watchslo.serve.rendering import Document

ORIGIN = "http://watchslo.example"
OPENED = datetime(2026, 6, 1, 12, tzinfo=UTC)
SHOWN = 1500  # milliseconds: the page looks at the clock once a second
HOURS = 8 * 3600 * 1000
# Tells what a test wants it to tell, by tell(name, text).
FEED = """
window.feeds = [];
window.EventSource = class {
  constructor() { this.listeners = {}; feeds.push(this); }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  close() {}
};
window.tell = (name, data) => feeds.at(-1).listeners[name]({ data });
"""
HIDDEN = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
# How many groups of pixels of a picture are more red than green, along its upper edge.
RED_GROUPS = """async (source) => {
  const image = new Image();
  image.src = source;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 8, image.width, 1);
  const red = Array.from({ length: image.width }, (_, x) => data[4 * x] - data[4 * x + 1] > 60);
  return red.filter((is, x) => is && !red[x - 1]).length;
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


def told() -> dict[str, Any]:
    """The first update of a feed."""
    chronicle = Chronicle()
    account = chronicle.observe(readings.SNAPSHOT)
    whole: dict[str, Any] = json.loads(update.full(chronicle, account, [*update.watches(account).values()]))
    return whole


def answer(route: Route) -> None:
    """The page and what it loads, as the daemon serves them."""
    path = route.request.url.removeprefix(f"{ORIGIN}/")
    documents: dict[str, Document] = {f"page/{name}": document for name, document in served.static().items()}
    documents[""] = served.encode(Chronicle().observe(readings.SNAPSHOT))
    if document := documents.get(path):
        route.fulfill(body=document.body, headers={**document.headers, "Content-Type": document.content_type})
    else:
        route.fulfill(status=404)


@contextlib.contextmanager
def opened(chromium: Browser, width: int = 1280) -> Iterator[Page]:
    """The page, once it has been told everything."""
    with contextlib.closing(chromium.new_context(viewport={"width": width, "height": 900})) as context:
        page = context.new_page()
        page.clock.install(time=OPENED)
        page.add_init_script(FEED)
        page.route("**/*", answer)
        page.goto(ORIGIN)
        tell(page, "full")
        assert link(page).startswith("Live")
        yield page


def tell(page: Page, name: str, **changes: object) -> None:
    page.evaluate("([name, text]) => tell(name, text)", [name, json.dumps(told() | changes)])


def link(page: Page) -> str:
    return page.locator("#link").inner_text()


def test_a_laptop_that_slept_shows_nothing_old_as_live(chromium: Browser) -> None:
    with opened(chromium) as page:
        page.clock.fast_forward(HOURS)
        assert link(page).startswith("Disconnected since")
        assert page.evaluate("feeds.length") == 2, "it asks anew"
        tell(page, "full")
        assert link(page).startswith("Live")


def test_a_clock_that_was_set_back_hides_no_silence(chromium: Browser) -> None:
    with opened(chromium) as page:
        page.clock.set_system_time(OPENED - timedelta(hours=1))
        page.clock.run_for(SHOWN)
        assert link(page).startswith("Disconnected since")
        tell(page, "delta")
        page.clock.run_for(SHOWN)
        assert link(page).startswith("Live")


def test_a_tab_that_is_looked_at_again_is_live_once_it_is_told_something(chromium: Browser) -> None:
    with opened(chromium) as page:
        page.evaluate(HIDDEN, arg=True)
        page.clock.fast_forward(HOURS)
        page.evaluate(HIDDEN, arg=False)
        page.clock.run_for(SHOWN)
        assert link(page).startswith("Disconnected since")


def test_a_bad_minute_is_seen_on_a_phone(chromium: Browser) -> None:
    """Where four minutes share a pixel."""
    bad = (100, 401, 702, 1003)
    minutes = "".join("2" if place in bad else "1" for place in range(MINUTES))
    with opened(chromium, width=360) as page:
        tell(page, "delta", day={"until": OPENED.isoformat(), "minutes": minutes})
        picture = base64.b64encode(page.locator("#day").screenshot()).decode()
        assert page.evaluate(RED_GROUPS, f"data:image/png;base64,{picture}") == len(bad)
