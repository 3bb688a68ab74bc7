"""100 watches over TLS: memory after bursts with a kubeconfig and in a pod, requests, CPU and scrapes."""

import time
from statistics import median

from benchmarks.measure import (
    Server,
    cpu_seconds,
    figure,
    in_pod,
    memory,
    serving,
    until_evaluated,
    with_kubeconfig,
)
from tests.support.daemon import Daemon, Scrape

WATCHES = [{"resource": "pods", "name": f"w{number}", "representation": "table"} for number in range(100)]
BURSTS = (100, 5_000)  # events at once, for each watch
IDLE_SECONDS = 10.0
SCRAPES = 15
SCRAPE_GAP_SECONDS = 1.1  # so that each scrape gets a new snapshot


def hundred_watches() -> None:
    print(f"\n{len(WATCHES)} watches over TLS")
    with serving("benchmarks.replay") as server, with_kubeconfig(server.kubeconfig, WATCHES) as daemon:
        _measure_memory(daemon, server, "with a kubeconfig", "<= 200")
        _idle(daemon)
        _scrape(daemon)
    with serving("benchmarks.replay") as server, in_pod(server, WATCHES) as daemon:
        _measure_memory(daemon, server, "in a pod", "<= 165")


def _measure_memory(daemon: Daemon, server: Server, where: str, goal: str) -> None:
    figure(f"memory {where}, at the start", memory(daemon), "MiB")
    done = 0
    for burst in BURSTS:
        server.post(f"/burst/{burst}")
        done += burst * len(WATCHES)
        until_evaluated(daemon, done)
        figure(f"memory {where}, after {burst:,} events each", memory(daemon), "MiB", goal)


def _idle(daemon: Daemon) -> None:
    requests, spent = daemon.scrape().total("watchslo_api_requests_total"), cpu_seconds(daemon.process)
    time.sleep(IDLE_SECONDS)
    spent = cpu_seconds(daemon.process) - spent
    requests = daemon.scrape().total("watchslo_api_requests_total") - requests
    figure("requests, idle", requests / IDLE_SECONDS, "per second", "about 2")
    figure("CPU, idle", 100 * spent / IDLE_SECONDS, "% of a core")


def _scrape(daemon: Daemon) -> None:
    before, took = daemon.scrape(), []
    for _ in range(SCRAPES):
        time.sleep(SCRAPE_GAP_SECONDS)
        began = time.monotonic()
        _, text = daemon.get("/metrics")
        took.append(time.monotonic() - began)
    after = Scrape(text)
    series = sum(not line.startswith("#") for line in text.splitlines())
    figure(f"a scrape of {series:,} series", 1000 * median(took), "ms", "<= 50")
    beats = _beats(after) - _beats(before)
    prompt = _beats(after, le="0.005") - _beats(before, le="0.005")
    figure("  heartbeats less than 5 ms late during scrapes", 100 * prompt / beats, "%", ">= 99")


def _beats(scrape: Scrape, le: str = "+Inf") -> float:
    return scrape.value("watchslo_loop_lag_seconds_bucket", le=le)
