"""Whatever is wrong with a cluster, we do not make it worse: the cap holds, ticks back off, and a pause is at once."""

import contextlib
import json
import time
import urllib.request
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.background import Background
from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import LOOK_SECONDS, Daemon, Proxy, Simulator, config_file
from tests.support.process import eventually
from watchslo.app.run import RELOAD_SECONDS

RATE = 8.0  # limits.requestsPerSecond
WINDOWS_SECONDS = (1.0, 2.5, 5.0)
ON_THE_WAY_SECONDS = 0.5  # that a request may take longer than another: a connection to be made, a busy core
FAULT_SECONDS = 3.0
ASKED_SECONDS = 60.0  # until something is asked: with the backoffs at their ends, ticks are 15 s apart
WELL_SECONDS = 120.0  # the same of watches: a minute, and then all are opened
WORSE_SECONDS = 14.0  # with the backoffs at their ends
LATTER_SECONDS = 6.0  # of that
TICKS_A_SECOND = 2.0
PAUSED_SECONDS = 5.0
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
pytestmark = pytest.mark.timeout(300)
ON_THE_WAY = ("long-line", "reset", "fin", "truncated", "corrupted", "captive-portal")


class Lag(Background):
    """How long the simulator and the proxy let somebody wait at worst: as much longer may a request be on its way."""

    def __init__(self, *urls: str) -> None:
        super().__init__()
        self._urls = urls
        self._rounds: list[tuple[float, float]] = []

    def since(self, moment: float) -> float:
        """The longest one, in seconds, of those that have ended since then."""
        return max((end - begin for begin, end in self._rounds if end > moment), default=0.0)

    def _run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            began = time.monotonic()
            for url in self._urls:
                urllib.request.urlopen(url, timeout=60).close()
            self._rounds.append((began, time.monotonic()))


class Cluster:
    """A simulated cluster behind a proxy, and a daemon that may ask it so much and no more."""

    def __init__(self, simulator: Simulator, link: Proxy, daemon: Daemon, config: Path, lag: Lag) -> None:
        self.lag = lag
        self.simulator = simulator
        self.link = link
        self.daemon = daemon
        self._config = config

    def arrivals(self, since: float = 0.0) -> list[float]:
        """When requests reached the cluster, in its monotonic seconds, which are ours."""
        url = f"{self.simulator.announced['control']}/arrivals?since={since}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            found: list[float] = json.load(answer)["at"]
            return found

    def excess(self, since: float = 0.0) -> list[str]:
        """Windows in which more came than may, by the bound that `watchslo.kube.limiter` states."""
        arrivals, on_the_way = self.arrivals(since), ON_THE_WAY_SECONDS + self.lag.since(since)
        assert arrivals
        found = []
        for seconds in WINDOWS_SECONDS:
            most = 1 + RATE * (seconds + on_the_way)
            count = max(bisect_right(arrivals, at + seconds) - index for index, at in enumerate(arrivals))
            if count > most:
                found.append(f"{count} requests in {seconds} s, of which {most:g} were due")
        return found

    def until_asked(self, since: float) -> None:
        """Waits until something has been asked since then."""
        eventually(lambda: bool(self.arrivals(since)), ASKED_SECONDS, "something is asked", LOOK_SECONDS)

    def break_it(self, fault: str, *, on: bool) -> None:
        self.simulator.control({"name": fault, "on": on}, "/faults")

    def configure(self, **keys: Any) -> None:
        """Writes the file anew; it is read within seconds."""
        config_file(self._config.parent, **configuration(**keys))

    def connections(self) -> int:
        """How many there are to the cluster, by the kernel."""
        port = int(self.simulator.url.rpartition(":")[2])
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        states = [line.split()[3] for line in lines if line.split()[2].endswith(f":{port:04X}")]
        return sum(state == "01" for state in states)

    def until_well(self) -> None:
        self.daemon.process.until(
            lambda: all(stream["up"] for stream in self.daemon.streams().values()),
            WELL_SECONDS,
            "all is well",
            LOOK_SECONDS,
        )


def configuration(**keys: Any) -> dict[str, Any]:
    limits = {"requestsPerSecond": RATE, "maxLine": "1Mi"}
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
def test_the_cap_holds_when_the_cluster_fails(cluster: Cluster, fault: str) -> None:
    began = time.monotonic()
    with switched(cluster, fault):
        time.sleep(FAULT_SECONDS)
        cluster.until_asked(began)
    time.sleep(1.0)
    assert cluster.excess(began) == []


@pytest.mark.parametrize("fault", ON_THE_WAY)
def test_the_cap_holds_when_the_way_there_fails(cluster: Cluster, fault: str) -> None:
    """All watches are struck at once, and open anew."""
    began = time.monotonic()
    with cluster.link.fault(fault):
        time.sleep(FAULT_SECONDS)
    cluster.until_asked(began)  # what asks through a portal reaches nobody
    time.sleep(1.0)
    assert cluster.excess(began) == []


@pytest.mark.parametrize("fault", ["overloaded", "busy", "slow"])
def test_a_cluster_in_distress_is_asked_less(cluster: Cluster, fault: str) -> None:
    cluster.until_well()
    with cluster.link.late("constant 6s") if fault == "slow" else switched(cluster, fault):
        time.sleep(WORSE_SECONDS)
        asked = cluster.arrivals(time.monotonic() - LATTER_SECONDS)
    print(f"{fault}: {len(asked) / LATTER_SECONDS:.2f} requests a second")
    assert len(asked) / LATTER_SECONDS <= 0.5 * TICKS_A_SECOND


def test_a_pause_closes_everything(cluster: Cluster) -> None:
    """Even while everything is being opened anew."""
    cluster.until_well()
    assert cluster.connections() >= len(WATCHES)  # that of the ticks may be gone: they backed off
    cluster.link.switch_on("reset")
    written = time.monotonic()
    cluster.configure(paused=True)
    eventually(
        lambda: bool(cluster.daemon.log("config_reloaded")) and not cluster.connections(),
        RELOAD_SECONDS + PAUSED_SECONDS,
        "no connection is left",
    )
    print(f"closed {time.monotonic() - written:.1f} s after the file was written")
    # What had no connection just then may be about to ask still; the figures are a second old.
    cluster.daemon.process.until(lambda: not cluster.daemon.streams(), PAUSED_SECONDS, "nothing is watched")
    closed = time.monotonic()
    time.sleep(REST_SECONDS)
    assert cluster.arrivals(closed) == []
    assert cluster.connections() == 0
    cluster.configure()
    cluster.daemon.until_measuring(*WATCHES)


def test_the_cap_held_all_the_while(cluster: Cluster) -> None:
    arrivals = cluster.arrivals()
    print(f"{len(arrivals)} requests in {arrivals[-1] - arrivals[0]:.0f} s")
    assert cluster.excess() == []
