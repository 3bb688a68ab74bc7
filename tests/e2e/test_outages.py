"""Apiservers that are out of reach, killed, frozen or silent: the daemon reports it, resumes, and loses no counter."""

import contextlib
import signal
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.assets import Assets
from tests.support.certs import Authority
from tests.support.control_plane import HOST, ControlPlane, Etcd, Port, override, write_kubeconfig
from tests.support.daemon import LOOK_SECONDS, Daemon, Proxy, Scrape, Simulator, config_file, start_all
from tests.support.writer import Writer, configmap
from watchslo.watch.failure import RULES, Reason

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"
SECRETS = "/api/v1/namespaces/default/secrets"
WATCHES = ("configmaps", "events", "pods")


Totals = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def totals(scrape: Scrape) -> Totals:
    """Return all values that must never decrease: counters, and counts and sums of histograms."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in scrape.families.values()
        if family.type in ("counter", "histogram")
        for sample in family.samples
    }


@dataclass
class Watched:
    """A daemon whose scrapes are each compared with the previous one."""

    daemon: Daemon
    before: Totals = field(default_factory=dict)

    def scrape(self) -> Scrape:
        scrape = self.daemon.scrape()
        now = totals(scrape)
        lost = {key: (value, now.get(key)) for key, value in self.before.items() if now.get(key, -1.0) < value}
        assert not lost, f"counters went back: {lost}"
        self.before = now
        return scrape

    def until(self, condition: Callable[[Scrape], bool], what: str) -> None:
        self.daemon.process.until(lambda: condition(self.scrape()), what, LOOK_SECONDS)


@pytest.fixture(scope="module")
def watched(killable_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("outage")
    config = config_file(folder, watch=[{"resource": resource} for resource in WATCHES])
    with Daemon(folder, "--config", config, "--kubeconfig", killable_plane.kubeconfig()) as daemon:
        daemon.until_measuring(*WATCHES)
        yield Watched(daemon)


def write(plane: ControlPlane, prefix: str, count: int = 20) -> None:
    """Create `count` config maps and as many events."""
    with plane.writer() as writer:
        for number in range(count):
            writer.create(CONFIGMAPS, configmap(f"{prefix}-{number}"))
            involved = {"kind": "Pod", "namespace": "default", "name": "none"}
            writer.create(EVENTS, {"metadata": {"name": f"{prefix}-{number}"}, "involvedObject": involved})


def received(scrape: Scrape, watch: str) -> float:
    return scrape.value("watchslo_watch_events_total", watch=watch, type="added")


def until_received(watched: Watched, watch: str, events: float) -> None:
    """Wait until exactly `events` events were received."""
    watched.until(lambda scrape: received(scrape, watch) == events, f"{events} {watch} received")


def samples(scrape: Scrape, watch: str) -> float:
    return scrape.value("watchslo_apiserver_timespan_seconds_count", watch=watch)


def until_sampled(plane: ControlPlane, watched: Watched, watch: str, least: float) -> None:
    """Write on until there are so many samples, since a late loop makes none; return when all of it was received."""
    before, written = watched.scrape(), set[int]()

    def write_one(number: int) -> None:
        write(plane, f"{watch}-{least:g}-{number}", 1)
        written.add(number)

    watched.daemon.until_sampled(watch, least, write_one)
    for each in ("configmaps", "events"):
        until_received(watched, each, received(before, each) + len(written))


def test_killed_apiserver_is_reported_and_watches_resume(killable_plane: ControlPlane, watched: Watched) -> None:
    apiserver = killable_plane.apiservers[0]
    write(killable_plane, "before")
    for watch in ("configmaps", "events"):
        until_received(watched, watch, 20)
    until_sampled(killable_plane, watched, "configmaps", 1)
    before = watched.scrape()
    with killable_plane.writer() as writer:
        # The cache then begins after the last revision of the watch, even if the apiserver fills it before it writes.
        writer.create(SECRETS, {"metadata": {"name": "unwatched"}})

    apiserver.process.kill()
    watched.until(lambda scrape: scrape.total("watchslo_watch_up") == 0, "all watches are closed")
    watched.daemon.until_said("tick_failed", reason="refused")

    apiserver.start()
    apiserver.wait_ready()
    watched.until(lambda scrape: scrape.total("watchslo_watch_up") == len(WATCHES), "all watches resume")
    watched.daemon.until_ready()
    write(killable_plane, "after")
    for watch in ("configmaps", "events"):
        until_received(watched, watch, received(before, watch) + 20)
    until_sampled(killable_plane, watched, "configmaps", samples(before, "configmaps") + 1)
    scrape = watched.scrape()
    # The watch cache is empty after the restart, so older revisions have expired. Resources without a cache resume.
    assert scrape.total("watchslo_expired_total", watch="configmaps") == 1
    assert scrape.value("watchslo_relists_total", watch="configmaps", reason="expired") == 1
    assert scrape.total("watchslo_expired_total", watch="events") == 0
    assert any(close["class"] == "network" for close in watched.daemon.streams()["events"]["closed"])
    assert scrape.value("watchslo_clock_resets_total", domain="main") == 0


def test_frozen_apiserver_is_reported_and_loses_no_event(killable_plane: ControlPlane, watched: Watched) -> None:
    apiserver = killable_plane.apiservers[0]
    before = watched.scrape()
    apiserver.process.signal(signal.SIGSTOP)
    try:
        # The kernel still accepts connections, but the apiserver answers no TLS handshake and no request.
        silent = (f"No {what} {apiserver.url} in time" for what in ("answer from", "connection to"))
        watched.daemon.until_not_ready(*(f"The revision clock does not tick: {sentence}" for sentence in silent))
        watched.until(lambda scrape: scrape.total("watchslo_watch_up") == 0, "its watches are down")
        scrape = watched.scrape()
        assert scrape.value("watchslo_apiserver_up", apiserver="service") == 0
        assert scrape.value("watchslo_verdict", verdict="unresponsive") == 1
        closed = "watchslo_watches_closed_total"
        assert scrape.total(closed) == before.total(closed), "no connection was closed"
    finally:
        apiserver.process.signal(signal.SIGCONT)
    watched.daemon.until_ready()
    write(killable_plane, "thawed")
    for watch in ("configmaps", "events"):
        until_received(watched, watch, received(before, watch) + 20)
    until_sampled(killable_plane, watched, "events", samples(before, "events") + 1)
    scrape = watched.scrape()
    for watch in ("configmaps", "events"):
        assert scrape.total("watchslo_relists_total", watch=watch) == before.total(
            "watchslo_relists_total", watch=watch
        )


def test_each_failure_and_each_recovery_is_logged_once(watched: Watched) -> None:
    daemon = watched.daemon

    def said(event: str) -> list[tuple[str, str]]:
        return [(entry["watch"], entry["reason"]) for entry in daemon.log(event) if "watch" in entry]

    daemon.process.until(
        lambda: {watch for watch, _ in said("recovered")} == {*WATCHES},
        "all recover, and stay so",
        LOOK_SECONDS,
    )
    closed = said("watch_closed")
    assert len(closed) == len(set(closed)), closed
    assert {watch for watch, _ in closed} == {*WATCHES}
    assert len(said("recovered")) == len(WATCHES)


# Silent watches


WRITES = 20


@dataclass(frozen=True, slots=True)
class Planes:
    """Two apiservers on one etcd; secrets reach the cache of `plane` through the proxy `storage`."""

    plane: ControlPlane
    other: ControlPlane
    storage: Proxy


@pytest.fixture(scope="module")
def planes(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planes]:
    folder, elsewhere = tmp_path_factory.mktemp("frozen"), tmp_path_factory.mktemp("other")
    with Etcd(folder, assets.etcd) as etcd, Proxy(folder, "storage", etcd.url) as storage:
        flags = [override("/secrets", storage.url)]
        with (
            ControlPlane(folder, assets.kube_apiserver, etcd, flags=flags) as plane,
            ControlPlane(elsewhere, assets.kube_apiserver, etcd) as other,
        ):
            yield Planes(plane, other, storage)


def write_objects(writer: Writer, collection: str, prefix: str, count: int = WRITES) -> float:
    """Create `count` objects; return when the first of them was certainly committed, in monotonic seconds."""
    writes = [writer.create(collection, configmap(f"{prefix}-{number}") | _kind(collection)) for number in range(count)]
    return writes[0].after


def _kind(collection: str) -> dict[str, object]:
    return {"kind": "Secret", "data": {}} if collection == SECRETS else {}


def found(daemon: Daemon, watch: str, since: float) -> float:
    """Wait until a stall of a watch is counted; return the seconds since `since`."""
    daemon.until(lambda scrape: scrape.value("watchslo_stalls_total", watch=watch) == 1, f"{watch} stalled")
    return time.monotonic() - since


def all_found(daemon: Daemon, since: Mapping[str, float]) -> list[float]:
    """Wait until a stall of each of these watches is counted; return how long each took."""
    took: dict[str, float] = {}

    def look(scrape: Scrape) -> bool:
        for name, began in since.items():
            if name not in took and scrape.value("watchslo_stalls_total", watch=name):
                took[name] = time.monotonic() - began
        return len(took) == len(since)

    daemon.until(look, "all stalled")
    return list(took.values())


def until_whole(daemon: Daemon, watch: str, events: float) -> None:
    """Wait until a watch has received `events` events and is no longer stalled."""
    daemon.until(
        lambda scrape: (
            scrape.value("watchslo_watch_events_total", watch=watch, type="added") == events
            and scrape.value("watchslo_watch_stalled", watch=watch) == 0
        ),
        f"{watch} whole again",
    )


def test_frozen_cache_of_one_resource_is_found(planes: Planes, tmp_path: Path) -> None:
    config = config_file(tmp_path, watch=[{"resource": "secrets"}, {"resource": "configmaps"}], metrics="full")
    kubeconfig = planes.plane.kubeconfig()
    with Daemon(tmp_path, "--config", config, "--kubeconfig", kubeconfig) as daemon, planes.other.writer() as writer:
        daemon.until_measuring("secrets", "configmaps")
        write_objects(writer, SECRETS, "before")
        write_objects(writer, CONFIGMAPS, "before")
        until_whole(daemon, "secrets", WRITES)
        with planes.storage.fault("frozen-link"):
            committed = write_objects(writer, SECRETS, "withheld")
            took = found(daemon, "secrets", committed)
            print(f"a frozen cache was found after {took:.1f} s")
            write_objects(writer, CONFIGMAPS, "during-the-stall")
            until_whole(daemon, "configmaps", 2 * WRITES)
            assert daemon.scrape().value("watchslo_watch_stalled", watch="secrets") == 1
            daemon.process.until(
                lambda: daemon.streams()["secrets"]["lastAudit"] == "frozen",
                "an audit finds the frozen cache",
                LOOK_SECONDS,
            )
            assert daemon.streams()["configmaps"]["lastAudit"] != "frozen"
        until_whole(daemon, "secrets", 2 * WRITES)
        scrape = daemon.scrape()
        assert scrape.value("watchslo_stalls_total", watch="secrets") == 1
        assert scrape.value("watchslo_stalls_total", watch="configmaps") == 0
        assert scrape.total("watchslo_watch_guarantee_violations_total") == 0
        daemon.until_said("stall_over", watch="secrets")


def test_twenty_silently_dead_connections_are_found_and_lose_no_event(planes: Planes, tmp_path: Path) -> None:
    plane, names = planes.other, [f"team-{number}" for number in range(20)]
    watches = [{"resource": "configmaps", "name": name, "labelSelector": f"team={name}"} for name in names]
    config = config_file(tmp_path, watch=watches, metrics="full")
    with Proxy(tmp_path, "link", plane.url) as link:
        kubeconfig = plane.kubeconfig("linked", server=link.url)
        with (
            Daemon(tmp_path / "daemon", "--config", config, "--kubeconfig", kubeconfig) as daemon,
            plane.writer() as writer,
        ):
            daemon.until_measuring(*names)
            link.switch_on("hole-to-client", connections="open")
            committed = {name: writer.create(CONFIGMAPS, configmap(f"{name}-1", team=name)).after for name in names}
            took = all_found(daemon, committed)
            print("dead connections were found after", " ".join(f"{seconds:.1f}" for seconds in sorted(took)), "s")
            for name in names:
                writer.create(CONFIGMAPS, configmap(f"{name}-2", team=name))
            for name in names:
                until_whole(daemon, name, 2)
            scrape = daemon.scrape()
            for name in names:
                assert scrape.value("watchslo_stalls_total", watch=name) == 1
                assert scrape.total("watchslo_watches_closed_total", watch=name, reason="stalled") == 1
                assert scrape.total("watchslo_relists_total", watch=name) == 1  # the first
            assert scrape.total("watchslo_watch_guarantee_violations_total") == 0
            assert scrape.total("watchslo_gap_revisions_total") == 0


# No way to the cluster


STOP_SECONDS = 60.0  # 1 s by the fake clock of the unit tests
PAGE = b"<html><body><h1>It works!</h1></body></html>"


class Page(BaseHTTPRequestHandler):
    """A server that answers each request with an HTML page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class Silence(socketserver.BaseRequestHandler):
    """Accepts each connection and never answers."""

    def handle(self) -> None:
        while self.request.recv(4096):
            pass


