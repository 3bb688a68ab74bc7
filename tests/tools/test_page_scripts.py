"""The scripts and styles of the page in a browser, without a daemon: the test sends the updates and sets the clock."""

import base64
import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.support.browser import ANSWER_MILLISECONDS, Onlooker, browser
from tests.unit.serve import readings
from watchslo.model import Interval
from watchslo.serve import page as served
from watchslo.serve import rows, update
from watchslo.serve.document import Document
from watchslo.snapshot import QuantileReading, Snapshot
from watchslo.timeline.day import MINUTES
from watchslo.timeline.format import ABSENT
from watchslo.timeline.timeline import Timeline

ORIGIN = "http://watchslo.example"
OPENED = datetime(2026, 6, 1, 12, tzinfo=UTC)
SHOWN_MS = 1500  # milliseconds: the page looks at the clock once a second
HOURS = 8 * 3600 * 1000
MANY = 300
# A feed whose events are sent by the test, with tell(name, text).
FEED = """
window.feeds = [];
window.EventSource = class {
  constructor() { this.listeners = {}; feeds.push(this); }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  close() {}
};
window.tell = (name, data) => feeds.at(-1).listeners[name]({ data });
"""
# How many lines of text each row of the table of watches takes.
LINES = """[...document.querySelectorAll("#watches tbody tr")].map((row) => Math.max(...[...row.cells].map((cell) => {
  const style = getComputedStyle(cell);
  const text = document.createRange();
  text.selectNodeContents(cell);
  return Math.round(text.getBoundingClientRect().height / parseFloat(style.lineHeight));
})))"""
HIDDEN = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
# The number of groups of pixels that are more red than green along the upper edge of a picture.
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


def first_update(snapshot: Snapshot = readings.SNAPSHOT) -> dict[str, Any]:
    """Return the first update of a feed."""
    timeline = Timeline()
    account = timeline.observe(snapshot)
    whole: dict[str, Any] = json.loads(update.full(timeline, account, [*rows.watches(account).values()]))
    return whole


def answer(route: Route) -> None:
    """Serve the page and its files as the daemon does."""
    path = route.request.url.removeprefix(f"{ORIGIN}/")
    documents: dict[str, Document] = {f"page/{name}": document for name, document in served.static().items()}
    documents[""] = served.encode(Timeline().observe(readings.SNAPSHOT))
    if document := documents.get(path):
        route.fulfill(body=document.body, headers={**document.headers, "Content-Type": document.content_type})
    else:
        route.fulfill(status=404)


@contextlib.contextmanager
def opened(chromium: Browser, width: int = 1280) -> Iterator[Page]:
    """Open the page and send it a full update."""
    with contextlib.closing(chromium.new_context(viewport={"width": width, "height": 900})) as context:
        context.set_default_timeout(ANSWER_MILLISECONDS)
        page = context.new_page()
        page.clock.install(time=OPENED)
        page.add_init_script(FEED)
        page.route("**/*", answer)
        page.goto(ORIGIN)
        tell(page, "full")
        assert link(page).startswith("Live")
        yield page


def tell(page: Page, name: str, update: dict[str, Any] | None = None, **changes: object) -> None:
    page.evaluate("([name, text]) => tell(name, text)", [name, json.dumps((update or first_update()) | changes)])


def link(page: Page) -> str:
    return page.locator("#link").inner_text()


def test_page_without_updates_says_that_it_is_disconnected(chromium: Browser) -> None:
    """After hours of sleep, with a clock that is set back, and in a tab that was hidden."""
    with opened(chromium) as page:
        page.clock.fast_forward(HOURS)
        assert link(page).startswith("Disconnected since")
        assert page.evaluate("feeds.length") == 2, "it opens the feed again"
        tell(page, "full")
        assert link(page).startswith("Live")
    with opened(chromium) as page:
        page.clock.set_system_time(OPENED - timedelta(hours=1))
        page.clock.run_for(SHOWN_MS)
        assert link(page).startswith("Disconnected since")
        tell(page, "delta")
        page.clock.run_for(SHOWN_MS)
        assert link(page).startswith("Live")
    with opened(chromium) as page:
        page.evaluate(HIDDEN, arg=True)
        page.clock.fast_forward(HOURS)
        page.evaluate(HIDDEN, arg=False)
        page.clock.run_for(SHOWN_MS)
        assert link(page).startswith("Disconnected since")


def test_rows_of_controllers_and_clients_follow_the_updates_in_their_order(chromium: Browser) -> None:
    def seen(table: str, column: int) -> list[str]:
        return page.locator(f"#{table} tbody tr :nth-child({column})").all_inner_texts()

    jobs, pods, worst = readings.MANAGER.informers[2], readings.MANAGER.informers[1], Interval(900.0, 901.0)
    late_pods = replace(pods, verdict=jobs.verdict, staleness=worst)
    changed = replace(
        readings.SNAPSHOT,
        reactions=readings.SNAPSHOT.reactions[::-1],
        clients=(replace(readings.MANAGER, informers=(jobs, late_pods)),),
    )
    with opened(chromium) as page:
        assert seen("clients", 2)[:3] == ["jobs.batch", "deployments.apps", "others"]
        assert page.locator("#clients tr.bad").count() == 2
        assert Onlooker(page).barriers() == []
        tell(page, "delta", first_update(changed))
        assert seen("clients", 2) == ["pods", "jobs.batch", "others"]
        assert seen("reactions", 1) == ["deployments.apps", "pods"]
        tell(page, "delta", reactions=[], clients=[])
        assert not page.get_by_role("heading", name="Controllers").is_visible()
        assert not page.get_by_role("heading", name="Clients").is_visible()


