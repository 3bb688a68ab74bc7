"""What happens while my cluster is away? The daemon reports it, resumes, loses no event, and forgets no counter."""

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.assets import Assets
from tests.support.control_plane import HOST, ControlPlane, Etcd, Port, override, write_kubeconfig
from tests.support.daemon import LOOK_SECONDS, Daemon, Proxy, Scrape, Simulator, config_file
from tests.support.writer import configmap

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"
SECRETS = "/api/v1/namespaces/default/secrets"
WATCHES = ("configmaps", "events", "pods")
WRITTEN = ("configmaps", "events")
WRITES = 10
TEAMS = tuple(f"team-{number}" for number in range(5))


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
class Outage:
    """A daemon whose scrapes are each compared with the previous one, and how many objects of a kind were written."""

    plane: ControlPlane
    daemon: Daemon
    written: int = 0
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

    def until_all_arrive(self) -> None:
        """Write until one more event of each kind was measured, and wait until every event arrived exactly once."""
        least = {watch: self.daemon.samples(watch) + 1 for watch in WRITTEN}
        for watch, count in least.items():
            self.daemon.until_sampled(watch, count, lambda _: self._write())
        self.until(
            lambda scrape: [received(scrape, watch) for watch in WRITTEN] == [self.written] * len(WRITTEN),
            f"{self.written} events of each kind arrived",
        )

    def _write(self) -> None:
        """Create some config maps and as many events."""
        with self.plane.writer() as writer:
            for _ in range(WRITES):
                self.written += 1
                involved = {"kind": "Pod", "namespace": "default", "name": "none"}
                writer.create(CONFIGMAPS, configmap(f"outage-{self.written}"))
                writer.create(EVENTS, {"metadata": {"name": f"outage-{self.written}"}, "involvedObject": involved})


def received(scrape: Scrape, watch: str) -> float:
    return scrape.value("watchslo_watch_events_total", watch=watch, type="added")


