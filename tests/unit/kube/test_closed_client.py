"""A client whose apiserver has left: each request returns a value, and none of them blames the apiserver."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import DefaultResolver

from tests.unit.kube.conftest import CHUNKED, Known, Server, chunk, connection_to
from watchslo.kube.call import Selectors
from watchslo.kube.client import CLOSED, Client
from watchslo.kube.limiter import Limiter, RequestClass
from watchslo.kube.representation import Representation
from watchslo.model import Resource
from watchslo.watch.failure import Action, CloseClass
from watchslo.watch.messages import ListRequest, WatchRequest

PODS = Resource("", "v1", "pods", namespaced=True)


async def ignore(_: bytes) -> None:
    """Take a piece of a page."""


async def opened_watch(client: Client) -> object:
    async with client.watch(PODS, None, Selectors(), WatchRequest(1, 300), Representation.TABLE) as opened:
        return opened


async def confirmed_list(client: Client) -> object:
    return await client.list_page(PODS, None, Selectors(shard="x"), ListRequest(), Representation.PLAIN)


REQUESTS: dict[str, Callable[[Client], Awaitable[object]]] = {
    "read_nothing": lambda client: client.read_nothing(PODS, "default", "tick"),
    "read_cache": lambda client: client.read_cache(PODS, "default"),
    "list_page": lambda client: client.list_page(PODS, None, Selectors(), ListRequest(), Representation.PLAIN),
    "list_page of a shard": confirmed_list,
    "watch": opened_watch,
    "document": lambda client: client.document("/api"),
    "create": lambda client: client.create("access_review", "/apis/x", b"{}"),
    "version": lambda client: client.version(),
    "read_metrics": lambda client: client.read_metrics(ignore),
}
request = pytest.mark.parametrize("send", REQUESTS.values(), ids=REQUESTS.keys())


class Queue(Limiter):
    """Lets no request pass until `turn` is set; `waits` is set when one waits."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.waits = asyncio.Event()
        self.turn = asyncio.Event()

    async def acquire(self, of: RequestClass) -> None:  # noqa: ARG002 - the method of a limiter
        self.waits.set()
        await self.turn.wait()


@request
async def test_request_that_waits_while_the_client_closes_is_not_sent(
    send: Callable[[Client], Awaitable[object]], server: Server, known: Known
) -> None:
    queue = Queue()
    async with Client(connection_to(server.url, known), queue, known.observe) as client:
        waiting = asyncio.ensure_future(send(client))
        await queue.waits.wait()
    queue.turn.set()
    assert await waiting is CLOSED
    assert (server.requests, client.requests) == ([], {})
    assert client.responsiveness.silence(1e9) == 0.0


@request
async def test_request_after_the_client_was_closed_is_not_sent(
    send: Callable[[Client], Awaitable[object]], server: Server, client: Client
) -> None:
    await client.__aexit__()
    client._pool._renew_at = 0.0  # new connections would serve it
    client.hang_up()
    assert await send(client) is CLOSED
    assert (server.requests, client.requests) == ([], {})


@pytest.mark.parametrize("name", ["read_nothing", "list_page", "create", "version", "read_metrics"])
@pytest.mark.parametrize("begun", [False, True])
async def test_request_in_flight_is_broken_off_by_us(
    name: str,
    begun: bool,  # noqa: FBT001
    server: Server,
    client: Client,
) -> None:
    sends, over = asyncio.Event(), asyncio.Event()

    async def begin(writer: asyncio.StreamWriter) -> None:
        media = b"text/plain" if name == "read_metrics" else b"application/json"
        writer.write((CHUNKED.replace(b"application/json", media) + chunk(b"{")) if begun else b"")
        sends.set()
        await over.wait()

    server.script = [begin]
    waiting = asyncio.ensure_future(REQUESTS[name](client))
    await sends.wait()
    await client.__aexit__()
    over.set()
    assert await waiting is CLOSED


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Resolve no name; the event is set when one is to be resolved."""
    asked = asyncio.Event()

    async def resolve(*_: object, **__: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(DefaultResolver, "resolve", resolve)
    return asked


async def test_request_whose_name_is_being_resolved_is_broken_off_by_us(known: Known, asked: asyncio.Event) -> None:
    async with Client(connection_to("http://apiserver.test", known), Limiter(100), known.observe) as client:
        waiting = asyncio.ensure_future(client.version())
        await asked.wait()
    assert await waiting is CLOSED


async def test_cancelled_request_stays_cancelled_if_the_client_is_closed_too(
    known: Known, asked: asyncio.Event
) -> None:
    async with Client(connection_to("http://apiserver.test", known), Limiter(100), known.observe) as client:
        waiting = asyncio.ensure_future(client.version())
        await asked.wait()
        waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_closed_client_is_no_failure_of_the_apiserver() -> None:
    assert (CLOSED.closed, CLOSED.action) == (CloseClass.OWN, Action.STOP)
    assert not CLOSED.concerns_clients
