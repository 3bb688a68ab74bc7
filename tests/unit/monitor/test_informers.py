"""Pages of programs and of apiservers are read, and compared with the watches that run."""

import asyncio
from collections.abc import Callable
from typing import Any, Self

import pytest

from tests.unit.monitor.cluster import CONFIGMAPS, GONE, NODES, PODS, Cluster, Log
from tests.unit.monitor.inside import Running, config, running
from watchslo.kube.refusal import TakePiece
from watchslo.monitor.informers import client_reader, informer_set
from watchslo.monitor.informers.client_reader import GARBLED, NO_INFORMERS, READ_SECONDS
from watchslo.monitor.informers.informer_set import MOST_PROCESSES, RESOLVE_SECONDS
from watchslo.snapshot import ClientReading, InformerReading, StoreVerdict
from watchslo.watch.failure import Failure, Reason, because

MANAGER = {"name": "manager", "url": "http://10.0.0.9/metrics"}
NEVER = {"current": 0, "stale": 0, "unknown": 0}
JUDGED_SECONDS = 2 * READ_SECONDS  # a page is read and judged by then


def page(store: int, resource: str = "pods", more: str = "") -> bytes:
    labels = f'group="",name="manager",resource="{resource}",version="v1"'
    text = f"informer_queued_items{{{labels}}} 2\ninformer_store_resource_version{{{labels}}} {store}\n{more}"
    return f"process_start_time_seconds 1700000000\n{text}".encode()


class Program:
    """A program with informers; `page` makes its page, and `failure` is why it cannot be read."""

    def __init__(self) -> None:
        self.page: Callable[[], bytes] = lambda: b""
        self.failure: Failure | None = None
        self.asked: list[tuple[str, object]] = []
        self.addresses: tuple[str, ...] = ()
        self.reached: list[str | None] = []

    def __call__(self, url: str, credentials: object, *_: Any, address: str | None, **__: Any) -> Self:
        self.asked.append((url, credentials))
        self.reached.append(address)
        return self

    async def processes(self, url: str) -> tuple[str, ...]:
        assert url.startswith("http")
        return self.addresses

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def read(self, take: TakePiece) -> tuple[float, float] | Failure:
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(0.01)
        if self.failure is not None:
            return self.failure
        await take(self.page())
        return began, asyncio.get_running_loop().time()


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    made = Program()
    monkeypatch.setattr(client_reader, "PageClient", made)
    monkeypatch.setattr(informer_set, "processes_of", made.processes)
    return made


def reading(run: Running) -> ClientReading:
    (found,) = run.snapshot().clients
    return found


async def test_cache_that_lacks_an_event_is_stale_and_catches_up(cluster: Cluster, program: Program) -> None:
    store = cluster.revision
    program.page = lambda: page(store)
    async with running(config("pods", clients=[MANAGER])) as run:
        await asyncio.sleep(JUDGED_SECONDS)
        assert [informer.verdict for informer in reading(run).informers] == ["current"]
        cluster.write(PODS)
        await asyncio.sleep(JUDGED_SECONDS)
        (stale,) = reading(run).informers
        assert (stale.verdict, stale.queued) == ("stale", 2)
        assert stale.staleness is not None
        assert 1.0 < stale.staleness.lower <= stale.staleness.upper < JUDGED_SECONDS
        store = cluster.revision
        await asyncio.sleep(JUDGED_SECONDS)
        (current,) = reading(run).informers
    assert current.staleness is not None
    assert (current.verdict, current.staleness.upper) == ("current", 0.0)


async def test_quiet_resource_is_never_stale_while_others_change(cluster: Cluster, program: Program) -> None:
    store = cluster.revision
    program.page = lambda: page(store)
    async with running(config("pods", "nodes", clients=[MANAGER])) as run:
        for _ in range(60):
            cluster.write(NODES)
            await asyncio.sleep(2)
        reads = reading(run).reads
    assert reads["stale"] == 0
    assert reads["current"] > 8


async def test_apiserver_is_a_client_if_its_page_has_informers(cluster: Cluster) -> None:
    cluster.metrics = lambda _: page(cluster.revision)
    async with running(config("pods", kubernetes={"apiserverMetrics": True}), start=60) as run:
        found = reading(run)
        figures = run.snapshot().apiservers[0].own_metrics
    assert found.client == "kube-apiserver/service"
    assert [informer.verdict for informer in found.informers] == ["current"]
    assert figures is not None
    assert figures.obstacle is None, "its other lines are read all the same"


async def test_apiserver_without_informers_is_no_client(cluster: Cluster) -> None:
    cluster.metrics = lambda _: b"process_start_time_seconds 1700000000\n"
    async with running(config("pods", kubernetes={"apiserverMetrics": True}), start=60) as run:
        assert run.snapshot().clients == ()


@pytest.mark.parametrize(
    ("body", "message", "reads"),
    [
        (b"<html>", NO_INFORMERS, {"unknown": 1}),
        (page(100, more='informer_queued_items{resource="pods"} x\n'), GARBLED.format(1), {"current": 1}),
    ],
)
async def test_odd_page_is_an_obstacle_that_is_logged_once(
    program: Program, log: Log, body: bytes, message: str, reads: dict[str, int]
) -> None:
    program.page = lambda: body
    async with running(config("pods", clients=[MANAGER]), start=10 * READ_SECONDS) as run:
        found = reading(run)
    assert found.obstacle == message
    assert {verdict for verdict, count in found.reads.items() if count} == reads.keys()
    assert [(failure["client"], failure["message"]) for failure in log.of("client_page_failed")] == [
        ("manager", message)
    ]


