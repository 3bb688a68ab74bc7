import asyncio
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.progress import Progress

from tests.support.loop import START_SECONDS as BEGINNING
from tests.support.printed import Printed
from tests.unit.app.measured import Case, reorder
from tests.unit.monitor.cluster import Cluster, Door, because_of
from watchslo.app.check import CheckOptions, check
from watchslo.app.measurement import START_SECONDS, UNREACHABLE_SECONDS, _start_obstacle
from watchslo.errors import ConfigError
from watchslo.kube.credentials import ClusterPlace, PluginRun
from watchslo.model import Resource
from watchslo.snapshot import Snapshot
from watchslo.watch.failure import Failure, Reason

OPTIONS = CheckOptions(duration="20s", threshold=None, resources=("pods",))
TWO = replace(OPTIONS, resources=("pods", "nodes"))
LONG = replace(OPTIONS, duration="5m")
Check = Callable[..., Printed]
DOCUMENTED = [
    *("apiVersion", "at", "cluster", "part", "verdict", "level", "exitCode"),
    *("context", "server", "asked", "measured", "interrupted"),
    *("watches", "reactions", "clients", "guarantees", "causes", "notReady", "hints"),
]
DOCUMENTED_OF_A_WATCH = [
    *("watch", "apiserver", "resource", "group", "verdict", "condition", "threshold", "quantile"),
    *("events", "received", "undated"),
    *("p50", "p99", "p999", "judged", "state", "stalled", "down", "unproven", "failure"),
]


