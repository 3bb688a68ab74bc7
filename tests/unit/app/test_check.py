import asyncio
import json
import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.progress import Progress

from tests.support.loop import START_SECONDS as BEGINNING
from tests.unit.monitor.cluster import Cluster, Door, line
from watchslo.app.check import CheckOptions, check
from watchslo.app.measurement import START_SECONDS, UNREACHABLE_SECONDS, _start_obstacle
from watchslo.errors import ConfigError
from watchslo.kube.credentials import ClusterPlace, PluginRun
from watchslo.model import Resource
from watchslo.snapshot import Snapshot
from watchslo.watch.failure import Failure, Reason

OPTIONS = CheckOptions(duration="20s", threshold=None, resources=("pods",))
Check = Callable[..., int]
DOCUMENTED = [
    *("apiVersion", "at", "cluster", "part", "verdict", "level", "exitCode"),
    *("context", "server", "asked", "measured", "interrupted"),
    *("watches", "guarantees", "causes", "notReady", "hints"),
]
DOCUMENTED_OF_A_WATCH = [
    *("watch", "apiserver", "resource", "group", "verdict", "condition", "threshold", "quantile"),
    *("events", "received", "undated"),
    *("p50", "p99", "p999", "judged", "state", "stalled", "down", "unproven", "failure"),
]


@pytest.fixture
def ask(measured_cluster: Cluster) -> Check:
    """Runs `watchslo check` while 10 pods change each second."""
    del measured_cluster

    def ask(options: CheckOptions = OPTIONS, output: str = "table", file: Path | None = None) -> int:
        return check(file, None, None, options, output)  # type: ignore[arg-type]

    return ask


def test_check_refuses_metrics_proven(ask: Check, tmp_path: Path) -> None:
    file = tmp_path / "watchslo.yaml"
    file.write_text("metrics: proven\nclock: {interval: 10s}")
    with pytest.raises(ConfigError, match="metrics: proven has no quantile to judge; remove it"):
        ask(file=file)