async def test_program_that_does_not_answer_is_asked_in_turn_and_reported(program: Program, log: Log) -> None:
    program.failure = because(Reason.REFUSED)
    async with running(config("pods", clients=[MANAGER]), start=60) as run:
        failed = reading(run)
        program.failure, program.page = None, lambda: page(100)
        await asyncio.sleep(JUDGED_SECONDS)
        works = reading(run)
    assert failed.obstacle
    assert failed.reads["unknown"] in (5, 6), "one in ten seconds"
    assert works.obstacle is None
    assert log.of("recovered")


async def test_resource_without_a_watch_of_all_its_objects_is_not_judged(program: Program) -> None:
    program.page = lambda: page(100, "configmaps")
    watches = [{"resource": "configmaps", "namespace": "default"}, {"resource": "nodes"}]
    async with running(config(watch=watches, clients=[MANAGER]), start=60) as run:
        found = reading(run)
    assert found.unknown == {"unwatched": 1}
    assert found.informers == ()


async def test_watch_that_is_closed_judges_nothing(cluster: Cluster, program: Program) -> None:
    program.page = lambda: page(cluster.revision)
    async with running(config("pods", "nodes", clients=[MANAGER]), start=40) as run:
        cluster.fail(Reason.FORBIDDEN, "watch")
        cluster.fail(Reason.FORBIDDEN, "list")
        for watch in [*cluster.watches]:
            watch.send()
        await asyncio.sleep(2 * JUDGED_SECONDS)
        found = reading(run)
    assert found.unknown == {"own_watch": 1}
    assert [informer.staleness for informer in found.informers] == [None]


async def test_reload_changes_which_programs_are_read(cluster: Cluster, program: Program) -> None:
    program.page = lambda: page(cluster.revision)
    other = {"name": "other", "url": "https://10.0.0.8/metrics", "authorization": "kubernetes"}
    async with running(config("pods", clients=[MANAGER]), start=30) as run:
        run.supervisor.configure(config("pods", clients=[MANAGER, other]))
        await asyncio.sleep(JUDGED_SECONDS)
        both = [client.client for client in run.snapshot().clients]
        run.supervisor.configure(config("nodes", clients=[other]))
        await asyncio.sleep(JUDGED_SECONDS)
        second = reading(run)
        run.supervisor.configure(config("nodes", clients=[other], paused=True))
        await asyncio.sleep(1)
        asked = len(program.asked)
        await asyncio.sleep(60)
        assert run.snapshot().clients == ()
    assert both == ["manager", "other"]
    assert (second.client, second.unknown) == ("other", {"unwatched": 1})
    assert len(program.asked) == asked == 2
    assert [(url, credentials is None) for url, credentials in program.asked] == [
        (MANAGER["url"], True),
        (other["url"], False),
    ]


async def test_each_process_behind_a_name_is_a_client_as_long_as_it_is_there(
    cluster: Cluster, program: Program
) -> None:
    program.page = lambda: page(cluster.revision)

    def names(run: Running) -> list[str]:
        return sorted(client.client for client in run.snapshot().clients)

    async with running(config("pods", clients=[MANAGER]), start=30) as run:
        assert names(run) == ["manager"]
        program.addresses = ("10.0.0.1", "10.0.0.2")
        await asyncio.sleep(RESOLVE_SECONDS)
        assert names(run) == ["manager@10.0.0.1", "manager@10.0.0.2"]
        program.addresses = ("10.0.0.2", "10.0.0.3")
        await asyncio.sleep(RESOLVE_SECONDS)
        assert names(run) == ["manager@10.0.0.2", "manager@10.0.0.3"]
        program.addresses = ("10.0.0.3",)
        await asyncio.sleep(RESOLVE_SECONDS)
        assert names(run) == ["manager"]
        program.addresses = tuple(f"10.0.1.{number}" for number in range(MOST_PROCESSES + 1))
        await asyncio.sleep(RESOLVE_SECONDS)
        assert len(names(run)) == MOST_PROCESSES
        run.supervisor.configure(config("pods"))
        await asyncio.sleep(RESOLVE_SECONDS)
        assert names(run) == []
    assert program.reached[:5] == [None, "10.0.0.1", "10.0.0.2", "10.0.0.3", None], "one that stays is read on"


async def test_relist_makes_earlier_revisions_unknown(cluster: Cluster, program: Program) -> None:
    store = cluster.revision
    program.page = lambda: page(store)
    async with running(config("pods", "configmaps", clients=[MANAGER]), start=40) as run:
        for _ in range(5):
            cluster.write(CONFIGMAPS)
        cluster.send(PODS, GONE)
        await asyncio.sleep(2 * JUDGED_SECONDS)
        found = reading(run)
    assert found.informers == (InformerReading("", "pods", StoreVerdict.UNKNOWN, None, 2, waits=True),)
    assert found.unknown == {"beginning": 1}
