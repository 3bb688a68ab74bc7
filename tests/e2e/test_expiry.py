"""What does a 410 cost me, and which list strategy avoids it? Rehearsals, headroom, and lists while etcd compacts."""

import asyncio
import base64
import contextlib
import itertools
import json
import re
import threading
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from urllib.error import HTTPError
from uuid import UUID

import pytest

from tests.contract.backend import CURRENT
from tests.contract.cluster import PODS, RealCluster, connection
from tests.contract.watch import frames
from tests.e2e.watched import watching
from tests.support.assets import Assets
from tests.support.background import repeated
from tests.support.control_plane import ControlPlane, Etcd, write_kubeconfig
from tests.support.daemon import LOOK_SECONDS, Daemon, Simulator, config_file, watchslo
from tests.support.process import PATIENCE_SECONDS, eventually
from tests.support.writer import configmap, given_up, pod
from watchslo.kube.call import Page, Selectors
from watchslo.kube.client import Client
from watchslo.kube.limiter import Limiter
from watchslo.kube.representation import Representation
from watchslo.kube.watch_response import WatchResponse
from watchslo.rehearse import rehearsal
from watchslo.rehearse.rehearsal import Rehearsal, rehearse_once
from watchslo.watch.decode import Error
from watchslo.watch.failure import Failure
from watchslo.watch.messages import ListRequest, WatchRequest
from watchslo.watch.strategy import PAGE_SIZE, PAGED, PARALLEL, STRATEGIES, TAIL

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
FORGETFUL = {
    "cluster": {"window": 200},
    "workload": [{"resource": "configmaps", "rate": 20}, {"resource": "secrets", "rate": 50}],
}
TOO_OLD = re.compile(r"too old resource version: 1 \((\d+)\)")


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


def test_headroom_of_each_cache_is_reported_by_one_watch(tmp_path: Path) -> None:
    """The oldest revision moves: the reported one is between those that a client finds before and after."""
    watches = [{"resource": "configmaps"}, {"resource": "secrets"}]
    names = [watch["resource"] for watch in watches]
    config, kubeconfig = config_file(tmp_path, watch=watches, metrics="full"), tmp_path / "kubeconfig"
    with Simulator(tmp_path, "--config", json.dumps(FORGETFUL)) as simulator:
        write_kubeconfig(kubeconfig, {"server": simulator.url}, {})
        before = {name: eventually(partial(oldest, simulator, name), f"{name} forgets") for name in names}
        with Daemon(tmp_path / "daemon", "--config", config, "--kubeconfig", kubeconfig) as daemon:

            def found() -> dict[str, Any] | None:
                history = {name: stream["headroom"] for name, stream in daemon.watches_by_name().items()}
                return history if all(history.values()) else None

            reported = daemon.process.until(found, "both are reported", LOOK_SECONDS)
            opened = daemon.scrape().total("watchslo_api_requests_total", kind="headroom")
            after = {name: eventually(partial(oldest, simulator, name), f"{name} forgets") for name in names}
            unknown = len(daemon.log("headroom_unknown"))
        for name in names:
            assert before[name] <= int(reported[name]["oldest"]) <= after[name]
            assert not reported[name]["complete"]
            assert reported[name]["seconds"]["lower"] > 0
        assert len(names) <= opened <= len(names) + unknown


def oldest(simulator: Simulator, resource: str) -> int | None:
    """Return the oldest revision from which a watch may begin, by the refusal of a watch from the first one."""
    url = f"{simulator.url}/api/v1/{resource}?watch=1&resourceVersion=1&timeoutSeconds=1"
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
            text = answer.read().decode()
    except HTTPError as error:
        text = error.read().decode()
    refusal = TOO_OLD.search(text)
    return int(refusal[1]) if refusal else None


# Compaction during lists


COMPACTION_SECONDS = 0.3
COMPACTIONS = 30  # on a busy machine, no cache would survive for long
LISTING = ("tail", "paged", "parallel", "stream", "cache")


