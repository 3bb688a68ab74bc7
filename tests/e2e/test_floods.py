"""Floods of requests: the measuring loop keeps time, probes are answered, and memory stays bounded."""

import asyncio
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support import floods
from tests.support.background import Background
from tests.support.control_plane import EVERYTHING_READABLE, MAY_SCRAPE, REVIEWS, ControlPlane
from tests.support.daemon import Daemon, Scrape, config_file
from tests.support.floods import Flood, Target
from tests.support.process import eventually
from tests.support.reader import Reader

FLOOD_SECONDS = 7.0
MOST_FLOODS = 3  # of one kind: two seconds of stall in one flood already exceed its P99
CONTROL_SECONDS = 10.0
BEAT_SECONDS = 0.05
TAINTED_SECONDS = 0.15  # an event received by a later loop is no sample
MOST_RESIDENT_BYTES = 400 * 2**20
FEWEST_TICKS = 5.0  # in a flood, at two a second, with a stall of the machine of two seconds
LAG = "watchslo_loop_lag_seconds"
FILES = 4096


class Beat(Background):
    """Measures how late this machine wakes a process that mostly sleeps, as the measuring loop does."""

    def __init__(self) -> None:
        super().__init__()
        self.lags: list[float] = []

    @property
    def p99(self) -> float:
        return sorted(self.lags)[int(0.99 * len(self.lags))]

    def _run(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            time.sleep(BEAT_SECONDS)
            self.lags.append(time.monotonic() - began - BEAT_SECONDS)


@dataclass(frozen=True, slots=True)
class Kept:
    """The lag of the measuring loop between two scrapes."""

    before: Scrape
    after: Scrape

    def rise(self, name: str, **labels: str) -> float:
        return self.after.total(name, **labels) - self.before.total(name, **labels)

    def share_within(self, le: str) -> float:
        return self.rise(f"{LAG}_bucket", le=le) / self.rise(f"{LAG}_count")

    @property
    def p99(self) -> float:
        """Interpolated as Prometheus does."""
        edges = [bucket.labels["le"] for bucket in self.after.families[LAG].samples if bucket.name == f"{LAG}_bucket"]
        lower, below = 0.0, 0.0
        for le in edges:
            share = self.share_within(le)
            if share >= 0.99:
                return lower + (float(le) - lower) * (0.99 - below) / (share - below)
            lower, below = float(le), share
        raise AssertionError("the last bucket holds all")

    def __str__(self) -> str:
        within = ", ".join(
            f"{100 * self.share_within(le):.1f}% within {float(le) * 1000:g} ms" for le in ("0.01", "0.025")
        )
        return f"{within}, P99 {self.p99 * 1000:.1f} ms"


@pytest.fixture(scope="module", autouse=True)
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, FILES)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def daemon(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("floods")
    token = control_plane.service_account("floods", EVERYTHING_READABLE, REVIEWS)
    kubeconfig = control_plane.kubeconfig("floods", {"token": token})
    file = config_file(folder, server={"authorization": "kubernetes", "limits": {"requestTimeout": "3s"}})
    with Daemon(folder, "--config", file, "--kubeconfig", kubeconfig) as daemon:
        daemon.until_ready()
        yield daemon


@pytest.fixture(scope="module")
def scraper(control_plane: ControlPlane, daemon: Daemon) -> Reader:
    reader = Reader(daemon.url, token=control_plane.service_account("floods-scraper", MAY_SCRAPE))
    eventually(lambda: reader.status("/metrics") == 200, "allowed to scrape")
    return reader


def scrape(reader: Reader) -> Scrape:
    answer = reader.ask("/metrics")
    assert answer.status == 200, answer.text
    return Scrape(answer.text)


async def under(flood: Flood, target: Target, scraper: Reader, seconds: float) -> list[float]:
    """Run a flood for some seconds; return how long probes and scrapes took, all of which must be answered."""
    flooding = asyncio.ensure_future(flood(target))
    took, ends = [], time.monotonic() + seconds
    while (began := time.monotonic()) < ends:
        for path in ("/healthz", "/metrics"):
            assert await asyncio.to_thread(scraper.status, path) == 200, path
        took.append(time.monotonic() - began)
        await asyncio.sleep(0.5)
    assert not flooding.done()
    flooding.cancel()
    await asyncio.gather(flooding, return_exceptions=True)
    return took


def kept(scraper: Reader, work: Flood, target: Target, seconds: float) -> tuple[Kept, Beat, list[float]]:
    before = scrape(scraper)
    with Beat() as beat:
        took = asyncio.run(under(work, target, scraper, seconds))
    return Kept(before, scrape(scraper)), beat, took


@pytest.fixture(scope="module")
def control(scraper: Reader) -> Kept:
    """The lag of the daemon on this machine without other requests."""

    async def quiet(_: Target) -> None:
        await asyncio.Event().wait()

    return kept(scraper, quiet, Target(scraper.address, ""), CONTROL_SECONDS)[0]


EXPECTED: dict[Flood, set[int]] = {
    floods.idle: set(),
    floods.slow: {408},
    floods.huge: {431},
    floods.scrapes: {200},
    floods.strangers: {401, 503},
}


LATE = {408}
"""The answer to a request that a busy machine sends late."""


@pytest.mark.parametrize("flood", EXPECTED, ids=lambda flood: flood.__name__)
def test_flood_does_not_delay_the_measuring_loop(daemon: Daemon, scraper: Reader, control: Kept, flood: Flood) -> None:
    lags: list[float] = []
    while not lags or (min(lags) >= TAINTED_SECONDS and len(lags) < MOST_FLOODS):
        flooded, beat = make(flood, daemon, scraper, control)
        # The flood runs on the same machine, and it and other processes take CPU time from the daemon.
        lags.append(flooded.p99 - max(beat.p99, control.p99))
    assert min(lags) < TAINTED_SECONDS


def make(flood: Flood, daemon: Daemon, scraper: Reader, control: Kept) -> tuple[Kept, Beat]:
    """Flood the daemon once; return the lag of its loop and of another process. All other claims hold each time."""
    target = Target(scraper.address, scraper.token or "")
    flooded, beat, took = kept(scraper, flood, target, FLOOD_SECONDS)
    print(
        f"\n{flood.__name__}: {flooded} (without it: {control}; another process then: P99 {beat.p99 * 1000:.1f} ms); "
        f"answers {dict(target.statuses)}, without one {target.gone}; probe and scrape within {max(took):.2f} s; "
        f"{daemon.process.resident_bytes() / 2**20:.0f} MiB"
    )
    assert EXPECTED[flood] <= set(target.statuses) <= EXPECTED[flood] | LATE
    assert flooded.rise("watchslo_clock_ticks_total", result="failed") == 0
    assert flooded.rise("watchslo_clock_ticks_total") >= FEWEST_TICKS
    assert daemon.process.resident_bytes() < MOST_RESIDENT_BYTES
    assert daemon.log("library_complains") == []
    return flooded, beat
