"""Rehearsals against real apiservers, and against a simulated one whose history turns over during a list."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.control_plane import HOST, ControlPlane, write_kubeconfig
from tests.support.daemon import WATCHSLO, Simulator, watchslo
from tests.support.writer import configmap

OBJECTS = 1_100  # three pages
NAMESPACE = "rehearsed"
CONFIGMAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
WRITERS = 4
INFORMERS = ("paged", "parallel", "stream", "cache")
pytestmark = pytest.mark.timeout(300)
TURNED_OVER = {
    "cluster": {"window": 20},
    "objects": [{"resource": "pods", "count": 5000, "size": "full"}],
    "workload": [{"resource": "pods", "rate": 600}],
}


def fill(plane: ControlPlane) -> None:
    """Makes a namespace with all the objects."""
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


@pytest.fixture(scope="module", autouse=True)
def turned_over(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """A rehearsal where no list is as fast as history passes: that takes long, and goes on beside the others."""
    folder = tmp_path_factory.mktemp("turned-over")
    kubeconfig = folder / "kubeconfig"
    options = ("--strategy", "paged", "--strategy", "stream", "-o", "json")
    command: list[str | Path] = [WATCHSLO, "rehearse", "pods", *options, "--kubeconfig", kubeconfig]
    with Simulator(folder, "--config", json.dumps(TURNED_OVER)) as simulator:
        write_kubeconfig(kubeconfig, {"server": simulator.url}, {})
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as rehearsing:
            yield rehearsing
            rehearsing.kill()


def rehearsed(kubeconfig: Path, *arguments: str) -> dict[str, Any]:
    """What a rehearsal of one resource says, by `-o json`."""
    done = watchslo("rehearse", *arguments, "--kubeconfig", kubeconfig, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    (answer,) = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def test_each_strategy_is_synced_and_costs_what_it_should(full: ControlPlane) -> None:
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


def test_several_resources_side_by_side(full: ControlPlane) -> None:
    done = watchslo(
        *("rehearse", "configmaps", "namespaces", "--strategy", "paged", "--repeat", "2"),
        *("--kubeconfig", full.kubeconfig()),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Use paged. ") == 2
    assert "in 2 of 2 runs" in done.stdout
    assert "namespaces, " in done.stdout
    assert NAMESPACE not in done.stdout, "no object is named"


def test_an_apiserver_that_streams_no_lists(full_old: ControlPlane) -> None:
    arguments = ("configmaps", "-n", NAMESPACE, "--strategy", "paged", "--strategy", "stream")
    answer = rehearsed(full_old.kubeconfig(), *arguments)
    paged, stream = answer["runs"]
    assert (stream["by"], stream["fellBack"], stream["requests"]) == ("paged", True, 5)
    assert stream["objects"] == paged["objects"] == OBJECTS
    assert answer["use"] == "paged"
    assert "(stream: fell back to pages, as the apiserver streams no lists)" in answer["why"]


def test_more_objects_than_are_to_be_listed(full: ControlPlane) -> None:
    done = watchslo(
        *("rehearse", "configmaps", "-n", NAMESPACE, "--max-objects", "1000", "--kubeconfig", full.kubeconfig())
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "watchslo: configmaps: there are 1,100 objects, and each rehearsal lists them all; "
        "say --max-objects 1100 if the apiserver can bear that\n"
    )


@pytest.mark.parametrize(("granted", "missing"), [(["list"], "watch"), (["watch"], "list")])
def test_a_right_that_is_missing(full: ControlPlane, granted: list[str], missing: str) -> None:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": granted}
    token = full.service_account(f"may-only-{granted[0]}", rule)
    kubeconfig = full.kubeconfig(f"may-only-{granted[0]}", user={"token": token})
    done = watchslo("rehearse", "configmaps", "--kubeconfig", kubeconfig)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"watchslo: configmaps: This identity may not {missing} the resource; grant it.")
    assert done.stderr.count("\n") == 1


def test_a_resource_that_is_not_there(full: ControlPlane) -> None:
    done = watchslo("rehearse", "configmapz", "--kubeconfig", full.kubeconfig())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("watchslo: the apiserver serves no resource configmapz; did you mean configmaps?\n")


def test_no_apiserver(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, {"server": f"http://{HOST}:1"}, {})
    done = watchslo("rehearse", "pods", "--kubeconfig", kubeconfig)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"watchslo: Connection refused by http://{HOST}:1;")


def test_ctrl_c_shows_what_there_is(full: ControlPlane) -> None:
    """Once the bar, on a terminal, has come to the second strategy."""
    terminal, stderr = pty.openpty()
    options = ("--repeat", "100", "--kubeconfig", full.kubeconfig())
    command: list[str | Path] = [WATCHSLO, "rehearse", "namespaces", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as rehearsing:
        os.close(stderr)
        shown = b""
        while b"namespaces: paged" not in shown:
            shown += os.read(terminal, 65536)
        rehearsing.send_signal(signal.SIGINT)
        shown += _drain(terminal)
        out, _ = rehearsing.communicate(timeout=60)
    assert (rehearsing.returncode, b"Traceback" in shown) == (130, False)
    shown_strategies = out.splitlines()[1].split()  # all that ended meanwhile
    assert shown_strategies == ["tail", *INFORMERS][: len(shown_strategies)]
    assert shown_strategies
    assert out.endswith("No verdict: this is only what was rehearsed before it ended.\n")


def _drain(terminal: int) -> bytes:
    """All that is still said until the other side is closed, which terminals tell by an error."""
    said = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(terminal, 65536):
            said += chunk
    os.close(terminal)
    return said


def test_history_that_turns_over_during_a_list(turned_over: subprocess.Popen[str]) -> None:
    out, err = turned_over.communicate(timeout=180)
    assert (turned_over.returncode, err) == (0, "")
    (answer,) = json.loads(out)
    paged, stream = answer["runs"]
    assert paged["expired"]["watch"] > 0
    assert stream["synced"] is not None
    assert answer["use"] == "stream"
    assert "(paged: 410 when the watch should start)" in answer["why"]