@pytest.mark.long
@pytest.mark.version("1.36")
def test_lists_during_compactions_find_a_revision_and_report_what_they_missed(
    assets_of: Callable[[str], Assets], minor: str, tmp_path: Path
) -> None:
    """Each watch has to list again, because the apiserver has restarted with an empty cache."""
    found = assets_of(minor)
    compacted: list[int] = []
    watches = [
        {"resource": resource, "namespace": "default", "name": f"{resource}-{strategy}", "list": strategy}
        for resource in ("configmaps", "events")
        for strategy in LISTING
    ]
    with Etcd(tmp_path, found.etcd) as etcd, ControlPlane(tmp_path, found.kube_apiserver, etcd, apiservers=2) as plane:
        first, second = plane.apiservers
        with second.writer(plane.token) as writer:
            for number in range(OBJECTS):
                writer.create("/api/v1/namespaces/default/configmaps", configmap(f"filled-{number}"))

        def compact() -> None:
            """Compact everything older than now, unless nothing has been written since the last time."""
            with contextlib.suppress(HTTPError):
                etcd.compact(etcd.revision())
            compacted.append(etcd.revision())

        open_writer = partial(second.writer, plane.token)
        with watching(tmp_path, plane.kubeconfig(), open_writer, watches) as watched:
            first.process.kill()
            with repeated(COMPACTION_SECONDS, compact):
                first.start()
                first.wait_ready()
                enough = len(compacted) + COMPACTIONS
                eventually(lambda: len(compacted) > enough, "many compactions")
            watched.until_steady()
            watched.verify()
            assert "relist expired" in watched.risen()
        first.process.kill()


# A cache that turns over while the list is read


COUNT = 25_000
PAGES = COUNT // PAGE_SIZE
PUTS_AT_ONCE = 128  # etcd takes no more
MEMORY_SECONDS = 75.0
WRITE_EVERY_SECONDS = 0.194  # a cache holds 100 changes times a power of two: 400 changes then are 77.6 s

LEAST_EVENTS = 100  # a cache keeps at least 100 changes of any age
COLLECTION = PODS.path("default")


