"""Clusters that fail or send nonsense: the request limit holds, and no nonsense becomes a number."""

import contextlib
import json
import time
import urllib.request
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.background import Background
from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import (
    LENIENT_OBJECTIVE,
    LOOK_SECONDS,
    Daemon,
    Proxy,
    Scrape,
    Simulator,
    config_file,
)
from tests.support.process import eventually

RATE = 8.0  # limits.requestsPerSecond
RESUMES = 4.0  # limits.resumesPerSecond
WINDOWS_SECONDS = (1.0, 2.5, 5.0)
ON_THE_WAY_SECONDS = 0.5  # by which requests differ: a new connection, a busy core
FAULT_SECONDS = 3.0
WORSE_SECONDS = 14.0  # to reach the longest backoff
LATTER_SECONDS = 6.0  # of that
TICKS_A_SECOND = 2.0
REST_SECONDS = 5.0  # ten ticks would fit

WATCHES = (
    "pods",
    "nodes",
    "services",
    "configmaps",
    "deployments.apps",
    "replicasets.apps",
    "jobs.batch",
    "leases.coordination.k8s.io",
    "endpointslices.discovery.k8s.io",
    "namespaces",
)
IN_CLUSTER = (
    "overloaded",
    "busy",
    "cut",
    "expired",
    "gone",
    "garbage",
    "odd-revision",
    "html",
    "empty-watch",
    "unreachable",
)
ON_THE_WAY = ("long-line", "reset", "fin", "truncated", "corrupted", "captive-portal")


class Lag(Background):
    """Measures the longest delay of the simulator and the proxy, which also delays the requests of the daemon."""

    def __init__(self, *urls: str) -> None:
        super().__init__()
        self._urls = urls
        self._rounds: list[tuple[float, float]] = []

    def since(self, moment: float) -> float:
        """Return the longest delay, in seconds, that ended since `moment`."""
        return max((end - begin for begin, end in self._rounds if end > moment), default=0.0)

    def _run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            began = time.monotonic()
            for url in self._urls:
                urllib.request.urlopen(url, timeout=60).close()
            self._rounds.append((began, time.monotonic()))


class Cluster:
    """A simulated cluster behind a proxy, and a daemon with a request limit."""

    def __init__(self, simulator: Simulator, link: Proxy, daemon: Daemon, config: Path, lag: Lag) -> None:
        self.lag = lag
        self.simulator = simulator
        self.link = link
        self.daemon = daemon
        self._config = config

    def arrivals(self, since: float = 0.0) -> list[float]:
        """Return when requests reached the cluster, in monotonic seconds."""
        url = f"{self.simulator.announced['control']}/arrivals?since={since}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            found: list[float] = json.load(answer)["at"]
            return found

    def excess(self, since: float = 0.0) -> list[str]:
        """Return the windows with more requests than the bound in `watchslo.kube.limiter` allows."""
        arrivals, on_the_way = self.arrivals(since), ON_THE_WAY_SECONDS + self.lag.since(since)
        assert arrivals
        found = []
        for seconds in WINDOWS_SECONDS:
            most = 2 + (RATE + RESUMES) * (seconds + on_the_way)
            count = max(bisect_right(arrivals, at + seconds) - index for index, at in enumerate(arrivals))
            if count > most:
                found.append(f"{count} requests in {seconds} s, of which {most:g} were due")
        return found

    def until_asked(self, since: float) -> None:
        """Wait for a request after `since`."""
        eventually(lambda: bool(self.arrivals(since)), "something is asked", LOOK_SECONDS)

    def break_it(self, fault: str, *, on: bool) -> None:
        self.simulator.control({"name": fault, "on": on}, "/faults")

    def configure(self, **keys: Any) -> None:
        """Write a new configuration; the daemon reads it within seconds."""
        config_file(self._config.parent, **configuration(**keys))

    def connections(self) -> int:
        """Return the number of connections of the daemon, as the kernel lists them.

        Those between the proxy and the simulator are left out: after a reset the proxy may keep one.
        """
        port = int(self.link.url.rpartition(":")[2])
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        states = [line.split()[3] for line in lines if line.split()[2].endswith(f":{port:04X}")]
        return sum(state == "01" for state in states)

    def until_well(self) -> None:
        self.daemon.process.until(
            lambda: all(stream["up"] for stream in self.daemon.streams().values()),
            "all is well",
            LOOK_SECONDS,
        )