class Quiet(socketserver.ThreadingTCPServer):
    daemon_threads = True


@contextlib.contextmanager
def serving(server: socketserver.TCPServer) -> Iterator[str]:
    """Run a server in this process; yield its `host:port`."""
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"{HOST}:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Lost:
    """A daemon that cannot reach its cluster, since when, and the expected reason and message."""

    daemon: Daemon
    since: float
    reason: str
    says: str


@pytest.fixture(scope="module")
def port() -> Iterator[Port]:
    """A port without a server."""
    port = Port()
    yield port
    port.release()


@pytest.fixture(scope="module")
def lost(
    control_plane: ControlPlane, port: Port, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Lost]]:
    """A daemon for each way in which a cluster can be out of reach, all started at once."""
    folder = tmp_path_factory.mktemp("lost")
    missing, stranger = folder / "none", Authority(folder / "authority")
    with contextlib.ExitStack() as stack:
        html = stack.enter_context(serving(ThreadingHTTPServer((HOST, 0), Page)))
        silent = stack.enter_context(serving(Quiet((HOST, 0), Silence)))
        right = {"server": control_plane.url, "certificate-authority": str(control_plane.ca)}
        ways: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
            "refused": ({"server": f"http://{HOST}:{port.number}"}, {}, "refused", "Connection refused by "),
            "nowhere": ({"server": "https://apiserver.invalid:6443"}, {}, "dns", "does not resolve"),
            "silent": ({"server": f"https://{silent}"}, {}, "unreachable", "No connection to "),
            "page": ({"server": f"http://{html}"}, {}, "garbage", "text/html instead of JSON: it is not an apiserver."),
            "plain": ({"server": f"https://{html}"}, {}, "tls", "check that it serves HTTPS"),
            "stranger": (
                right | {"certificate-authority": str(stranger.ca)},
                {"token": control_plane.token},
                "tls",
                "name the CA of the cluster as certificate-authority.",
            ),
            "badge": (right, {"token": "wrong"}, "unauthorized", RULES[Reason.UNAUTHORIZED][2]),
            "nobadge": (right, {"tokenFile": str(missing)}, "credentials", f"{missing}: no such file or directory; "),
        }
        daemons = {}
        for name, (cluster, user, reason, says) in ways.items():
            home = folder / name
            home.mkdir()
            write_kubeconfig(home / "kubeconfig", cluster, user)
            config = config_file(home, watch=[{"resource": "configmaps"}])
            daemon = Daemon(home, "--config", config, "--kubeconfig", home / "kubeconfig")
            daemons[name] = Lost(daemon, time.monotonic(), reason, says)
        start_all(stack, (one.daemon for one in daemons.values()))
        yield daemons


