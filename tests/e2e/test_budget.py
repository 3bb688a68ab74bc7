"""What does watchslo cost my cluster, and what can others cost watchslo? Requests, a failing cluster, and floods."""

import asyncio
import json
import resource
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from string import Template
from typing import Any

import pytest
import yaml

from tests.support import floods
from tests.support.assets import Assets
from tests.support.audit import AuditLog
from tests.support.control_plane import (
    EVERYTHING_READABLE,
    MAY_SCRAPE,
    REVIEWS,
    ControlPlane,
    Etcd,
    write_kubeconfig,
)
from tests.support.daemon import LOOK_SECONDS, Daemon, Proxy, Scrape, Simulator, config_file
from tests.support.daemonset import CONTROL_PLANE, PROFILES
from tests.support.floods import Flood, Target
from tests.support.process import eventually
from tests.support.reader import Reader
from tests.support.writer import pod

# What a healthy apiserver counts

PODS = "/api/v1/namespaces/default/pods"
NODE = "node-1"
OBJECTS = 20
TICKS = 1  # the profile `node` sends two a minute
IN_FLIGHT = 3  # requests that the pause broke off: the apiserver had answered them
FETCHED = ("apiserver_cache_list_fetched_objects_total", "apiserver_storage_list_fetched_objects_total")
READ = "etcd_request_duration_seconds_count"
MOST_GOAWAYS = 0.02  # the highest chance that is allowed
REQUESTS = 500  # if each were refused with that chance, all would pass once in 24,000 times


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> AuditLog:
    return AuditLog(tmp_path_factory.mktemp("audit"))


