"""What does a 410 cost me, and which list strategy avoids it? Rehearsals say it."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.control_plane import ControlPlane, write_kubeconfig
from tests.support.daemon import Simulator, watchslo
from tests.support.process import eventually
from tests.support.writer import configmap

OBJECTS = 1_100  # three pages
NAMESPACE = "rehearsed"
CONFIGMAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
WRITERS = 4
INFORMERS = ("paged", "parallel", "stream", "cache")
TURNED_OVER = {
    "cluster": {"window": 20},
    "objects": [{"resource": "pods", "count": 5000, "size": "full"}],
    "workload": [{"resource": "pods", "rate": 600}],
}


def fill(plane: ControlPlane) -> None:
    """Create a namespace with all objects."""
    with plane.writer() as writer:
        writer.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})

    def create(numbers: range) -> None:
        with plane.writer() as writer:
            for number in numbers:
                writer.create(CONFIGMAPS, configmap(f"rehearsed-{number}"))

    threads = [threading.Thread(target=create, args=(range(one, OBJECTS, WRITERS),)) for one in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.fixture(scope="module")
def full(control_plane: ControlPlane) -> ControlPlane:
    fill(control_plane)
    return control_plane


@pytest.fixture(scope="module")
def full_old(old_control_plane: ControlPlane) -> ControlPlane:
    fill(old_control_plane)
    return old_control_plane


def rehearsed(kubeconfig: Path, *arguments: str) -> dict[str, Any]:
    """Return the result of a rehearsal of one resource, from `-o json`."""
    done = watchslo("rehearse", *arguments, "--kubeconfig", kubeconfig, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    (answer,) = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def test_each_strategy_syncs_with_the_expected_requests(full: ControlPlane) -> None:
    answer = rehearsed(full.kubeconfig(), "configmaps", "-n", NAMESPACE)
    runs = {run["strategy"]: run for run in answer["runs"]}
    assert tuple(runs) == ("tail", *INFORMERS)
    assert answer["objects"] == OBJECTS
    assert all(run["synced"] is not None and run["by"] == name for name, run in runs.items())
    assert all(run["throttled"] == 0 and run["expired"] == {"list": 0, "watch": 0} for run in runs.values())
    assert [runs[name]["requests"] for name in runs] == [2, 4, 4, 1, 2]
    assert [runs[name]["pages"] for name in runs] == [1, 3, 3, 0, 1]
    assert runs["tail"]["objects"] == 0
    assert [runs[name]["objects"] for name in INFORMERS] == [OBJECTS] * len(INFORMERS)
    assert all(runs[name]["bytes"] > 100 * OBJECTS > runs["tail"]["bytes"] for name in INFORMERS)
    assert answer["use"] == "stream"


def test_apiserver_without_streamed_lists_falls_back_to_pages(full_old: ControlPlane) -> None:
    arguments = ("configmaps", "-n", NAMESPACE, "--strategy", "paged", "--strategy", "stream")
    answer = rehearsed(full_old.kubeconfig(), *arguments)
    paged, stream = answer["runs"]
    assert (stream["by"], stream["fellBack"], stream["requests"]) == ("paged", True, 5)
    assert stream["objects"] == paged["objects"] == OBJECTS
    assert answer["use"] == "paged"
    assert "(stream: fell back to pages, as the apiserver streams no lists)" in answer["why"]


@pytest.mark.parametrize(("plane", "pages"), [("full", "watch cache"), ("full_old", "etcd")])
def test_counters_of_the_apiserver_prove_where_lists_are_read(
    request: pytest.FixtureRequest, plane: str, pages: str
) -> None:
    expected = {"tail": pages, "paged": pages, "cache": "watch cache", "relist": "watch cache", "relist-paged": pages}
    chosen = [argument for name in expected for argument in ("--strategy", name)]
    kubeconfig, unproven = request.getfixturevalue(plane).kubeconfig(), {*expected}

    def proven() -> bool:
        """Rehearse once more: a list of another client at the same moment leaves nothing proven, or is counted too."""
        answer = rehearsed(kubeconfig, "configmaps", "-n", NAMESPACE, *chosen)
        sources = {run["strategy"]: run["source"] for run in answer["runs"]}
        assert all(run["apiserver"]["memoryAfter"] > 0 for run in answer["runs"])
        assert [run["objects"] for run in answer["runs"]] == [0, *[OBJECTS] * 4]
        for name, source in sources.items():
            if (source["evidence"], source["lists"]) == ("metrics", expected[name]):
                unproven.discard(name)
        return not unproven

    eventually(proven, "all sources are proven")


def test_rehearsal_excludes_the_paged_strategy_where_a_list_takes_longer_than_the_headroom(tmp_path: Path) -> None:
    with Simulator(tmp_path, "--config", json.dumps(TURNED_OVER)) as simulator:
        write_kubeconfig(tmp_path / "kubeconfig", {"server": simulator.url}, {})
        answer = rehearsed(tmp_path / "kubeconfig", "pods", "--strategy", "paged", "--strategy", "stream")
    paged, stream = answer["runs"]
    assert paged["expired"]["watch"] > 0
    assert stream["synced"] is not None
    assert answer["use"] == "stream"
    assert "(paged: 410 when the watch opened)" in answer["why"]
