"""What watchslo serves to programs and to people: the API with its event feed, and the page in a real browser."""

import base64
import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.support.browser import Onlooker, Scheme, browser, onlooker
from tests.support.control_plane import Port, write_kubeconfig
from tests.support.daemon import LOOK_SECONDS, WATCHSLO, Daemon, Simulator, config_file
from tests.support.onlookers import onlooking
from tests.support.process import PATIENCE_SECONDS, Process, eventually
from tests.unit.serve import readings
from watchslo.serve import page as served
from watchslo.serve import rows, update
from watchslo.serve.document import Document
from watchslo.snapshot import QuantileReading, Snapshot
from watchslo.timeline.day import MINUTES
from watchslo.timeline.timeline import Timeline

# The API


SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
FUZZED_SECONDS = 25
END_SECONDS = PATIENCE_SECONDS
WATCHES = 6
HANGS_NOW_AND_THEN = """\
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "503"]  # it hangs at idle priority, and few paths document 503
"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a demo that measures all watches."""
    process = Process(tmp_path_factory.mktemp("demo"), "demo", [WATCHSLO, "demo", "--fault", "slow-watch"])
    process.start()
    try:
        process.until(lambda: "The page: " in process.out, "listening")
        url = process.out.split("The page: ")[1].split()[0].rstrip("/")
        process.until(lambda: figures(url), "measuring")
        yield url
    finally:
        process.stop()


def figures(url: str) -> Any:
    """Return the data of a full update once each watch has a P99; a minute in which the daemon was late has none."""
    (whole,) = events(url, 1)
    watches = whole["data"]["watches"]
    return whole["data"] if len(watches) == WATCHES and all(watch["judged"] for watch in watches) else None


def events(url: str, number: int, last_id: str = "") -> list[dict[str, Any]]:
    """Return the first events of the feed, each with name, id and data."""
    request = urllib.request.Request(f"{url}/api/v1/events", headers={"Last-Event-ID": last_id} if last_id else {})
    found: list[dict[str, Any]] = []
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        fields: dict[str, Any] = {}
        for line in answer:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif "data" in fields:
                found.append(fields | {"data": json.loads(fields["data"])})
                fields = {}
                if len(found) == number:
                    break
    return found


def test_feed_resumes_after_the_last_event_id(demo: str) -> None:
    whole, then, later = events(demo, 3)
    assert (whole["event"], then["event"], later["event"]) == ("full", "delta", "delta")
    assert len(whole["data"]["watches"]) == WATCHES
    assert {watch["key"] for watch in then["data"]["watches"]} <= {watch["key"] for watch in whole["data"]["watches"]}
    (again,) = events(demo, 1, then["id"])
    assert (again["id"], again["event"], again["data"]) == (later["id"], "delta", later["data"])
    (other,) = events(demo, 1, "of another run-7")
    assert other["event"] == "full"


def test_series_of_a_watch_agree_with_the_feed(demo: str) -> None:
    whole = eventually(lambda: figures(demo), "measured", LOOK_SECONDS)
    with urllib.request.urlopen(f"{demo}/api/v1/series?resource=pods&window=10m", timeout=PATIENCE_SECONDS) as answer:
        (pods,) = json.load(answer)["watches"]
    lengths = {len(pods[name]) for name in ("at", "p50", "judged", "lower", "upper", "events")}
    assert len(lengths) == 1
    (shown,) = [watch for watch in whole["watches"] if watch["watch"] == "pods"]
    at = datetime.fromisoformat(whole["at"]).timestamp()
    off, same = min(
        (abs(when - at), one) for when, one in zip(pods["at"], pods["judged"], strict=True) if one is not None
    )
    assert off < 1
    assert same == pytest.approx(shown["judged"]["estimate"], rel=1e-3)
    assert len(pods["minutes"]) == 1440