@pytest.fixture
def killable_plane(assets: Assets, tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane that the test may kill, with the events in a second etcd."""
    with Etcd(tmp_path, assets.etcd) as etcd, Etcd(tmp_path, assets.etcd, "second") as second:
        flags = [override("/events", second.url)]
        with ControlPlane(tmp_path, assets.kube_apiserver, etcd, flags=flags) as plane:
            yield plane


def test_killed_and_then_frozen_apiserver_is_reported_once_and_loses_no_event(
    killable_plane: ControlPlane, tmp_path: Path
) -> None:
    apiserver = killable_plane.apiservers[0]
    config = config_file(tmp_path, watch=[{"resource": resource} for resource in WATCHES])
    with Daemon(tmp_path, "--config", config, "--kubeconfig", killable_plane.kubeconfig()) as daemon:
        daemon.until_measuring(*WATCHES)
        outage = Outage(killable_plane, daemon)
        outage.until_all_arrive()
        with killable_plane.writer() as writer:
            # The cache then begins after the last revision of the watch, even if it is filled before the next write.
            writer.create(SECRETS, {"metadata": {"name": "unwatched"}})

        apiserver.process.kill()
        outage.until(lambda scrape: scrape.total("watchslo_watch_up") == 0, "all watches are closed")
        daemon.until_said("tick_failed", reason="refused")
        apiserver.start()
        apiserver.wait_ready()
        outage.until(lambda scrape: scrape.total("watchslo_watch_up") == len(WATCHES), "all watches resume")
        daemon.until_ready()
        outage.until_all_arrive()
        scrape = outage.scrape()
        # The watch cache is empty after the restart, so older revisions have expired. Events have no cache, and resume.
        assert scrape.total("watchslo_expired_total", watch="configmaps") == 1
        assert scrape.value("watchslo_relists_total", watch="configmaps", reason="expired") == 1
        assert scrape.total("watchslo_expired_total", watch="events") == 0
        assert any(close["class"] == "network" for close in daemon.watches_by_name()["events"]["closed"])
        assert scrape.value("watchslo_clock_resets_total", domain="main") == 0

        apiserver.process.signal(signal.SIGSTOP)
        try:
            # The kernel still accepts connections, but the apiserver answers no TLS handshake and no request.
            silent = (f"No {what} {apiserver.url} in time" for what in ("answer from", "connection to"))
            daemon.until_not_ready(*(f"The revision clock does not tick: {sentence}" for sentence in silent))
            outage.until(lambda scrape: scrape.total("watchslo_watch_up") == 0, "its watches are down")
            frozen = outage.scrape()
            assert frozen.value("watchslo_apiserver_up", apiserver="service") == 0
            assert frozen.value("watchslo_verdict", verdict="unresponsive") == 1
            closed = "watchslo_watches_closed_total"
            assert frozen.total(closed) == scrape.total(closed), "no connection was closed"
        finally:
            apiserver.process.signal(signal.SIGCONT)
        daemon.until_ready()
        outage.until_all_arrive()
        relists = "watchslo_relists_total"
        assert outage.scrape().total(relists) == scrape.total(relists)

        closes = [(entry["watch"], entry["reason"]) for entry in daemon.log("watch_closed")]
        assert len(closes) == len(set(closes)), "each failure is logged once"
        assert {watch for watch, _ in closes} == {*WATCHES}
        assert sorted(entry["watch"] for entry in daemon.log("recovered") if "watch" in entry) == sorted(WATCHES)


def test_silently_dead_connections_are_found_and_lose_no_event(control_plane: ControlPlane, tmp_path: Path) -> None:
    watches = [{"resource": "configmaps", "name": name, "labelSelector": f"team={name}"} for name in TEAMS]
    config = config_file(tmp_path, watch=watches, metrics="full")
    with Proxy(tmp_path, "link", control_plane.url) as link, control_plane.writer() as writer:
        kubeconfig = control_plane.kubeconfig("linked", server=link.url)
        with Daemon(tmp_path / "daemon", "--config", config, "--kubeconfig", kubeconfig) as daemon:
            daemon.until_measuring(*TEAMS)
            link.switch_on("hole-to-client", connections="open")
            for number in (1, 2):
                for name in TEAMS:
                    writer.create(CONFIGMAPS, configmap(f"{name}-{number}", team=name))
                daemon.until(lambda scrape: scrape.total("watchslo_stalls_total") == len(TEAMS), "all are stalled once")

            def whole(scrape: Scrape) -> bool:
                return [received(scrape, name) for name in TEAMS] == [2] * len(TEAMS) and not scrape.total(
                    "watchslo_watch_stalled"
                )

            daemon.until(whole, "all are whole again")
            scrape = daemon.scrape()
            for name in TEAMS:
                assert scrape.value("watchslo_stalls_total", watch=name) == 1
                assert scrape.total("watchslo_watches_closed_total", watch=name, reason="stalled") == 1
                assert scrape.total("watchslo_relists_total", watch=name) == 1  # the first
            assert scrape.total("watchslo_watch_guarantee_violations_total") == 0
            assert scrape.total("watchslo_gap_revisions_total") == 0


def test_daemon_started_before_its_cluster_names_the_reason_and_measures_when_the_cluster_appears(
    tmp_path: Path,
) -> None:
    port = Port()
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, {"server": f"http://{HOST}:{port.number}"}, {})
    config = config_file(tmp_path, watch=[{"resource": "configmaps"}])
    options = ("--config", config, "--kubeconfig", kubeconfig)
    with Daemon(tmp_path / "lost", *options) as lost, Daemon(tmp_path / "found", *options) as found:
        for daemon in (lost, found):
            daemon.until_not_ready("Connection refused by ")
            (said,) = daemon.log("discovery_failed")
            assert (said["reason"], said["level"]) == ("refused", "warning")
            assert "Connection refused by " in said["message"]
        assert lost.stop() == 0
        with Simulator(tmp_path, "--port", str(port.number)):
            found.until_measuring("configmaps")
            found.until_ready()
        assert [entry["reason"] for entry in found.log("discovery_failed")] == ["refused"]
        assert [entry["reason"] for entry in found.log("recovered")] == ["refused"]
        assert found.stop() == 0
    port.release()