def test_prompt_events_exit_with_0(ask: Check, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask() == 0
    heading, line, *doubts, said = capsys.readouterr().out.splitlines()
    assert heading.split() == ["WATCH", "EVENTS", "P50", "P99", "P99", "BOUNDS"]
    assert line.split()[0] == "pods"
    assert line.rstrip().endswith("within")
    assert [doubt.split(" is ")[0] for doubt in doubts] in ([], ["The P99 of pods"]), "less than the round trip"
    assert said == "pods is within 1 s."


def test_first_line_names_context_and_server(
    ask: Check, place: list[ClusterPlace], capsys: pytest.CaptureFixture[str]
) -> None:
    place.append(ClusterPlace("prod", "https://me:pw@prod.example.com:6443"))
    assert ask() == 0
    assert capsys.readouterr().out.splitlines()[0] == "Context prod: https://prod.example.com:6443"
    assert ask(output="json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["context"], answer["server"]) == ("prod", "https://prod.example.com:6443")


def test_late_events_exit_with_1(ask: Check, cluster: Cluster) -> None:
    cluster.late = 2.0
    assert ask() == 1


def test_violated_guarantee_exits_with_1(
    ask: Check, cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each event an old one arrives."""
    send = cluster.send
    monkeypatch.setattr(cluster, "send", lambda resource, content: send(resource, content + line("MODIFIED", 1)))
    assert ask() == 1
    *_, violated, said = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"Guarantee ordered violated by \d+ events of pods, in \d+ checks\.", violated)
    assert said == "pods is within 1 s."
    assert ask(output="json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["verdict"], answer["level"]) == ("good", "bad")
    found = {one["guarantee"]: one for one in answer["guarantees"]}
    assert [name for name, one in found.items() if one["violations"]] == ["ordered"]
    assert found["ordered"]["watches"] == ["pods"]
    assert found["ordered"]["checked"] > 2 * found["ordered"]["violations"], "the first ones are not dated yet"


def test_too_few_events_exit_with_2(ask: Check, tmp_path: Path) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_text("objective: {minutes: {minEvents: 1000}}")
    assert ask(replace(OPTIONS, threshold="250ms"), file=path) == 2


def test_undecided_watch_exits_with_2(ask: Check, capsys: pytest.CaptureFixture[str]) -> None:
    """The bounds are as wide as the gap between two ticks, half a second."""
    assert ask(replace(OPTIONS, threshold="250ms")) == 2
    said = capsys.readouterr().out
    assert "No watch is proven late, but pods cannot be judged; pods: P99 bounds 0 to 500 ms" in said
    assert "pods cannot be judged, because the threshold lies between the proven bounds" in said


def test_watch_is_judged_by_its_quantile_over_the_measured_period(
    ask: Check, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_text("objective: {minutes: {quantile: 0.5, window: 10s}}")
    assert ask(replace(OPTIONS, duration="90s"), "json", path) == 0
    (pods,) = json.loads(capsys.readouterr().out)["watches"]
    assert pods["quantile"] == 0.5
    assert pods["judged"] == pods["p50"]
    assert pods["events"] >= 850


def test_interrupt_prints_the_figures_so_far(
    ask: Check, capsys: pytest.CaptureFixture[str], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = cluster.write

    def interrupt(resource: Resource) -> int:
        if cluster.revision == 400:
            os.kill(os.getpid(), signal.SIGINT)
        return write(resource)

    monkeypatch.setattr(cluster, "write", interrupt)
    assert ask(replace(OPTIONS, duration="5m")) == 0
    assert cluster.revision < 450
    said = capsys.readouterr().out.splitlines()
    assert said[1].split()[0] == "pods"
    assert re.fullmatch(r"Interrupted: these are the figures of (2\d|3\d) s\.", said[-2]), said


def test_json_contains_causes(ask: Check, capsys: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    cluster.late = 2.0
    assert ask(replace(OPTIONS, duration="40s"), "json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["verdict"], answer["level"]) == ("late", "bad")
    assert [set(cause) for cause in answer["causes"]] == [
        {"cause", "apiserver", "watch", "confidence", "since", "evidence", "next"}
    ]


def test_stalled_watch_exits_with_1(
    ask: Check, capsys: pytest.CaptureFixture[str], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = cluster.write
    written: list[Resource] = []

    def freeze(resource: Resource) -> int:
        written.append(resource)
        if len(written) == 100:
            cluster.frozen.add("pods")
        return write(resource)

    monkeypatch.setattr(cluster, "write", freeze)
    assert ask(replace(OPTIONS, resources=("pods", "nodes")), "json") == 1
    answer = json.loads(capsys.readouterr().out)
    nodes, pods = answer["watches"]
    assert nodes["stalled"] is None
    assert pods["stalled"] > 1.0
    assert (pods["verdict"], answer["verdict"]) == ("not measured", "stalled")
    assert any(hint.startswith("pods has withheld events for") for hint in answer["hints"])


def test_json_document_has_documented_keys(ask: Check, capsys: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    cluster.git_version, cluster.compacted = "v1.30.0+k3s1", 0
    cluster.fail(Reason.FORBIDDEN, "list", "nodes")
    assert ask(replace(OPTIONS, resources=("pods", "nodes"), threshold="500ms"), "json") == 2
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == DOCUMENTED
    assert (answer["apiVersion"], answer["verdict"], answer["exitCode"]) == ("v1", "down", 2)
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


def test_output_names_unproven_storage_and_closed_watches(
    ask: Check, capsys: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    cluster.git_version, cluster.compacted = "v1.30.0+k3s1", 0
    cluster.fail(Reason.THROTTLED, "list", "nodes")
    assert ask(replace(OPTIONS, resources=("pods", "nodes"))) == 1
    said = capsys.readouterr().out
    assert "1 of 2 watches cannot be kept open since " in said
    assert "Unproven: k3s stores objects in etcd or in kine" in said
    assert "Not open: nodes. The apiserver is too busy." in said


@pytest.mark.parametrize("said", ["[/red] [bold]", ":boom:"])
def test_messages_of_apiservers_are_not_markup(
    ask: Check, capsys: pytest.CaptureFixture[str], cluster: Cluster, said: str
) -> None:
    cluster.failures["*", "*"] = replace(_refused(), message=said)
    assert ask() == 2
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("said", ["[/red] [bold]", "Connection refused by http://10.0.0.1"])
def test_progress_shows_why_the_start_waits(
    ask: Check, capsys: pytest.CaptureFixture[str], cluster: Cluster, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """So that a user can fix it within the half minute of waiting."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("watchslo.app.measurement.Progress", AtOnce)
    cluster.failures["*", "*"] = replace(_refused(), message=said)
    assert ask() == 2
    assert said in capsys.readouterr().err


class AtOnce(Progress):
    """Draws each change at once, although no time passes."""

    def update(self, *given: Any, **changes: Any) -> None:
        super().update(*given, **changes, refresh=True)


def test_unreachable_cluster_exits_with_2_without_waiting_for_the_start(ask: Check, cluster: Cluster) -> None:
    cluster.fail(Reason.REFUSED)
    assert ask(replace(OPTIONS, duration="5m")) == 2
    assert time.monotonic() - BEGINNING < UNREACHABLE_SECONDS + 1, "there was nothing to wait for"


@pytest.mark.parametrize("reason", [Reason.FORBIDDEN, Reason.CREDENTIALS])
def test_refusal_is_not_waited_for(ask: Check, cluster: Cluster, reason: Reason) -> None:
    cluster.fail(reason)
    assert ask(replace(OPTIONS, duration="5m")) == 2
    assert time.monotonic() - BEGINNING < UNREACHABLE_SECONDS / 2


def test_cluster_that_answers_after_seconds_is_waited_for(
    ask: Check, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An apiserver may be restarting."""
    cluster.fail(Reason.REFUSED)

    def look(_: Snapshot) -> str:
        if cluster.failures and time.monotonic() - BEGINNING > UNREACHABLE_SECONDS / 2:
            cluster.fail(None)
        return "starting"

    monkeypatch.setattr("watchslo.app.measurement._start_obstacle", look)
    ask(replace(OPTIONS, duration="5s"))
    assert "being discovered" not in capsys.readouterr().out


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
    assert ask() == 0
    assert obstacles[0] == "Waiting for credentials of the exec plugin kubelogin."


@pytest.mark.parametrize(
    ("duration", "message"),
    [
        ("60", "--duration: 60 has no unit"),
        ("1s", "--duration: 1s is out of range; write 5s to 5m"),
        ("6m", "--duration: 6m is out of range"),
    ],
)
def test_invalid_duration_is_refused(ask: Check, duration: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ask(replace(OPTIONS, duration=duration))


def test_rights_in_one_namespace_suffice(ask: Check, cluster: Cluster) -> None:
    cluster.namespace = "mine"
    assert ask(replace(OPTIONS, namespace="mine")) == 0
    assert {"mine"} < {*cluster.asked_in["tick"], "default"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"namespace": "No"}, "^--namespace: No is not a namespace"),
        ({"namespace": "mine", "resources": ()}, "^--namespace: it is for the resources that --resource names"),
    ],
)
def test_unusable_namespace_is_refused(ask: Check, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ask(replace(OPTIONS, **changes))


@pytest.mark.parametrize(("resource", "is_named"), [("*", True), ("pods", False)])
def test_group_that_is_not_known_is_named_if_all_is_to_be_measured(
    ask: Check, cluster: Cluster, capsys: pytest.CaptureFixture[str], resource: str, *, is_named: bool
) -> None:
    cluster.stale.add("slow.example.com")
    ask(replace(OPTIONS, resources=(resource,)))
    assert ("Not all resources of slow.example.com/v1 are measured." in capsys.readouterr().out) is is_named


def test_unknown_resource_names_the_option(ask: Check) -> None:
    with pytest.raises(ConfigError, match=r"^--resource: the apiserver serves no resource podz; did you mean pods"):
        ask(replace(OPTIONS, resources=("podz",)))


def test_unknown_resource_in_configuration_names_the_file(ask: Check, tmp_path: Path) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_text("watch: [{resource: podz}]")
    with pytest.raises(ConfigError, match=f"^{path}: watch: the apiserver serves no resource podz"):
        ask(replace(OPTIONS, resources=()), file=path)


def _refused() -> Any:
    made = Cluster()
    made.fail(Reason.REFUSED)
    return made.failures["*", "*"]


def test_webhook_that_fails_for_one_resource_is_named_and_the_others_are_measured(
    ask: Check, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("list", "watch", "tick", "probe"):
        cluster.fail(Reason.CONVERSION, kind, "configmaps")
    assert ask(replace(OPTIONS, resources=("pods", "configmaps"))) == 1
    said = capsys.readouterr().out
    assert re.search(r"^configmaps +0 .* closed \(relisting\)", said, re.MULTILINE)
    assert re.search(r"^pods +\d+ .* within", said, re.MULTILINE)
    assert "Not open: configmaps. The conversion webhook of the CRD fails" in said


def test_proxy_that_holds_watches_back_is_the_reason(
    ask: Check, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.hanging.add("watch")
    assert ask() == 2
    assert "Lists are answered, but not the watch: a proxy on the way may hold it back" in capsys.readouterr().out
