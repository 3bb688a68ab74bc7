"""Changing what is watched while it is watched: by a new configuration, or by new resources in the cluster."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.daemon import Daemon, config_file
from tests.support.process import eventually
from tests.support.writer import StatusError, Writer, configmap, crd
from watchslo.monitor.supervisor import SNAPSHOT_SECONDS

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "tests.watchslo.invalid"
GADGETS = f"/apis/{GROUP}/v1/namespaces/default/gadgets"
PATIENCE_SECONDS = 60.0  # the file is looked at every two seconds
SERVED_SECONDS = 60.0
PAUSED_SECONDS = 5.0  # from when the file is read until nothing is open any more


class Reloaded:
    """A daemon whose configuration changes while it runs."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.daemon = daemon
        self._folder = folder

    def write(self, *watches: dict[str, Any], **keys: Any) -> None:
        """Puts another configuration in the place of the one that is there."""
        config_file(self._folder, watch=list(watches), **keys)

    def spoil(self, text: str) -> None:
        draft = self._folder / "spoilt"
        draft.write_text(text)
        draft.replace(self._folder / "watchslo.yaml")

    def until_watching(self, *watches: str) -> None:
        """Waits until exactly these are watched."""
        self.daemon.process.until(
            lambda: {name for name, one in self.daemon.streams().items() if one["up"]} == {*watches} == {*self.named()},
            PATIENCE_SECONDS,
            f"exactly {watches}",
            every=0.1,
        )

    def named(self) -> list[str]:
        return list(self.daemon.streams())

    def events(self, watch: str) -> float:
        return self.daemon.scrape().total("watchslo_watch_events_total", watch=watch)


@pytest.fixture(scope="module")
def writer(control_plane: ControlPlane) -> Iterator[Writer]:
    with control_plane.writer() as writer:
        yield writer


@pytest.fixture(scope="module")
def reloaded(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reloaded]:
    folder = tmp_path_factory.mktemp("reload")
    config = config_file(folder, watch=[{"resource": "configmaps"}, {"resource": "pods"}])
    with Daemon(folder, "--config", config, "--kubeconfig", control_plane.kubeconfig()) as daemon:
        daemon.until_measuring("configmaps", "pods")
        yield Reloaded(daemon, folder)


def open_watches(writer: Writer, resource: str) -> int:
    """How many watches of a resource the apiserver itself counts as open, our own clients' and its own."""
    lines = writer.text("/metrics").splitlines()
    mine = [
        line
        for line in lines
        if line.startswith("apiserver_longrunning_requests{")
        and f'resource="{resource}"' in line
        and 'verb="WATCH"' in line
    ]
    return int(sum(float(line.rpartition(" ")[2]) for line in mine))


def test_what_a_new_configuration_leaves_alone_runs_on(reloaded: Reloaded, writer: Writer) -> None:
    daemon = reloaded.daemon
    daemon.until_sampled("configmaps", 1, lambda n: writer.create(CONFIGMAPS, configmap(f"reload-before-{n}")))
    events = reloaded.events("configmaps")

    objective = {"threshold": "500ms", "events": {"target": 0.95}}
    reloaded.write({"resource": "configmaps", "objective": objective}, {"resource": "nodes"})
    reloaded.until_watching("configmaps", "nodes")
    # Another objective begins a new track, whose counters know nothing of the old threshold; the stream lives.
    assert daemon.samples("configmaps") == 0
    assert reloaded.events("configmaps") >= events
    stream = daemon.streams()["configmaps"]
    assert stream["relists"]["start"] == 1
    assert stream["closed"] == []
    assert stream["latency"]["objective"]["threshold"] == 0.5
    assert [entry["watch"] for entry in daemon.log("objective_changed")] == ["configmaps"]


def test_a_bad_file_is_refused_and_the_old_one_stays_in_force(reloaded: Reloaded, writer: Writer) -> None:
    daemon, running, refused = reloaded.daemon, reloaded.named(), len(reloaded.daemon.log("config_refused"))
    samples = daemon.samples("configmaps")
    reloaded.spoil("watch: [\n")
    daemon.process.until(lambda: len(daemon.log("config_refused")) > refused, PATIENCE_SECONDS, "the file is refused")
    assert "watchslo.yaml:2: not YAML" in daemon.log("config_refused")[refused]["message"]
    # What a scrape says may be a second old.
    daemon.until(lambda scrape: scrape.value("watchslo_config_last_reload_successful") == 0, PATIENCE_SECONDS, "known")
    assert daemon.status()["monitor"]["reloadSucceeded"] is False
    assert reloaded.named() == running
    assert daemon.ready()
    daemon.until_sampled("configmaps", samples + 1, lambda n: writer.create(CONFIGMAPS, configmap(f"reload-after-{n}")))


