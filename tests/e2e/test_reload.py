"""Reload: what happens to the watches when the configuration, the cluster or the number of instances changes?

And how does a daemon end?
"""

import contextlib
import itertools
import json
import re
import signal
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.daemon import (
    LENIENT_OBJECTIVE,
    LOOK_SECONDS,
    WATCHSLO,
    WRITE_SECONDS,
    Daemon,
    asking,
    config_file,
    outside,
    start_all,
)
from tests.support.process import PATIENCE_SECONDS, Process, eventually, until_equal
from tests.support.writer import StatusError, Writer, configmap, crd, pod

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "tests.watchslo.invalid"
GADGETS = f"/apis/{GROUP}/v1/namespaces/default/gadgets"
GADGET = f"gadgets.{GROUP}"


@pytest.fixture
def writer(control_plane: ControlPlane) -> Iterator[Writer]:
    with control_plane.writer() as writer:
        yield writer


def reload(folder: Path, *watches: dict[str, Any], **keys: Any) -> None:
    """Replace the configuration in a folder."""
    config_file(folder, watch=list(watches), **keys)


def until_watching(daemon: Daemon, *watches: str) -> None:
    """Wait until exactly these are watched."""

    def up() -> dict[str, bool]:
        return {name: stream["up"] for name, stream in daemon.watches_by_name().items()}

    until_equal(up, dict.fromkeys(watches, True), "watches that are up", LOOK_SECONDS)


def events(daemon: Daemon) -> float:
    return daemon.scrape().total("watchslo_watch_events_total", watch="configmaps")


def open_watches(writer: Writer, resource: str) -> int:
    """Return how many open watches of a resource the apiserver counts, including its own."""
    mine = re.findall(
        rf'^apiserver_longrunning_requests{{.*resource="{resource}".*verb="WATCH".*}} (\S+)$',
        writer.text("/metrics"),
        re.MULTILINE,
    )
    return int(sum(map(float, mine)))


def test_reload_changes_only_what_differs(control_plane: ControlPlane, writer: Writer, tmp_path: Path) -> None:
    configmaps, nodes = {"resource": "configmaps"}, {"resource": "nodes"}
    numbers = itertools.count()

    def write(_: int) -> None:
        writer.create(CONFIGMAPS, configmap(f"reload-{next(numbers)}"))

    reload(tmp_path, configmaps, {"resource": "pods"})
    arguments = ("--config", tmp_path / "watchslo.yaml", "--kubeconfig", control_plane.kubeconfig())
    with Daemon(tmp_path, *arguments) as daemon:
        daemon.until_measuring("configmaps", "pods")
        daemon.until_sampled("configmaps", 1, write)
        known = events(daemon)

        reload(tmp_path, configmaps | {"objective": {"threshold": "500ms", "events": {"target": 0.95}}}, nodes)
        until_watching(daemon, "configmaps", "nodes")
        assert events(daemon) >= known, "the figures of a watch that stays are kept"
        stream = daemon.watches_by_name()["configmaps"]
        assert stream["latency"]["objective"]["threshold"] == 0.5
        assert (stream["relists"]["start"], stream["closed"]) == (1, [])
        assert [entry["watch"] for entry in daemon.log("objective_changed")] == ["configmaps"]

        (tmp_path / "spoilt").write_text("watch: [\n")
        (tmp_path / "spoilt").replace(tmp_path / "watchslo.yaml")
        refused = daemon.until_said("config_refused")
        assert "watchslo.yaml:2: not YAML" in refused["message"]
        daemon.until(lambda scrape: scrape.value("watchslo_config_last_reload_successful") == 0, "a failed reload")
        assert daemon.status()["monitor"]["reloadSucceeded"] is False
        until_watching(daemon, "configmaps", "nodes")
        daemon.until_sampled("configmaps", daemon.samples("configmaps") + 1, write)

        before = open_watches(writer, "nodes")
        reload(tmp_path, configmaps, nodes, paused=True)
        eventually(lambda: open_watches(writer, "nodes") < before, "the apiserver sees the watch closed")
        until_watching(daemon)
        daemon.until_not_ready("Watching is paused.")
        assert len(daemon.log("config_refused")) == 1

        reload(tmp_path, configmaps)
        daemon.until_measuring("configmaps")
        daemon.until_ready()