def test_daemon_measures_when_the_cluster_appears(lost: dict[str, Lost], port: Port, tmp_path: Path) -> None:
    daemon = lost["refused"].daemon
    daemon.until_not_ready(lost["refused"].says)
    with Simulator(tmp_path, "--port", str(port.number)):
        daemon.until_ready()
        assert [entry["reason"] for entry in daemon.log("discovery_failed")] == ["refused"]
        assert [entry["reason"] for entry in daemon.log("recovered")] == ["refused"]
        daemon.until_measuring("configmaps")


WAYS = ("nowhere", "page", "plain", "stranger", "badge", "nobadge", "silent")


@pytest.mark.parametrize("way", WAYS)
def test_daemon_without_a_cluster_names_the_reason_and_retries(lost: dict[str, Lost], way: str) -> None:
    one = lost[way]
    one.daemon.until_not_ready(one.says)

    def tries() -> float:
        return one.daemon.scrape().total("watchslo_api_requests_total")

    least = 1 if way == "silent" else 2  # each try times out after ten seconds
    one.daemon.process.until(lambda: tries() >= least, "another try", LOOK_SECONDS)
    assert tries() <= 3 + (time.monotonic() - one.since), "there is no backoff"
    said = one.daemon.log("discovery_failed")
    (of_reason,) = [entry for entry in said if entry["reason"] == one.reason]
    assert of_reason["level"] == "warning"
    assert one.says in of_reason["message"]


@pytest.mark.parametrize("way", [*WAYS, "refused"])
def test_daemon_without_a_cluster_ends_with_code_0(lost: dict[str, Lost], way: str) -> None:
    assert lost[way].daemon.stop() == 0
