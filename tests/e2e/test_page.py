"""Page: what do people see in a browser, and programs by the API, when a watch is late, and what does a report say?

One daemon measures a simulated cluster for all scenarios, and a Prometheus scrapes it.
"""

import contextlib
import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.browser import Onlooker, Scheme, browser, onlooker
from tests.support.canary import CANARY, found
from tests.support.control_plane import Port, write_kubeconfig
from tests.support.daemon import LOOK_SECONDS, Daemon, Simulator, asking, config_file, watchslo
from tests.support.process import PATIENCE_SECONDS, until_equal
from tests.support.prometheus import Prometheus

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SHOWN = ("light", "dark", "phone")  # in the documentation
INCIDENT_SECONDS = 15.0  # so that the pictures show it
RATES = {"pods": 60, "configmaps": 20, "nodes": 8, "deployments.apps": 5, "endpointslices.discovery.k8s.io": 15}
RESOURCES = tuple(RATES)
LATENCY = "lognormal 6ms 0.5"
FAULT = {"name": "slow-watch", "resource": "pods", "law": "constant 2500ms"}
CAUSE = "resource_fanout"  # one resource is late after the cache, others are not
SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
HANGS_NOW_AND_THEN = """\
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "503"]  # it hangs on a slow machine, and few paths document 503
"""


@dataclass(frozen=True)
class Place:
    """A daemon that measures a simulated cluster, and a Prometheus that scrapes it."""

    simulator: Simulator
    daemon: Daemon
    prometheus: Prometheus

    def make_pods_late(self) -> None:
        self.simulator.control(FAULT, "/faults")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("page")
    with contextlib.ExitStack() as stack:
        simulator = stack.enter_context(Simulator(folder))
        create_namespace(simulator)
        for resource, rate in RATES.items():
            simulator.control({"resource": resource, "rate": rate, "namespace": CANARY}, "/workload")
        simulator.control({"client": LATENCY}, "/latency")
        daemon = stack.enter_context(started(folder / "daemon", simulator, RESOURCES))
        daemon.until_measuring(*RESOURCES)
        yield Place(simulator, daemon, stack.enter_context(Prometheus(folder / "prometheus", daemon.url)))


def create_namespace(simulator: Simulator) -> None:
    """Create a namespace whose name no report may show."""
    body = json.dumps({"metadata": {"name": CANARY}}).encode()
    request = urllib.request.Request(f"{simulator.url}/api/v1/namespaces", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS):
        pass


@contextlib.contextmanager
def started(folder: Path, simulator: Simulator, resources: tuple[str, ...], port: int = 0) -> Iterator[Daemon]:
    folder.mkdir()
    write_kubeconfig(folder / "kubeconfig", {"server": simulator.url}, {})
    config = config_file(
        folder,
        cluster="simulated",
        watch=[{"resource": resource} for resource in resources],
        kubernetes={"kubeconfig": str(folder / "kubeconfig")},
    )
    with Daemon(folder, "--config", config, "--listen", f"127.0.0.1:{port}") as daemon:
        yield daemon


# The page of a daemon


def names(looking: Onlooker) -> list[str]:
    """Return the watches in the table, from the top."""
    shown = looking.page.locator("#watches tbody tr:visible th")
    return [text.strip() for text in shown.all_inner_texts()]


def picture(looking: Onlooker, name: str, request: pytest.FixtureRequest, folder: Path) -> None:
    to = PICTURES if request.config.getoption("--golden") and name in SHOWN else folder
    looking.page.screenshot(path=to / f"page-{name}.png")
    assert (to / f"page-{name}.png").stat().st_size > 10_000