def test_custom_resource_is_watched_while_it_exists(
    control_plane: ControlPlane, writer: Writer, tmp_path: Path
) -> None:
    def discover() -> None:
        """Change nothing: discovery runs every few minutes and at each reload."""
        daemon.process.signal(signal.SIGHUP)

    reload(tmp_path, {"resource": "*"}, exclude=["secrets", "events"], limits={"requestsPerSecond": 100})
    arguments = ("--config", tmp_path / "watchslo.yaml", "--kubeconfig", control_plane.kubeconfig())
    with Daemon(tmp_path, *arguments) as daemon:
        daemon.until_measuring("configmaps", "nodes", "deployments.apps")
        streams = daemon.watches_by_name()
        assert len(streams) > 30
        assert not {GADGET, "secrets", "events", "events.events.k8s.io"} & streams.keys()

        writer.create(CRDS, crd("gadgets", "Gadget"))
        eventually(lambda: is_served(writer) and GROUP in writer.served(), "gadgets are served")
        discover()
        daemon.until_measuring(GADGET)
        daemon.until_sampled(GADGET, 1, lambda n: writer.create(GADGETS, gadget(f"gadget-{n}")))

        writer.delete(f"{CRDS}/{GADGET}")
        eventually(lambda: not (is_served(writer) or GROUP in writer.served()), "gadgets are gone")
        discover()
        daemon.process.until(lambda: GADGET not in daemon.watches_by_name(), "it is dropped", LOOK_SECONDS)
        assert daemon.scrape().values("watchslo_watch_up", watch=GADGET) == []
        daemon.until_ready()


def gadget(name: str) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"name": name}}


def is_served(writer: Writer) -> bool:
    try:
        writer.revision(GADGETS)
    except StatusError:
        return False
    return True


# Several instances


WATCHES = ("configmaps", "nodes", "pods", "services", "deployments.apps", "leases.coordination.k8s.io")


def sharded(folder: Path, **shard: Any) -> Path:
    return config_file(folder, watch=[{"resource": name} for name in WATCHES], shard=shard)


def parts(document: Any) -> dict[str, Any]:
    """Return the rows of an overview by their parts."""
    return {row["part"]: row for row in document["instances"]}


def texts(document: Any) -> list[str]:
    return [finding["text"] for finding in document["findings"]]


@contextlib.contextmanager
def page_of_all(folder: Path, *urls: str) -> Iterator[tuple[Process, str]]:
    """Run `watchslo view` as a server; yield it with the URL of its document."""
    with Process(folder, "view", [WATCHSLO, "view", "--listen", "127.0.0.1:0", *urls]) as view:
        found = view.until(lambda: re.search(r"url=(http://[\d.:]+)/", view.err), "listening")
        yield view, f"{found[1]}/api/v1/overview"