@pytest.fixture
def plane(assets: Assets, tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane with many pods, whose apiserver has just started with an empty cache."""
    flags = ["--etcd-compaction-interval=0"]  # etcd keeps the revision of a list, however long that takes
    with Etcd(tmp_path, assets.etcd) as etcd, ControlPlane(tmp_path, assets.kube_apiserver, etcd, flags=flags) as plane:
        with plane.writer() as writer:
            writer.create(COLLECTION, pod(name(0)))
            uid = writer.get(f"{COLLECTION}/{name(0)}")["metadata"]["uid"]
        multiply(etcd, uid)
        plane.apiservers[0].restart()  # otherwise its cache would hold these writes and have room for as many again
        yield plane


def name(number: int) -> str:
    return f"pod-{number:06}"


def multiply(etcd: Etcd, uid: str) -> None:
    """Copy the first pod in etcd; creating the copies by the apiserver takes at least 20 s."""
    key = f"/registry/pods/default/{name(0)}".encode()
    (found,) = call(etcd, "range", {"key": encoded(key)})["kvs"]
    first = base64.b64decode(found["value"])
    assert uid.encode() in first

    def put(number: int) -> dict[str, Any]:
        own = [(name(0).encode(), name(number).encode()), (uid.encode(), str(UUID(int=number)).encode())]
        return {"requestPut": {"key": encoded(replaced(key, own)), "value": encoded(replaced(first, own))}}

    for begin in range(1, COUNT, PUTS_AT_ONCE):
        end = min(begin + PUTS_AT_ONCE, COUNT)
        call(etcd, "txn", {"success": [put(number) for number in range(begin, end)]})


def replaced(text: bytes, pairs: list[tuple[bytes, bytes]]) -> bytes:
    """Replace the first of each pair by the second, which has the same length."""
    for old, new in pairs:
        text = text.replace(old, new)
    return text


def call(etcd: Etcd, method: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(f"{etcd.url}/v3/kv/{method}", json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        return json.load(answer)


def encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


@contextlib.contextmanager
def writing(plane: ControlPlane) -> Iterator[None]:
    """Change a random pod at a steady rate, without catching up after a delay."""
    random, versions = Random(COUNT), itertools.count()

    def write() -> None:
        change = {"metadata": {"annotations": {"version": str(next(versions))}}}
        with given_up():
            writer.patch(f"{COLLECTION}/{name(random.randrange(COUNT))}", change)

    with plane.writer() as writer, repeated(WRITE_EVERY_SECONDS, write):
        yield


class SlowReader(Client):
    """Reads the pages of its first list slowly: it requests the last one after the first revision has expired.

    All other requests are immediate.
    """

    _first: int | None = None
    _pages = 0

    async def list_page(self, *question: Any, **how: Any) -> Page | Failure:
        request: ListRequest = question[3]
        if request.continue_token and self._pages < PAGES:
            await self._dawdle()
        answer = await super().list_page(*question, **how)
        if isinstance(answer, Page) and not self._pages:
            self._first = answer.revision
        self._pages += 1
        return answer

    async def _dawdle(self) -> None:
        await asyncio.sleep(MEMORY_SECONDS / PAGES)
        while self._pages == PAGES - 1 and not await self._forgotten():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(LOOK_SECONDS)

    async def _forgotten(self) -> bool:
        """Return True if a watch from the revision of the first page gets a 410."""
        request = WatchRequest(self._first, int(PATIENCE_SECONDS))
        async with self.watch(PODS, None, Selectors(), request, Representation.TABLE) as stream:
            if not isinstance(stream, WatchResponse):
                return False  # the apiserver answers late
            async with contextlib.aclosing(frames(stream)) as arriving:
                _, first = await anext(arriving, (None, None))
        return isinstance(first, Error)


async def rehearse(plane: ControlPlane, name: str) -> Rehearsal:
    way = connection(RealCluster(CURRENT, plane).access())
    async with SlowReader(way, Limiter(1e6), lambda *_: None) as client:
        return await rehearse_once(STRATEGIES[name], client, PODS, None, random=lambda: 0.0)


def table(runs: list[Rehearsal]) -> str:
    """Return the runs as a table for docs/watching.md."""
    columns = ("strategy", "s to synced", "requests", "pages", "MB", "objects", "events during it", "410s")
    rows = [
        (
            run.strategy,
            "never" if run.synced is None else f"{run.synced:.1f}",
            *(run.requests, run.pages, f"{run.size / 1e6:.1f}", run.objects, run.events, run.expired),
        )
        for run in runs
    ]
    return "\n".join(" | ".join(map(str, row)) for row in (columns, *rows))


@pytest.mark.long
async def test_only_the_paged_strategy_starts_its_watch_too_late(
    plane: ControlPlane, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal, "PATIENCE_SECONDS", PATIENCE_SECONDS)
    async with asyncio.TaskGroup() as tasks:
        rehearsing = {strategy: tasks.create_task(rehearse(plane, strategy)) for strategy in STRATEGIES}
        # A new apiserver ends a streamed list if ten events come before it is sent, so the writes start later.
        await asyncio.wait([task for name, task in rehearsing.items() if name not in (PAGED.name, PARALLEL.name)])
        with writing(plane):
            await asyncio.wait([rehearsing[PAGED.name], rehearsing[PARALLEL.name]])
    runs = {strategy: task.result() for strategy, task in rehearsing.items()}
    with capsys.disabled():
        print(
            f"\n{COUNT:,} pods on a real apiserver, whose cache turns over during each list:\n{table([*runs.values()])}"
        )
    assert {name: run.expired for name, run in runs.items()} == dict.fromkeys(STRATEGIES, 0) | {PAGED.name: 1}
    assert {name: run.objects for name, run in runs.items()} == dict.fromkeys(STRATEGIES, COUNT) | {TAIL.name: 0}
    assert {name: run.by for name, run in runs.items()} == {name: name for name in STRATEGIES}
    assert all(run.failure is None for run in runs.values())
    paged, parallel = runs[PAGED.name], runs[PARALLEL.name]
    assert paged.expired_watches == 1
    assert (paged.pages, parallel.pages) == (2 * PAGES, PAGES)
    assert parallel.events >= LEAST_EVENTS
