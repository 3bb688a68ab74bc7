"""The life of a daemon: reloads, pauses, shards that take over, delayed starts, and the end."""

import contextlib
import itertools
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.daemon import LENIENT_OBJECTIVE, LOOK_SECONDS, Daemon, config_file, outside
from tests.support.process import eventually
from tests.support.writer import StatusError, Writer, configmap, crd, pod
from watchslo.monitor.evaluator import SNAPSHOT_SECONDS

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "tests.watchslo.invalid"
GADGETS = f"/apis/{GROUP}/v1/namespaces/default/gadgets"


class Reloaded:
    """A daemon whose configuration changes while it runs."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.daemon = daemon
        self._folder = folder

    def write(self, *watches: dict[str, Any], **keys: Any) -> None:
        """Replace the configuration."""
        config_file(self._folder, watch=list(watches), **keys)

    def spoil(self, text: str) -> None:
        draft = self._folder / "spoilt"
        draft.write_text(text)
        draft.replace(self._folder / "watchslo.yaml")

    def until_watching(self, *watches: str) -> None:
        """Wait until exactly these are watched."""
        self.daemon.process.until(
            lambda: {name for name, one in self.daemon.streams().items() if one["up"]} == {*watches} == {*self.named()},
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
    """Return how many open watches of a resource the apiserver counts, including its own."""
    lines = writer.text("/metrics").splitlines()
    mine = [
        line
        for line in lines
        if line.startswith("apiserver_longrunning_requests{")
        and f'resource="{resource}"' in line
        and 'verb="WATCH"' in line
    ]
    return int(sum(float(line.rpartition(" ")[2]) for line in mine))


def test_reload_keeps_unchanged_watches_open(reloaded: Reloaded, writer: Writer) -> None:
    daemon = reloaded.daemon
    daemon.until_sampled("configmaps", 1, lambda n: writer.create(CONFIGMAPS, configmap(f"reload-before-{n}")))
    events = reloaded.events("configmaps")

    objective = {"threshold": "500ms", "events": {"target": 0.95}}
    reloaded.write({"resource": "configmaps", "objective": objective}, {"resource": "nodes"})
    reloaded.until_watching("configmaps", "nodes")

    def has_new_threshold() -> bool:
        return bool(daemon.streams()["configmaps"]["latency"]["objective"]["threshold"] == 0.5)

    daemon.process.until(has_new_threshold, "another threshold", LOOK_SECONDS)
    assert reloaded.events("configmaps") >= events
    stream = daemon.streams()["configmaps"]
    assert stream["relists"]["start"] == 1
    assert stream["closed"] == []
    assert [entry["watch"] for entry in daemon.log("objective_changed")] == ["configmaps"]


def test_reload_of_an_invalid_file_keeps_the_old_configuration(reloaded: Reloaded, writer: Writer) -> None:
    daemon, running, refused = reloaded.daemon, reloaded.named(), len(reloaded.daemon.log("config_refused"))
    samples = daemon.samples("configmaps")
    reloaded.spoil("watch: [\n")
    daemon.process.until(lambda: len(daemon.log("config_refused")) > refused, "the file is refused")
    assert "watchslo.yaml:2: not YAML" in daemon.log("config_refused")[refused]["message"]
    # A scrape may be a second old.
    daemon.until(lambda scrape: scrape.value("watchslo_config_last_reload_successful") == 0, "known")
    assert daemon.status()["monitor"]["reloadSucceeded"] is False
    assert reloaded.named() == running
    assert daemon.ready()
    daemon.until_sampled("configmaps", samples + 1, lambda n: writer.create(CONFIGMAPS, configmap(f"reload-after-{n}")))


def test_paused_daemon_sends_no_request(reloaded: Reloaded, writer: Writer) -> None:
    daemon, before = reloaded.daemon, open_watches(writer, "nodes")
    reloads, refused = (len(daemon.log(event)) for event in ("config_reloaded", "config_refused"))
    reloaded.write({"resource": "configmaps"}, {"resource": "nodes"}, paused=True)
    daemon.process.until(lambda: len(daemon.log("config_reloaded")) > reloads, "the file is read")
    eventually(lambda: open_watches(writer, "nodes") < before, "the apiserver sees the watch closed")
    daemon.process.until(lambda: reloaded.named() == [], "nothing is watched", every=0.1)
    daemon.until_not_ready("Watching is paused.")
    time.sleep(SNAPSHOT_SECONDS)  # a scrape may be as old
    asked = daemon.scrape().total("watchslo_api_requests_total")
    time.sleep(SNAPSHOT_SECONDS + 1.5)  # three ticks would fit
    assert daemon.scrape().total("watchslo_api_requests_total") == asked
    assert len(daemon.log("config_refused")) == refused


def test_reload_watches_no_more_than_the_limit(reloaded: Reloaded) -> None:
    reloaded.write({"resource": "configmaps"}, {"resource": "pods"}, {"resource": "nodes"}, limits={"watches": 2})
    reloaded.until_watching("configmaps", "pods")
    successful = "watchslo_config_last_reload_successful"
    reloaded.daemon.until(lambda scrape: scrape.value(successful) == 1, "known")
    assert [entry["left_out"] for entry in reloaded.daemon.log("watches_limited")] == [1]
    reloaded.daemon.until_ready()


def test_custom_resource_is_watched_while_it_exists(reloaded: Reloaded, writer: Writer) -> None:
    daemon, gadgets, everything = reloaded.daemon, f"gadgets.{GROUP}", {"resource": "*"}
    limits = {"requestsPerSecond": 100}  # otherwise it takes half a minute to open them all
    reloaded.write(everything, exclude=["secrets", "events"], limits=limits)
    daemon.until_measuring("configmaps", "nodes", "deployments.apps")
    streams = daemon.streams()
    assert len(streams) > 30
    assert streams["configmaps"]["relists"]["start"] == 1, "the watch stays open, whichever entry requests it"
    assert not {gadgets, "secrets", "events", "events.events.k8s.io"} & streams.keys()

    writer.create(CRDS, crd("gadgets", "Gadget"))
    eventually(lambda: is_served(writer) and GROUP in writer.served(), "gadgets are served")
    # Discovery runs every few minutes and after each reload.
    reloaded.write(everything, exclude=["secrets", "events", "pods"], limits=limits)
    daemon.until_measuring(gadgets)
    assert "pods" not in reloaded.named()
    daemon.until_sampled(gadgets, 1, lambda n: writer.create(GADGETS, gadget(f"gadget-{n}")))

    writer.delete(f"{CRDS}/{gadgets}")
    eventually(lambda: not (is_served(writer) or GROUP in writer.served()), "gadgets are gone")
    reloaded.write(everything, exclude=["secrets", "events"], limits=limits)
    daemon.process.until(lambda: gadgets not in reloaded.named(), "it is dropped", every=0.1)
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


# The end


STOP_SECONDS = 60.0  # 1 s by the fake clock of the unit tests
GRACE_SECONDS = 0.3
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def daemon(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Daemon]:
    config = config_file(tmp_path, watch=[{"resource": "configmaps"}])
    with Daemon(tmp_path, "--config", config, "--kubeconfig", control_plane.kubeconfig()) as daemon:
        yield daemon


@contextlib.contextmanager
def connected(daemon: Daemon, said: bytes) -> Iterator[None]:
    """Open a client that sends `said` and then neither reads nor closes."""
    parts = urlsplit(daemon.url)
    with socket.create_connection((str(parts.hostname), int(parts.port or 0))) as client:
        client.settimeout(0)
        client.send(said)
        yield


def test_sigterm_ends_the_daemon_while_clients_hang(daemon: Daemon) -> None:
    daemon.until_ready()
    with connected(daemon, b""), connected(daemon, REQUEST[:-2]), connected(daemon, REQUEST * 1000):
        time.sleep(GRACE_SECONDS)  # the answers for the last client are waiting now
        daemon.process.signal(signal.SIGTERM)
        assert daemon.process.wait() == 0
    assert [entry["level"] for entry in daemon.log("stopped")] == ["info"]


def test_ctrl_c_during_the_start_exits_with_0(daemon: Daemon) -> None:
    daemon.process.signal(signal.SIGINT)
    assert daemon.process.wait() == 0
    assert len(daemon.log("stopped")) == 1


def test_second_signal_ends_the_daemon_without_shutdown(daemon: Daemon) -> None:
    """Two different signals, so that both arrive, and the second at the start of the shutdown."""
    with connected(daemon, REQUEST * 1000):
        daemon.process.signal(signal.SIGTERM)
        daemon.process.signal(signal.SIGINT)
        assert daemon.process.wait() == 130
    assert daemon.log("stopped") == []


# Several instances


WATCHES = ("configmaps", "nodes", "pods", "services", "deployments.apps", "leases.coordination.k8s.io")
PODS = "/api/v1/namespaces/default/pods"
NODE = "instances-node"
MOST_SERIES = 40
LONG_SECONDS = 600.0
OURS = "monitor_overloaded"  # true whenever this machine is late


def sharded(folder: Path, **shard: Any) -> Path:
    return config_file(folder, watch=[{"resource": name} for name in WATCHES], shard=shard)


def test_shards_watch_everything_once_and_one_takes_over(control_plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig, folders = control_plane.kubeconfig(), [tmp_path / f"watchslo-{index}" for index in range(2)]
    for folder in folders:
        folder.mkdir()
        sharded(folder, index="${POD_NAME}", count=2)
    first, second = (
        Daemon(
            folder,
            *("--config", folder / "watchslo.yaml", "--kubeconfig", kubeconfig),
            env=outside(POD_NAME=folder.name),
        )
        for folder in folders
    )
    with first, second:
        for daemon in (first, second):
            daemon.until_ready()
        mine = {*first.streams()}
        assert mine & {*second.streams()} == set()
        assert mine | {*second.streams()} == {*WATCHES}
        assert first.status()["monitor"]["shard"] == {"index": 0, "count": 2, "elsewhere": len(WATCHES) - len(mine)}
        assert [entry["watches"] for entry in first.log("sharded")] == [len(mine)]
        first.until_measuring(*mine)

        assert second.stop() == 0
        sharded(folders[0], index=0, count=1)
        first.until_measuring(*WATCHES)
        assert all(first.streams()[name]["relists"]["start"] == 1 for name in mine)
        assert not any(close["class"] == "own" for name in mine for close in first.streams()[name]["closed"])


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The configuration of an instance on a node."""
    return config_file(
        tmp_path,
        watch=[{"resource": "pods", "name": "my-node", "fieldSelector": "spec.nodeName=${NODE_NAME}"}],
        clock={"interval": "10s"},
        limits={"requestsPerSecond": 1, "auditsPerSecond": 0.01},
        metrics="proven",
        objective=LENIENT_OBJECTIVE,
    )