def test_shards_divide_the_watches_and_one_takes_over(control_plane: ControlPlane, tmp_path: Path) -> None:
    def shard(name: str) -> Daemon:
        (tmp_path / name).mkdir()
        arguments = ("--config", sharded(tmp_path / name, index="${POD_NAME}", count=2))
        kubeconfig = ("--kubeconfig", control_plane.kubeconfig())
        return Daemon(tmp_path / name, *arguments, *kubeconfig, env=outside(POD_NAME=name))

    first, second = daemons = [shard(f"watchslo-{index}") for index in range(2)]
    with contextlib.ExitStack() as stack:
        start_all(stack, daemons)
        for daemon in daemons:
            daemon.until_ready()
            daemon.process.until(lambda: daemon.status()["verdict"], "judged", LOOK_SECONDS)  # noqa: B023 - used at once
        mine, others = {*first.watches_by_name()}, {*second.watches_by_name()}
        assert (mine & others, mine | others) == (set(), {*WATCHES})
        assert first.status()["monitor"]["shard"] == {"index": 0, "count": 2, "elsewhere": len(others)}
        first.until_measuring(*mine)
        assert "Only shard 2 of 2 is shown here" in second.answer("/")

        urls = [daemon.url for daemon in daemons]
        view, overview = stack.enter_context(page_of_all(tmp_path, *urls))

        def served() -> Any:
            with urllib.request.urlopen(overview, timeout=PATIENCE_SECONDS) as answer:
                return json.load(answer)

        view.until(lambda: len(parts(served())) == 2, "both are asked", LOOK_SECONDS)
        done = asking("view", "-o", "json", *urls)
        both = json.loads(done.stdout)
        assert parts(both).keys() == {"shard 1 of 2", "shard 2 of 2"}
        assert sum(row["watches"] for row in both["instances"]) == len(WATCHES)
        assert both["cluster"], "the name of the kubeconfig's context"

        assert second.stop() == 0
        gone = f"Cannot tell for shard 2 of 2 ({urls[1]}): the connection is refused; check that the daemon runs."
        done = asking("view", "-o", "json", *urls)
        document = json.loads(done.stdout)
        assert (done.returncode, document["verdict"]["level"]) == (3, "unknown")
        assert gone in texts(document)
        view.until(lambda: gone in texts(served()), "missed", LOOK_SECONDS)
        row = parts(served())["shard 2 of 2"]
        assert (row["level"], row["answers"], row["version"]) == ("unknown", False, both["instances"][0]["version"])

        sharded(tmp_path / "watchslo-0", index=0, count=1)
        first.until_measuring(*WATCHES)
        streams = first.watches_by_name()
        assert all(streams[name]["relists"]["start"] == 1 for name in mine)
        assert not any(close["class"] == "own" for name in mine for close in streams[name]["closed"])


# The end


NODE = "reload-node"
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextlib.contextmanager
def hanging(daemon: Daemon, *said: bytes) -> Iterator[None]:
    """Open clients that send something and then neither read nor close."""
    parts = urlsplit(daemon.url)
    with contextlib.ExitStack() as stack:
        for text in said:
            client = stack.enter_context(socket.create_connection((str(parts.hostname), int(parts.port or 0))))
            client.settimeout(0)
            client.send(text)
        daemon.answer("/metrics")  # it has read what was sent before
        yield


def test_instance_of_a_node_measures_and_ends_at_a_signal(
    control_plane: ControlPlane, writer: Writer, tmp_path: Path
) -> None:
    config = config_file(
        tmp_path,
        watch=[{"resource": "pods", "name": "my-node", "fieldSelector": "spec.nodeName=${NODE_NAME}"}],
        mode="node",
        objective=LENIENT_OBJECTIVE,
    )
    arguments = ("--config", config, "--kubeconfig", control_plane.kubeconfig())
    numbers = itertools.count()

    def is_judged() -> bool:
        """Write until an event is judged: one that meets a late loop is not."""
        made = pod(f"{NODE}-{next(numbers)}")
        writer.create(PODS, {**made, "spec": {**made["spec"], "nodeName": NODE}})
        return daemon.scrape().total("watchslo_slo_events_total", watch="my-node", verdict="within") > 0

    with Daemon(tmp_path, *arguments, env=outside(NODE_NAME=NODE)) as daemon:
        daemon.process.signal(signal.SIGINT)  # during the start
        assert daemon.process.wait() == 0
        assert len(daemon.log("stopped")) == 1

        daemon.process.start()
        daemon.process.until(lambda: len(daemon.log("listening")) == 2, "listening again")
        daemon.until_measuring("my-node")
        daemon.process.until(is_judged, "an event is judged", WRITE_SECONDS)
        with hanging(daemon, b"", REQUEST[:-2], REQUEST * 1000):
            assert daemon.stop() == 0
        assert [entry["level"] for entry in daemon.log("stopped")] == ["info"] * 2

        daemon.process.start()
        daemon.process.until(lambda: len(daemon.log("listening")) == 3, "listening again")
        with hanging(daemon, REQUEST * 1000):
            for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):  # both arrive at once
                daemon.process.signal(number)
            assert daemon.process.wait() == 130
        assert len(daemon.log("stopped")) == 2, "without shutdown"
