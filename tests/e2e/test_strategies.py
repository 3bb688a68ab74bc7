"""List strategies: rehearsals against real and simulated apiservers, also where the watch cache turns over."""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import pty
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tests.contract.backend import CURRENT
from tests.contract.cluster import PODS, RealCluster, connection
from tests.contract.watch import frames
from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane, Etcd, write_kubeconfig
from tests.support.daemon import WATCHSLO, Simulator, watchslo
from tests.support.process import PATIENCE_SECONDS
from tests.support.writer import configmap, given_up, pod
from watchslo.kube.client import Client, Page, Selectors, WatchResponse
from watchslo.kube.limiter import Limiter
from watchslo.kube.representation import Representation
from watchslo.monitor import rehearsal
from watchslo.monitor.rehearsal import Rehearsal, rehearse_once
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


@pytest.fixture(scope="module", autouse=True)
def turned_over(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """A rehearsal in which each list takes longer than the headroom; it is slow and runs parallel to the others."""
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


def test_several_resources_are_rehearsed_together(full: ControlPlane) -> None:
    done = watchslo(
        *("rehearse", "configmaps", "namespaces", "--strategy", "paged", "--repeat", "2"),
        *("--kubeconfig", full.kubeconfig()),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Use paged. ") == 2
    assert "in 2 of 2 runs" in done.stdout
    assert "namespaces, " in done.stdout
    assert NAMESPACE not in done.stdout, "no object is named"


def test_apiserver_without_streamed_lists_falls_back_to_pages(full_old: ControlPlane) -> None:
    arguments = ("configmaps", "-n", NAMESPACE, "--strategy", "paged", "--strategy", "stream")
    answer = rehearsed(full_old.kubeconfig(), *arguments)
    paged, stream = answer["runs"]
    assert (stream["by"], stream["fellBack"], stream["requests"]) == ("paged", True, 5)
    assert stream["objects"] == paged["objects"] == OBJECTS
    assert answer["use"] == "paged"
    assert "(stream: fell back to pages, as the apiserver streams no lists)" in answer["why"]


TRIES = 4  # a list of the apiserver itself at the same moment leaves nothing proven


@pytest.mark.parametrize(("plane", "pages"), [("full", "watch cache"), ("full_old", "etcd")])
def test_counters_of_the_apiserver_prove_where_lists_are_read(
    request: pytest.FixtureRequest, plane: str, pages: str
) -> None:
    expected = {"tail": pages, "paged": pages, "cache": "watch cache", "relist": "watch cache", "relist-paged": pages}
    chosen = [argument for name in expected for argument in ("--strategy", name)]
    kubeconfig, unproven = request.getfixturevalue(plane).kubeconfig(), {*expected}
    for _ in range(TRIES):
        answer = rehearsed(kubeconfig, "configmaps", "-n", NAMESPACE, *chosen)
        sources = {run["strategy"]: run["source"] for run in answer["runs"]}
        assert {name: source["lists"] for name, source in sources.items()} == expected
        assert all(run["apiserver"]["memoryAfter"] > 0 for run in answer["runs"])
        assert [run["objects"] for run in answer["runs"]] == [0, *[OBJECTS] * 4]
        unproven -= {name for name, source in sources.items() if source["evidence"] == "metrics"}
        if not unproven:
            break
    assert not unproven


def test_settings_change_what_is_sent_and_not_which_objects(full: ControlPlane) -> None:
    varied = ("--strategy", "paged", "--strategy", "watch-zero", "--representation", "all", "--gzip")
    answer = rehearsed(full.kubeconfig(), "configmaps", "-n", NAMESPACE, *varied, "--page-size", "50")
    sizes = {run["variant"]["label"]: run["bytes"] for run in answer["runs"]}
    assert sizes["paged, table"] < sizes["paged"]
    assert sizes["paged, protobuf"] < sizes["paged"]
    assert sizes["paged, gzip"] < sizes["paged"] / 2
    assert all(run["objects"] == OBJECTS and run["synced"] is not None for run in answer["runs"])
    assert all(run["variant"]["sentAs"] == run["variant"]["representation"] for run in answer["runs"])
    assert {run["pages"] for run in answer["runs"] if run["variant"]["pageSize"] == 50} == {OBJECTS // 50}


def test_all_resources_have_a_recommendation_or_a_reason(full: ControlPlane) -> None:
    options = ("--all", "--strategy", "paged", "--exclude", "configmaps", "--kubeconfig", full.kubeconfig())
    done = watchslo("rehearse", *options, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    answers = {f"{answer['resource']}.{answer['group']}": answer for answer in json.loads(done.stdout)}
    assert "configmaps." not in answers
    assert answers["namespaces."]["use"] == "paged"
    assert all(answer["use"] or answer["skipped"] for answer in answers.values())
    assert NAMESPACE not in done.stdout, "no object is named"


def test_more_objects_than_the_limit_are_refused(full: ControlPlane) -> None:
    done = watchslo(
        *("rehearse", "configmaps", "-n", NAMESPACE, "--max-objects", "1000", "--kubeconfig", full.kubeconfig())
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "watchslo: configmaps: there are 1,100 objects, and each rehearsal lists them all; "
        "pass --max-objects 1100 if the apiserver can handle that\n"
    )


def test_ctrl_c_prints_the_finished_rehearsals(full: ControlPlane) -> None:
    """Ctrl-C comes once the progress bar shows the second strategy."""
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
        out, _ = rehearsing.communicate(timeout=PATIENCE_SECONDS)
    assert (rehearsing.returncode, b"Traceback" in shown) == (130, False)
    shown_strategies = out.splitlines()[1].split()  # those that ended before
    assert shown_strategies == ["tail", *INFORMERS][: len(shown_strategies)]
    assert shown_strategies
    assert out.endswith("No recommendation: the rehearsal ended before all runs were done.\n")


def _drain(terminal: int) -> bytes:
    """Return the rest of the output, until the other side of the terminal is closed."""
    said = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(terminal, 65536):
            said += chunk
    os.close(terminal)
    return said


def test_short_headroom_excludes_the_paged_strategy(turned_over: subprocess.Popen[str]) -> None:
    out, err = turned_over.communicate(timeout=PATIENCE_SECONDS)
    assert (turned_over.returncode, err) == (0, "")
    (answer,) = json.loads(out)
    paged, stream = answer["runs"]
    assert paged["expired"]["watch"] > 0
    assert stream["synced"] is not None
    assert answer["use"] == "stream"
    assert "(paged: 410 when the watch opened)" in answer["why"]


# A cache that turns over while the list is read


COUNT = 25_000
PAGES = COUNT // PAGE_SIZE
PUTS_AT_ONCE = 128  # etcd takes no more
MEMORY_SECONDS = 75.0
WRITE_EVERY_SECONDS = 0.194  # a cache holds 100 changes times a power of two: 400 changes then are 77.6 s

LEAST_EVENTS = 100  # a cache keeps at least 100 changes of any age
LOOK_SECONDS = 0.5
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
    over = threading.Event()

    def write() -> None:
        random = Random(COUNT)
        with plane.writer() as writer:
            for version in itertools.count():
                began = time.monotonic()
                change = {"metadata": {"annotations": {"version": str(version)}}}
                with given_up():
                    writer.patch(f"{COLLECTION}/{name(random.randrange(COUNT))}", change)
                if over.wait(max(0.0, began + WRITE_EVERY_SECONDS - time.monotonic())):
                    return

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


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
        request = WatchRequest(self._first, timeout=60)
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


Column = Callable[[Rehearsal], str]
COLUMNS: dict[str, Column] = {
    "strategy": lambda run: run.strategy,
    "s to synced": lambda run: "never" if run.synced is None else f"{run.synced:.1f}",
    "requests": lambda run: f"{run.requests}",
    "pages": lambda run: f"{run.pages}",
    "MB": lambda run: f"{run.size / 1e6:.1f}",
    "objects": lambda run: f"{run.objects:,}",
    "events during it": lambda run: f"{run.events:,}",
    "410s": lambda run: f"{run.expired}",
}


def table(runs: list[Rehearsal]) -> str:
    lines = [list(COLUMNS), *([column(run) for column in COLUMNS.values()] for run in runs)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


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