def test_instance_on_a_node_exposes_only_proven_figures(
    control_plane: ControlPlane, node: Path, tmp_path: Path
) -> None:
    arguments = ("--config", node, "--kubeconfig", control_plane.kubeconfig())
    with Daemon(tmp_path, *arguments, env=outside(NODE_NAME=NODE)) as daemon, control_plane.writer() as writer:
        daemon.until_measuring("my-node")
        writer.create(PODS, pod(f"{NODE}-none"))
        numbers = itertools.count()

        def are_judged() -> bool:
            """Keep writing, because events received by a late loop get no verdict."""
            made = pod(f"{NODE}-{next(numbers)}")
            writer.create(PODS, {**made, "spec": {**made["spec"], "nodeName": NODE}})
            return daemon.scrape().total("watchslo_slo_events_total", watch="my-node") >= 20

        daemon.process.until(are_judged, "20 events are judged", LOOK_SECONDS)
        scrape = daemon.scrape()
        assert scrape.value("watchslo_slo_events_total", watch="my-node", verdict="beyond") == 0
        ours = [line for line in scrape.text.splitlines() if line.startswith("watchslo_")]
        assert len(ours) <= MOST_SERIES
        stream = daemon.streams()["my-node"]
        assert (stream["latency"]["windows"], stream["latency"]["objective"]["windows"]) == ([], {})
        daemon.process.until(
            lambda: all(cause["cause"] == OURS for cause in daemon.status()["causes"]),  # slow ticks are no cause
            "nothing is said to be wrong",
            LOOK_SECONDS,
        )
        assert daemon.get("/")[0] == 200


def test_daemon_with_a_delayed_start_is_healthy_and_ends_with_0(control_plane: ControlPlane, tmp_path: Path) -> None:
    config = config_file(tmp_path, startDelay="1h")

    def started(number: int) -> Daemon:
        options = ("--config", config, "--kubeconfig", control_plane.kubeconfig())
        daemon = stack.enter_context(Daemon(tmp_path / f"{number}", *options))
        daemon.until_said("start_delayed")
        return daemon

    with contextlib.ExitStack() as stack:
        # The random delay may be shorter than this test: then another daemon with a longer delay is used.
        daemons = map(started, itertools.count())
        daemon = next(one for one in daemons if one.log("start_delayed")[0]["seconds"] > LONG_SECONDS)
        daemon.process.until(
            lambda: "The first request waits for" in daemon.get("/readyz")[1], "it waits", LOOK_SECONDS
        )
        assert daemon.scrape().total("watchslo_api_requests_total") == 0
        config_file(tmp_path, startDelay="1h", paused=True)
        daemon.process.until(lambda: "paused" in daemon.get("/readyz")[1], "it says that it is paused", LOOK_SECONDS)
        assert daemon.stop() == 0
