"""What is done for readers, in which order, and for which of them: the application on ASGI, without sockets."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from starlette.types import ASGIApp, Message

from tests.unit.serve import readings
from watchslo.serve import admission_control, http
from watchslo.serve.auth import Authorize, Bearer
from watchslo.serve.auth_cache import AccessDecision
from watchslo.serve.exposition import MetricsEncoder
from watchslo.serve.feed import Feed
from watchslo.serve.metrics import Detail
from watchslo.serve.route import Kind
from watchslo.snapshot import Snapshot

SERIES = "/api/v1/series?resource=jobs"
N = 40


class Request:
    """One request, and what its client does."""

    def __init__(self, app: ASGIApp, path: str, address: str = "10.0.0.1", token: str = "") -> None:
        path, _, query = path.partition("?")
        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        self.scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "query_string": query.encode(),
            "root_path": "",
            "headers": headers,
            "client": (address, 1),
            "state": {"drop": self.leave},
        }
        self.sent: list[Message] = []
        self.begun = asyncio.Event()
        self._gone = asyncio.Event()
        self.answering = asyncio.ensure_future(app(self.scope, self._receive, self._send))

    def leave(self) -> None:
        """Close the connection."""
        self._gone.set()

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    async def answered(self) -> int:
        """Return the status, once the answer has ended."""
        await self.answering
        return self.status

    async def _receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self.sent.append(message)
        self.begun.set()


class Instance:
    """An application. Queries note in `order` that they begin; they wait in the thread until `gate` is set."""

    def __init__(self, authorize: Authorize | None = None) -> None:
        self.feed = Feed()
        self.feed._observe(readings.SNAPSHOT)
        self.order: list[str] = []
        self.gate = threading.Event()
        self.is_busy = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._figures = self.feed.timeline.series.figures
        self.feed.timeline.series.figures = self._noted  # type: ignore[method-assign,assignment]
        self._latest = readings.SNAPSHOT
        self.app = http.create_app(self._snapshot, lambda: None, MetricsEncoder(Detail.BASIC), self.feed, authorize)
        self._requests: list[Request] = []

    async def _snapshot(self) -> Snapshot:
        return self._latest

    def _noted(self, *arguments: Any) -> Any:
        self.order.append("query")
        self._loop.call_soon_threadsafe(self.is_busy.set)
        assert self.gate.wait(60)
        return self._figures(*arguments)

    def get(self, *arguments: Any, **options: Any) -> Request:
        request = Request(self.app, *arguments, **options)
        self._requests.append(request)
        return request

    async def note(self, name: str, done: Awaitable[Any]) -> None:
        await done
        self.order.append(name)

    async def close(self) -> None:
        self.gate.set()
        self.feed.close()
        for request in self._requests:
            request.leave()
        await asyncio.gather(*(request.answering for request in self._requests))


Made = Callable[..., Instance]


@pytest.fixture
async def made() -> AsyncIterator[Made]:
    instances: list[Instance] = []

    def make(authorize: Authorize | None = None) -> Instance:
        instances.append(Instance(authorize))
        return instances[-1]

    yield make
    for instance in instances:
        await instance.close()


async def turns(count: int = 50) -> None:
    """Let all tasks continue until they wait."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_queries_of_clients_that_have_gone_never_begin(made: Made) -> None:
    instance = made()
    queries = [instance.get(SERIES, f"10.0.0.{number}") for number in range(N)]
    await instance.is_busy.wait()
    await turns()
    for query in queries:
        query.leave()
    await turns()
    instance.gate.set()
    assert await instance.get("/metrics", "10.0.1.1").answered() == 200
    assert await instance.get(SERIES, "10.0.1.1").answered() == 200
    assert instance.order == ["query"] * 2  # the one that was under way, and the last
    assert not any(query.sent for query in queries)


async def test_answers_to_clients_that_have_gone_are_freed_without_the_collector(made: Made) -> None:
    """What is garbage in a cycle when others are left out of collections stays for an hour."""
    instance = made()
    gc.collect()
    gc.disable()
    try:
        query = instance.get(SERIES)
        await instance.is_busy.wait()
        query.leave()
        await query.answering
        await turns()
        assert not [one for one in gc.get_objects() if isinstance(one, admission_control._Answer)]
    finally:
        gc.enable()


