"""`python -m benchmarks --clientgo PATH`: what watchslo costs, beside client-go and kubernetes_asyncio in one run.

The figures are those of the daemon as users start it, a process of its own, read from /proc: CPU less what it takes
when idle, and resident memory. Servers and the other clients are processes of their own as well. Nothing is asserted:
machines differ; read the ratios.
"""

import json
import ssl
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tests.support.certs import Authority
from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import Daemon, config_file
from tests.support.process import Process, eventually

BURST = 20_000
BURSTS = 3
FEW = 2_000  # for a client that takes a millisecond an event
LIVE_RATE = 500
LIVE_SECONDS = 10.0
WATCHES = 100
EACH = (100, 5_000)  # events of each watch, at once
IDLE_SECONDS = 5.0
SCRAPES = 15
PATIENCE_SECONDS = 120.0
STARTS = {"requestsPerSecond": 200}  # so that a hundred watches need not be waited for


@dataclass(frozen=True, slots=True)
class Server:
    """An apiserver of sorts, over TLS, and a kubeconfig for it."""

    url: str
    kubeconfig: Path
    ca: Path

    def post(self, path: str, body: object = None) -> None:
        request = urllib.request.Request(f"{self.url}{path}", json.dumps(body).encode(), method="POST")
        context = ssl.create_default_context(cafile=str(self.ca))
        with urllib.request.urlopen(request, context=context, timeout=PATIENCE_SECONDS) as answer:
            answer.read()


@contextmanager
def serving(module: str, *arguments: str) -> Iterator[Server]:
    """Runs a server module with a certificate of its own; it prints a line with its URL."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        authority = Authority(folder / "certificates")
        pair = authority.server("server")
        command = [sys.executable, "-m", module, *arguments]
        tls = ["--tls-cert", str(pair.certificate), "--tls-key", str(pair.key)]
        with Process(folder, "server", [*command, *tls]) as process:
            process.until(lambda: "\n" in process.out, PATIENCE_SECONDS, "a URL")
            url = json.loads(process.out.splitlines()[0])["url"]
            kubeconfig = folder / "kubeconfig"
            write_kubeconfig(kubeconfig, {"server": url, "certificate-authority": str(authority.ca)}, {})
            yield Server(url, kubeconfig, authority.ca)


@contextmanager
def measuring(server: Server, watches: Sequence[Mapping[str, Any]]) -> Iterator[Daemon]:
    """Runs the daemon until all its watches are open and their revisions dated."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = config_file(folder, watch=list(watches), limits=STARTS)
        with Daemon(folder, "--config", config, "--kubeconfig", server.kubeconfig) as daemon:
            daemon.until_ready(PATIENCE_SECONDS)
            daemon.until_measuring(*(str(watch["name"]) for watch in watches), timeout=PATIENCE_SECONDS)
            yield daemon


def idle_share(daemon: Daemon) -> float:
    """The share of a core that it takes when nothing arrives."""
    before = daemon.process.cpu_seconds()
    time.sleep(IDLE_SECONDS)
    return (daemon.process.cpu_seconds() - before) / IDLE_SECONDS


def received(daemon: Daemon) -> float:
    return daemon.scrape().total("watchslo_watch_events_total")


def sealed(daemon: Daemon) -> float:
    scrape = daemon.scrape()
    return scrape.total("watchslo_apiserver_timespan_seconds_count") + scrape.total("watchslo_unmeasured_events_total")


def burst_cost(daemon: Daemon, server: Server, events: int) -> float:
    """Microseconds of CPU for each of `events` that come at once, from the socket to the evaluated slot."""
    idle, before, done = idle_share(daemon), daemon.process.cpu_seconds(), sealed(daemon)
    started = time.monotonic()
    server.post(f"/burst/{events}")
    time.sleep(IDLE_SECONDS)  # each look costs a scrape: the evaluation is every five seconds
    while sealed(daemon) < done + events:
        time.sleep(1.0)
    spent = daemon.process.cpu_seconds() - before - idle * (time.monotonic() - started)
    return spent / events * 1e6


def await_burst(daemon: Daemon, server: Server, each: int) -> None:
    """A burst on all watches, until all of it is evaluated."""
    least = sealed(daemon) + each * WATCHES
    server.post(f"/burst/{each}")
    eventually(lambda: sealed(daemon) >= least, PATIENCE_SECONDS, "all events", every=1.0)


def one(representation: str, resource: str = "pods") -> list[Mapping[str, Any]]:
    return [{"resource": resource, "name": resource, "representation": representation}]


