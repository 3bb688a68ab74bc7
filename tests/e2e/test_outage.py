"""The apiserver goes away and comes back: the daemon says so meanwhile, resumes, and loses no counter."""

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.daemon import LOOK_SECONDS, Daemon, Scrape, config_file
from tests.support.writer import configmap

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"
SECRETS = "/api/v1/namespaces/default/secrets"
WATCHES = ("configmaps", "events", "pods")
SOON_SECONDS = 60.0
BACK_SECONDS = 120.0  # an apiserver may take a while to start, and the backoff has come to its end by then
THAWED_SECONDS = 30.0  # until the next tick: 15 s at most, where all that were under way had been given up

pytestmark = pytest.mark.timeout(400)

Totals = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def totals(scrape: Scrape) -> Totals:
    """All that must never decrease: counters, and the counts and sums of histograms."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in scrape.families.values()
        if family.type in ("counter", "histogram")
        for sample in family.samples
    }


@dataclass
class Watched:
    """A daemon of which every scrape is compared with the one before it."""

    daemon: Daemon
    before: Totals = field(default_factory=dict)

    def scrape(self) -> Scrape:
        scrape = self.daemon.scrape()
        now = totals(scrape)
        lost = {key: (value, now.get(key)) for key, value in self.before.items() if now.get(key, -1.0) < value}
        assert not lost, f"counters went back: {lost}"
        self.before = now
        return scrape

    def until(self, condition: Callable[[Scrape], bool], timeout: float, what: str) -> None:
        self.daemon.process.until(lambda: condition(self.scrape()), timeout, what, LOOK_SECONDS)


@pytest.fixture(scope="module")
def watched(mortal_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("outage")
    config = config_file(folder, watch=[{"resource": resource} for resource in WATCHES])
    with Daemon(folder, "--config", config, "--kubeconfig", mortal_plane.kubeconfig()) as daemon:
        daemon.until_measuring(*WATCHES)
        yield Watched(daemon)


def write(plane: ControlPlane, prefix: str, count: int = 20) -> None:
    """So many config maps, and as many events."""
    with plane.writer() as writer:
        for number in range(count):
            writer.create(CONFIGMAPS, configmap(f"{prefix}-{number}"))
            involved = {"kind": "Pod", "namespace": "default", "name": "none"}
            writer.create(EVENTS, {"metadata": {"name": f"{prefix}-{number}"}, "involvedObject": involved})


def received(scrape: Scrape, watch: str) -> float:
    return scrape.value("watchslo_watch_events_total", watch=watch, type="added")


def until_received(watched: Watched, watch: str, events: float) -> None:
    """Waits until so many have come, and no more."""
    watched.until(lambda scrape: received(scrape, watch) == events, SOON_SECONDS, f"{events} {watch} received")


def samples(scrape: Scrape, watch: str) -> float:
    return scrape.value("watchslo_apiserver_timespan_seconds_count", watch=watch)


def test_a_killed_apiserver_is_missed_and_found_again(mortal_plane: ControlPlane, watched: Watched) -> None:
    apiserver = mortal_plane.apiservers[0]
    write(mortal_plane, "before")
    until_received(watched, "configmaps", 20)
    watched.until(lambda scrape: samples(scrape, "configmaps") > 0, SOON_SECONDS, "samples before the outage")
    with mortal_plane.writer() as writer:
        # So that the cache begins beyond what the watch has seen, even if it is there before the apiserver writes.
        writer.create(SECRETS, {"metadata": {"name": "unwatched"}})

    apiserver.process.kill()
    watched.until(lambda scrape: scrape.total("watchslo_watch_up") == 0, SOON_SECONDS, "all watches are closed")
    watched.daemon.until_said("tick_failed", reason="refused")

    apiserver.start()
    apiserver.wait_ready()
    watched.until(lambda scrape: scrape.total("watchslo_watch_up") == len(WATCHES), BACK_SECONDS, "all watches resume")
    watched.daemon.until_ready()
    write(mortal_plane, "after")
    for watch in ("configmaps", "events"):
        until_received(watched, watch, 40)
    # Not as many as were written: what a late loop receives is no sample.
    watched.until(lambda scrape: samples(scrape, "configmaps") > 20, SOON_SECONDS, "samples after the outage")
    scrape = watched.scrape()
    # Its watch cache begins anew with the restart: older revisions have expired. What has no cache resumes.
    assert scrape.total("watchslo_expired_total", watch="configmaps") == 1
    assert scrape.value("watchslo_relists_total", watch="configmaps", reason="expired") == 1
    assert scrape.total("watchslo_expired_total", watch="events") == 0
    assert scrape.value("watchslo_watches_closed_total", watch="events", **{"class": "network"}) >= 1
    assert scrape.value("watchslo_clock_resets_total", domain="main") == 0


def test_a_frozen_apiserver_is_missed_and_loses_no_event(mortal_plane: ControlPlane, watched: Watched) -> None:
    apiserver = mortal_plane.apiservers[0]
    before = watched.scrape()
    apiserver.process.signal(signal.SIGSTOP)
    try:
        # Its kernel still accepts connections, but nobody speaks TLS on a new one, or HTTP on an old one.
        silent = (f"No {what} {apiserver.url} in time" for what in ("answer from", "connection to"))
        watched.daemon.until_not_ready(*(f"The revision clock does not tick: {sentence}" for sentence in silent))
        assert watched.scrape().total("watchslo_watch_up") == len(WATCHES), "nobody closed the connections"
    finally:
        apiserver.process.signal(signal.SIGCONT)
    watched.daemon.until_ready(THAWED_SECONDS)
    write(mortal_plane, "thawed")
    for watch in ("configmaps", "events"):
        until_received(watched, watch, received(before, watch) + 20)
    watched.until(lambda scrape: samples(scrape, "events") > samples(before, "events"), SOON_SECONDS, "new samples")
    scrape = watched.scrape()
    for watch in ("configmaps", "events"):
        assert scrape.total("watchslo_relists_total", watch=watch) == before.total(
            "watchslo_relists_total", watch=watch
        )


def test_trouble_is_said_once_and_so_is_its_end(watched: Watched) -> None:
    daemon = watched.daemon

    def said(event: str) -> list[tuple[str, str]]:
        return [(entry["watch"], entry["reason"]) for entry in daemon.log(event) if "watch" in entry]

    daemon.process.until(
        lambda: {watch for watch, _ in said("recovered")} == {*WATCHES},
        SOON_SECONDS,
        "all recover, and stay so",
        LOOK_SECONDS,
    )
    closed = said("watch_closed")
    assert len(closed) == len(set(closed)), closed
    assert {watch for watch, _ in closed} == {*WATCHES}
    assert len(said("recovered")) == len(WATCHES)
