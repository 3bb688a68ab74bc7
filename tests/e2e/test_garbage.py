"""Servers and proxies that send nonsense: all of it is counted under its reason, and none of it becomes a number."""

import json
import time
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import LOOK_SECONDS, SAMPLE_SECONDS, Daemon, Scrape, Simulator, config_file

RATE = 20
FAULTS = {
    "pods": ["garbage"],
    "nodes": ["unknown-type"],
    "configmaps": ["odd-revision"],
    "jobs.batch": ["cut"],
    "replicasets.apps": [],
    "leases.coordination.k8s.io": ["endless-line"],
    "services": ["html", "cut"],
    "endpointslices.discovery.k8s.io": ["empty-watch", "cut"],
}
BROKEN = {  # the streams that cannot go on, and why
    "leases.coordination.k8s.io": "oversize",
    "services": "garbage",
    "endpointslices.discovery.k8s.io": "empty_close",
}
UNHURT = ("pods", "nodes", "configmaps", "replicasets.apps")
CLOSES = 2
PATIENCE_SECONDS = 90.0  # a try comes within 60 s however often it has failed, and a list 10 s later
TRIES = 14  # of a stream in so many seconds, list and watch, with a backoff; without one they would be hundreds


class Cluster:
    """The simulated cluster's control."""

    def __init__(self, simulator: Simulator) -> None:
        self._url = simulator.announced["control"]

    def tell(self, what: str, **body: Any) -> None:
        request = urllib.request.Request(f"{self._url}/{what}", json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=30):
            pass

    def commits(self, resource: str) -> int:
        """How many changes there ever were."""
        with urllib.request.urlopen(f"{self._url}/truth?resource={resource}", timeout=30) as answer:
            return len(json.load(answer)["commits"]["at"])

    def write(self, rate: float) -> None:
        for resource in FAULTS:
            self.tell("workload", resource=resource, rate=rate)

    def break_everything(self, *, on: bool) -> None:
        for resource, faults in FAULTS.items():
            for fault in faults:
                self.tell("faults", name=fault, resource=resource, on=on)


def events(scrape: Scrape, watch: str) -> float:
    return sum(
        scrape.value("watchslo_watch_events_total", watch=watch, type=kind) for kind in ("added", "modified", "deleted")
    )


def nonsense(scrape: Scrape) -> dict[str, float]:
    """How often each kind of nonsense was counted, by the watch on which it came."""
    counted = {
        watch: scrape.total("watchslo_watches_closed_total", watch=watch, reason=reason)
        for watch, reason in BROKEN.items()
    }
    for watch in ("pods", "nodes"):
        counted[watch] = scrape.value("watchslo_watch_events_total", watch=watch, type="error")
    counted["configmaps"] = scrape.value("watchslo_unmeasured_events_total", watch="configmaps", reason="unparsable")
    counted["jobs.batch"] = scrape.total("watchslo_watches_closed_total", watch="jobs.batch", **{"class": "network"})
    return counted


def all_judged(scrape: Scrape, watch: str, count: int) -> bool:
    """Whether so many events are samples, or none because this machine was busy."""
    samples = scrape.value("watchslo_apiserver_timespan_seconds_count", watch=watch)
    return samples + scrape.value("watchslo_unmeasured_events_total", watch=watch, reason="tainted") >= count


def requests(scrape: Scrape) -> float:
    return sum(scrape.total("watchslo_api_requests_total", kind=kind) for kind in ("list", "watch"))


def test_nonsense_is_counted_and_never_a_number(tmp_path: Path) -> None:
    limits = {"requestsPerSecond": 200, "maxLine": "1Mi"}  # so many that a busy loop would show
    watches = [{"resource": resource} for resource in FAULTS]
    config = config_file(tmp_path, watch=watches, metrics="full", limits=limits)
    kubeconfig = tmp_path / "kubeconfig"
    with Simulator(tmp_path) as simulator:
        write_kubeconfig(kubeconfig, {"server": simulator.url}, {})
        with Daemon(tmp_path, "--config", config, "--kubeconfig", kubeconfig) as daemon:
            cluster = Cluster(simulator)
            daemon.until_measuring(*FAULTS)
            cluster.write(RATE)
            calm, began, cpu = daemon.scrape(), time.monotonic(), daemon.process.cpu_seconds()

            cluster.break_everything(on=True)
            daemon.until(
                lambda scrape: min(nonsense(scrape).values()) >= CLOSES, PATIENCE_SECONDS, "all nonsense counted twice"
            )
            assert daemon.get("/healthz")[0] == 200
            assert requests(daemon.scrape()) - requests(calm) <= TRIES * len(FAULTS)
            assert daemon.process.cpu_seconds() - cpu < 0.8 * (time.monotonic() - began)
            assert {name for name, stream in daemon.streams().items() if stream["up"]} >= {*UNHURT}

            cluster.break_everything(on=False)
            cluster.write(0)
            daemon.process.until(
                lambda: all(stream["up"] for stream in daemon.streams().values()),
                PATIENCE_SECONDS,
                "all is well",
                LOOK_SECONDS,
            )
            for watch in (*UNHURT, "jobs.batch"):
                daemon.until(partial(all_judged, watch=watch, count=cluster.commits(watch)), SAMPLE_SECONDS, watch)
            scrape = daemon.scrape()
            for watch in FAULTS:
                assert events(scrape, watch) <= cluster.commits(watch)
                assert scrape.value("watchslo_order_violations_total", watch=watch) == 0
            for watch in (*UNHURT, "jobs.batch"):
                assert events(scrape, watch) == cluster.commits(watch), watch
            for watch in UNHURT:
                assert scrape.total("watchslo_watches_closed_total", watch=watch) == 0
                assert scrape.value("watchslo_slo_events_total", watch=watch, verdict="beyond") == 0
            assert daemon.log("task_crashed") == []
            assert daemon.log("library_complains") == []