def burst() -> None:
    """20,000 pods at once: the whole path, and kubernetes_asyncio.Watch on the same bytes."""
    print(f"\nA burst of {BURST:,} pods of 3.7 KB: CPU an event")
    with serving("benchmarks.replay") as server:
        costs = {}
        for representation in ("table", "metadata"):
            with measuring(server, one(representation)) as daemon:
                server.post(f"/burst/{FEW}")  # nothing is cold
                costs[representation] = statistics.median(burst_cost(daemon, server, BURST) for _ in range(BURSTS))
                print(f"  watchslo, {representation:<26}{costs[representation]:8.1f} us")
        command = [sys.executable, "-m", "benchmarks.reference", str(server.kubeconfig), "pods", str(FEW)]
        theirs = other(command, lambda: server.post(f"/burst/{2 * FEW}"))
        ratio = theirs / costs["table"]
        print(f"  kubernetes_asyncio.Watch              {theirs:8.1f} us, {ratio:.0f} times the table's")


def other(command: list[str], write: Callable[[], None]) -> float:
    """Microseconds an event, as another client says of itself."""
    with tempfile.TemporaryDirectory() as name, Process(Path(name), "other", command) as process:
        process.until(lambda: "watching" in process.out, PATIENCE_SECONDS, "a watch")
        write()
        process.until(lambda: "cpu_us_per_event" in process.out, PATIENCE_SECONDS, "a figure")
        return float(json.loads(process.out.splitlines()[-1])["cpu_us_per_event"])


def live(clientgo: str) -> None:
    """500 events a second, one at a time: the daemon's table watch beside client-go's metadata watch."""
    print(f"\n{LIVE_RATE} events a second, one at a time: CPU an event")
    with serving("watchslo.sim", "--seed", "1") as server, measuring(server, one("table", "configmaps")) as daemon:
        idle = idle_share(daemon)
        server.post("/sim/workload", {"resource": "configmaps", "rate": LIVE_RATE})
        time.sleep(1.0)
        count, before, started = received(daemon), daemon.process.cpu_seconds(), time.monotonic()
        time.sleep(LIVE_SECONDS)
        spent = daemon.process.cpu_seconds() - before - idle * (time.monotonic() - started)
        ours = spent / (received(daemon) - count) * 1e6
        events = str(int(LIVE_RATE * LIVE_SECONDS))
        command = [clientgo, "--kubeconfig", str(server.kubeconfig), "--resource", "configmaps", "--events", events]
        theirs = other([*command, "--live"], lambda: None)
        print(f"  watchslo, table                       {ours:8.1f} us")
        print(f"  client-go, metadata                   {theirs:8.1f} us, {theirs / ours:.1f} times ours")


def many() -> None:
    """100 watches: memory after bursts on all of them with windows full, requests, and scrapes."""
    print(f"\n{WATCHES} watches over TLS, by kubeconfig")
    watches = [{"resource": "pods", "name": f"w{number}", "representation": "table"} for number in range(WATCHES)]
    with serving("benchmarks.replay") as server, measuring(server, watches) as daemon:
        print(f"  memory at the start                   {daemon.process.resident_bytes() / 2**20:8.0f} MiB")
        for each in EACH:
            await_burst(daemon, server, each)
            print(f"  memory after {each:>5,} events each        {daemon.process.resident_bytes() / 2**20:8.0f} MiB")
        ticks = daemon.scrape().total("watchslo_api_requests_total")
        time.sleep(10.0)
        rate = (daemon.scrape().total("watchslo_api_requests_total") - ticks) / 10.0
        print(f"  requests a second, idle               {rate:8.1f}")
        print(f"  CPU, idle                             {100 * idle_share(daemon):8.1f} % of a core")
        took = []
        lag = daemon.scrape()
        for _ in range(SCRAPES):
            time.sleep(1.1)  # a snapshot of its own for each
            began = time.monotonic()
            text = daemon.scrape().text
            took.append(time.monotonic() - began)
        series = sum(not line.startswith("#") for line in text.splitlines())
        print(f"  a scrape of {series:,} series           {1000 * statistics.median(took):8.0f} ms")
        after = daemon.scrape()
        name = "watchslo_loop_lag_seconds"
        slow = after.total(f"{name}_bucket", le="0.005") - lag.total(f"{name}_bucket", le="0.005")
        beats = after.total(f"{name}_count") - lag.total(f"{name}_count")
        print(f"  loop lag under 5 ms meanwhile         {100 * slow / beats:8.1f} % of heartbeats")


@click.command()
@click.option("--clientgo", required=True, help="The program made of benchmarks/clientgo.")
def main(clientgo: str) -> None:
    burst()
    live(clientgo)
    many()


if __name__ == "__main__":
    main()