@pytest.fixture
def ask(measured_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Check:
    """Runs `watchslo check` while 10 pods change each second."""
    del measured_cluster

    def ask(options: CheckOptions = OPTIONS, output: str = "table", file: Path | None = None) -> Printed:
        code = check(file, None, None, options, output)  # type: ignore[arg-type]
        return Printed(code, *capsys.readouterr())

    return ask


def be_late(cluster: Cluster, _: object) -> None:
    cluster.late = 2.0


def close_nodes(cluster: Cluster, _: object) -> None:
    """Store objects in kine, perhaps, and have no time for nodes."""
    cluster.git_version, cluster.compacted = "v1.30.0+k3s1", 0
    cluster.fail(Reason.THROTTLED, "list", "nodes")


def freeze(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliver no more pods after ten seconds."""
    write = cluster.write
    written: list[Resource] = []

    def freezing(resource: Resource) -> int:
        written.append(resource)
        if len(written) == 100:
            cluster.frozen.add("pods")
        return write(resource)

    monkeypatch.setattr(cluster, "write", freezing)


def interrupt(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    write = cluster.write

    def interrupting(resource: Resource) -> int:
        if cluster.revision == 400:
            os.kill(os.getpid(), signal.SIGINT)
        return write(resource)

    monkeypatch.setattr(cluster, "write", interrupting)


def break_conversion(cluster: Cluster, _: object) -> None:
    for kind in ("list", "watch", "tick", "probe"):
        cluster.fail(Reason.CONVERSION, kind, "configmaps")


def discover_in_part(cluster: Cluster, _: object) -> None:
    cluster.stale.add("slow.example.com")


def hold_back(cluster: Cluster, _: object) -> None:
    cluster.hanging.add("watch")


def permit_one_namespace(cluster: Cluster, _: object) -> None:
    cluster.namespace = "mine"


CASES = {
    "prompt": Case(OPTIONS),
    "late": Case(OPTIONS, be_late),
    "reordered": Case(OPTIONS, reorder),
    "too-few-events": Case(replace(OPTIONS, threshold="250ms"), config="objective: {minutes: {minEvents: 1000}}"),
    "bounds-as-wide-as-two-ticks": Case(replace(OPTIONS, threshold="250ms")),
    "interrupted": Case(LONG, interrupt),
    "stalled": Case(TWO, freeze),
    "storage-unproven-and-one-closed": Case(TWO, close_nodes),
    "conversion-fails": Case(replace(OPTIONS, resources=("pods", "configmaps")), break_conversion),
    "watches-held-back": Case(OPTIONS, hold_back),
    "all-resources-of-a-part": Case(replace(OPTIONS, resources=("*",)), discover_in_part),
    "pods-next-to-an-unknown-group": Case(OPTIONS, discover_in_part),
    "one-namespace": Case(replace(OPTIONS, namespace="mine"), permit_one_namespace),
}


@pytest.mark.parametrize("name", CASES)
def test_output_matches_golden_file(
    name: str,
    ask: Check,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    golden: Callable[[str, str], None],
) -> None:
    case, file = CASES[name], tmp_path / "watchslo.yaml"
    file.write_text(case.config)
    case.prepare(cluster, monkeypatch)
    golden(f"check/{name}.txt", ask(case.options, file=file).transcript)


def test_check_refuses_metrics_proven(ask: Check, tmp_path: Path) -> None:
    file = tmp_path / "watchslo.yaml"
    file.write_text("mode: node\nclock: {interval: 10s}")
    with pytest.raises(ConfigError, match="mode: node has no quantile to judge; remove it"):
        ask(file=file)


def test_first_line_names_context_and_server(ask: Check, place: list[ClusterPlace]) -> None:
    place.append(ClusterPlace("prod", "https://me:pw@prod.example.com:6443"))
    assert ask().text.startswith("Context prod: https://prod.example.com:6443\n")
    answer = ask(output="json").document
    assert (answer["context"], answer["server"]) == ("prod", "https://prod.example.com:6443")


def test_violated_guarantee_is_bad_next_to_a_good_verdict(
    ask: Check, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    reorder(cluster, monkeypatch)
    answer = ask(output="json").document
    assert (answer["verdict"], answer["level"]) == ("good", "bad")
    found = {one["guarantee"]: one for one in answer["guarantees"]}
    assert [name for name, one in found.items() if one["violations"]] == ["ordered"]
    assert found["ordered"]["watches"] == ["pods"]
    assert found["ordered"]["checked"] > 2 * found["ordered"]["violations"], "the first ones are not dated yet"


def test_watch_is_judged_by_its_quantile_over_the_measured_period(ask: Check, tmp_path: Path) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_text("objective: {minutes: {quantile: 0.5, window: 10s}}")
    (pods,) = ask(replace(OPTIONS, duration="90s"), "json", path).document["watches"]
    assert pods["quantile"] == 0.5
    assert pods["judged"] == pods["p50"]
    assert pods["events"] >= 850


def test_json_contains_causes(ask: Check, cluster: Cluster) -> None:
    cluster.late = 2.0
    answer = ask(replace(OPTIONS, duration="40s"), "json").document
    assert (answer["verdict"], answer["level"]) == ("late", "bad")
    assert [set(cause) for cause in answer["causes"]] == [
        {"cause", "apiserver", "watch", "confidence", "since", "heading", "evidence", "next"}
    ]


def test_json_has_the_seconds_of_a_stall(ask: Check, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    freeze(cluster, monkeypatch)
    answer = ask(TWO, "json").document
    nodes, pods = answer["watches"]
    assert (answer["verdict"], pods["verdict"], nodes["stalled"]) == ("stalled", "not measured", None)
    assert pods["stalled"] > 1.0


def test_json_document_has_documented_keys(ask: Check, cluster: Cluster) -> None:
    cluster.git_version, cluster.compacted = "v1.30.0+k3s1", 0
    cluster.fail(Reason.FORBIDDEN, "list", "nodes")
    printed = ask(replace(TWO, threshold="500ms"), "json")
    answer = printed.document
    assert list(answer) == DOCUMENTED
    assert (answer["apiVersion"], answer["verdict"], answer["exitCode"], printed.code) == ("v1", "down", 3, 3)
    assert (answer["asked"], answer["measured"], answer["interrupted"]) == (20.0, 20.0, False)
    assert answer["at"].endswith("+00:00")
    assert any("may not list and watch nodes" in hint for hint in answer["hints"])
    nodes, pods = answer["watches"]
    assert list(pods) == DOCUMENTED_OF_A_WATCH
    assert pods["verdict"] == "within"
    assert pods["threshold"] == 0.5
    assert pods["events"] > 100
    assert 0 <= pods["p99"]["lower"] <= pods["p99"]["estimate"] <= pods["p99"]["upper"]
    assert 0 < pods["p99"]["resolution"] < 1.0
    assert pods["unproven"].startswith("k3s stores objects in etcd or in kine")
    assert pods["stalled"] is None
    assert (nodes["verdict"], nodes["p99"], nodes["state"]) == ("not measured", None, "away")
    assert nodes["failure"] == "This identity may not list the resource; grant it."


@pytest.mark.parametrize("said", ["[/red] [bold]", ":boom:", "Connection refused by http://10.0.0.1"])
def test_message_of_an_apiserver_is_shown_as_it_is_also_while_the_start_waits(
    ask: Check, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """It is no markup; and a user can fix what it says within the half minute of waiting."""
    cluster.failures["*", "*"] = replace(because_of(Reason.REFUSED), message=said)
    printed = ask()
    assert (printed.code, said in printed.text) == (3, True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("watchslo.app.measurement.Progress", AtOnce)
    assert said in ask().errors


class AtOnce(Progress):
    """Draws each change at once, although no time passes."""

    def update(self, *given: Any, **changes: Any) -> None:
        super().update(*given, **changes, refresh=True)


@pytest.mark.parametrize(
    ("reason", "most_seconds"),
    [
        (Reason.REFUSED, UNREACHABLE_SECONDS + 1),
        (Reason.FORBIDDEN, UNREACHABLE_SECONDS / 2),
        (Reason.CREDENTIALS, UNREACHABLE_SECONDS / 2),
    ],
)
def test_failure_ends_the_wait_for_the_start(ask: Check, cluster: Cluster, reason: Reason, most_seconds: float) -> None:
    cluster.fail(reason)
    assert ask(LONG).code == 3
    assert time.monotonic() - BEGINNING < most_seconds, "there was nothing to wait for"


def test_cluster_that_answers_after_seconds_is_waited_for(
    ask: Check, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An apiserver may be restarting."""
    cluster.fail(Reason.REFUSED)

    def look(_: Snapshot) -> str:
        if cluster.failures and time.monotonic() - BEGINNING > UNREACHABLE_SECONDS / 2:
            cluster.fail(None)
        return "starting"

    monkeypatch.setattr("watchslo.app.measurement._start_obstacle", look)
    assert "being discovered" not in ask(replace(OPTIONS, duration="5s")).text


def test_login_by_a_plugin_is_waited_for_and_named(
    ask: Check, plugin: PluginRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin.command = "kubelogin"
    obstacles: list[str] = []
    document = Door.document

    async def answer(door: Door, path: str, accept: str = "") -> bytes | Failure:
        if plugin.command:
            await asyncio.sleep(2 * START_SECONDS)
            plugin.command = None
        return await document(door, path, accept)

    def look(snapshot: Snapshot) -> str:
        obstacles.append(_start_obstacle(snapshot))
        return obstacles[-1]

    monkeypatch.setattr(Door, "document", answer)
    monkeypatch.setattr("watchslo.app.measurement._start_obstacle", look)
    assert ask().code == 0
    assert obstacles[0] == "Waiting for credentials of the exec plugin kubelogin."


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"duration": "60"}, "--duration: 60 has no unit"),
        ({"duration": "1s"}, "--duration: 1s is out of range; write 5s to 5m"),
        ({"duration": "6m"}, "--duration: 6m is out of range"),
        ({"namespace": "No"}, "--namespace: No is not a namespace"),
        ({"namespace": "mine", "resources": ()}, "--namespace: it is for resources that are named; name some"),
        ({"resources": ("podz",)}, "RESOURCE: the apiserver serves no resource podz; did you mean pods"),
    ],
)
def test_unusable_options_are_refused(ask: Check, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        ask(replace(OPTIONS, **changes))


def test_unknown_resource_in_configuration_names_the_file(ask: Check, tmp_path: Path) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_text("watch: [{resource: podz}]")
    with pytest.raises(ConfigError, match=f"^{path}: watch: the apiserver serves no resource podz"):
        ask(replace(OPTIONS, resources=()), file=path)
