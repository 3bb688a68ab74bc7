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
from watchslo.app.rehearse import rehearse
from watchslo.app.rehearse.plan import Dimensions, Limits, RehearseOptions
from watchslo.app.session import INTERRUPTED
from watchslo.cli import STRATEGIES as NAMES
from watchslo.errors import ConfigError, ConnectError
from watchslo.kube.client import Page, TakePiece
from watchslo.model import SERVICE, Resource
from watchslo.monitor.census import Census, take_census
from watchslo.monitor.rehearsal import PATIENCE_SECONDS, Rehearsal
from watchslo.timeline.format import ABSENT
from watchslo.watch.failure import ENDED, Failure, Phase, Reason, because
from watchslo.watch.messages import ListRequest
from watchslo.watch.strategy import STRATEGIES

OPTIONS = RehearseOptions(("pods",), dimensions=Dimensions(strategies=("tail", "paged")))
EVERYTHING = replace(OPTIONS, resources=(), every=True)
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
NEEDED_VERBS = (
    "This identity may not {} the resource; grant it. A rehearsal needs the verbs list and watch, as informers do."
)


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The number of objects that the cluster reports for each path."""
    counts: dict[str, int] = {}
    document = Door.document

    async def census(door: Door, path: str, accept: str = "") -> bytes | Failure:
        path, _, limit = path.partition("?limit=")
        if not limit:
            return await document(door, path, accept)
        count = counts.get(path, OBJECTS)
        failure = await door._answer("list", path.rpartition("/")[2])
        remaining = max(count - int(limit), 0)
        metadata = {"resourceVersion": "100"} | ({"remainingItemCount": remaining} if remaining else {})
        return failure or json.dumps({"metadata": metadata, "items": [{}] * (count - remaining)}).encode()

    monkeypatch.setattr(Door, "document", census)
    return counts


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, run_jumping: Run, log: Log, objects: dict[str, int]) -> Rehearse:
    del log, objects

    monkeypatch.setattr("watchslo.app.rehearse.run_on_loop", run_jumping)
    monkeypatch.setattr("watchslo.app.rehearse.connect", lambda *_: nowhere())
    monkeypatch.setattr("watchslo.app.rehearse.running.random", lambda: 0.5)
    monkeypatch.setattr("watchslo.app.logs.set_up", lambda *_: None)
    monkeypatch.setenv("COLUMNS", "160")

    def ask(options: RehearseOptions = OPTIONS, output: str = "table") -> int:
        return rehearse(None, None, options, output)  # type: ignore[arg-type]

    return ask


def test_cli_offers_all_strategies() -> None:
    assert tuple(STRATEGIES) == NAMES


def test_output_is_a_table_and_a_recommendation(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    cluster.fail(Reason.FORBIDDEN, "metrics_page")
    assert ask() == 0
    title, headings, *rows, unknown, unsure, headroom, verdict = capsys.readouterr().out.splitlines()
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
        "lists from watch cache? watch cache?",
        "apiserver CPU unknown unknown",
        "apiserver memory unknown unknown",
    ]
    assert unknown == (
        "The CPU and the memory of the apiserver are unknown: this identity may not read /metrics; grant it the verb "
        "get on the non-resource URL /metrics."
    )
    assert unsure.startswith("A ? marks what apiservers of this version do by default")
    assert (
        headroom
        == "The headroom is at least 5.03 s (99 revisions) and still grows: the apiserver dropped no change during the "
        "rehearsals."
    )
    assert verdict == (
        "Use paged. 6 objects came in 2 pages in 6 ms, and the watch could start from the list's revision. "
        "With so few objects, all strategies cost about the same."
    )


@pytest.mark.usefixtures("changing")
def test_json_contains_runs(ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    expire_first_watch(cluster)
    assert ask(replace(OPTIONS, dimensions=Dimensions(strategies=("paged",)), repeat=2), "json") == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert (answer["resource"], answer["group"], answer["objects"]) == ("pods", "", OBJECTS)
    assert answer["use"] is None
    assert answer["why"] == "No strategy synced in each run without a 410."
    assert (answer["plan"], answer["settings"], answer["skipped"]) == (["paged", "paged"], [], None)
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
        "variant": {
            "label": "paged",
            "representation": "plain",
            "sentAs": "plain",
            "gzip": False,
            "pageSize": 500,
            "labelSelector": None,
            "fieldSelector": None,
            "informers": 1,
        },
        "apiserver": {
            "cpu": None,
            "memoryBefore": None,
            "memoryAfter": None,
            "unknown": "its /metrics has no figures of its process",
        },
        "source": {"lists": "watch cache", "evidence": "version", "certain": False},
    }


@pytest.mark.usefixtures("changing")
def test_json_contains_headroom(ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    cluster.oldest = 60
    when_a_watch_opens(cluster, lambda: setattr(cluster, "oldest", 70))
    assert ask(replace(OPTIONS, dimensions=Dimensions(strategies=("paged",)), repeat=2), "json") == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["history"] == {
        "oldest": 70,
        "revisions": 34,
        "seconds": {"lower": pytest.approx(3.03, abs=0.01), "about": pytest.approx(25.8, abs=0.1), "upper": None},
        "complete": False,
    }


def test_json_has_no_headroom_for_uncached_resources(ask: Rehearse, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(replace(OPTIONS, resources=("events",)), "json") == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["history"] is None


def test_several_runs_and_resources_are_shown(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    assert (
        ask(
            replace(
                OPTIONS, resources=("pods", "nodes", "pods"), dimensions=Dimensions(strategies=("paged",)), repeat=3
            )
        )
        == 0
    )
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
    assert ask(replace(OPTIONS, dimensions=Dimensions(strategies=("paged",)))) == 0
    *rows, why, _, _, headroom, verdict = capsys.readouterr().out.splitlines()
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

    monkeypatch.setattr("watchslo.app.rehearse.running.rehearse_once", rehearse_once)
    assert ask(replace(OPTIONS, dimensions=Dimensions(strategies=("stream",)), repeat=len(runs))) == 0
    assert re.search(rf"^watch from there +{shown}$", capsys.readouterr().out, re.MULTILINE)


def test_429_is_retried_and_mentioned(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Door.list_page
    throttled = iter([because_of(Reason.THROTTLED)])

    async def list_page(*question: Any, **options: Any) -> Page | Failure:
        return next(throttled, None) or await answer(*question, **options)

    monkeypatch.setattr(Door, "list_page", list_page)
    assert ask(replace(OPTIONS, dimensions=Dimensions(strategies=("paged",)))) == 0
    said = capsys.readouterr().out
    assert "Use paged." in said
    assert "The apiserver answered 429 once" in said


def test_watch_that_closes_at_once_is_resumed(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    when_a_watch_opens(cluster, lambda: cluster.send(PODS, ENDED), times=1)
    assert ask(replace(OPTIONS, dimensions=Dimensions(strategies=("tail",))), "json") == 0
    ((run,),) = [answer["runs"] for answer in json.loads(capsys.readouterr().out)]
    assert run["synced"] > 1
    assert run["requests"] == 3


def test_hanging_watch_times_out(ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    cluster.hanging.add("watch")
    assert ask(replace(OPTIONS, dimensions=Dimensions(strategies=("paged",)))) == 0
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
    assert str(refused.value) == f"pods: {NEEDED_VERBS.format(verb)}"


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
    assert ask(replace(OPTIONS, dimensions=Dimensions(strategies=("tail",)))) == 0, "tail lists no objects"
    assert ask(replace(OPTIONS, limits=Limits(objects=120_000))) == 0


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


METRICS = """\
process_cpu_seconds_total {cpu}
process_resident_memory_bytes {memory}
process_start_time_seconds {started}
apiserver_cache_list_total{{group="",index="",resource="pods"}} {cached}
apiserver_storage_list_total{{group="",resource="pods"}} 7
"""


@pytest.fixture
def metered(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The figures of an apiserver that takes 0.01 s of CPU for each read of its metrics, and 0.2 s for each list."""
    figures = {"cpu": 1.0, "memory": 5e8, "started": 1e9, "cached": 100.0}
    answer = Door.list_page

    async def read_metrics(door: Door, take: TakePiece) -> None:
        await door._answer("metrics_page")
        figures["cpu"] += 0.01
        await take(METRICS.format(**figures).encode())

    async def list_page(*question: Any, **options: Any) -> Page | Failure:
        figures["cpu"] += 0.2
        figures["memory"] += 1e6
        figures["cached"] += 1
        return await answer(*question, **options)

    monkeypatch.setattr(Door, "read_metrics", read_metrics)
    monkeypatch.setattr(Door, "list_page", list_page)
    return figures