def test_paused_means_that_nothing_is_asked(reloaded: Reloaded, writer: Writer) -> None:
    daemon, before = reloaded.daemon, open_watches(writer, "nodes")
    reloads, refused = (len(daemon.log(event)) for event in ("config_reloaded", "config_refused"))
    reloaded.write({"resource": "configmaps"}, {"resource": "nodes"}, paused=True)
    daemon.process.until(lambda: len(daemon.log("config_reloaded")) > reloads, PATIENCE_SECONDS, "the file is read")
    began = time.monotonic()
    eventually(lambda: open_watches(writer, "nodes") < before, PAUSED_SECONDS, "the apiserver sees the watch closed")
    daemon.process.until(lambda: reloaded.named() == [], PAUSED_SECONDS, "nothing is watched", every=0.1)
    assert time.monotonic() - began < PAUSED_SECONDS
    daemon.until_not_ready("Watching is paused.")
    time.sleep(SNAPSHOT_SECONDS)  # a scrape may be as old
    asked = daemon.scrape().total("watchslo_api_requests_total")
    time.sleep(SNAPSHOT_SECONDS + 1.5)  # three ticks would fit
    assert daemon.scrape().total("watchslo_api_requests_total") == asked
    assert len(daemon.log("config_refused")) == refused


def test_no_more_than_the_limit_is_watched(reloaded: Reloaded) -> None:
    reloaded.write({"resource": "configmaps"}, {"resource": "pods"}, {"resource": "nodes"}, limits={"watches": 2})
    reloaded.until_watching("configmaps", "pods")
    successful = "watchslo_config_last_reload_successful"
    reloaded.daemon.until(lambda scrape: scrape.value(successful) == 1, PATIENCE_SECONDS, "known")
    assert [entry["left_out"] for entry in reloaded.daemon.log("watches_limited")] == [1]
    reloaded.daemon.until_ready()


def test_a_new_custom_resource_is_watched_and_one_that_is_gone_is_not(reloaded: Reloaded, writer: Writer) -> None:
    daemon, gadgets, everything = reloaded.daemon, f"gadgets.{GROUP}", {"resource": "*"}
    limits = {"requestsPerSecond": 100}  # else it would take half a minute to open them all
    reloaded.write(everything, exclude=["secrets", "events"], limits=limits)
    daemon.until_measuring("configmaps", "nodes", "deployments.apps")
    streams = daemon.streams()
    assert len(streams) > 30
    assert streams["configmaps"]["relists"]["start"] == 1, "it ran on: it does not matter who asked for it"
    assert not {gadgets, "secrets", "events", "events.events.k8s.io"} & streams.keys()

    writer.create(CRDS, crd("gadgets", "Gadget"))
    eventually(lambda: is_served(writer) and GROUP in writer.served(), SERVED_SECONDS, "gadgets are served")
    # Discovery is asked every few minutes, and for each new configuration.
    reloaded.write(everything, exclude=["secrets", "events", "pods"], limits=limits)
    daemon.until_measuring(gadgets)
    assert "pods" not in reloaded.named()
    daemon.until_sampled(gadgets, 1, lambda n: writer.create(GADGETS, gadget(f"gadget-{n}")))

    writer.delete(f"{CRDS}/{gadgets}")
    eventually(lambda: not (is_served(writer) or GROUP in writer.served()), SERVED_SECONDS, "gadgets are gone")
    reloaded.write(everything, exclude=["secrets", "events"], limits=limits)
    daemon.process.until(lambda: gadgets not in reloaded.named(), PATIENCE_SECONDS, "it is dropped", every=0.1)
    assert daemon.scrape().values("watchslo_watch_up", watch=gadgets) == []
    daemon.until_ready()


def gadget(name: str) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"name": name}}


def is_served(writer: Writer) -> bool:
    try:
        writer.revision(GADGETS)
    except StatusError:
        return False
    return True