def configuration(**keys: Any) -> dict[str, Any]:
    limits = {"requestsPerSecond": RATE, "resumesPerSecond": RESUMES, "maxLine": "1Mi"}
    return {"watch": [{"resource": resource} for resource in WATCHES], "limits": limits, **keys}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("blast")
    config, kubeconfig = config_file(folder, **configuration()), folder / "kubeconfig"
    with Simulator(folder) as simulator, Proxy(folder, "link", simulator.url) as link:
        write_kubeconfig(kubeconfig, {"server": link.url}, {})
        with Daemon(folder, "--config", config, "--kubeconfig", kubeconfig) as daemon:
            daemon.until_measuring(*WATCHES)
            for resource in WATCHES:
                simulator.control({"resource": resource, "rate": 5}, "/workload")
            with Lag(f"{simulator.announced['control']}/faults", link.announced["control"]) as lag:
                yield Cluster(simulator, link, daemon, config, lag)


@contextlib.contextmanager
def switched(cluster: Cluster, fault: str) -> Iterator[None]:
    cluster.break_it(fault, on=True)
    try:
        yield
    finally:
        cluster.break_it(fault, on=False)


@pytest.mark.parametrize("fault", IN_CLUSTER)
def test_request_limit_holds_while_the_cluster_fails(cluster: Cluster, fault: str) -> None:
    began = time.monotonic()
    with switched(cluster, fault):
        time.sleep(FAULT_SECONDS)
        cluster.until_asked(began)
    time.sleep(1.0)
    assert cluster.excess(began) == []


@pytest.mark.parametrize("fault", ON_THE_WAY)
def test_request_limit_holds_while_the_link_fails(cluster: Cluster, fault: str) -> None:
    """All watches break at once and are opened again."""
    began = time.monotonic()
    with cluster.link.fault(fault):
        time.sleep(FAULT_SECONDS)
    cluster.until_asked(began)  # behind a captive portal no request arrives
    time.sleep(1.0)
    assert cluster.excess(began) == []


@pytest.mark.parametrize("fault", ["overloaded", "busy", "slow"])
def test_cluster_in_distress_gets_fewer_requests(cluster: Cluster, fault: str) -> None:
    cluster.until_well()
    with cluster.link.late("constant 6s") if fault == "slow" else switched(cluster, fault):
        time.sleep(WORSE_SECONDS)
        asked = cluster.arrivals(time.monotonic() - LATTER_SECONDS)
    print(f"{fault}: {len(asked) / LATTER_SECONDS:.2f} requests a second")
    assert len(asked) / LATTER_SECONDS <= 0.5 * TICKS_A_SECOND


def test_pause_closes_all_connections(cluster: Cluster) -> None:
    """The pause comes while all watches are being opened again."""
    cluster.until_well()
    assert cluster.connections() >= len(WATCHES)  # the connection of the ticks may be closed after a backoff
    cluster.link.switch_on("reset")
    written = time.monotonic()
    cluster.configure(paused=True)
    eventually(
        lambda: bool(cluster.daemon.log("config_reloaded")) and not cluster.connections(),
        "no connection is left",
    )
    print(f"closed {time.monotonic() - written:.1f} s after the file was written")
    # A task without a connection may still send a request, and one may be on its way through the proxy.
    cluster.daemon.process.until(lambda: not cluster.daemon.streams(), "nothing is watched")
    closed = time.monotonic()
    eventually(lambda: time.monotonic() - max(closed, *cluster.arrivals()) >= REST_SECONDS, "nothing is asked")
    settled = time.monotonic()
    time.sleep(REST_SECONDS)
    assert cluster.arrivals(settled) == []
    print(
        "SIM",
        sum(
            line.split()[3] == "01"
            for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
            if line.split()[2].endswith(f":{int(cluster.simulator.url.rpartition(':')[2]):04X}")
        ),
    )
    assert cluster.connections() == 0
    cluster.configure()
    cluster.daemon.until_measuring(*WATCHES)


def test_request_limit_held_through_all_faults(cluster: Cluster) -> None:
    arrivals = cluster.arrivals()
    print(f"{len(arrivals)} requests in {arrivals[-1] - arrivals[0]:.0f} s")
    assert cluster.excess() == []


# Invalid answers


CHANGES_A_SECOND = 20
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
BROKEN = {  # the watches that cannot continue, and why
    "leases.coordination.k8s.io": "oversize",
    "services": "garbage",
    "endpointslices.discovery.k8s.io": "empty_close",
}
UNHURT = ("pods", "nodes", "configmaps", "replicasets.apps")
CLOSES = 2
TRIES = 14  # of a watch in that time with backoff; without it there would be hundreds