@pytest.mark.usefixtures("metered")
def test_cost_and_source_are_those_of_the_apiservers_own_metrics(
    ask: Rehearse, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(output="json") == 0
    ((tail, paged),) = [answer["runs"] for answer in json.loads(capsys.readouterr().out)]
    assert tail["apiserver"]["cpu"] == pytest.approx(0.2)
    assert paged["apiserver"] == {
        "cpu": pytest.approx(0.4),
        "memoryBefore": 501e6,
        "memoryAfter": 503e6,
        "unknown": None,
    }
    assert paged["source"] == {"lists": "watch cache", "evidence": "metrics", "certain": True}
    assert ask() == 0
    shown = {" ".join(row.split()) for row in capsys.readouterr().out.splitlines()}
    assert {"lists from watch cache watch cache", "apiserver CPU 200 ms 400 ms"} <= shown
    assert "apiserver memory +1.0 MB to 504.0 MB +2.0 MB to 506.0 MB" in shown


def test_other_process_behind_the_address_makes_the_cost_unknown(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], metered: dict[str, float], cluster: Cluster
) -> None:
    when_a_watch_opens(cluster, lambda: metered.update(started=2e9))
    assert ask(replace(OPTIONS, dimensions=Dimensions(strategies=("paged",))), "json") == 0
    ((run,),) = [answer["runs"] for answer in json.loads(capsys.readouterr().out)]
    assert run["apiserver"]["unknown"].startswith("another apiserver")
    assert run["source"]["evidence"] == "version"