def incident() -> Snapshot:
    """Long names at three apiservers, with large numbers in all columns."""
    names = (
        "pods",
        "endpointslices.discovery.k8s.io",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    )
    worn = readings.changed(
        readings.TAIL,
        outcomes={"closed": {("network", "reset"): 1203}},
        lists={"relists": {"expired": 1117}, "expired": {"stream": 1117}},
        received={"bookmark_age": 123.4},
    )
    p50 = QuantileReading(0.5, 0.0, 1.23, 2.34, rough=True)
    p99 = QuantileReading(0.99, 1.23, 12.3, 12.4, rough=True, probable=Interval(1.24, 12.4))
    p999 = QuantileReading(0.999, 1.23, 12.4, 23.4, rough=True)
    late = replace(worn, track=readings.judged(1_234_567, p50, p999, p99))
    stalled = readings.changed(worn, audit={"stalled_for": 1234.5})
    watches = [replace(one, watch=name) for name in names for one in (late, replace(worn, up=False), stalled)]
    places = ("10.128.130.101:6443", "10.128.130.102:6443", "10.128.130.103:6443")
    streams = tuple(replace(one, apiserver=places[number % 3]) for number, one in enumerate(watches))
    minute = readings.with_p999(readings.window("1m", 60.0, 1_234_567))
    apiservers = tuple(replace(readings.SERVICE, name=place, peers=3, combined=minute) for place in places)
    return replace(readings.SNAPSHOT, watches=streams, apiservers=apiservers)


def test_apiservers_are_columns_if_there_are_several(chromium: Browser) -> None:
    snapshot = incident()
    leases = tuple(replace(readings.TAIL, watch="leases", apiserver=one.apiserver) for one in snapshot.watches[:2])
    with opened(chromium) as page:
        tell(page, "full", first_update(replace(snapshot, watches=(*leases, *snapshot.watches))))
        headings = page.locator("#matrix thead th").all_inner_texts()
        assert headings == ["Watch", "10.128.130.101", "10.128.130.102", "10.128.130.103"]
        names = page.locator("#matrix tbody th").all_inner_texts()
        assert sorted(names) == sorted({watch.watch for watch in snapshot.watches} | {"leases"})
        assert names[-1] == "leases", "the worst come first"
        pods = page.locator("#matrix tbody tr").filter(has_text="pods").locator("td")
        assert pods.all_inner_texts() == ["~12 s", "closed", "stalled"]
        assert "bad" in (pods.first.get_attribute("class") or "")
        assert page.locator("#matrix tbody tr").last.locator("td").last.inner_text() == ABSENT, "not watched there"
        assert Onlooker(page).barriers() == []
        tell(page, "full", first_update(replace(snapshot, watches=snapshot.watches[:1])))
        assert not page.locator("#matrix").is_visible()


def test_page_fits_with_long_names_many_watches_and_on_a_phone(chromium: Browser) -> None:
    sizes = "[...document.querySelectorAll('.wide')].map((table) => [table.scrollWidth, table.clientWidth])"
    last = "document.querySelector('#watches tbody tr td:last-child').getBoundingClientRect().right"
    with opened(chromium) as page:
        tell(page, "full", first_update(incident()))
        assert page.locator("#watches tbody tr").count() == 9
        assert all(whole <= shown for whole, shown in page.evaluate(sizes)), page.evaluate(sizes)
        assert page.evaluate(last) <= 1280
        seen = page.locator("#watches thead th:visible").all_inner_texts()
        assert {"410s", "Bookmark age", "Last failure"} <= {*seen}
    with opened(chromium, width=1920) as page:
        tell(page, "full", first_update(incident()))
        assert all(whole <= shown for whole, shown in page.evaluate(sizes)), page.evaluate(sizes)
        assert page.get_by_role("button", name="Revision lag").is_visible(), "a wider window shows more"
        assert max(page.evaluate(LINES)) <= 2, page.evaluate(LINES)
        tell(page, "full", first_update(readings.many(MANY)))
        assert page.locator("#watches tbody tr").count() == MANY
    with opened(chromium, width=360) as page:
        bad = (100, 401, 702, 1003)  # four minutes share a pixel there
        minutes = "".join("3" if place in bad else "1" for place in range(MINUTES))
        tell(page, "delta", day={"until": OPENED.isoformat(), "minutes": minutes})
        picture = base64.b64encode(page.locator("#day").screenshot()).decode()
        assert page.evaluate(RED_GROUPS, f"data:image/png;base64,{picture}") == len(bad)
