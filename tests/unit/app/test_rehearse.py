"""`watchslo rehearse` against a cluster in memory: its output, its errors, and interruptions."""

import json
import os
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.app.conftest import Run
from tests.unit.monitor.cluster import PODS, Cluster, Door, Log, because_of, nowhere
from watchslo.app.rehearse import RehearseOptions, rehearse
from watchslo.app.session import INTERRUPTED
from watchslo.cli import STRATEGIES as NAMES
from watchslo.errors import ConfigError, ConnectError
from watchslo.kube.client import Page
from watchslo.model import SERVICE
from watchslo.monitor.rehearsal import PATIENCE_SECONDS, Rehearsal, count_objects
from watchslo.timeline.format import ABSENT
from watchslo.watch.failure import ENDED, Failure, Phase, Reason, because
from watchslo.watch.strategy import STRATEGIES

OPTIONS = RehearseOptions(("pods",), None, ("tail", "paged"), repeat=1, max_objects=25_000)
OBJECTS = 6
RUN = Rehearsal(
    strategy="stream",
    by="stream",
    synced=0.5,
    requests=1,
    pages=0,
    objects=OBJECTS,
    size=1000,
    events=0,
    waiting=0,
    throttled=0,
    expired_lists=0,
    expired_watches=0,
    fell_back=False,
    failure=None,
)
Rehearse = Callable[..., int]


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The number of objects that the cluster reports for each path."""
    counts: dict[str, int] = {}
    document = Door.document

    async def census(door: Door, path: str, accept: str = "") -> bytes | Failure:
        if not path.endswith("?limit=1"):
            return await document(door, path, accept)
        path = path.removesuffix("?limit=1")
        count = counts.get(path, OBJECTS)
        failure = await door._answer("list", path.rpartition("/")[2])
        metadata = {"resourceVersion": "100"} | ({"remainingItemCount": count - 1} if count > 1 else {})
        return failure or json.dumps({"metadata": metadata, "items": [{}] if count else []}).encode()

    monkeypatch.setattr(Door, "document", census)
    return counts


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, run_jumping: Run, log: Log, objects: dict[str, int]) -> Rehearse:
    del log, objects

    monkeypatch.setattr("watchslo.app.rehearse.run_on_loop", run_jumping)
    monkeypatch.setattr("watchslo.app.rehearse.connect", lambda *_: nowhere())
    monkeypatch.setattr("watchslo.app.rehearse.random", lambda: 0.5)
    monkeypatch.setattr("watchslo.app.logs.set_up", lambda *_: None)
    monkeypatch.setenv("COLUMNS", "160")

    def ask(options: RehearseOptions = OPTIONS, output: str = "table") -> int:
        return rehearse(None, None, options, output)  # type: ignore[arg-type]

    return ask


def test_cli_offers_all_strategies() -> None:
    assert tuple(STRATEGIES) == NAMES


def test_output_is_a_table_and_a_recommendation(ask: Rehearse, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask() == 0
    title, headings, *rows, headroom, verdict = capsys.readouterr().out.splitlines()
    assert title == "pods, 6 objects"
    assert headings.split() == ["tail", "paged"]
    assert [" ".join(row.split()) for row in rows] == [
        "synced in 4 ms 6 ms",
        "requests 2 3",
        "pages 1 2",
        "objects 3 6",
        "size 1.0 kB 2.0 kB",
        "events while listing 0 0",
        f"peak buffer {ABSENT} {ABSENT}",
        "answers 429 0 0",
        "answers 410 0 0",
        "watch from there started started",
    ]
    assert (
        headroom
        == "The headroom is at least 4.02 s (99 revisions) and still grows: the apiserver dropped no change during the "
        "rehearsals."
    )
    assert verdict == (
        "Use paged. 6 objects came in 2 pages in 6 ms, and the watch could start from the list's revision. "
        "With so few objects, all strategies cost about the same."
    )


@pytest.mark.usefixtures("changing")
def test_json_contains_runs(ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    expire_first_watch(cluster)
    assert ask(replace(OPTIONS, strategies=("paged",), repeat=2), "json") == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert (answer["resource"], answer["group"], answer["objects"]) == ("pods", "", OBJECTS)
    assert answer["use"] is None
    assert answer["why"] == "No strategy synced in each run without a 410."
    first, second = answer["runs"]
    assert first["synced"] > 1
    assert first["expired"] == {"list": 0, "watch": 1}
    assert (first["requests"], first["pages"], first["bytes"]) == (6, 4, 4000)
    assert second == {
        "strategy": "paged",
        "by": "paged",
        "synced": pytest.approx(0.006),
        "requests": 3,
        "pages": 2,
        "objects": OBJECTS,
        "bytes": 2000,
        "events": 0,
        "buffer": 0,
        "throttled": 0,
        "expired": {"list": 0, "watch": 0},
        "fellBack": False,
        "failure": None,
    }


@pytest.mark.usefixtures("changing")
def test_json_contains_headroom(ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    cluster.oldest = 60
    when_a_watch_opens(cluster, lambda: setattr(cluster, "oldest", 70))
    assert ask(replace(OPTIONS, strategies=("paged",), repeat=2), "json") == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["history"] == {
        "oldest": 70,
        "revisions": 34,
        "seconds": {"lower": pytest.approx(3.02, abs=0.01), "about": pytest.approx(25.7, abs=0.1), "upper": None},
        "complete": False,
    }


def test_json_has_no_headroom_for_uncached_resources(ask: Rehearse, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(replace(OPTIONS, resources=("events",)), "json") == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["history"] is None


def test_several_runs_and_resources_are_shown(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    assert ask(replace(OPTIONS, resources=("pods", "nodes", "pods"), strategies=("paged",), repeat=3)) == 0
    said = capsys.readouterr().out
    assert len(re.findall(r"^at worst +6 ms$", said, re.MULTILINE)) == 2
    assert "in 3 of 3 runs" in said
    assert "\n\nnodes, 6 objects\n" in said
    assert len(cluster.watches) == 6


def test_rehearsal_closes_all_watches(ask: Rehearse, cluster: Cluster) -> None:
    assert ask() == 0
    assert not cluster.open_watches()
    assert not cluster.is_open


def test_rehearsals_follow_one_another_with_a_pause(ask: Rehearse, cluster: Cluster) -> None:
    assert ask() == 0
    times = [time for time, kind, _ in cluster.asked if kind == "list"]
    assert times[2] - times[1] > 1.9  # a second on the watch, and a second's pause


@pytest.mark.usefixtures("changing")
def test_failing_rehearsal_is_tried_three_times(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    cluster.fail(Reason.EXPIRED, "watch")
    assert ask(replace(OPTIONS, strategies=("paged",))) == 0
    *rows, why, headroom, verdict = capsys.readouterr().out.splitlines()
    shown = dict(row.rsplit(maxsplit=1) for row in rows[2:])
    assert shown["synced in"] == ABSENT
    assert (shown["requests"], shown["pages"], shown["objects"]) == ("9", "6", "6")
    assert (shown["answers 410"], shown["watch from there"]) == ("3", "never")
    assert why == "paged: 410 when the watch opened."
    assert headroom.endswith("the apiserver dropped no change during the rehearsals.")
    assert verdict == "Nothing to recommend. No strategy synced in each run without a 410."


@pytest.mark.parametrize(
    ("runs", "shown"),
    [
        ([RUN], "started"),
        ([RUN, replace(RUN, synced=None)], "1 of 2"),
        ([replace(RUN, synced=None)], "never"),
        ([replace(RUN, expired_watches=1)], "after 410"),
        ([replace(RUN, by="paged")], "by paged"),
    ],
)
def test_table_states_how_the_watch_opened(
    ask: Rehearse,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    runs: list[Rehearsal],
    shown: str,
) -> None:
    prepared = iter(runs)

    async def rehearse_once(*_: object) -> Rehearsal:
        return next(prepared)

    monkeypatch.setattr("watchslo.app.rehearse.rehearse_once", rehearse_once)
    assert ask(replace(OPTIONS, strategies=("stream",), repeat=len(runs))) == 0
    assert re.search(rf"^watch from there +{shown}$", capsys.readouterr().out, re.MULTILINE)


def test_429_is_retried_and_mentioned(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Door.list_page
    throttled = iter([because_of(Reason.THROTTLED)])

    async def list_page(*question: Any, **options: Any) -> Page | Failure:
        return next(throttled, None) or await answer(*question, **options)

    monkeypatch.setattr(Door, "list_page", list_page)
    assert ask(replace(OPTIONS, strategies=("paged",))) == 0
    said = capsys.readouterr().out
    assert "Use paged." in said
    assert "The apiserver answered 429 once" in said


def test_watch_that_closes_at_once_is_resumed(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    when_a_watch_opens(cluster, lambda: cluster.send(PODS, ENDED), times=1)
    assert ask(replace(OPTIONS, strategies=("tail",)), "json") == 0
    ((run,),) = [answer["runs"] for answer in json.loads(capsys.readouterr().out)]
    assert run["synced"] > 1
    assert run["requests"] == 3


def test_hanging_watch_times_out(ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    cluster.hanging.add("watch")
    assert ask(replace(OPTIONS, strategies=("paged",))) == 0
    assert f"paged: It was not synced after {PATIENCE_SECONDS:.0f} s.\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        (("podz",), "^the apiserver serves no resource podz; did you mean pods?"),
        (("pods", "nodez"), "did you mean nodes?"),
    ],
)
def test_unknown_resource_is_refused_before_any_list(
    ask: Rehearse, cluster: Cluster, resources: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        ask(replace(OPTIONS, resources=resources))
    assert cluster.count("list") == 0, "all resources are checked before the first list"


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_forbidden_resource_names_the_needed_verbs(ask: Rehearse, cluster: Cluster, verb: str) -> None:
    cluster.failures[verb, "pods"] = because(Reason.FORBIDDEN, phase=Phase.LIST if verb == "list" else Phase.OPEN)
    with pytest.raises(ConfigError) as refused:
        ask()
    assert str(refused.value) == (
        f"pods: This identity may not {verb} the resource; grant it. "
        "A rehearsal needs the verbs list and watch, as informers do."
    )


def test_results_before_an_error_are_shown(ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    cluster.fail(Reason.NOT_FOUND, "watch", "nodes")
    with pytest.raises(ConfigError, match=r"^nodes: The apiserver does not serve the resource\.$"):
        ask(replace(OPTIONS, resources=("pods", "nodes")))
    said = capsys.readouterr().out
    assert "Use paged." in said
    assert "nodes" not in said


def test_refused_connection_raises_connect_error(ask: Rehearse, cluster: Cluster) -> None:
    cluster.fail(Reason.REFUSED)
    with pytest.raises(ConnectError, match=r"^The apiserver refuses the connection\.$"):
        ask()


def test_resource_over_max_objects_is_refused(ask: Rehearse, objects: dict[str, int], cluster: Cluster) -> None:
    objects["/api/v1/pods"] = 120_000
    with pytest.raises(ConfigError, match=r"^pods: there are 120,000 objects, .* pass --max-objects 120000 if"):
        ask()
    assert not cluster.watches
    assert ask(replace(OPTIONS, strategies=("tail",))) == 0, "tail lists no objects"
    assert ask(replace(OPTIONS, max_objects=120_000)) == 0


def test_namespace_limits_the_objects(
    ask: Rehearse, objects: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    objects["/api/v1/namespaces/mine/pods"] = 0
    assert ask(replace(OPTIONS, namespace="mine")) == 0
    assert "pods, 0 objects" in capsys.readouterr().out


def test_interrupt_shows_results_without_recommendation(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    when_a_watch_opens(cluster, lambda: os.kill(os.getpid(), signal.SIGINT), after=1)
    assert ask() == INTERRUPTED
    said = capsys.readouterr().out
    assert said.splitlines()[1].split() == ["tail"]
    assert said.endswith("No recommendation: the rehearsal ended before all runs were done.\n")
    assert not cluster.open_watches()


def test_interrupt_before_any_result_prints_nothing(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    when_a_watch_opens(cluster, lambda: os.kill(os.getpid(), signal.SIGINT))
    assert ask() == INTERRUPTED
    assert capsys.readouterr().out == ""


@pytest.fixture
def door(cluster: Cluster) -> Any:
    return Door(cluster, SERVICE, lambda *_: None)


async def test_count_of_invalid_answer_is_a_failure(door: Any) -> None:
    async def page(*_: object) -> bytes:
        return b"<html>"

    door.document = page
    counted = await count_objects(door, PODS, None)
    assert isinstance(counted, Failure)
    assert counted.reason is Reason.GARBAGE


async def test_count_of_null_items_is_0(door: Any) -> None:
    async def page(*_: object) -> bytes:
        return b'{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"100"},"items":null}'

    door.document = page
    assert await count_objects(door, PODS, None) == 0


@pytest.fixture
def changing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change precedes each list."""
    answer = Door.list_page

    async def list_page(door: Door, *question: Any, **options: Any) -> Page | Failure:
        door.cluster.revision += 1
        return await answer(door, *question, **options)

    monkeypatch.setattr(Door, "list_page", list_page)


def expire_first_watch(cluster: Cluster) -> None:
    """End the first watch with a 410, right after its headers."""
    status = {"kind": "Status", "code": 410, "reason": "Expired"}
    error = json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
    when_a_watch_opens(cluster, lambda: cluster.send(PODS, error), times=1)


def when_a_watch_opens(cluster: Cluster, happen: Callable[[], None], *, after: int = 0, times: int = 1) -> None:
    """Call `happen` when a watch opens: for `times` watches, after the first `after` ones."""
    watches = cluster.watches

    class Watches(list[Any]):
        def append(self, watch: Any) -> None:
            super().append(watch)
            if after < len(self) <= after + times:
                happen()

    cluster.watches = Watches(watches)
