"""Many instances: shards that together watch everything once, one on each node, and none that begins at once."""

import contextlib
import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.daemon import LOOK_SECONDS, Daemon, config_file, outside
from tests.support.writer import pod

pytestmark = pytest.mark.patient

WATCHES = ("configmaps", "nodes", "pods", "services", "deployments.apps", "leases.coordination.k8s.io")
PODS = "/api/v1/namespaces/default/pods"
NODE = "instances-node"
MOST_SERIES = 40
RELOAD_SECONDS = 120.0  # 2 s when the machine is ours alone
STOP_SECONDS = 60.0
PROVEN_SECONDS = 240.0  # three probes, each between two ticks
JUDGED_SECONDS = 180.0
CALM_SECONDS = 180.0
LONG_SECONDS = 600.0
OURS = "monitor_overloaded"  # true wherever this machine is late


def sharded(folder: Path, **shard: Any) -> Path:
    return config_file(folder, watch=[{"resource": name} for name in WATCHES], shard=shard)


def test_shards_watch_everything_once_and_one_may_take_over(control_plane: ControlPlane, tmp_path: Path) -> None:
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

        assert second.stop(STOP_SECONDS) == 0
        sharded(folders[0], index=0, count=1)
        first.until_measuring(*WATCHES, timeout=2 * RELOAD_SECONDS)
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
    )


def test_one_on_a_node_tells_what_is_proven_and_no_more(
    control_plane: ControlPlane, node: Path, tmp_path: Path
) -> None:
    arguments = ("--config", node, "--kubeconfig", control_plane.kubeconfig())
    with Daemon(tmp_path, *arguments, env=outside(NODE_NAME=NODE)) as daemon, control_plane.writer() as writer:
        daemon.until_measuring("my-node", timeout=PROVEN_SECONDS)
        writer.create(PODS, pod(f"{NODE}-none"))
        numbers = itertools.count()

        def are_judged() -> bool:
            """Goes on writing: what a late loop receives is not judged."""
            made = pod(f"{NODE}-{next(numbers)}")
            writer.create(PODS, {**made, "spec": {**made["spec"], "nodeName": NODE}})
            return daemon.scrape().total("watchslo_slo_events_total", watch="my-node") >= 20

        daemon.process.until(are_judged, JUDGED_SECONDS, "20 events are judged", LOOK_SECONDS)
        scrape = daemon.scrape()
        assert scrape.value("watchslo_slo_events_total", watch="my-node", verdict="beyond") == 0
        ours = [line for line in scrape.text.splitlines() if line.startswith("watchslo_")]
        assert len(ours) <= MOST_SERIES
        stream = daemon.streams()["my-node"]
        assert (stream["latency"]["windows"], stream["latency"]["objective"]["windows"]) == ([], {})
        daemon.process.until(
            lambda: all(cause["cause"] == OURS for cause in daemon.status()["causes"]),  # slow ticks are no cause
            CALM_SECONDS,
            "nothing is said to be wrong",
            LOOK_SECONDS,
        )
        assert daemon.get("/")[0] == 200


def test_what_waits_for_its_start_is_well_and_ends_at_once(control_plane: ControlPlane, tmp_path: Path) -> None:
    config = config_file(tmp_path, startDelay="1h")

    def started(number: int) -> Daemon:
        options = ("--config", config, "--kubeconfig", control_plane.kubeconfig())
        daemon = stack.enter_context(Daemon(tmp_path / f"{number}", *options))
        daemon.until_said("start_delayed")
        return daemon

    with contextlib.ExitStack() as stack:
        # By chance it may wait no longer than this test takes: another one then waits for longer.
        daemons = map(started, itertools.count())
        daemon = next(one for one in daemons if one.log("start_delayed")[0]["seconds"] > LONG_SECONDS)
        daemon.process.until(
            lambda: "The first request waits for" in daemon.get("/readyz")[1], RELOAD_SECONDS, "it waits", LOOK_SECONDS
        )
        assert daemon.scrape().total("watchslo_api_requests_total") == 0
        config_file(tmp_path, startDelay="1h", paused=True)
        daemon.process.until(
            lambda: "paused" in daemon.get("/readyz")[1], RELOAD_SECONDS, "it says that it is paused", LOOK_SECONDS
        )
        assert daemon.stop(STOP_SECONDS) == 0