def test_resource_that_etcd_refuses_has_no_cache(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    cluster.uncached.add("pods")
    assert ask(output="json") == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert [run["source"] for run in answer["runs"]] == [{"lists": "etcd", "evidence": "refusal", "certain": True}] * 2


def test_settings_are_compared_with_the_same_strategy_without_them(
    ask: Rehearse, capsys: pytest.CaptureFixture[str]
) -> None:
    varied = Dimensions(
        strategies=("paged", "relist"), representations=("metadata",), page_sizes=(2000,), labels=("app=web",)
    )
    assert ask(replace(OPTIONS, dimensions=varied)) == 0
    said = capsys.readouterr().out
    assert [line.split("  ")[0] for line in said.splitlines() if line.startswith("paged,") and "  " in line] == [
        "paged, metadata",
        "paged, pages of 2,000",
        "paged, -l app=web",
    ]
    assert "paged, metadata: 2.0 kB instead of 2.0 kB, 6 ms instead of 6 ms; for clients that need neither" in said
    assert "paged, -l app=web: 6 of 6 objects, 2.0 kB instead of 2.0 kB, 6 ms instead of 6 ms.\n" in said
    assert "Pages of 500 are as fast as others.\n" in said


def test_relist_asks_for_the_revision_of_the_cache(
    ask: Rehearse, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ListRequest] = []
    answer = Door.list_page

    async def list_page(*question: Any, **options: Any) -> Page | Failure:
        asked.append(question[4])
        return await answer(*question, **options)

    monkeypatch.setattr(Door, "list_page", list_page)
    cluster.link_late["service"] = 1.0  # its cache is behind etcd
    monkeypatch.setattr(cluster, "revision_at", lambda *_: 77)
    assert ask(replace(OPTIONS, dimensions=Dimensions(strategies=("relist", "relist-paged")))) == 0
    assert [(one.not_older_than, one.states_match, one.limit) for one in asked] == [
        (77, False, None),
        (77, True, 500),
        (77, True, 500),
    ]


def test_informers_for_each_namespace_start_together(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    document = Door.document

    async def namespaces(door: Door, path: str, accept: str = "") -> bytes | Failure:
        if not path.startswith("/api/v1/namespaces?"):
            return await document(door, path, accept)
        return json.dumps({"items": [{"metadata": {"name": name}} for name in "abc"]}).encode()

    monkeypatch.setattr(Door, "document", namespaces)
    split = Dimensions(strategies=("paged",), each_namespace=True)
    assert ask(replace(OPTIONS, dimensions=split), "json") == 0
    (answer,) = json.loads(capsys.readouterr().out)
    one, three = answer["runs"]
    assert (one["variant"]["informers"], three["variant"]["informers"]) == (1, 3)
    assert (three["requests"], three["objects"], three["bytes"]) == (9, 18, 6000)
    assert three["synced"] == pytest.approx(one["synced"])
    (said,) = answer["settings"]
    assert said.startswith(
        "3 informers, one for each namespace: 9 instead of 3 requests, 6 ms instead of 6 ms; use one"
    )


@pytest.mark.parametrize(
    ("answered", "message"),
    [
        (because(Reason.FORBIDDEN, phase=Phase.LIST), "the namespaces cannot be listed: This identity may not list"),
        (b"<html>", "the namespaces cannot be listed: "),
        (json.dumps({"items": [{"metadata": {"name": "n"}}] * 201}).encode(), "there are more than 200 namespaces"),
    ],
)
def test_namespaces_that_cannot_be_split_are_an_error(
    ask: Rehearse, monkeypatch: pytest.MonkeyPatch, answered: bytes | Failure, message: str
) -> None:
    document = Door.document

    async def namespaces(door: Door, path: str, accept: str = "") -> bytes | Failure:
        return answered if path.startswith("/api/v1/namespaces?") else await document(door, path, accept)

    monkeypatch.setattr(Door, "document", namespaces)
    with pytest.raises(ConfigError, match=f"^--each-namespace: {message}"):
        ask(replace(OPTIONS, dimensions=Dimensions(each_namespace=True)))


def test_list_over_max_bytes_is_refused(ask: Rehearse, cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match=r"^pods: a list of all objects has about \d+ bytes, .* pass --max-bytes 1Mi"):
        ask(replace(OPTIONS, limits=Limits(size=10)))
    assert not cluster.watches


def test_list_that_proves_larger_than_estimated_ends_the_rehearsal(
    ask: Rehearse, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=r"^pods: a list of all objects has about 2\.0 kB, .* pass --max-bytes 1Mi"):
        ask(replace(OPTIONS, repeat=2, limits=Limits(size=1500)))
    assert "No recommendation" in capsys.readouterr().out
    assert ask(replace(EVERYTHING, repeat=2, exclude=("events",), limits=Limits(size=1500))) == 0
    assert "pods was skipped: a list of all objects has about 2.0 kB" in capsys.readouterr().out


def test_too_many_runs_are_refused(ask: Rehearse, cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match=r"^pods: the options ask for 20 runs; choose fewer, or pass --max-runs 20$"):
        ask(replace(OPTIONS, repeat=10, limits=Limits(runs=10)))
    assert not cluster.watches


def test_dry_run_prints_the_plan_and_lists_nothing(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    assert ask(replace(OPTIONS, dry_run=True, repeat=2)) == 0
    headings, row = capsys.readouterr().out.splitlines()
    assert headings.split() == ["RESOURCE", "OBJECTS", "A", "LIST", "RUNS", "IN", "TOTAL", "VARIANTS"]
    assert row.split() == ["pods", "6", "75", "bytes", "4", "150", "bytes", "tail;", "paged"]
    assert not cluster.watches
    assert ask(replace(OPTIONS, dry_run=True), "json") == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert (answer["plan"], answer["runs"], answer["use"]) == (["tail", "paged"], [], None)


def test_all_resources_have_one_row_each_and_the_largest_come_first(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], objects: dict[str, int], cluster: Cluster
) -> None:
    objects |= {"/api/v1/nodes": 50, "/api/v1/configmaps": 0}
    cluster.failures["list", "events"] = because(Reason.FORBIDDEN, phase=Phase.LIST)
    assert ask(EVERYTHING) == 0
    headings, nodes, pods, *skipped = capsys.readouterr().out.splitlines()
    assert headings.split()[:3] == ["RESOURCE", "OBJECTS", "USE"]
    assert nodes.split()[:5] == ["nodes", "50", "paged", "6", "ms"]
    assert pods.split()[:3] == ["pods", "6", "paged"]
    assert skipped == [
        "configmaps was skipped: there are no objects.",
        f"events was skipped: {NEEDED_VERBS.format('list')}",
    ]


def test_all_resources_as_json_name_those_that_are_skipped(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], objects: dict[str, int], cluster: Cluster
) -> None:
    objects["/api/v1/pods"] = 120_000
    cluster.served.append(Resource("", "v1", "secrets", namespaced=True))
    assert ask(replace(EVERYTHING, exclude=("nodes", "events")), "json") == 0
    answers = {answer["resource"]: answer for answer in json.loads(capsys.readouterr().out)}
    assert list(answers) == ["configmaps", "pods", "secrets"]
    assert answers["configmaps"]["skipped"] is None
    assert answers["pods"]["skipped"].startswith("there are 120,000 objects")
    assert answers["secrets"]["skipped"] == "secrets are read only if they are named: watchslo rehearse secrets"
    assert not answers["secrets"]["runs"]


def runs_and_reasons(capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[int, str | None]]:
    answers = json.loads(capsys.readouterr().out)
    return {answer["resource"]: (len(answer["runs"]), answer["skipped"]) for answer in answers}


def test_all_resources_end_with_the_time_or_the_bytes(
    ask: Rehearse, capsys: pytest.CaptureFixture[str], objects: dict[str, int]
) -> None:
    objects |= {"/api/v1/nodes": 9, "/api/v1/configmaps": 8}
    options = replace(EVERYTHING, exclude=("events",), limits=Limits(seconds=3.0))
    assert ask(options, "json") == 0
    over = "the time of 3 s is over (--max-time)"
    assert runs_and_reasons(capsys) == {"nodes": (1, over), "configmaps": (0, over), "pods": (0, over)}
    assert ask(replace(options, limits=Limits(total_size=4000)), "json") == 0
    over = "its lists would exceed 4.0 kB in total (--max-total-bytes)"
    assert runs_and_reasons(capsys) == {"nodes": (2, None), "configmaps": (2, None), "pods": (0, over)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (replace(OPTIONS, every=True), "name the resources to rehearse, or pass --all"),
        (replace(OPTIONS, resources=()), "name the resources to rehearse, or pass --all"),
        (replace(OPTIONS, exclude=("nodes",)), "--exclude leaves resources out of --all"),
        (
            replace(OPTIONS, namespace="n", dimensions=Dimensions(each_namespace=True)),
            "leave out --namespace",
        ),
        (
            replace(OPTIONS, dimensions=Dimensions(strategies=("cache",), page_sizes=(9,))),
            "--page-size needs a strategy with pages; add --strategy paged or parallel or relist-paged",
        ),
        (
            replace(OPTIONS, dimensions=Dimensions(strategies=("stream",), gzip=True)),
            "--gzip needs a strategy with lists",
        ),
    ],
)
def test_contradicting_options_are_refused(
    ask: Rehearse, cluster: Cluster, options: RehearseOptions, message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        ask(options)
    assert not cluster.asked


@pytest.fixture
def door(cluster: Cluster) -> Any:
    return Door(cluster, SERVICE, lambda *_: None)


async def test_count_of_invalid_answer_is_a_failure(door: Any) -> None:
    async def page(*_: object) -> bytes:
        return b"<html>"

    door.document = page
    counted = await take_census(door, PODS, None, sizes=False)
    assert isinstance(counted, Failure)
    assert counted.reason is Reason.GARBAGE


async def test_count_of_null_items_is_0(door: Any) -> None:
    async def page(*_: object) -> bytes:
        return b'{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"100"},"items":null}'

    door.document = page
    assert await take_census(door, PODS, None, sizes=False) == Census(0)


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