def test_answers_match_the_openapi_document_for_fuzzed_requests(demo: str, tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(HANGS_NOW_AND_THEN)
    done = subprocess.run(
        [
            SCHEMATHESIS,
            "run",
            f"{demo}/openapi.json",
            "--exclude-path=/api/v1/events",  # it never ends; another test covers it
            "--checks=all",
            f"--max-time={FUZZED_SECONDS}",
            "--phases=examples,coverage,fuzzing",
            "--max-examples=40",
            "--seed=1",  # the same requests in each run
            "--suppress-health-check=too_slow",  # the machine may be slow
            f"--request-timeout={PATIENCE_SECONDS}",
            f"--max-response-time={PATIENCE_SECONDS}",  # 10 s by itself
            "--no-color",
        ],
        cwd=tmp_path,  # for its configuration and its findings
        capture_output=True,
        text=True,
        timeout=END_SECONDS,
        check=False,
    )
    print(done.stdout[-1500:])
    assert done.returncode == 0, done.stdout + done.stderr


# The page of a daemon


PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SHOWN = ("light", "dark", "phone")  # in the documentation
RESOURCES = ("pods", "configmaps", "nodes", "deployments.apps", "endpointslices.discovery.k8s.io")
RATES = (60, 20, 8, 5, 15)
LATENCY = "lognormal 6ms 0.5"
PAGE_BYTES = 250_000
MANY = 300
PAINT_MS = 10_000  # 600 on an idle machine
ONLOOKERS = 50
ONLOOKERS_SHARE = 0.05  # of a core, added by the clients; 0.002 on an idle machine
MEASURED_SECONDS = 10.0


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    with Simulator(tmp_path_factory.mktemp("cluster")) as started:
        for resource, rate in zip(RESOURCES, RATES, strict=True):
            started.control({"resource": resource, "rate": rate}, "/workload")
        started.control({"client": LATENCY}, "/latency")
        yield started


@contextlib.contextmanager
def daemon(folder: Path, simulator: Simulator, watch: list[dict[str, object]], port: int = 0) -> Iterator[Daemon]:
    folder.mkdir(exist_ok=True)
    kubeconfig = folder / "kubeconfig"
    write_kubeconfig(kubeconfig, {"server": simulator.url}, {})
    config = config_file(
        folder,
        cluster="simulated",
        watch=watch,
        limits={"requestsPerSecond": 500},
        kubernetes={"kubeconfig": str(kubeconfig)},
    )
    with Daemon(folder, "--config", config, "--listen", f"127.0.0.1:{port}") as started:
        yield started


def each_once() -> list[dict[str, object]]:
    return [{"resource": resource} for resource in RESOURCES]


def names(looking: Onlooker) -> list[str]:
    """Return the watches in the table, from the top."""
    rows = looking.page.locator("#watches tbody tr:visible th")
    return [text.strip() for text in rows.all_inner_texts()]


def picture(looking: Onlooker, name: str, request: pytest.FixtureRequest, folder: Path) -> None:
    to = PICTURES if request.config.getoption("--golden") and name in SHOWN else folder
    looking.page.screenshot(path=to / f"page-{name}.png")
    assert (to / f"page-{name}.png").stat().st_size > 10_000


def test_page_shows_an_incident_from_start_to_end(
    chromium: Browser, simulator: Simulator, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A watch is late in the headline, the table and the list of events; then in time again."""
    with daemon(tmp_path, simulator, each_once()) as running, onlooker(chromium, running.url) as looking:
        running.until_measuring(*RESOURCES)
        looking.until_headline("All 5 watches are within 1 s.")
        weighs_little(looking)
        takes_a_line_for_each_watch(looking)
        simulator.control({"name": "slow-watch", "resource": "pods"}, "/faults")
        looking.until_headline("pods: late since")
        figures = r"P99 ~?[\d.]+ s \(bounds [\d.]+ m?s to .+ s\), threshold 1 s, [\d,]+ events"
        looking.until_text("#figures", figures)
        assert "bad" in (looking.page.locator("#watches tr:has-text('pods')").get_attribute("class") or "")
        assert names(looking)[0] == "pods"
        assert "pods: late" in looking.text("#happened")
        if request.config.getoption("--golden"):
            time.sleep(15)  # for a visible incident in the pictures
        picture(looking, "light", request, tmp_path)
        sorts_and_filters(looking)
        opens_the_details(looking)  # while the cause is active
        simulator.control({"name": "slow-watch", "resource": "pods", "on": False}, "/faults")
        assert looking.barriers() == []
        is_accessible_at_all_sizes(chromium, running, request, tmp_path)
        looking.until_headline("All 5 watches are within 1 s.")
        assert "pods: in time again" in looking.text("#happened")
        assert looking.elsewhere(running.url) == []
        assert looking.complaints == []


def weighs_little(looking: Onlooker) -> None:
    """Assert the size of everything that was loaded, without API answers."""
    sizes = looking.page.evaluate(
        """() => Object.fromEntries(["navigation", "resource"].flatMap((type) => performance.getEntriesByType(type))
             .filter((entry) => !entry.name.includes("/api/")).map((entry) => [entry.name, entry.decodedBodySize]))"""
    )
    print(f"\nthe page weighs {sum(sizes.values()):,} bytes in {len(sizes)} files")
    assert len(sizes) > 5
    assert 0 < sum(sizes.values()) <= PAGE_BYTES


def takes_a_line_for_each_watch(looking: Onlooker) -> None:
    """Assert that no row wraps where there is room, even for the longest common name and the longest figures."""
    narrow = looking.page.viewport_size
    assert narrow is not None
    looking.page.set_viewport_size({"width": 1920, "height": 900})
    heights = looking.page.evaluate(
        "[...document.querySelectorAll('#watches tbody tr')].map((row) => row.offsetHeight)"
    )
    looking.page.set_viewport_size(narrow)
    assert max(heights) < 1.5 * min(heights), heights


def sorts_and_filters(looking: Onlooker) -> None:
    page = looking.page
    heading = page.locator("#watches th", has_text="Watch").first
    page.get_by_role("button", name="Watch", exact=True).click()
    assert names(looking) == sorted(RESOURCES)
    assert heading.get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Enter")  # the heading still has the focus
    assert names(looking) == sorted(RESOURCES, reverse=True)
    assert heading.get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="P99", exact=True).click()
    assert names(looking)[0] == "pods"
    page.get_by_label("Filter").fill("APPS")
    assert names(looking) == ["deployments.apps"]
    assert looking.text("#count") == "1 of 5"
    page.get_by_label("Filter").fill("")
    page.get_by_label("Unhealthy only").check()
    assert names(looking) == ["pods"]
    page.get_by_label("Unhealthy only").uncheck()
    assert set(names(looking)) == set(RESOURCES)


def opens_the_details(looking: Onlooker) -> None:
    """Open a watch with the keyboard, read it in another tab by its address, and close it."""
    page = looking.page
    page.locator("#watches tbody").get_by_role("link", name="pods").focus()
    page.keyboard.press("Enter")
    looking.until("document.querySelectorAll('#detail dd').length > 20")
    looking.until("document.querySelectorAll('#detail canvas').length === 1")
    assert looking.text("#detail-title").startswith("pods: late since ")
    looking.until_text("#detail-text", "this is proven")
    looking.until_text("#detail-causes", "pods")
    assert "pods: late" in looking.text("#detail-happened")
    assert page.url.endswith("/#watch=pods%40service")
    assert looking.barriers() == []
    page.reload()
    looking.until("document.getElementById('detail').open")
    page.keyboard.press("Escape")
    looking.until("!document.getElementById('detail').open && !location.hash")


def is_accessible_at_all_sizes(
    chromium: Browser, running: Daemon, request: pytest.FixtureRequest, folder: Path
) -> None:
    looks: tuple[tuple[str, Scheme, int, int], ...] = (
        ("dark", "dark", 1280, 900),
        ("phone", "light", 360, 1200),
        ("wall", "dark", 3840, 2160),
    )
    for name, scheme, width, height in looks:
        with onlooker(chromium, running.url, scheme, width, height) as other:
            other.until_live()
            other.until("document.querySelectorAll('#charts canvas').length === 5")
            assert other.barriers() == [], name
            overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert other.page.evaluate(overflow) <= 0, f"{name}: scrolls sideways"
            picture(other, name, request, folder)
            assert other.complaints == []


def test_page_reports_a_lost_daemon_and_reconnects(chromium: Browser, simulator: Simulator, tmp_path: Path) -> None:
    port = Port()
    number = port.number
    with contextlib.ExitStack() as second:
        second.callback(port.release)
        with daemon(tmp_path / "first", simulator, each_once(), number) as running:
            looking = second.enter_context(onlooker(chromium, running.url))
            looking.until_live()
            running.process.kill()
            looking.until("document.getElementById('link').textContent.startsWith('Disconnected since')")
            assert "stale" in looking.text("#link")
            assert looking.barriers() == []
        again = second.enter_context(daemon(tmp_path / "second", simulator, each_once()[:2], number))
        looking.until_live()
        looking.until("document.querySelectorAll('#watches tbody tr').length === 2")
        assert again.stop() == 0, "an open page does not delay its end"
        assert looking.complaints == []


def test_page_without_scripts_shows_verdict_and_table(chromium: Browser, simulator: Simulator, tmp_path: Path) -> None:
    with daemon(tmp_path, simulator, each_once()) as running:
        running.until_measuring("pods")
        running.until_samples("pods", 100)
        with onlooker(chromium, running.url, scripts=False) as looking:
            assert sorted(names(looking)) == sorted(RESOURCES)
            assert looking.page.locator("#headline").is_visible()
            assert not looking.page.get_by_label("Filter").is_visible()


def test_page_with_300_watches_and_50_clients_costs_no_tick(
    chromium: Browser, simulator: Simulator, tmp_path: Path
) -> None:
    """300 watches are painted at once and stay smooth; 50 clients of the feed cost little CPU and no tick."""
    watch: list[dict[str, object]] = [{"resource": "deployments.apps", "name": f"watch-{n}"} for n in range(MANY)]
    with daemon(tmp_path, simulator, watch) as running:
        running.until_measuring(*(f"watch-{n}" for n in range(MANY)))
        with onlooker(chromium, running.url) as looking:
            looking.until_live()
            painted = looking.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            looking.page.evaluate(
                """() => { window.longest = 0; new PerformanceObserver((list) => list.getEntries().forEach(
                     (entry) => { longest = Math.max(longest, entry.duration); })).observe({ type: "longtask" }); }"""
            )
            time.sleep(MEASURED_SECONDS)
            longest = looking.page.evaluate("longest")
            assert len(names(looking)) == MANY
            assert looking.complaints == []
        print(
            f"\n{MANY} watches: first paint after {painted:.0f} ms, the longest task of an update took {longest:.0f} ms"
        )
        assert painted <= PAINT_MS
        failed, alone = failed_ticks(running), busy(running)
        with onlooking(running.url, ONLOOKERS) as those:
            running.process.until(lambda: all(one.events >= 2 for one in those), "all clients got an update")
            watched = busy(running)
            last = max(one.events for one in those) + 1
            running.process.until(lambda: all(one.events >= last for one in those), "all clients got the same update")
        print(f"{ONLOOKERS} onlookers: {watched:.1%} of a core to encode and serve instead of {alone:.1%}")
        assert watched - alone <= ONLOOKERS_SHARE
        assert failed_ticks(running) == failed


def failed_ticks(running: Daemon) -> float:
    return running.scrape().total("watchslo_clock_ticks_total", result="failed")


def busy(running: Daemon) -> float:
    """Return the share of a core that the daemon uses, without its measuring thread.

    The use of that thread depends only on the watches, but varies by more than clients of the feed cost.
    """
    began, cpu = time.monotonic(), running.process.cpu_seconds_of_other_threads()
    time.sleep(MEASURED_SECONDS)
    return (running.process.cpu_seconds_of_other_threads() - cpu) / (time.monotonic() - began)


# The page without a daemon: the test sends the updates and sets the clock


ORIGIN = "http://watchslo.example"
OPENED = datetime(2026, 6, 1, 12, tzinfo=UTC)
SHOWN_MS = 1500  # milliseconds: the page looks at the clock once a second
HOURS = 8 * 3600 * 1000
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


def test_page_after_hours_of_sleep_shows_disconnected(chromium: Browser) -> None:
    with opened(chromium) as page:
        page.clock.fast_forward(HOURS)
        assert link(page).startswith("Disconnected since")
        assert page.evaluate("feeds.length") == 2, "it opens the feed again"
        tell(page, "full")
        assert link(page).startswith("Live")


def test_page_with_a_clock_set_back_shows_disconnected(chromium: Browser) -> None:
    with opened(chromium) as page:
        page.clock.set_system_time(OPENED - timedelta(hours=1))
        page.clock.run_for(SHOWN_MS)
        assert link(page).startswith("Disconnected since")
        tell(page, "delta")
        page.clock.run_for(SHOWN_MS)
        assert link(page).startswith("Live")


def test_page_in_a_hidden_tab_is_disconnected_until_the_next_update(chromium: Browser) -> None:
    with opened(chromium) as page:
        page.evaluate(HIDDEN, arg=True)
        page.clock.fast_forward(HOURS)
        page.evaluate(HIDDEN, arg=False)
        page.clock.run_for(SHOWN_MS)
        assert link(page).startswith("Disconnected since")


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
    p50 = QuantileReading(0.5, 0.0, 1.23, 2.34, resolved=True, rough=True)
    p99 = QuantileReading(0.99, 1.23, 12.3, 12.4, resolved=True, rough=True)
    p999 = QuantileReading(0.999, 1.23, 12.4, 23.4, resolved=True, rough=True)
    late = replace(worn, track=readings.judged(1_234_567, p50, p999, p99))
    stalled = readings.changed(worn, audit={"stalled_for": 1234.5})
    watches = [replace(one, watch=name) for name in names for one in (late, replace(worn, up=False), stalled)]
    places = ("10.128.130.101:6443", "10.128.130.102:6443", "10.128.130.103:6443")
    streams = tuple(replace(one, apiserver=places[number % 3]) for number, one in enumerate(watches))
    minute = readings.with_p999(readings.window("1m", 60.0, 1_234_567))
    apiservers = tuple(replace(readings.SERVICE, name=place, peers=3, combined=minute) for place in places)
    return replace(readings.SNAPSHOT, streams=streams, apiservers=apiservers)


def test_tables_fit_into_1280_pixels_in_an_incident(chromium: Browser) -> None:
    sizes = "[...document.querySelectorAll('.wide')].map((table) => [table.scrollWidth, table.clientWidth])"
    last = "document.querySelector('#watches tbody tr td:last-child').getBoundingClientRect().right"
    with opened(chromium) as page:
        tell(page, "full", first_update(incident()))
        assert page.locator("#watches tbody tr").count() == 9
        assert all(whole <= shown for whole, shown in page.evaluate(sizes)), page.evaluate(sizes)
        assert page.evaluate(last) <= 1280
        seen = page.locator("#watches thead th:visible").all_inner_texts()
        assert [text for text in seen if text in ("410s", "Bookmark age", "Last failure")] == [
            "410s", "Bookmark age", "Last failure",
        ]  # fmt: skip
    with opened(chromium, width=1920) as page:
        tell(page, "full", first_update(incident()))
        assert all(whole <= shown for whole, shown in page.evaluate(sizes)), page.evaluate(sizes)
        assert page.get_by_role("button", name="Revision lag").is_visible(), "a wider window shows more"


def test_page_on_a_phone_shows_each_bad_minute(chromium: Browser) -> None:
    """Four minutes share a pixel there."""
    bad = (100, 401, 702, 1003)
    minutes = "".join("3" if place in bad else "1" for place in range(MINUTES))
    with opened(chromium, width=360) as page:
        tell(page, "delta", day={"until": OPENED.isoformat(), "minutes": minutes})
        picture = base64.b64encode(page.locator("#day").screenshot()).decode()
        assert page.evaluate(RED_GROUPS, f"data:image/png;base64,{picture}") == len(bad)