@pytest.mark.parametrize("clients", [1, N])
async def test_scrapes_and_observations_do_not_wait_for_queries(made: Made, clients: int) -> None:
    instance = made()
    queries = [instance.get(SERIES, f"10.0.0.{number % clients}") for number in range(N)]
    await instance.is_busy.wait()
    await turns()
    scrape = asyncio.create_task(instance.note("scrape", instance.get("/metrics", "10.0.0.1").answered()))
    await turns()
    instance.feed.observe(replace(readings.SNAPSHOT, at_wall=readings.SNAPSHOT.at_wall + 5))
    observed = instance.feed._observing
    assert observed is not None
    observation = asyncio.create_task(instance.note("observation", asyncio.wrap_future(observed)))
    assert await instance.get("/healthz").answered() == 200
    instance.gate.set()
    await asyncio.gather(scrape, observation)
    assert len(instance.order) < N
    assert [await query.answered() for query in queries] == [200] * N
    assert instance.order.count("query") == N


async def test_query_of_another_client_waits_for_one_query_of_each_client(made: Made) -> None:
    instance = made()
    queries = [instance.get(SERIES) for _ in range(N)]
    await instance.is_busy.wait()
    await turns()
    other = asyncio.create_task(instance.note("other", instance.get(SERIES, "10.0.0.2").answered()))
    await turns()
    instance.gate.set()
    await asyncio.gather(other, *(query.answered() for query in queries))
    assert instance.order.index("other") < N / 2


async def test_client_with_more_than_its_share_gets_503(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(admission_control.MOST, Kind.QUERY, 3)
    instance = made()
    queries = [instance.get(SERIES) for _ in range(4)]
    assert await queries[3].answered() == 503
    assert queries[3].body == f'{{"detail":"{admission_control._TOO_MANY}"}}'.encode()
    assert (b"retry-after", b"1") in queries[3].sent[0]["headers"]
    others = [instance.get(SERIES, "10.0.0.2") for _ in range(2)]
    assert [await queries[2].answered(), await others[1].answered()] == [503, 503]
    await instance.is_busy.wait()
    instance.gate.set()
    kept = queries[0], queries[1], others[0]
    assert [await query.answered() for query in kept] == [200] * 3
    assert [await instance.get(SERIES).answered() for _ in range(4)] == [200] * 4, "the places are free again"


async def test_feeds_are_shared_by_ending_the_newest_of_the_client_with_most(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(admission_control.MOST, Kind.FEED, 2)
    instance = made()
    first, second = instance.get("/api/v1/events"), instance.get("/api/v1/events")
    await first.begun.wait()
    await second.begun.wait()
    assert await instance.get("/api/v1/events").answered() == 503
    other = instance.get("/api/v1/events", "10.0.0.2")
    await other.begun.wait()
    await second.answering  # its connection was dropped
    assert (second.status, other.status, first.answering.done()) == (200, 200, False)
    assert not any(message["type"] == "http.response.start" for message in second.sent[1:])
    assert await instance.get("/api/v1/events", "10.0.0.3").answered() == 503
    first.leave()
    await first.answering
    assert len(instance.feed._readers) == 1


async def test_answer_under_way_is_given_up_without_a_way_to_drop_it(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(admission_control.MOST, Kind.FEED, 2)
    instance = made()
    feeds = [instance.get("/api/v1/events") for _ in range(2)]
    feeds[1].scope["state"].clear()
    for feed in feeds:
        await feed.begun.wait()
    instance.get("/api/v1/events", "10.0.0.2")
    await feeds[1].answering
    assert not feeds[0].answering.done()


async def test_token_identifies_a_client_if_access_is_checked(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    async def authorize(_: Bearer, __: str) -> AccessDecision:
        return AccessDecision.ALLOWED

    monkeypatch.setitem(admission_control.MOST, Kind.FEED, 2)
    instance = made(authorize)
    feeds = [instance.get("/api/v1/events", f"10.0.0.{number}", token="one") for number in range(2)]
    for feed in feeds:
        await feed.begun.wait()
    assert await instance.get("/api/v1/events", "10.0.0.9", token="one").answered() == 503
    other = instance.get("/api/v1/events", "10.0.0.1", token="other")
    await other.begun.wait()
    assert other.status == 200


async def test_failure_of_an_endpoint_is_raised(made: Made) -> None:
    instance = made()
    instance.feed.timeline.series.figures = None  # type: ignore[assignment,method-assign]
    request = instance.get(SERIES)
    with pytest.raises(TypeError):
        await request.answering
    instance._requests.remove(request)
    assert request.status == 500
