"""`watchslo rehearse` against a cluster in memory: what is printed, what is refused, and how it ends."""

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
from watchslo.app.rehearse import Question, rehearse
from watchslo.app.session import INTERRUPTED
from watchslo.cli import STRATEGIES as NAMES
from watchslo.errors import ConfigError, ConnectError
from watchslo.history.words import ABSENT
from watchslo.kube.client import Page
from watchslo.model import SERVICE
from watchslo.monitor.rehearsal import PATIENCE_SECONDS, Rehearsal, count_objects
from watchslo.watch.failure import ENDED, Failure, Phase, Reason, because
from watchslo.watch.strategy import STRATEGIES

QUESTION = Question(("pods",), None, ("tail", "paged"), repeat=1, max_objects=25_000)
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
    """How many objects the cluster says there are, of each path that is asked."""
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

    def ask(question: Question = QUESTION, output: str = "table") -> int:
        return rehearse(None, None, question, output)  # type: ignore[arg-type]

    return ask


def test_all_strategies_can_be_named() -> None:
    assert tuple(STRATEGIES) == NAMES


def test_a_table_and_a_verdict(ask: Rehearse, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask() == 0
    title, headings, *rows, remembered, verdict = capsys.readouterr().out.splitlines()
    assert title == "pods, 6 objects"
    assert headings.split() == ["tail", "paged"]
    assert [" ".join(row.split()) for row in rows] == [
        "synced in 4 ms 6 ms",
        "requests 2 3",
        "pages 1 2",
        "objects 3 6",
        "size 1.0 kB 2.0 kB",
        "events meanwhile 0 0",
        f"peak buffer {ABSENT} {ABSENT}",
        "answers 429 0 0",
        "answers 410 0 0",
        "watch from there started started",
    ]
    assert (
        remembered
        == "The apiserver dropped no change meanwhile: it remembers at least 4.02 s (99 revisions), and ever more."
    )
    assert verdict == (
        "Use paged. 6 objects came in 2 pages in 6 ms, and the watch could start from the list's revision. "
        "With so few objects all of them cost about the same."
    )


@pytest.mark.usefixtures("changing")
def test_json(ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    expire_first_watch(cluster)
    assert ask(replace(QUESTION, strategies=("paged",), repeat=2), "json") == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert (answer["resource"], answer["group"], answer["objects"]) == ("pods", "", OBJECTS)
    assert answer["use"] is None
    assert answer["why"] == "By no strategy was each start synced without a 410."
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
def test_the_headroom_for_machines(ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    cluster.oldest = 60
    when_a_watch_opens(cluster, lambda: setattr(cluster, "oldest", 70))
    assert ask(replace(QUESTION, strategies=("paged",), repeat=2), "json") == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["history"] == {
        "oldest": 70,
        "revisions": 34,
        "seconds": {"lower": pytest.approx(3.02, abs=0.01), "about": pytest.approx(25.7, abs=0.1), "upper": None},
        "complete": False,
    }


def test_the_headroom_of_what_is_not_cached_is_not_known(ask: Rehearse, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(replace(QUESTION, resources=("events",)), "json") == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["history"] is None


def test_several_runs_and_resources(ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    assert ask(replace(QUESTION, resources=("pods", "nodes", "pods"), strategies=("paged",), repeat=3)) == 0
    said = capsys.readouterr().out
    assert len(re.findall(r"^at worst +6 ms$", said, re.MULTILINE)) == 2
    assert "in 3 of 3 runs" in said
    assert "\n\nnodes, 6 objects\n" in said
    assert len(cluster.watches) == 6


def test_nothing_is_left_open(ask: Rehearse, cluster: Cluster) -> None:
    assert ask() == 0
    assert not cluster.open_watches()
    assert not cluster.is_open


def test_one_at_a_time_with_a_pause(ask: Rehearse, cluster: Cluster) -> None:
    assert ask() == 0
    times = [time for time, kind, _ in cluster.asked if kind == "list"]
    assert times[2] - times[1] > 1.9  # a second on the watch, and a second's pause


@pytest.mark.usefixtures("changing")
def test_what_fails_is_tried_three_times(ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    cluster.fail(Reason.EXPIRED, "watch")
    assert ask(replace(QUESTION, strategies=("paged",))) == 0
    *rows, why, remembered, verdict = capsys.readouterr().out.splitlines()
    shown = dict(row.rsplit(maxsplit=1) for row in rows[2:])
    assert shown["synced in"] == ABSENT
    assert (shown["requests"], shown["pages"], shown["objects"]) == ("9", "6", "6")
    assert (shown["answers 410"], shown["watch from there"]) == ("3", "never")
    assert why == "paged: 410 when the watch should start."
    assert remembered.startswith("The apiserver dropped no change meanwhile")
    assert verdict == "Nothing to recommend. By no strategy was each start synced without a 410."


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
def test_what_is_said_of_the_watch(
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
    assert ask(replace(QUESTION, strategies=("stream",), repeat=len(runs))) == 0
    assert re.search(rf"^watch from there +{shown}$", capsys.readouterr().out, re.MULTILINE)


def test_429(ask: Rehearse, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Door.list_page
    throttled = iter([because_of(Reason.THROTTLED)])

    async def list_page(*question: Any, **options: Any) -> Page | Failure:
        return next(throttled, None) or await answer(*question, **options)

    monkeypatch.setattr(Door, "list_page", list_page)
    assert ask(replace(QUESTION, strategies=("paged",))) == 0
    said = capsys.readouterr().out
    assert "Use paged." in said
    assert "The apiserver answered 429 once" in said


def test_a_watch_that_closes_at_once_is_resumed(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    when_a_watch_opens(cluster, lambda: cluster.send(PODS, ENDED), times=1)
    assert ask(replace(QUESTION, strategies=("tail",)), "json") == 0
    ((run,),) = [answer["runs"] for answer in json.loads(capsys.readouterr().out)]
    assert run["synced"] > 1
    assert run["requests"] == 3


def test_patience_ends(ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    cluster.hanging.add("watch")
    assert ask(replace(QUESTION, strategies=("paged",))) == 0
    assert f"paged: It was not synced after {PATIENCE_SECONDS:.0f} s.\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        (("podz",), "^the apiserver serves no resource podz; did you mean pods?"),
        (("pods", "nodez"), "did you mean nodes?"),
    ],
)
def test_a_resource_that_is_not_there(
    ask: Rehearse, cluster: Cluster, resources: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        ask(replace(QUESTION, resources=resources))
    assert cluster.count("list") == 0, "nothing is listed before all is known to be there"


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_a_resource_that_may_not_be_read(ask: Rehearse, cluster: Cluster, verb: str) -> None:
    cluster.failures[verb, "pods"] = because(Reason.FORBIDDEN, phase=Phase.LIST if verb == "list" else Phase.OPEN)
    with pytest.raises(ConfigError) as refused:
        ask()
    assert str(refused.value) == (
        f"pods: This identity may not {verb} the resource; grant it. "
        "A rehearsal needs the verbs list and watch, as informers do."
    )


def test_what_was_rehearsed_before_an_error_is_shown(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    cluster.fail(Reason.NOT_FOUND, "watch", "nodes")
    with pytest.raises(ConfigError, match=r"^nodes: The apiserver does not serve the resource\.$"):
        ask(replace(QUESTION, resources=("pods", "nodes")))
    said = capsys.readouterr().out
    assert "Use paged." in said
    assert "nodes" not in said


def test_no_apiserver(ask: Rehearse, cluster: Cluster) -> None:
    cluster.fail(Reason.REFUSED)
    with pytest.raises(ConnectError, match=r"^The apiserver refuses the connection\.$"):
        ask()


def test_too_many_objects_are_not_listed(ask: Rehearse, objects: dict[str, int], cluster: Cluster) -> None:
    objects["/api/v1/pods"] = 120_000
    with pytest.raises(ConfigError, match=r"^pods: there are 120,000 objects, .* say --max-objects 120000 if"):
        ask()
    assert not cluster.watches
    assert ask(replace(QUESTION, strategies=("tail",))) == 0, "which lists none of them"
    assert ask(replace(QUESTION, max_objects=120_000)) == 0


def test_one_namespace(ask: Rehearse, objects: dict[str, int], capsys: pytest.CaptureFixture[str]) -> None:
    objects["/api/v1/namespaces/mine/pods"] = 0
    assert ask(replace(QUESTION, namespace="mine")) == 0
    assert "pods, 0 objects" in capsys.readouterr().out


def test_interrupted(ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    when_a_watch_opens(cluster, lambda: os.kill(os.getpid(), signal.SIGINT), after=1)
    assert ask() == INTERRUPTED
    said = capsys.readouterr().out
    assert said.splitlines()[1].split() == ["tail"]
    assert said.endswith("No verdict: this is only what was rehearsed before it ended.\n")
    assert not cluster.open_watches()


def test_interrupted_before_anything_is_known(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    when_a_watch_opens(cluster, lambda: os.kill(os.getpid(), signal.SIGINT))
    assert ask() == INTERRUPTED
    assert capsys.readouterr().out == ""


@pytest.fixture
def door(cluster: Cluster) -> Any:
    return Door(cluster, SERVICE, lambda *_: None)


async def test_an_answer_that_is_no_list(door: Any) -> None:
    async def page(*_: object) -> bytes:
        return b"<html>"

    door.document = page
    counted = await count_objects(door, PODS, None)
    assert isinstance(counted, Failure)
    assert counted.reason is Reason.GARBAGE


async def test_an_empty_collection_may_be_null(door: Any) -> None:
    async def page(*_: object) -> bytes:
        return b'{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"100"},"items":null}'

    door.document = page
    assert await count_objects(door, PODS, None) == 0


@pytest.fixture
def changing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With each list there is something new."""
    answer = Door.list_page

    async def list_page(door: Door, *question: Any, **options: Any) -> Page | Failure:
        door.cluster.revision += 1
        return await answer(door, *question, **options)

    monkeypatch.setattr(Door, "list_page", list_page)


def expire_first_watch(cluster: Cluster) -> None:
    """The first watch that opens ends in a 410, as soon as its headers are there."""
    status = {"kind": "Status", "code": 410, "reason": "Expired"}
    error = json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
    when_a_watch_opens(cluster, lambda: cluster.send(PODS, error), times=1)


def when_a_watch_opens(cluster: Cluster, happen: Callable[[], None], *, after: int = 0, times: int = 1) -> None:
    """Lets something happen with each of so many watches, after so many others."""
    watches = cluster.watches

    class Watches(list[Any]):
        def append(self, watch: Any) -> None:
            super().append(watch)
            if after < len(self) <= after + times:
                happen()

    cluster.watches = Watches(watches)
