"""`watchslo rehearse` against a cluster in memory: its output, its errors, and interruptions."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from rich.progress import Progress, TaskID

from tests.unit.app.conftest import Run
from tests.unit.monitor.cluster import PODS, Cluster, Door, Log, because_of, nowhere
from tests.unit.rehearse.conftest import PAGED
from watchslo.app.rehearse import rehearse
from watchslo.app.session import INTERRUPTED
from watchslo.cli.rehearse import STRATEGIES as NAMES
from watchslo.errors import WatchsloError
from watchslo.kube.call import Page
from watchslo.kube.credentials import ClusterPlace, PluginRun
from watchslo.kube.refusal import TakePiece
from watchslo.model import Resource
from watchslo.rehearse.census import Census, take_census
from watchslo.rehearse.options import RehearseOptions
from watchslo.rehearse.rehearsal import Rehearsal
from watchslo.watch.failure import ENDED, Failure, Phase, Reason, because
from watchslo.watch.messages import ListRequest
from watchslo.watch.strategy import STRATEGIES

OPTIONS = RehearseOptions(("pods",), strategies=("tail", "paged"))
EVERYTHING = replace(OPTIONS, resources=(), every=True)
OBJECTS = 6
RUN = replace(PAGED, strategy="stream", by="stream", synced=0.5)
Rehearse = Callable[..., int]
METRICS = """\
process_cpu_seconds_total {cpu}
process_resident_memory_bytes {memory}
process_start_time_seconds {started}
apiserver_cache_list_total{{group="",index="",resource="pods"}} {cached}
apiserver_storage_list_total{{group="",resource="pods"}} 7
"""


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
    monkeypatch.setattr("watchslo.rehearse.running.random", lambda: 0.5)
    monkeypatch.setattr("watchslo.app.logs.set_up", lambda *_: None)
    monkeypatch.setenv("COLUMNS", "160")

    def ask(options: RehearseOptions = OPTIONS, output: str = "table") -> int:
        return rehearse(None, None, options, output)  # type: ignore[arg-type]

    return ask


PROD = ClusterPlace("prod", "https://prod.example.com:6443")


@pytest.mark.parametrize(
    ("place", "named", "line"),
    [
        (PROD, ["prod", PROD.server], "Context prod: https://prod.example.com:6443"),
        (ClusterPlace(None, "https://10.96.0.1:443"), [None, "https://10.96.0.1:443"], "Service account of this pod: "),
        (None, [None, None], ""),
    ],
)
def test_first_line_and_json_name_context_and_server(
    ask: Rehearse,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    place: ClusterPlace | None,
    named: list[str | None],
    line: str,
) -> None:
    monkeypatch.setattr("watchslo.app.rehearse.connect", lambda *_: nowhere(place))
    options = replace(OPTIONS, resources=("pods", "nodes"), dry_run=True)
    ask(options)
    assert capsys.readouterr().out.splitlines()[0].startswith(line)
    ask(options, "json")
    assert [[one["context"], one["server"]] for one in json.loads(capsys.readouterr().out)] == [named] * 2


def test_login_by_a_plugin_is_waited_for_and_named(
    ask: Rehearse, plugin: PluginRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin.command = "kubelogin"
    shown: list[str] = []
    document, update = Door.document, Progress.update

    async def answer(door: Door, path: str, accept: str = "") -> bytes | Failure:
        if plugin.command:
            await asyncio.sleep(60)
            plugin.command = None
        return await document(door, path, accept)

    def note(progress: Progress, task: TaskID, **fields: Any) -> None:
        update(progress, task, **fields)
        shown.append("".join(one.description for one in progress.tasks if one.visible))

    monkeypatch.setattr("watchslo.app.rehearse.connect", lambda *_: nowhere(plugin=plugin))
    monkeypatch.setattr(Door, "document", answer)
    monkeypatch.setattr(Progress, "update", note)
    assert ask() == 0
    assert shown[0] == "Waiting for credentials of the exec plugin kubelogin."
    assert "kubelogin" not in shown[-1]


def test_cli_offers_all_strategies() -> None:
    assert tuple(STRATEGIES) == NAMES


@dataclass(frozen=True)
class Scene:
    """What a case may change before the command runs."""

    cluster: Cluster
    objects: dict[str, int]
    patch: pytest.MonkeyPatch


@dataclass(frozen=True)
class Case:
    """A rehearsal, whose output a golden file holds."""

    options: RehearseOptions
    prepare: Callable[[Scene], object] = lambda _: None
    output: str = "table"


def expire_first_watch(scene: Scene) -> None:
    """End the first watch with a 410, right after its headers."""
    change_before_each_list(scene)
    status = {"kind": "Status", "code": 410, "reason": "Expired"}
    error = json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
    when_a_watch_opens(scene.cluster, lambda: scene.cluster.send(PODS, error), times=1)


def refuse_watches(scene: Scene) -> None:
    change_before_each_list(scene)
    scene.cluster.fail(Reason.EXPIRED, "watch")


def drop_changes(scene: Scene) -> None:
    """Let the apiserver drop changes of the past when a watch opens."""
    change_before_each_list(scene)
    scene.cluster.oldest = 60
    when_a_watch_opens(scene.cluster, lambda: setattr(scene.cluster, "oldest", 70))


def before_each_list(patch: pytest.MonkeyPatch, happen: Callable[[ListRequest], Failure | None]) -> None:
    """Call `happen` with each request for a list, whose failure is the answer."""
    answer = Door.list_page

    async def list_page(*question: Any, **options: Any) -> Page | Failure:
        return happen(question[4]) or await answer(*question, **options)

    patch.setattr(Door, "list_page", list_page)


def change_before_each_list(scene: Scene) -> None:
    def change(_: ListRequest) -> None:
        scene.cluster.revision += 1

    before_each_list(scene.patch, change)


def throttle_once(scene: Scene) -> None:
    throttled = iter([because_of(Reason.THROTTLED)])
    before_each_list(scene.patch, lambda _: next(throttled, None))


def meter(scene: Scene) -> dict[str, float]:
    """Show an apiserver that takes 0.01 s of CPU for each read of its metrics, and 0.2 s for each list."""
    figures = {"cpu": 1.0, "memory": 5e8, "started": 1e9, "cached": 100.0}

    async def read_metrics(door: Door, take: TakePiece) -> None:
        await door._answer("metrics_page")
        figures["cpu"] += 0.01
        await take(METRICS.format(**figures).encode())

    def count(_: ListRequest) -> None:
        figures["cpu"] += 0.2
        figures["memory"] += 1e6
        figures["cached"] += 1

    scene.patch.setattr(Door, "read_metrics", read_metrics)
    before_each_list(scene.patch, count)
    return figures


def replace_process(scene: Scene) -> None:
    """Let another apiserver answer behind the address when the watch opens."""
    figures = meter(scene)
    when_a_watch_opens(scene.cluster, lambda: figures.update(started=2e9))


def forbid(verb: str) -> Callable[[Scene], None]:
    def prepare(scene: Scene) -> None:
        scene.cluster.failures[verb, "pods"] = because(
            Reason.FORBIDDEN, phase=Phase.LIST if verb == "list" else Phase.OPEN
        )

    return prepare


def have_objects(**counts: int) -> Callable[[Scene], None]:
    return lambda scene: scene.objects.update({f"/api/v1/{plural}": count for plural, count in counts.items()})


def have_nodes_and_no_configmaps(scene: Scene) -> None:
    have_objects(nodes=50, configmaps=0)(scene)
    scene.cluster.failures["list", "events"] = because(Reason.FORBIDDEN, phase=Phase.LIST)


def have_many_pods_and_secrets(scene: Scene) -> None:
    have_objects(pods=120_000, nodes=0, events=0, configmaps=0)(scene)
    scene.cluster.served.append(Resource("", "v1", "secrets", namespaced=True))


def be_limited(**limits: float) -> Callable[[Scene], None]:
    """Lower the limits of `--all`, in a cluster with more than that."""

    def prepare(scene: Scene) -> None:
        have_objects(nodes=9, configmaps=8, events=0)(scene)
        for name, limit in limits.items():
            scene.patch.setattr(f"watchslo.rehearse.running.MOST_{name.upper()}", limit)

    return prepare


def have_run(*runs: Rehearsal) -> Case:
    """Return a case in which these are the results of a streamed list."""

    def prepare(scene: Scene) -> None:
        prepared = iter(runs)

        async def rehearse_once(*_: object) -> Rehearsal:
            return next(prepared)

        scene.patch.setattr("watchslo.rehearse.running.rehearse_once", rehearse_once)

    return Case(replace(OPTIONS, strategies=("stream",), repeat=len(runs)), prepare)


PAGED_ALONE = replace(OPTIONS, strategies=("paged",))
CASES = {
    "two-strategies": Case(OPTIONS, lambda scene: scene.cluster.fail(Reason.FORBIDDEN, "metrics_page")),
    "first-watch-expires": Case(replace(PAGED_ALONE, repeat=2), expire_first_watch, "json"),
    "apiserver-drops-changes": Case(replace(PAGED_ALONE, repeat=2), drop_changes, "json"),
    "uncached-resource": Case(replace(OPTIONS, resources=("events",)), output="json"),
    "two-resources": Case(replace(PAGED_ALONE, resources=("pods", "nodes", "pods"), repeat=3)),
    "each-watch-expires": Case(PAGED_ALONE, refuse_watches),
    "one-429": Case(PAGED_ALONE, throttle_once),
    "watch-closes-at-once": Case(
        replace(OPTIONS, strategies=("tail",)),
        lambda scene: when_a_watch_opens(scene.cluster, lambda: scene.cluster.send(PODS, ENDED), times=1),
    ),
    "watch-opens-once-of-two": have_run(RUN, replace(RUN, synced=None, failure=because(Reason.RESET))),
    "watch-opens-after-410": have_run(replace(RUN, expired_watches=1)),
    "streamed-list-falls-back": have_run(replace(RUN, by="paged")),
    "watch-hangs": Case(PAGED_ALONE, lambda scene: scene.cluster.hanging.add("watch")),
    "metered": Case(OPTIONS, meter),
    "metered-as-json": Case(OPTIONS, meter, "json"),
    "another-process": Case(PAGED_ALONE, replace_process, "json"),
    "refused-by-etcd": Case(OPTIONS, lambda scene: scene.cluster.uncached.add("pods"), "json"),
    "one-namespace": Case(
        replace(OPTIONS, namespace="mine"),
        lambda scene: scene.objects.update({"/api/v1/namespaces/mine/pods": 0}),
    ),
    "unknown-resource": Case(replace(OPTIONS, resources=("podz",))),
    "second-resource-unknown": Case(replace(OPTIONS, resources=("pods", "nodez"))),
    "list-forbidden": Case(OPTIONS, forbid("list")),
    "watch-forbidden": Case(OPTIONS, forbid("watch")),
    "second-resource-fails": Case(
        replace(OPTIONS, resources=("pods", "nodes")),
        lambda scene: scene.cluster.fail(Reason.NOT_FOUND, "watch", "nodes"),
    ),
    "connection-refused": Case(OPTIONS, lambda scene: scene.cluster.fail(Reason.REFUSED)),
    "too-many-bytes": Case(replace(OPTIONS, max_bytes=10)),
    "too-many-bytes-for-tail": Case(replace(OPTIONS, strategies=("tail",), max_bytes=10)),
    "too-many-bytes-at-last": Case(replace(OPTIONS, repeat=2, max_bytes=1500)),
    "too-many-bytes-of-all": Case(replace(EVERYTHING, repeat=2, max_bytes=1500), have_objects(events=0)),
    "dry-run": Case(replace(OPTIONS, dry_run=True, repeat=2)),
    "dry-run-as-json": Case(replace(OPTIONS, dry_run=True), output="json"),
    "all-resources": Case(EVERYTHING, have_nodes_and_no_configmaps),
    "all-resources-as-json": Case(replace(EVERYTHING, max_bytes=10_000), have_many_pods_and_secrets, "json"),
    "time-is-over": Case(EVERYTHING, be_limited(seconds=3.0)),
    "bytes-are-used": Case(EVERYTHING, be_limited(total_bytes=4000)),
    "all-and-named": Case(replace(OPTIONS, every=True)),
    "neither-all-nor-named": Case(replace(OPTIONS, resources=())),
}


@pytest.mark.parametrize("name", CASES)
def test_output_matches_golden_file(
    name: str,
    ask: Rehearse,
    capsys: pytest.CaptureFixture[str],
    cluster: Cluster,
    objects: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
    golden: Callable[[str, str], None],
) -> None:
    case = CASES[name]
    case.prepare(Scene(cluster, objects, monkeypatch))
    try:
        ended = f"exit code {ask(case.options, case.output)}"
    except WatchsloError as error:
        ended = f"{type(error).__name__}: {error}"
    said = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    if case.output == "json":
        said = json.dumps(json.loads(said, parse_float=lambda text: round(float(text), 3)), indent=1)
    requests = ", ".join(f"{kind} {count}" for kind, count in Counter(kind for _, kind, _ in cluster.asked).items())
    golden(f"rehearse/{name}.txt", f"{said}\n\n{ended}\nRequests: {requests or 'none'}\n".lstrip())
    assert not cluster.open_watches()
    assert not cluster.is_open


def test_rehearsals_follow_one_another_with_a_pause(ask: Rehearse, cluster: Cluster) -> None:
    assert ask() == 0
    times = [time for time, kind, _ in cluster.asked if kind == "list"]
    assert times[2] - times[1] > 1.9  # a second on the watch, and a second's pause


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


def test_relist_asks_for_the_revision_of_the_cache(
    ask: Rehearse, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ListRequest] = []
    before_each_list(monkeypatch, asked.append)
    cluster.link_late["service"] = 1.0  # its cache is behind etcd
    monkeypatch.setattr(cluster, "revision_at", lambda *_: 77)
    assert ask(replace(OPTIONS, strategies=("relist", "relist-paged"))) == 0
    assert [(one.not_older_than, one.states_match, one.limit) for one in asked] == [
        (77, False, None),
        (77, True, 500),
        (77, True, 500),
    ]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"<html>", Reason.GARBAGE),
        (b'{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"100"},"items":null}', Census(0)),
    ],
    ids=["no JSON", "null"],
)
async def test_census_of_an_odd_answer(client: Any, answer: bytes, expected: Reason | Census) -> None:
    async def page(*_: object) -> bytes:
        return answer

    client.document = page
    counted = await take_census(client, PODS, None, sizes=False)
    assert (counted.reason if isinstance(counted, Failure) else counted) == expected


def when_a_watch_opens(cluster: Cluster, happen: Callable[[], None], *, after: int = 0, times: int = 1) -> None:
    """Call `happen` when a watch opens: for `times` watches, after the first `after` ones."""
    watches = cluster.watches

    class Watches(list[Any]):
        def append(self, watch: Any) -> None:
            super().append(watch)
            if after < len(self) <= after + times:
                happen()

    cluster.watches = Watches(watches)