def test_page_shows_an_incident(
    place: Place, chromium: Browser, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A watch becomes late in the headline, the table and the list of events."""
    daemon = place.daemon
    with onlooker(chromium, daemon.url) as looking:
        looking.until_live()
        looking.until(f"document.querySelectorAll('#watches tbody tr').length === {len(RESOURCES)}")
        place.make_pods_late()
        looking.until_headline("pods: late since")
        figures = r"P99 ~?[\d.]+ s \(bounds [\d.]+( m?s)? to .+ s\), threshold 1 s, [\d,]+ events"
        looking.until_text("#figures", figures)
        looking.until("document.querySelector('#watches tbody tr').className.includes('bad')")
        assert names(looking)[0] == "pods"
        assert "pods: late" in looking.text("#happened")
        row = "document.getElementById('charts').clientWidth"
        looking.until(f"document.querySelector('#charts .bad .u-wrap')?.clientWidth > 0.9 * {row}")
        if request.config.getoption("--golden"):
            time.sleep(INCIDENT_SECONDS)
        picture(looking, "light", request, tmp_path)
        sorts_and_filters(looking)
        opens_the_details(looking)  # while the cause is active
        assert looking.barriers() == []
        is_accessible_at_all_sizes(chromium, daemon, request, tmp_path)
        assert looking.elsewhere(daemon.url) == []
        assert looking.complaints == []


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
    assert "pods" in names(looking)
    page.get_by_label("Unhealthy only").uncheck()
    assert set(names(looking)) == set(RESOURCES)


def opens_the_details(looking: Onlooker) -> None:
    """Open a watch with the keyboard, read it in another tab by its address, and close it."""
    page = looking.page
    page.locator("#watches tbody").get_by_role("link", name="pods").focus()
    page.keyboard.press("Enter")
    looking.until("document.querySelectorAll('#detail dd').length > 20")
    looking.until("document.querySelectorAll('#detail canvas').length === 1")
    looking.until_text("#detail-title", "^pods: late since ")
    looking.until_text("#detail-text", "this is proven")
    looking.until_text("#detail-causes", "Likely cause [^]+pods")
    assert "pods: late" in looking.text("#detail-happened")
    assert page.url.endswith("/#watch=pods%40service")
    assert looking.barriers() == []
    page.reload()
    looking.until("document.getElementById('detail').open")
    page.keyboard.press("Escape")
    looking.until("!document.getElementById('detail').open && !location.hash")


def is_accessible_at_all_sizes(chromium: Browser, daemon: Daemon, request: pytest.FixtureRequest, folder: Path) -> None:
    looks: tuple[tuple[str, Scheme, int, int], ...] = (
        ("dark", "dark", 1280, 900),
        ("phone", "light", 360, 1200),
        ("wall", "dark", 3840, 2160),
    )
    for name, scheme, width, height in looks:
        with onlooker(chromium, daemon.url, scheme, width, height) as other:
            other.until_live()
            other.until("document.querySelectorAll('#charts canvas').length === 5")
            assert other.barriers() == [], name
            overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert other.page.evaluate(overflow) <= 0, f"{name}: scrolls sideways"
            captions = "[...document.querySelectorAll('#charts figcaption > *')]"
            cut_off = other.page.evaluate(f"{captions}.filter((one) => one.scrollWidth > one.clientWidth).length")
            assert cut_off == 0, f"{name}: cuts off a caption"
            picture(other, name, request, folder)
            assert other.complaints == []


def test_page_reports_a_lost_daemon_and_reconnects(place: Place, chromium: Browser, tmp_path: Path) -> None:
    port = Port()
    with contextlib.ExitStack() as stack:
        stack.callback(port.release)
        with started(tmp_path / "first", place.simulator, ("pods", "nodes"), port.number) as daemon:
            looking = stack.enter_context(onlooker(chromium, daemon.url))
            looking.until_live()
            until_equal(lambda: sorted(names(looking)), ["nodes", "pods"], "all watches are shown")
            with onlooker(chromium, daemon.url, scripts=False) as other:
                assert sorted(names(other)) == ["nodes", "pods"]
                assert other.page.locator("#headline").is_visible()
                assert not other.page.get_by_label("Filter").is_visible()
            daemon.process.kill()
            looking.until("document.getElementById('link').textContent.startsWith('Disconnected since')")
            assert "stale" in looking.text("#link")
            assert looking.barriers() == []
        again = stack.enter_context(started(tmp_path / "second", place.simulator, ("pods",), port.number))
        looking.until_live()
        looking.until("document.querySelectorAll('#watches tbody tr').length === 1")
        assert again.stop() == 0, "an open page does not delay its end"
        assert looking.complaints == []


# The API


def test_answers_match_the_openapi_document_for_fuzzed_requests(place: Place, tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(HANGS_NOW_AND_THEN)
    done = subprocess.run(
        [
            SCHEMATHESIS,
            "run",
            f"{place.daemon.url}/openapi.json",
            "--exclude-path=/api/v1/events",  # it never ends; the page reads it
            "--checks=all",
            "--phases=examples,coverage,fuzzing",
            "--max-examples=20",
            "--seed=1",  # the same requests in each run
            "--suppress-health-check=too_slow",  # the machine may be slow
            f"--request-timeout={PATIENCE_SECONDS}",
            f"--max-response-time={PATIENCE_SECONDS}",  # 10 s by itself
            "--no-color",
        ],
        cwd=tmp_path,  # for its configuration and its findings
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# `watchslo report`


LATE = re.compile(  # it may have an end, and a slow machine may close the watch as well
    r"\bpods\b[^:]*: late(, stalled or down)? (since|from) \d{4}-\d\d-\d\d \d\d:\d\d UTC"
)
WHY = re.compile(r"\bresource\\_fanout\b")  # this machine may be another cause, even the likelier one


def written(*arguments: str | Path) -> str:
    """Return what a report prints."""
    done = asking("report", "--since", "30m", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert found(CANARY, done.stdout) == []
    return done.stdout


def test_report_names_lateness_and_cause(place: Place, chromium: Browser, tmp_path: Path) -> None:
    """From a daemon, from a Prometheus, in one message, and as a file in a browser."""
    place.make_pods_late()
    url, prometheus = place.daemon.url, place.prometheus

    def is_bad() -> bool:
        bad = prometheus.value('sum(watchslo_slo_windows_total{watch="pods",verdict="bad"})')
        cause = prometheus.value(f'sum(max_over_time(watchslo_cause_active{{cause="{CAUSE}"}}[10m]))')
        return (bad or 0.0) > 0.0 and (cause or 0.0) > 0.0

    place.daemon.process.until(is_bad, "a bad minute with a cause", 10 * LOOK_SECONDS)
    texts = [written(*source, "-o", "markdown") for source in ((url,), ("--prometheus", prometheus.url))]
    for text in texts:
        assert LATE.search(text), text
        assert WHY.search(text), text
        assert re.search(r"\| pods \| service \| [1-9]", text)
        assert "### pods: P99" in text
    assert "Nothing is known before" in texts[0], "the daemon has started since"
    brief = written(url, "-o", "brief")
    assert brief.startswith("✗ ")
    assert LATE.search(brief), brief
    assert len(brief) < 2000

    done = watchslo("report", "--prometheus", prometheus.url, "--job-selector", 'job="other"')
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("come from the job watchslo: pass --job-selector 'job=\"watchslo\"'\n")

    file = tmp_path / "incident.html"
    file.write_text(written(url))
    assert found(CANARY, file.read_text()) == []
    looks: tuple[tuple[Scheme, int], ...] = (("light", 1280), ("dark", 400))
    for scheme, width in looks:
        with onlooker(chromium, file.as_uri(), scheme, width) as looking:
            assert LATE.search(looking.text("h1"))
            assert looking.page.locator(".chart svg").count() == len(RESOURCES)
            assert looking.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than the window"
            assert looking.barriers() == []
            assert looking.complaints == []
            assert looking.elsewhere(file.as_uri()) == []