class Control:
    """The control API of the simulated cluster."""

    def __init__(self, simulator: Simulator) -> None:
        self._url = simulator.announced["control"]

    def tell(self, what: str, **body: Any) -> None:
        request = urllib.request.Request(f"{self._url}/{what}", json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=30):
            pass

    def commits(self, resource: str) -> int:
        """Return the number of changes so far."""
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
    """Return how often invalid answers were counted, by watch."""
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
    """Return True if `count` events are samples or tainted."""
    samples = scrape.value("watchslo_apiserver_timespan_seconds_count", watch=watch)
    return samples + scrape.value("watchslo_unmeasured_events_total", watch=watch, reason="tainted") >= count


def requests(scrape: Scrape) -> float:
    return sum(scrape.total("watchslo_api_requests_total", kind=kind) for kind in ("list", "watch"))


def test_invalid_answers_are_counted_and_never_measured(tmp_path: Path) -> None:
    limits = {"requestsPerSecond": 200, "maxLine": "1Mi"}  # high enough to reveal a busy loop
    watches = [{"resource": resource} for resource in FAULTS]
    config = config_file(tmp_path, watch=watches, metrics="full", limits=limits, objective=LENIENT_OBJECTIVE)
    kubeconfig = tmp_path / "kubeconfig"
    with Simulator(tmp_path) as simulator:
        write_kubeconfig(kubeconfig, {"server": simulator.url}, {})
        with Daemon(tmp_path, "--config", config, "--kubeconfig", kubeconfig) as daemon:
            cluster = Control(simulator)
            daemon.until_measuring(*FAULTS)
            cluster.write(CHANGES_A_SECOND)
            calm, began, cpu = daemon.scrape(), time.monotonic(), daemon.process.cpu_seconds()

            cluster.break_everything(on=True)
            daemon.until(lambda scrape: min(nonsense(scrape).values()) >= CLOSES, "all nonsense counted twice")
            assert daemon.get("/healthz")[0] == 200
            assert requests(daemon.scrape()) - requests(calm) <= TRIES * len(FAULTS)
            assert daemon.process.cpu_seconds() - cpu < 0.8 * (time.monotonic() - began)
            assert {name for name, stream in daemon.streams().items() if stream["up"]} >= {*UNHURT}

            cluster.break_everything(on=False)
            cluster.write(0)
            daemon.process.until(
                lambda: all(stream["up"] for stream in daemon.streams().values()),
                "all is well",
                LOOK_SECONDS,
            )
            for watch in (*UNHURT, "jobs.batch"):
                daemon.until(partial(all_judged, watch=watch, count=cluster.commits(watch)), watch)
            scrape = daemon.scrape()
            for watch in FAULTS:
                assert events(scrape, watch) <= cluster.commits(watch)
                assert scrape.total("watchslo_watch_guarantee_violations_total", watch=watch) == 0
            for watch in (*UNHURT, "jobs.batch"):
                assert events(scrape, watch) == cluster.commits(watch), watch
            for watch in UNHURT:
                assert scrape.total("watchslo_watches_closed_total", watch=watch) == 0
                assert scrape.value("watchslo_slo_events_total", watch=watch, verdict="beyond") == 0
            assert daemon.log("task_crashed") == []
            assert daemon.log("library_complains") == []


def test_watch_whose_tables_are_withheld_is_measured_by_metadata(tmp_path: Path) -> None:
    """As through a proxy that passes on only rows with objects: before, the watch was proven idle."""
    config = config_file(tmp_path, watch=[{"resource": "configmaps"}])
    kubeconfig = tmp_path / "kubeconfig"
    with Simulator(tmp_path) as simulator:
        write_kubeconfig(kubeconfig, {"server": simulator.url}, {})
        simulator.control({"name": "withheld-tables"}, "/faults")
        simulator.control({"resource": "configmaps", "rate": CHANGES_A_SECOND}, "/workload")
        with Daemon(tmp_path, "--config", config, "--kubeconfig", kubeconfig) as daemon:
            daemon.until(
                lambda scrape: scrape.total("watchslo_apiserver_timespan_seconds_count", watch="configmaps") > 0,
                "an event is measured",
            )
            stream = daemon.streams()["configmaps"]
            assert stream["representation"] == "metadata"
            assert stream["stalls"] == 0
            assert len(daemon.log("tables_without_events")) == 1
            assert daemon.scrape().total("watchslo_watches_closed_total", **{"class": "server"}) == 0
