"""Many pods, somebody who writes, and a list that takes longer than the apiserver's cache remembers.

A watch cache grows, doubling, until it holds all events of 75 seconds; what is older it forgets when it is full. Page
by page, over a slow way to a busy cluster, a list takes longer than that. Here each page waits, so that the list does,
and the last one waits until a watch from the first one's revision is refused.
"""

import asyncio
import base64
import contextlib
import itertools
import json
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
from tests.support.control_plane import ControlPlane, Etcd
from tests.support.writer import pod
from watchslo.kube.client import Client, Page, Selectors, Stream
from watchslo.kube.limiter import Limiter
from watchslo.kube.representation import Representation
from watchslo.monitor.rehearsal import Rehearsal, rehearse_once
from watchslo.watch.decode import Error
from watchslo.watch.failure import Failure
from watchslo.watch.messages import ListRequest, WatchRequest
from watchslo.watch.strategy import PAGE_SIZE, PAGED, PARALLEL, STRATEGIES, TAIL

pytestmark = pytest.mark.patient

COUNT = 25_000
PAGES = COUNT // PAGE_SIZE
PUTS_AT_ONCE = 128  # etcd takes no more
MEMORY_SECONDS = 75.0
WRITE_EVERY_SECONDS = 0.194  # of the sizes that a cache can have, 100 times a power of two, 400 are then 77.6 s

LEAST_EVENTS = 100  # that a cache remembers, whatever their age
LOOK_SECONDS = 0.5
COLLECTION = PODS.path("default")


@pytest.fixture
def plane(assets: Assets, tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane with many pods, whose apiserver has just been started and remembers nothing."""
    with Etcd(tmp_path, assets.etcd) as etcd, ControlPlane(tmp_path, assets.kube_apiserver, etcd) as plane:
        with plane.writer() as writer:
            writer.create(COLLECTION, pod(name(0)))
            uid = writer.get(f"{COLLECTION}/{name(0)}")["metadata"]["uid"]
        multiply(etcd, uid)
        plane.apiservers[0].restart()  # else it would remember what was put there, and as much again
        yield plane


def name(number: int) -> str:
    return f"pod-{number:06}"


def multiply(etcd: Etcd, uid: str) -> None:
    """Puts copies of the first pod beside it. To have the apiserver make them takes 20 s, and more where it is busy."""
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
    """Each first one of a pair by its second, which is as long."""
    for old, new in pairs:
        text = text.replace(old, new)
    return text


def call(etcd: Etcd, method: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(f"{etcd.url}/v3/kv/{method}", json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


@contextlib.contextmanager
def writing(plane: ControlPlane) -> Iterator[None]:
    """Somebody changes a pod now and then, and never catches up."""
    over = threading.Event()

    def write() -> None:
        random = Random(COUNT)
        with plane.writer() as writer:
            for version in itertools.count():
                began = time.monotonic()
                change = {"metadata": {"annotations": {"version": str(version)}}}
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
    """Takes its time over the pages of its first list: it asks for the last one when the start of the list is history.

    All else it asks for at once.
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
        while self._pages == PAGES - 1 and not await self._forgotten():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(LOOK_SECONDS)

    async def _forgotten(self) -> bool:
        """Whether a watch from the first page's revision gets a 410."""
        request = WatchRequest(self._first, timeout=60)
        async with self.watch(PODS, None, Selectors(), request, Representation.TABLE) as stream:
            if not isinstance(stream, Stream):
                return False  # the apiserver is late
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
    "events meanwhile": lambda run: f"{run.events:,}",
    "410s": lambda run: f"{run.expired}",
}


def table(runs: list[Rehearsal]) -> str:
    lines = [list(COLUMNS), *([column(run) for column in COLUMNS.values()] for run in runs)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


@pytest.mark.timeout(1200)
async def test_only_paged_starts_its_watch_too_late(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    async with asyncio.TaskGroup() as tasks:
        rehearsing = {strategy: tasks.create_task(rehearse(plane, strategy)) for strategy in STRATEGIES}
        # A new apiserver ends a streamed list where ten events come before it has been sent, however slow the machine.
        await asyncio.wait([task for name, task in rehearsing.items() if name not in (PAGED.name, PARALLEL.name)])
        with writing(plane):
            await asyncio.wait([rehearsing[PAGED.name], rehearsing[PARALLEL.name]])
    runs = {strategy: task.result() for strategy, task in rehearsing.items()}
    with capsys.disabled():
        print(f"\n{COUNT:,} pods on a real apiserver, whose cache turns over meanwhile:\n{table([*runs.values()])}")
    assert {name: run.expired for name, run in runs.items()} == dict.fromkeys(STRATEGIES, 0) | {PAGED.name: 1}
    assert {name: run.objects for name, run in runs.items()} == dict.fromkeys(STRATEGIES, COUNT) | {TAIL.name: 0}
    assert {name: run.by for name, run in runs.items()} == {name: name for name in STRATEGIES}
    assert all(run.failure is None for run in runs.values())
    paged, parallel = runs[PAGED.name], runs[PARALLEL.name]
    assert paged.expired_watches == 1
    assert (paged.pages, parallel.pages) == (2 * PAGES, PAGES)
    assert parallel.events >= LEAST_EVENTS