@pytest.fixture(scope="module")
def plane(assets: Assets, audit_log: AuditLog, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that writes down what the daemons ask, and moves clients by GOAWAY; it has pods of two nodes."""
    folder = tmp_path_factory.mktemp("budget")
    flags = [*audit_log.flags, f"--goaway-chance={MOST_GOAWAYS}"]
    with Etcd(folder, assets.etcd) as etcd, ControlPlane(folder, assets.kube_apiserver, etcd, flags=flags) as plane:
        with plane.writer() as writer:
            for number in range(OBJECTS):
                one = pod(f"pod-{number}")
                writer.create(PODS, one | {"spec": one["spec"] | {"nodeName": f"node-{1 + number % 2}"}})
        yield plane


def logged(audit_log: AuditLog, account: str) -> int:
    """Return how many requests of an account the apiserver has begun to answer."""
    return len({entry["auditID"] for entry in audit_log.entries(account)})


def answered(daemon: Daemon) -> float:
    """Return how many answers the daemon counts; requests without one have a reason in place of a code."""
    family = daemon.scrape().families["watchslo_api_requests"]
    return sum(one.value for one in family.samples if one.name.endswith("_total") and one.labels["code"].isdigit())


def metrics(plane: ControlPlane) -> Scrape:
    """Return what the apiserver publishes, by a new connection: on a slow machine, an idle one may be closed."""
    with plane.writer() as writer:
        return Scrape(writer.text("/metrics"))


def fetched(plane: ControlPlane) -> float:
    """Return how many pods and events the apiserver has fetched for lists, from its caches and from etcd."""
    counted = metrics(plane)
    return sum(counted.total(name, resource=resource) for name in FETCHED for resource in ("pods", "events"))


def reads_of_etcd(plane: ControlPlane) -> float:
    """Return how many lists of events the apiserver has requested from etcd."""
    return metrics(plane).total(READ, operation="list", type="/events/")


def ticked(scrape: Scrape) -> float:
    """Return how many ticks were answered; the others may not have reached the apiserver."""
    return sum(scrape.total("watchslo_clock_ticks_total", result=result) for result in ("ok", "slow"))


@pytest.mark.parametrize("profile", ["node", CONTROL_PLANE])
def test_apiserver_counts_what_the_daemon_says_and_reads_no_object(
    plane: ControlPlane, audit_log: AuditLog, tmp_path: Path, profile: str
) -> None:
    text = Template((PROFILES / profile / "watchslo.yaml").read_text()).substitute(NODE_NAME=NODE, HOST_IP="127.0.0.1")
    config = yaml.safe_load(text)
    config |= {"startDelay": "1s"} if "startDelay" in config else {"kubernetes": {"apiservers": [plane.url]}}
    kubeconfig = plane.kubeconfig(profile, {"token": plane.service_account(profile, EVERYTHING_READABLE)})
    objects, reads = fetched(plane), reads_of_etcd(plane)
    with Daemon(tmp_path, "--config", config_file(tmp_path, **config), "--kubeconfig", kubeconfig) as daemon:
        daemon.until(lambda scrape: ticked(scrape) >= TICKS, "ticks")
        daemon.until(lambda scrape: min(scrape.values("watchslo_watch_up")) == 1.0, "all watches")
        assert daemon.scrape().total("watchslo_watches_closed_total", **{"class": "network"}) == 0
        config_file(tmp_path, **config, paused=True)
        eventually(lambda: "paused" in daemon.get("/readyz")[1], "a pause")

        def agree() -> bool:
            return 0 <= logged(audit_log, profile) - answered(daemon) <= IN_FLIGHT

        eventually(agree, "the same number of requests")
        ticks = ticked(daemon.scrape())
        assert fetched(plane) == objects
        # A request that the daemon gave up may have been read from etcd.
        assert ticks <= reads_of_etcd(plane) - reads <= logged(audit_log, profile)


def test_apiserver_moves_no_client_that_speaks_http_1(plane: ControlPlane) -> None:
    """As watchslo does."""
    assert goaways(plane, "--http2") > 0
    assert goaways(plane, "--http1.1") == 0


def goaways(plane: ControlPlane, version: str) -> int:
    """Return how many more connections curl needed than one for all its requests."""
    options = ["--silent", "--cacert", str(plane.ca), "--header", f"Authorization: Bearer {plane.token}"]
    options += ["--output", "/dev/null", "--write-out", "%{num_connects} %{http_code}\n"]
    url = f"{plane.url}/api/v1/namespaces/default/configmaps?limit=1&number=[1-{REQUESTS}]"
    done = subprocess.run(["curl", version, *options, url], capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [code for _, code in rows] == ["200"] * REQUESTS
    return sum(int(connects) for connects, _ in rows) - 1


# A cluster that fails

RATE, RESUMES = 8.0, 2.0  # limits.requestsPerSecond, limits.resumesPerSecond
BURST = 2
WATCHES = [{"resource": "configmaps", "name": f"watch-{number}", "namespace": f"team-{number}"} for number in range(10)]
MORE_REQUESTS = 15  # of the daemon, during each fault
IN_CLUSTER = ("cut", "overloaded", "expired", "garbage")
ON_THE_WAY = ("reset",)


def limited(**keys: Any) -> dict[str, Any]:
    limits = {"requestsPerSecond": RATE, "resumesPerSecond": RESUMES, "maxLine": "1Mi"}
    return {"watch": WATCHES, "limits": limits, **keys}


def connections(link: Proxy) -> int:
    """Return the number of connections to a proxy, as the kernel lists them."""
    port = int(link.url.rpartition(":")[2])
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[3] == "01" for row in rows if row[2].endswith(f":{port:04X}"))


def test_failing_cluster_gets_no_more_requests_than_the_limit_and_a_paused_daemon_sends_none(tmp_path: Path) -> None:
    """Each fault breaks all watches at once: without a limit, opening them again would take more requests."""
    kubeconfig = tmp_path / "kubeconfig"
    with Simulator(tmp_path) as simulator, Proxy(tmp_path, "link", simulator.url) as link:
        write_kubeconfig(kubeconfig, {"server": link.url}, {})
        config = config_file(tmp_path, **limited(paused=True))
        with Daemon(tmp_path / "daemon", "--config", config, "--kubeconfig", kubeconfig) as daemon:
            all_up = partial(up, daemon)
            began = time.monotonic()
            config_file(tmp_path, **limited())

            def within_the_limit() -> None:
                arrived = arrivals(simulator)
                assert arrived <= allowed_since(began)

            daemon.process.until(all_up, "all are watched", LOOK_SECONDS)
            within_the_limit()
            for fault in (*IN_CLUSTER, *ON_THE_WAY):
                with switched(simulator, fault) if fault in IN_CLUSTER else link.fault(fault):
                    least = requests(daemon.scrape()) + MORE_REQUESTS
                    daemon.until(partial(has_asked, least), f"requests during {fault}")
                within_the_limit()
            daemon.process.until(all_up, "all are watched again", LOOK_SECONDS)

            assert connections(link) >= len(WATCHES)
            link.switch_on("reset")  # the pause comes while all watches are being opened again
            config_file(tmp_path, **limited(paused=True))
            daemon.process.until(
                lambda: (
                    len(daemon.log("config_reloaded")) > 1 and not daemon.watches_by_name() and not connections(link)
                ),
                "nothing is watched, and no connection is left",
                LOOK_SECONDS,
            )
            link.switch_off("reset")
            config_file(tmp_path, **limited())
            daemon.process.until(all_up, "all are watched after the pause", LOOK_SECONDS)


def up(daemon: Daemon) -> bool:
    streams = daemon.watches_by_name()
    return len(streams) == len(WATCHES) and all(stream["up"] for stream in streams.values())


def allowed_since(began: float) -> float:
    """Return how many requests are allowed from then on until now; on a slow machine, that is more."""
    return BURST + (RATE + RESUMES) * (time.monotonic() - began)


def has_asked(least: float, scrape: Scrape) -> bool:
    return requests(scrape) >= least


def requests(scrape: Scrape, **labels: str) -> float:
    return scrape.total("watchslo_api_requests_total", **labels)


def arrivals(simulator: Simulator) -> int:
    """Return how many requests have reached the cluster."""
    with urllib.request.urlopen(f"{simulator.announced['control']}/arrivals") as answer:
        return len(json.load(answer)["at"])


@contextmanager
def switched(simulator: Simulator, *faults: str, **of: str) -> Iterator[None]:
    """Switch on faults of the simulated cluster, or of one resource, while the context is open."""
    for fault in faults:
        simulator.control({"name": fault, **of}, "/faults")
    try:
        yield
    finally:
        for fault in faults:
            simulator.control({"name": fault, "on": False, **of}, "/faults")


# Readers and attackers that flood the server

EXPECTED: dict[Flood, set[int]] = {
    floods.idle: set(),
    floods.slow: {408},
    floods.huge: {431},
    floods.scrapes: {200},
    floods.strangers: {401, 503},
}
LATE = {408, 503}
"""The answers to a request that a busy machine sends late, and to one that comes while the measuring loop is late."""
TICKS_IN_FLOOD = 5
MOST_RESIDENT_BYTES = 400 * 2**20
FILES = 4096


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, FILES)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_floods_of_requests_stop_neither_ticks_nor_probes_and_take_little_memory(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    token = control_plane.service_account("floods", EVERYTHING_READABLE, REVIEWS)
    file = config_file(tmp_path, server={"authorization": "kubernetes", "limits": {"requestTimeout": "3s"}})
    kubeconfig = control_plane.kubeconfig("floods", {"token": token})
    with Daemon(tmp_path, "--config", file, "--kubeconfig", kubeconfig) as daemon:
        daemon.until_ready()
        scraper = Reader(daemon.url, token=control_plane.service_account("floods-scraper", MAY_SCRAPE))
        eventually(lambda: scraper.status("/metrics") == 200, "allowed to scrape")
        for flood, expected in EXPECTED.items():
            target = Target(scraper.address, scraper.token or "")
            probes = asyncio.run(under(flood, target, scraper, expected))
            resident = daemon.process.resident_bytes()
            print(f"{flood.__name__}: answers {dict(target.statuses)}, {probes} probes; {resident / 2**20:.0f} MiB")
            assert set(target.statuses) <= expected | LATE
            assert resident < MOST_RESIDENT_BYTES
        assert daemon.log("library_complains") == []


async def under(flood: Flood, target: Target, scraper: Reader, expected: set[int]) -> int:
    """Run a flood until the daemon ticked and gave the expected answers; return how many probes it answered.

    The probes come from the address of the flood: if their requests arrive late, they give way like those.
    """
    flooding = asyncio.ensure_future(flood(target))
    probes, least = 0, None
    while True:
        with suppress(ConnectionResetError):
            assert await asyncio.to_thread(scraper.status, "/healthz") == 200
            probes += 1
            answer = await asyncio.to_thread(scraper.ask, "/metrics")
            assert answer.status in (200, 503), answer.text
            if answer.status == 200:
                ticks = Scrape(answer.text).total("watchslo_clock_ticks_total", result="ok")
                least = ticks + TICKS_IN_FLOOD if least is None else least
                if ticks >= least and expected <= set(target.statuses):
                    break
        await asyncio.sleep(LOOK_SECONDS)
    assert not flooding.done()
    flooding.cancel()
    await asyncio.gather(flooding, return_exceptions=True)
    return probes
